"""Command of the job C{latency}: times from send to arrival."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Row
from pyspark.sql import functions as F

from msmq.pipeline.reports import JobReport, Plot, Section, Series
from msmq.pipeline.reports.model import seconds
from msmq.pipeline.spark.inputs import JobInput
from msmq.pipeline.spark.jobs.latency import PERCENTILES, bounds, delays, percentiles, skews
from msmq.pipeline.spark.running.job import Job, JobContext, JobOutcome, QueueManagerNames, shown

_SHOWN = tuple(range(0, 101, 5))


def headline(routes: Sequence[Row], names: Callable[[str | None], str | None], set_back: int) -> str:
    """The result in one line, with the first route of which every message has an upper bound.

    @param routes: the rows of L{percentiles}, in order of importance.
    @param set_back: the number of pairs of which a clock was set.
    """
    verdict = f"{sum(row['messages'] for row in routes):,} messages on {len(routes):,} routes"
    # Percentiles of some of the messages say nothing about half of them.
    bounded = next((row for row in routes if row["bounded"] == row["messages"]), None)
    if bounded is not None:
        verdict += (
            f"; from {names(bounded['source'])} into {bounded['queue']} half took no more than"
            f" {bounded['p50_at_most'] / 1e6:.3f} s, and 99 % no more than"
            f" {bounded['p99_at_most'] / 1e6:.3f} s"
        )
    if set_back:
        verdict += f"; on {set_back} a clock was set meanwhile"
    return verdict


def _run(setting: JobContext) -> JobOutcome:
    delayed = setting.cached(delays(setting.estate.messages, setting.estate.owners))
    skewed = setting.cached(skews(delayed))
    bounded = setting.cached(bounds(delayed, skewed))
    taken = setting.cached(percentiles(bounded))
    names = QueueManagerNames.of(setting)
    routes = taken.orderBy(F.desc("messages"), "source", "store", "queue").collect()
    set_back = skewed.where("NOT steady").count()
    wanted = [number / 100 for number in _SHOWN]
    curves = []
    for row in (
        bounded.groupBy("source", "store")
        .agg(
            F.percentile("at_least", wanted).alias("least"),
            F.percentile("at_most", wanted).alias("most"),
            F.count("*").alias("messages"),
            F.count("at_most").alias("bounded"),
        )
        .orderBy(F.desc("messages"))
        .take(3)
    ):
        for side, name in (("least", "at least"), ("most", "at most")):
            # A curve of those messages alone that have an upper bound would be taken for that of all.
            if row[side] is not None and (side == "least" or row["bounded"] == row["messages"]):
                curves.append(
                    Series(
                        f"{names(row['source'])} to {row['store']}, {name}",
                        list(_SHOWN),
                        [one / 1e6 for one in row[side]],
                    )
                )
    headings = {"source": "from", "store": "to", "queue": "queue", "messages": "messages"}
    columns = {
        f"p{number}_at_{side}": f"{number} %, {side}" for number in PERCENTILES for side in ("least", "most")
    }
    columns |= {"max_at_least": "all, least", "max_at_most": "all, most"}
    report = JobReport(
        "How long messages take",
        headline(routes, names, set_back),
        setting.facts,
        [
            Section(
                "Routes",
                "Seconds. A message has only the whole second in which it was sent, so every time is "
                "between two bounds; without acknowledgements nothing bounds it from above. The upper"
                " bounds are those of the bounded messages.",
                tables=[
                    shown(
                        "Percentiles",
                        taken.orderBy(F.desc("messages"), "source", "store", "queue"),
                        {**headings, "bounded": "bounded", **columns},
                        convert={"source": names, **dict.fromkeys(columns, seconds)},
                    )
                ],
                plots=[Plot("How long messages take", "lines", curves, "percentile", "seconds")],
            ),
            Section(
                "Clocks",
                "By how many seconds the clock of the receiver is ahead of the sender's.",
                tables=[
                    shown(
                        "Skews",
                        skewed.orderBy("source", "store"),
                        {
                            "source": "from",
                            "store": "to",
                            "messages": "messages",
                            "answers": "acknowledgements",
                            "skew_at_least": "at least",
                            "skew_at_most": "at most",
                            "skew": "about",
                            "steady": "steady",
                        },
                        convert={
                            "source": names,
                            "skew_at_least": seconds,
                            "skew_at_most": seconds,
                            "skew": seconds,
                        },
                    )
                ],
            ),
        ],
    )
    return JobOutcome(report, {"delays": bounded, "percentiles": taken, "skews": skewed})


JOB = Job(
    "latency",
    "percentiles of each route, and the skew of its clocks",
    _run,
    lambda _: JobInput(("queue", "log", "journal", "source_journal", "dead_letter")),
)
