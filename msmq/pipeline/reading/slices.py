"""Slices of a store, each read by one process page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

import attrs

SLICE_ROWS: Final = 25_000
"""Rows that one slice has, about."""

LEVEL: Final = 1 << 56
"""LookupIdentifiers of one priority: what is above is the priority, what is below rises."""
LEVELS: Final = 8


@attrs.frozen
class RowSpan:
    """Numbers of one queue, from C{begin} on and before C{end}.

    @ivar queue: its identifier; C{None} of the event log.
    @ivar rows: how many rows there were when it was cut.
    """

    queue: UUID | None
    topic: str
    begin: int
    end: int
    rows: int = 0


@attrs.frozen
class ReadSlice:
    """Part of a store, read by one process.

    @ivar kind: C{messages}, C{log} or C{events}.
    @ivar is_strict: whether it is an error if rows are gone before they were read.
    """

    kind: str
    spans: tuple[RowSpan, ...]
    is_strict: bool = False


def level_spans(queue: UUID, topic: str, begin: int, end: int) -> list[RowSpan]:
    """LookupIdentifiers whose lower part is in a range, whatever their priority."""
    first, last = max(0, begin), min(end, LEVEL)
    if first == 0 and last == LEVEL:
        return [RowSpan(queue, topic, 0, LEVELS * LEVEL)]
    if first >= last:
        return []
    levels = range(0, LEVELS * LEVEL, LEVEL)
    return [RowSpan(queue, topic, level + first, level + last) for level in levels]


def cut(
    kind: str,
    spans: Iterable[RowSpan],
    cuts: Callable[[RowSpan, int], tuple[Sequence[int], int]],
    partitions: int,
    rows: int = SLICE_ROWS,
) -> list[ReadSlice]:
    """Cut these spans into slices of about so many rows, and put small ones together.

    @param cuts: where a span is cut into pieces of this many rows, and how many rows the last piece has.
    @param partitions: the fewest slices; there are fewer only where there are fewer rows.
    """
    spans = list(spans)
    pieces = _pieces(spans, cuts, rows)
    total = sum(piece.rows for piece in pieces)
    if total < partitions * rows and partitions > 1:
        rows = max(1, total // partitions)
        pieces = _pieces(spans, cuts, rows)
    return _together(kind, pieces, rows)


def _pieces(
    spans: Sequence[RowSpan], cuts: Callable[[RowSpan, int], tuple[Sequence[int], int]], rows: int
) -> list[RowSpan]:
    pieces: list[RowSpan] = []
    for span in spans:
        places, rest = cuts(span, rows)
        begin = span.begin
        for place in places:
            pieces.append(attrs.evolve(span, begin=begin, end=place, rows=rows))
            begin = place
        if rest:
            pieces.append(attrs.evolve(span, begin=begin, rows=rest))
    return pieces


def _together(kind: str, pieces: Sequence[RowSpan], rows: int) -> list[ReadSlice]:
    slices: list[ReadSlice] = []
    held: list[RowSpan] = []
    count = 0
    for piece in pieces:
        if held and count + piece.rows > rows:
            slices.append(ReadSlice(kind, tuple(held)))
            held, count = [], 0
        held.append(piece)
        count += piece.rows
    if held:
        slices.append(ReadSlice(kind, tuple(held)))
    return slices
