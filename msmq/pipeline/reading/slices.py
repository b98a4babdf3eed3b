"""Slices of a store, each read by one process page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

import attrs

SLICE_ROWS: Final = 25_000
"""Approximate number of rows of a slice."""

PLACED_ROWS: Final = 4_000_000
"""The largest number of rows of a read whose places are planned; each takes 40 to 44 bytes."""

LEVEL: Final = 1 << 56
"""Number of LookupIdentifiers of one priority: the quotient is the priority, the remainder increases."""
LEVELS: Final = 8


@attrs.frozen
class RowSpan:
    """Range of numbers of one queue, from C{begin} to before C{end}.

    @ivar queue: the identifier of the queue; C{None} for the event log.
    @ivar rows: the number of rows at the time of planning.
    @ivar places: these rows with the places of their packets, as the reader of the store has them; empty if
        the packets are read by their numbers.
    """

    queue: UUID | None
    topic: str
    begin: int
    end: int
    rows: int = 0
    places: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen
class ReadSlice:
    """Part of a store, read by one process.

    @ivar kind: C{messages}, C{log} or C{events}.
    @ivar is_strict: whether it is an error if rows were removed before they were read.
    """

    kind: str
    spans: tuple[RowSpan, ...]
    is_strict: bool = False


def level_spans(queue: UUID, topic: str, begin: int, end: int) -> list[RowSpan]:
    """Spans of the LookupIdentifiers whose lower part is in a range, one for each priority."""
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
    """Divide spans into slices of about this number of rows, and combine small ones.

    @param cuts: returns the boundaries of pieces of this number of rows, and the number of rows of the last.
    @param partitions: the minimum number of slices, if there are that many rows.
    """
    spans = list(spans)
    pieces = _pieces(spans, cuts, rows)
    total = sum(piece.rows for piece in pieces)
    if total < partitions * rows and partitions > 1:
        rows = max(1, total // partitions)
        pieces = _pieces(spans, cuts, rows)
    return _together(kind, pieces, rows)


def with_places(slices: Sequence[ReadSlice], places: Callable[[UUID, int, int], bytes]) -> list[ReadSlice]:
    """These slices with the places of their packets.

    @param places: returns those of a range of numbers of a queue; empty if there are none.
    """
    if sum(span.rows for part in slices for span in part.spans) > PLACED_ROWS:
        return list(slices)

    def placed(span: RowSpan) -> RowSpan:
        if span.queue is None:
            return span
        return attrs.evolve(span, places=places(span.queue, span.begin, span.end))

    return [attrs.evolve(part, spans=tuple(map(placed, part.spans))) for part in slices]


def _pieces(
    spans: Sequence[RowSpan], cuts: Callable[[RowSpan, int], tuple[Sequence[int], int]], rows: int
) -> list[RowSpan]:
    pieces: list[RowSpan] = []
    for span in spans:
        boundaries, rest = cuts(span, rows)
        begin = span.begin
        for boundary in boundaries:
            pieces.append(attrs.evolve(span, begin=begin, end=boundary, rows=rows))
            begin = boundary
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
