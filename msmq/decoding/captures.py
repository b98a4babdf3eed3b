"""Any input of C{msmq decode}: a raw stream, a datagram, hex text or a capture file."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from msmq.decoding.datagrams_json import ping_record, topology_record
from msmq.decoding.frames import Address, TcpSegment, is_known_link, read_segment
from msmq.decoding.hex_text import looks_like_hex, parse_hex
from msmq.decoding.packet_stream import PacketStream
from msmq.decoding.pcap import Frame, is_capture, read_frames
from msmq.decoding.records import Record, malformed_record, note_record
from msmq.decoding.tcp import Piece, TcpDirection
from msmq.decoding.values import unix_time
from msmq.errors import RemoteProtocolError

SESSION_PORT = 1801
"""[MS-MQQB] 2.1.1, [MS-MQSD] 2.1: TCP for sessions, UDP for directory discovery."""
PING_PORT = 3527
"""[MS-MQQB] 2.1.2: UDP."""


def decode(
    data: bytes, *, is_hex: bool = False, session_port: int = SESSION_PORT, ping_port: int = PING_PORT
) -> Iterator[Record]:
    """Decode an input of any kind; give a line for each packet, each malformed packet and each gap.

    A pcap or pcapng file is recognised by its first bytes, hex text by holding nothing else; a ping
    or a topology packet may be the whole input; all else is the byte stream of a session.
    Nothing in the input makes this raise.

    @param is_hex: the input is hex text, and a malformed one if it is not.
    @param session_port: in a capture, the TCP port of sessions and the UDP port of discovery.
    @param ping_port: in a capture, the UDP port of pings.
    """
    if is_hex or looks_like_hex(data):
        try:
            data = parse_hex(data.decode("utf-8", "replace"))
        except RemoteProtocolError as error:
            yield malformed_record(error.offset, error)
            return
    if is_capture(data):
        yield from _decode_capture(data, session_port, ping_port)
    elif data[2:4] == b"HU" and data[4:8] != b"LIOR":
        yield _datagram_record(data, is_ping=True)
    elif data[:1] == b"\0" and data[1:2] in (b"\1", b"\2"):
        yield _datagram_record(data, is_ping=False)
    else:
        yield from decode_stream(data)


def decode_stream(data: bytes) -> Iterator[Record]:
    """Decode the bytes of one direction of a session, from the beginning of a packet."""
    stream = PacketStream()
    yield from stream.feed(data)
    yield from stream.end()


def _datagram_record(data: bytes, *, is_ping: bool) -> Record:
    try:
        return ping_record(data, 0) if is_ping else topology_record(data, 0)
    except RemoteProtocolError as error:
        return malformed_record(0, error)


@attrs.define
class _Flow:
    """One direction of one TCP connection."""

    source: Address
    destination: Address
    direction: TcpDirection
    stream: PacketStream

    def add(self, sequence: int, data: bytes) -> list[Record]:
        """A segment was captured."""
        return self._feed(self.direction.add(sequence, data))

    def end(self) -> list[Record]:
        """Nothing more of it was captured."""
        return self._feed(self.direction.give_up()) + self.stream.end()

    def _feed(self, pieces: list[Piece]) -> list[Record]:
        records: list[Record] = []
        for piece in pieces:
            if piece.missing:
                records += self.stream.skip(piece.missing)
            records += self.stream.feed(piece.data)
        return records


def _decode_capture(data: bytes, session_port: int, ping_port: int) -> Iterator[Record]:
    flows: dict[tuple[Address, Address], _Flow] = {}
    unknown_links: set[int] = set()
    last = Frame(0, None, 0, b"")
    try:
        for last in read_frames(data):
            if not is_known_link(last.link_type):
                if last.link_type not in unknown_links:
                    unknown_links.add(last.link_type)
                    note = f"frames of link type {last.link_type} are not understood"
                    yield {**note_record(0, note, len(last.data)), "frame": last.number}
                continue
            segment = read_segment(last.link_type, last.data)
            if segment is None:
                continue
            ports = segment.source[1], segment.destination[1]
            if segment.sequence is None:
                yield from _decode_datagram(last, segment, session_port, ping_port)
            elif session_port in ports:
                yield from _decode_segment(last, segment, segment.sequence, flows)
    except RemoteProtocolError as error:
        yield malformed_record(error.offset, error)
    for flow in flows.values():
        yield from _placed(flow.end(), last, flow.source, flow.destination)


def _decode_datagram(
    frame: Frame, segment: TcpSegment, session_port: int, ping_port: int
) -> Iterator[Record]:
    ports = segment.source[1], segment.destination[1]
    if ping_port in ports or session_port in ports:
        record = _datagram_record(segment.data, is_ping=ping_port in ports)
        yield from _placed([record], frame, segment.source, segment.destination)


def _decode_segment(
    frame: Frame, segment: TcpSegment, sequence: int, flows: dict[tuple[Address, Address], _Flow]
) -> Iterator[Record]:
    key = segment.source, segment.destination
    flow = flows.get(key)
    if flow is not None and segment.starts and flow.direction.first != sequence:
        yield from _placed(flow.end(), frame, *key)
        flow = None
    if flow is None:
        if not segment.data and not segment.starts:
            return
        direction = TcpDirection(sequence)
        flow = _Flow(*key, direction, PacketStream(synchronised=segment.starts, is_captured=True))
        flows[key] = flow
    yield from _placed(flow.add(sequence, segment.data), frame, *key)


def _placed(records: list[Record], frame: Frame, source: Address, destination: Address) -> Iterator[Record]:
    """The lines with the frame that completed them, its time, and who sent it to whom."""
    for record in records:
        yield {
            "frame": frame.number,
            "time": unix_time(frame.time),
            "source": _text(source),
            "destination": _text(destination),
            **record,
        }


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
