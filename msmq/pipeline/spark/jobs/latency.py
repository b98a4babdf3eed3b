"""Latency of messages, bounded in spite of two clocks and sent times in whole seconds.

A message has its send time in whole seconds, by the clock of its sender; its queue has the arrival time, by
the clock of the receiver. Their difference includes the skew, by which the clock of the receiver is ahead of
the sender's, and two facts bound it:

  - no message arrives before it was sent: the skew is at most the smallest of these differences;
  - an acknowledgement arrives after its message has arrived, and after it was sent itself: it gives a lower
    bound of the skew, with the precision of a clock rather than of a second.

This gives the minimum and the maximum latency of each message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from msmq.pipeline.spark.jobs.estate import ARRIVED, SOURCE_JOURNAL, is_about_another

SECOND: Final = 1_000_000
"""Resolution of the send time, in microseconds."""

PERCENTILES: Final = (50, 90, 99)

ROUTE: Final = ("source", "store")
"""The columns of a route: the sender, by GUID, and the destination."""


def delays(messages: DataFrame, owners: Mapping[str, str]) -> DataFrame:
    """Apparent latency of each message, by two clocks.

    The columns are C{id}, C{source}, C{store}, C{queue}, C{sent}, C{arrived}, C{apparent} (the difference)
    and, of the first acknowledgement of the message, C{answered} (its arrival, by the clock of the sender)
    and C{answer_sent} (by that of the receiver); null without an acknowledgement.
    Of a message that arrived twice the first arrival counts.
    """
    arrived = messages.where(
        F.col("place").isin(*ARRIVED) & F.col("arrived").isNotNull() & F.col("sent").isNotNull()
    )
    first = (
        arrived.where(~is_about_another() & F.col("source").isNotNull())
        .groupBy("id", *ROUTE)
        .agg(
            F.min_by("queue", F.struct("arrived", "queue")).alias("queue"),
            F.min("sent").alias("sent"),
            F.min("arrived").alias("arrived"),
        )
    )
    # An acknowledgement to a third queue manager gives no bound.
    answers = (
        arrived.where(F.col("class").isin(0x0002, 0x4000))
        .select(F.col("store").alias("store_name"), "correlation_id", "sent", "arrived")
        .join(owners_of(messages, owners), "store_name", "left")
        .alias("answer")
    )
    joined = first.alias("first").join(
        answers,
        (F.col("first.id") == F.col("answer.correlation_id"))
        & (F.coalesce("answer.owner", "first.source") == F.col("first.source")),
        "left",
    )
    earliest = F.min(
        F.struct(F.col("answer.arrived").alias("answered"), F.col("answer.sent").alias("answer_sent"))
    )
    columns = ("id", *ROUTE, "queue", "sent", "arrived")
    return (
        joined.groupBy(*(F.col(f"first.{name}") for name in columns))
        .agg(F.when(F.max("answer.arrived").isNotNull(), earliest).alias("answer"))
        .select(
            *columns,
            (F.col("arrived") - F.col("sent")).alias("apparent"),
            F.col("answer")["answered"].alias("answered"),
            F.col("answer")["answer_sent"].alias("answer_sent"),
        )
    )


def owners_of(messages: DataFrame, known: Mapping[str, str]) -> DataFrame:
    """The owner of each store, by its GUID: C{store_name} (the name of the store) and C{owner}.

    A store states its owner. The owner of another input, an export for example, is derived from the machine
    journal, which has only messages of its own queue manager; a dead-letter queue may have messages of any
    sender.

    @param known: the owners that the stores state, by the names of the stores.
    """
    inferred = (
        messages.where(
            (F.col("place") == SOURCE_JOURNAL) & F.col("source").isNotNull() & ~F.col("store").isin(*known)
        )
        .groupBy(F.col("store").alias("store_name"))
        .agg(F.min("source").alias("owner"), F.count_distinct("source").alias("sources"))
        .where("sources = 1")
        .select("store_name", "owner")
    )
    rows = list(known.items())
    return inferred.union(messages.sparkSession.createDataFrame(rows, "store_name STRING, owner STRING"))


def skews(delays: DataFrame) -> DataFrame:
    """Clock skew of each receiver relative to each sender.

    The columns are those of the route, C{messages}, C{answers}, C{skew_at_least} (null without
    acknowledgements), C{skew_at_most}, C{skew} (the middle; null if it has no lower bound) and C{steady},
    which is false if the bounds contradict each other, because a clock was set meanwhile.
    """
    low, high = F.col("skew_at_least"), F.col("skew_at_most")
    latest = F.greatest(F.col("arrived") - F.col("answered"), F.col("answer_sent") - F.col("answered"))
    return (
        delays.groupBy(*ROUTE)
        .agg(
            F.count("*").alias("messages"),
            F.count("answered").alias("answers"),
            F.max(latest).alias("skew_at_least"),
            F.min("apparent").alias("skew_at_most"),
        )
        .select(
            "*",
            F.floor((low + high) / 2).alias("skew"),
            F.coalesce(low <= high, F.lit(True)).alias("steady"),
        )
    )


def bounds(delays: DataFrame, skews: DataFrame) -> DataFrame:
    """Minimum and maximum latency of each message.

    It adds C{at_least} and C{at_most} to the columns of the delays; C{at_most} is null without a bound.
    If a clock was set meanwhile, only the clock of the sender is used, with the arrival of the
    acknowledgement.
    """
    of_route = skews.select(*ROUTE, "skew_at_least", "skew_at_most", "steady")
    joined = delays.join(of_route, list(ROUTE), "left")
    steady = F.col("steady")
    at_least = F.when(steady, F.col("apparent") - F.col("skew_at_most") - SECOND)
    at_most = F.when(steady, F.col("apparent") - F.col("skew_at_least"))
    return joined.select(
        *delays.columns,
        F.greatest(at_least, F.lit(0)).alias("at_least"),
        F.least(at_most, F.col("answered") - F.col("sent")).alias("at_most"),
    )


def percentiles(bounds: DataFrame) -> DataFrame:
    """Latency percentiles from each sender to each queue, as bounds.

    In addition to the columns of the route and C{queue}: C{messages}, C{bounded} (the number of those with an
    upper bound), and for each percentile C{pN_at_least} and C{pN_at_most}, also C{max_at_least},
    C{max_at_most}.
    """
    wanted = [
        F.percentile(f"at_{side}", number / 100).cast("bigint").alias(f"p{number}_at_{side}")
        for number in PERCENTILES
        for side in ("least", "most")
    ]
    return bounds.groupBy(*ROUTE, "queue").agg(
        F.count("*").alias("messages"),
        F.count("at_most").alias("bounded"),
        *wanted,
        F.max("at_least").alias("max_at_least"),
        F.max("at_most").alias("max_at_most"),
    )
