"""Messages that leave their queues, by being received or unread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from msmq.queues.changes import Change, RemoveMessages
from msmq.queues.position import MessagePosition
from msmq.queues.queue import Queue
from msmq.structures.message_class import MessageClass


@attrs.frozen
class Departure:
    """Messages that leave one queue unread; they are out of it when the changes are stored.

    @ivar message_class: why, as the negative acknowledgement puts it.
    """

    queue: Queue = attrs.field(repr=False)
    positions: Sequence[MessagePosition] = attrs.field(repr=False)
    message_class: MessageClass
    changes: Sequence[Change]


@attrs.frozen
class Removal:
    """Messages that were received; they leave their queues when the changes are stored.

    @ivar departures: messages whose queue was purged while their readers had them; they leave for that
        reason, whatever becomes of the others.
    """

    positions: Sequence[MessagePosition] = attrs.field(repr=False)
    changes: Sequence[Change]
    departures: Sequence[Departure] = attrs.field(default=(), repr=False)


def departure(positions: Sequence[MessagePosition], message_class: MessageClass) -> Departure:
    """Of at least one message, all of one queue."""
    return Departure(positions[0].queue, positions, message_class, removals(positions))


def removals(positions: Iterable[MessagePosition]) -> tuple[RemoveMessages, ...]:
    """What the store has to forget for these messages to be out of their queues."""
    stored: dict[Queue, list[int]] = {}
    for position in positions:
        if position.is_recoverable:
            stored.setdefault(position.queue, []).append(position.lookup_id)
    return tuple(
        RemoveMessages(queue.definition.identifier, tuple(lookup_ids)) for queue, lookup_ids in stored.items()
    )


def by_queue(positions: Iterable[MessagePosition]) -> dict[Queue, list[MessagePosition]]:
    """The same positions, those of each queue together."""
    queues: dict[Queue, list[MessagePosition]] = {}
    for position in positions:
        queues.setdefault(position.queue, []).append(position)
    return queues
