"""Distinguishes the equal rows of a task, so that each is a message whatever order they come in."""

from __future__ import annotations

from typing import Final

ROWS: Final = 500_000
"""Number of different rows that are remembered, some 70 bytes each."""


class RepeatedRows:
    """Counts how often each row of a task came.

    @param limit: the number of different rows to remember.
    """

    def __init__(self, limit: int = ROWS) -> None:
        self._limit = limit
        self._first: set[int] = set()
        self._repeats: dict[int, int] = {}
        self._position = -1

    def suffix(self, digest: str) -> str:
        """What distinguishes a row from the equal ones before it: empty for the first, then 1, 2 and so on.

        The suffixes of equal rows are the same in any order of the rows of a task. A row that is new after as
        many as are remembered has its position instead, C{@} and a number, so it is distinguished from every
        other row, but by another suffix when the rows are sent again in another order.

        @param digest: the digest of the content of the row, in hexadecimal.
        """
        self._position += 1
        number = int(digest, 16)
        if number in self._first:
            self._repeats[number] = count = self._repeats.get(number, 0) + 1
            return str(count)
        if len(self._first) >= self._limit:
            return f"@{self._position}"
        self._first.add(number)
        return ""
