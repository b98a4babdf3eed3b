"""Paths as the patterns in which Spark and DuckDB take them: the characters of patterns mean themselves."""

from __future__ import annotations

import re
from typing import Final

_OF_SPARK: Final = re.compile(r"([\\{}\[\]*?])")
_OF_DUCKDB: Final = re.compile(r"([\[*?])")


def spark_pattern(path: str) -> str:
    """The pattern of Hadoop that matches this path alone."""
    return _OF_SPARK.sub(r"\\\1", path)


def duckdb_pattern(path: str) -> str:
    """The pattern of DuckDB that matches this path alone; it has none for a path with backslashes."""
    return _OF_DUCKDB.sub(r"[\1]", path)
