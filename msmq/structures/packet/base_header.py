"""BaseHeader: the first sixteen bytes of every packet of a session. [MS-MQMQ] 2.2.19.1."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final

import attrs

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure, WholeStructure
from msmq.wire.writer import Writer

INFINITE = 0xFFFFFFFF
"""The number of seconds that means no limit, in every 32-bit field of seconds."""

TIME_TO_REACH_QUEUE: Final = 0x54600
"""Default of TimeToReachQueue in seconds: four days."""

DEFAULT_PRIORITY = 3
"""The default priority of a message, from 0 to 7, and that of internal packets."""


@attrs.frozen
class BaseHeader(Structure):
    """BaseHeader. [MS-MQMQ] 2.2.19.1.

    Reserved flag bits are sent as 0, and with the Reserved byte ignored on receipt.

    @ivar packet_size: bytes of the whole packet with its padding, at most 0x00400000, without a SessionHeader
        attached to a UserMessage.  It may be left out where it is computed from the rest of the packet
        (L{UserMessage.completed<msmq.structures.packet.user_message.UserMessage.completed>}).
    @ivar priority: PR, 0 to 7, 7 being the most urgent; 0 for a transactional message.
    @ivar is_internal: IN, the packet belongs to the session itself.
    @ivar has_session_header: SH.
    @ivar has_debug_header: DH, only in a UserMessage.
    @ivar is_traced: TR, only with C{has_debug_header}.
    @ivar time_to_reach_queue: seconds; L{INFINITE} in all packets but a UserMessage.
    @ivar reserved: the Reserved byte as it is sent, which may have any value.
    """

    NAME: ClassVar[str] = "BaseHeader"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.19.1"
    LAYOUT: ClassVar[Struct] = Struct("<BBHIII")
    SIZE: ClassVar[int] = LAYOUT.size
    FIELDS: ClassVar[tuple[str, ...]] = (
        "VersionNumber",
        "Reserved",
        "Flags",
        "Signature",
        "PacketSize",
        "TimeToReachQueue",
    )
    VERSION_NUMBER: ClassVar[int] = 0x10
    SIGNATURE: ClassVar[int] = 0x524F494C
    MAXIMUM_PACKET_SIZE: ClassVar[int] = 0x00400000
    """Larger messages are not in the scope of the protocol. [MS-MQQB] 1.6."""
    SMALLEST_USER_PACKET: ClassVar[int] = 16 + 48 + 56
    """A BaseHeader, a UserHeader without names and a MessagePropertiesHeader without text."""
    INTERNAL_PACKET_SIZES: ClassVar[tuple[int, ...]] = (32, 36, 572)
    """ConnectionParameters, SessionAck and EstablishConnection: internal packets have no other size."""
    PR: ClassVar[int] = 0x0007
    IN: ClassVar[int] = 0x0008
    SH: ClassVar[int] = 0x0010
    DH: ClassVar[int] = 0x0020
    TR: ClassVar[int] = 0x0100

    packet_size: int = 0
    priority: int = DEFAULT_PRIORITY
    is_internal: bool = False
    has_session_header: bool = False
    has_debug_header: bool = False
    is_traced: bool = False
    time_to_reach_queue: int = INFINITE
    reserved: int = attrs.field(default=0, eq=False)

    @classmethod
    def read(cls, reader: Reader) -> BaseHeader:
        """Read the sixteen bytes; PacketSize is not verified.

        @raise RemoteProtocolError: VersionNumber or Signature is wrong, PacketSize is invalid for this kind
            of packet, or the flags contradict each other.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            version, _, flags, signature, packet_size, time_to_reach_queue = reader.unpack(
                cls.LAYOUT, "VersionNumber"
            )
            if version != cls.VERSION_NUMBER:
                raise reader.malformed("VersionNumber", f"{version:#04x} is not 0x10", offset=start)
            if signature != cls.SIGNATURE:
                raise reader.malformed("Signature", f"{signature:#010x} is not 0x524f494c", offset=start + 4)
            header = cls(
                packet_size,
                flags & cls.PR,
                bool(flags & cls.IN),
                bool(flags & cls.SH),
                bool(flags & cls.DH),
                bool(flags & cls.TR),
                time_to_reach_queue,
            )
            problem = header._size_problem()
            if problem is not None:
                raise reader.malformed("PacketSize", problem, offset=start + 8)
            problem = header._flags_problem()
            if problem is not None:
                raise reader.malformed("Flags", problem, offset=start + 2)
        return header

    @property
    def flags(self) -> int:
        """Flags as it is sent."""
        return (
            self.priority
            | self.IN * self.is_internal
            | self.SH * self.has_session_header
            | self.DH * self.has_debug_header
            | self.TR * self.is_traced
        )

    def write(self, writer: Writer) -> None:
        """Write the sixteen bytes.

        @raise LocalProtocolError: a value is invalid.
        """
        if not 0 <= self.priority <= self.PR:
            raise LocalProtocolError(f"Flags.PR: {self.priority} is not within 0 to 7")
        problem = self._size_problem() or self._flags_problem()
        if problem is None and self.is_internal and self.time_to_reach_queue != INFINITE:
            problem = "an internal packet has no TimeToReachQueue"
        if problem is not None:
            raise LocalProtocolError(f"BaseHeader: {problem}")
        writer.numbers(
            self.LAYOUT,
            self.FIELDS,
            self.VERSION_NUMBER,
            self.reserved,
            self.flags,
            self.SIGNATURE,
            self.packet_size,
            self.time_to_reach_queue,
        )

    def _size_problem(self) -> str | None:
        if self.packet_size > self.MAXIMUM_PACKET_SIZE:
            return f"{self.packet_size} is more than {self.MAXIMUM_PACKET_SIZE}"
        if self.is_internal:
            if self.packet_size not in self.INTERNAL_PACKET_SIZES:
                return f"{self.packet_size} is not the size of an internal packet"
        elif self.packet_size < self.SMALLEST_USER_PACKET:
            return f"{self.packet_size} is less than {self.SMALLEST_USER_PACKET}"
        return None

    def _flags_problem(self) -> str | None:
        if self.is_traced and not self.has_debug_header:
            return "TR without DH"
        if self.is_internal and self.has_debug_header:
            return "DH in an internal packet"
        return None


class Packet(WholeStructure):
    """A structure that begins with a BaseHeader, whose PacketSize is its length. [MS-MQMQ] 2.2.19.1."""

    __slots__ = ()

    @classmethod
    def too_long(cls, reader: Reader) -> RemoteProtocolError:
        """Create the error that bytes follow the packet, for the caller to raise."""
        with reader.header(BaseHeader.NAME, BaseHeader.SECTION):
            rule = f"{reader.remaining} bytes follow the {reader.position} that it declares"
            return reader.malformed("PacketSize", rule, offset=8)
