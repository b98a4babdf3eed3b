"""The section of a report that says what was read: which queue managers, which offsets, how fresh."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Row
from pyspark.sql import functions as F

from msmq.pipeline.reports import Section, Table
from msmq.pipeline.reports.model import Cell, time_text
from msmq.pipeline.spark.running.job import JobContext

TITLE: Final = "Inputs"
EVENTS: Final = "events"

_WHO: Final = ("input", "queue manager", "location")
_WHAT: Final = ("contents", "rows", "first offset", "last offset", "newest")
_NEWEST: Final = (
    "The newest row of each is the time up to which this report can know anything."
    " All times of the report are in UTC."
)
_ALLOWS_LOSS: Final = (
    "Rows that were trimmed while they were read, or are damaged in a store, are left out of this report"
    " (--allow-data-loss)."
)
_NOTHING: Final = ("nothing", 0, None, None, None)


def inputs_section(setting: JobContext, *, is_counted: bool) -> Section:
    """The inputs with their rows.

    @param is_counted: whether the estate has everything that the job read.
    """
    contents = _contents(setting) if is_counted else {}
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(one.name for one in setting.inputs):
        location = ", ".join(one.shown for one in setting.inputs if one.name == name)
        who: list[Cell] = [name, setting.estate.owners.get(name), location]
        if is_counted:
            rows += [[*who, *what] for what in contents.get(name, [_NOTHING])]
        else:
            rows.append(who)
    columns = [*_WHO, *_WHAT] if is_counted else _WHO
    sentences = [_NEWEST] if is_counted else []
    if any(one.allows_loss for one in setting.inputs):
        sentences.append(_ALLOWS_LOSS)
    return Section(TITLE, " ".join(sentences), [Table("What was read", columns, rows)])


def _contents(setting: JobContext) -> dict[str, list[tuple[Cell, ...]]]:
    """The contents of each input, by its name."""
    messages = setting.estate.messages.select("store", "place", "position", F.col("arrived").alias("time"))
    events = setting.estate.events.select("store", F.lit(EVENTS).alias("place"), "position", "time")
    counted = (
        messages.unionByName(events)
        .groupBy("store", "place")
        .agg(
            F.count("*").alias("rows"),
            F.min("position").alias("first"),
            F.max("position").alias("last"),
            F.max("time").alias("newest"),
        )
    )
    found: dict[str, list[tuple[Cell, ...]]] = {}
    for row in sorted(counted.collect(), key=_order):
        what = (row["place"], row["rows"], row["first"], row["last"], time_text(row["newest"]))
        found.setdefault(row["store"], []).append(what)
    return found


def _order(row: Row) -> tuple[str, bool, str]:
    return row["store"], row["place"] == EVENTS, row["place"]
