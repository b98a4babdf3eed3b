"""A broker as the service of an application that C{twistd} runs: a start that fails ends the process."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.servers.own_address import own_address
from tests.servers.prepared import run

APPLICATION = """
import os
import tempfile
from twisted.application.service import Application
from twisted.internet import reactor
from twisted.internet.task import deferLater
from msmq import Broker, accept
from msmq.errors import MsmqError
from msmq.storage.memory import MemoryMessageStore

class Orders(Broker):
    async def message_received(self, message):
        return accept()

class BurningStore(MemoryMessageStore):
    def open(self):
        def refuse():
            raise MsmqError("the store is on fire")
        return deferLater(reactor, 0, refuse)

tempfile.tempdir = os.getcwd()
application = Application("orders")
Orders(queues=["orders"], address=%r, store=%s).setServiceParent(application)
"""


class TwistdTests(SynchronousTestCase):
    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.home = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.home)
        self.address = own_address(201)

    def run_broker(self, store: str) -> subprocess.CompletedProcess[str]:
        """Run C{twistd} with a broker until it ends."""
        (self.home / "orders.tac").write_text(APPLICATION % (self.address, store))
        command = ["twistd", "--nodaemon", "--pidfile=", "--python", "orders.tac"]
        return run(command, timeout=60, cwd=self.home)

    def check_port_in_use(self, store: str) -> None:
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((self.address, 1801))
            other.listen()
            ended = self.run_broker(store)
        self.assertEqual(ended.returncode, 1, ended)
        [line] = ended.stderr.splitlines()
        reason = f"Orders cannot start: cannot listen on TCP {self.address}:1801: Address already in use"
        self.assertTrue(line.endswith(reason), line)
        self.assertEqual(ended.stdout.count(reason), 1, ended.stdout)
        self.assertEqual(list(self.home.glob("**/control.sock")), [])

    def test_a_port_in_use(self) -> None:
        """The process ends with status 1 and a line, and leaves no control socket."""
        self.check_port_in_use("'data'")

    def test_a_port_in_use_without_a_store(self) -> None:
        """The directory of a broker without a store is removed as well."""
        self.check_port_in_use("None")
        self.assertEqual(list(self.home.glob("msmq-broker-*")), [])

    def test_a_store_that_refuses_late(self) -> None:
        """A start that fails while the reactor runs ends the process in the same way."""
        ended = self.run_broker("BurningStore(durable=True)")
        self.assertEqual(ended.returncode, 1, ended)
        [line] = ended.stderr.splitlines()
        self.assertTrue(line.endswith(".Orders cannot start: the store is on fire"), line)
        self.assertEqual(ended.stdout.count("the store is on fire"), 1, ended.stdout)
