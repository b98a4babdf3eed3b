"""Pending removals of messages: received, or removed unread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

import attrs

from msmq.persistence.changes import Change, RemoveMessages
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.packet.message_class import MessageClass

_QUEUE: Final = attrgetter("queue")


@attrs.frozen
class Departure:
    """Messages that are being removed unread from one queue, and are locked until then.

    @ivar message_class: the class of the negative acknowledgement.
    @ivar is_reported: their events and dead letters are stored already.
    @ivar reason: an additional text for the event.
    @ivar is_kept: the store keeps them, damaged, until it can put what is left of them into quarantine.
    """

    queue: Queue = attrs.field(repr=False)
    positions: Sequence[MessagePosition] = attrs.field(repr=False)
    message_class: MessageClass
    is_reported: bool = False
    reason: str = ""
    is_kept: bool = False


@attrs.frozen
class DepartureCommit:
    """The changes of a departure; its messages are out of their queue once they are stored.

    @ivar copies: the dead letters; they are in their queue, still invisible.
    @ivar dropped: the number of those that their queue had no space for.
    """

    departure: Departure
    changes: Sequence[Change]
    copies: Sequence[MessagePosition] = attrs.field(default=(), repr=False)
    dropped: int = 0


@attrs.frozen
class Removal:
    """Received messages, which leave their queues when the changes are stored.

    @ivar departures: messages that a transaction was to move and whose queue was purged meanwhile; they are
        removed for that reason.
    @ivar copies: the journal copies, still invisible.
    @ivar dropped: the number of copies that their queue had no space for.
    @ivar purged: those of the messages whose queue was purged while their reader had locked them.
    """

    positions: Sequence[MessagePosition] = attrs.field(repr=False)
    changes: Sequence[Change]
    departures: Sequence[Departure] = attrs.field(default=(), repr=False)
    copies: Sequence[MessagePosition] = attrs.field(default=(), repr=False)
    purged: Sequence[MessagePosition] = attrs.field(default=(), repr=False)
    dropped: int = 0


def departure(
    positions: Sequence[MessagePosition],
    message_class: MessageClass,
    reason: str = "",
    *,
    is_kept: bool = False,
) -> Departure:
    """The departure of at least one message, all of one queue."""
    return Departure(positions[0].queue, positions, message_class, reason=reason, is_kept=is_kept)


def gone_with_queue(positions: Iterable[MessagePosition], *, is_reported: bool = False) -> list[Departure]:
    """The departures of messages that were being added or removed when their queues were deleted.

    The deletion itself reports all others.

    @param is_reported: their events and dead letters are stored already.
    """
    gone = by_queue(positions)
    for same_queue in gone.values():
        for position in same_queue:
            position.state = PositionState.LEAVING
    return [
        Departure(queue, same_queue, MessageClass.NACK_Q_DELETED, is_reported)
        for queue, same_queue in gone.items()
    ]


def removals(positions: Iterable[MessagePosition]) -> list[Change]:
    """The changes that remove these messages from the store."""
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
    """The positions, grouped by queue."""
    queues: dict[Queue, list[MessagePosition]] = {}
    for queue, run in groupby(positions, _QUEUE):
        queues.setdefault(queue, []).extend(run)
    return queues
