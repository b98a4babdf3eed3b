"""One local Spark for all tests of a process, since it takes seconds to start one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypothesis import Phase, settings
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline.spark_support import shared_session

MISSING = None if shutil.which("java") or os.environ.get("JAVA_HOME") else "there is no Java to run Spark in"
FEW = settings(max_examples=5, deadline=None, phases=(Phase.explicit, Phase.generate))
"""Each example is a run of Spark, so there are few of them, with much in each, and none is made smaller."""


def spark() -> SparkSession:
    """The session of all tests, which is started when the first of them asks for it."""
    return shared_session()


def table(rows: Iterable[Mapping[str, Any]], schema: str) -> DataFrame:
    """A table of these rows; what one of them lacks is null."""
    names = [field.split(":")[0].split()[0] for field in _fields(schema)]
    return spark().createDataFrame([tuple(row.get(name) for name in names) for row in rows], schema)


def rows(frame: DataFrame, names: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
    """The rows of a table, in the order of their texts."""
    found = frame if names is None else frame.select(*names)
    return sorted((tuple(row) for row in found.collect()), key=repr)


def _fields(schema: str) -> list[str]:
    """The columns of a schema, which may have types with commas in them."""
    fields, depth = [""], 0
    for letter in schema:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            fields.append("")
        else:
            fields[-1] += letter
    return [field.strip() for field in fields]
