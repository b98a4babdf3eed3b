"""[MS-MQDMPR] 3.1.7.1.9 Enqueue Message: whether messages may come in, and where they lie."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from msmq.moment import Moment
from msmq.queues.changes import Change, PutMessage, PutQueue
from msmq.queues.expiring import FOREVER, TIME_TO_BE_RECEIVED, is_late, time_limit
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import MessagePosition
from msmq.queues.queue import Queue
from msmq.structures.base_header import BaseHeader
from msmq.structures.user_header import UserHeader

if TYPE_CHECKING:
    from msmq.structures.user_message_view import UserMessageView


class EnqueueStatus(enum.IntEnum):
    """[MS-MQDMPR] 3.1.7.1.9 rStatus; QUEUE_DELETED is ours, for a queue that went while the message came."""

    STORED = 0
    QUEUE_QUOTA_EXCEEDED = 1
    QUEUE_MANAGER_QUOTA_EXCEEDED = 2
    TIMED_OUT_IN_TRANSIT = 3
    QUEUE_DELETED = 4


@attrs.frozen
class Refusal:
    """A message that did not come in.

    @ivar index: which of the arrivals it was, from 0.
    """

    index: int
    queue: Queue = attrs.field(repr=False)
    view: UserMessageView = attrs.field(repr=False)
    status: EnqueueStatus


@attrs.define(eq=False)
class Admission:
    """Messages that are in their queues, where nobody sees them until they are committed.

    @ivar changes: what has to be in the store before that; nothing for express messages.
    @ivar groups: the positions of each queue, in the order of arrival.
    @ivar mortal: those of them that do not live forever.
    @ivar refusals: the messages that did not come in; the others did.
    """

    changes: list[Change] = attrs.field(factory=list)
    groups: dict[Queue, list[MessagePosition]] = attrs.field(factory=dict)
    mortal: list[MessagePosition] = attrs.field(factory=list)
    refusals: list[Refusal] = attrs.field(factory=list)

    @property
    def positions(self) -> Iterator[MessagePosition]:
        """What came in, queue by queue."""
        return (position for positions in self.groups.values() for position in positions)


@attrs.define
class Storage:
    """[MS-MQDMPR] 3.1.1.1 what all queues together may hold.

    @ivar limit: QueueManagerQuota in bytes; C{None} for no limit.
    @ivar used: bytes of the packets in all queues.
    @ivar throttled: Throttled, nothing comes in for now.
    """

    limit: int | None
    used: int = 0
    throttled: bool = False


def admit(
    arrivals: Sequence[tuple[Queue, UserMessageView]],
    first: int,
    storage: Storage,
    now: Moment,
) -> Admission:
    """Put messages in their queues, in state ARRIVING, and charge their bytes.

    @param first: the SequentialID of the first; the others follow.
    """
    admission = Admission()
    changes, groups = admission.changes, admission.groups
    arrived = now.wall
    free = _free(storage)
    queue: Queue | None = None
    entries: dict[int, MessagePosition] = {}
    positions: list[MessagePosition] = []
    mortal: list[tuple[list[MessagePosition], int]] = []
    limit, forever = TIME_TO_BE_RECEIVED, FOREVER
    room = 0
    for number, (target, view) in enumerate(arrivals, first):
        if target is not queue:
            queue = target
            limit = time_limit(target)
            room = _room(target)
            entries = target.positions
            positions = groups.setdefault(target, [])
        size = view.size
        if size > free or size > room or view.packet[limit] != forever:
            status = _judge(target, view, free, room, now)
            if status:
                admission.refusals.append(Refusal(number - first, target, view, status))
                continue
            if view.packet[limit] != forever:
                mortal.append((positions, len(positions)))
        # Slots of the view, not its properties: this line is run for every message.
        priority = 0 if view.flags & UserHeader.TH else view.base_flags & BaseHeader.PR
        lookup_id = (7 - priority) << 56 | number
        if view.is_recoverable:
            if isinstance(target, OutgoingQueue) and not target.is_stored:
                target.is_stored = True
                changes.append(PutQueue(target.definition))
            changes.append(PutMessage(target.definition.identifier, lookup_id, view.packet, arrived))
        position = MessagePosition(target, lookup_id, view, size, arrived)
        entries[lookup_id] = position
        positions.append(position)
        target.total_bytes += size
        storage.used += size
        free -= size
        room -= size
    admission.mortal = [positions[place] for positions, place in mortal]
    return admission


_ENDLESS = 1 << 62


def _free(storage: Storage) -> int:
    if storage.throttled:
        return -1
    return _ENDLESS if storage.limit is None else storage.limit - storage.used


def _room(queue: Queue) -> int:
    if queue.is_deleted:
        return -1
    limit = queue.quota_bytes
    return _ENDLESS if limit is None else limit - queue.total_bytes


def _judge(queue: Queue, view: UserMessageView, free: int, room: int, now: Moment) -> EnqueueStatus:
    if queue.is_deleted:
        return EnqueueStatus.QUEUE_DELETED
    if view.size > free:
        return EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED
    if view.size > room:
        return EnqueueStatus.QUEUE_QUOTA_EXCEEDED
    if isinstance(queue, OutgoingQueue) and is_late(view, now.wall):
        return EnqueueStatus.TIMED_OUT_IN_TRANSIT
    return EnqueueStatus.STORED
