"""What the Python processes of Spark report."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.spark.failures import reason
from tests.installation import PROJECT

WRITING = """
import sys
from msmq.pipeline.spark.workers import rows_for_spark
for batch in rows_for_spark(bytes(1 << 20) for _ in range(3)):
    sys.stdout.buffer.write(batch)
sys.stdout.buffer.flush()
"""


class LimitTests(SynchronousTestCase):
    """A query that needs only the first rows."""

    def test_silent_end(self) -> None:
        """A process whose rows are no longer read ends without a word, as `yes | head` does."""
        reading, writing = os.pipe()
        os.close(reading)
        try:
            done = subprocess.run(
                [sys.executable, "-c", WRITING],
                stdout=writing,
                stderr=subprocess.PIPE,
                cwd=PROJECT,
                check=False,
                timeout=300,
            )
        finally:
            os.close(writing)
        self.assertEqual(done.stderr, b"")
        self.assertLess(done.returncode, 0)


class FailureTests(SynchronousTestCase):
    """Errors of Spark for people."""

    def test_worker_without_the_package(self) -> None:
        """A machine of a cluster on which the package is missing is one line that says what to do there."""
        error = RuntimeError(
            "[PYTHON_DATA_SOURCE_ERROR] Failed to read.\nTraceback (most recent call last):\n"
            '  File "worker.py", line 1, in main\n'
            "ModuleNotFoundError: No module named 'msmq'\n\tat org.apache.spark.api.python"
        )
        self.assertEqual(
            reason(error),
            "a Python process of Spark has no module msmq: install msmq with its extra parquet for the Python"
            " of PYSPARK_PYTHON on every machine of the cluster",
        )
