"""Pushdown of Spark filters: conversion into selections of rows that a store can apply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from msmq.pipeline.reading.row_selection import RowSelection

_NEVER_NULL: Final = frozenset({"offset", "topic", "partition", "timestampType"})
_TYPES: Final[Mapping[str, type]] = {
    "offset": int,
    "topic": str,
    "class": int,
    "timestamp": datetime,
    "arrived_time": datetime,
}
"""The columns that select rows, with the types of their values; a schema may give them others."""
_MARGIN: Final = 0.001
"""Tolerance of times in seconds, since a store has floating-point times; Spark applies the exact filter."""


def push(filters: Iterable[Filter], wanted: RowSelection) -> tuple[RowSelection, list[Filter]]:
    """Narrow a selection by these filters; return it, and the filters that Spark still has to apply."""
    left: list[Filter] = []
    for one in filters:
        narrowed, is_whole = _narrow(one, wanted)
        wanted = wanted if narrowed is None else narrowed
        if not is_whole:
            left.append(one)
    return wanted, left


def _narrow(one: Filter, wanted: RowSelection) -> tuple[RowSelection | None, bool]:
    """The narrowed selection, C{None} if the filter is not usable; and whether it is fully applied."""
    name = ".".join(getattr(one, "attribute", ()))
    if isinstance(one, IsNotNull):
        return wanted, name in _NEVER_NULL
    value: Any = getattr(one, "value", None)
    # No value equals null.
    values = [each for each in value if each is not None] if isinstance(one, In) else [value]
    if not all(type(each) is _TYPES.get(name) for each in values):
        return None, False
    match name, one:
        case "offset", EqualTo():
            return _offsets(wanted, value, value + 1), True
        case "offset", GreaterThan():
            return _offsets(wanted, value + 1, None), True
        case "offset", GreaterThanOrEqual():
            return _offsets(wanted, value, None), True
        case "offset", LessThan():
            return _offsets(wanted, 0, value), True
        case "offset", LessThanOrEqual():
            return _offsets(wanted, 0, value + 1), True
        case "topic", (EqualTo() | In()):
            return _topics(wanted, frozenset(values)), True
        case "class", (EqualTo() | In()):
            return _classes(wanted, frozenset(values)), False
        case (("timestamp" | "arrived_time"), (EqualTo() | In())):
            times = [_seconds(each) for each in values]
            return _times(wanted, min(times, default=0.0), max(times, default=0.0)), False
        case (("timestamp" | "arrived_time"), (GreaterThan() | GreaterThanOrEqual())):
            return _times(wanted, _seconds(value), None), False
        case (("timestamp" | "arrived_time"), (LessThan() | LessThanOrEqual())):
            return _times(wanted, None, _seconds(value)), False
    return None, False


def _offsets(wanted: RowSelection, begin: int, end: int | None) -> RowSelection:
    first, last = wanted.within(begin, 1 << 63 if end is None else end)
    return attrs.evolve(wanted, begin=max(0, first), end=last)


def _topics(wanted: RowSelection, topics: frozenset[str]) -> RowSelection:
    return attrs.evolve(wanted, topics=topics if wanted.topics is None else wanted.topics & topics)


def _classes(wanted: RowSelection, classes: frozenset[int]) -> RowSelection:
    return attrs.evolve(wanted, classes=classes if wanted.classes is None else wanted.classes & classes)


def _times(wanted: RowSelection, since: float | None, until: float | None) -> RowSelection:
    if since is not None:
        since -= _MARGIN
        wanted = attrs.evolve(wanted, since=since if wanted.since is None else max(since, wanted.since))
    if until is not None:
        until += _MARGIN
        wanted = attrs.evolve(wanted, until=until if wanted.until is None else min(until, wanted.until))
    return wanted


def _seconds(value: datetime) -> float:
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
