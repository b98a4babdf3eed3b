"""Result of each sent message, from the union of all records: queues, journals, message logs, dead letters,
captures and event logs.

Every message that any of them names has one fate, so the fates sum to the number of messages.
A sender that journals keeps a copy of each message that its peer has acknowledged.
Such a message must be at its destination, or a record must explain why it is not.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from msmq.pipeline.message_fates import (
    ACKNOWLEDGED,
    DEAD_LETTER,
    DELIVERED,
    DUPLICATED,
    ENDED,
    ERASED,
    EVENT_RECORDS,
    EXPIRED,
    EXPIRED_UNREAD,
    LOST,
    MISSING,
    PURGED,
    REFUSED,
    UNKNOWN,
)
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
from msmq.structures.packet.message_class import MessageClass

FATE_COLUMNS: Final = (
    "id STRING, source STRING, destination STRING, sent BIGINT, journaled BOOLEAN, copies BIGINT,"
    " fate STRING, reason STRING"
)


_BY_HAND: Final = [
    int(each) for each in (MessageClass.NACK_Q_PURGED, MessageClass.NACK_Q_DELETED, MessageClass.NACK_DELETED)
]
_SOURCE_JOURNAL: Final = "system$;journal"
_REACHED: Final = 0xC000
"""The bits of the classes that refuse a message after it has arrived."""


def fates(messages: DataFrame, events: DataFrame, erased: DataFrame | None = None) -> DataFrame:
    """Fate of each message, by C{id} and C{destination}; one row for each message that a record names.

    The columns are L{FATE_COLUMNS}: C{journaled} says whether its sender has a copy in its journal,
    C{copies} how often it arrived. C{destination} is the queue of the event for a message that only an event
    log names, and C{sent} the time of its first event. For a message of which only erased
    copies were found C{sent} is null.

    @param erased: the columns C{store} and
        L{IDENTIFIER_COLUMNS<msmq.pipeline.archive.erased.IDENTIFIER_COLUMNS>}.
    """
    place = F.col("place")
    is_own = place.isin(SOURCE_JOURNAL, *DEAD) | (place.isin(*ARRIVED, WIRE) & ~is_about_another())
    reported = _reported(events)
    ended = (
        reported.where((F.col("class").bitwiseAND(_REACHED) == _REACHED) & (F.col("rank") == ENDED))
        .groupBy(F.col("of").alias("ended_id"), F.col("store").alias("ended_at"), "queue_key")
        .agg(F.max(F.struct("rank", "time", "line", "fate")).alias("end"))
    )
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
        .withColumn("own_key", _queue_key("queue"))
    )
    is_end = (
        (F.col("id") == F.col("ended_id"))
        & (F.col("store") == F.col("ended_at"))
        & (F.col("own_key") == F.col("queue_key"))
    )
    by_store = (
        by_queue.join(ended, is_end, "left")
        .groupBy("id", "destination", "store")
        .agg(
            F.min("source").alias("source"),
            F.min("sent").alias("sent"),
            F.max("journaled").alias("journaled"),
            F.greatest(F.max("logged"), F.sum("kept")).alias("copies"),
            F.sum("kept").alias("kept"),
            F.sum(F.col("logged") + F.col("kept") - F.col("waiting")).alias("recorded"),
            F.max("dead").alias("dead"),
            F.max("end").alias("end"),
        )
    )
    found = by_store.groupBy("id", "destination").agg(
        F.min("source").alias("source"),
        F.min("sent").alias("sent"),
        F.max("journaled").alias("journaled"),
        F.sum("copies").alias("copies"),
        F.sum("kept").alias("kept"),
        F.sum("recorded").alias("recorded"),
        F.max("dead").alias("dead"),
        F.max("end").alias("end"),
    )
    reached = (
        found.where("copies > 0")
        .groupBy(F.col("destination").alias("reached"))
        .agg((F.sum("recorded") > 0).alias("keeps_record"))
    )
    acknowledged = (
        messages.where(place.isin(*ARRIVED) & is_about_another() & F.col("correlation_id").isNotNull())
        .groupBy(F.col("correlation_id").alias("about"))
        .agg(
            F.max(F.when(F.col("class").bitwiseAND(0x8000) != 0, F.struct("class_name", "class"))).alias(
                "refusal"
            ),
            F.max(F.when(F.col("class").isin(0x0002, 0x4000), F.col("class_name"))).alias("receipt"),
        )
    )
    explained = reported.groupBy("of").agg(F.max(F.struct("rank", "time", "line", "fate")).alias("record"))
    known = messages.select(F.col("id").alias("of"))
    if erased is not None:
        found = _with_erased_copies(found, erased)
        known = known.unionByName(erased.where(_is_copy()).select(F.col("id").alias("of")))
    every = _with_those_of_events(found, known, reported)
    joined = (
        _with_erased(every, erased)
        .join(acknowledged, F.col("id") == F.col("about"), "left")
        .join(explained, F.col("id") == F.col("of"), "left")
        .join(reached, F.col("destination") == F.col("reached"), "left")
    )
    has_ended = (F.col("copies") == 1) & (F.col("kept") == 0) & F.col("end").isNotNull()
    fate = (
        F.when(F.col("copies") > 1, DUPLICATED)
        .when(has_ended, F.col("end")["fate"])
        .when(F.col("copies") == 1, DELIVERED)
        .when(F.col("dead").isNotNull(), DEAD_LETTER)
        .when(F.col("refusal").isNotNull(), _refused(F.col("refusal")["class"]))
        .when(F.col("receipt").isNotNull(), ACKNOWLEDGED)
        .when(F.col("record").isNotNull(), F.col("record")["fate"])
        .when(F.col("erasure").isNotNull(), ERASED)
        .when(F.col("keeps_record"), LOST)
        .when(F.col("reached").isNotNull(), MISSING)
        .otherwise(UNKNOWN)
    )
    reason = (
        F.when(F.col("copies") > 1, None)
        .when(has_ended, F.col("end")["line"])
        .when(F.col("copies") == 1, None)
        .otherwise(
            F.coalesce(
                *("dead", F.col("refusal")["class_name"], "receipt", F.col("record")["line"], "erasure")
            )
        )
    )
    return joined.select(
        "id",
        "source",
        "destination",
        "sent",
        "journaled",
        "copies",
        fate.alias("fate"),
        reason.alias("reason"),
    )


def _reported(events: DataFrame) -> DataFrame:
    """The events that say what became of a message: C{of}, C{fate}, C{rank} and C{line}."""
    fate, rank = F.lit(None).cast("string"), F.lit(None).cast("int")
    for name, record in EVENT_RECORDS.items():
        is_it = F.col("event") == name
        fate, rank = F.when(is_it, record.fate).otherwise(fate), F.when(is_it, record.rank).otherwise(rank)
    is_unread = (fate == EXPIRED) & (F.col("class") == int(MessageClass.NACK_RECEIVE_TIMEOUT))
    fate = F.when(is_unread, EXPIRED_UNREAD).otherwise(fate)
    # The message of a journal copy was received, that of a copy in the source journal was accepted by its
    # next hop, and that of a dead letter has an event of its failure.
    key = _queue_key("queue")
    for is_copy, record in (
        (key.endswith(";journal"), EVENT_RECORDS["received"]),
        (key.startswith("system$;"), EVENT_RECORDS["requeued"]),
        (key == _SOURCE_JOURNAL, EVENT_RECORDS["handed_over"]),
    ):
        is_purged_copy = is_copy & F.col("event").isin("purged", "deleted")
        fate = F.when(is_purged_copy, record.fate).otherwise(fate)
        rank = F.when(is_purged_copy, record.rank).otherwise(rank)
    line = F.concat_ws(": ", "event", F.nullif(F.col("reason"), F.lit("")))
    return (
        events.where(F.col("id").isNotNull())
        .select(
            F.col("id").alias("of"),
            "store",
            F.coalesce("class", F.lit(0)).alias("class"),
            "queue",
            _queue_key("queue").alias("queue_key"),
            "time",
            line.alias("line"),
            fate.alias("fate"),
            rank.alias("rank"),
        )
        .where(F.col("fate").isNotNull())
    )


def _with_those_of_events(found: DataFrame, known: DataFrame, reported: DataFrame) -> DataFrame:
    """Add the messages that no queue, journal, log or capture has, and that events name.

    @param known: C{of}, the identifiers of all others.
    """
    only = (
        reported.join(known.distinct(), "of", "left_anti")
        .groupBy(F.col("of").alias("id"))
        .agg(
            F.max(F.struct("rank", "time", "queue"))["queue"].alias("destination"),
            F.min("time").alias("sent"),
        )
        .withColumn("source", _source())
        .withColumns({"journaled": F.lit(False), "copies": F.lit(0), "kept": F.lit(0)})
    )
    return found.unionByName(only, allowMissingColumns=True)


def _is_copy() -> Column:
    """Whether an erased row was a copy of the message that it names, and not a report about it."""
    return F.col("destination_queue").isNotNull() & (F.col("stream") != "events")


def _with_erased_copies(found: DataFrame, erased: DataFrame) -> DataFrame:
    """Add the messages of which only erased copies were found."""
    only = (
        erased.where(_is_copy())
        .select("id", F.col("destination_queue").alias("destination"))
        .distinct()
        .join(found.select("id", "destination"), ["id", "destination"], "left_anti")
        .withColumn("source", _source())
        .withColumns({"journaled": F.lit(False), "copies": F.lit(0), "kept": F.lit(0)})
    )
    return found.unionByName(only, allowMissingColumns=True)


def _with_erased(every: DataFrame, erased: DataFrame | None) -> DataFrame:
    """Add C{erasure}: where something about the message was erased.

    An erased copy counts for the message with its destination, and a report for each with the identifier.
    """
    if erased is None:
        return every.withColumn("erasure", F.lit(None).cast("string"))
    where = F.concat_ws(" ", F.lit("erased from"), "stream", "topic")
    copies = (
        erased.where(_is_copy())
        .groupBy(F.col("id").alias("copied_id"), F.col("destination_queue").alias("copied_to"))
        .agg(F.min(where).alias("copy"))
    )
    reports = (
        erased.where(~_is_copy()).groupBy(F.col("id").alias("reported_id")).agg(F.min(where).alias("report"))
    )
    is_same = (F.col("id") == F.col("copied_id")) & (F.col("destination") == F.col("copied_to"))
    return (
        every.join(copies, is_same, "left")
        .join(reports, F.col("id") == F.col("reported_id"), "left")
        .withColumn("erasure", F.coalesce("copy", "report"))
    )


def _source() -> Column:
    """The queue manager in an identifier."""
    return F.nullif(F.regexp_extract("id", r"^\{([^}]*)\}", 1), F.lit(""))


def _queue_key(column: str) -> Column:
    r"""The path of a queue without C{.\} and regardless of case: events omit the computer."""
    return F.lower(F.regexp_replace(column, r"^\.\\", ""))


def _refused(message_class: Column) -> Column:
    """The fate of a message by the class of its negative acknowledgement."""
    return (
        F.when(message_class == int(MessageClass.NACK_RECEIVE_TIMEOUT), EXPIRED_UNREAD)
        .when(message_class == int(MessageClass.NACK_REACH_QUEUE_TIMEOUT), EXPIRED)
        .when(message_class.isin(_BY_HAND), PURGED)
        .otherwise(REFUSED)
    )


def losses(fates: DataFrame) -> DataFrame:
    """Counts of messages by C{source}, C{destination}, C{fate} and C{reason}.

    The other columns are C{messages}, C{first_sent} and C{last_sent}.
    """
    return fates.groupBy("source", "destination", "fate", "reason").agg(
        F.count("*").alias("messages"), F.min("sent").alias("first_sent"), F.max("sent").alias("last_sent")
    )
