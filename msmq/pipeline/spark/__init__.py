"""The pipeline on Spark, the only package that imports pyspark; it can be imported without pyspark."""

from msmq.pipeline.spark.archive import read_archive
from msmq.pipeline.spark.failures import reason
from msmq.pipeline.spark.session import SparkUnavailable, make_session, register

__all__ = ["SparkUnavailable", "make_session", "read_archive", "reason", "register"]
