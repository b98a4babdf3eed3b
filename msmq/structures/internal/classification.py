"""Identifying Packet Type of a received packet. [MS-MQQB] 3.1.5.1.1."""

from __future__ import annotations

import enum
from typing import Final
from uuid import UUID

from msmq.structures.internal.final_ack import LOWEST_CLASS
from msmq.structures.internal.order_queue import is_for_order_queue, read_acknowledgement
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.internal_header import InternalHeader, InternalPacketType
from msmq.structures.packet.message_class import MessageClass
from msmq.wire.guid import NULL_GUID
from msmq.wire.reader import Reader


class PacketKind(enum.Enum):
    """The six packets of a session. [MS-MQQB] 3.1.5.1.1."""

    ESTABLISH_CONNECTION = "EstablishConnection"
    CONNECTION_PARAMETERS = "ConnectionParameters"
    SESSION_ACK = "SessionAck"
    ORDER_ACK = "OrderAck"
    FINAL_ACK = "FinalAck"
    USER_MESSAGE = "UserMessage"


_INTERNAL: Final = {
    InternalPacketType.ESTABLISH_CONNECTION: (PacketKind.ESTABLISH_CONNECTION, 572),
    InternalPacketType.CONNECTION_PARAMETERS: (PacketKind.CONNECTION_PARAMETERS, 32),
    InternalPacketType.SESSION_ACK: (PacketKind.SESSION_ACK, 36),
}


def classify(packet: bytes, *, queue_manager: UUID | None = None) -> PacketKind:
    """Determine the type of a packet. [MS-MQQB] 3.1.5.1.1.

    A packet with IN clear that is neither OrderAck nor FinalAck is a UserMessage, whatever its class:
    reports, administration acknowledgements and classes of applications are UserMessages too.
    The rest of the packet is not validated here, but when it is read.

    @param packet: a whole packet.
    @param queue_manager: the local one; an acknowledgement for another queue manager is a message to be
        forwarded.
    @raise RemoteProtocolError: VersionNumber, Signature, PacketSize or PT is invalid
        ([MS-MQQB] 3.1.5.1.2, 3.1.5.1.3), or a SessionAck has no SH.
    """
    reader = Reader(packet)
    base = BaseHeader.read(reader)
    if not base.is_internal:
        return classify_user_packet(packet, queue_manager=queue_manager)
    packet_type = InternalHeader.read(reader).packet_type
    kind, size = _INTERNAL[packet_type]
    with reader.header(BaseHeader.NAME, BaseHeader.SECTION):
        if base.packet_size != size:
            raise reader.malformed(
                "PacketSize", f"{base.packet_size} where {kind.value} has {size}", offset=8
            )
        if kind is PacketKind.SESSION_ACK and not base.has_session_header:
            raise reader.malformed("Flags", "a SessionAck without SH", offset=2)
    return kind


def classify_user_packet(packet: bytes, *, queue_manager: UUID | None = None) -> PacketKind:
    """As L{classify}, for a packet whose BaseHeader was read already and has IN clear.

    For all packets but those to an C{order_queue$} this reads the destination only.

    @raise RemoteProtocolError: it is shorter than any such packet, or an acknowledgement is malformed.
    """
    if len(packet) < BaseHeader.SMALLEST_USER_PACKET:
        reader = Reader(packet)
        with reader.header(BaseHeader.NAME, BaseHeader.SECTION):
            raise reader.malformed("PacketSize", f"{len(packet)} bytes are not a whole packet", offset=8)
    if not is_for_order_queue(packet):
        return PacketKind.USER_MESSAGE
    found = read_acknowledgement(Reader(packet))
    if found is None:
        return PacketKind.USER_MESSAGE
    envelope, properties = found
    if (
        queue_manager is not None
        and isinstance(envelope.destination, UUID)
        and envelope.destination not in (queue_manager, NULL_GUID)
    ):
        return PacketKind.USER_MESSAGE
    if properties.message_class == MessageClass.ORDER_ACK:
        return PacketKind.ORDER_ACK
    if properties.message_class >= LOWEST_CLASS:
        return PacketKind.FINAL_ACK
    return PacketKind.USER_MESSAGE
