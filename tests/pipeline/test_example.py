"""The example of the guide, on a store and through a server."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import time
from pathlib import Path
from types import ModuleType
from urllib.parse import urlencode

from tests.faults.server import ServerProcess
from tests.pipeline.spark_support import SparkTestCase
from tests.pipeline.stores import estate, write_log

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "orders_in_spark.py"


def example() -> ModuleType:
    specification = importlib.util.spec_from_file_location("orders_in_spark", EXAMPLE)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class ExampleTests(SparkTestCase):
    """Each function of it."""

    def setUp(self) -> None:
        super().setUp()
        # A path of trial's own may be longer than a unix socket's may be.
        self.home = Path(tempfile.mkdtemp(prefix="msmq-example-")).resolve()
        self.addCleanup(shutil.rmtree, self.home)
        self.module = example()

    def test_reads(self) -> None:
        """It counts what waits, and keeps what came in."""
        data = str(write_log(self.home / "data", estate()))
        counts = {
            row["topic"]: row["count(1)"]
            for row in self.module.oldest_by_priority(self.spark, data).collect()
            if row["priority"] in (None, 3)
        }
        self.assertEqual(counts[r".\private$\orders"], 3)
        for _ in range(2):
            self.module.keep_orders(self.spark, data, str(self.home)).awaitTermination()
        self.assertEqual(self.spark.read.parquet(str(self.home / "orders")).count(), 20)

    def test_sends_again(self) -> None:
        """It sends a dead letter once to where it was going."""
        # Spark takes its time to start on a machine that has much to do.
        server = ServerProcess(self.home, limit=600)
        self.addCleanup(server.kill)
        self.assertTrue(server.is_ready(), server.output)
        queue = r".\private$\orders"
        server.client.create_queue(queue, {})
        options = {"delivery": "recoverable", "dead_letter": "true", "time_to_be_received": "1"}
        server.client.call("POST", f"/v1/messages?{urlencode({'destination': queue, **options})}", b"late")
        give_up = time.monotonic() + 60
        while not server.client.dead_letters():
            self.assertLess(time.monotonic(), give_up)
            time.sleep(0.05)
        for _ in range(2):
            self.module.send_dead_letters_again(self.spark, str(server.data))
        self.assertEqual(server.client.queue(queue)["messages"], 1)
