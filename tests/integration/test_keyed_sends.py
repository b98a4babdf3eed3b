"""Messages sent under keys, over a server that is killed: each arrives once, however often it was sent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.client import ControlClient
from msmq.control.protocol.records import StreamRecord
from msmq.structures.status import MQError, Status
from tests.patience import DEADLINE
from tests.servers.postgresql import shared_server
from tests.servers.prepared import PreparedProcess, run

PROGRAMS = Path(sys.executable).parent
ORDERS = ".\\private$\\orders"
PAYMENTS = ".\\private$\\payments"
COUNT = 600
LIVES = 3


class KeyedOverKillsTests(SynchronousTestCase):
    """A server over SQLite."""

    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.data = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.data)
        self.client = ControlClient(self.data / "control.sock")
        configuration = self.data / "msmq.toml"
        configuration.write_text('[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n')
        self.arguments = [
            *(os.fspath(PROGRAMS / "twistd"), "-n", "--pidfile=", "msmq", "--name", "ALPHA"),
            *("--data", os.fspath(self.data), "--config", os.fspath(configuration)),
            *("--storage", self.storage()),
        ]

    def storage(self) -> str:
        """Where it keeps its messages."""
        return "sqlite"

    def start(self) -> subprocess.Popen[str]:
        """Start a server and wait until it says that it is ready."""
        process = PreparedProcess(
            self.arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.data
        )
        self.addCleanup(self.kill, process)
        assert process.stdout is not None
        output = ""
        for line in process.stdout:
            output += line
            if "store " in line:
                return process
        raise self.failureException(output)

    def kill(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            process.kill()
        assert process.stdout is not None
        if not process.stdout.closed:
            process.communicate(timeout=DEADLINE)

    def msmq(self, *arguments: str) -> list[dict[str, Any]]:
        """Run the command, which prints JSON."""
        done = run(
            [PROGRAMS / "msmq", "--data", self.data, "--json", *arguments],
            timeout=DEADLINE,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def bodies(self, queue: str) -> list[bytes]:
        """The bodies in a queue, which is emptied."""
        found: list[bytes] = []
        with self.client.receive(queue, count=10 * COUNT, timeout=0.2) as stream:
            for item in stream:
                if hasattr(item, "body"):
                    found.append(item.body)
                else:
                    item.confirm()
        return found

    def test_command(self) -> None:
        """C{msmq send --key} answers a repeat with the first identifier, after a kill too."""
        process = self.start()
        self.msmq("queue", "create", ORDERS)
        sending = ("send", ORDERS, "--recoverable", "--key", "order 7", "--body")
        first = self.msmq(*sending, "two boxes")
        self.assertEqual(self.msmq(*sending, "two boxes"), first)
        self.kill(process)
        self.start()
        self.assertEqual(self.msmq(*sending, "two boxes"), first)
        self.assertEqual(self.bodies(ORDERS), [b"two boxes"])
        self.assertEqual(self.msmq(*sending, "two boxes"), first)
        self.assertEqual(self.client.queue(ORDERS)["messages"], 0)

    def records(self, queue: str, **header: Any) -> Iterator[StreamRecord]:
        for number in range(COUNT):
            yield StreamRecord(
                {"destination": queue, "delivery": "recoverable", "key": f"{number}", **header},
                b"%d" % number,
            )

    def sent_until_killed(self, process: subprocess.Popen[str], after: int, **header: Any) -> list[str]:
        """Send all messages, and kill the server after this number of identifiers."""
        identifiers: list[str] = []
        try:
            for identifier in self.client.send(self.records(**header), pipelined=True, outstanding=50):
                identifiers.append(identifier)
                if len(identifiers) == after:
                    process.kill()
        except MQError as error:
            self.assertEqual(error.status, Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)
        return identifiers

    def test_each_once(self) -> None:
        """A sender that repeats all after every kill has each message once, and got the same identifiers."""
        for queue, is_transactional in ((ORDERS, False), (PAYMENTS, True)):
            process = self.start()
            self.client.create_queue(queue, {"transactional": is_transactional})
            known: dict[int, str] = {}
            for life in range(LIVES):
                last = life == LIVES - 1
                heard = self.sent_until_killed(
                    process,
                    after=0 if last else (life + 1) * COUNT // (LIVES + 1),
                    queue=queue,
                    transactional=is_transactional,
                )
                for number, identifier in enumerate(heard):
                    self.assertEqual(known.setdefault(number, identifier), identifier)
                if not last:
                    self.assertLess(len(heard), COUNT)
                    self.kill(process)
                    process = self.start()
            self.assertEqual((len(known), len(set(known.values()))), (COUNT, COUNT))
            self.assertEqual(sorted(self.bodies(queue)), sorted(b"%d" % number for number in range(COUNT)))
            self.kill(process)


class KeyedOverPostgresqlTests(KeyedOverKillsTests):
    """A server over PostgreSQL."""

    def storage(self) -> str:
        """A schema of its own in a real database."""
        server = shared_server()
        self.addCleanup(server.drop, "keyed")
        return server.url("schema=keyed")
