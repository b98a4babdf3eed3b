"""The pipeline on Spark; nothing else in msmq imports pyspark, and this alone is imported without it."""

from msmq.pipeline.spark.failures import reason
from msmq.pipeline.spark.session import SparkUnavailable, make_session, register

__all__ = ["SparkUnavailable", "make_session", "reason", "register"]
