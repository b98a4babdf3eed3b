"""SQL statements of a transaction in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import attrs

Row = TypeVar("Row")

STATEMENT_BYTES: Final = 16 * 1024 * 1024
"""Bytes of packets in one statement."""


def chunks(rows: Iterable[Row], size_of: Callable[[Row], int]) -> Iterator[list[Row]]:
    """Divide rows into chunks of at most L{STATEMENT_BYTES}, each with at least one row."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        if chunk and size + size_of(row) > STATEMENT_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += size_of(row)
    if chunk:
        yield chunk


@attrs.define
class Statement:
    """Statement of several clauses that change different rows, with its parameters.

    @ivar clauses: each changes one table.
    """

    clauses: list[str] = attrs.field(factory=list)
    parameters: list[object] = attrs.field(factory=list)

    def add(self, clause: str, *parameters: object) -> None:
        """Add a clause, in which C{{0}}, C{{1}} ... stand for these parameters."""
        first = len(self.parameters) + 1
        self.clauses.append(clause.format(*(f"${n}" for n in range(first, first + len(parameters)))))
        self.parameters.extend(parameters)

    def __str__(self) -> str:
        *others, last = self.clauses
        if not others:
            return last
        return "WITH " + ", ".join(f"c{n} AS ({clause})" for n, clause in enumerate(others)) + " " + last
