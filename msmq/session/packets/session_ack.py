"""[MS-MQQB] 2.2.6 SessionAck Packet: an acknowledgement that rides on no message."""

from __future__ import annotations

from typing import ClassVar

import attrs

from msmq.session.packets.internal_packet import insist_on_end, read_internal_headers, write_internal_headers
from msmq.structures.internal_header import InternalPacketType
from msmq.structures.session_header import SessionHeader
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer


@attrs.frozen
class SessionAck:
    """[MS-MQQB] 2.2.6 SessionAck Packet: a SessionHeader alone.

    Other than that of a UserMessage, its PacketSize counts the SessionHeader, as the worked example
    of 4.1.8 shows.
    """

    SIZE: ClassVar[int] = 36

    session_header: SessionHeader

    @classmethod
    def read(cls, reader: Reader) -> SessionAck:
        """Read the packet from its BaseHeader on.

        @raise RemoteProtocolError: it is another packet, or is not 36 bytes long.
        """
        read_internal_headers(reader, InternalPacketType.SESSION_ACK, cls.SIZE)
        return cls(SessionHeader.read(reader))

    @classmethod
    def from_bytes(cls, data: bytes) -> SessionAck:
        """Read a whole packet.

        @raise RemoteProtocolError: it is another packet, or is not 36 bytes long.
        """
        reader = Reader(data)
        packet = cls.read(reader)
        insist_on_end(reader)
        return packet

    def write(self, writer: Writer) -> None:
        """Write the packet with its BaseHeader.

        @raise LocalProtocolError: the SessionHeader cannot be sent.
        """
        write_internal_headers(writer, InternalPacketType.SESSION_ACK, self.SIZE)
        self.session_header.write(writer)

    def to_bytes(self) -> bytes:
        """The 36 bytes of the packet."""
        writer = Writer()
        self.write(writer)
        return writer.getvalue()
