"""Many rows in one statement.

Between two rows of many statements Python lets another thread run, and with a busy reactor waits each
time until it may go on; so there are few statements, and few different ones, which stay prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, TypeVar

Row = TypeVar("Row")

STATEMENT_BYTES: Final = 1024 * 1024
"""Bytes of packets in one statement, which SQLite copies."""

_LENGTHS: Final = (64, 16, 4, 1)


@cache
def marks(columns: int, rows: int) -> str:
    """The place-holders of so many rows: C{(?, ?), (?, ?)}."""
    row = f"({', '.join('?' * columns)})"
    return ", ".join([row] * rows)


def pieces(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Cut into pieces of few different lengths."""
    position = 0
    for length in _LENGTHS:
        while len(rows) - position >= length:
            yield rows[position : position + length]
            position += length


def chunks(rows: Sequence[Row], size_of: Callable[[Row], int]) -> Iterator[Sequence[Row]]:
    """The same, with not too many bytes in one."""
    for piece in pieces(rows):
        if len(piece) == 1 or sum(map(size_of, piece)) <= STATEMENT_BYTES:
            yield piece
        else:
            yield from ([row] for row in piece)
