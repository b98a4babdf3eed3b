"""A cluster of two workers on loopback, which reads stores over the network.

C{make cluster} runs it, beside the suite, which it would make minutes longer; with C{MSMQ_CLUSTER}, as that
sets it, the workers lack the package once.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from msmq.pipeline.spark.session import SparkUnavailable, find_java, find_spark
from tests.patience import DEADLINE
from tests.pipeline.stores import estate, write_postgresql
from tests.pipeline.test_remote_reader import RemoteServer
from tests.servers.own_address import own_address
from tests.servers.postgresql import shared_server

PROJECT = Path(__file__).resolve().parents[3]
CLASS = "org.apache.spark.deploy"
IS_LONG = bool(os.environ.get("MSMQ_CLUSTER"))
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class ClusterTests(SynchronousTestCase):
    """Spark standalone: a master and two workers, whose Python may be another one than the driver's."""

    def setUp(self) -> None:
        try:
            find_spark()
            find_java()
        except SparkUnavailable as error:
            raise SkipTest(str(error)) from None
        self.running = ExitStack()
        self.addCleanup(self.running.close)
        self.home = Path(tempfile.mkdtemp(prefix="msmq-cluster-")).resolve()
        self.addCleanup(shutil.rmtree, self.home)
        self.address = own_address(71)
        # What the machines of a cluster have under the same path may differ.
        self.python = self.home / "python"
        self.python.write_text(
            "#!/bin/sh\n"
            'if [ -n "$WITHOUT_MSMQ" ]; then PYTHONPATH="$SPARK_ZIPS" exec /usr/bin/python3 "$@"; fi\n'
            f'exec "{sys.executable}" "$@"\n'
        )
        self.python.chmod(0o755)
        self.spark_home = Path(str(__import__("pyspark").__file__)).parent

    def environment(self, **more: str) -> dict[str, str]:
        """Of the processes of Spark."""
        zips = sorted((self.spark_home / "python" / "lib").glob("*.zip"))
        return {
            **os.environ,
            "SPARK_HOME": str(self.spark_home),
            "SPARK_LOCAL_IP": self.address,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": OPTIONS,
            "SPARK_WORKER_DIR": str(self.home / "work"),
            "SPARK_LOG_DIR": str(self.home),
            "SPARK_ZIPS": os.pathsep.join(map(str, zips)),
            "PYSPARK_PYTHON": str(self.python),
            "PYTHONPATH": str(PROJECT),
            **more,
        }

    def daemon(self, name: str, *arguments: str) -> Path:
        """Start a master or a worker; gives its log."""
        log = self.home / f"{name}.log"
        command = [str(self.spark_home / "bin" / "spark-class"), *arguments]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env=self.environment(),
                cwd=self.home,
                start_new_session=True,
            )
        self.running.callback(self.end, process)
        return log

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End it with all that it has started."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def until(self, log: Path, text: str) -> None:
        """Wait until a process says something."""
        deadline = time.monotonic() + DEADLINE
        while text not in log.read_text(errors="replace"):
            self.assertLess(time.monotonic(), deadline, log.read_text(errors="replace")[-1000:])
            time.sleep(0.1)

    def driver(self, *locations: str, **environment: str) -> list[dict[str, Any]]:
        """What the workers read, in an environment of their own."""
        command = [sys.executable, "-m", "tests.pipeline.processes.clustered", f"spark://{self.address}:7077"]
        done = subprocess.run(
            [*command, *locations],
            env=self.environment(SPARK_LOCAL_IP="127.0.0.1", EXECUTOR=json.dumps(environment)),
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
            timeout=3 * DEADLINE,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_cluster(self) -> None:
        """Both workers read a local store through its server, and PostgreSQL."""
        remote = RemoteServer(self.running, "sqlite", 72)
        server = shared_server()
        self.addCleanup(server.drop, "clustered")
        database = write_postgresql(server, "clustered", estate())
        host = ("--host", self.address, "--webui-port", "0")
        master = self.daemon("master", f"{CLASS}.master.Master", *host, "--port", "7077")
        self.until(master, "I have been elected leader")
        worker = (f"{CLASS}.worker.Worker", *host, "--cores", "1", "--memory", "1g")
        for number in range(2):
            log = self.daemon(f"worker{number}", *worker, f"spark://{self.address}:7077")
            self.until(log, "Successfully registered with master")
        for found in self.driver(remote.location, database):
            self.assertEqual(found["offsets"], list(range(1, 21)))
            self.assertGreaterEqual(found["parts"], 8)
        if IS_LONG:
            [found] = self.driver(database, WITHOUT_MSMQ="1")
            expected = "install msmq with its extra parquet for the Python of PYSPARK_PYTHON"
            self.assertIn(expected, found["error"])
            self.assertNotIn("\n", found["error"])
