"""Extracts message packets from a capture file, or from one direction of a session.

L{msmq.decoding.captures} describes every packet; this module returns only messages and their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack, unpack_from
from typing import Final

import attrs

from msmq.decoding.captures import SESSION_PORT
from msmq.decoding.frames import Address, is_known_link, read_segment
from msmq.decoding.packet_stream import begins_packet, find_beginning, measure_packet
from msmq.decoding.pcap import is_capture, read_frames
from msmq.decoding.tcp import Piece, TcpDirection
from msmq.errors import RemoteProtocolError
from msmq.structures.packet.user_message_patches import patch_session_header
from msmq.wire.framer import BASE_HEADER_SIZE, SESSION_HEADER_SIZE

_INTERNAL: Final = 0x0008
_SESSION_HEADER: Final = 0x0010


@attrs.frozen
class CapturedMessage:
    """One message on the wire.

    @ivar packet: the packet without its SessionHeader; a damaged one is unchanged.
    @ivar time: when it was complete, in seconds since 1970-01-01 UTC; C{None} if unknown.
    """

    packet: bytes = attrs.field(repr=False)
    time: float | None = None


def captured_messages(data: bytes, *, session_port: int = SESSION_PORT) -> Iterator[CapturedMessage]:
    """The messages in a pcap or pcapng file, or in a plain stream of packets.

    Nothing in the input makes this raise.
    Bytes at a packet boundary that are not a packet count as a damaged packet; so does a truncated packet at
    the end of a stream, but not at the end of a capture.
    """
    if not is_capture(data):
        yield from map(CapturedMessage, _Stream(is_synchronised=True).feed(data, is_all=True))
        return
    flows: dict[tuple[Address, Address], _Flow] = {}
    try:
        for frame in read_frames(data):
            segment = read_segment(frame.link_type, frame.data) if is_known_link(frame.link_type) else None
            if segment is None or segment.sequence is None:
                continue
            key = segment.source, segment.destination
            if session_port not in (key[0][1], key[1][1]):
                continue
            flow = flows.get(key)
            if flow is not None and segment.starts and flow.direction.first != segment.sequence:
                yield from flow.end(frame.time)
                flow = None
            if flow is None:
                if not segment.data and not segment.starts:
                    continue
                flow = flows[key] = _Flow(TcpDirection(segment.sequence), _Stream(segment.starts))
            yield from flow.feed(flow.direction.add(segment.sequence, segment.data), frame.time)
    except RemoteProtocolError:
        # The file is truncated, or damaged from here on.
        pass
    for flow in flows.values():
        yield from flow.end(None)


@attrs.define
class _Flow:
    """One direction of one TCP connection."""

    direction: TcpDirection
    stream: _Stream

    def feed(self, pieces: list[Piece], time: float | None) -> Iterator[CapturedMessage]:
        """Process the next captured bytes."""
        for piece in pieces:
            if piece.missing:
                self.stream.skip()
            yield from (CapturedMessage(packet, time) for packet in self.stream.feed(piece.data))

    def end(self, time: float | None) -> Iterator[CapturedMessage]:
        """End the flow."""
        return self.feed(self.direction.give_up(), time)


class _Stream:
    """Divides the bytes of one direction into packets, and returns the messages.

    @param is_synchronised: the first byte is the beginning of a packet.
    """

    def __init__(self, is_synchronised: bool) -> None:
        self._is_synchronised = is_synchronised
        self._hold(b"")

    def skip(self) -> None:
        """Process a gap in the stream."""
        self._hold(b"")
        self._is_synchronised = False

    def _hold(self, data: bytes, needed: int = BASE_HEADER_SIZE) -> None:
        """Buffer the beginning of a packet until C{needed} bytes have arrived."""
        self._chunks = [data] if data else []
        self._held = len(data)
        self._needed = needed

    def feed(self, data: bytes, *, is_all: bool = False) -> list[bytes]:
        """Return the messages that these bytes complete.

        @param is_all: whether the stream ends after them; an incomplete packet is then damaged.
        """
        self._chunks.append(data)
        self._held += len(data)
        if self._held < self._needed and not is_all:
            return []
        data = b"".join(self._chunks)
        messages: list[bytes] = []
        position = 0
        needed = BASE_HEADER_SIZE
        while len(data) - position >= BASE_HEADER_SIZE:
            if not begins_packet(data, position):
                found = find_beginning(data, position + 1)
                if found is None and is_all:
                    break
                end = len(data) - BASE_HEADER_SIZE + 1 if found is None else found
                if self._is_synchronised:
                    messages.append(data[position:end])
                position = end
                self._is_synchronised = found is not None
                continue
            self._is_synchronised = True
            size, is_sound = _measured(data, position)
            if size > len(data) - position:
                needed = size
                break
            message = _message(data[position : position + size], is_sound)
            if message is not None:
                messages.append(message)
            position += size
        self._hold(data[position:], needed)
        if is_all and self._held:
            messages += self._chunks
        return messages


def _measured(data: bytes, position: int) -> tuple[int, bool]:
    """The size of the packet with a SessionHeader that PacketSize does not count; and whether it is valid.

    The size may exceed the available bytes.
    """
    size = int(unpack_from("<I", data, position + 8)[0])
    try:
        return measure_packet(memoryview(data)[position : position + size]), True
    except RemoteProtocolError:
        return size, False


def _message(packet: bytes, is_sound: bool) -> bytes | None:
    """The packet of a message without its SessionHeader; C{None} for a packet of the session itself."""
    (flags,) = unpack_from("<H", packet, 2)
    if flags & _INTERNAL:
        return None
    if not flags & _SESSION_HEADER or not is_sound:
        return packet
    # Some peers include the header in PacketSize; most do not.
    size = len(packet) - SESSION_HEADER_SIZE
    return patch_session_header(packet[:8] + pack("<I", size) + packet[12:], None)
