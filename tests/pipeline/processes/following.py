"""A driver of its own, which follows the message log of a queue into Parquet until it is killed.

C{python -m tests.pipeline.processes.following DATA DIRECTORY [finish]}; with C{finish} it ends when it has
read what there is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from msmq.pipeline.spark import make_session
from tests.pipeline.spark_settings import SETTINGS


def follow(data: Path, directory: Path, *, finish: bool) -> None:
    """Run the query."""
    session = make_session("following", master="local[2]", settings=SETTINGS)
    session.sparkContext.setLogLevel("ERROR")
    stream = session.readStream.format("msmq").options(
        path=str(data),
        subscribe="orders",
        startingOffsets="earliest",
        maxOffsetsPerTrigger="2000",
        minPartitions="2",
        columns="offset,label,priority,lookup_id",
    )
    writer = stream.load().writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    writer = writer.trigger(availableNow=True) if finish else writer.trigger(processingTime="0 seconds")
    writer.start(str(directory / "result")).awaitTermination()


if __name__ == "__main__":
    follow(Path(sys.argv[1]), Path(sys.argv[2]), finish=sys.argv[3:] == ["finish"])
