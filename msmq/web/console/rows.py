"""Tables of many rows: sorted by a column, filtered by a text, one page at a time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import attrs

from msmq.control.protocol.refusals import invalid
from msmq.control.server.messages.properties import number
from msmq.quoting import quoted

PAGE: Final = 50
"""Rows on one page."""

_SURPLUS: Final = 200
"""Rows beyond those of the pages so far that are kept before they are compared."""

_T = TypeVar("_T")


@attrs.frozen
class TableQuery:
    """The part of a table that a request wants.

    @ivar text: rows have to contain it, without regard to case.
    @ivar sort: the name of a column.
    @ivar page: counted from 1.
    """

    text: str
    sort: str
    is_descending: bool
    page: int


def read_query(found: dict[str, str], columns: Mapping[str, object], default: str) -> TableQuery:
    """Take C{filter}, C{sort}, C{order} and C{page} from the query parameters.

    @raise MQError: a value is invalid.
    """
    sort = found.pop("sort", default)
    if sort not in columns:
        raise invalid(f"sort: {quoted(sort)} is not a column; there are {', '.join(columns)}")
    order = found.pop("order", "up")
    if order not in ("up", "down"):
        raise invalid(f"order is up or down, not {quoted(order)}")
    page = number("page", found.pop("page", "1"))
    return TableQuery(found.pop("filter", ""), sort, order == "down", max(1, page))


@attrs.frozen
class TablePage(Generic[_T]):
    """One page of a table.

    @ivar matching: rows that match the filter.
    @ivar total: rows without the filter.
    """

    rows: Sequence[_T]
    query: TableQuery
    matching: int
    total: int

    @property
    def pages(self) -> int:
        """The number of pages, at least 1."""
        return max(1, -(-self.matching // PAGE))


class TableRows(Generic[_T]):
    """Collects the rows of one page; those that are not among the first ones are dropped on the way.

    @param columns: the key of each column by which rows can be sorted.
    @param text: the text of a row, to which the filter applies.
    """

    def __init__(
        self, query: TableQuery, columns: Mapping[str, Callable[[_T], Any]], text: Callable[[_T], str]
    ) -> None:
        self._query = query
        self._key = columns[query.sort]
        self._text = text
        self._wanted = query.text.casefold()
        self._rows: list[_T] = []
        self._needed = query.page * PAGE
        self._matching = self._total = 0

    def add(self, row: _T) -> None:
        """Add a row."""
        self._total += 1
        if self._wanted and self._wanted not in self._text(row).casefold():
            return
        self._matching += 1
        self._rows.append(row)
        if len(self._rows) >= self._needed + max(_SURPLUS, self._needed // 5):
            self._rows = self._best(self._needed)

    def page(self) -> TablePage[_T]:
        """The page; one after the last is the last."""
        last = max(1, -(-self._matching // PAGE))
        query = attrs.evolve(self._query, page=min(self._query.page, last))
        first = (query.page - 1) * PAGE
        return TablePage(self._best(first + PAGE)[first:], query, self._matching, self._total)

    def _best(self, number: int) -> list[_T]:
        """The first rows in the order of the table; equal ones in the order in which they were added."""
        best: Callable[[int, Iterable[_T], Callable[[_T], Any]], list[_T]]
        best = heapq.nlargest if self._query.is_descending else heapq.nsmallest
        return best(number, self._rows, self._key)
