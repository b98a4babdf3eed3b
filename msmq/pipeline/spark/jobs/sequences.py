"""Audit of exactly-once, in-order delivery: gaps, duplicates, reordering.

A transactional stream consists of the messages from one queue manager to one queue under one SequenceID.
Its messages have increasing numbers, and each has the number of its predecessor ([MS-MQMQ] 2.2.20.5); the
number of an expired message is skipped by both, so a missing number is a gap only if a message refers to it.
Messages that are not transactional have no such numbers, but the numbers in their identifiers increase in
sending order: they show duplicates and reordering, and no missing messages.
Numbers have 32 bits and wrap around; each is read as the value nearest to the one that arrived before it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from msmq.pipeline.spark.jobs.estate import ARRIVED, JOURNAL, LOG, WIRE, is_about_another, ordinal

STREAM: Final = ("store", "queue", "source", "destination", "sequence_id", "priority")
"""The columns that identify a stream; either C{sequence_id} or C{priority} is null.

Messages that are not transactional keep their order only within a priority.
"""

GAP: Final = "gap"
"""Finding: C{missing} numbers before this message are missing; some of these messages may have expired."""
DUPLICATE: Final = "duplicate"
"""Finding: the number arrived before."""
REORDERED: Final = "reordered"
"""Finding: a later number arrived before."""
BEGINS_LATE: Final = "begins_late"
"""Finding: the first message of the stream has predecessors, which may be older than the input."""

KINDS: Final = (GAP, DUPLICATE, REORDERED, BEGINS_LATE)

_HALF: Final = 1 << 31
_WHOLE: Final = 1 << 32


def erased_messages(messages: DataFrame, erased: DataFrame) -> DataFrame:
    """Messages that an erasure has taken from a message log, with the columns that L{numbered} reads.

    Only those between the remaining messages of the log: before them others have expired, and what is after
    them may not have been read.

    @param erased: the columns C{store} and L{COLUMNS<msmq.pipeline.archive.erased.COLUMNS>}.
    """
    log = messages.where(F.col("place") == LOG).select("store", "queue", "position")
    extent = log.groupBy("store", "queue").agg(
        F.min("position").alias("begin"), F.max("position").alias("end")
    )
    return (
        erased.select(
            "store",
            F.lit(LOG).alias("place"),
            F.col("topic").alias("queue"),
            F.col("offset").alias("position"),
            F.lit(0).alias("class"),
            F.col("source_queue_manager").alias("source"),
            F.col("destination_queue").alias("destination"),
            "sequence_id",
            "sequence_number",
            "previous",
        )
        .join(extent, ["store", "queue"])
        .where((F.col("position") > F.col("begin")) & (F.col("position") < F.col("end")))
        .drop("begin", "end")
        .join(log, ["store", "queue", "position"], "left_anti")
    )


def numbered(messages: DataFrame) -> DataFrame:
    """Arrived or captured messages, each with its position in its stream.

    In addition to the columns of the stream and C{id}: C{turn}, the order of arrival from 1 on, and C{number}
    and C{before}, its number and that of its predecessor without the wrap-around; C{before} is null at the
    beginning of a stream, and where it is unknown.
    If there is a message log, only that is used; otherwise received messages count as earlier than those in
    the queue.
    """
    sequence, number = F.col("sequence_id"), F.col("sequence_number")
    in_sequence = sequence.isNotNull() & number.isNotNull()
    arrived = (
        messages.where(F.col("place").isin(*ARRIVED, WIRE) & ~is_about_another())
        .select(
            *("store", "queue", "source", "destination", "place", "position", "id"),
            F.when(in_sequence, sequence).alias("sequence_id"),
            F.when(~in_sequence, F.col("priority")).alias("priority"),
            F.when(in_sequence, number).otherwise(ordinal()).alias("sequence_number"),
            F.when(in_sequence, F.col("previous")).alias("previous"),
        )
        .where(number.isNotNull())
    )
    stream = Window.partitionBy(*STREAM)
    whole = arrived.withColumn("logged", F.max(F.col("place") == LOG).over(stream)).where(
        ~F.col("logged") | (F.col("place") == LOG)
    )
    in_turn = stream.orderBy(F.col("place") != JOURNAL, "position", "id")
    step = F.pmod(number - F.lag(number).over(in_turn) + _HALF, F.lit(_WHOLE)) - _HALF
    so_far = in_turn.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    unwrapped = whole.select(
        *STREAM,
        "id",
        "previous",
        "sequence_number",
        F.row_number().over(in_turn).alias("turn"),
        F.first(number).over(so_far).alias("first_number"),
        F.coalesce(step, F.lit(0)).alias("step"),
    )
    by_turn = stream.orderBy("turn").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    placed = unwrapped.withColumn("number", F.col("first_number") + F.sum("step").over(by_turn))
    back = F.pmod(F.col("sequence_number") - F.col("previous"), F.lit(_WHOLE))
    before = F.when((F.col("previous") != 0) & (back != 0), F.col("number") - back)
    return placed.select(*STREAM, "id", "turn", "number", before.alias("before"))


def findings(numbered: DataFrame) -> DataFrame:
    """Violations in the streams, one row for each finding.

    The columns are those of the stream, C{kind}, C{id} (the message that shows it), C{number} and
    C{missing}; one message may have several findings.
    """
    stream = Window.partitionBy(*STREAM)
    by_turn = stream.orderBy("turn")
    again = Window.partitionBy(*STREAM, "number").orderBy("turn")
    watched = numbered.select(
        "*",
        F.row_number().over(again).alias("copy"),
        F.max("number").over(by_turn.rowsBetween(Window.unboundedPreceding, -1)).alias("highest"),
    )
    once = watched.where("copy = 1")
    lower = F.max("number").over(
        stream.orderBy("number").rangeBetween(Window.unboundedPreceding, Window.currentRow - 1)
    )
    # The predecessor arrived if the nearest lower number is not below it.
    followed = once.withColumn("lower", lower)
    gap = (
        F.when(F.col("before").isNull(), None)
        .when(F.col("lower").isNull(), F.lit(BEGINS_LATE))
        .when(F.col("lower") < F.col("before"), F.lit(GAP))
    )
    missing = F.when(gap == GAP, F.col("before") - F.col("lower"))
    columns = (*STREAM, "id", "number")
    return (
        watched.where("copy > 1")
        .select(*columns, _kind(DUPLICATE), _none())
        .unionByName(
            once.where(F.col("number") < F.col("highest")).select(*columns, _kind(REORDERED), _none())
        )
        .unionByName(
            followed.select(*columns, gap.alias("kind"), missing.alias("missing")).where("kind IS NOT NULL")
        )
        .select(*STREAM, "kind", "id", "number", "missing")
    )


def audit(numbered: DataFrame, findings: DataFrame) -> DataFrame:
    """The streams, each with its number of messages and of findings.

    In addition to the columns of the stream: C{messages}, C{first}, C{last}, C{gaps}, C{missing},
    C{duplicates}, C{reordered}, C{begins_late} and C{exactly_once}; the last is null for a stream that is not
    transactional, for which order is not guaranteed.
    """
    counted = numbered.groupBy(*STREAM).agg(
        F.count("*").alias("messages"), F.min("number").alias("first"), F.max("number").alias("last")
    )
    kind = F.col("kind")
    wrong = findings.groupBy(*STREAM).agg(
        F.count_if(kind == GAP).alias("gaps"),
        F.sum("missing").alias("missing"),
        F.count_if(kind == DUPLICATE).alias("duplicates"),
        F.count_if(kind == REORDERED).alias("reordered"),
        F.count_if(kind == BEGINS_LATE).alias("begins_late"),
    )
    one, other = counted.alias("one"), wrong.alias("other")
    same = F.lit(True)
    for name in STREAM:
        same = same & F.col(f"one.{name}").eqNullSafe(F.col(f"other.{name}"))
    sums = ("gaps", "missing", "duplicates", "reordered", "begins_late")
    joined = one.join(other, same, "left").select(
        "one.*", *(F.coalesce(F.col(f"other.{name}"), F.lit(0)).alias(name) for name in sums)
    )
    is_whole = (F.col("gaps") == 0) & (F.col("duplicates") == 0) & (F.col("reordered") == 0)
    return joined.withColumn("exactly_once", F.when(F.col("sequence_id").isNotNull(), is_whole))


def _kind(kind: str) -> Column:
    return F.lit(kind).alias("kind")


def _none() -> Column:
    return F.lit(None).cast("bigint").alias("missing")
