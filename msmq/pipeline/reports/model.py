"""Model of a job's report: text, tables, charts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import attrs

Cell: TypeAlias = str | int | float | bool | None

MOST_ROWS: Final = 50
"""Limit on the rows of a table in a report; all rows are available as Parquet."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@attrs.frozen
class Table:
    """Table of a report.

    @ivar left_out: the number of omitted rows.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    left_out: int = 0


@attrs.frozen
class Series:
    """Values of one line, or of one set of bars.

    @ivar places: their positions on the horizontal axis: names, numbers, or times in microseconds.
    """

    name: str
    places: Sequence[str | float]
    values: Sequence[float]


@attrs.frozen
class Plot:
    """Plot of a report.

    @ivar kind: C{bars} (side by side), C{stack} (of bars), or C{lines}.
    @ivar across: the label of the horizontal axis; C{up}, of the vertical one.
    @ivar is_timed: whether the positions are times.
    """

    title: str
    kind: str
    series: Sequence[Series]
    across: str = ""
    up: str = "messages"
    is_timed: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(len(series.values) for series in self.series)


@attrs.frozen
class Section:
    """Section of a report: its tables, then its plots."""

    title: str
    text: str = ""
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()


@attrs.frozen
class JobReport:
    """Report of a job.

    @ivar title: the name of the job.
    @ivar verdict: the result in one line.
    @ivar facts: the inputs and options.
    """

    title: str
    verdict: str
    facts: Sequence[tuple[str, Cell]] = ()
    sections: Sequence[Section] = ()


def cell_text(cell: Cell) -> str:
    """Format a value for people."""
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:,.3f}"
        case _:
            return plain(cell)


def plain(text: str) -> str:
    """The text on one line, without control characters, since senders choose names and exceptions."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def time_text(microseconds: int | None) -> str | None:
    """Format a time for people, in UTC."""
    if microseconds is None:
        return None
    try:
        time = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return "never"
    return f"{time:%Y-%m-%d %H:%M:%S}"


def seconds(microseconds: int | None) -> float | None:
    """Microseconds as seconds."""
    return None if microseconds is None else microseconds / 1_000_000
