"""SessionAck Packet: an acknowledgement that is not attached to a message. [MS-MQQB] 2.2.6."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final

import attrs

from msmq.structures.internal.internal_packet import read_internal_headers, write_internal_headers
from msmq.structures.packet.base_header import BaseHeader, Packet
from msmq.structures.packet.internal_header import InternalPacketType
from msmq.structures.packet.session_header import SessionHeader
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer

# VersionNumber, BaseHeader.Flags, Signature, PacketSize, InternalHeader.Flags, and the SessionHeader.
_WHOLE: Final = Struct("<BxHII4x2xHHHIHHH2x").unpack_from
_INTERNAL_WITH_SESSION_HEADER: Final = BaseHeader.IN | BaseHeader.SH
_PRESENCE: Final = _INTERNAL_WITH_SESSION_HEADER | BaseHeader.DH | BaseHeader.TR
_PACKET_TYPE_AND_REFUSED: Final = 0x001F


@attrs.frozen
class SessionAck(Packet):
    """SessionAck Packet: a SessionHeader alone. [MS-MQQB] 2.2.6.

    Unlike that of a UserMessage, its PacketSize counts the SessionHeader, as the worked example
    of 4.1.8 shows.
    """

    SIZE: ClassVar[int] = 36

    session_header: SessionHeader

    @classmethod
    def of(cls, packet: bytes) -> SessionAck | None:
        """The packet, if it is a plain SessionAck; C{None} if L{from_bytes} has to read it.

        A sender receives one for every few messages, and full validation costs ten times as much.
        """
        if len(packet) != cls.SIZE:
            return None
        version, flags, signature, size, internal, *header = _WHOLE(packet)
        if (
            version != BaseHeader.VERSION_NUMBER
            or signature != BaseHeader.SIGNATURE
            or size != cls.SIZE
            or flags & _PRESENCE != _INTERNAL_WITH_SESSION_HEADER
            or internal & _PACKET_TYPE_AND_REFUSED != InternalPacketType.SESSION_ACK
        ):
            return None
        return cls(SessionHeader(*header))

    @classmethod
    def read(cls, reader: Reader) -> SessionAck:
        """Read the packet from its BaseHeader on.

        @raise RemoteProtocolError: it is another packet, or is not 36 bytes long.
        """
        read_internal_headers(reader, InternalPacketType.SESSION_ACK, cls.SIZE)
        return cls(SessionHeader.read(reader))

    def write(self, writer: Writer) -> None:
        """Write the packet with its BaseHeader.

        @raise LocalProtocolError: the SessionHeader cannot be sent.
        """
        write_internal_headers(writer, InternalPacketType.SESSION_ACK, self.SIZE)
        self.session_header.write(writer)
