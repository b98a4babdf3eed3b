"""The tables of mutations: those of rules, and random ones that survive for a reason."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.mutants.mutations import Mutation

HERE: Final = Path(__file__).parent
RULES: Final = HERE / "rules"
"""Of each document a table, which is named for it."""
SURVIVORS: Final = HERE / "survivors.csv"
_COLUMNS: Final = ("rule", "path", "function", "before", "after", "place")


@attrs.frozen
class Row:
    """A mutation, and what it is about: a rule, or the reason for which no test notices it."""

    about: str
    mutation: Mutation


def read_rules() -> list[Row]:
    """The mutations of all rules."""
    return [row for path in sorted(RULES.glob("*.csv")) for row in read_table(path)]


def write_rules(rows: Sequence[Row]) -> None:
    """Replace the tables of the documents that these rules are from."""
    documents: dict[str, list[Row]] = {}
    for row in rows:
        documents.setdefault(row.about.partition("-")[0].lower(), []).append(row)
    for document, its in documents.items():
        write_table(its, RULES / f"{document}.csv")


def read_table(path: Path) -> list[Row]:
    """The rows of a table."""
    with path.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    rows: list[Row] = []
    for each in found:
        place = int(each["place"])
        mutation = Mutation(each["path"], each["function"], each["before"], each["after"], place)
        rows.append(Row(each["rule"], mutation))
    return rows


def write_table(rows: Sequence[Row], path: Path) -> None:
    """Replace a table; the rows are sorted."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for row in sorted(rows, key=lambda each: each.about):
            one = row.mutation
            writer.writerow((row.about, one.path, one.function, one.before, one.after, one.place))
