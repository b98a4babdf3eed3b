"""Decisions about FinalAcks of transactional messages: when one is sent, to which address, and the event of a
received one. [MS-MQQB] 3.1.7.2.2, 3.1.5.7.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, Protocol
from uuid import UUID

import attrs

from msmq.moment import Moment
from msmq.persistence.changes import AppendEvent
from msmq.structures.names.format_name import FormatName
from msmq.structures.names.queue_names import QueueNameKind
from msmq.structures.packet.message_class import MessageClass, class_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.acknowledgements import order_queue, wants_final_ack
from msmq.transfer.stream_changes import Disposal

MOST_UNVERIFIED: Final = 1000
"""The limit on pending FinalAcks for one unverified address."""


class UnsentFinalAck(enum.Enum):
    """Why a FinalAck is not sent."""

    NOT_REQUESTED = "its sender requested none, or its message has only reached its queue"
    OWN_MESSAGE = "this queue manager sent the message itself"
    OF_ANOTHER = "the queue manager that the message is for sends it"
    SENDER_UNVERIFIED = "the queue manager that it would go to is only claimed to be the sender"
    ADDRESS_UNKNOWN = "the address of the sender is not known any more"
    TOO_MANY = "more wait for an address at which nothing verifies the sender than the limit"


class AnswerAddresses(Protocol):
    """Has the addresses of acknowledgements for each stream (reading 60)."""

    def answer_to(self, view: UserMessageView, /) -> UUID | str | None:
        """The GUID of a queue manager, or protocol and address of a direct name; C{None} if unknown."""


@attrs.frozen(kw_only=True)
class FinalAckFacts:
    """The facts about a message that was refused or is removed from its queue.

    @ivar own: bytes of the GUID of this queue manager.
    @ivar is_refusal: it was refused in sequence on arrival.
    @ivar is_final_destination: it is addressed to this queue manager, or to one of a foreign site for which
        it acknowledges.
    @ivar only_at: the address that it came from, if its sender is not authenticated.
    @ivar send_insecure: [MS-MQQB] 3.1.7.15 SendInsecureNacks.
    @ivar pending: the number of FinalAcks that wait for an order queue; evaluated only for unverified
    addresses.
    """

    own: bytes
    is_refusal: bool
    is_final_destination: bool
    only_at: str | None
    send_insecure: bool
    pending: Callable[[FormatName], int]


@attrs.frozen
class FinalAckAddress:
    """The destination of a FinalAck.

    @ivar answer_to: the GUID of a queue manager, or protocol and address as a direct name has them.
    @ivar queue: the order queue there.
    """

    answer_to: UUID | str
    queue: FormatName


def may_be_answered(view: UserMessageView, message_class: MessageClass) -> bool:
    """Whether a FinalAck may have this class; FinalAcks do not report arrivals."""
    if view.acknowledge:
        return True
    return message_class is not MessageClass.ACK_REACH_QUEUE and view.is_transactional


def decide_final_ack(
    view: UserMessageView, message_class: MessageClass, facts: FinalAckFacts, addresses: AnswerAddresses
) -> FinalAckAddress | UnsentFinalAck:
    """Decide whether a FinalAck is sent for a message, and where to. [MS-MQQB] 3.1.7.2.2.

    The sender of a message that is refused in sequence gets one in any case (reading 51).

    @param message_class: ACK_RECEIVE, or why the message was refused or removed from its queue.
    """
    if message_class is MessageClass.ACK_REACH_QUEUE or not view.is_transactional:
        return UnsentFinalAck.NOT_REQUESTED
    if not (facts.is_refusal or wants_final_ack(view)):
        return UnsentFinalAck.NOT_REQUESTED
    if view.source_queue_manager == facts.own:
        return UnsentFinalAck.OWN_MESSAGE
    if not facts.is_refusal and not facts.is_final_destination:
        return UnsentFinalAck.OF_ANOTHER
    if facts.only_at is not None:
        return _of_unverified(view, facts, facts.only_at)
    answer_to = addresses.answer_to(view)
    if answer_to is None:
        return UnsentFinalAck.ADDRESS_UNKNOWN
    return FinalAckAddress(answer_to, order_queue(answer_to))


def _of_unverified(
    view: UserMessageView, facts: FinalAckFacts, address: str
) -> FinalAckAddress | UnsentFinalAck:
    """A message of an unauthenticated sender: a FinalAck is sent only to the address that it came from."""
    if view.destination_kind is not QueueNameKind.DIRECT or not facts.send_insecure:
        return UnsentFinalAck.SENDER_UNVERIFIED
    answer_to = f"TCP:{address}"
    queue = order_queue(answer_to)
    if facts.pending(queue) >= MOST_UNVERIFIED:
        # The message is sent again, and causes its FinalAck then.
        return UnsentFinalAck.TOO_MANY
    return FinalAckAddress(answer_to, queue)


def settlement_event(
    view: UserMessageView | None,
    message_class: int,
    disposal: Disposal,
    now: Moment,
    *,
    is_kept: bool,
    note: str = "",
) -> AppendEvent | None:
    """The event of a message that was sent and whose FinalAck has come. [MS-MQQB] 3.1.5.7.

    @param view: C{None} if the store no longer has its packet, found damaged for example.
    @param message_class: of the FinalAck; 0 if the wait for it has ended without one.
    @param is_kept: there is the copy that its disposal asks for.
    @param note: why a dead letter is not in the queue that its sender chose; empty otherwise.
    @return: C{None} if there is none to record: the journal copy itself says that the message was received.
    """
    if not message_class or (disposal is Disposal.JOURNAL and is_kept):
        return None
    name = None if view is None else view.destination_format_name()
    reason = f"final acknowledgement {class_name(message_class)}"
    if is_kept:
        reason += f"; {note}; kept as a dead letter" if note else "; kept as a dead letter"
    elif disposal is not Disposal.FORGET:
        copy = "journal copy" if disposal is Disposal.JOURNAL else "dead letter"
        why = "for lack of space" if view is not None else "since the store no longer has the message"
        reason += f"; the {copy} was not kept, {why}"
    return AppendEvent(
        now.wall,
        b"" if view is None else view.identity,
        "received" if message_class == MessageClass.ACK_RECEIVE else "failed",
        reason,
        message_class,
        str(name) if name is not None else "",
    )
