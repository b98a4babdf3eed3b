"""Where Spark looks for data sources by itself: a module whose name begins with C{pyspark_}."""

from msmq.pipeline.spark.source import MsmqDataSource as DefaultSource

__all__ = ["DefaultSource"]
