"""Move Message: between a queue and its subqueues, and into system queues. [MS-MQDMPR] 3.1.7.1.16."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from msmq.persistence.changes import Change
from msmq.persistence.definition import QueuePrivacy
from msmq.queues.holdings import Holdings
from msmq.queues.leaving.deadlines import due_time
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status


@attrs.frozen
class Relocation:
    """Messages that are moved when the changes are stored.

    @ivar moves: each message with its position in the target, still invisible.
    """

    moves: list[tuple[MessagePosition, MessagePosition]] = attrs.field(factory=list, repr=False)
    changes: list[Change] = attrs.field(factory=list)


def check_move(source: Queue, target: Queue, *, is_transactional: bool) -> None:
    """Check that messages can be moved from the one queue to the other.

    @raise MQError: MQ_ERROR_QUEUE_NOT_AVAILABLE if one is deleted, MQ_ERROR_INVALID_PARAMETER for unrelated
        queues, MQ_ERROR_TRANSACTION_USAGE for a transactional move into a system queue.
    """
    for queue in (source, target):
        if queue.is_deleted:
            raise MQError(Status.MQ_ERROR_QUEUE_NOT_AVAILABLE, f"{queue.definition.path} is deleted")
    names = f"from {source.definition.path} to {target.definition.path}"
    if source is target:
        raise MQError(
            Status.MQ_ERROR_INVALID_PARAMETER,
            f"{source.definition.path} is both the source and the target of the move",
        )
    if target.is_system:
        if target.parent is not None:
            raise MQError(
                Status.MQ_ERROR_INVALID_PARAMETER,
                f"{names}: a journal accepts received messages only, messages cannot be moved into it",
            )
        if is_transactional:
            raise MQError(
                Status.MQ_ERROR_TRANSACTION_USAGE,
                f"{names}: messages cannot be moved into a system queue in a transaction",
            )
    elif source.main is not target.main:
        raise MQError(
            Status.MQ_ERROR_INVALID_PARAMETER,
            f"{names}: messages move between a queue and its subqueues, and into system queues",
        )


def check_transfer(source: Queue, target: Queue) -> None:
    """Check that an administrator may move messages from the one queue to the other, related or not.

    @raise MQError: as L{check_move}; for two unrelated queues MQ_ERROR_INVALID_PARAMETER if the source is an
        outgoing or a system queue, MQ_ERROR_TRANSACTION_USAGE if only one of them is transactional.
    """
    if source.main is target.main or target.is_system or source.is_deleted or target.is_deleted:
        check_move(source, target, is_transactional=False)
        return
    names = f"from {source.definition.path} to {target.definition.path}"
    if isinstance(source, OutgoingQueue):
        raise MQError(
            Status.MQ_ERROR_INVALID_PARAMETER,
            f"{names}: messages of an outgoing queue can be copied, purged or redirected, not moved",
        )
    if source.is_system:
        raise MQError(
            Status.MQ_ERROR_INVALID_PARAMETER,
            f"{names}: {source.definition.path} holds copies; use message copy, or deadletter requeue --to",
        )
    if source.main.definition.transactional != target.main.definition.transactional:
        kinds = "the second is transactional" if target.main.definition.transactional else "the first is"
        raise MQError(Status.MQ_ERROR_TRANSACTION_USAGE, f"{names}: only {kinds}; copy the messages instead")


def check_acceptable(position: MessagePosition, target: Queue, view: UserMessageView) -> None:
    """Check that a queue accepts a message that is moved into it from an unrelated one.

    @raise MQError: MQ_ERROR_INVALID_PARAMETER for an unauthenticated message, if the target accepts only
        authenticated ones; the same for an unencrypted one that is to be encrypted.
    """
    source, queue = position.queue.main.definition, target.main.definition
    if target.is_system or position.queue.main is target.main:
        return
    if queue.authenticate and not source.authenticate and not view.authentication_level:
        raise MQError(
            Status.MQ_ERROR_INVALID_PARAMETER,
            f"message {view.identifier}: {queue.path} accepts only authenticated messages",
        )
    if queue.privacy is not source.privacy and queue.privacy is not QueuePrivacy.OPTIONAL:
        raise MQError(
            Status.MQ_ERROR_INVALID_PARAMETER,
            f"message {view.identifier}: the privacy of {queue.path} is {queue.privacy.value}, that of"
            f" {source.path} is {source.privacy.value}",
        )


def check_available(position: MessagePosition) -> None:
    """Check that a message is available, so that it can be moved.

    @raise MQError: MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION.
    """
    if position.state is not PositionState.AVAILABLE:
        raise MQError(
            Status.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION,
            f"message {position.lookup_id} of {position.queue.definition.path} is {position.state.value}",
        )


def relocate(
    holdings: Holdings, pairs: Iterable[tuple[MessagePosition, Queue]], relocation: Relocation
) -> None:
    """Create the positions of locked messages in other queues, still invisible.

    Within a queue and its subqueues they keep their LookupIdentifier (reading 6); in any other queue they
    follow those that are there.
    Both positions are charged until the move is stored, but not against the quota.
    """
    for position, target in pairs:
        moved = _moved_position(holdings, position, target)
        relocation.moves.append((position, moved))
        holdings.move(position, moved, relocation.changes)
    holdings.reserve(relocation.changes)


def _moved_position(holdings: Holdings, position: MessagePosition, target: Queue) -> MessagePosition:
    lookup_id = position.lookup_id
    if target.main is not position.queue.main:
        lookup_id = lookup_id >> 56 << 56 | holdings.sequential.take(1)
    moved = MessagePosition(
        target,
        lookup_id,
        position.view,
        position.size,
        position.arrived,
        kept=position.kept,
        due=None if target.is_system else position.due,
        aborts=position.aborts,
        moves=position.moves + 1,
    )
    if not target.is_system and moved.due is None and position.view is not None:
        moved.due = due_time(target, position.view)
    holdings.link(moved)
    return moved


def finish_move(holdings: Holdings, relocation: Relocation) -> list[MessagePosition]:
    """The changes are stored: the messages are removed from their queues; returns their new positions."""
    arrived: list[MessagePosition] = []
    for position, moved in relocation.moves:
        moved.view = position.view
        holdings.unlink(position)
        arrived.append(moved)
    return arrived


def undo_move(holdings: Holdings, relocation: Relocation) -> None:
    """The changes were not stored: the new positions are discarded."""
    for _, moved in relocation.moves:
        holdings.unlink(moved)
