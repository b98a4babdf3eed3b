"""[MS-MQDMPR] 3.1.1.2 Queue and 3.1.1.11 MessagePosition: a queue and its messages in order."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection, Container, Hashable, Iterable
from itertools import islice
from typing import Final

import attrs

from msmq.errors import LocalProtocolError
from msmq.persistence.definition import UNLIMITED, QueueDefinition, QueueType
from msmq.persistence.snapshot import MessageColumns
from msmq.queues.ordered_positions import CHUNK_LENGTH, Chunk, OrderedPositions
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue_positions import QueuePositions, RemovedPositions
from msmq.structures.packet.kept_packet import packet_of
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_view import UserMessageView

PRIORITIES = 8

SEQUENTIAL_MASK = (1 << 56) - 1
"""The part of a LookupIdentifier that is the SequentialID."""


_JN: Final = UserHeader.JN

_AT_REST = frozenset({PositionState.AVAILABLE, PositionState.LOCKED_READER, PositionState.PURGE_PENDING})


@attrs.define(eq=False, weakref_slot=False)
class MessagePosition:
    """[MS-MQDMPR] 3.1.1.11 the position of a message in a queue.

    @ivar lookup_id: LookupIdentifier ([MS-MQDMPR] 3.1.1.12), by which the messages of a queue are ordered:
        the high byte is 7 minus the priority, the rest is the SequentialID.
    @ivar view: the packet; C{None} while it is only in the store.
    @ivar size: bytes of the packet.
    @ivar arrived: ArrivalTime, seconds since 1970-01-01 UTC.
    @ivar owner: the owner of the lock: the tag of a read, a transaction, or a session.
    @ivar due: when it expires, seconds since 1970-01-01 UTC; C{None} for never.
    @ivar aborts: AbortCount, how many transactions that received it were aborted.
    @ivar moves: MoveCount, how often it was moved.
    @ivar insertion: when it last became available, as L{Queue.insertions} counts; 0 if not counted.
    @ivar is_cached: the store has the packet, and C{view} is counted as a copy of it.
    """

    queue: Queue = attrs.field(repr=False)
    lookup_id: int
    view: UserMessageView | None = attrs.field(repr=False)
    size: int
    arrived: float
    state: PositionState = PositionState.ARRIVING
    owner: Hashable = None
    kept: PacketHolder = PacketHolder.MEMORY
    due: int | None = None
    aborts: int = 0
    moves: int = 0
    is_cached: bool = False
    insertion: int = 0

    @property
    def is_recoverable(self) -> bool:
        """Whether it is durably in the store, or being stored."""
        return self.kept is PacketHolder.STORE

    @property
    def is_stored(self) -> bool:
        """Whether the store has it or is storing it, durably or not."""
        return self.kept is not PacketHolder.MEMORY

    @property
    def is_at_rest(self) -> bool:
        """Whether it is available or locked by a reader, and no change for it is being stored."""
        return self.state in _AT_REST

    @property
    def priority(self) -> int:
        """The effective priority, 7 first: that of the message, 0 if it is transactional."""
        return 7 - (self.lookup_id >> 56)

    @property
    def packet(self) -> bytes:
        """The UserMessage packet, as it is sent to other queue managers.

        @raise LocalProtocolError: it has not been read from the store yet.
        """
        view = self.view
        if view is None:
            raise self._unread()
        return packet_of(view.packet) if view.flags & _JN else view.packet

    @property
    def record(self) -> bytes:
        """The UserMessage packet with its local headers, as it is stored.

        @raise LocalProtocolError: it has not been read from the store yet.
        """
        if self.view is None:
            raise self._unread()
        return self.view.packet

    def _unread(self) -> LocalProtocolError:
        return LocalProtocolError(f"message {self.lookup_id:#x} has not been read from the store yet")


class PackedPositions:
    """Consecutive messages of a queue that are available, stored durably, and not in memory.

    @ivar lowest: the smallest LookupIdentifier.
    @ivar is_plain: whether none of them has a deadline.
    """

    __slots__ = ("columns", "is_plain", "lowest", "queue")

    def __init__(self, queue: Queue, columns: MessageColumns) -> None:
        self.queue = queue
        self.columns = columns
        self.lowest = columns.lookup_ids[0]
        self.is_plain = columns.due.count(-1) == len(columns)

    def __len__(self) -> int:
        return len(self.columns)

    def objects(self) -> list[MessagePosition]:
        """Make them objects."""
        found: list[MessagePosition] = []
        available, stored = PositionState.AVAILABLE, PacketHolder.STORE
        for lookup_id, size, arrived, due, aborts, moves in self.columns:
            position = MessagePosition(self.queue, lookup_id, None, size, arrived, available, None, stored)
            if due is not None or aborts or moves:
                position.due, position.aborts, position.moves = due, aborts, moves
            found.append(position)
        return found

    def unpack(self) -> list[MessagePosition]:
        """Make them objects of their queue."""
        found = self.objects()
        positions = self.queue.positions
        positions.update((position.lookup_id, position) for position in found)
        positions.packed -= len(found)
        return found


@attrs.define(eq=False)
class Queue:
    """[MS-MQDMPR] 3.1.1.2 a queue and its MessagePositionList.

    @ivar positions: every message by its LookupIdentifier, in every state, unordered.
    @ivar total_bytes: TotalBytes, the packets of all of them; charged when a message is inserted and released
        when it is removed, independent of its state.
    @ivar readers: the tags of the waiting reads, in the order in which they began.
    @ivar is_deleted: the queue is deleted; references to it are still valid.
    @ivar is_stored: its definition is stored, or being stored.
    @ivar parent: the queue of which this is the journal or a subqueue.
    @ivar journal: JournalQueueReference; journals, subqueues and system queues have none.
    @ivar subqueues: SubqueueCollection, by name in lower case.
    @ivar subqueue_bytes: TotalBytes of all subqueues together.
    @ivar descriptors: OpenQueueDescriptorCollection, as handles.
    @ivar ends: how many cursors are at its end; while there are any, insertions are numbered.
    @ivar insertions: the number of the last insertion.
    @ivar peekable: locked messages that may be peeked nevertheless; C{None} if there are none.
    @ivar users: how many handles have it open; a subqueue is kept while there are any.
    @ivar arrived_count: messages that entered it since the process began.
    @ivar received_count: messages that were received from it since then, or, for an outgoing queue, accepted
        by the next hop.
    """

    definition: QueueDefinition
    positions: QueuePositions[MessagePosition] = attrs.field(
        default=attrs.Factory(lambda self: QueuePositions(self.load), takes_self=True), init=False, repr=False
    )
    total_bytes: int = 0
    readers: OrderedDict[Hashable, None] = attrs.field(factory=OrderedDict, repr=False)
    is_deleted: bool = False
    is_stored: bool = False
    parent: Queue | None = attrs.field(default=None, repr=False)
    journal: Queue | None = attrs.field(default=None, repr=False)
    subqueues: dict[str, Queue] = attrs.field(factory=dict, repr=False)
    subqueue_bytes: int = 0
    users: int = 0
    arrived_count: int = 0
    received_count: int = 0
    descriptors: set[int] = attrs.field(factory=set, repr=False)
    ends: int = 0
    insertions: int = 0
    peekable: OrderedPositions[MessagePosition] | None = attrs.field(default=None, repr=False)
    _levels: list[OrderedPositions[MessagePosition] | None] = attrs.field(
        factory=lambda: [None] * PRIORITIES, init=False, repr=False
    )

    @property
    def is_subqueue(self) -> bool:
        """Whether it is a subqueue, into which messages can only be moved."""
        return self.parent is not None and self.definition.type is not QueueType.SYSTEM

    @property
    def is_system(self) -> bool:
        """Whether it is a journal or another system queue, to which applications cannot send."""
        return self.definition.type is QueueType.SYSTEM

    @property
    def main(self) -> Queue:
        """The queue whose quota, journal and properties apply: the parent of a subqueue, otherwise itself."""
        return self.parent if self.parent is not None and self.is_subqueue else self

    @property
    def message_count(self) -> int:
        """The number of messages in the queue, including locked ones."""
        return len(self.positions)

    @property
    def available_count(self) -> int:
        """The number of available messages."""
        return sum(len(level) for level in self._levels if level is not None)

    @property
    def has_available(self) -> bool:
        """Whether a receive would find a message."""
        return any(level is not None and level.first for level in self._levels)

    @property
    def oldest_arrival(self) -> float | None:
        """The earliest ArrivalTime of the messages at the head of each priority; C{None} without any.

        Messages that a reader has locked are not considered.
        """
        heads = (next(iter(level), None) for level in self._levels if level is not None)
        return min((head.arrived for head in heads if head is not None), default=None)

    @property
    def is_active(self) -> bool:
        """[MS-MQDMPR] 3.1.1.2 Active: it is open."""
        return bool(self.descriptors)

    @property
    def quota_bytes(self) -> int | None:
        """The bytes that Quota allows; C{None} without a limit.

        A journal is held to the JournalQuota of its queue.
        """
        if self.parent is None:
            kilobytes = self.definition.quota
        else:
            parent = self.parent.definition
            kilobytes = parent.journal_quota if self.is_system else parent.quota
        return None if kilobytes == UNLIMITED else kilobytes * 1024

    def make_available(self, positions: Collection[MessagePosition]) -> None:
        """[MS-MQDMPR] 3.1.7.2.2 make these positions of this queue available to readers."""
        available = PositionState.AVAILABLE
        levels = self._levels
        for position in positions:
            position.state = available
            position.owner = None
            lookup_id = position.lookup_id
            level = levels[lookup_id >> 56]
            if level is None:
                level = levels[lookup_id >> 56] = OrderedPositions()
            last = level.last
            if last and last[-1].lookup_id < lookup_id and len(last) < CHUNK_LENGTH:
                last.append(position)
            else:
                level.add(position)
        if self.ends:
            self._number(positions)
        if self.peekable is not None:
            self._hide(positions)

    def take(self, count: int, owner: Hashable) -> list[MessagePosition]:
        """Lock the first C{count} available positions, or as many as there are, for C{owner}."""
        taken: list[MessagePosition] = []
        for level in self._levels:
            if level is not None:
                taken += level.pop(count - len(taken))
                if len(taken) == count:
                    break
        locked = PositionState.LOCKED_READER
        for position in taken:
            position.state = locked
            position.owner = owner
        return taken

    def take_one(self, position: MessagePosition, owner: Hashable) -> None:
        """Lock an available position, anywhere in the queue, for C{owner}."""
        self._discard(position)
        position.state = PositionState.LOCKED_READER
        position.owner = owner

    def take_through(self, number: int, count: int) -> list[MessagePosition]:
        """Remove up to C{count} available positions, none younger than the SequentialID C{number}."""
        taken: list[MessagePosition] = []
        for level in self._levels:
            if level is not None:
                found = level.pop(count - len(taken))
                while found and found[-1].lookup_id & SEQUENTIAL_MASK > number:
                    level.add(found.pop())
                taken += found
                if len(taken) == count:
                    break
        for position in taken:
            position.state = PositionState.LEAVING
        return taken

    def let_go(self, position: MessagePosition) -> None:
        """Remove an available position, anywhere in the queue."""
        position.state = PositionState.LEAVING
        self._discard(position)

    def peek(self, count: int) -> list[MessagePosition]:
        """The first C{count} available positions, or as many as there are, without locking them."""
        seen: list[MessagePosition] = []
        for level in self._levels:
            if level is not None:
                seen += islice(level, count - len(seen))
        return seen

    def after(self, lookup_id: int) -> MessagePosition | None:
        """The first available position with a greater LookupIdentifier; any of them is above -1."""
        for level in self._levels[max(lookup_id, 0) >> 56 :]:
            if level is not None and (found := level.after(lookup_id)) is not None:
                return found
        return None

    def page(self, after: int, count: int) -> list[MessagePosition]:
        """The first C{count} available positions with a LookupIdentifier greater than C{after}, in order."""
        seen: list[MessagePosition] = []
        for level in self._levels[max(after, 0) >> 56 :]:
            if level is not None:
                seen += islice(level.since(after), count - len(seen))
                if len(seen) == count:
                    break
        return seen

    def before(self, lookup_id: int) -> MessagePosition | None:
        """The last available position with a smaller LookupIdentifier; any of them is below 1 << 64."""
        for level in reversed(self._levels[: (lookup_id >> 56) + 1]):
            if level is not None and (found := level.before(lookup_id)) is not None:
                return found
        return None

    def first_since(self, insertion: int) -> MessagePosition | None:
        """The first of the positions that became available after this insertion number.

        A cursor has to have been at the end since then.
        """
        for level in self._levels:
            if level is not None and (found := level.first_since(insertion)) is not None:
                return found
        return None

    def allow_peek(self, positions: Iterable[MessagePosition]) -> None:
        """[MS-MQDMPR] 3.1.1.12 AllowPeekWhenLocked: these can be peeked while they are locked."""
        if self.peekable is None:
            self.peekable = OrderedPositions()
        for position in positions:
            self.peekable.add(position)

    def link(self, position: MessagePosition) -> None:
        """Add a position to this queue, still invisible, and charge its bytes."""
        self.positions[position.lookup_id] = position
        self.total_bytes += position.size
        if self.is_subqueue and self.parent is not None:
            self.parent.subqueue_bytes += position.size

    def renumber(self, position: MessagePosition, lookup_id: int) -> None:
        """Change the LookupIdentifier of a position that is still invisible."""
        del self.positions[position.lookup_id]
        position.lookup_id = lookup_id
        self.positions[lookup_id] = position

    def unlink(self, position: MessagePosition) -> int:
        """[MS-MQDMPR] 3.1.7.2.1 remove a position that is not available from the queue.

        @return: the bytes that become free; 0 if it was removed already.
        """
        if self.positions.pop(position.lookup_id, None) is None:
            return 0
        position.state = PositionState.DELETED
        if self.peekable is not None:
            self._hide((position,))
        self.total_bytes -= position.size
        if self.parent is not None and self.is_subqueue:
            self.parent.subqueue_bytes -= position.size
        return position.size

    def restore(self, columns: MessageColumns, apart: Container[int]) -> list[MessagePosition]:
        """Take over the messages that a store held, which are available from now on; the queue was empty.

        They are packed until they are looked at, but for those near one that has a deadline or is in
        C{apart}: these are objects, and returned. Those in C{apart} are not available.
        """
        objects: list[MessagePosition] = []
        for priority in range(PRIORITIES):
            start, end = (
                bisect_left(columns.lookup_ids, number << 56) for number in (priority, priority + 1)
            )
            chunks: list[Chunk[MessagePosition] | PackedPositions] = []
            for first in range(start, end, CHUNK_LENGTH):
                packed = PackedPositions(self, columns[first : min(first + CHUNK_LENGTH, end)])
                if packed.is_plain and not any(lookup_id in apart for lookup_id in packed.columns.lookup_ids):
                    self.positions.packed += len(packed)
                    chunks.append(packed)
                    continue
                positions = packed.objects()
                self.positions.update((position.lookup_id, position) for position in positions)
                objects += positions
                if chunk := Chunk(position for position in positions if position.lookup_id not in apart):
                    chunks.append(chunk)
            if chunks:
                level = self._levels[priority] = OrderedPositions()
                level.restore(chunks)
        return objects

    def load(self, lookup_id: int | None) -> None:
        """Make packed messages objects: those near a LookupIdentifier, or all of them."""
        if lookup_id is None:
            for level in self._levels:
                if level is not None:
                    for packed in level.packed():
                        level.load(packed.lowest)
        elif 0 <= lookup_id >> 56 < PRIORITIES and (level := self._levels[lookup_id >> 56]) is not None:
            level.load(lookup_id)

    def clear(self) -> RemovedPositions[MessagePosition]:
        """Empty a deleted queue and return its messages, in the order of arrival.

        Every position of a deleted queue counts as deleted, whatever its state, so that a million need not be
        updated.
        """
        gone = RemovedPositions(self.positions.loaded())
        for level in self._levels:
            if level is not None:
                gone.packed.extend(level.packed())
        self.positions = QueuePositions(self.load)
        self._levels = [None] * PRIORITIES
        self.peekable = None
        self.total_bytes = 0
        self.is_deleted = True
        return gone

    def _discard(self, position: MessagePosition) -> None:
        level = self._levels[position.lookup_id >> 56]
        if level is not None:
            level.discard(position)

    def _number(self, positions: Iterable[MessagePosition]) -> None:
        for position in positions:
            level = self._levels[position.lookup_id >> 56]
            if level is not None:
                self.insertions += 1
                level.number(position, self.insertions)

    def _hide(self, positions: Iterable[MessagePosition]) -> None:
        peekable = self.peekable
        if peekable is not None:
            for position in positions:
                peekable.discard(position)
            if not peekable:
                self.peekable = None
