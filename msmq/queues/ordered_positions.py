"""Sorted list of message positions by LookupIdentifier."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import attrs

CHUNK_LENGTH: Final = 512
"""The number of positions of a chunk at which it is split."""


class Ordered(Protocol):
    """An element of the sorted list.

    @ivar lookup_id: LookupIdentifier, the sort key.
    @ivar insertion: see L{OrderedPositions.number}.
    """

    lookup_id: int
    insertion: int


P = TypeVar("P", bound=Ordered)


P_co = TypeVar("P_co", bound=Ordered, covariant=True)


class PackedChunk(Protocol[P_co]):
    """A run of positions, ascending and not empty, that are not objects.

    @ivar lowest: the smallest LookupIdentifier.
    @ivar newest: as L{Chunk.newest}.
    """

    lowest: int
    newest: int

    def __len__(self) -> int:
        """How many there are."""

    def __contains__(self, lookup_id: int) -> bool:
        """Whether one has this LookupIdentifier."""

    def objects(self) -> Iterable[P_co]:
        """Objects for them, which are not in the list."""

    def unpack(self) -> Iterable[P_co]:
        """Make them objects; called once."""

    def leave(self) -> None:
        """Their queue was deleted."""


class Chunk(deque[P]):
    """A part of the list, in ascending order.

    @ivar newest: the greatest number that L{OrderedPositions.number} assigned to any of them.
    """

    __slots__ = ("newest",)

    def __init__(self, positions: Iterable[P] = ()) -> None:
        super().__init__(positions)
        self.newest = 0


Packer: TypeAlias = Callable[[Chunk[P]], Sequence[Chunk[P] | PackedChunk[P]]]
"""Makes a chunk several ones of which some are packed, or leaves it as it is."""


def _one_empty() -> list[Chunk[P]]:
    return [Chunk()]


@attrs.define(eq=False)
class OrderedPositions(Generic[P]):
    """A sorted list with cheap operations at both ends, and bisection elsewhere.

    Nearly all positions are appended at the end and removed from the front, at the cost of a deque.
    Any other position is found by bisection, over the chunks and then in one of them, and chunks are short:
    in a list of a million, a position is added, removed and found in a few microseconds.

    Chunks between the first and the last one may be packed; a chunk becomes objects when one of its positions
    is used, and may be packed again.

    @ivar first: the chunk at the front; empty only if the list is.
    @ivar last: the chunk at the end.
    @ivar ripe: the chunks that may be packed, those that have been objects for longest first.
    """

    _chunks: list[Chunk[P] | PackedChunk[P]] = attrs.field(factory=_one_empty, init=False, repr=False)
    first: Chunk[P] = attrs.field(init=False, repr=False)
    last: Chunk[P] = attrs.field(init=False, repr=False)
    ripe: deque[Chunk[P]] = attrs.field(factory=deque, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.first = self.last = self._open(0)

    def restore(self, chunks: Sequence[Chunk[P] | PackedChunk[P]]) -> None:
        """Begin with these chunks, which are in order and not empty."""
        if chunks:
            self._chunks = list(chunks)
            self.first, self.last = self._open(0), self._open(-1)

    def load(self, lookup_id: int) -> None:
        """Make the chunk in which a LookupIdentifier belongs objects."""
        self._open(self._chunk_of(lookup_id))

    def packed(self) -> list[PackedChunk[P]]:
        """The chunks that are packed."""
        return [chunk for chunk in self._chunks if not isinstance(chunk, Chunk)]

    def is_packed(self, lookup_id: int) -> bool:
        """Whether a position is in a chunk that is packed."""
        chunk = self._chunks[self._chunk_of(lookup_id)]
        return not isinstance(chunk, Chunk) and lookup_id in chunk

    def pack(self, spare: int, most: int, pack: Packer[P]) -> None:
        """Replace chunks that have been objects for longest by what C{pack} makes of them.

        @param spare: how many of those that may be packed stay objects.
        @param most: how many are packed at most.
        """
        ripe = self.ripe
        while most and len(ripe) > spare:
            chunk = ripe.popleft()
            # The first and the last chunk become ripe again when they are that no more.
            if not chunk or chunk is self.first or chunk is self.last:
                continue
            number = self._chunk_of(chunk[0].lookup_id)
            if self._chunks[number] is chunk:
                self._chunks[number : number + 1] = pack(chunk)
                most -= 1

    def __len__(self) -> int:
        """The number of positions."""
        return sum(map(len, self._chunks))

    def __bool__(self) -> bool:
        """Whether there are positions."""
        return bool(self.first)

    def __iter__(self) -> Iterator[P]:
        """All positions, in order; none may be added or removed during the iteration."""
        return chain.from_iterable(map(self._open, range(len(self._chunks))))

    def __contains__(self, position: P) -> bool:
        """Whether this position is in the list, by identity."""
        chunk = self._open(self._chunk_of(position.lookup_id))
        index = bisect_left(chunk, position.lookup_id, key=_lookup_id)
        return index < len(chunk) and chunk[index] is position

    # Addition and removal

    def add(self, position: P) -> None:
        """Add a position in order."""
        lookup_id = position.lookup_id
        first, last = self.first, self.last
        if not last or last[-1].lookup_id < lookup_id:
            if len(last) >= CHUNK_LENGTH:
                self.ripe.append(last)
                self.last = last = Chunk()
                self._chunks.append(last)
            last.append(position)
        elif lookup_id < first[0].lookup_id:
            if len(first) >= CHUNK_LENGTH:
                self.ripe.append(first)
                self.first = first = Chunk()
                self._chunks.insert(0, first)
            first.appendleft(position)
        else:
            number = self._chunk_of(lookup_id)
            chunk = self._open(number)
            chunk.insert(bisect_left(chunk, lookup_id, key=_lookup_id), position)
            if len(chunk) > 2 * CHUNK_LENGTH:
                self._split(number)

    def pop(self, count: int) -> list[P]:
        """Remove the first C{count}, or as many as there are, and return them in order."""
        first = self.first
        if count < len(first):
            popleft = first.popleft
            return [popleft() for _ in range(count)]
        taken: list[P] = []
        while first and len(taken) < count:
            if len(first) <= count - len(taken):
                taken += first
                # It may still be among those that are ripe.
                first.clear()
                if len(self._chunks) > 1:
                    self._drop(0)
            else:
                popleft = first.popleft
                taken += [popleft() for _ in range(count - len(taken))]
            first = self.first
        return taken

    def discard(self, position: P) -> None:
        """Remove this position, if it is in the list."""
        number = self._chunk_of(position.lookup_id)
        chunk = self._open(number)
        index = bisect_left(chunk, position.lookup_id, key=_lookup_id)
        if index < len(chunk) and chunk[index] is position:
            del chunk[index]
            if not chunk:
                self._drop(number)

    # Queries

    def after(self, lookup_id: int) -> P | None:
        """The first with a greater LookupIdentifier."""
        number = self._chunk_of(lookup_id)
        chunk = self._open(number)
        index = bisect_right(chunk, lookup_id, key=_lookup_id)
        if index < len(chunk):
            return chunk[index]
        return self._open(number + 1)[0] if number + 1 < len(self._chunks) else None

    def since(self, lookup_id: int) -> Iterator[P]:
        """All with a greater LookupIdentifier, in order; the list must not change during the iteration."""
        number = self._chunk_of(lookup_id)
        chunk = self._open(number)
        yield from islice(chunk, bisect_right(chunk, lookup_id, key=_lookup_id), None)
        for later in range(number + 1, len(self._chunks)):
            yield from self._open(later)

    def before(self, lookup_id: int) -> P | None:
        """The last with a smaller LookupIdentifier."""
        chunk = self._open(self._chunk_of(lookup_id - 1))
        index = bisect_left(chunk, lookup_id, key=_lookup_id)
        return chunk[index - 1] if index else None

    # Insertion numbers

    def number(self, position: P, insertion: int) -> None:
        """Record that a position in the list was inserted as the C{insertion}th, after all others."""
        position.insertion = insertion
        self._open(self._chunk_of(position.lookup_id)).newest = insertion

    def first_since(self, insertion: int) -> P | None:
        """The first of those with a greater number."""
        for number, found in enumerate(self._chunks):
            if found.newest > insertion:
                chunk = self._open(number)
                for position in chunk:
                    if position.insertion > insertion:
                        return position
                # Those with greater numbers were removed.
                chunk.newest = insertion
        return None

    # Chunks

    def _chunk_of(self, lookup_id: int) -> int:
        """The index of its chunk: the last that does not begin after it, or else the first."""
        chunks = self._chunks
        if len(chunks) == 1:
            return 0
        return max(bisect_right(chunks, lookup_id, key=_first_lookup_id) - 1, 0)

    def _open(self, number: int) -> Chunk[P]:
        chunk = self._chunks[number]
        if not isinstance(chunk, Chunk):
            newest = chunk.newest
            chunk = self._chunks[number] = Chunk(chunk.unpack())
            chunk.newest = newest
            self.ripe.append(chunk)
        return chunk

    def _split(self, number: int) -> None:
        chunk = self._open(number)
        rest = Chunk[P](islice(chunk, CHUNK_LENGTH, None))
        rest.newest = chunk.newest
        for _ in rest:
            chunk.pop()
        self._chunks.insert(number + 1, rest)
        self.ripe.append(rest)
        self.last = self._open(-1)

    def _drop(self, number: int) -> None:
        chunks = self._chunks
        if len(chunks) == 1:
            self._open(0).clear()
        else:
            del chunks[number]
            self.first, self.last = self._open(0), self._open(-1)


_lookup_id = attrgetter("lookup_id")


def _first_lookup_id(chunk: Chunk[P] | PackedChunk[P]) -> int:
    return chunk[0].lookup_id if isinstance(chunk, Chunk) else chunk.lowest
