"""A driver of its own, which sends rows of files to a queue, batch by batch, until it is killed or done.

C{python -m tests.pipeline.processes.sinking CONTROL DIRECTORY}.
"""

from __future__ import annotations

import sys
from pathlib import Path

from msmq.pipeline.spark import make_session
from tests.pipeline.spark_settings import SETTINGS

ORDERS = r".\private$\orders"


def send(control: str, directory: Path) -> None:
    """Run the query; all options of the sink have their defaults."""
    session = make_session("sinking", master="local[2]", settings=SETTINGS)
    session.sparkContext.setLogLevel("ERROR")
    stream = session.readStream.schema("body STRING").option("maxFilesPerTrigger", "1")
    rows = stream.json(str(directory / "source"))
    writer = rows.writeStream.format("msmq").trigger(availableNow=True)
    writer = writer.options(control=control, destination=ORDERS)
    writer.option("checkpointLocation", str(directory / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    send(sys.argv[1], Path(sys.argv[2]))
