"""Consecutive messages of a queue as columns, 20 bytes each, instead of an object for each of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, Generic, Protocol, TypeVar

from msmq.persistence.snapshot import MessageColumns
from msmq.queues.ordered_positions import Chunk, Ordered, PackedChunk
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue_positions import QueuePositions

SHORTEST: Final = 16
"""Messages that are packed together at least."""

_NEVER: Final = -1


class Packable(Ordered, Protocol):
    """A position, as L{msmq.queues.queue.MessagePosition}."""

    size: int
    arrived: float
    state: PositionState
    kept: PacketHolder
    due: int | None
    aborts: int
    moves: int
    event_only: bool

    @property
    def view(self) -> object:
        """The packet, if memory has it."""


Q = TypeVar("Q", bound=Packable)
Q_contra = TypeVar("Q_contra", bound=Packable, contravariant=True)


class PackedDeadlines(Protocol[Q]):
    """Schedules the removal of expired messages; see L{msmq.queues.leaving.deadlines.ExpiringMessages}."""

    def pack(self, packed: PackedPositions[Q], due: int, positions: Iterable[Q]) -> None:
        """These positions are packed from now on; the first of them expires at C{due}."""

    def unpack(self, packed: PackedPositions[Q], due: int, positions: Iterable[Q]) -> None:
        """They are objects again, these; none if their queue was deleted."""


class PackingQueue(Protocol[Q]):
    """The queue of packed messages, L{msmq.queues.queue.Queue}."""

    positions: QueuePositions[Q]
    deadlines: PackedDeadlines[Q]

    def available_positions(
        self, rows: Iterable[tuple[int, int, float]], kept: PacketHolder, event_only: bool
    ) -> list[Q]:
        """Objects for messages of these LookupIdentifiers, sizes and ArrivalTimes."""

    def load(self, lookup_id: int) -> None:
        """Make packed messages near a LookupIdentifier objects."""


class PackedPositions(Generic[Q]):
    """Consecutive messages of a queue that are available, in the store, and not in memory.

    Columns in which all messages have the usual value are not stored.

    @ivar lowest: the smallest LookupIdentifier.
    @ivar newest: the greatest insertion number, as L{msmq.queues.ordered_positions.Chunk} has it.
    @ivar earliest: when the first of them expires, in seconds since 1970-01-01 UTC; C{None} for never.
    @ivar kept: where their packets are, the same for all of them.
    @ivar event_only: whether an event alone follows the removal of any of them unread.
    """

    __slots__ = (
        "_aborts",
        "_arrived",
        "_due",
        "_ids",
        "_insertions",
        "_moves",
        "_sizes",
        "earliest",
        "event_only",
        "kept",
        "lowest",
        "newest",
        "queue",
    )

    def __init__(
        self,
        queue: PackingQueue[Q],
        columns: MessageColumns,
        kept: PacketHolder = PacketHolder.STORE,
        insertions: array[int] | None = None,
    ) -> None:
        """Pack messages in ascending order, at least one."""
        self.queue = queue
        self.kept = kept
        self._ids = columns.lookup_ids
        self._sizes = columns.sizes
        self._arrived = columns.arrived
        is_plain = columns.due.count(_NEVER) == len(columns)
        self._due = None if is_plain else columns.due
        self._aborts = columns.aborts if any(columns.aborts) else None
        self._moves = columns.moves if any(columns.moves) else None
        self._insertions = insertions
        self.event_only = bool(columns.event_only) and all(columns.event_only)
        self.earliest = None if is_plain else min(each for each in columns.due if each != _NEVER)
        self.newest = 0 if insertions is None else max(insertions)
        self.lowest = self._ids[0]

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, lookup_id: int) -> bool:
        """Whether a message is among them."""
        place = bisect_left(self._ids, lookup_id)
        return place < len(self._ids) and self._ids[place] == lookup_id

    @property
    def lookup_ids(self) -> Sequence[int]:
        """Their LookupIdentifiers, ascending."""
        return self._ids

    def objects(self) -> list[Q]:
        """Objects for them, which are not those of the queue."""
        found = self.queue.available_positions(
            zip(self._ids, self._sizes, self._arrived, strict=True), self.kept, self.event_only
        )
        if self._due is not None:
            for position, due in zip(found, self._due, strict=True):
                if due >= 0:
                    position.due = due
        if self._aborts is not None:
            for position, aborts in zip(found, self._aborts, strict=True):
                position.aborts = aborts
        if self._moves is not None:
            for position, moves in zip(found, self._moves, strict=True):
                position.moves = moves
        if self._insertions is not None:
            for position, insertion in zip(found, self._insertions, strict=True):
                position.insertion = insertion
        return found

    def unpack(self) -> list[Q]:
        """Make them objects of their queue; called once."""
        found = self.objects()
        positions = self.queue.positions
        positions.update((position.lookup_id, position) for position in found)
        positions.packed -= len(found)
        if self.earliest is not None:
            self.queue.deadlines.unpack(self, self.earliest, found)
        return found

    def leave(self) -> None:
        """Their queue was deleted: they expire no more."""
        if self.earliest is not None:
            self.queue.deadlines.unpack(self, self.earliest, ())


def pack_chunk(queue: PackingQueue[Q], chunk: Chunk[Q]) -> Sequence[Chunk[Q] | PackedChunk[Q]]:
    """Pack the available messages of a chunk that are in the store and not in memory."""
    pieces: list[Chunk[Q] | PackedChunk[Q]] = []
    rest: Chunk[Q] = Chunk()
    for kept, run in groupby(chunk, _holder):
        positions = list(run)
        if kept is not None and len(positions) >= SHORTEST:
            if rest:
                pieces.append(rest)
                rest = Chunk()
            pieces.append(_pack(queue, positions))
        else:
            rest.extend(positions)
            rest.newest = chunk.newest
    if rest:
        pieces.append(rest)
    return pieces


def _holder(position: Packable) -> PacketHolder | None:
    """Where the packet of a message is; C{None} if memory has it."""
    return None if position.view is not None or position.kept is PacketHolder.MEMORY else position.kept


def _pack(queue: PackingQueue[Q], positions: list[Q]) -> PackedPositions[Q]:
    columns = MessageColumns(
        array("Q", [position.lookup_id for position in positions]),
        array("I", [position.size for position in positions]),
        array("d", [position.arrived for position in positions]),
        array("q", [_NEVER if position.due is None else position.due for position in positions]),
        array("I", [position.aborts for position in positions]),
        array("I", [position.moves for position in positions]),
        bytes([position.event_only for position in positions]),
    )
    insertions = [position.insertion for position in positions]
    packed = PackedPositions(
        queue, columns, positions[0].kept, array("Q", insertions) if any(insertions) else None
    )
    if packed.earliest is not None:
        queue.deadlines.pack(packed, packed.earliest, positions)
    state, pop = PositionState.PACKED, queue.positions.pop
    for position in positions:
        position.state = state
        pop(position.lookup_id)
    queue.positions.packed += len(positions)
    return packed
