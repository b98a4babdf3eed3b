"""The tables of mutations: those of rules, and random ones that survive for a reason."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.mutants.mutations import Mutation

HERE: Final = Path(__file__).parent
_COLUMNS: Final = ("rule", "path", "function", "before", "after", "place")


@attrs.frozen
class Row:
    """A mutation, and what it is about: a rule, or the reason for which no test notices it."""

    about: str
    mutation: Mutation


def read_table(name: str = "table.csv") -> list[Row]:
    """The rows of a table."""
    path = HERE / name
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    rows: list[Row] = []
    for each in found:
        place = int(each["place"])
        mutation = Mutation(each["path"], each["function"], each["before"], each["after"], place)
        rows.append(Row(each["rule"], mutation))
    return rows


def write_table(rows: Sequence[Row], name: str = "table.csv") -> None:
    """Replace a table; the rows are sorted."""
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for row in sorted(rows, key=lambda each: each.about):
            one = row.mutation
            writer.writerow((row.about, one.path, one.function, one.before, one.after, one.place))
