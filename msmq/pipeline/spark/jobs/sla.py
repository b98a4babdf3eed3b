"""Service levels: limits on latency, fates and the age of waiting messages, and whether they are kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

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
    limits: Sequence[Limit],
    fates: DataFrame,
    bounds: DataFrame,
    messages: DataFrame,
    now: int,
    *,
    stores: Collection[str],
    queues: Collection[str] = (),
) -> list[Judgement]:
    """The judgement on each limit.

    A count is unknown if there is no message at all, a latency if no arrival was measured, an age if no
    queue was read, or none of the name: archives and captures have none.

    @param fates: as of L{fates<msmq.pipeline.spark.jobs.loss.fates>}.
    @param bounds: the latency of each message, as of L{bounds<msmq.pipeline.spark.jobs.latency.bounds>}.
    @param now: the time to which the age of waiting messages is computed, in microseconds.
    @param stores: the names of the inputs whose queues were read, also those without messages.
    @param queues: the paths of these queues, also of those without messages.
    """
    # Each table is computed as seldom as possible: it may be a query over the whole estate.
    latencies = _latencies([one for one in limits if one.name in LATENCIES], bounds)
    ages = _ages([one for one in limits if one.name == AGE], messages, now, stores, queues)
    counts = _counts([one for one in limits if one.name in COUNTS], fates)
    found = {**latencies, **ages, **counts}
    return [found[limit] for limit in limits]


def trusted(delays: DataFrame) -> DataFrame:
    """Bounds of latency if all clocks agree: a sender has whole seconds."""
    return delays.select(
        "*",
        F.greatest(F.col("apparent") - SECOND, F.lit(0)).alias("at_least"),
        F.greatest("apparent", F.lit(0)).alias("at_most"),
    )


def _latencies(limits: Sequence[Limit], bounds: DataFrame) -> dict[Limit, Judgement]:
    found = {}
    # A percentile keeps all values in memory, so those of one queue share them, and queues come in turn.
    for queue in dict.fromkeys(limit.queue for limit in limits):
        mine = [limit for limit in limits if limit.queue == queue]
        parts = [LATENCIES[limit.name] for limit in mine]
        row = (
            bounds.where(_concerns(mine[0], "queue"))
            .agg(
                F.count("*").alias("messages"),
                F.count("at_most").alias("bounded"),
                F.percentile("at_least", parts).alias("least"),
                F.percentile("at_most", parts).alias("most"),
            )
            .collect()[0]
        )
        is_bounded = row["most"] is not None and row["bounded"] == row["messages"]
        for number, limit in enumerate(mine):
            least = None if row["least"] is None else row["least"][number] / SECOND
            most = row["most"][number] / SECOND if is_bounded else None
            found[limit] = judge(limit, least, most, row["messages"])
    return found


def _ages(
    limits: Sequence[Limit],
    messages: DataFrame,
    now: int,
    stores: Collection[str],
    queues: Collection[str],
) -> dict[Limit, Judgement]:
    found = {}
    is_read = F.col("store").isin(*stores) | (F.col("place") == QUEUE)
    is_waiting = (F.col("place") == QUEUE) & F.col("arrived").isNotNull()
    measures = {
        limit: {
            "known": F.count_if(_concerns(limit, "queue") & is_read),
            "waiting": F.count_if(_concerns(limit, "queue") & is_waiting),
            "oldest": F.min(F.when(_concerns(limit, "queue") & is_waiting, F.col("arrived"))),
        }
        for limit in limits
    }
    for limit, row in _measured(measures, messages):
        age: float | None = 0.0
        if row["oldest"] is not None:
            age = max(now - row["oldest"], 0) / SECOND
        elif not row["known"] and not (_has_queue(limit, queues) if limit.queue else stores):
            # There is no queue of this name, which may be misspelt; or no queue was read.
            age = None
        found[limit] = judge(limit, age, age, row["waiting"])
    return found


def _counts(limits: Sequence[Limit], fates: DataFrame) -> dict[Limit, Judgement]:
    found = {}
    measures = {
        limit: {
            "messages": F.count_if(_concerns(limit, "destination")),
            "found": F.count_if(_concerns(limit, "destination") & (F.col("fate") == limit.name)),
        }
        for limit in limits
    }
    for limit, row in _measured(measures, fates):
        count = float(row["found"]) if row["messages"] else None
        found[limit] = judge(limit, count, count, row["messages"])
    return found


def _measured(
    measures: Mapping[Limit, Mapping[str, Column]], table: DataFrame
) -> Iterator[tuple[Limit, Mapping[str, Any]]]:
    """The values of these aggregates over the whole table, by their names, from one query."""
    if not measures:
        return
    columns = [one for named in measures.values() for one in named.values()]
    [row] = table.agg(*(one.alias(f"measure_{number}") for number, one in enumerate(columns))).collect()
    values = iter(row)
    for limit, named in measures.items():
        yield limit, dict(zip(named, values, strict=False))


def _concerns(limit: Limit, column: str) -> Column:
    r"""Whether a row is of the queue of a limit, if it has one: of its path, or a name that ends with it."""
    if not limit.queue:
        return F.lit(True)
    path = _path(limit)
    name = F.lower(column)
    return F.coalesce((name == path) | name.endswith(f"\\{path}"), F.lit(False))


def _has_queue(limit: Limit, queues: Collection[str]) -> bool:
    """Whether one of these paths is that of the queue of a limit."""
    path = _path(limit)
    return any(name.lower() == path or name.lower().endswith(f"\\{path}") for name in queues)


def _path(limit: Limit) -> str:
    return limit.queue.lower().removeprefix(".\\")
