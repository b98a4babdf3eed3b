"""SQL statements with many rows, for SQLite.

Python releases the GIL around each statement, and waits for it again while the reactor is busy; so changes
are combined into few statements. One statement of each length stays prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, TypeVar

Row = TypeVar("Row")

STATEMENT_BYTES: Final = 1024 * 1024
"""Bytes of packets in one statement, which SQLite copies."""

PIECE: Final = 64
"""Maximum number of rows of one statement."""


@cache
def marks(columns: int, rows: int) -> str:
    """The placeholders of this number of rows: C{(?, ?), (?, ?)}."""
    row = f"({', '.join('?' * columns)})"
    return ", ".join([row] * rows)


def pieces(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Divide rows into chunks of at most L{PIECE}."""
    if len(rows) <= PIECE:
        if rows:
            yield rows
        return
    for start in range(0, len(rows), PIECE):
        yield rows[start : start + PIECE]


def chunks(rows: Sequence[Row], size_of: Callable[[Row], int]) -> Iterator[Sequence[Row]]:
    """Divide rows into chunks of at most L{PIECE} rows and L{STATEMENT_BYTES}."""
    for piece in pieces(rows):
        if len(piece) == 1 or sum(map(size_of, piece)) <= STATEMENT_BYTES:
            yield piece
        else:
            yield from ([row] for row in piece)
