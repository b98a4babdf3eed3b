"""Latency of a stream in Spark: from the commit of a message in the message log to the batch that has it.

A server stores recoverable messages that a client sends at a steady rate; Spark follows the log without a
pause between batches.
The latency of a message is the time from its arrival stamp, which precedes its commit, to the moment at which
its batch has been read.
C{python bench/stream_latency.py [SECONDS]} prints the figures.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any, Final

from msmq.control.client.client import ControlClient
from msmq.control.protocol.records import StreamRecord
from msmq.pipeline.spark import make_session
from rig.measuring import Result, table
from rig.servers import Manager

SECONDS: Final = 60
RATE: Final = 200
WARM_UP: Final = 15
"""Seconds that are not measured, in which the JVM compiles."""
ORDERS: Final = r".\private$\orders"
PERCENTILES: Final = (50, 99)


def paced(seconds: float, rate: int) -> Iterator[StreamRecord]:
    """Messages at a steady rate."""
    begun = time.monotonic()
    for number in range(int(seconds * rate)):
        if (early := begun + number / rate - time.monotonic()) > 0:
            time.sleep(early)
        yield StreamRecord({"destination": ORDERS, "delivery": "recoverable"}, b"order %d" % number)


def follow(client: ControlClient, data: Path, checkpoint: Path, seconds: float) -> tuple[list[float], int]:
    """The latencies of the messages of a stream, in seconds, and the number of batches."""
    session = make_session("stream latency", master="local[2]")
    session.sparkContext.setLogLevel("ERROR")
    found: list[float] = []
    batches = 0
    begun = time.time()

    def measure(frame: Any, batch: int) -> None:
        nonlocal batches
        arrived = [row[0].timestamp() for row in frame.select("timestamp").collect()]
        now = time.time()
        batches += 1
        found.extend(now - one for one in arrived if one > begun + WARM_UP)

    reader = session.readStream.format("msmq").option("subscribe", "orders").option("columns", "timestamp")
    query = reader.load(str(data)).writeStream.foreachBatch(measure).trigger(processingTime="0 seconds")
    running = query.option("checkpointLocation", str(checkpoint)).start()
    records = paced(WARM_UP + seconds, RATE)
    sender = Thread(target=lambda: [None for _ in client.send(records, pipelined=True)])
    sender.start()
    sender.join()
    running.processAllAvailable()
    running.stop()
    session.stop()
    return sorted(found), batches


def measure(seconds: float = SECONDS) -> list[Result]:
    """The lines of the table."""
    with ExitStack() as processes:
        directory = Path(processes.enter_context(tempfile.TemporaryDirectory(prefix="msmq-bench-")))
        server = Manager(processes, "ALPHA", "")
        server.client.create_queue(ORDERS, {"log": True})
        latencies, batches = follow(server.client, server.socket.parent, directory / "checkpoint", seconds)
    at = f"at {RATE} messages/s"
    results = [
        Result(f"commit to batch, p{percent}, {at}", latencies[len(latencies) * percent // 100] * 1000, "ms")
        for percent in PERCENTILES
    ]
    return [*results, Result(f"messages in a batch, {at}", (WARM_UP + seconds) * RATE / batches, "messages")]


if __name__ == "__main__":
    print(table(measure(float(sys.argv[1]) if sys.argv[1:] else SECONDS)))
