"""C{twistd msmq} over the store in PostgreSQL, as operators run it: a process, and the command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.patience import DEADLINE
from tests.servers.own_address import own_address
from tests.servers.postgresql import GUARDED, PASSWORD, PostgresqlServer, shared_server
from tests.servers.prepared import PreparedProcess, run

QUEUE = ".\\private$\\orders"
PROGRAMS = Path(sys.executable).parent


class PostgresqlServerTests(SynchronousTestCase):
    """C{--storage postgresql://...} as an operator sees it."""

    def setUp(self) -> None:
        self.server = shared_server()
        self.schema = "of_a_server"
        self.addCleanup(self.server.drop, self.schema)
        self.data = self.directory()

    def directory(self) -> Path:
        # A path of trial's own may be longer than a unix socket's may be.
        directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, directory)
        return directory

    def url(self, *options: str, user: str = GUARDED, server: PostgresqlServer | None = None) -> str:
        return (server or self.server).url(f"schema={self.schema}", *options, user=user)

    def arguments(self, url: str, data: Path, number: int) -> list[str]:
        return [
            *(os.fspath(PROGRAMS / "twistd"), "-n", "--pidfile=", "msmq", "--name", "ALPHA"),
            *("--data", os.fspath(data), "--address", own_address(number), "--storage", url),
        ]

    def start(self, url: str, *, number: int = 2) -> subprocess.Popen[str]:
        """Start a server and wait until it says that it is ready."""
        process = PreparedProcess(
            self.arguments(url, self.data, number),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.data,
        )
        self.addCleanup(self.end, process)
        assert process.stdout is not None
        output = ""
        for line in process.stdout:
            output += line
            if "store postgresql" in line:
                self.assertNotIn(PASSWORD, output)
                return process
        raise self.failureException(output)

    def end(self, process: subprocess.Popen[str]) -> str:
        if process.poll() is None:
            process.kill()
        assert process.stdout is not None
        return "" if process.stdout.closed else process.communicate(timeout=DEADLINE)[0]

    def refused(self, url: str, *, number: int = 3) -> str:
        """Standard error of a server that does not start."""
        data = self.directory()
        done = run(self.arguments(url, data, number), timeout=DEADLINE, cwd=data)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("Traceback", done.stdout + done.stderr)
        self.assertNotIn(PASSWORD, done.stdout + done.stderr)
        return done.stderr

    def msmq(self, *arguments: str) -> list[dict[str, Any]]:
        """Run the command, which prints JSON."""
        done = run(
            [PROGRAMS / "msmq", "--data", self.data, "--json", *arguments],
            timeout=DEADLINE,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def bodies(self, count: int) -> list[str]:
        found = self.msmq("receive", QUEUE, "--count", str(count), "--timeout", str(DEADLINE))
        return [message["body"] for message in found]

    def test_keeps_recoverable_messages(self) -> None:
        """Recoverable messages survive a server that is killed, in their order; express ones do not."""
        with self.server.connect() as connection:
            connection.execute(f"CREATE SCHEMA {self.schema} AUTHORIZATION {GUARDED}".encode())
        process = self.start(self.url(f"password={PASSWORD}"))
        [status] = self.msmq("status")
        self.assertEqual((status["storage"], status["durable"]), ("postgresql", True))
        self.assertNotIn(PASSWORD, json.dumps(status))
        self.msmq("queue", "create", QUEUE)
        self.msmq("send", QUEUE, "--recoverable", "--body", "first")
        self.msmq("send", QUEUE, "--recoverable", "--count", "20", "--body", "kept")
        self.msmq("send", QUEUE, "--body", "express")
        self.assertEqual(self.bodies(1), ["first"])
        process.kill()
        process.communicate(timeout=DEADLINE)
        again = self.start(self.url(f"password={PASSWORD}"))
        [status] = self.msmq("status")
        self.assertEqual(status["messages"], 20)
        self.assertEqual(self.bodies(20), ["kept"] * 20)
        again.terminate()
        self.assertNotIn(PASSWORD, again.communicate(timeout=DEADLINE)[0])

    def test_outlives_a_restart_of_its_database(self) -> None:
        """A server goes on when its database comes back, without a restart of its own."""
        database = PostgresqlServer()
        self.addCleanup(database.remove)
        url = database.url("wait=1")
        process = self.start(url)
        self.msmq("queue", "create", QUEUE)
        self.msmq("send", QUEUE, "--recoverable", "--body", "before")
        database.stop()
        done = run(
            [PROGRAMS / "msmq", "--data", self.data, "send", QUEUE, "--recoverable", "--body", "lost"],
            timeout=DEADLINE,
        )
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("MQ_ERROR_MESSAGE_STORAGE_FAILED", done.stderr)
        self.assertIn("no connection", done.stderr)
        database.start()
        for _ in range(100):
            done = run(
                [PROGRAMS / "msmq", "--data", self.data, "send", QUEUE, "--recoverable", "--body", "after"],
                timeout=DEADLINE,
            )
            if done.returncode == 0:
                break
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.bodies(2), ["before", "after"])
        output = self.end(process)
        self.assertNotIn("Traceback", output)
        self.assertIn("the database is back", output)

    def test_second_server_is_refused(self) -> None:
        """Two servers never share a schema, neither at once nor one after the other; the second says
        why, in one line.
        """
        url = self.url(user="msmq")
        process = self.start(url)
        reported = self.refused(url)
        self.assertTrue(reported.startswith("msmq cannot start: postgresql://msmq@/postgres?host="), reported)
        self.assertTrue(
            reported.endswith(f"schema={self.schema} is in use by another queue manager\n"), reported
        )
        process.terminate()
        process.communicate(timeout=DEADLINE)
        reported = self.refused(url)
        self.assertTrue(
            reported.startswith("msmq cannot start: the store postgresql is that of queue manager {"),
            reported,
        )
        self.assertEqual(reported.count("\n"), 1)

    def test_newer_schema_is_refused(self) -> None:
        """A schema of a newer version is not changed."""
        process = self.start(self.url(user="msmq"))
        process.terminate()
        process.communicate(timeout=DEADLINE)
        with self.server.connect() as connection:
            connection.execute(f"UPDATE {self.schema}.msmq_version SET number = 99".encode())
        reported = self.refused(self.url(user="msmq"))
        self.assertIn("written by a newer version of msmq (schema 99", reported)
        self.assertEqual(reported.count("\n"), 1)

    def test_unreachable_database_is_reported(self) -> None:
        """One line says which database it was and why it cannot be reached."""
        reported = self.refused(f"postgresql://ann:{PASSWORD}@127.0.0.1:1/orders")
        self.assertTrue(
            reported.startswith("msmq cannot start: postgresql://ann@127.0.0.1:1/orders: no connection: "),
            reported,
        )
        self.assertIn("Connection refused", reported)
        self.assertEqual(reported.count("\n"), 1)

    def test_unsuitable_url_is_reported(self) -> None:
        """An invalid URL is refused before anything is begun."""
        reported = self.refused(f"postgresql://ann:{PASSWORD}@127.0.0.1:none/orders")
        self.assertEqual(
            reported,
            "--storage: cannot be used: storage 'postgresql://...': the port must be a number"
            " from 1 to 65535\n",
        )
