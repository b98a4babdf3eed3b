"""Quota forecast: growth of queues, journals and dead-letter queues, and when they will be full.

Growth is computed from the arrival times of the messages that are still there, so no earlier observation is
needed.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from msmq.structures.packet.message_class import MessageClass

HOUR: Final = 3600
"""Default length of a step, in seconds."""

PLACE: Final = ("store", "queue", "place")
"""The columns that identify a queue or journal."""

QUOTAS: Final = "store STRING, queue STRING, place STRING, quota BIGINT, held BIGINT"
"""The columns of the quotas: C{quota} in bytes, and C{held}, the bytes that count towards it, if known.

A null C{store} stands for every queue manager.
"""


_STILL: Final = 0.001
"""Growth rate that counts as zero, in bytes per hour."""


def growth(messages: DataFrame, step: int = HOUR) -> DataFrame:
    """Messages that arrived in each time step and are still there.

    In addition to the columns of the place: C{since} (the beginning of the step), C{messages}, C{bytes} (of
    bodies), and C{messages_so_far} and C{bytes_so_far}.

    @param step: its length in seconds.
    """
    length = step * 1_000_000
    came = messages.where("arrived IS NOT NULL AND place <> 'wire'")
    counted = came.groupBy(
        *PLACE, (F.floor(F.col("arrived") / length) * length).cast("bigint").alias("since")
    ).agg(F.count("*").alias("messages"), F.coalesce(F.sum("size"), F.lit(0)).alias("bytes"))
    so_far = Window.partitionBy(*PLACE).orderBy("since")
    return counted.select(
        "*",
        F.sum("messages").over(so_far).alias("messages_so_far"),
        F.sum("bytes").over(so_far).alias("bytes_so_far"),
    )


def forecast(growth: DataFrame, quotas: DataFrame) -> DataFrame:
    """Growth rate of each place, and the time when it will be full at that rate.

    In addition to the columns of the place: C{steps}, C{first}, C{last} (the beginnings of steps),
    C{messages}, C{bytes} (of bodies), C{messages_an_hour} and C{bytes_an_hour} (the slopes of least-squares
    lines through the totals at the end of each step; null with fewer than two steps), C{quota}, C{held} (from
    the quotas, or else C{bytes}), C{filled} (the used part of the quota) and C{full_at}, a time; null without
    a quota or without growth. A place that is full already has the time of its last step.
    """
    hour = 3600 * 1_000_000
    # Relative to the first step, so that the numbers stay small.
    begin = F.min("since").over(Window.partitionBy(*PLACE))
    seen = growth.withColumn("hours", (F.col("since") - begin) / hour)
    summed = (
        seen.groupBy(*PLACE)
        .agg(
            F.count("*").alias("steps"),
            F.min("since").alias("first"),
            F.max("since").alias("last"),
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.regr_slope(F.col("messages_so_far"), F.col("hours")).alias("messages_an_hour"),
            F.regr_slope(F.col("bytes_so_far"), F.col("hours")).alias("bytes_an_hour"),
        )
        .alias("filled")
    )
    # The quota of a store itself precedes one for every store, so that no place is there twice.
    own, every = quotas.where("store IS NOT NULL").alias("own"), quotas.where("store IS NULL").alias("every")
    joined = summed
    for table, is_own in ((own, F.col("own.store") == F.col("filled.store")), (every, F.lit(True))):
        alias = "own" if table is own else "every"
        same = is_own
        for name in ("queue", "place"):
            same = same & (F.lower(f"{alias}.{name}") == F.lower(f"filled.{name}"))
        joined = joined.join(table, same, "left")
    has_own = F.col("own.place").isNotNull()
    quota = F.when(has_own, F.col("own.quota")).otherwise(F.col("every.quota"))
    known = F.when(has_own, F.col("own.held")).otherwise(F.col("every.held"))
    held = F.coalesce(known, F.col("filled.bytes"))
    left = quota - held
    full_at = F.when(left <= 0, F.col("last")).when(
        F.col("bytes_an_hour") > _STILL,
        (F.col("last") + left / F.col("bytes_an_hour") * hour).try_cast("bigint"),
    )
    return joined.select(
        "filled.*",
        quota.alias("quota"),
        held.alias("held"),
        F.when(quota > 0, held / quota).alias("filled"),
        full_at.alias("full_at"),
    )


def refusals(events: DataFrame) -> DataFrame:
    """The messages that were refused because a queue was full ([MS-MQMQ] 2.2.18.1.6 NACK_Q_EXCEED_QUOTA).

    The columns are C{store}, C{queue} (the destination), C{messages}, C{first} and C{last}, times.
    """
    return (
        events.where(F.col("class") == int(MessageClass.NACK_Q_EXCEED_QUOTA))
        .groupBy("store", "queue")
        .agg(F.count("*").alias("messages"), F.min("time").alias("first"), F.max("time").alias("last"))
    )
