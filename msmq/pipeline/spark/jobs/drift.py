"""Drift of body shapes: when the messages of a producer begin to have other fields, kinds or formats.

A producer is a queue manager that sends to a queue. Its messages are numbered in the order of their arrival,
and each path of a body (C{$.order.id}) is followed over them.
An optional field is missing now and then; so a path counts as removed only after an absence that is three
times as long as the longest before.
"""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from msmq.pipeline.body_shapes import NULL, parent_of, paths_of
from msmq.pipeline.spark.jobs.estate import ARRIVED, is_about_another

PRODUCER: Final = ("store", "queue", "source")
"""The columns that identify a producer: where its messages arrive, and who sends them."""

FORMAT: Final = "format"
"""The path under which the format of a body is followed."""
UNDECODABLE: Final = "not decodable"
"""The format of a body that cannot be decoded."""

ADDED: Final = "added"
REMOVED: Final = "removed"
RETYPED: Final = "retyped"
REFORMATTED: Final = "reformatted"
KINDS: Final = (ADDED, REMOVED, RETYPED, REFORMATTED)

SETTLED: Final = 10
"""Default number of messages before a change, and after the last one with a removed path."""
_ABSENCES: Final = 3

_PATHS: Final = "array<struct<path: string, kind: string, parent: string>>"


def numbered(messages: DataFrame) -> DataFrame:
    """The messages of each producer, each once, with C{turn}, its number from 1 on."""
    place = F.col("place")
    arrived = messages.where(place.isin(*ARRIVED) & F.col("arrived").isNotNull() & ~is_about_another())
    # A message may be in a queue, its log and its journal.
    copy = Window.partitionBy("store", "queue", "id").orderBy("arrived", "position", "place")
    once = arrived.withColumn("copy", F.row_number().over(copy)).where("copy = 1")
    turn = F.row_number().over(Window.partitionBy(*PRODUCER).orderBy("arrived", "position", "id"))
    return once.select(*PRODUCER, turn.alias("turn"), "id", "arrived", "decoded")


def paths(numbered: DataFrame) -> DataFrame:
    """The paths of each message: the columns of the producer, C{turn}, C{path}, C{kind} and C{parent}."""
    found = F.udf(_paths, _PATHS)
    return numbered.select(*PRODUCER, "turn", F.explode(found("decoded")).alias("found")).select(
        *PRODUCER, "turn", "found.*"
    )


def _paths(decoded: str | None) -> list[tuple[str, str, str]]:
    if decoded is None:
        return [(FORMAT, UNDECODABLE, "")]
    body = json.loads(decoded)
    found = [(FORMAT, str(body.get("format") or UNDECODABLE), "")]
    found += [(path, kind, parent_of(path)) for path, kind in paths_of(body.get("value"))]
    return found


def changes(numbered: DataFrame, paths: DataFrame, settled: int = SETTLED) -> DataFrame:
    """The changes of the producers.

    The columns are those of the producer, C{change}, C{path}, C{kind} (what is new) and C{before} (the kinds
    until then), C{turn}, C{id} and C{arrived} of the first message that has the change, or of the last one
    that has a removed path, and C{messages}, the number of messages of the producer.

    @param settled: the least number of messages before a change, and after the last with a removed path.
    """
    sizes = numbered.groupBy(*PRODUCER).agg(F.max("turn").alias("messages"))
    each = paths.groupBy(*PRODUCER, "path", "kind", "parent").agg(
        F.min("turn").alias("first"), F.max("turn").alias("last")
    )
    order = Window.partitionBy(*PRODUCER, "path").orderBy("turn")
    absent = (
        paths.select(*PRODUCER, "path", "turn")
        .distinct()
        .withColumn("absence", F.col("turn") - F.lag("turn").over(order))
        .groupBy(*PRODUCER, "path")
        .agg(F.coalesce(F.max("absence"), F.lit(1)).alias("absence"))
    )
    whole = each.groupBy(*PRODUCER, "path", "parent").agg(
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.array_join(F.array_sort(F.collect_set("kind")), ", ").alias("kinds"),
    )
    above = whole.select(
        *PRODUCER,
        F.col("path").alias("parent"),
        F.col("first").alias("parent_first"),
        F.col("last").alias("parent_last"),
    )
    placed = (
        whole.where(F.col("path") != FORMAT)
        .join(above, [*PRODUCER, "parent"], "left")
        .join(absent, [*PRODUCER, "path"])
        .join(sizes, list(PRODUCER))
    )
    # Of an object that is new with all that is in it, only the object is a change.
    is_new = (F.col("first") > settled) & ~F.coalesce(F.col("first") == F.col("parent_first"), F.lit(False))
    longest = F.greatest(F.lit(settled), F.lit(_ABSENCES) * F.col("absence"))
    is_gone = (F.col("messages") - F.col("last") >= longest) & ~F.coalesce(
        F.col("last") == F.col("parent_last"), F.lit(False)
    )
    # One table for both, which is a large query: a path that is new and gone again has two rows.
    nothing = F.lit(None).cast("string")
    both = F.array(
        F.when(is_new, _change(ADDED, kind=F.col("kinds"), before=nothing, turn=F.col("first"))),
        F.when(is_gone, _change(REMOVED, kind=nothing, before=F.col("kinds"), turn=F.col("last"))),
    )
    added_or_removed = placed.select(
        *PRODUCER, "path", "messages", F.explode(F.array_compact(both)).alias("found")
    ).select(*PRODUCER, "found.change", "path", "found.kind", "found.before", "found.turn", "messages")
    earlier = each.where(F.col("kind") != NULL).select(
        *PRODUCER, "path", F.col("kind").alias("other"), F.col("first").alias("other_first")
    )
    retyped = (
        each.where((F.col("kind") != NULL) & (F.col("first") > settled))
        .join(earlier, [*PRODUCER, "path"])
        .where("other <> kind AND other_first < first")
        .groupBy(*PRODUCER, "path", "kind", "first")
        .agg(F.array_join(F.array_sort(F.collect_set("other")), ", ").alias("before"))
        .join(sizes, list(PRODUCER))
        .select(
            *PRODUCER,
            F.when(F.col("path") == FORMAT, REFORMATTED).otherwise(RETYPED).alias("change"),
            "path",
            "kind",
            "before",
            F.col("first").alias("turn"),
            "messages",
        )
    )
    every = added_or_removed.unionByName(retyped)
    # A source may be null, so equality is not enough.
    named = numbered.select(
        *(F.col(name).alias(f"of_{name}") for name in PRODUCER),
        F.col("turn").alias("of_turn"),
        "id",
        "arrived",
    )
    same = F.col("turn") == F.col("of_turn")
    for name in PRODUCER:
        same = same & F.col(name).eqNullSafe(F.col(f"of_{name}"))
    return every.join(named, same).select(
        *PRODUCER, "change", "path", "kind", "before", "turn", "id", "arrived", "messages"
    )


def _change(change: str, *, kind: Column, before: Column, turn: Column) -> Column:
    return F.struct(
        F.lit(change).alias("change"), kind.alias("kind"), before.alias("before"), turn.alias("turn")
    )
