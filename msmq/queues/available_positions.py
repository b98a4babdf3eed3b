"""The available messages of a queue in the order in which they are read, by priority first.

A LookupIdentifier begins with the priority, so each priority has a sorted list of its own, and these in their
order are the order of the queue. [MS-MQDMPR] 3.1.1.12.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, Generic

import attrs

from msmq.queues.ordered_positions import CHUNK_LENGTH, Chunk, OrderedPositions, P, PackedChunk, Packer

PRIORITIES: Final = 8

SEQUENTIAL_MASK: Final = (1 << 56) - 1
"""The part of a LookupIdentifier that is the SequentialID."""

SPARE: Final = 4
"""Chunks of each priority that stay objects, in addition to the first and the last one."""

PACKED_AT_ONCE: Final = 2
"""Chunks of each priority that one call of L{AvailablePositions.pack} packs at most: half a millisecond each.
"""


@attrs.define(eq=False)
class AvailablePositions(Generic[P]):
    """Available positions of one queue.

    A level is 7 minus a priority, the high byte of a LookupIdentifier.
    """

    _levels: list[OrderedPositions[P] | None] = attrs.field(
        factory=lambda: [None] * PRIORITIES, init=False, repr=False
    )

    def __len__(self) -> int:
        return sum(len(level) for level in self._levels if level is not None)

    def __bool__(self) -> bool:
        # A loop is quicker than a generator for any(), and this is asked several times for each message.
        for level in self._levels:
            if level is not None and level.first:
                return True
        return False

    def heads(self) -> Iterator[P]:
        """The first position of each priority that has any."""
        for level in self._levels:
            if level is not None and (head := next(iter(level), None)) is not None:
                yield head

    # Addition and removal

    def add_all(self, positions: Collection[P]) -> None:
        """Add positions, which cost least if they are in order and behind all others of their priority."""
        if len(positions) < 2 or not self._append(positions):
            self._insert(positions)

    def _append(self, positions: Collection[P]) -> bool:
        """Append positions behind all others of their priority, if they are ordered and fit its chunk."""
        numbers = [position.lookup_id for position in positions]
        if numbers[0] >> 56 != numbers[-1] >> 56 or numbers != sorted(numbers):
            return False
        level = self._levels[numbers[0] >> 56]
        if level is None:
            return False
        last = level.last
        if not last or last[-1].lookup_id > numbers[0] or len(last) + len(numbers) > CHUNK_LENGTH:
            return False
        last.extend(positions)
        return True

    def _insert(self, positions: Iterable[P]) -> None:
        levels = self._levels
        for position in positions:
            lookup_id = position.lookup_id
            level = levels[lookup_id >> 56]
            if level is None:
                level = levels[lookup_id >> 56] = OrderedPositions()
            last = level.last
            if not last or (last[-1].lookup_id < lookup_id and len(last) < CHUNK_LENGTH):
                last.append(position)
            else:
                level.add(position)

    def pop(self, count: int) -> list[P]:
        """Remove the first C{count} positions, or as many as there are, and return them in order."""
        taken: list[P] = []
        for level in self._levels:
            if level is not None:
                taken += level.pop(count - len(taken))
                if len(taken) == count:
                    break
        return taken

    def pop_through(self, number: int, count: int) -> list[P]:
        """Remove up to C{count} positions, none with a SequentialID greater than C{number}."""
        taken: list[P] = []
        for level in self._levels:
            if level is not None:
                found = level.pop(count - len(taken))
                while found and found[-1].lookup_id & SEQUENTIAL_MASK > number:
                    level.add(found.pop())
                taken += found
                if len(taken) == count:
                    break
        return taken

    def discard(self, position: P) -> None:
        """Remove a position, if it is among them."""
        level = self._levels[position.lookup_id >> 56]
        if level is not None:
            level.discard(position)

    def clear(self) -> None:
        """Remove all of them."""
        self._levels = [None] * PRIORITIES

    def restore(self, level: int, chunks: Sequence[Chunk[P] | PackedChunk[P]]) -> None:
        """Begin with these chunks at a level, which are in order and not empty."""
        found = self._levels[level] = OrderedPositions()
        found.restore(chunks)

    # Queries

    def first(self, count: int) -> list[P]:
        """The first C{count}, or as many as there are."""
        seen: list[P] = []
        for level in self._levels:
            if level is not None:
                wanted = count - len(seen)
                # Without a call for each chunk if the first one has enough.
                seen += islice(level.first if len(level.first) >= wanted else level, wanted)
        return seen

    def after(self, lookup_id: int) -> P | None:
        """The first with a greater LookupIdentifier; any of them is above -1."""
        for level in self._levels[max(lookup_id, 0) >> 56 :]:
            if level is not None and (found := level.after(lookup_id)) is not None:
                return found
        return None

    def page(self, after: int, count: int) -> list[P]:
        """The first C{count} with a greater LookupIdentifier, or as many as there are."""
        seen: list[P] = []
        for level in self._levels[max(after, 0) >> 56 :]:
            if level is not None:
                seen += islice(level.since(after), count - len(seen))
                if len(seen) == count:
                    break
        return seen

    def before(self, lookup_id: int) -> P | None:
        """The last with a smaller LookupIdentifier; any of them is below 1 << 64."""
        for level in reversed(self._levels[: (lookup_id >> 56) + 1]):
            if level is not None and (found := level.before(lookup_id)) is not None:
                return found
        return None

    # Insertion numbers

    def number(self, position: P, insertion: int) -> None:
        """See L{OrderedPositions.number}."""
        level = self._levels[position.lookup_id >> 56]
        if level is not None:
            level.number(position, insertion)

    def first_since(self, insertion: int) -> P | None:
        """The first of those with a greater insertion number."""
        for level in self._levels:
            if level is not None and (found := level.first_since(insertion)) is not None:
                return found
        return None

    # Packed messages

    def pack(self, pack: Packer[P], may_pack: Callable[[int], bool]) -> None:
        """Pack positions that were not used lately, a bounded number of each level.

        @param may_pack: whether those of a level may be packed.
        """
        for number, level in enumerate(self._levels):
            if level is not None and len(level.ripe) > SPARE and may_pack(number):
                level.pack(SPARE, PACKED_AT_ONCE, pack)

    def load(self, lookup_id: int) -> None:
        """Make packed messages near a LookupIdentifier objects."""
        if 0 <= lookup_id >> 56 < PRIORITIES and (level := self._levels[lookup_id >> 56]) is not None:
            level.load(lookup_id)

    def is_packed(self, lookup_id: int) -> bool:
        """Whether a message is packed."""
        level = self._levels[lookup_id >> 56] if 0 <= lookup_id >> 56 < PRIORITIES else None
        return level is not None and level.is_packed(lookup_id)

    def packed_chunks(self) -> Iterator[PackedChunk[P]]:
        """The packed messages, a chunk at a time."""
        return chain.from_iterable(level.packed() for level in self._levels if level is not None)
