"""Decodes any input of C{msmq decode}: a raw stream, a datagram, hex text or a capture file."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence

import attrs

from msmq.decoding.datagrams_json import ping_record, topology_record
from msmq.decoding.frames import Address, TcpSegment, is_known_link, is_tunnelled, read_segment
from msmq.decoding.hex_dumps import directions, parse_dumps
from msmq.decoding.hex_text import looks_like_hex, parse_hex
from msmq.decoding.packet_stream import PacketStream
from msmq.decoding.pcap import Frame, is_capture, read_frames
from msmq.decoding.records import Record, malformed_record, note_record
from msmq.decoding.tcp import Piece, TcpDirection
from msmq.decoding.values import unix_time
from msmq.errors import RemoteProtocolError

LARGEST_INPUT = 1 << 30
"""Maximum size of a compressed input after decompression, in bytes."""

_GZIP = b"\x1f\x8b"
_ETHERNET, _RAW_IP = 1, 101
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n\v\f\r")

SESSION_PORT = 1801
"""TCP for sessions, UDP for directory discovery. [MS-MQQB] 2.1.1, [MS-MQSD] 2.1."""
PING_PORT = 3527
"""UDP. [MS-MQQB] 2.1.2."""


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
    compressed with gzip, up to L{LARGEST_INPUT} bytes. Nothing in the input makes this raise.

    @param is_hex: the input has to be hex text; anything else is malformed.
    @param session_port: in a capture, the TCP port of sessions and the UDP port of discovery.
    @param ping_port: in a capture, the UDP port of pings.
    @param with_positions: lines of packets of sessions have the positions of their fields.
    """
    options = _Options(session_port, ping_port, with_positions)
    if data[:2] == _GZIP:
        try:
            data = _inflated(data)
        except (OSError, EOFError, zlib.error) as error:
            yield malformed_record(0, RemoteProtocolError("gzip", "CaptureFile", "gzip", 0, str(error)))
            return
    text = None if is_capture(data) or _as_text(data[:4096]) is None else _as_text(data)
    dumps = None if text is None else parse_dumps(text)
    both = None if dumps is None else directions(dumps)
    if both is not None:
        for number, stream in enumerate(both, 1):
            for record in decode_stream(stream, with_positions=with_positions):
                yield {"direction": number, **record}
        return
    if dumps is not None and (len(dumps) > 1 or _link_type([dumps[0].data]) is not None):
        yield from _decode_dumps([dump.data for dump in dumps], options)
        return
    if dumps is not None:
        data = dumps[0].data
    elif is_hex or looks_like_hex(data):
        try:
            data = parse_hex(data.decode("utf-8", "replace"))
        except RemoteProtocolError as error:
            yield malformed_record(error.offset, error)
            return
    yield from _decode_bytes(data, options)


def _decode_bytes(data: bytes, options: _Options) -> Iterator[Record]:
    if is_capture(data):
        yield from _decode_frames(read_frames(data), options)
    elif data[2:4] == b"HU" and data[4:8] != b"LIOR":
        yield _datagram_record(data, is_ping=True)
    elif data[:1] == b"\0" and data[1:2] in (b"\1", b"\2"):
        yield _datagram_record(data, is_ping=False)
    else:
        yield from decode_stream(data, with_positions=options.with_positions)


def _as_text(data: bytes) -> str | None:
    """Decode an input as text, in any encoding; C{None} for binary input."""
    if data.translate(None, _CONTROLS) != data:
        return None
    return data.decode("utf-8", "replace")


def _inflated(data: bytes) -> bytes:
    with gzip.open(io.BytesIO(data)) as file:
        found = file.read(LARGEST_INPUT + 1)
    if len(found) > LARGEST_INPUT:
        raise OSError(f"more than {LARGEST_INPUT} bytes")
    return found


def _link_type(frames: Sequence[bytes]) -> int | None:
    """The link type of these frames, among those in dumps; C{None} if they are not frames."""
    for link_type in (_ETHERNET, _RAW_IP):
        if any(read_segment(link_type, frame) is not None for frame in frames):
            return link_type
    return None


def _decode_dumps(dumps: Sequence[bytes], options: _Options) -> Iterator[Record]:
    """Decode the frames of a printed capture, or several inputs of another kind in order."""
    link_type = _link_type(dumps)
    if link_type is not None:
        frames = (Frame(number, None, link_type, data) for number, data in enumerate(dumps, 1))
        yield from _decode_frames(frames, options)
        return
    for number, data in enumerate(dumps, 1):
        for record in _decode_bytes(data, options):
            yield {"frame": number, **record}


def decode_stream(data: bytes, *, with_positions: bool = False) -> Iterator[Record]:
    """Decode the bytes of one direction of a session, from the beginning of a packet."""
    stream = PacketStream(with_positions=with_positions)
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
