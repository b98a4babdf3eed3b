"""Service levels: limits on latency, fates and the age of waiting messages, and whether they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from msmq.pipeline.message_fates import DELIVERED, FATES
from msmq.pipeline.spark.jobs.estate import QUEUE
from msmq.pipeline.spark.jobs.latency import SECOND

LATENCIES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
"""The limits on latency in seconds, with their percentiles."""
AGE: Final = "age"
"""The limit on the age of the oldest message that waits in a queue, in seconds."""
COUNTS: Final = tuple(fate for fate in FATES if fate != DELIVERED)
"""The limits on the numbers of messages with a fate."""

KEPT: Final = "kept"
EXCEEDED: Final = "exceeded"
UNKNOWN: Final = "unknown"
VERDICTS: Final = (EXCEEDED, UNKNOWN, KEPT)


@attrs.frozen
class Limit:
    """A limit of a service level.

    @ivar queue: the path of the queue that it is about; empty for all.
    @ivar name: one of L{LATENCIES}, L{AGE} or one of L{COUNTS}.
    @ivar value: the largest value that keeps it.
    """

    queue: str
    name: str
    value: float


@attrs.frozen
class Judgement:
    """Whether a limit is kept.

    @ivar at_least: the lower bound of the measured value; C{None} if nothing was measured.
    @ivar at_most: its upper bound; C{None} if it has none.
    @ivar messages: the number of messages that were looked at.
    """

    limit: Limit
    verdict: str
    at_least: float | None
    at_most: float | None
    messages: int


def judge(limit: Limit, at_least: float | None, at_most: float | None, messages: int) -> Judgement:
    """Whether a value between these bounds keeps a limit; unknown if the bounds do not decide it."""
    if at_least is not None and at_least > limit.value:
        verdict = EXCEEDED
    elif at_most is not None and at_most <= limit.value:
        verdict = KEPT
    else:
        verdict = UNKNOWN
    return Judgement(limit, verdict, at_least, at_most, messages)


def judged(
    limits: Sequence[Limit], fates: DataFrame, bounds: DataFrame, messages: DataFrame, now: int
) -> list[Judgement]:
    """The judgement on each limit.

    A count is unknown if there is no message at all, a latency if no arrival was measured.

    @param fates: as of L{fates<msmq.pipeline.spark.jobs.loss.fates>}.
    @param bounds: the latency of each message, as of L{bounds<msmq.pipeline.spark.jobs.latency.bounds>}.
    @param now: the time to which the age of waiting messages is computed, in microseconds.
    """
    found = []
    for limit in limits:
        if limit.name in LATENCIES:
            found.append(_latency(limit, bounds))
        elif limit.name == AGE:
            found.append(_age(limit, messages, now))
        else:
            found.append(_count(limit, fates))
    return found


def trusted(delays: DataFrame) -> DataFrame:
    """Bounds of latency if all clocks agree: a sender has whole seconds."""
    return delays.select(
        "*",
        F.greatest(F.col("apparent") - SECOND, F.lit(0)).alias("at_least"),
        F.greatest("apparent", F.lit(0)).alias("at_most"),
    )


def _latency(limit: Limit, bounds: DataFrame) -> Judgement:
    part = LATENCIES[limit.name]
    mine = bounds if not limit.queue else bounds.where(_is_named("queue", limit.queue))
    row = mine.agg(
        F.count("*").alias("messages"),
        F.count("at_most").alias("bounded"),
        F.percentile("at_least", part).alias("least"),
        F.percentile("at_most", part).alias("most"),
    ).collect()[0]
    least = None if row["least"] is None else row["least"] / SECOND
    is_bounded = row["most"] is not None and row["bounded"] == row["messages"]
    return judge(limit, least, row["most"] / SECOND if is_bounded else None, row["messages"])


def _age(limit: Limit, messages: DataFrame, now: int) -> Judgement:
    is_waiting = (F.col("place") == QUEUE) & F.col("arrived").isNotNull()
    mine = messages if not limit.queue else messages.where(_is_named("queue", limit.queue))
    row = mine.agg(
        F.count("*").alias("known"),
        F.count_if(is_waiting).alias("waiting"),
        F.min(F.when(is_waiting, F.col("arrived"))).alias("oldest"),
    ).collect()[0]
    age: float | None = 0.0
    if row["oldest"] is not None:
        age = max(now - row["oldest"], 0) / SECOND
    elif limit.queue and not row["known"]:
        # No message of a queue of this name, which may be misspelt.
        age = None
    return judge(limit, age, age, row["waiting"])


def _count(limit: Limit, fates: DataFrame) -> Judgement:
    mine = fates if not limit.queue else fates.where(_is_named("destination", limit.queue))
    row = mine.agg(
        F.count("*").alias("messages"), F.count_if(F.col("fate") == limit.name).alias("found")
    ).collect()[0]
    found = float(row["found"]) if row["messages"] else None
    return judge(limit, found, found, row["messages"])


def _is_named(column: str, queue: str) -> Column:
    r"""Whether a column has the name of a queue: its path, or a name that ends with it."""
    path = queue.lower().removeprefix(".\\")
    name = F.lower(column)
    return F.coalesce((name == path) | name.endswith(f"\\{path}"), F.lit(False))
