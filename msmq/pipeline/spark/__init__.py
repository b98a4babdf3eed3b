"""The pipeline on Spark, the only package that imports pyspark; it can be imported without pyspark.

The names are imported lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmq.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from msmq.pipeline.spark.archive import read_archive
    from msmq.pipeline.spark.session import SparkUnavailable, make_session, register
    from msmq.pipeline.spark.stream_metrics import StreamMetrics

__all__ = ["SparkUnavailable", "StreamMetrics", "make_session", "read_archive", "register"]

_MODULES: Final = {
    "msmq.pipeline.spark.archive": ("read_archive",),
    "msmq.pipeline.spark.session": ("SparkUnavailable", "make_session", "register"),
    "msmq.pipeline.spark.stream_metrics": ("StreamMetrics",),
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, _MODULES)
