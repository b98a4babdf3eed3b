"""Reads a queue, follows it as a stream, and sends dead letters again, with Spark.

C{python examples/orders_in_spark.py DATA} reads the data directory of a server, which may run meanwhile;
C{spark-submit} sends the same program to a cluster.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msmq.pipeline.spark import StreamMetrics, make_session, read_archive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def oldest_by_priority(spark: SparkSession, data: str) -> DataFrame:
    """The number of messages in each queue, and the arrival time of the oldest."""
    waiting = (
        spark.read.format("msmq")
        .option("stream", "queue")
        .option("columns", "topic,priority,arrived_time")
        .load(data)
    )
    return waiting.groupBy("topic", "priority").agg({"*": "count", "arrived_time": "min"})


def keep_orders(spark: SparkSession, data: str, directory: str) -> StreamingQuery:
    """Append the messages that arrived in one queue since the last run to Parquet, each message once."""
    orders = (
        spark.readStream.format("msmq")
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "100000")
        .load(data)
    )
    return (
        orders.writeStream.format("parquet")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{directory}/orders")
    )


def send_dead_letters_again(spark: SparkSession, data: str) -> None:
    """Send failed messages to their destinations again; running this twice sends each once."""
    dead = spark.read.format("msmq").option("stream", "dead_letter").load(data)
    messages = dead.select("id", "value", "label", "destination_queue")
    messages.write.format("msmq").mode("append").option("control", data).option("key", "again").save()


def count_archived(spark: SparkSession, archive: str) -> None:
    """Count the orders of an archive, with those that only the store has yet."""
    orders = read_archive(spark, archive, stream="log")
    orders.where("class = 0").groupBy("topic").count().show()


def watch_streams(spark: SparkSession, metrics: str) -> None:
    """Write the lag and the rates of all streams to a file for Prometheus."""
    spark.streams.addListener(StreamMetrics(metrics))


def read_remote(spark: SparkSession, endpoint: str) -> DataFrame:
    """Read the store of a server on another machine."""
    orders = spark.read.format("msmq").option("stream", "queue").load(endpoint)
    return orders.select("topic", "id", "arrived_time")


def main(data: str) -> None:
    """Print the table."""
    spark = make_session("orders")
    oldest_by_priority(spark, data).orderBy("topic", "priority").show(truncate=False)


if __name__ == "__main__":
    main(sys.argv[1])
