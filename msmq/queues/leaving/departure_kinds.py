"""Pending removals of messages: received, or removed unread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from msmq.persistence.changes import Change, RemoveMessages
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.packet.message_class import MessageClass


@attrs.frozen
class Departure:
    """Messages that are being removed unread from one queue, and are locked meanwhile.

    @ivar message_class: why, as the negative acknowledgement puts it.
    @ivar is_told: the event log tells of it already, and the dead letters are there.
    @ivar reason: an addition to the event, in words.
    """

    queue: Queue = attrs.field(repr=False)
    positions: Sequence[MessagePosition] = attrs.field(repr=False)
    message_class: MessageClass
    is_told: bool = False
    reason: str = ""


@attrs.frozen
class DepartureCommit:
    """What has to be stored for a departure; its messages are out of their queue once it is.

    @ivar copies: the dead letters; they are in their queue, still invisible.
    """

    departure: Departure
    changes: Sequence[Change]
    copies: Sequence[MessagePosition] = attrs.field(default=(), repr=False)


@attrs.frozen
class Removal:
    """Messages that were received; they leave their queues when the changes are stored.

    @ivar departures: messages whose queue was purged while their readers had them; they leave for that
        reason, whatever becomes of the others.
    @ivar copies: those for the journals of the queues, still invisible.
    """

    positions: Sequence[MessagePosition] = attrs.field(repr=False)
    changes: Sequence[Change]
    departures: Sequence[Departure] = attrs.field(default=(), repr=False)
    copies: Sequence[MessagePosition] = attrs.field(default=(), repr=False)


def departure(
    positions: Sequence[MessagePosition], message_class: MessageClass, reason: str = ""
) -> Departure:
    """Of at least one message, all of one queue."""
    return Departure(positions[0].queue, positions, message_class, reason=reason)


def gone_with_queue(positions: Iterable[MessagePosition], *, is_told: bool = False) -> list[Departure]:
    """Messages that were on their way into queues, or out of them, when these were deleted: they leave.

    The deletion itself reports all others.

    @param is_told: so does the event log of these already.
    """
    gone = by_queue(positions)
    for same_queue in gone.values():
        for position in same_queue:
            position.state = PositionState.LEAVING
    return [
        Departure(queue, same_queue, MessageClass.NACK_Q_DELETED, is_told)
        for queue, same_queue in gone.items()
    ]


def removals(positions: Iterable[MessagePosition]) -> list[Change]:
    """What the store has to forget for these messages to be out of their queues."""
    stored: dict[tuple[Queue, bool], list[int]] = {}
    for position in positions:
        if position.kept is not PacketHolder.MEMORY:
            key = position.queue, position.kept is PacketHolder.OVERFLOW
            stored.setdefault(key, []).append(position.lookup_id)
    return [
        RemoveMessages(queue.definition.identifier, tuple(lookup_ids), is_express)
        for (queue, is_express), lookup_ids in stored.items()
    ]


def by_queue(positions: Iterable[MessagePosition]) -> dict[Queue, list[MessagePosition]]:
    """The same positions, those of each queue together."""
    queues: dict[Queue, list[MessagePosition]] = {}
    for position in positions:
        queues.setdefault(position.queue, []).append(position)
    return queues
