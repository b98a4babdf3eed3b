"""Totals that all queues share: quotas, message numbers, memory."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from msmq.persistence.changes import Change, MoveMessage, PutMessage, PutQueue, RemoveMessages
from msmq.queues.counters import ReservedCounter
from msmq.queues.leaving.deadlines import due_time
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.packet.user_message_view import UserMessageView

_ENDLESS = 1 << 62


@attrs.define
class Storage:
    """[MS-MQDMPR] 3.1.1.1 what all queues together hold, and may hold.

    @ivar limit: QueueManagerQuota in bytes; C{None} for no limit.
    @ivar used: bytes of the packets in all queues.
    @ivar journal_limit: JournalQuota in bytes, for all journals and dead-letter queues together; C{None} for
        no limit.
    @ivar journaled: bytes of the packets in these.
    @ivar peer_letters: bytes of the dead-letter queue up to which messages of other queue managers that fail
        on arrival or in transit become dead letters here; C{None} for no limit.
    @ivar throttled: Throttled, nothing comes in for now.
    @ivar express_limit: bytes of express messages beyond which they go to the store; C{None} for no limit.
    @ivar express: bytes of the express messages that only memory has.
    @ivar cache_limit: bytes of stored packets that are kept in memory as well; C{None} for no limit.
    @ivar cached: bytes of those that are.
    """

    limit: int | None
    used: int = 0
    journal_limit: int | None = None
    journaled: int = 0
    peer_letters: int | None = None
    throttled: bool = False
    express_limit: int | None = None
    express: int = 0
    cache_limit: int | None = None
    cached: int = 0

    @property
    def free(self) -> int:
        """Bytes that may still come in; negative if nothing may."""
        if self.throttled:
            return -1
        return _ENDLESS if self.limit is None else self.limit - self.used

    @property
    def journal_room(self) -> int:
        """Bytes that may still come into journals and dead-letter queues; negative if nothing may.

        A copy is there in place of a message which leaves, so the limit for all queues does not count.
        """
        return -1 if self.throttled else self.letter_room

    @property
    def letter_room(self) -> int:
        """The same for dead letters, which rather wait for a store that is full than that they are lost."""
        return _ENDLESS if self.journal_limit is None else self.journal_limit - self.journaled

    @property
    def express_room(self) -> int:
        """Bytes of express messages for which memory has room."""
        return _ENDLESS if self.express_limit is None else self.express_limit - self.express


def room_in(queue: Queue) -> int:
    """Bytes that Quota still allows; negative if the queue is gone.

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
        """Put a copy of a message behind all others of its priority, still invisible.

        @param view: its packet, if it is in memory.
        @param source: the message that it is a copy of; it keeps the ArrivalTime.
        """
        lookup_id = source.lookup_id >> 56 << 56 | self.sequential.take(1)
        position = MessagePosition(
            queue, lookup_id, view, source.size if view is None else view.size, source.arrived, kept=keep
        )
        if view is not None:
            position.due = due_time(queue, view)
        self.link(position)
        return position

    def link(self, position: MessagePosition) -> None:
        """Count a message in that is in its queue from now on."""
        queue, size = position.queue, position.size
        queue.link(position)
        self.storage.used += size
        if queue.is_system:
            self.storage.journaled += size
        if position.kept is PacketHolder.MEMORY:
            self.storage.express += size

    def restore(self, queue: Queue, positions: Iterable[MessagePosition]) -> None:
        """Count stored messages in that are in a queue which was empty."""
        entries = queue.positions
        size = 0
        for position in positions:
            entries[position.lookup_id] = position
            size += position.size
        queue.total_bytes += size
        if queue.is_subqueue and queue.parent is not None:
            queue.parent.subqueue_bytes += size
        self.storage.used += size
        if queue.is_system:
            self.storage.journaled += size

    def unlink(self, position: MessagePosition) -> None:
        """Count a message out and take it from its queue; nothing is counted if it is out already."""
        size = position.queue.unlink(position)
        if not size:
            position.state = PositionState.DELETED
        else:
            self.storage.used -= size
            if position.queue.is_system:
                self.storage.journaled -= size
            if position.kept is PacketHolder.MEMORY:
                self.storage.express -= size
            elif position.is_cached:
                self.uncache(position)

    def unlink_all(self, positions: Iterable[MessagePosition]) -> None:
        """The same as L{unlink} for each of them; what is so of their queue is asked once, not for each."""
        storage = self.storage
        memory, deleted = PacketHolder.MEMORY, PositionState.DELETED
        queue: Queue | None = None
        entries: dict[int, MessagePosition] = {}
        is_plain = False
        for position in positions:
            if position.queue is not queue:
                queue = position.queue
                entries = queue.positions
                is_plain = queue.parent is None and queue.peekable is None and not queue.is_system
            if not is_plain:
                self.unlink(position)
                continue
            position.state = deleted
            if entries.pop(position.lookup_id, None) is not None:
                size = position.size
                queue.total_bytes -= size
                storage.used -= size
                if position.kept is memory:
                    storage.express -= size
                elif position.is_cached:
                    self.uncache(position)

    def cache(self, positions: Iterable[MessagePosition]) -> None:
        """Keep the packets of stored messages in memory as far as there is room for them, others not.

        The oldest, which are received first, keep their room until then.
        """
        storage = self.storage
        limit = _ENDLESS if storage.cache_limit is None else storage.cache_limit
        for position in positions:
            if position.kept is PacketHolder.MEMORY or position.is_cached or position.view is None:
                continue
            if storage.cached + position.size <= limit:
                position.is_cached = True
                storage.cached += position.size
            else:
                position.view = None

    def overflow(self, position: MessagePosition, changes: list[Change]) -> None:
        """Hand an express message to the store, which may not take it: until that is known memory has it too.

        @param changes: what is not waited for.
        """
        position.kept = PacketHolder.OVERFLOW
        self.put(position, changes)
        position.is_cached = True
        self.storage.cached += position.size

    def overflowed(self, position: MessagePosition, *, is_stored: bool) -> None:
        """The store has an express message that was handed to it, or could not take it."""
        if position.is_cached:
            self.uncache(position)
        if not is_stored:
            position.kept = PacketHolder.MEMORY
            self.storage.express += position.size
        elif position.state is PositionState.AVAILABLE:
            self.cache((position,))

    def uncache(self, position: MessagePosition) -> None:
        """The packet of a stored message is not counted as a copy any more."""
        position.is_cached = False
        self.storage.cached -= position.size

    def keep_queue(self, queue: Queue, changes: list[Change]) -> None:
        """See that a store which gets a message of a queue has the queue."""
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

    def move(self, source: MessagePosition, copy: MessagePosition, changes: list[Change]) -> None:
        """The change that makes the store copy a stored message.

        Of an express message it is not known whether the store has it, so it gets a new copy if it can.
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
        """See that numbers which were given out never come back."""
        if (reservation := self.sequential.reservation()) is not None:
            changes.append(reservation)


def forget_queues(changes: Iterable[Change], queues: Iterable[Queue]) -> None:
    """A batch was not stored: these queues are not in the store, as far as it would have put them there."""
    put = {change.definition.identifier for change in changes if isinstance(change, PutQueue)}
    for queue in queues:
        if queue.definition.identifier in put:
            queue.is_stored = False
