"""What differs between the supported versions of PySpark: 4.0 and 4.1 have fewer features than 4.2 and 4.3.

- 4.0 and 4.1 ask a stream for its latest offset without the offset of the batch before, and know no limits
of a batch;
- 4.0 hands the rows of a stream to a sink row by row, and pushes no filters down.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyspark
from pyspark.sql import datasource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamWriter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )

        HAS_LIMITS = True
    except ImportError:
        HAS_LIMITS = False

        class ReadLimit:
            """Stands for the limits that this version does not have."""

        class ReadAllAvailable(ReadLimit):
            """No limit."""

        @attrs.frozen
        class ReadMaxRows(ReadLimit):
            """A limit that nothing asks for."""

            max_rows: int

        @attrs.frozen
        class ReadMaxBytes(ReadLimit):
            """A limit that nothing asks for."""

            max_bytes: int

        @attrs.frozen
        class ReadMinRows(ReadLimit):
            """A limit that nothing asks for."""

            min_rows: int

        class SupportsTriggerAvailableNow:
            """Marks nothing: this version reads what there is in one batch."""

    StreamWriter = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)

HAS_PUSH_DOWN: Final = hasattr(datasource.DataSourceReader, "pushFilters")
"""Whether this version pushes filters down."""

VERSION: Final = pyspark.__version__


def arrow_schema_of(schema: StructType) -> pyarrow.Schema:
    """The schema in Arrow, with times in UTC."""
    names_zone = "timezone" in signature(to_arrow_schema).parameters
    how: dict[str, Any] = {"timezone": "UTC"} if names_zone else {}
    return to_arrow_schema(schema, **how)


__all__ = [
    "HAS_LIMITS",
    "HAS_PUSH_DOWN",
    "VERSION",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "StreamWriter",
    "SupportsTriggerAvailableNow",
    "arrow_schema_of",
]
