"""Enqueue Message: quotas, time limits and positions of arriving messages. [MS-MQDMPR] 3.1.7.1.9."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from msmq.moment import Moment
from msmq.persistence.changes import AppendLog, Change, PutMessage, PutMessages, PutQueue
from msmq.queues.holdings import RUN, Holdings, room_in
from msmq.queues.leaving.deadlines import due_time, time_limit
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.message_lifetime import FOREVER, SENT_TIME, TIME_TO_BE_RECEIVED
from msmq.structures.packet.user_header import UserHeader
from msmq.wire.guid import NULL_GUID

if TYPE_CHECKING:
    from msmq.structures.packet.user_message_view import UserMessageView

_PR: Final = BaseHeader.PR
_TH: Final = UserHeader.TH
_JP: Final = UserHeader.JP
_TH_JP: Final = UserHeader.TH | UserHeader.JP
_TH_JN: Final = UserHeader.TH | UserHeader.JN


class EnqueueStatus(enum.IntEnum):
    """[MS-MQDMPR] 3.1.7.1.9 rStatus; QUEUE_DELETED, for a queue deleted meanwhile, is not in the document."""

    STORED = 0
    QUEUE_QUOTA_EXCEEDED = 1
    QUEUE_MANAGER_QUOTA_EXCEEDED = 2
    TIMED_OUT_IN_TRANSIT = 3
    QUEUE_DELETED = 4


_REFUSAL_CLASSES: Final = {
    EnqueueStatus.QUEUE_QUOTA_EXCEEDED: MessageClass.NACK_Q_EXCEED_QUOTA,
    EnqueueStatus.TIMED_OUT_IN_TRANSIT: MessageClass.NACK_REACH_QUEUE_TIMEOUT,
    EnqueueStatus.QUEUE_DELETED: MessageClass.NACK_BAD_DST_Q,
}


def refusal_class(status: EnqueueStatus) -> MessageClass | None:
    """The class of the negative acknowledgement of a message that was not enqueued. [MS-MQQB] 3.1.5.8.8.

    @param status: not STORED.
    @return: C{None} over the queue manager's quota: nothing is acknowledged, and the sender tries again later
        (reading 67).
    """
    return _REFUSAL_CLASSES.get(status)


@attrs.frozen
class EnqueueRefusal:
    """A message that was not enqueued.

    @ivar index: its index in the batch of arrivals, from 0.
    """

    index: int
    queue: Queue = attrs.field(repr=False)
    view: UserMessageView = attrs.field(repr=False)
    status: EnqueueStatus


@attrs.define(eq=False)
class Admission:
    """Messages that are in their queues, invisible until they are committed.

    @ivar changes: the changes to store before that; none for express messages.
    @ivar overflow: changes for the store whose commit is not awaited.
    @ivar groups: the positions of each queue, in the order of arrival.
    @ivar mortal: those of them that can expire.
    @ivar refusals: the messages that were not enqueued; all others were.
    @ivar journaled: the positions of messages that have arrived and are journaled at their source then.
    @ivar dropped: the number of copies that the machine journal had no space for, and of dead letters of
        messages that are refused with them.
    @ivar copies: dead letters of some refused ones, and copies of others in the machine journal.
    """

    changes: list[Change] = attrs.field(factory=list)
    overflow: list[Change] = attrs.field(factory=list)
    groups: dict[Queue, list[MessagePosition]] = attrs.field(factory=dict)
    mortal: list[MessagePosition] = attrs.field(factory=list)
    refusals: list[EnqueueRefusal] = attrs.field(factory=list)
    journaled: list[tuple[Queue, int]] = attrs.field(factory=list)
    copies: list[MessagePosition] = attrs.field(factory=list)
    dropped: int = 0

    @property
    def positions(self) -> Iterator[MessagePosition]:
        """The positions of enqueued messages, by queue."""
        return (position for positions in self.groups.values() for position in positions)


def admit(
    arrivals: Sequence[tuple[Queue, UserMessageView]],
    first: int,
    holdings: Holdings,
    now: Moment,
    spare: int = 0,
    *,
    ignores_throttle: bool = False,
) -> Admission:
    """Enqueue messages, in state ARRIVING, and charge their bytes.

    @param first: the SequentialID of the first; the others follow.
    @param spare: bytes that they may take beyond QueueManagerQuota.
    @param ignores_throttle: they are accepted although the store was full the last time.
    """
    storage = holdings.storage
    free = storage.free_with(spare, ignores_throttle=ignores_throttle)
    if len(arrivals) > 1 and (together := _admit_run(arrivals, first, holdings, now, free)) is not None:
        return together
    admission = Admission()
    changes, groups, mortal = admission.changes, admission.groups, admission.mortal
    arrived = now.wall
    express_room = storage.express_room
    queue: Queue | None = None
    entries: dict[int, MessagePosition] = {}
    positions: list[MessagePosition] = []
    identifier = NULL_GUID
    limit, forever = TIME_TO_BE_RECEIVED, FOREVER
    is_logged = False
    # Messages that are stored together, when they expire, and the LookupIdentifier of the next one.
    run: list[bytes] = []
    run_due: int | None = None
    run_event_only = False
    following = -1
    fresh: set[Queue] = set()
    room = 0
    last_stamp = b""
    last_due: int | None = None
    for number, (target, view) in enumerate(arrivals, first):
        if target is not queue:
            if run:
                changes.append(_put(identifier, following, run, arrived, run_due, run_event_only))
                run, following = [], -1
            queue = target
            limit = time_limit(target)
            room = room_in(target)
            entries = target.positions
            positions = groups.setdefault(target, [])
            identifier = target.definition.identifier
            is_logged = target.definition.log
            last_stamp = b""
            if not target.is_stored:
                fresh.add(target)
        size = view.size
        packet = view.packet
        due: int | None = None
        if size > free or size > room or packet[limit] != forever:
            # Most were sent in the same second, and have the same expiry.
            stamp = packet[limit] + packet[SENT_TIME]
            if stamp != last_stamp or size > free or size > room:
                status = enqueue_status(target, view, free, room, now)
                if status:
                    admission.refusals.append(EnqueueRefusal(number - first, target, view, status))
                    continue
                last_stamp, last_due = stamp, due_time(target, view)
            due = last_due
        # Slots of the view, not its properties, since this line runs for every message.
        priority = view.base_flags & _PR
        if view.flags & _TH_JP:
            if view.flags & _TH:
                priority = 0
            elif not isinstance(target, OutgoingQueue):
                admission.journaled.append((target, (7 - priority) << 56 | number))
        lookup_id = (7 - priority) << 56 | number
        position = MessagePosition(target, lookup_id, view, size, arrived)
        if due is not None:
            position.due = due
            mortal.append(position)
        if view.is_recoverable:
            position.kept = PacketHolder.STORE
            event_only = position.event_only = not (view.acknowledge or view.flags & _TH_JN)
            if not target.is_stored:
                holdings.keep_queue(target, changes)
            if is_logged:
                changes.append(PutMessage(identifier, lookup_id, packet, arrived, due, event_only=event_only))
            else:
                if (
                    lookup_id != following
                    or due != run_due
                    or event_only is not run_event_only
                    or len(run) >= RUN
                ):
                    if run:
                        changes.append(_put(identifier, following, run, arrived, run_due, run_event_only))
                    run, run_due, run_event_only = [], due, event_only
                run.append(packet)
                following = lookup_id + 1
        elif size > express_room:
            if target in fresh:
                # Either of two batches may be committed first, or fail, so each contains the queue.
                holdings.keep_queue(target, changes)
                admission.overflow.append(PutQueue(target.definition))
            holdings.overflow(position, admission.overflow)
        else:
            storage.express += size
            express_room -= size
        if is_logged:
            changes.append(AppendLog(identifier, lookup_id, packet, arrived))
        entries[lookup_id] = position
        positions.append(position)
        target.total_bytes += size
        storage.used += size
        storage.messages += 1
        free -= size
        room -= size
    if run:
        changes.append(_put(identifier, following, run, arrived, run_due, run_event_only))
    return admission


def _admit_run(
    arrivals: Sequence[tuple[Queue, UserMessageView]], first: int, holdings: Holdings, now: Moment, free: int
) -> Admission | None:
    """Enqueue messages for one queue that have one shape, none of which is refused or journaled.

    That is nearly everything that arrives together; C{None} for all else, of which nothing has changed then.
    """
    queue, head = arrivals[0]
    shape = head.shape
    views = [view for target, view in arrivals if target is queue and view.shape is shape]
    count, size, storage = len(views), shape.size, holdings.storage
    total = count * size
    if (
        count < len(arrivals)
        or (shape.flags & _TH_JP == _JP and not isinstance(queue, OutgoingQueue))
        or queue.definition.log
        or total > min(free, room_in(queue))
        or (not shape.is_recoverable and total > storage.express_room)
        or enqueue_status(queue, head, free, total, now)
    ):
        return None
    admission = Admission()
    due = None if head.packet[time_limit(queue)] == FOREVER else due_time(queue, head)
    # The priority of a transactional message counts as 0.
    priority = 0 if shape.is_transactional else shape.base_flags & _PR
    lookup_id = 7 - priority << 56 | first
    kept, event_only, arrived = PacketHolder.MEMORY, False, now.wall
    if shape.is_recoverable:
        kept, event_only = PacketHolder.STORE, not (shape.acknowledge or shape.flags & _TH_JN)
        holdings.keep_queue(queue, admission.changes)
        packets = [view.packet for view in views]
        identifier = queue.definition.identifier
        for start in range(0, count, RUN):
            some = packets[start : start + RUN]
            following = lookup_id + start + len(some)
            admission.changes.append(_put(identifier, following, some, arrived, due, event_only))
    else:
        storage.express += total
    state = PositionState.ARRIVING
    positions = [
        MessagePosition(
            queue, number, view, size, arrived, state, None, kept, due, 0, 0, False, 0, event_only
        )
        for number, view in enumerate(views, lookup_id)
    ]
    queue.positions.update(zip(range(lookup_id, lookup_id + count), positions, strict=True))
    admission.groups[queue] = positions
    if due is not None:
        admission.mortal += positions
    queue.total_bytes += total
    storage.used += total
    storage.messages += count
    return admission


def _put(
    queue: UUID, following: int, packets: list[bytes], arrived: float, due: int | None, event_only: bool
) -> PutMessage | PutMessages:
    """The change that stores messages with consecutive LookupIdentifiers.

    @param following: the LookupIdentifier behind them.
    """
    if len(packets) == 1:
        return PutMessage(queue, following - 1, packets[0], arrived, due, event_only=event_only)
    return PutMessages(queue, following - len(packets), packets, arrived, due, event_only)


def enqueue_status(queue: Queue, view: UserMessageView, free: int, room: int, now: Moment) -> EnqueueStatus:
    """Whether a message is admitted to a queue, or the reason why not.

    @param free: bytes that QueueManagerQuota still allows.
    @param room: bytes that Quota of the queue still allows.
    """
    if queue.is_deleted:
        return EnqueueStatus.QUEUE_DELETED
    if view.size > free:
        return EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED
    if view.size > room:
        return EnqueueStatus.QUEUE_QUOTA_EXCEEDED
    if isinstance(queue, OutgoingQueue) and now.wall >= view.reach_limit:
        return EnqueueStatus.TIMED_OUT_IN_TRANSIT
    return EnqueueStatus.STORED
