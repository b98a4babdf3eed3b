"""Small tables in the shared session, with what makes small plans quick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import Phase, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from msmq.pipeline.spark.versions import arrow_schema_of
from tests.pipeline.spark_support import shared_session
from tests.samples import examples

FEW = settings(max_examples=examples(3), deadline=None, phases=(Phase.explicit, Phase.generate))
"""Each example is a run of Spark, so there are few of them, with much in each, and none is made smaller."""


@cache
def spark() -> SparkSession:
    """The shared session with settings of its own: for a few rows parallelism and compilation only cost."""
    session = shared_session().newSession()
    for name, value in {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # The optimizer repeats its rules until they change nothing; each of them keeps the result.
        "spark.sql.optimizer.maxIterations": "1",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        session.conf.set(name, value)
    return session


def table(rows: Iterable[Mapping[str, Any]], schema: str) -> DataFrame:
    """A table of these rows; what one of them lacks is null.

    Spark takes a table of Arrow as it is; a list of rows would be a job of its own in each query.
    """
    kind = _parsed(schema)
    values = [{name: row.get(name) for name in kind.names} for row in rows]
    arrow = pa.Table.from_pylist(values, arrow_schema_of(kind))
    return spark().createDataFrame(arrow, kind).coalesce(1)


@cache
def _parsed(schema: str) -> StructType:
    return spark().createDataFrame([], schema).schema


def rows(frame: DataFrame, names: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
    """The rows of a table, in the order of their texts."""
    found = frame if names is None else frame.select(*names)
    return sorted((tuple(row) for row in found.collect()), key=repr)
