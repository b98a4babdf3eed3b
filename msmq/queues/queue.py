"""Queue and MessagePosition: a queue and its messages in order. [MS-MQDMPR] 3.1.1.2 and 3.1.1.11."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Sequence, Set
from functools import partial
from typing import Final

import attrs

from msmq.errors import LocalProtocolError
from msmq.persistence.definition import UNLIMITED, QueueDefinition, QueueType
from msmq.persistence.snapshot import MessageColumns
from msmq.queues.available_positions import PRIORITIES, AvailablePositions
from msmq.queues.ordered_positions import CHUNK_LENGTH, Chunk, OrderedPositions, PackedChunk
from msmq.queues.packed_positions import PackedDeadlines, PackedPositions, pack_chunk
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue_positions import QueuePositions, RemovedPositions
from msmq.structures.packet.kept_packet import packet_of
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_view import UserMessageView

_JN: Final = UserHeader.JN

_AT_REST: Final = (PositionState.AVAILABLE, PositionState.LOCKED_READER, PositionState.PURGE_PENDING)
"""A tuple, as a set computes the hash of each state that is looked up, in Python."""


@attrs.define(eq=False, weakref_slot=False)
class MessagePosition:
    """The position of a message in a queue. [MS-MQDMPR] 3.1.1.11.

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
    @ivar event_only: if it is removed unread, an event is all that follows: its sender has requested neither
        an acknowledgement nor a dead letter, and it is not transactional.
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
    event_only: bool = False

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

    def current(self) -> MessagePosition | None:
        """The object that stands for its message now; C{None} if the message has left its queue.

        An available message may have been packed in any earlier iteration of the reactor.
        """
        return self if self.state is not PositionState.PACKED else self.queue.positions.get(self.lookup_id)

    def _unread(self) -> LocalProtocolError:
        return LocalProtocolError(f"message {self.lookup_id:#x} has not been read from the store yet")


def different_positions(positions: Sequence[MessagePosition]) -> Sequence[MessagePosition]:
    """The first position, and those whose packets do not share its shape or are not in memory.

    What depends on the fields of a shape alone is true for any of the positions if it is for any of these.
    """
    if len(positions) < 2 or (view := positions[0].view) is None:
        return positions
    shape = view.shape
    return [
        positions[0],
        *[position for position in positions if position.view is None or position.view.shape is not shape],
    ]


def at_rest(positions: Iterable[MessagePosition]) -> list[MessagePosition]:
    """Those of which L{MessagePosition.is_at_rest} is true."""
    return [position for position in positions if position.state in _AT_REST]


@attrs.define(eq=False)
class Queue:
    """A queue and its MessagePositionList. [MS-MQDMPR] 3.1.1.2.

    @ivar deadlines: schedules the expiry of packed messages.
    @ivar available: the messages that are available to readers, in order.
    @ivar positions: every message by its LookupIdentifier, in every state, unordered.
    @ivar total_bytes: TotalBytes, the packets of all of them; charged when a message is inserted and released
        when it is removed, independent of its state.
    @ivar readers: the tags of the waiting reads, in the order in which they began.
    @ivar is_deleted: the queue is deleted; references to it are still valid.
    @ivar is_stored: its definition is stored, or being stored.
    @ivar is_paused: an operator has paused the reading of it and of its subqueues.
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
    @ivar received_count: messages that were received from it since then, without those that a drain moves,
        or, for an outgoing queue, accepted by the next hop.
    """

    definition: QueueDefinition
    deadlines: PackedDeadlines[MessagePosition] = attrs.field(repr=False)
    available: AvailablePositions[MessagePosition] = attrs.field(
        factory=AvailablePositions, init=False, repr=False
    )
    positions: QueuePositions[MessagePosition] = attrs.field(
        default=attrs.Factory(lambda self: QueuePositions(self.available), takes_self=True),
        init=False,
        repr=False,
    )
    total_bytes: int = 0
    readers: OrderedDict[Hashable, None] = attrs.field(factory=OrderedDict, repr=False)
    is_deleted: bool = False
    is_stored: bool = False
    is_paused: bool = False
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

    @property
    def is_subqueue(self) -> bool:
        """Whether it is a subqueue, into which messages can only be moved."""
        return self.parent is not None and self.definition.type is not QueueType.SYSTEM

    @property
    def is_system(self) -> bool:
        """Whether it is a journal or another system queue, to which applications cannot send."""
        return self.definition.type is QueueType.SYSTEM

    @property
    def withholds(self) -> bool:
        """Whether receives find nothing in it: it is paused, or the queue of which it is a subqueue."""
        return self.is_paused if self.parent is None else self.main.is_paused

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
        return len(self.available)

    @property
    def has_available(self) -> bool:
        """Whether a receive would find a message."""
        return bool(self.available)

    @property
    def oldest_arrival(self) -> float | None:
        """The earliest ArrivalTime of the messages at the head of each priority; C{None} without any.

        Messages that a reader has locked are not considered.
        """
        return min((head.arrived for head in self.available.heads()), default=None)

    @property
    def is_active(self) -> bool:
        """Active: it is open. [MS-MQDMPR] 3.1.1.2."""
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
        """Make these positions of this queue available to readers. [MS-MQDMPR] 3.1.7.2.2."""
        available = PositionState.AVAILABLE
        for position in positions:
            position.state = available
            position.owner = None
        self.available.add_all(positions)
        if self.ends:
            self._number(positions)
        if self.peekable is not None:
            self._hide(positions)

    def take(self, count: int, owner: Hashable, size: int | None = None) -> list[MessagePosition]:
        """Lock the first C{count} available positions, or as many as there are, for C{owner}.

        @param size: bytes that they may have together, unless the first one alone has more.
        """
        taken = self.available.pop(count)
        if size is not None and taken:
            fitting = up_to(size, taken)
            if len(fitting) < len(taken):
                self.available.add_all(taken[len(fitting) :])
            taken = fitting
        locked = PositionState.LOCKED_READER
        for position in taken:
            position.state = locked
            position.owner = owner
        return taken

    def take_one(self, position: MessagePosition, owner: Hashable) -> None:
        """Lock an available position, anywhere in the queue, for C{owner}."""
        self.available.discard(position)
        position.state = PositionState.LOCKED_READER
        position.owner = owner

    def take_through(self, number: int, count: int) -> list[MessagePosition]:
        """Remove up to C{count} available positions, none younger than the SequentialID C{number}."""
        taken = self.available.pop_through(number, count)
        for position in taken:
            position.state = PositionState.LEAVING
        return taken

    def remove_available(self, position: MessagePosition) -> None:
        """Remove an available position, anywhere in the queue."""
        position.state = PositionState.LEAVING
        self.available.discard(position)

    def peek(self, count: int) -> list[MessagePosition]:
        """The first C{count} available positions, or as many as there are, without locking them."""
        return self.available.first(count)

    def after(self, lookup_id: int) -> MessagePosition | None:
        """The first available position with a greater LookupIdentifier; any of them is above -1."""
        return self.available.after(lookup_id)

    def page(self, after: int, count: int) -> list[MessagePosition]:
        """The first C{count} available positions with a LookupIdentifier greater than C{after}, in order."""
        self.pack()
        return self.available.page(after, count)

    def before(self, lookup_id: int) -> MessagePosition | None:
        """The last available position with a smaller LookupIdentifier; any of them is below 1 << 64."""
        return self.available.before(lookup_id)

    def first_since(self, insertion: int) -> MessagePosition | None:
        """The first of the positions that became available after this insertion number.

        A cursor has to have been at the end since then.
        """
        return self.available.first_since(insertion)

    def allow_peek(self, positions: Iterable[MessagePosition]) -> None:
        """AllowPeekWhenLocked: these can be peeked while they are locked. [MS-MQDMPR] 3.1.1.12."""
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
        """Remove a position that is not available from the queue. [MS-MQDMPR] 3.1.7.2.1.

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

    def restore(self, columns: MessageColumns, apart: Set[int]) -> list[MessagePosition]:
        """Take over the messages that a store held, which are available from now on; the queue was empty.

        They are packed until they are used, but for those near one in C{apart}: these are objects, and
        returned. Those in C{apart} are not available.
        """
        objects: list[MessagePosition] = []
        for level in range(PRIORITIES):
            start, end = (bisect_left(columns.lookup_ids, number << 56) for number in (level, level + 1))
            chunks: list[Chunk[MessagePosition] | PackedChunk[MessagePosition]] = []
            for first in range(start, end, CHUNK_LENGTH):
                packed = PackedPositions(self, columns[first : min(first + CHUNK_LENGTH, end)])
                if not apart or apart.isdisjoint(packed.lookup_ids):
                    self.positions.packed += len(packed)
                    if packed.earliest is not None:
                        self.deadlines.pack(packed, packed.earliest, ())
                    chunks.append(packed)
                    continue
                positions = packed.objects()
                self.positions.update((position.lookup_id, position) for position in positions)
                objects += positions
                if chunk := Chunk(position for position in positions if position.lookup_id not in apart):
                    chunks.append(chunk)
            if chunks:
                self.available.restore(level, chunks)
        return objects

    # Packed messages

    def available_positions(
        self, rows: Iterable[tuple[int, int, float]], kept: PacketHolder, event_only: bool
    ) -> list[MessagePosition]:
        """Objects for messages that are available and not in memory.

        @param rows: the LookupIdentifier, size and ArrivalTime of each.
        """
        state = PositionState.AVAILABLE
        return [
            MessagePosition(
                self, lookup_id, None, size, arrived, state, None, kept, None, 0, 0, False, 0, event_only
            )
            for lookup_id, size, arrived in rows
        ]

    def pack(self) -> None:
        """Pack messages that were not used lately, a bounded number.

        Code that holds available positions of this queue from before has to use L{MessagePosition.current}.
        """
        self.available.pack(partial(pack_chunk, self), self.may_pack)

    def may_pack(self, level: int) -> bool:
        """Whether messages of a priority may be packed; C{level} is 7 minus the priority."""
        return True

    def load(self, lookup_id: int) -> None:
        """Make packed messages near a LookupIdentifier objects."""
        self.available.load(lookup_id)

    def clear(self) -> RemovedPositions[MessagePosition]:
        """Empty a deleted queue and return its messages, in the order of arrival.

        Every position of a deleted queue counts as deleted, whatever its state, so that a million need not be
        updated.
        """
        gone = RemovedPositions(self.positions.loaded())
        for packed in self.available.packed_chunks():
            gone.packed.append(packed)
            packed.leave()
        self.available.clear()
        self.positions = QueuePositions(self.available)
        self.peekable = None
        self.total_bytes = 0
        self.is_deleted = True
        return gone

    def _number(self, positions: Iterable[MessagePosition]) -> None:
        for position in positions:
            self.insertions += 1
            self.available.number(position, self.insertions)

    def _hide(self, positions: Iterable[MessagePosition]) -> None:
        peekable = self.peekable
        if peekable is not None:
            for position in positions:
                peekable.discard(position)
            if not peekable:
                self.peekable = None


def up_to(size: int, positions: list[MessagePosition]) -> list[MessagePosition]:
    """The first of these messages, as many as have this number of bytes together; at least one."""
    total = 0
    for number, position in enumerate(positions):
        total += position.size
        if total > size and number:
            return positions[:number]
    return positions
