"""Result of each sent message: source journals compared with queues, journals and dead letters.

A sender that journals keeps a copy of each message that its peer has acknowledged.
Such a message must be at its destination, or a record must explain why it is not.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from msmq.persistence.changes import ADMINISTERED
from msmq.pipeline.spark.jobs.estate import (
    ARRIVED,
    DEAD,
    JOURNAL,
    LOG,
    QUEUE,
    SOURCE_JOURNAL,
    WIRE,
    is_about_another,
)

DELIVERED: Final = "delivered"
"""Fate: it is, or was, once in a queue of the input."""
DUPLICATED: Final = "duplicated"
"""Fate: it arrived more than once."""
DEAD_LETTER: Final = "dead_letter"
"""Fate: it failed, and is in a dead-letter queue."""
REFUSED: Final = "refused"
"""Fate: a negative acknowledgement has the reason."""
ACKNOWLEDGED: Final = "acknowledged"
"""Fate: it is not in the input, but an acknowledgement reports its arrival."""
EXPLAINED: Final = "explained"
"""Fate: it was removed, and an event log has the reason."""
LOST: Final = "lost"
"""Fate: it is not found, although its queue has a journal or a message log with other messages."""
MISSING: Final = "missing"
"""Fate: it is not found, and its queue has neither journal nor message log: it may have been received."""
UNSEEN: Final = "unseen"
"""Fate: unknown, since the input has no data for its queue, and may lack that queue manager."""

FATES: Final = (
    DELIVERED,
    DUPLICATED,
    DEAD_LETTER,
    REFUSED,
    ACKNOWLEDGED,
    EXPLAINED,
    LOST,
    MISSING,
    UNSEEN,
)
"""All fates; the first that matches counts."""

FATE_COLUMNS: Final = (
    "id STRING, source STRING, destination STRING, sent BIGINT, journaled BOOLEAN, copies BIGINT,"
    " fate STRING, reason STRING"
)


def fates(messages: DataFrame, events: DataFrame) -> DataFrame:
    """Fate of each message, by C{id} and C{destination}.

    The columns are L{FATE_COLUMNS}: C{journaled} says whether its sender has a copy in its journal,
    C{copies} how often it arrived.
    A message that was not journaled is included if it was captured, has arrived, or is a dead letter.
    """
    place = F.col("place")
    is_own = place.isin(SOURCE_JOURNAL, *DEAD) | (place.isin(*ARRIVED, WIRE) & ~is_about_another())
    # A moved message is in the logs of two queues, and arrived once.
    by_queue = (
        messages.where(is_own)
        .groupBy("id", "destination", "store", "queue")
        .agg(
            F.min("source").alias("source"),
            F.min("sent").alias("sent"),
            F.max(place == SOURCE_JOURNAL).alias("journaled"),
            F.count_if(place == LOG).alias("logged"),
            F.count_if(place.isin(QUEUE, JOURNAL)).alias("kept"),
            F.count_if(place == QUEUE).alias("waiting"),
            F.max(F.when(place.isin(*DEAD), F.col("class_name"))).alias("dead"),
        )
    )
    by_store = by_queue.groupBy("id", "destination", "store").agg(
        F.min("source").alias("source"),
        F.min("sent").alias("sent"),
        F.max("journaled").alias("journaled"),
        F.greatest(F.max("logged"), F.sum("kept")).alias("copies"),
        F.sum(F.col("logged") + F.col("kept") - F.col("waiting")).alias("recorded"),
        F.max("dead").alias("dead"),
    )
    found = by_store.groupBy("id", "destination").agg(
        F.min("source").alias("source"),
        F.min("sent").alias("sent"),
        F.max("journaled").alias("journaled"),
        F.sum("copies").alias("copies"),
        F.sum("recorded").alias("recorded"),
        F.max("dead").alias("dead"),
    )
    reached = (
        found.where("copies > 0")
        .groupBy(F.col("destination").alias("reached"))
        .agg((F.sum("recorded") > 0).alias("keeps_record"))
    )
    events_of_loss = (
        messages.where(place.isin(*ARRIVED) & is_about_another() & F.col("correlation_id").isNotNull())
        .groupBy(F.col("correlation_id").alias("about"))
        .agg(
            F.max(F.when(F.col("class").bitwiseAND(0x8000) != 0, F.col("class_name"))).alias("refusal"),
            F.max(F.when(F.col("class").isin(0x0002, 0x4000), F.col("class_name"))).alias("receipt"),
        )
    )
    line = F.concat_ws(": ", "event", F.nullif(F.col("reason"), F.lit("")))
    explained = (
        events.where(F.col("id").isNotNull() & (F.col("event") != ADMINISTERED))
        .groupBy(F.col("id").alias("of"))
        .agg(F.max(F.struct(F.col("time"), line.alias("line")))["line"].alias("line"))
    )
    joined = (
        found.join(events_of_loss, found["id"] == events_of_loss["about"], "left")
        .join(explained, found["id"] == explained["of"], "left")
        .join(reached, found["destination"] == reached["reached"], "left")
    )
    fate = (
        F.when(F.col("copies") > 1, DUPLICATED)
        .when(F.col("copies") == 1, DELIVERED)
        .when(F.col("dead").isNotNull(), DEAD_LETTER)
        .when(F.col("refusal").isNotNull(), REFUSED)
        .when(F.col("receipt").isNotNull(), ACKNOWLEDGED)
        .when(F.col("line").isNotNull(), EXPLAINED)
        .when(F.col("keeps_record"), LOST)
        .when(F.col("reached").isNotNull(), MISSING)
        .otherwise(UNSEEN)
    )
    decided = joined.withColumn("fate", fate)
    reason = (
        F.when(F.col("fate") == DEAD_LETTER, F.col("dead"))
        .when(F.col("fate") == REFUSED, F.col("refusal"))
        .when(F.col("fate") == ACKNOWLEDGED, F.col("receipt"))
        .when(F.col("fate") == EXPLAINED, F.col("line"))
    )
    return decided.select(
        "id", "source", "destination", "sent", "journaled", "copies", "fate", reason.alias("reason")
    )


def losses(fates: DataFrame) -> DataFrame:
    """Counts of messages by C{source}, C{destination}, C{fate} and C{reason}.

    The other columns are C{messages}, C{first_sent} and C{last_sent}.
    """
    return fates.groupBy("source", "destination", "fate", "reason").agg(
        F.count("*").alias("messages"), F.min("sent").alias("first_sent"), F.max("sent").alias("last_sent")
    )
