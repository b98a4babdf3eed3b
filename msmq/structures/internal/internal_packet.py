"""Common headers of internal packets: BaseHeader and InternalHeader."""

from __future__ import annotations

from functools import cache

from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.internal_header import InternalHeader, InternalPacketType
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer


def read_internal_headers(reader: Reader, wanted: InternalPacketType, size: int) -> InternalHeader:
    """Read both headers, and check the packet type and the size.

    @raise RemoteProtocolError: type or size differ.
    """
    start = reader.position
    base = BaseHeader.read(reader)
    if not base.is_internal:
        with reader.header(BaseHeader.NAME, BaseHeader.SECTION):
            raise reader.malformed("Flags", "IN is not set", offset=start + 2)
    at = reader.position
    internal = InternalHeader.read(reader)
    if internal.packet_type is not wanted:
        with reader.header(InternalHeader.NAME, InternalHeader.SECTION):
            raise reader.malformed(
                "Flags", f"PT {internal.packet_type.value} is not {wanted.value}", offset=at + 2
            )
    with reader.header(BaseHeader.NAME, BaseHeader.SECTION):
        if wanted is InternalPacketType.SESSION_ACK and not base.has_session_header:
            raise reader.malformed("Flags", "a SessionAck without SH", offset=start + 2)
        if base.packet_size != size:
            raise reader.malformed(
                "PacketSize", f"{base.packet_size} where PT {wanted.value} has {size} bytes", offset=start + 8
            )
    return internal


def write_internal_headers(
    writer: Writer, packet_type: InternalPacketType, size: int, *, is_refused: bool = False, reserved: int = 0
) -> None:
    """Write both headers, with the priority of such packets in the worked examples.

    @param reserved: Reserved of the BaseHeader.
    """
    writer.bytes(_internal_headers(packet_type, size, is_refused, reserved))


@cache
def _internal_headers(packet_type: InternalPacketType, size: int, is_refused: bool, reserved: int) -> bytes:
    # There are half a dozen different ones, and every acknowledgement begins with one of them.
    writer = Writer()
    is_session_ack = packet_type is InternalPacketType.SESSION_ACK
    BaseHeader(size, is_internal=True, has_session_header=is_session_ack, reserved=reserved).write(writer)
    InternalHeader(packet_type, is_refused).write(writer)
    return writer.getvalue()
