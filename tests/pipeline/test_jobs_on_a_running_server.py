"""Jobs during the run of a server: its store is read, and messages are sent again through it."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from pyarrow import parquet

from msmq.control.client.client import Delivered
from msmq.control.protocol.records import StreamRecord
from msmq.pipeline.spark.command import main
from tests.faults.server import ServerProcess
from tests.pipeline.spark_support import SparkTestCase

ORDERS = r".\private$\orders"
AGAIN = r".\private$\again"
LIMIT = 300
"""Seconds that a server runs at most: some jobs, each of which takes seconds."""


class BesideServerTests(SparkTestCase):
    """Jobs on the store of a server."""

    def setUp(self) -> None:
        super().setUp()
        # A path of trial's own may be longer than a unix socket's may be.
        self.home = Path(tempfile.mkdtemp(prefix="msmq-jobs-")).resolve()
        self.addCleanup(shutil.rmtree, self.home)
        self.server = ServerProcess(self.home, limit=LIMIT)
        self.addCleanup(self.server.kill)
        self.assertTrue(self.server.is_ready(), self.server.output)
        for queue in (ORDERS, AGAIN):
            self.server.client.create_queue(queue, {"log": True})
        header = {"destination": ORDERS, "priority": 5}
        sent = [StreamRecord({**header, "label": f"{number}"}, b"order %d" % number) for number in range(12)]
        self.assertEqual(len(list(self.server.client.send(sent))), 12)

    def run_job(self, job: str, name: str, *arguments: str) -> tuple[int, str, str]:
        """Status, output, complaints."""
        out, err = StringIO(), StringIO()
        where = ("--input", f"ALPHA={self.server.data}", "--output", str(self.home / name))
        with redirect_stdout(out), redirect_stderr(err):
            status = main([job, *where, *arguments])
        return status, out.getvalue(), err.getvalue()

    def labels(self) -> list[str]:
        """Labels of the messages in the second queue."""
        count = self.server.client.queue(AGAIN)["messages"]
        if not count:
            return []
        with self.server.client.receive(AGAIN, count=count, peek=True) as stream:
            return [one.properties["label"] for one in stream if isinstance(one, Delivered)]

    def test_store(self) -> None:
        """Express messages of a queue with a message log are found there, once."""
        self.assertEqual(self.run_job("loss", "loss")[0], 0)
        fates = parquet.read_table(self.home / "loss" / "fates").to_pylist()
        self.assertEqual([row["fate"] for row in fates], ["delivered"] * 12)

    def test_replay(self) -> None:
        """A replay sends each message once, in order, however often it runs; a dry run sends nothing."""
        options = ("--control", str(self.server.data), "--into", AGAIN, "--queue", ORDERS)
        status, out, err = self.run_job("replay", "dry", *options, "--dry-run")
        self.assertEqual(status, 0, err)
        self.assertIn("12 messages would be sent", out)
        self.assertEqual(self.labels(), [])
        for turn in range(2):
            status, out, err = self.run_job("replay", f"turn {turn}", *options)
            self.assertEqual(status, 0, err)
            self.assertEqual(self.labels(), [f"{number}" for number in range(12)])

    def test_what_is_wrong(self) -> None:
        """A store, a server or a destination that there is not is one line that names it."""
        wrong = (
            (("loss", "a", "--input", str(self.home)), str(self.home)),
            (("replay", "b", "--control", str(self.home / "gone"), "--into", AGAIN), "gone"),
            (("replay", "c", "--control", str(self.server.data), "--into", "nonsense"), "--into nonsense"),
        )
        for (job, name, *arguments), complaint in wrong:
            status, out, err = self.run_job(job, name, *arguments)
            self.assertEqual((status, out, err.count("\n")), (1, "", 1), err)
            self.assertIn(complaint, err)
