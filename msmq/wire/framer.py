"""Framing of a session's byte stream into whole packets, in linear time and bounded space."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

from msmq.errors import RemoteProtocolError

SECTION = "[MS-MQMQ] 2.2.19.1"
VERSION_NUMBER = 0x10
SIGNATURE = 0x524F494C
MAXIMUM_PACKET_SIZE = 0x00400000
"""The largest PacketSize, in bytes."""
BASE_HEADER_SIZE = 16
SESSION_HEADER_SIZE = 16
SMALLEST_USER_PACKET = 16 + 48 + 56
"""A BaseHeader, a UserHeader without names and a MessagePropertiesHeader without text."""
INTERNAL_PACKET_SIZES = frozenset({32, 36, 572})
"""ConnectionParameters, SessionAck and EstablishConnection: internal packets have no other size."""

_BASE_HEADER = Struct("<BBHIII")
_FLAGS_AND_SIZE = Struct("<HII")
_INTERNAL = 0x0008
_SESSION_HEADER = 0x0010

Frame: TypeAlias = tuple[bytes, bytes | None]
"""A whole packet, and the 16 bytes of its attached SessionHeader.

An internal packet is unchanged, and the second part is C{None}. The first part of a user packet is the form
that queues store: exactly PacketSize bytes, with no SessionHeader in it and Flags.SH clear.
"""


class StreamFramer:
    """Turns arbitrary chunks of a session's byte stream into whole packets.

    A BaseHeader is checked as soon as its 16 bytes have arrived, so nothing oversize is ever buffered
    ([MS-MQMQ] 2.2.19.1: PacketSize is at most 0x00400000).
    Each byte is copied a fixed number of times, however small the chunks.

    PacketSize of a user packet does not count an attached SessionHeader, but a peer that counts it
    is understood: when the headers end exactly 16 bytes before PacketSize, those 16 bytes are the
    SessionHeader (see the design note on framing).

    @param measure: gives the bytes up to the end of the last header that PacketSize counts; asked
        only for packets with Flags.SH; raises L{RemoteProtocolError} for a malformed packet.
    @ivar buffered: the number of bytes of an incomplete packet.
    @ivar error: the error that made the stream unreadable, once there is one; no packet follows it.
    @ivar internal_only: while true, a user packet is held back instead of being buffered to its end;
        C{user_packet_waiting} is then true once one has begun.
    """

    __slots__ = (
        "_measure",
        "_needed",
        "_partial",
        "buffered",
        "error",
        "internal_only",
        "user_packet_waiting",
    )

    def __init__(self, measure: Callable[[memoryview], int], *, internal_only: bool = False) -> None:
        self._measure = measure
        self._partial = bytearray()
        self._needed = BASE_HEADER_SIZE
        self.buffered = 0
        self.error: RemoteProtocolError | None = None
        self.internal_only = internal_only
        self.user_packet_waiting = False

    def feed(self, data: bytes) -> list[Frame]:
        """Add the next chunk; return the packets that it completes, in order.

        Packets before a malformed one are returned, and L{error} is set.
        """
        if self.error is not None:
            return []
        frames: list[Frame] = []
        try:
            position = self._cut_all(data, frames)
        except RemoteProtocolError as error:
            self._partial.clear()
            self.error = error
        else:
            self._partial += memoryview(data)[position:]
        self.buffered = len(self._partial)
        return frames

    def _cut_all(self, data: bytes, frames: list[Frame]) -> int:
        """Append every whole packet, the incomplete one first; return the position of the rest of C{data}.

        Only the missing bytes of the incomplete packet are joined to it, not all that has arrived.
        """
        partial = self._partial
        position = 0
        while partial:
            missing = self._needed - len(partial)
            # After a packet that was held back, all of it may be here, and others behind it.
            end = position + missing if missing > 0 else len(data)
            partial += memoryview(data)[position:end]
            position = min(end, len(data))
            if len(partial) < self._needed:
                return position
            del partial[: self._cut(bytes(partial), 0, frames)]
            if self.user_packet_waiting:
                return position
        return self._cut(data, position, frames)

    def _cut(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """Append every whole packet of C{data} from a position on; return the position of the rest."""
        size = len(data)
        unpack = _BASE_HEADER.unpack_from
        self.user_packet_waiting = False
        while size - position >= BASE_HEADER_SIZE:
            version, _, flags, signature, packet_size, _ = unpack(data, position)
            if version != VERSION_NUMBER or signature != SIGNATURE or packet_size > MAXIMUM_PACKET_SIZE:
                if data[position : position + 5] in _HTTP:
                    raise _malformed("VersionNumber", 0, _NOT_OFFERED)
                raise self._refuse(version, signature, packet_size)
            end = position + packet_size
            if flags & _INTERNAL:
                if packet_size not in INTERNAL_PACKET_SIZES:
                    raise _malformed("PacketSize", 8, f"{packet_size} is not the size of an internal packet")
            else:
                if packet_size < SMALLEST_USER_PACKET:
                    raise _malformed("PacketSize", 8, f"{packet_size} is less than {SMALLEST_USER_PACKET}")
                if self.internal_only:
                    self.user_packet_waiting = True
                    self._needed = BASE_HEADER_SIZE
                    return position
            if end > size:
                self._needed = packet_size
                return position
            if flags & (_INTERNAL | _SESSION_HEADER) == _SESSION_HEADER:
                counted = self._measure(memoryview(data)[position:end])
                if counted == packet_size:
                    if end + SESSION_HEADER_SIZE > size:
                        self._needed = packet_size + SESSION_HEADER_SIZE
                        return position
                    header = data[end : end + SESSION_HEADER_SIZE]
                    frames.append((_without_session_header(data[position:end]), header))
                    position = end + SESSION_HEADER_SIZE
                    continue
                if counted != packet_size - SESSION_HEADER_SIZE:
                    raise _malformed("PacketSize", 8, f"{packet_size} where the headers end at {counted}")
                kept = _without_session_header(data[position : position + counted])
                frames.append((kept, data[position + counted : end]))
            else:
                frames.append((data[position:end], None))
            position = end
        self._needed = BASE_HEADER_SIZE
        return position

    def _refuse(self, version: int, signature: int, packet_size: int) -> RemoteProtocolError:
        if version != VERSION_NUMBER:
            return _malformed("VersionNumber", 0, f"{version:#04x} is not {VERSION_NUMBER:#04x}")
        if signature != SIGNATURE:
            return _malformed("Signature", 4, f"{signature:#010x} is not {SIGNATURE:#010x}")
        return _malformed("PacketSize", 8, f"{packet_size} is more than {MAXIMUM_PACKET_SIZE}")


_HTTP: Final = (b"POST ", b"HTTP/")
_NOT_OFFERED: Final = (
    "an HTTP message instead of a packet: SRMP is a transport that is not offered; send to a format name that"
    " begins with DIRECT=TCP: or DIRECT=OS:"
)


def _malformed(field: str, offset: int, rule: str) -> RemoteProtocolError:
    return RemoteProtocolError(SECTION, "BaseHeader", field, offset, rule)


def _without_session_header(packet: bytes) -> bytes:
    """The packet without its SessionHeader: Flags.SH is clear, and PacketSize is reduced."""
    kept = bytearray(packet)
    flags, signature, _ = _FLAGS_AND_SIZE.unpack_from(kept, 2)
    _FLAGS_AND_SIZE.pack_into(kept, 2, flags & ~_SESSION_HEADER, signature, len(kept))
    return bytes(kept)
