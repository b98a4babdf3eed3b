"""ConnectionParameters Packet: window size and acknowledgement timeouts of a session. [MS-MQQB] 2.2.2."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar

import attrs

from msmq.structures.internal.internal_packet import read_internal_headers, write_internal_headers
from msmq.structures.packet.base_header import Packet
from msmq.structures.packet.internal_header import InternalPacketType
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer


@attrs.frozen
class ConnectionParameters(Packet):
    """ConnectionParameters Packet with its ConnectionParametersHeader. [MS-MQQB] 2.2.2 and 2.2.2.1.

    Times outside their ranges are kept as received, because an acceptor repeats them; they are limited
    before a timer is started.

    @ivar recoverable_ack_timeout: the minimum delay before a recoverable message is acknowledged, in
        milliseconds, 500 to 120000.
    @ivar ack_timeout: how long an acknowledgement may take before the session is closed, in
        milliseconds, 20000 to 120000.
    @ivar window_size: how many messages may be unacknowledged; 0 is read as 1.
    @ivar is_refused: InternalHeader CS, the acceptor refuses the session.
    """

    LAYOUT: ClassVar[Struct] = Struct("<IIHH")
    SIZE: ClassVar[int] = 32

    recoverable_ack_timeout: int
    ack_timeout: int
    window_size: int = 64
    is_refused: bool = False

    @classmethod
    def read(cls, reader: Reader) -> ConnectionParameters:
        """Read the packet from its BaseHeader on.

        @raise RemoteProtocolError: it is a different packet, or is not 32 bytes long.
        """
        internal = read_internal_headers(reader, InternalPacketType.CONNECTION_PARAMETERS, cls.SIZE)
        with reader.header("ConnectionParametersHeader", "[MS-MQQB] 2.2.2.1"):
            recoverable, wait, _, window = reader.unpack(cls.LAYOUT, "RecoverableAckTimeout")
        return cls(recoverable, wait, window, internal.is_refused)

    def write(self, writer: Writer) -> None:
        """Write the packet with its BaseHeader.

        @raise LocalProtocolError: a number does not fit its field.
        """
        write_internal_headers(
            writer, InternalPacketType.CONNECTION_PARAMETERS, self.SIZE, is_refused=self.is_refused
        )
        writer.u32(self.recoverable_ack_timeout, "RecoverableAckTimeout")
        writer.u32(self.ack_timeout, "AckTimeout")
        writer.u16(0, "Reserved")
        writer.u16(self.window_size, "WindowSize")
