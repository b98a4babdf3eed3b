"""InternalHeader: the type of an internal packet of a session. [MS-MQQB] 2.2.1."""

from __future__ import annotations

import enum
from struct import Struct
from typing import ClassVar

import attrs

from msmq.errors import LocalProtocolError
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure
from msmq.wire.writer import Writer


class InternalPacketType(enum.IntEnum):
    """Flags.PT. [MS-MQQB] 2.2.1."""

    SESSION_ACK = 1
    ESTABLISH_CONNECTION = 2
    CONNECTION_PARAMETERS = 3


@attrs.frozen
class InternalHeader(Structure):
    """InternalHeader. [MS-MQQB] 2.2.1.

    Reserved and reserved flag bits are sent as 0 and ignored on receipt.

    @ivar packet_type: PT.
    @ivar is_refused: CS, the connection is refused; never set in a SessionAck, and ignored there.
    """

    NAME: ClassVar[str] = "InternalHeader"
    SECTION: ClassVar[str] = "[MS-MQQB] 2.2.1"
    LAYOUT: ClassVar[Struct] = Struct("<HH")
    SIZE: ClassVar[int] = LAYOUT.size
    PT: ClassVar[int] = 0x000F
    CS: ClassVar[int] = 0x0010

    packet_type: InternalPacketType
    is_refused: bool = False

    @classmethod
    def read(cls, reader: Reader) -> InternalHeader:
        """Read the four bytes.

        @raise RemoteProtocolError: PT is not one of the three packet types.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            _, flags = reader.unpack(cls.LAYOUT, "Reserved")
            number = flags & cls.PT
            packet_type = reader.member(
                InternalPacketType, number, "Flags", f"PT {number} is not a packet type", offset=start + 2
            )
        is_refused = bool(flags & cls.CS) and packet_type is not InternalPacketType.SESSION_ACK
        return cls(packet_type, is_refused)

    def write(self, writer: Writer) -> None:
        """Write the four bytes.

        @raise LocalProtocolError: CS in a SessionAck.
        """
        if self.is_refused and self.packet_type is InternalPacketType.SESSION_ACK:
            raise LocalProtocolError("Flags.CS: not allowed in a SessionAck")
        writer.u16(0, "Reserved")
        writer.u16(self.packet_type | self.CS * self.is_refused, "Flags")
