r"""Builds and parses the messages of OrderAcks and FinalAcks. [MS-MQQB] 3.1.1.7.3 and 3.1.7.17."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.classification import PacketKind, classify_user_packet
from msmq.structures.internal.final_ack import LOWEST_CLASS, FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.order_queue import ORDER_QUEUE_NUMBER, ORDER_QUEUE_PATH, AckEnvelope
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import FormatName, PrivateFormatName, parse_format_name
from msmq.structures.packet.message_class import ACKNOWLEDGEMENT_CLASSES
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.incoming_streams import OwedOrderAck
from msmq.transfer.stream_changes import sequence_fields, wanted_of
from msmq.wire.guid import guid_from_bytes

_ORDER_QUEUE: Final = ORDER_QUEUE_PATH.lower()
_SOURCE: Final = slice(16, 32)


def order_queue(answer_to: UUID | str) -> FormatName:
    r"""DestinationForAck: the private queue 4, or C{TCP:address\PRIVATE$\order_queue$}. [MS-MQQB] 3.1.7.17.

    @param answer_to: the GUID of a queue manager, or protocol and address as a direct name has them.
    @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME for an invalid address.
    """
    if isinstance(answer_to, UUID):
        return PrivateFormatName(answer_to, ORDER_QUEUE_NUMBER)
    return parse_format_name(f"DIRECT={answer_to}\\{ORDER_QUEUE_PATH}")


def is_order_queue(name: FormatName) -> bool:
    """Whether a queue of another queue manager is the one that takes OrderAcks and FinalAcks."""
    match name:
        case DirectFormatName():
            return name.queue_path.lower() == _ORDER_QUEUE
        case PrivateFormatName():
            return name.number == ORDER_QUEUE_NUMBER
        case _:
            return False


def requester_of(view: UserMessageView) -> UUID | None:
    """The queue manager that requested an administration acknowledgement; C{None} for other messages.

    [MS-MQQB] 3.1.7.15: its CorrelationID is the identifier of the message that it acknowledges.
    """
    return (
        guid_from_bytes(view.correlation_id[:16]) if view.message_class in ACKNOWLEDGEMENT_CLASSES else None
    )


def final_ack_addressee(view: UserMessageView) -> UUID | None:
    """The queue manager that a FinalAck is for; C{None} for an OrderAck. [MS-MQQB] 2.2.5.1."""
    if view.message_class < LOWEST_CLASS or len(view.body) != FinalAck.LAYOUT.size:
        return None
    return guid_from_bytes(bytes(view.body[_SOURCE]))


def order_ack(owed: OwedOrderAck, *, source: UUID, message_id: int, sent_time: int) -> OrderAck:
    """The OrderAck that is owed to a stream; it is sent express (reading 6). [MS-MQQB] 3.1.7.17.

    @param source: QueueManager.Identifier.
    @param message_id: its own MessageID.
    @param sent_time: seconds since 1970-01-01 UTC.
    """
    envelope = AckEnvelope(source, owed.answer_to, message_id, sent_time)
    return OrderAck(envelope, owed.tx_sequence_id, owed.tx_sequence_number)


def final_ack(
    view: UserMessageView,
    message_class: int,
    *,
    answer_to: UUID | str,
    source: UUID,
    message_id: int,
    sent_time: int,
) -> FinalAck:
    """The FinalAck of a transactional message; it is sent recoverable. [MS-MQQB] 3.1.7.17.

    @param message_class: ACK_RECEIVE, or why the message was refused or removed from its queue.
    @param answer_to: see L{IncomingStreams.answer_to}.
    @param source: QueueManager.Identifier.
    @param message_id: its own MessageID.
    @param sent_time: seconds since 1970-01-01 UTC.
    """
    _, sequence, number, previous = sequence_fields(view)
    return FinalAck(
        AckEnvelope(source, answer_to, message_id, sent_time),
        message_class,
        TxSequenceID.from_value(sequence),
        number,
        previous,
        guid_from_bytes(view.source_queue_manager),
        view.message_id,
    )


def wants_final_ack(view: UserMessageView) -> bool:
    """[MS-MQQB] 3.1.7.2.2: whether a FinalAck is sent when this message is removed from its queue (reading
    58).

    A transactional message that is refused on arrival causes one in any case.
    """
    return view.is_transactional and wanted_of(view, sequence_fields(view)[0]) != 0


def read_acknowledgement(packet: bytes, queue_manager: UUID) -> OrderAck | FinalAck | None:
    """The acknowledgement in a user packet; C{None} if it is not one, or is for another. [MS-MQQB] 3.1.5.1.1.

    For packets that are not for an order queue this only reads the destination.

    @raise RemoteProtocolError: it is malformed.
    """
    match classify_user_packet(packet, queue_manager=queue_manager):
        case PacketKind.ORDER_ACK:
            return OrderAck.from_bytes(packet)
        case PacketKind.FINAL_ACK:
            return FinalAck.from_bytes(packet)
    return None
