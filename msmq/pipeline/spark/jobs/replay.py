"""Selection of messages to send again: by queue and time, each once, in order of arrival.

Each message is sent as a new one with the same content: it requests no acknowledgements and no copies, and
its time limits start again.
Its key is the identifier of the original, so that repeated replays under one name send it once.
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
"""The columns that are copied to the new message."""

CHOSEN_BY: Final = ("topic", "offset", "timestamp", "timestampType", "id", "class")

_SUFFIX: Final = r";[^\\;]*$"


def chosen(
    rows: DataFrame,
    *,
    queues: Sequence[str] = (),
    since: int | None = None,
    until: int | None = None,
) -> DataFrame:
    """The messages to send again.

    The columns are C{id}, C{topic}, C{turn} (their order, from 1 on) and those of L{CONTENT}.
    Acknowledgements and reports, which only queue managers send, and damaged packets are left out.

    @param rows: have the columns of the data source.
    @param queues: the paths of the queues in which they arrived; all queues if empty. A journal belongs to
        its queue.
    @param since: only messages that arrived then or later, in microseconds since 1970-01-01 UTC.
    @param until: only messages that arrived before.
    """
    path = F.regexp_replace("topic", _SUFFIX, "")
    arrived = F.unix_micros("timestamp")
    # The class of a dead letter is the reason of its failure.
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
    """Rows for the sink: the chosen messages with C{destination} and C{key}, in their order.

    They keep C{id}, which marks them as messages that were read.

    @param key: the prefix of each key; another prefix sends the same messages once more.
    """
    own = F.concat(F.lit(f"{key}:"), F.col("id")) if key else F.col("id")
    return (
        chosen.select("id", *CONTENT, F.lit(destination).alias("destination"), own.alias("key"), "turn")
        .orderBy("turn")
        .drop("turn")
    )
