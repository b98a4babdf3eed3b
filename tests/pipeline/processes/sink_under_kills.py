"""A server and the driver that sends to it are killed at any moment; each row is in the queue once.

C{make sink} runs it, beside the suite, with twenty kills; C{MSMQ_SINK} is another number.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from msmq.control.client.client import Receipt
from msmq.pipeline.spark.session import SparkUnavailable, find_java, find_spark
from tests.faults.server import ServerProcess
from tests.pipeline.processes.sinking import ORDERS
from tests.servers.prepared import spark_python

PROJECT = Path(__file__).resolve().parents[3]
SIZE = int(os.environ.get("MSMQ_SINK") or 0)
KILLS = SIZE or 2
FILES, ROWS = (4 * SIZE, 500) if SIZE else (8, 100)
DEADLINE = 3600.0 if SIZE else 900.0


class SinkKillTests(SynchronousTestCase):
    """One query with the default options of the sink, many drivers and servers."""

    timeout = DEADLINE

    def setUp(self) -> None:
        try:
            find_spark()
            find_java()
        except SparkUnavailable as error:
            raise SkipTest(str(error)) from None
        self.home = Path(tempfile.mkdtemp(prefix="msmq-sink-")).resolve()
        self.addCleanup(shutil.rmtree, self.home)
        self.start()
        self.server.client.create_queue(ORDERS, {})
        (self.home / "source").mkdir()
        for file in range(FILES):
            numbers = range(file * ROWS, (file + 1) * ROWS)
            lines = [json.dumps({"body": f"row {number}"}) for number in numbers]
            (self.home / "source" / f"{file:04}.json").write_text("\n".join(lines))

    def start(self) -> None:
        """Start the server, over what an earlier one stored."""
        self.server = ServerProcess(self.home, limit=DEADLINE, storage="log")
        self.addCleanup(self.server.kill)
        self.assertTrue(self.server.is_ready(), self.server.output)

    def driver(self) -> subprocess.Popen[bytes]:
        """Start one, in a group of processes that can be killed at once."""
        command = [
            sys.executable,
            "-m",
            "tests.pipeline.processes.sinking",
            str(self.server.data),
            str(self.home),
        ]
        with (self.home / "log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=PROJECT,
                env={**os.environ, "PYSPARK_PYTHON": os.fspath(spark_python())},
                start_new_session=True,
            )
        self.addCleanup(self.kill, process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a driver with its JVM and its workers."""
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def messages(self) -> int:
        """How many messages the queue has."""
        return int(self.server.client.queue(ORDERS)["messages"])

    def until_more(self, process: subprocess.Popen[bytes], before: int) -> None:
        """Wait until a driver has sent something, or is done."""
        while process.poll() is None and self.messages() == before:
            self.assertLess(time.monotonic(), self.give_up)
            time.sleep(0.02)

    def test_each_row_once(self) -> None:
        """Whatever is killed when, no row is missing from the queue, and none is there twice."""
        chance = random.Random(11)
        self.give_up = time.monotonic() + DEADLINE
        begun = time.monotonic()
        killed: Counter[str] = Counter()
        while killed.total() < KILLS:
            process = self.driver()
            self.until_more(process, self.messages())
            # Anywhere in a batch, or between two.
            time.sleep(chance.random() * 0.8)
            which = "server" if killed.total() % 2 else "driver"
            if which == "server":
                self.server.kill()
                self.start()
            self.kill(process)
            killed[which] += 1
        last = self.driver()
        self.assertEqual(last.wait(), 0, (self.home / "log").read_text(errors="replace")[-2000:])
        found: Counter[str] = Counter()
        with self.server.client.receive(ORDERS, count=self.messages()) as stream:
            for one in stream:
                if isinstance(one, Receipt):
                    one.confirm()
                else:
                    found[one.body.decode()] += 1
        self.assertEqual(found, Counter(f"row {number}" for number in range(FILES * ROWS)))
        if SIZE:
            print(
                f"{FILES * ROWS} rows, kills: {killed['driver']} of the driver, {killed['server']} of the"
                f" server: each row once, in {time.monotonic() - begun:.0f} s"
            )
