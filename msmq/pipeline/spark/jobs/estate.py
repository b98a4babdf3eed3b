"""Tables that the jobs read: messages and events of many queue managers.

A job is a function from these tables to others; it does no I/O itself.
Times are whole microseconds since 1970-01-01 UTC, so that comparisons have no rounding errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from msmq.pipeline.schema import HEADERS, MESSAGE_COLUMNS, PACKET_COLUMN

QUEUE: Final = "queue"
"""Place: a message in a queue."""
LOG: Final = "log"
"""Place: an entry of a message log, which remains after the message is removed."""
JOURNAL: Final = "journal"
"""Place: the copy of a received message in the journal of its queue."""
SOURCE_JOURNAL: Final = "source_journal"
"""Place: the copy of a delivered message in the machine journal of its sender."""
DEAD_LETTER: Final = "dead_letter"
DEAD_LETTER_TRANSACTIONAL: Final = "dead_letter_transactional"
WIRE: Final = "wire"
"""Place: a captured packet."""

DEAD: Final = (DEAD_LETTER, DEAD_LETTER_TRANSACTIONAL)
ARRIVED: Final = (QUEUE, LOG, JOURNAL)

MESSAGES: Final = (
    "store STRING, place STRING, queue STRING, position BIGINT, id STRING, class INT, class_name STRING,"
    " label STRING, priority INT, source STRING, destination STRING, correlation_id STRING, hops INT,"
    " sent BIGINT, arrived BIGINT, sequence_id BIGINT, sequence_number BIGINT, previous BIGINT, size BIGINT,"
    f" body BINARY, headers {HEADERS}, decoded STRING, decode_error STRING"
)
"""The columns of the messages.

C{store} is the queue manager where the row was found, C{place} one of the constants here, C{queue} the path
without C{;journal} or a subqueue, C{position} the order of arrival there, C{source} the GUID of the first
sender, and C{size} counts the whole packet if that was read, otherwise the body.
"""

EVENTS: Final = (
    "store STRING, position BIGINT, id STRING, event STRING, reason STRING, class INT, queue STRING,"
    " time BIGINT"
)
"""The columns of the events; C{position} is their number in the event log."""

NO_CORRELATION: Final = r"{00000000-0000-0000-0000-000000000000}\0"

_SUFFIX: Final = r";[^\\;]*$"


@attrs.frozen
class Estate:
    """The tables that every job reads.

    @ivar messages: has the columns L{MESSAGES}.
    @ivar events: has the columns L{EVENTS}.
    @ivar owners: the GUIDs of the queue managers whose stores were read, by the names of the stores.
    """

    messages: DataFrame
    events: DataFrame
    owners: Mapping[str, str] = attrs.field(factory=dict)

    def cached(self) -> Estate:
        """The same tables, cached in memory and on disk."""
        return Estate(self.messages.cache(), self.events.cache(), self.owners)


def messages(rows: DataFrame, store: str, place: str | None = None) -> DataFrame:
    """The messages of one queue manager, from the columns of the data source.

    Malformed packets are omitted, and columns that were not read are null.

    @param place: the place of all rows; C{None} if the rows have it.
    """
    whole = rows.withColumns(
        {
            column.name: F.lit(None).cast(column.type)
            for column in MESSAGE_COLUMNS
            if column.name not in rows.columns
        }
    )
    transaction = F.col("transaction")
    # The whole packet counts towards the quota of a queue.
    has_packet = PACKET_COLUMN.name in rows.columns
    return whole.where(F.col("id").isNotNull()).select(
        F.lit(store).alias("store"),
        (place_of() if place is None else F.lit(place)).alias("place"),
        F.regexp_replace("topic", _SUFFIX, "").alias("queue"),
        F.col("offset").alias("position"),
        "id",
        "class",
        "class_name",
        "label",
        "priority",
        F.col("source_queue_manager").alias("source"),
        F.col("destination_queue").alias("destination"),
        "correlation_id",
        "hops",
        F.unix_micros("sent_time").alias("sent"),
        F.unix_micros("timestamp").alias("arrived"),
        transaction["sequence_id"].alias("sequence_id"),
        transaction["sequence_number"].alias("sequence_number"),
        transaction["previous"].alias("previous"),
        (F.length(PACKET_COLUMN.name).cast("bigint") if has_packet else F.col("body_size")).alias("size"),
        F.col("value").alias("body"),
        "headers",
        "decoded",
        "decode_error",
    )


def events(rows: DataFrame, store: str) -> DataFrame:
    """The events of one queue manager, from the columns of the data source."""
    return rows.select(
        F.lit(store).alias("store"),
        F.col("offset").alias("position"),
        "id",
        "event",
        "reason",
        "class",
        "queue",
        F.unix_micros("timestamp").alias("time"),
    )


def place_of() -> Column:
    """The place of a row, from the path of its queue, and from the columns that a message log lacks."""
    name = F.lower("topic")
    return (
        F.when(F.col("timestampType") == 0, WIRE)
        .when(name.endswith("system$;deadletter"), DEAD_LETTER)
        .when(name.endswith("system$;deadxact"), DEAD_LETTER_TRANSACTIONAL)
        .when(name.endswith("system$;journal"), SOURCE_JOURNAL)
        .when(name.endswith(";journal"), JOURNAL)
        .when(F.col("abort_count").isNull(), LOG)
        .otherwise(QUEUE)
    )


def is_about_another() -> Column:
    """Whether an arrived message is an acknowledgement or a report."""
    number = F.col("class")
    return number.isin(0x0001, 0x0002, 0x00FF) | (number.bitwiseAND(0xC000) != 0)


def ordinal(identifier: str = "id") -> Column:
    r"""The number in C{{guid}\number}, which increases in sending order and has 32 bits."""
    return F.regexp_extract(identifier, r"\\(\d+)$", 1).try_cast("bigint")
