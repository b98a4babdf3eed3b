"""Captures and streams of which a copy is made that may be shared."""

from __future__ import annotations

import io
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import attrs
from dpkt import pcap

from msmq.decoding.anonymising.packets import anonymised_packet, anonymised_ping, anonymised_topology
from msmq.decoding.anonymising.pseudonyms import Pseudonyms
from msmq.decoding.captures import PING_PORT, PORTION, SESSION_PORT
from msmq.decoding.frames import Address, TcpSegment, read_segment, rewritten_frame
from msmq.decoding.inputs import BytesInput, CaptureInput, ContentKind, read_input
from msmq.decoding.packet_stream import PacketStream
from msmq.decoding.pcap import Frame
from msmq.decoding.records import Record, is_malformed
from msmq.decoding.tcp import Piece, TcpDirection
from msmq.errors import RemoteProtocolError

_RAW_IP = 101
"""LINKTYPE_RAW: frames that begin with the header of IP."""
_END_OF_TIME = 1 << 32
"""The first second since 1970-01-01 UTC that a pcap file cannot express."""


@attrs.define
class Anonymised:
    """The copy.

    @ivar data: a capture in the format pcap, or the bytes of a stream or a datagram.
    @ivar packets: packets in it.
    @ivar cleared: bytes that are zero in the copy, since no packet was recognised in them.
    @ivar omitted: frames that are not in the copy, since they belong to no session, ping or discovery, or
        are longer than a packet of IP.
    @ivar damage: why the copy ends before the capture does; empty if it does not.
    """

    data: bytes = attrs.field(default=b"", repr=False)
    packets: int = 0
    cleared: int = 0
    omitted: int = 0
    damage: str = ""


def anonymise(
    data: bytes,
    key: bytes,
    *,
    is_hex: bool = False,
    session_port: int = SESSION_PORT,
    ping_port: int = PING_PORT,
) -> Anonymised:
    """A copy of an input of L{msmq.decoding.captures.decode} without what identifies an estate.

    The frames of a capture keep their number, order, times, ports and TCP sequence numbers; they lose what is
    below IP, such as Ethernet addresses. Text and dumps become bytes, and a capture.

    @param key: of L{Pseudonyms<msmq.decoding.anonymising.pseudonyms.Pseudonyms>}.
    A damaged capture is copied up to the damage.
    @raise RemoteProtocolError: the input cannot be decompressed, is text that is not understood, or is more
        than one capture, stream or datagram.
    """
    inputs = read_input(data, is_hex=is_hex)
    if len(inputs) > 1:
        rule = f"{len(inputs)} dumps; one capture, stream or datagram is needed"
        raise RemoteProtocolError("msmq decode", "Input", "dumps", 0, rule)
    names = Pseudonyms(key)
    copy = Anonymised()
    [found] = inputs
    if isinstance(found, CaptureInput):
        copy.data = _Copier(names, copy, session_port, ping_port).copied(found.frames)
    else:
        copy.data = _copied(found, names, copy)
    return copy


def _copied(found: BytesInput, names: Pseudonyms, copy: Anonymised) -> bytes:
    if found.kind is not ContentKind.STREAM:
        return _datagram(found.data, names, copy, is_ping=found.kind is ContentKind.PING)
    stream = _Stream(PacketStream())
    for start in range(0, len(found.data), PORTION):
        stream.take(Piece(0, found.data[start : start + PORTION]))
    stream.finish(names, copy)
    return stream.part(0, len(found.data))


def _datagram(data: bytes, names: Pseudonyms, copy: Anonymised, *, is_ping: bool) -> bytes:
    try:
        other = anonymised_ping(data, names) if is_ping else anonymised_topology(data, names)
    except RemoteProtocolError:
        copy.cleared += len(data)
        return bytes(len(data))
    copy.packets += 1
    return other


class _Stream:
    """One direction of a session: what was captured of it, and then the same anonymised."""

    def __init__(self, decoder: PacketStream) -> None:
        self._decoder = decoder
        self._starts: list[int] = []
        self._runs: list[bytearray] = []
        self._end = 0
        self._packets: list[tuple[int, int]] = []

    def take(self, piece: Piece) -> None:
        """The next part in order."""
        if piece.missing:
            self._note(self._decoder.skip(piece.missing))
        if piece.missing or not self._runs:
            self._end += piece.missing
            self._starts.append(self._end)
            self._runs.append(bytearray())
        self._runs[-1] += piece.data
        self._end += len(piece.data)
        self._note(self._decoder.feed(piece.data))

    def finish(self, names: Pseudonyms, copy: Anonymised) -> None:
        """Replace the packets, and clear everything else."""
        self._note(self._decoder.end())
        cleared = [bytearray(len(run)) for run in self._runs]
        rest = sum(map(len, self._runs))
        for offset, size in self._packets:
            number = bisect_right(self._starts, offset) - 1
            at = offset - self._starts[number]
            packet = anonymised_packet(bytes(self._runs[number][at : at + size]), names)
            cleared[number][at : at + size] = packet
            rest -= size
        copy.packets += len(self._packets)
        copy.cleared += rest
        self._runs = cleared

    def part(self, offset: int, size: int) -> bytes:
        """The bytes of a segment; zeros where nothing was taken."""
        found = bytearray(size)
        first = max(0, bisect_right(self._starts, offset) - 1)
        for number in range(first, bisect_left(self._starts, offset + size)):
            start, run = self._starts[number], self._runs[number]
            begin, end = max(start, offset), min(start + len(run), offset + size)
            if begin < end:
                found[begin - offset : end - offset] = run[begin - start : end - start]
        return bytes(found)

    def _note(self, records: Iterable[Record]) -> None:
        for record in records:
            if "packet" in record and not is_malformed(record):
                self._packets.append((int(str(record["offset"])), int(str(record["size"]))))


@attrs.define
class _Flow:
    direction: TcpDirection
    stream: _Stream


class _Copier:
    """Copies the frames of a capture: first reads the streams, then writes the frames with their bytes."""

    def __init__(self, names: Pseudonyms, copy: Anonymised, session_port: int, ping_port: int) -> None:
        self._names = names
        self._copy = copy
        self._session_port = session_port
        self._ping_port = ping_port

    def copied(self, frames: Iterable[Frame]) -> bytes:
        """The capture."""
        flows: dict[tuple[Address, Address], _Flow] = {}
        done: list[_Flow] = []
        kept: list[tuple[Frame, TcpSegment, _Flow | None]] = []
        for frame in self._readable(frames):
            segment = read_segment(frame.link_type, frame.data)
            if segment is None or not self._is_ours(segment):
                self._copy.omitted += 1
                continue
            flow = None if segment.sequence is None else self._taken(segment, segment.sequence, flows, done)
            kept.append((frame, segment, flow))
        for flow in (*done, *flows.values()):
            for piece in flow.direction.give_up():
                flow.stream.take(piece)
            flow.stream.finish(self._names, self._copy)
        output = io.BytesIO()
        writer = pcap.Writer(output, snaplen=1 << 18, linktype=_RAW_IP)
        for frame, segment, flow in kept:
            written = self._frame(frame, segment, flow)
            if written is None:
                self._copy.omitted += 1
            else:
                writer.writepkt(written, ts=_written_time(frame.time))
        return output.getvalue()

    def _readable(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        try:
            yield from frames
        except RemoteProtocolError as error:
            self._copy.damage = str(error)

    def _is_ours(self, segment: TcpSegment) -> bool:
        ports = {segment.source[1], segment.destination[1]}
        return self._session_port in ports or (segment.sequence is None and self._ping_port in ports)

    def _taken(
        self,
        segment: TcpSegment,
        sequence: int,
        flows: dict[tuple[Address, Address], _Flow],
        done: list[_Flow],
    ) -> _Flow | None:
        key = segment.source, segment.destination
        flow = flows.get(key)
        if flow is not None and segment.starts and flow.direction.first != sequence:
            done.append(flow)
            flow = None
        if flow is None:
            if not segment.data and not segment.starts:
                # The reset of an earlier connection, for example, whose sequence number is unrelated.
                return None
            decoder = PacketStream(synchronised=segment.starts, is_captured=True)
            flow = flows[key] = _Flow(TcpDirection(sequence), _Stream(decoder))
        for piece in flow.direction.add(sequence, segment.data):
            flow.stream.take(piece)
        return flow

    def _frame(self, frame: Frame, segment: TcpSegment, flow: _Flow | None) -> bytes | None:
        if flow is not None and segment.sequence is not None:
            offset = (segment.sequence - flow.direction.first) & 0xFFFFFFFF
            payload = flow.stream.part(offset, len(segment.data))
        elif segment.sequence is not None:
            payload = b""
        else:
            is_ping = self._ping_port in (segment.source[1], segment.destination[1])
            payload = _datagram(segment.data, self._names, self._copy, is_ping=is_ping)
        return rewritten_frame(frame.link_type, frame.data, self._names.address, payload)


def _written_time(time: float | None) -> float:
    """The time of a frame in a pcap file; 0 for none, and for one that such a file cannot express."""
    return time if time is not None and 0 <= time < _END_OF_TIME - 1 else 0.0
