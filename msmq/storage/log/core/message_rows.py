"""Rows of the messages of one queue: recent ones as objects, all others packed in blocks."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from operator import itemgetter, lt
from struct import Struct
from typing import Any, ClassVar, Final

import attrs

from msmq.storage.log.core.records import EVENT_ONLY_AT, MESSAGE_ROW

BLOCK: Final = 1024
"""Number of rows of a block; a block may have up to twice as many."""
YOUNG: Final = 4096
"""Limit on rows that are objects; with one more all of them are packed."""

_WIDTH: Final = MESSAGE_ROW.size
_IDENTITY: Final = _WIDTH - 20
_WORDS: Final = _WIDTH // 4
"""32-bit words of a row."""
_EACH: Final = Struct(f"{_WIDTH}s")
_first = itemgetter(0)


class _Block:
    """Packed rows in the order of their LookupIdentifiers, some of which may be removed.

    @ivar ids: the LookupIdentifiers.
    @ivar rows: the rows, concatenated.
    @ivar present: 1 for each existing row, 0 for each removed one; C{live} rows exist.
    """

    __slots__ = ("ids", "live", "present", "rows")

    def __init__(self, ids: array[int], rows: bytearray) -> None:
        self.ids = ids
        self.rows = rows
        self.live = len(ids)
        self.present = bytearray(b"\1") * self.live

    def index(self, lookup_id: int) -> int:
        """The index of a LookupIdentifier; -1 if it is not in this block."""
        index = bisect_left(self.ids, lookup_id)
        if index < len(self.ids) and self.ids[index] == lookup_id and self.present[index]:
            return index
        return -1

    def row(self, index: int) -> bytes:
        """The row at an index."""
        return bytes(self.rows[index * _WIDTH : (index + 1) * _WIDTH])

    def live_ids(self) -> Iterator[int]:
        """The LookupIdentifiers of the existing rows."""
        return iter(self.ids) if self.live == len(self.ids) else compress(self.ids, self.present)

    def live_rows(self) -> Iterator[bytes]:
        """The existing rows."""
        rows = map(_first, _EACH.iter_unpack(self.rows))
        return rows if self.live == len(self.ids) else compress(rows, self.present)


@attrs.frozen(eq=False)
class RowColumns:
    """Rows in ascending order of their LookupIdentifiers, as columns.

    Every operation works on whole columns, since a start reads a million rows.

    @ivar event_only: a byte for each row, not 0 if its removal unread causes only an event.
    """

    lookup_ids: Sequence[int]
    _words: array[int]
    event_only: bytes

    @property
    def generations(self) -> array[int]:
        """Generations of the segments with their packets; the highest bit marks an express packet."""
        return self._words[1::_WORDS]

    @property
    def sizes(self) -> array[int]:
        """Sizes of their packets."""
        return self._words[2::_WORDS]

    @property
    def arrived(self) -> array[float]:
        """ArrivalTimes."""
        return self._wide("d", 4)

    @property
    def due(self) -> array[int]:
        """Expiry times; -1 for never."""
        return self._wide("q", 6)

    @property
    def aborts(self) -> array[int]:
        """AbortCounts."""
        return self._words[8::_WORDS]

    @property
    def moves(self) -> array[int]:
        """MoveCounts."""
        return self._words[9::_WORDS]

    def _wide(self, kind: str, index: int) -> array[Any]:
        pairs = array("I", bytes(8 * len(self.lookup_ids)))
        is_big = sys.byteorder == "big"
        pairs[is_big::2] = self._words[index::_WORDS]
        pairs[not is_big :: 2] = self._words[index + 1 :: _WORDS]
        return array(kind, pairs.tobytes())


def row_columns(lookup_ids: Sequence[int], rows: bytes | bytearray) -> RowColumns:
    """The columns of these rows."""
    flags = bytes(rows[EVENT_ONLY_AT::_WIDTH])
    if any(flags):
        rows = bytearray(rows)
        rows[EVENT_ONLY_AT::_WIDTH] = bytes(len(flags))
    words = array("I")
    words.frombytes(rows)
    if sys.byteorder == "big":
        words.byteswap()
    return RowColumns(lookup_ids, words, flags)


class MessageRows(dict[int, bytes]):
    """Mapping of LookupIdentifiers to rows.

    The dictionary itself has the recent rows.
    With more than L{YOUNG} of them they are packed: about 70 bytes a row instead of 200.
    A packed row is found by bisection, replaced in place, and marked when it is removed; a block with few
    rows left is packed again, and an empty one dropped. Each of these operations works on one block.
    Only the methods below may be used.

    @cvar block: L{BLOCK}; C{young}: L{YOUNG}.
    """

    __slots__ = ("_blocks", "_firsts", "_packed", "_restored")
    block: ClassVar[int] = BLOCK
    young: ClassVar[int] = YOUNG

    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[_Block] = []
        self._firsts: list[int] = []
        self._packed = 0
        # For each iteration over pages, the rows that were put back meanwhile.
        self._restored: list[set[int]] = []

    def __len__(self) -> int:
        return dict.__len__(self) + self._packed

    def __bool__(self) -> bool:
        return self._packed > 0 or dict.__len__(self) > 0

    def __contains__(self, lookup_id: object) -> bool:
        return dict.__contains__(self, lookup_id) or (
            isinstance(lookup_id, int) and self._packed > 0 and self._find(lookup_id) is not None
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and dict(self.items()) == dict(other.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __missing__(self, lookup_id: int) -> bytes:
        if (found := self._find(lookup_id)) is None:
            raise KeyError(lookup_id)
        return self._blocks[found[0]].row(found[1])

    def get(self, lookup_id: int, default: Any = None) -> Any:
        """The row of a message, or the default."""
        row = dict.get(self, lookup_id)
        if row is not None:
            return row
        if self._packed and (found := self._find(lookup_id)) is not None:
            return self._blocks[found[0]].row(found[1])
        return default

    def __setitem__(self, lookup_id: int, row: bytes) -> None:
        if self._packed and (found := self._find(lookup_id)) is not None:
            start = found[1] * _WIDTH
            self._blocks[found[0]].rows[start : start + _WIDTH] = row
            return
        dict.__setitem__(self, lookup_id, row)
        if dict.__len__(self) > self.young:
            self._pack()

    def put_new(self, first: int, rows: Sequence[bytes]) -> bool:
        """Put rows of consecutive LookupIdentifiers; false, without a change, if one may exist already."""
        end = first + len(rows)
        number = bisect_right(self._firsts, first) - 1
        if number != bisect_left(self._firsts, end) - 1 or (
            number >= 0 and self._blocks[number].ids[-1] >= first
        ):
            return False
        new = dict(zip(range(first, end), rows, strict=True))
        if not dict.keys(self).isdisjoint(new):
            return False
        dict.update(self, new)
        if dict.__len__(self) > self.young:
            self._pack()
        return True

    def restore(self, lookup_ids: array[int], rows: bytes) -> None:
        """Put removed rows back; see L{pages}."""
        for restored in self._restored:
            restored.update(lookup_ids)
        self.extend(lookup_ids, rows)

    def forget(self, lookup_ids: Iterable[int]) -> None:
        """Remove existing rows without returning them."""
        self.remove(array("Q", lookup_ids))

    def pop(self, lookup_id: int, default: Any = None) -> Any:
        """Remove a row and return it, or the default."""
        row = dict.pop(self, lookup_id, None)
        if row is not None:
            return row
        if self._packed and (found := self._find(lookup_id)) is not None:
            return self._remove(*found)
        return default

    def remove(self, lookup_ids: array[int]) -> None:
        """Remove rows; missing ones are ignored.

        Consecutive rows of a block are removed together.
        """
        index, end = 0, len(lookup_ids)
        while index < end:
            lookup_id = lookup_ids[index]
            found = None
            if dict.pop(self, lookup_id, None) is None and self._packed:
                found = self._find(lookup_id)
            if found is None:
                index += 1
                continue
            number, first = found
            block = self._blocks[number]
            count = min(end - index, len(block.ids) - first)
            # A row that is absent here may be a recent one: removed from the block, and put again.
            if count > 1 and (
                block.ids[first : first + count] != lookup_ids[index : index + count]
                or block.present.find(0, first, first + count) >= 0
            ):
                count = 1
            self._clear(number, first, count)
            index += count

    def take(self, lookup_ids: array[int]) -> tuple[array[int], bytes]:
        """Remove rows, and return the LookupIdentifiers and rows of the existing ones, in this order.

        Consecutive rows of a block are removed together.
        """
        taken, rows = array("Q"), bytearray()
        index, end = 0, len(lookup_ids)
        while index < end:
            lookup_id = lookup_ids[index]
            row = dict.pop(self, lookup_id, None)
            if row is not None:
                taken.append(lookup_id)
                rows += row
                index += 1
                continue
            found = self._find(lookup_id) if self._packed else None
            if found is None:
                index += 1
                continue
            number, first = found
            block = self._blocks[number]
            count = min(end - index, len(block.ids) - first)
            if count > 1 and (
                block.ids[first : first + count] != lookup_ids[index : index + count]
                or block.present.find(0, first, first + count) >= 0
            ):
                count = 1
            taken += lookup_ids[index : index + count]
            rows += block.rows[first * _WIDTH : (first + count) * _WIDTH]
            self._clear(number, first, count)
            index += count
        return taken, bytes(rows)

    def __delitem__(self, lookup_id: int) -> None:
        if self.pop(lookup_id) is None:
            raise KeyError(lookup_id)

    def popitem(self) -> tuple[int, bytes]:
        """Remove any row.

        @raise KeyError: there are no rows.
        """
        if self._packed:
            block = self._blocks[-1]
            index = block.present.rindex(1)
            return block.ids[index], self._remove(len(self._blocks) - 1, index)
        return dict.popitem(self)

    def __iter__(self) -> Iterator[int]:
        """The LookupIdentifiers of all rows, unordered; no row may be added or removed meanwhile."""
        return chain(dict.__iter__(self), *(block.live_ids() for block in self._blocks))

    def keys(self) -> Any:
        """The same as iteration."""
        return iter(self)

    def values(self) -> Any:
        """All rows, with the same restriction."""
        return chain(dict.values(self), *(block.live_rows() for block in self._blocks))

    def items(self) -> Any:
        """LookupIdentifiers and rows, with the same restriction."""
        return zip(self, self.values(), strict=True)

    def pages(self, size: int = BLOCK) -> Iterator[tuple[array[int], bytes]]:
        """LookupIdentifiers and rows, many at a time; rows may be added and removed between two pages.

        A row that exists all the time is included, also if it is removed and put back between two pages, as
        by a removal that is rolled back. It may be included twice, and others may be included; each page has
        the rows as they are at its time.

        @param size: of a page with recent rows; a page with packed rows has those of one block.
        """
        restored: set[int] = set()
        self._restored.append(restored)
        try:
            young = set(dict.__iter__(self))
            after = -1
            while (number := self._next_block(after)) is not None:
                block = self._blocks[number]
                after = block.ids[-1]
                if block.live == len(block.ids):
                    yield block.ids[:], bytes(block.rows)
                else:
                    yield array("Q", block.live_ids()), b"".join(block.live_rows())
            while missing := young or restored:
                some = [missing.pop() for _ in range(min(size, len(missing)))]
                found = [(key, row) for key in some if (row := self.get(key)) is not None]
                yield array("Q", map(_first, found)), b"".join([row for _, row in found])
        finally:
            # Other iterations may have equal sets.
            self._restored[:] = [each for each in self._restored if each is not restored]

    def ordered(self) -> Iterator[tuple[Sequence[int], bytes | bytearray]]:
        """LookupIdentifiers and rows in ascending order, many at a time.

        No row may be added or removed meanwhile.
        """
        self._pack()
        for block in self._blocks:
            if block.live == len(block.ids):
                yield block.ids, block.rows
            else:
                yield array("Q", block.live_ids()), b"".join(block.live_rows())

    def columns(self) -> Iterator[RowColumns]:
        """The same, as columns."""
        for lookup_ids, rows in self.ordered():
            yield row_columns(lookup_ids, rows)

    def named(self, identity: bytes) -> Iterator[int | None]:
        """The messages whose rows end with these bytes, and C{None} after each intermediate step.

        Rows may be added and removed during the iteration.
        """
        for lookup_id in list(dict.__iter__(self)):
            row = dict.get(self, lookup_id)
            yield lookup_id if row is not None and row.endswith(identity) else None
        after = -1
        while (number := self._next_block(after)) is not None:
            block = self._blocks[number]
            found: list[int] = []
            at = block.rows.find(identity)
            while at >= 0:
                index, offset = divmod(at, _WIDTH)
                if offset == _IDENTITY and block.present[index]:
                    found.append(block.ids[index])
                at = block.rows.find(identity, at + 1)
            after = max(after, block.ids[-1])
            yield from found
            yield None

    def extend(self, ids: array[int], rows: bytes) -> None:
        """Put many rows; of several with one LookupIdentifier the last one applies.

        Ordered rows after all packed ones are packed directly.
        """
        is_behind = not self._blocks or (len(ids) > 0 and ids[0] > self._blocks[-1].ids[-1])
        is_packed = is_behind and len(ids) >= self.block // 2 and not dict.__len__(self)
        if is_packed and all(map(lt, ids, ids[1:])):
            for start in range(0, len(ids), self.block):
                end = start + self.block
                self._append(_Block(ids[start:end], bytearray(rows[start * _WIDTH : end * _WIDTH])))
            return
        for lookup_id, (row,) in zip(ids, _EACH.iter_unpack(rows), strict=True):
            self[lookup_id] = row

    # Blocks

    def _find(self, lookup_id: int) -> tuple[int, int] | None:
        """The number of the block, and the index in it."""
        number = bisect_right(self._firsts, lookup_id) - 1
        if number < 0:
            return None
        index = self._blocks[number].index(lookup_id)
        return None if index < 0 else (number, index)

    def _next_block(self, after: int) -> int | None:
        """The first block with a greater LookupIdentifier, of an existing or removed row."""
        number = max(bisect_right(self._firsts, after) - 1, 0)
        if number < len(self._blocks) and self._blocks[number].ids[-1] <= after:
            number += 1
        return number if number < len(self._blocks) else None

    def _append(self, block: _Block) -> None:
        self._blocks.append(block)
        self._firsts.append(block.ids[0])
        self._packed += block.live

    def _remove(self, number: int, index: int) -> bytes:
        row = self._blocks[number].row(index)
        self._clear(number, index, 1)
        return row

    def _clear(self, number: int, index: int, count: int) -> None:
        block = self._blocks[number]
        gone = block.present.count(1, index, index + count)
        block.present[index : index + count] = bytes(count)
        block.live -= gone
        self._packed -= gone
        if not block.live:
            del self._blocks[number], self._firsts[number]
        elif block.live * 4 < len(block.ids):
            self._replace(number, list(zip(block.live_ids(), block.live_rows(), strict=True)))

    def _blocks_of(self, items: Sequence[tuple[int, bytes]]) -> list[_Block]:
        """Divide ordered rows into blocks."""
        return [
            _Block(array("Q", map(_first, part)), bytearray(b"".join([row for _, row in part])))
            for part in (items[start : start + self.block] for start in range(0, len(items), self.block))
        ]

    def _replace(self, number: int, items: Sequence[tuple[int, bytes]]) -> None:
        """Replace a block by these rows."""
        blocks = self._blocks_of(items)
        self._blocks[number : number + 1] = blocks
        self._firsts[number : number + 1] = [block.ids[0] for block in blocks]

    def _pack(self) -> None:
        """Pack the recent rows into blocks, after, before or between the packed ones."""
        young = sorted(dict.items(self))
        self.clear()
        self._packed += len(young)
        start = 0
        while start < len(young):
            lowest = young[start][0]
            number = bisect_right(self._firsts, lowest) - 1
            if number + 1 < len(self._firsts):
                end = bisect_left(young, self._firsts[number + 1], start, key=_first)
            else:
                end = len(young)
            part = young[start:end]
            start = end
            block = None if number < 0 else self._blocks[number]
            if block is not None and (block.ids[-1] >= lowest or len(block.ids) < self.block // 2):
                items = chain(zip(block.live_ids(), block.live_rows(), strict=True), part)
                self._replace(number, sorted(items, key=_first))
            else:
                blocks = self._blocks_of(part)
                self._blocks[number + 1 : number + 1] = blocks
                self._firsts[number + 1 : number + 1] = [one.ids[0] for one in blocks]
