"""The driver of a stream is killed again and again while messages come in; each is in the result once.

C{MSMQ_STREAM} is the number of messages where it shall be another than usual; C{make stream} runs with a
hundred thousand, and ten kills.
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
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pyarrow import parquet
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from msmq.control.protocol.records import StreamRecord
from msmq.pipeline.spark.session import SparkUnavailable, find_java, find_spark
from tests.faults.server import ServerProcess
from tests.servers.prepared import spark_python

PROJECT = Path(__file__).resolve().parents[3]
ORDERS = r".\private$\orders"
SIZE = int(os.environ.get("MSMQ_STREAM") or 0)
MESSAGES, KILLS = (SIZE, 10) if SIZE else (1000, 1)
DEADLINE = 3600.0 if SIZE else 300.0


class KillTests(SynchronousTestCase):
    """One query, many drivers."""

    timeout = DEADLINE

    def setUp(self) -> None:
        try:
            find_spark()
            find_java()
        except SparkUnavailable as error:
            raise SkipTest(str(error)) from None
        self.home = Path(tempfile.mkdtemp(prefix="msmq-kills-")).resolve()
        self.addCleanup(shutil.rmtree, self.home)
        self.server = ServerProcess(self.home, limit=DEADLINE)
        self.addCleanup(self.server.kill)
        self.assertTrue(self.server.is_ready(), self.server.output)
        self.server.client.create_queue(ORDERS, {"log": True})

    def driver(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one, in a group of processes that can be killed at once."""
        command = [
            sys.executable,
            "-m",
            "tests.pipeline.processes.following",
            str(self.server.data),
            str(self.home),
        ]
        with (self.home / "log").open("ab") as log:
            process = subprocess.Popen(
                [*command, *arguments],
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

    def batches(self) -> int:
        """How many batches were committed."""
        directory = self.home / "checkpoint" / "commits"
        return (
            len([path for path in directory.glob("*") if path.name.isdecimal()]) if directory.exists() else 0
        )

    def messages(self, part: range) -> Iterator[StreamRecord]:
        for number in part:
            header = {"destination": ORDERS, "label": f"message {number}", "delivery": "recoverable"}
            yield StreamRecord({**header, "priority": self.random.randrange(8)}, b"body")

    def send(self, part: range) -> None:
        self.sent += sum(1 for _ in self.server.client.send(self.messages(part), pipelined=True))

    def until_committed(self, process: subprocess.Popen[bytes], batches: int) -> None:
        """Wait until this number of batches is committed."""
        while self.batches() < batches:
            self.assertIsNone(process.poll(), (self.home / "log").read_text(errors="replace")[-2000:])
            self.assertLess(time.monotonic(), self.give_up)
            time.sleep(0.02)

    def result(self) -> list[str]:
        """The labels in the files that were committed according to the log in C{_spark_metadata}."""
        log = self.home / "result" / "_spark_metadata"
        batches = [path for path in log.iterdir() if path.name.isdecimal()]
        compacted = sorted(log.glob("[0-9]*.compact"), key=lambda path: int(path.stem))[-1:]
        first = int(compacted[0].stem) if compacted else -1
        labels: list[str] = []
        for batch in [*compacted, *(path for path in batches if int(path.name) > first)]:
            for line in batch.read_text(encoding="utf-8").splitlines()[1:]:
                file = Path(url2pathname(urlsplit(json.loads(line)["path"]).path))
                labels += parquet.read_table(file, columns=["label"])["label"].to_pylist()
        return labels

    def test_each_message_once(self) -> None:
        """Whenever the driver is killed, nothing is missing from the result and nothing is there twice."""
        self.random = random.Random(7)
        self.give_up = time.monotonic() + DEADLINE
        self.sent = 0
        begun = time.monotonic()
        share = -(-MESSAGES // (KILLS + 1))
        kills = 0
        for first in range(0, MESSAGES, share):
            is_last = kills == KILLS
            sender = Thread(target=self.send, args=(range(first, min(first + share, MESSAGES)),))
            sender.start()
            if is_last:
                sender.join()
                last = self.driver("finish")
                self.assertEqual(last.wait(), 0, (self.home / "log").read_text(errors="replace")[-2000:])
            else:
                process = self.driver()
                self.until_committed(process, self.batches() + 1)
                # Anywhere in a batch.
                time.sleep(self.random.random())
                self.kill(process)
                sender.join()
                kills += 1
        self.assertEqual((self.sent, kills), (MESSAGES, KILLS))
        labels = self.result()
        self.assertEqual(len(labels), MESSAGES)
        self.assertEqual(set(labels), {f"message {number}" for number in range(MESSAGES)})
        if SIZE:
            print(
                f"{MESSAGES} messages, {kills} kills of the driver, {self.batches()} batches:"
                f" each message once, in {time.monotonic() - begun:.0f} s"
            )
