"""Reads, streams and sends with the PySpark that is found first; C{make spark-versions} runs it with others.

C{python -m tests.pipeline.processes.spark_version VERSION} fails unless that version does all that it
promises.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.spark import make_session
from msmq.pipeline.spark.streaming import check_limits
from msmq.pipeline.spark.versions import HAS_LIMITS
from tests.faults.server import ServerProcess
from tests.pipeline.spark_settings import SETTINGS
from tests.pipeline.stores import estate, log, write_log

QUEUE = r".\private$\copies"


def check(name: str, found: Any, expected: Any) -> None:
    """Compare, and fail with both values."""
    if found != expected:
        raise SystemExit(f"PySpark {pyspark.__version__}: {name}: {found!r}, not {expected!r}")


def streamed(session: Any, data: Path, place: Path) -> list[int]:
    """The offsets in the result of a query that goes on where the one before it ended."""
    options = {"path": str(data), "startingOffsets": "earliest", "columns": "offset"}
    rows = session.readStream.format("msmq").options(**options).load()
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    writer.trigger(availableNow=True).start(str(place / "result")).awaitTermination()
    return sorted(row.offset for row in session.read.parquet(str(place / "result")).collect())


def run(home: Path) -> None:
    """All that a version can."""
    data = write_log(home / "store", estate())
    session = make_session("versions", master="local[2]", settings=SETTINGS)
    session.sparkContext.setLogLevel("ERROR")
    rows = session.read.format("msmq").load(str(data))
    check("messages in queues", rows.count(), 24)
    check("columns that are never null", rows.schema["offset"].nullable, False)
    logged = session.read.format("msmq").option("stream", "log").load(str(data))
    check("entries of the log", sorted(row.offset for row in logged.collect()), list(range(1, 21)))
    check("a stream", streamed(session, data, home), list(range(1, 21)))
    write_log(data, [log(number) for number in range(21, 26)])
    check("the next query of the stream", streamed(session, data, home), list(range(1, 26)))
    if not HAS_LIMITS:
        try:
            check_limits(read_options({"path": "x", "maxOffsetsPerTrigger": "5"}))
        except ReadingError as error:
            check("a limit", "needs PySpark 4.2 or newer" in str(error), True)
        else:
            check("a limit", "accepted", "refused")
    server = ServerProcess(home, limit=600)
    try:
        check("the server runs", server.is_ready(), True)
        server.client.create_queue(QUEUE, {})
        sink = {"control": str(server.data), "destination": QUEUE}
        # PySpark 4.1 keeps the offsets that a relation had when it was first read.
        logged = session.read.format("msmq").option("stream", "log").load(str(data))
        selected = logged.selectExpr("id", "value", "label")
        for _ in range(2):
            selected.write.format("msmq").mode("append").options(**sink).save()
        check("rows that were sent twice", server.client.queue(QUEUE)["messages"], 25)
        source = home / "json"
        session.range(7).selectExpr("concat('row ', id) AS body").write.json(str(source))
        stream = session.readStream.schema("body STRING").json(str(source)).writeStream.format("msmq")
        stream = stream.options(**sink).option("checkpointLocation", str(home / "sink"))
        stream.trigger(availableNow=True).start().awaitTermination()
        check("rows of a stream", server.client.queue(QUEUE)["messages"], 32)
    finally:
        server.kill()
        session.stop()
    print(f"PySpark {pyspark.__version__}: batches, streams and the sink as promised")


if __name__ == "__main__":
    check("the version", pyspark.__version__, sys.argv[1])
    directory = Path(tempfile.mkdtemp(prefix="msmq-spark-")).resolve()
    try:
        run(directory)
    finally:
        shutil.rmtree(directory)
