"""SQL statements with many rows, for SQLite.

Between two rows of many statements Python lets another thread run, and with a busy reactor waits each
time until it may go on; so there are few statements. One of each length stays prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, TypeVar

Row = TypeVar("Row")

STATEMENT_BYTES: Final = 1024 * 1024
"""Bytes of packets in one statement, which SQLite copies."""

PIECE: Final = 64
"""Rows in one statement."""


@cache
def marks(columns: int, rows: int) -> str:
    """The place-holders of this many rows: C{(?, ?), (?, ?)}."""
    row = f"({', '.join('?' * columns)})"
    return ", ".join([row] * rows)


def pieces(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Cut into pieces that are not too long."""
    if len(rows) <= PIECE:
        if rows:
            yield rows
        return
    for start in range(0, len(rows), PIECE):
        yield rows[start : start + PIECE]


def chunks(rows: Sequence[Row], size_of: Callable[[Row], int]) -> Iterator[Sequence[Row]]:
    """The same, with not too many bytes in one."""
    for piece in pieces(rows):
        if len(piece) == 1 or sum(map(size_of, piece)) <= STATEMENT_BYTES:
            yield piece
        else:
            yield from ([row] for row in piece)
