"""Selection of messages to send again: by queue and time, each once, in order of arrival.

What is sent again is a new message with the same content: it asks for no acknowledgements, keeps no copies
with its sender, and its time begins anew.
Its key is the identifier of the old one, so that a replay that is repeated under one name sends it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from msmq.pipeline.reading.streams import DEAD_LETTERS

CONTENT: Final = (
    *("value", "label", "priority", "delivery", "transactional", "body_type", "application_tag"),
    *("correlation_id", "response_queue", "extension_base64"),
)
"""The columns of a message that the new one has too."""

CHOSEN_BY: Final = ("topic", "offset", "timestamp", "timestampType", "id", "class")

_SUFFIX: Final = r";[^\\;]*$"


def chosen(
    rows: DataFrame,
    *,
    queues: Sequence[str] = (),
    since: int | None = None,
    until: int | None = None,
) -> DataFrame:
    """The messages that are sent again.

    The columns are C{id}, C{topic}, C{turn} (their order, from 1 on) and those of L{CONTENT}.
    Acknowledgements and reports, which only queue managers send, and damaged packets are left out.

    @param rows: have the columns of the data source.
    @param queues: the paths of the queues that they came into; all if there are none. A journal is of its
        queue.
    @param since: only what came then or later, in microseconds since 1970-01-01 UTC.
    @param until: only what came before.
    """
    path = F.regexp_replace("topic", _SUFFIX, "")
    arrived = F.unix_micros("timestamp")
    # The class of a dead letter tells why it died.
    is_message = (F.col("class") == 0) | F.lower("topic").startswith(DEAD_LETTERS)
    found = rows.where(F.col("id").isNotNull() & is_message)
    if queues:
        found = found.where(F.lower(path).isin([queue.lower() for queue in queues]))
    if since is not None:
        found = found.where(arrived >= since)
    if until is not None:
        found = found.where(arrived < until)
    came = ("timestamp", "offset", "topic")
    copy = Window.partitionBy("id").orderBy(*came)
    once = found.withColumn("copy", F.row_number().over(copy)).where("copy = 1")
    return once.select(
        "id",
        path.alias("topic"),
        F.row_number().over(Window.orderBy(*came, "id")).alias("turn"),
        *CONTENT,
    )


def addressed(chosen: DataFrame, destination: str, key: str = "") -> DataFrame:
    """The same as rows that can be written: with C{destination} and C{key}, in their order.

    They keep C{id}, which says that they were read somewhere.

    @param key: what the key of each begins with; another one sends the same messages once more.
    """
    own = F.concat(F.lit(f"{key}:"), F.col("id")) if key else F.col("id")
    return (
        chosen.select("id", *CONTENT, F.lit(destination).alias("destination"), own.alias("key"), "turn")
        .orderBy("turn")
        .drop("turn")
    )
