"""Conditions on archived rows, as C{msmq archive erase --where} has them.

A condition is one or more comparisons joined by C{and}: a column, one of C{= != < <= > >=}, and a value: a
number, true, false, or a text in single quotes, in which two quotes are one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.schema import BIGINT, BOOLEAN, INT, STRING, TIMESTAMP, Column
from msmq.quoting import quoted

LONGEST: Final = 10_000
"""Characters of the longest condition."""

_TOKEN: Final = re.compile(r"\s*(?:([A-Za-z_]+)|(<=|>=|!=|=|<|>)|('(?:[^']|'')*')|(-?[0-9]{1,19})(?![0-9]))")
_PART: Final = ("name", "sign", "text", "number")
_COMPARE: Final = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


@attrs.frozen
class RowComparison:
    """One comparison of a column with a value."""

    column: str
    sign: str
    value: int | bool | str = attrs.field(repr=False)


@attrs.frozen
class RowCondition:
    """Comparisons that all must hold; one with null does not."""

    comparisons: Sequence[RowComparison]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names."""
        return tuple(dict.fromkeys(each.column for each in self.comparisons))

    def fits(self, columns: Sequence[Column]) -> bool:
        """Whether rows with these columns can fulfil it."""
        return set(self.columns) <= {column.name for column in columns}

    def mask(self, columns: Sequence[Column]) -> Callable[[Any], Any]:
        """For a batch with these columns, which of its rows fulfil it.

        @raise ArchiveError: a value has another type than its column.
        """
        import pyarrow
        import pyarrow.compute

        types = {column.name: column.type for column in columns}
        values = [_value(each, types[each.column]) for each in self.comparisons]

        def mask(batch: Any) -> Any:
            found = pyarrow.array([True] * batch.num_rows, pyarrow.bool_())
            for each, value in zip(self.comparisons, values, strict=True):
                array = batch.column(each.column)
                if pyarrow.types.is_dictionary(array.type):
                    array = array.cast(array.type.value_type)
                holds = getattr(pyarrow.compute, _COMPARE[each.sign])(
                    array, pyarrow.scalar(value, array.type)
                )
                found = pyarrow.compute.and_(found, holds.fill_null(False))
            return found

        return mask


def parse_condition(text: str) -> RowCondition:
    """Parse a condition.

    @raise ArchiveError: it is not one.
    """
    if len(text) > LONGEST:
        raise ArchiveError(f"the condition is longer than {LONGEST} characters")
    tokens = _tokens(text)
    found: list[RowComparison] = []
    while True:
        if [kind for kind, _ in tokens[:2]] != ["name", "sign"] or len(tokens) < 3:
            raise ArchiveError(f"the condition {quoted(text)} must be COLUMN = VALUE, joined by and")
        (_, column), (_, sign), (kind, value), *tokens = tokens
        found.append(RowComparison(column, sign, _literal(kind, value)))
        if not tokens:
            return RowCondition(tuple(found))
        if tokens[0] not in (("name", "and"), ("name", "AND")):
            raise ArchiveError(f"the condition {quoted(text)} has {quoted(tokens[0][1])} instead of and")
        del tokens[0]


def _tokens(text: str) -> list[tuple[str, str]]:
    found, place = [], 0
    text = text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ArchiveError(f"the condition cannot be read from {quoted(text[place : place + 40])} on")
        assert match.lastindex is not None
        found.append((_PART[match.lastindex - 1], match[match.lastindex]))
        place = match.end()
    return found


def _literal(kind: str, value: str) -> int | bool | str:
    if kind == "number":
        return int(value)
    if kind == "text":
        return value[1:-1].replace("''", "'")
    if kind == "name" and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ArchiveError(f"{quoted(value)} is not a value; texts need single quotes")


def _value(comparison: RowComparison, kind: str) -> Any:
    value = comparison.value
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if kind in (INT, BIGINT) and is_number:
        bits = 31 if kind == INT else 63
        if not -(1 << bits) <= int(value) < 1 << bits:
            raise ArchiveError(f"{comparison.column} has {bits + 1} bits, fewer than {value}")
        return value
    if (kind == STRING and isinstance(value, str)) or (kind == BOOLEAN and isinstance(value, bool)):
        return value
    if kind == TIMESTAMP and isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ArchiveError(f"{comparison.column}: {quoted(value)} is not an ISO 8601 time") from None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    raise ArchiveError(f"{comparison.column} cannot be compared with such a value")
