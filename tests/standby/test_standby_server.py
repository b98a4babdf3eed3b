"""A standby as operators, monitoring and other queue managers see it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.client import Client
from msmq.structures.status import MQError
from tests.patience import DEADLINE
from tests.servers.own_address import own_address
from tests.servers.postgresql import shared_server
from tests.servers.prepared import PROGRAMS, PreparedProcess, run
from tests.standby.pair import Node, Pair

QUEUE = ".\\private$\\orders"
REMOTE = "DIRECT=OS:ALPHA\\private$\\orders"


class StandbyServerTests(SynchronousTestCase):
    """Two servers of ALPHA with one address, as a virtual IP address has, and BETA as their peer."""

    def setUp(self) -> None:
        self.address, self.beta_address = own_address(122), own_address(123)
        pages = own_address(124), own_address(125)
        hosts = ("[hosts]", f'BETA = "{self.beta_address}"')
        self.pair = Pair(shared_server(), "standby_server", (self.address, self.address), lease=60)
        self.addCleanup(self.pair.close)
        self.pages: dict[str, str] = {}
        for node, page in zip((self.pair.active, self.pair.standby), pages, strict=True):
            file = node.home / "msmq.toml"
            web = ("[listen]", f'web = "tcp:15801:interface={page}"')
            file.write_text("\n".join((file.read_text(), *web, *hosts, "")))
            self.pages[node.name] = f"http://{page}:15801"

    def page(self, node: Node, path: str) -> tuple[int, str]:
        """Status and text of a page of the web endpoint."""
        try:
            with urllib.request.urlopen(f"{self.pages[node.name]}{path}", timeout=DEADLINE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def start_beta(self) -> Client:
        """Start the other queue manager; gives a client of it."""
        home = Path(self.pair.active.home / "beta")
        home.mkdir()
        (home / "msmq.toml").write_text(
            f'[hosts]\nALPHA = "{self.address}"\n[timers]\nresend_short = 1\nresend_medium = 1\n'
        )
        with (home / "log").open("wb") as log:
            process = PreparedProcess(
                [
                    *(PROGRAMS / "twistd", "-n", "--pidfile=", "msmq", "--config", home / "msmq.toml"),
                    *("--data", home, "--name", "BETA", "--address", self.beta_address),
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=home,
            )

        def end() -> None:
            process.kill()
            process.wait(DEADLINE)

        self.addCleanup(end)
        client = Client(home, reconnect=DEADLINE)
        client.status()
        return client

    def test_takes_over_identity_queues_streams_and_address(self) -> None:
        """The messages that a peer sends in transactions arrive once and in order across a takeover, at a
        queue manager with the same identifier.
        """
        pair = self.pair
        pair.start()
        first, second = pair.active, pair.standby
        beta = self.start_beta()
        first.client.create_queue(QUEUE, transactional=True)
        identifier = first.client.status()["identifier"]
        for number in range(10):
            beta.send(REMOTE, str(number), transactional=True)
        self.assertEqual(len(first.client.peek(QUEUE, count=1, timeout=DEADLINE)), 1)
        first.signal(signal.SIGKILL)
        for number in range(10, 20):
            beta.send(REMOTE, str(number), transactional=True)
        pair.taken_over()
        client = Client(second.data, reconnect=DEADLINE)
        self.assertEqual(client.status()["identifier"], identifier)
        bodies: list[int] = []
        with client.consume(QUEUE, count=1, timeout=DEADLINE) as consumer:
            while len(bodies) < 20:
                with consumer.next_batch() as batch:
                    bodies += [int(message.body) for message in batch]
        self.assertEqual(bodies, list(range(20)))
        self.assertIn(f"identifier {{{identifier}}}", second.output())

    def test_shows_that_it_waits(self) -> None:
        """While it waits, the command, readiness and metrics say so; other requests are refused by name."""
        pair = self.pair
        pair.start()
        standby = pair.standby
        done = run([PROGRAMS / "msmq", "--data", standby.data, "--json", "status"], timeout=DEADLINE)
        status = json.loads(done.stdout)
        self.assertEqual((status["state"], status["name"]), ("standby", "ALPHA"))
        standby.until(lambda: standby.client.status()["waits"] == "active elsewhere", "it does not wait")
        self.assertIn("PostgreSQL process", standby.client.status()["holder"])
        error = self.assertRaises(MQError, standby.client.create_queue, QUEUE)
        self.assertIn("this server is a standby", str(error))
        self.assertEqual(self.page(standby, "/health/live")[0], 200)
        code, text = self.page(standby, "/health/ready")
        self.assertEqual((code, json.loads(text)["status"]), (503, "unready"))
        self.assertIn("standby", json.loads(text)["reasons"][0])
        self.assertIn("\nmsmq_standby 1\n", self.page(standby, "/metrics")[1])
        self.assertEqual(self.page(pair.active, "/health/ready")[0], 200)
        self.assertIn("\nmsmq_standby 0", self.page(pair.active, "/metrics")[1])
        # A standby ends as any server does, and leaves no socket.
        standby.signal(signal.SIGTERM)
        self.assertEqual(standby.wait(), -signal.SIGTERM)
        self.assertFalse(os.path.exists(standby.data / "control.sock"))

    def test_configuration_read_again(self) -> None:
        """SIGHUP has a standby read its configuration again: it takes over with that."""
        pair = self.pair
        pair.start()
        standby = pair.standby
        file = standby.home / "msmq.toml"
        file.write_text(f"{file.read_text()}[limits]\nquota = 4711\n")
        standby.signal(signal.SIGHUP)
        line = "configuration reloaded; changed: limits.quota"
        standby.until(lambda: line in standby.output(), "it does not reload")
        self.assertEqual(standby.state(), "standby")
        pair.active.signal(signal.SIGKILL)
        pair.taken_over()
        self.assertEqual(standby.client.status()["quotas"]["quota"], 4711)

    def test_another_identity_is_refused(self) -> None:
        """A data directory of another queue manager does not become one of this queue manager."""
        pair = self.pair
        pair.active.start()
        pair.active.wait_for("running")
        pair.active.signal(signal.SIGTERM)
        pair.active.wait()
        pair.standby.data.mkdir(mode=0o700)
        other = '{"identifier": "{11111111-2222-3333-4444-555555555555}"}'
        (pair.standby.data / "identity.json").write_text(other)
        pair.standby.start()
        self.assertEqual(pair.standby.wait(), 1)
        self.assertIn("a standby needs a data directory of its own", pair.standby.output())


class StandbyConfigurationTests(SynchronousTestCase):
    """The keys of C{[storage]} for a standby."""

    def test_store_of_one_server(self) -> None:
        """A store on a local disk cannot have a standby, and the check of the configuration says so."""
        file = Path(self.mktemp())
        file.write_text('[storage]\nbackend = "sqlite"\nstandby = true\n')
        done = run([PROGRAMS / "msmq", "config", "check", file], timeout=DEADLINE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("storage.standby", done.stdout + done.stderr)
        self.assertIn("several servers can reach, such as postgresql; sqlite is not", done.stderr)
