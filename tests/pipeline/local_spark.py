"""One local Spark for all tests of a process, since it takes seconds to start one."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

MISSING = None if shutil.which("java") or os.environ.get("JAVA_HOME") else "there is no Java to run Spark in"


@cache
def spark() -> SparkSession:
    """The session, which is started when the first test asks for it."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # For a few rows more of these only cost time.
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    builder = SparkSession.builder.master("local[1]").appName("msmq tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    atexit.register(session.stop)
    return session


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
