"""Decodes any input of C{msmq decode}: a raw stream, a datagram, hex text or a capture file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from msmq.decoding.datagrams_json import ping_record, topology_record
from msmq.decoding.frames import Address, TcpSegment, is_known_link, is_tunnelled, read_segment
from msmq.decoding.inputs import BytesInput, CaptureInput, ContentKind, read_input
from msmq.decoding.packet_stream import PacketStream
from msmq.decoding.pcap import Frame
from msmq.decoding.records import Record, malformed_record, note_record
from msmq.decoding.tcp import Piece, TcpDirection
from msmq.decoding.values import unix_time
from msmq.errors import RemoteProtocolError

SESSION_PORT = 1801
"""TCP for sessions, UDP for directory discovery. [MS-MQQB] 2.1.1, [MS-MQSD] 2.1."""
PING_PORT = 3527
"""UDP. [MS-MQQB] 2.1.2."""


PORTION: Final = 1 << 20
"""Bytes of a stream that are decoded at a time."""


@attrs.frozen
class _Options:
    session_port: int
    ping_port: int
    with_positions: bool


def decode(
    data: bytes,
    *,
    is_hex: bool = False,
    session_port: int = SESSION_PORT,
    ping_port: int = PING_PORT,
    with_positions: bool = False,
) -> Iterator[Record]:
    """Decode an input of any kind; yields a line for each packet, each malformed packet and each gap.

    A pcap or pcapng file is recognised by its first bytes, hex text by its characters; a ping or a topology
    packet may be the whole input; any other input is the byte stream of a session. Any of them may be
    compressed with gzip, up to L{LARGEST_INPUT<msmq.decoding.inputs.LARGEST_INPUT>} bytes. Nothing in the
    input makes this raise.

    @param is_hex: the input has to be hex text; anything else is malformed.
    @param session_port: in a capture, the TCP port of sessions and the UDP port of discovery.
    @param ping_port: in a capture, the UDP port of pings.
    @param with_positions: lines of packets of sessions have the positions of their fields.
    """
    options = _Options(session_port, ping_port, with_positions)
    try:
        inputs = read_input(data, is_hex=is_hex)
    except RemoteProtocolError as error:
        yield malformed_record(error.offset, error)
        return
    for each in inputs:
        if isinstance(each, CaptureInput):
            records = _decode_frames(each.frames, options)
        elif each.kind is ContentKind.STREAM:
            records = decode_stream(each.data, with_positions=with_positions)
        else:
            records = iter([_datagram_record(each.data, is_ping=each.kind is ContentKind.PING)])
        number: Record = {"frame": each.frame} if each.frame else {}
        if isinstance(each, BytesInput) and each.direction:
            number["direction"] = each.direction
        if number:
            yield from ({**number, **record} for record in records)
        else:
            yield from records


def decode_stream(data: bytes, *, with_positions: bool = False) -> Iterator[Record]:
    """Decode the bytes of one direction of a session, from the beginning of a packet."""
    stream = PacketStream(with_positions=with_positions)
    # In portions, since the lines of all packets together take many times the memory of the input.
    for start in range(0, len(data), PORTION):
        yield from stream.feed(data[start : start + PORTION])
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
        """Process a captured segment."""
        return self._feed(self.direction.add(sequence, data))

    def end(self) -> list[Record]:
        """End the flow."""
        return self._feed(self.direction.give_up()) + self.stream.end()

    def _feed(self, pieces: list[Piece]) -> list[Record]:
        records: list[Record] = []
        for piece in pieces:
            if piece.missing:
                records += self.stream.skip(piece.missing)
            records += self.stream.feed(piece.data)
        return records


def _decode_frames(frames: Iterable[Frame], options: _Options) -> Iterator[Record]:
    flows: dict[tuple[Address, Address], _Flow] = {}
    unknown_links: set[int] = set()
    has_tunnels = False
    last = Frame(0, None, 0, b"")
    try:
        for last in frames:
            if not is_known_link(last.link_type):
                if last.link_type not in unknown_links:
                    unknown_links.add(last.link_type)
                    note = f"frames of link type {last.link_type} are not supported"
                    yield {**note_record(0, note, len(last.data)), "frame": last.number}
                continue
            segment = read_segment(last.link_type, last.data)
            if segment is None:
                if not has_tunnels and is_tunnelled(last.link_type, last.data):
                    has_tunnels = True
                    note = "packets in GRE tunnels are not supported"
                    yield {**note_record(0, note, len(last.data)), "frame": last.number}
                continue
            ports = segment.source[1], segment.destination[1]
            if segment.sequence is None:
                yield from _decode_datagram(last, segment, options)
            elif options.session_port in ports:
                yield from _decode_segment(last, segment, segment.sequence, flows, options)
    except RemoteProtocolError as error:
        yield malformed_record(error.offset, error)
    for flow in flows.values():
        yield from _placed(flow.end(), last, flow.source, flow.destination)


def _decode_datagram(frame: Frame, segment: TcpSegment, options: _Options) -> Iterator[Record]:
    ports = segment.source[1], segment.destination[1]
    if options.ping_port in ports or options.session_port in ports:
        record = _datagram_record(segment.data, is_ping=options.ping_port in ports)
        yield from _placed([record], frame, segment.source, segment.destination)


def _decode_segment(
    frame: Frame,
    segment: TcpSegment,
    sequence: int,
    flows: dict[tuple[Address, Address], _Flow],
    options: _Options,
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
        stream = PacketStream(
            synchronised=segment.starts, is_captured=True, with_positions=options.with_positions
        )
        flow = _Flow(*key, direction, stream)
        flows[key] = flow
    yield from _placed(flow.add(sequence, segment.data), frame, *key)


def _placed(records: list[Record], frame: Frame, source: Address, destination: Address) -> Iterator[Record]:
    """The lines with the frame that completed them, its time, source and destination."""
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
