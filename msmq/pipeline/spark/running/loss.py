"""Command of the job C{loss}: messages that are missing."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from msmq.pipeline.message_fates import (
    ACKNOWLEDGED,
    DEAD_LETTER,
    DELIVERED,
    DUPLICATED,
    ERASED,
    EXPIRED,
    EXPIRED_UNREAD,
    EXPLAINED,
    FATES,
    LOST,
    MISSING,
    PURGED,
    REFUSED,
    UNKNOWN,
)
from msmq.pipeline.reports import JobReport, Plot, Section, Series
from msmq.pipeline.reports.model import time_text
from msmq.pipeline.spark.inputs import (
    Input,
    JobInput,
    erasures_of,
    missing_note,
    read_erased_identifiers,
)
from msmq.pipeline.spark.jobs.loss import fates, losses
from msmq.pipeline.spark.running.job import Job, JobContext, JobOutcome, QueueManagerNames, shown
from msmq.pipeline.spark.running.times import add_times

_STREAMS = (
    *("queue", "log", "journal", "source_journal", "dead_letter", "dead_letter_transactional"),
    "events",
)


_OTHERS = {
    DEAD_LETTER: "in dead-letter queues",
    REFUSED: "refused",
    EXPIRED: "expired before they arrived",
    EXPIRED_UNREAD: "expired unread",
    PURGED: "purged unread",
    ACKNOWLEDGED: "acknowledged elsewhere",
    EXPLAINED: "explained by an event",
    ERASED: "erased from an archive",
    MISSING: "missing where no record is kept",
    UNKNOWN: "unknown to the input",
}


def _add_options(parser: ArgumentParser) -> None:
    add_times(parser, "what was sent")


def _wanted(_: Namespace) -> JobInput:
    return JobInput(_STREAMS)


def within(table: DataFrame, since: int | None, until: int | None) -> DataFrame:
    """The messages that were sent in this time."""
    if since is not None:
        table = table.where(F.col("sent") >= since)
    return table if until is None else table.where(F.col("sent") < until)


def headline(count: Mapping[str, int]) -> str:
    """The result in one line: every fate but delivery with its number of messages.

    @param count: the numbers of messages by fate.
    """
    named = [f"{count.get(LOST, 0):,} lost", f"{count.get(DUPLICATED, 0):,} arrived more than once"]
    named += [f"{count[fate]:,} {text}" for fate, text in _OTHERS.items() if count.get(fate)]
    delivered = count.get(DELIVERED, 0)
    return f"{sum(count.values()):,} messages, {delivered:,} delivered: {', '.join(named)}"


def archive_note(inputs: Sequence[Input]) -> str:
    """What a report on losses cannot know, since archives lack it, and do not say what it was; or empty."""
    unknown, missing = erasures_of(inputs).unidentified, missing_note(inputs)
    notes = []
    if unknown:
        notes.append(
            f"{unknown:,} rows were erased from archives before msmq recorded the identifiers of their"
            " messages"
        )
    if missing:
        notes.append(missing)
    if not notes:
        return ""
    return f"; {'; '.join(notes)}: a lost, missing or unknown message may be one of these"


def _run(setting: JobContext) -> JobOutcome:
    options = setting.options
    erased = read_erased_identifiers(setting.spark, setting.inputs)
    every = setting.cached(
        within(fates(setting.estate.messages, setting.estate.events, erased), options.since, options.until)
    )
    counted = setting.cached(losses(every))
    count = {
        row["fate"]: row["messages"]
        for row in counted.groupBy("fate").agg(F.sum("messages").alias("messages")).collect()
    }
    total = sum(count.values())
    names = QueueManagerNames.of(setting)
    flows = sorted(
        counted.collect(), key=lambda row: (row["destination"] or "", row["source"] or "", row["fate"])
    )
    places = [f"{names(row['source']) or '-'} to {row['destination'] or '-'}" for row in flows]
    stack = []
    for fate in FATES:
        values: dict[str, float] = {}
        for place, row in zip(places, flows, strict=True):
            if row["fate"] == fate:
                values[place] = values.get(place, 0) + row["messages"]
        if values:
            stack.append(Series(fate, list(values), list(values.values())))
    bad = every.where(F.col("fate").isin(LOST, MISSING, DUPLICATED)).orderBy("fate", "sent", "id")
    report = JobReport(
        "Results of messages",
        headline(count) + archive_note(setting.inputs),
        [
            *setting.facts,
            *((f"messages {fate.replace('_', ' ')}", count[fate]) for fate in FATES if fate in count),
            ("messages in all, the sum of the fates", total),
        ],
        [
            Section(
                "Fates",
                tables=[
                    shown(
                        "By sender, destination and reason",
                        counted.orderBy(F.desc("messages"), "destination", "fate"),
                        {
                            "source": "from",
                            "destination": "to",
                            "fate": "fate",
                            "reason": "reason",
                            "messages": "messages",
                            "first_sent": "first sent",
                            "last_sent": "last sent",
                        },
                        convert={"source": names, "first_sent": time_text, "last_sent": time_text},
                    )
                ],
                plots=[
                    Plot("Messages by fate", "bars", [Series("messages", list(count), list(count.values()))]),
                    Plot(
                        "Messages that were not delivered",
                        "stack",
                        [one for one in stack if one.name != DELIVERED],
                    ),
                ],
            ),
            Section(
                "Problems",
                tables=[
                    shown(
                        "Lost, missing and duplicated messages",
                        bad,
                        {
                            "id": "message",
                            "source": "from",
                            "destination": "to",
                            "fate": "fate",
                            "copies": "copies",
                            "sent": "sent",
                        },
                        convert={"source": names, "sent": time_text},
                    )
                ],
            ),
        ],
    )
    return JobOutcome(report, {"fates": every, "losses": counted})


JOB = Job("loss", "the results of the messages that were sent", _run, _wanted, _add_options)
