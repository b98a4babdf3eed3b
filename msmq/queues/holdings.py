"""Totals over all queues: quotas, message numbers, memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

import attrs

from msmq.persistence.changes import Change, MoveMessage, PutMessage, PutMessages, PutQueue, RemoveMessages
from msmq.queues.counters import ReservedCounter
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.packet.user_message_view import UserMessageView

RUN: Final = 256
"""The most messages of one change."""
RESULTS_RESERVE: Final = 1 << 20
"""Bytes beyond QueueManagerQuota for results that peers can cause without a message that leaves or arrives;
of a small quota a sixteenth."""

_ENDLESS = 1 << 62
_QUEUE: Final = attrgetter("queue")


@attrs.define
class Storage:
    """Usage and limits of all queues together. [MS-MQDMPR] 3.1.1.1.

    @ivar limit: QueueManagerQuota in bytes; C{None} for no limit.
    @ivar used: bytes of the packets in all queues.
    @ivar messages: the number of messages in all queues of every kind.
    @ivar journal_limit: JournalQuota in bytes, for all journals and dead-letter queues together; C{None} for
        no limit.
    @ivar journaled: bytes of the packets in these.
    @ivar peer_dead_letters: bytes of the dead-letter queue up to which messages of other queue managers that
        fail on arrival or in transit become dead letters here; C{None} for no limit.
    @ivar throttled: Throttled, no messages are accepted at the moment.
    @ivar express_limit: bytes of express messages in memory beyond which they are written to the store;
        C{None} for no limit.
    @ivar express: bytes of the express messages that are only in memory.
    @ivar cache_limit: bytes of stored packets that are cached in memory; C{None} for no limit.
    @ivar cached: bytes of cached packets.
    """

    limit: int | None
    used: int = 0
    journal_limit: int | None = None
    journaled: int = 0
    peer_dead_letters: int | None = None
    throttled: bool = False
    express_limit: int | None = None
    express: int = 0
    cache_limit: int | None = None
    cached: int = 0
    messages: int = 0

    @property
    def free(self) -> int:
        """Bytes that may still be accepted; negative if none."""
        if self.throttled:
            return -1
        return _ENDLESS if self.limit is None else self.limit - self.used

    @property
    def _unused(self) -> int:
        return _ENDLESS if self.limit is None else self.limit - self.used

    def free_with(self, spare: int, *, ignores_throttle: bool = False) -> int:
        """The same for messages that replace others, which leave: C{spare} bytes are for them in any case.

        The limit may be exceeded: by others that replace messages at the same time, or since it was lowered.

        @param ignores_throttle: they are tried although the store was full the last time.
        """
        return -1 if self.throttled and not ignores_throttle else max(self._unused, 0) + spare

    def spare_for(self, bound: int, others: int) -> int:
        """Bytes that results of messages may take beyond the limit.

        @param bound: bytes of those whose messages leave, or arrive in the same step: they are not more than
            these.
        @param others: bytes of the others, which peers can cause at will: they share a reserve.
        """
        if self.limit is None:
            return bound + others
        reserve = min(RESULTS_RESERVE, self.limit >> 4) + min(self._unused, 0)
        return bound + max(0, min(others, reserve))

    @property
    def journal_room(self) -> int:
        """Bytes that journals and dead-letter queues may still accept; negative if none.

        A copy replaces a message that is removed, so the limit for all queues does not apply.
        """
        return -1 if self.throttled else self.dead_letter_room

    @property
    def dead_letter_room(self) -> int:
        """The same for dead letters, which wait for a full store rather than being lost."""
        return _ENDLESS if self.journal_limit is None else self.journal_limit - self.journaled

    @property
    def express_room(self) -> int:
        """Bytes of express messages that still fit into memory."""
        return _ENDLESS if self.express_limit is None else self.express_limit - self.express


def room_in(queue: Queue) -> int:
    """Bytes that Quota still allows; negative if the queue is deleted.

    A subqueue shares the quota of its parent (reading 14).
    """
    if queue.is_deleted:
        return -1
    limit = queue.quota_bytes
    if limit is None:
        return _ENDLESS
    main = queue.main
    return limit - main.total_bytes - main.subqueue_bytes


@attrs.define(eq=False)
class Holdings:
    """Counts and numbers the messages of all queues.

    @ivar sequential: SequentialID.
    """

    storage: Storage
    sequential: ReservedCounter

    def insert(
        self, queue: Queue, view: UserMessageView | None, source: MessagePosition, *, keep: PacketHolder
    ) -> MessagePosition:
        """Append a copy of a message after all others of its priority, still invisible; it never expires.

        @param view: its packet, if it is in memory.
        @param source: the original, whose ArrivalTime is preserved.
        """
        lookup_id = source.lookup_id >> 56 << 56 | self.sequential.take(1)
        position = MessagePosition(
            queue, lookup_id, view, source.size if view is None else view.size, source.arrived, kept=keep
        )
        self.link(position)
        return position

    def link(self, position: MessagePosition) -> None:
        """Count a message that enters its queue."""
        queue, size = position.queue, position.size
        queue.link(position)
        self.storage.used += size
        self.storage.messages += 1
        if queue.is_system:
            self.storage.journaled += size
        if position.kept is PacketHolder.MEMORY:
            self.storage.express += size

    def restore(self, queue: Queue, count: int, size: int) -> None:
        """Count stored messages in an empty queue.

        @param size: the bytes of all their packets.
        """
        self.storage.messages += count
        queue.total_bytes += size
        if queue.is_subqueue and queue.parent is not None:
            queue.parent.subqueue_bytes += size
        self.storage.used += size
        if queue.is_system:
            self.storage.journaled += size

    def unlink(self, position: MessagePosition) -> None:
        """Remove a message from its queue and from the totals, unless it was removed already."""
        size = position.queue.unlink(position)
        if not size:
            position.state = PositionState.DELETED
        else:
            self.storage.used -= size
            self.storage.messages -= 1
            if position.queue.is_system:
                self.storage.journaled -= size
            if position.kept is PacketHolder.MEMORY:
                self.storage.express -= size
            elif position.is_cached:
                self.uncache(position)

    def unlink_all(self, positions: Iterable[MessagePosition]) -> None:
        """L{unlink} for several messages, with one look-up of each queue."""
        storage = self.storage
        memory, deleted = PacketHolder.MEMORY, PositionState.DELETED
        for queue, run in groupby(positions, _QUEUE):
            if queue.parent is not None or queue.peekable is not None or queue.is_system:
                for position in run:
                    self.unlink(position)
                continue
            take = queue.positions.pop
            size = taken = 0
            for position in run:
                position.state = deleted
                if take(position.lookup_id, None) is not None:
                    size += position.size
                    taken += 1
                    if position.kept is memory:
                        storage.express -= position.size
                    elif position.is_cached:
                        self.uncache(position)
            queue.total_bytes -= size
            storage.used -= size
            storage.messages -= taken

    def cache(self, positions: Iterable[MessagePosition]) -> None:
        """Cache the packets of stored messages within the memory limit.

        The oldest, which are received first, stay cached until then.
        """
        storage = self.storage
        limit = _ENDLESS if storage.cache_limit is None else storage.cache_limit
        room = limit - storage.cached
        memory = PacketHolder.MEMORY
        for position in positions:
            if position.kept is memory or position.is_cached or position.view is None:
                continue
            size = position.size
            if size <= room:
                position.is_cached = True
                room -= size
            else:
                position.view = None
        storage.cached = limit - room

    def overflow(self, position: MessagePosition, changes: list[Change]) -> None:
        """Hand an express message to the store; until its result is known the message is in memory too.

        @param changes: the changes to append to, whose commit is not awaited.
        """
        position.kept = PacketHolder.OVERFLOW
        self.put(position, changes)
        position.is_cached = True
        self.storage.cached += position.size

    def overflowed(self, position: MessagePosition, *, is_stored: bool) -> None:
        """The store has an express message that was handed to it, or has failed to store it."""
        if position.is_cached:
            self.uncache(position)
        if not is_stored:
            position.kept = PacketHolder.MEMORY
            self.storage.express += position.size
        elif position.state is PositionState.AVAILABLE:
            self.cache((position,))

    def uncache(self, position: MessagePosition) -> None:
        """The packet of a stored message no longer counts as cached."""
        position.is_cached = False
        self.storage.cached -= position.size

    def keep_queue(self, queue: Queue, changes: list[Change]) -> None:
        """Add the queue of a message that is stored, if the store does not have it."""
        if not queue.is_stored:
            queue.is_stored = True
            changes.append(PutQueue(queue.definition))

    def put(self, position: MessagePosition, changes: list[Change]) -> None:
        """The change that stores a message whose packet is in memory, if it is recoverable."""
        if position.kept is not PacketHolder.MEMORY:
            self.keep_queue(position.queue, changes)
            changes.append(
                PutMessage(
                    position.queue.definition.identifier,
                    position.lookup_id,
                    position.record,
                    position.arrived,
                    position.due,
                    position.aborts,
                    position.moves,
                    position.kept is PacketHolder.OVERFLOW,
                )
            )

    def put_run(self, queue: Queue, positions: Sequence[MessagePosition], changes: list[Change]) -> None:
        """As L{put} for new recoverable messages of one queue: consecutive ones share a change."""
        self.keep_queue(queue, changes)
        identifier = queue.definition.identifier
        start = 0
        while start < len(positions):
            head = positions[start]
            first, arrived, due = head.lookup_id, head.arrived, head.due
            end = start + 1
            for position in positions[end : start + RUN]:
                if (
                    position.lookup_id - first != end - start
                    or position.arrived != arrived
                    or position.due != due
                ):
                    break
                end += 1
            if end - start == 1:
                self.put(head, changes)
            else:
                packets = [position.record for position in positions[start:end]]
                changes.append(PutMessages(identifier, first, packets, arrived, due, False))
            start = end

    def move(self, source: MessagePosition, copy: MessagePosition, changes: list[Change]) -> None:
        """The change that copies a stored message within the store.

        For an express message it is unknown whether the store has it, so its packet is stored again if
        possible.
        """
        if source.kept is PacketHolder.OVERFLOW and copy.view is not None:
            self.put(copy, changes)
            changes.append(RemoveMessages(source.queue.definition.identifier, (source.lookup_id,), True))
        elif source.kept is not PacketHolder.MEMORY:
            self.keep_queue(copy.queue, changes)
            changes.append(
                MoveMessage(
                    source.queue.definition.identifier,
                    source.lookup_id,
                    copy.queue.definition.identifier,
                    copy.lookup_id,
                    copy.due,
                    copy.aborts,
                    copy.moves,
                    source.kept is PacketHolder.OVERFLOW,
                )
            )

    def reserve(self, changes: list[Change]) -> None:
        """Add the changes that prevent numbers in use from being repeated."""
        if (reservation := self.sequential.reservation()) is not None:
            changes.append(reservation)


def forget_queues(changes: Iterable[Change], queues: Iterable[Queue]) -> None:
    """A batch was not stored: the queues that it would have created are not in the store."""
    put = {change.definition.identifier for change in changes if isinstance(change, PutQueue)}
    for queue in queues:
        if queue.definition.identifier in put:
            queue.is_stored = False
