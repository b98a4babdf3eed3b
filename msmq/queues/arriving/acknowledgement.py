"""Send Administration Acknowledgment: creates administration acknowledgements. [MS-MQQB] 3.1.7.15."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.queue_names import SYSTEM_PATHS
from msmq.structures.names.format_name import FormatName, PrivateFormatName
from msmq.structures.names.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.message_class import ACKNOWLEDGEMENT_CLASSES, MessageClass
from msmq.structures.packet.security_header import SenderIdType
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.wire.guid import NULL_GUID

_WANTED: Final = {
    MessageClass.ACK_REACH_QUEUE: Acknowledge.POSITIVE_ARRIVAL,
    MessageClass.ACK_RECEIVE: Acknowledge.POSITIVE_RECEIVE,
    MessageClass.NACK_Q_DELETED: Acknowledge.NEGATIVE_RECEIVE,
    MessageClass.NACK_Q_PURGED: Acknowledge.NEGATIVE_RECEIVE,
    MessageClass.NACK_RECEIVE_TIMEOUT: Acknowledge.NEGATIVE_RECEIVE,
    MessageClass.NACK_RECEIVE_REJECTED: Acknowledge.NEGATIVE_RECEIVE,
}
"""The bit that requests a class; the bit for every other class is NEGATIVE_ARRIVAL."""

_WITHOUT_BODY: Final = (MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE)

INSECURE: Final = frozenset(
    {
        MessageClass.NACK_BAD_DST_Q,
        MessageClass.NACK_ACCESS_DENIED,
        MessageClass.NACK_BAD_SIGNATURE,
        MessageClass.NACK_BAD_ENCRYPTION,
        MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    }
)
"""SendInsecureNacks: refusals that would let an unauthenticated peer probe queues. [MS-MQQB] 3.1.7.15."""

_SYSTEM_NUMBERS: Final = (3, 4)
"""Those of the notification queue ([MS-MQCN] 1.9) and the order queue ([MS-MQQB] 2.2.4)."""


def is_quiet(view: UserMessageView) -> bool:
    """[MS-MQQB] notes 2 and 62: whether a message is for an administration, notification or order queue.

    Such a message is never acknowledged or copied, whatever it requests: so acknowledgements are not
    acknowledged. A message for an administration queue is recognized by its class, since such a queue is
    like any other.
    """
    if view.message_class in ACKNOWLEDGEMENT_CLASSES:
        return True
    match view.destination:
        case PrivateQueueFormatNameId(number):
            return number in _SYSTEM_NUMBERS
        case DirectQueueFormatName(text):
            return text.partition("\\")[2].lower() in SYSTEM_PATHS
    return False


@attrs.frozen
class Acknowledgement:
    """An administration acknowledgement to be sent. [MS-MQQB] 1.3.5.2.

    @ivar destination: the administration queue.
    """

    destination: FormatName
    message: Message


def acknowledgement(
    view: UserMessageView,
    message_class: MessageClass,
    *,
    queue_manager: UUID,
    send_insecure: bool = False,
) -> Acknowledgement | None:
    """The acknowledgement of C{message_class} that the sender of C{view} requested; C{None} if it did not.

    The bits are tested individually (reading 75). Messages for system queues are not acknowledged.
    It requests no acknowledgement itself, never expires, and is recoverable if the message is.
    A body with a PrivacyLevel is omitted, so that it is not returned in clear.

    @param queue_manager: the acknowledging one; a null QueueManagerAddress means this.
    @param send_insecure: SendInsecureNacks, off by default.
    """
    if not view.acknowledge & _WANTED.get(message_class, Acknowledge.NEGATIVE_ARRIVAL):
        return None
    if (message_class in INSECURE and not send_insecure) or is_quiet(view):
        return None
    try:
        destination = _known(view.admin_format_name(), queue_manager)
        answer_to = _known(view.destination_format_name(), queue_manager)
    except MQError:
        # The name of the administration queue is invalid, so the acknowledgement has no destination.
        return None
    if destination is None:
        return None
    body = b"" if message_class in _WITHOUT_BODY or _is_private(view) else bytes(view.body)
    return Acknowledgement(
        destination,
        Message(
            body=body,
            body_type=view.body_type if body else 0,
            label=view.label,
            priority=view.priority,
            time_to_reach_queue=INFINITE,
            delivery=Delivery.RECOVERABLE if view.is_recoverable else Delivery.EXPRESS,
            correlation_id=view.source_queue_manager + view.message_id.to_bytes(4, "little"),
            response_queue=answer_to,
            application_tag=view.application_tag,
            message_class=message_class,
            sender_identifier_type=SenderIdType.NONE,
        ),
    )


def _is_private(view: UserMessageView) -> bool:
    """Whether the body is encrypted, was so in transit, or has to be before it is sent.

    An acknowledgement is sent in clear, to a queue of the sender's choice.
    """
    security = view.security
    return view.asks_for_privacy or (security is not None and security.is_body_encrypted)


def _known(name: FormatName | None, queue_manager: UUID) -> FormatName | None:
    """The name with our own identifier in place of none."""
    if isinstance(name, PrivateFormatName) and name.queue_manager == NULL_GUID:
        return attrs.evolve(name, queue_manager=queue_manager)
    return name
