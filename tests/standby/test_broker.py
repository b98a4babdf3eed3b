"""A broker of an application, whose store another server takes over."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from twisted.trial.unittest import TestCase

from msmq import Broker, Outcome, ReceivedMessage, accept, load
from msmq.client import Client
from msmq.service.configuration import Overrides
from msmq.structures.status import MQError
from tests.patience import DEADLINE
from tests.servers.own_address import own_address
from tests.servers.postgresql import shared_server
from tests.servers.prepared import PreparedProcess

ORDERS = ".\\private$\\orders"
SCHEMA = "standby_broker"

APPLICATION = """
from twisted.application.service import Application
from msmq import load
from msmq.service.configuration import Overrides
from tests.standby.test_broker import Orders

application = Application("orders")
configuration = load("msmq.toml", Overrides(data="data", address=%r))
Orders(queues=["orders"], configuration=configuration).setServiceParent(application)
"""


class Orders(Broker):
    """Accepts every message."""

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Accept it."""
        return accept()


class StandbyBrokerTests(TestCase):
    timeout = DEADLINE

    def setUp(self) -> None:
        self.server = shared_server()
        self.home = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.home)
        self.addCleanup(self.server.drop, SCHEMA)
        url = self.server.url(f"schema={SCHEMA}")
        (self.home / "msmq.toml").write_text(
            f'[queue_manager]\nname = "ALPHA"\n[storage]\nbackend = "{url}"\nstandby = true\n'
        )
        self.address = own_address(129)

    def take_over(self) -> None:
        """Do what the election of another server does."""
        with self.server.connect() as connection:
            connection.execute(f'UPDATE "{SCHEMA}".progress SET session = gen_random_uuid()'.encode())

    async def test_in_an_application(self) -> None:
        """It stops, with all its ports, and reports why."""
        overrides = Overrides(data=str(self.home / "data"), address=self.address)
        broker = Orders(queues=["orders"], configuration=load(self.home / "msmq.toml", overrides, {}))
        broker.startService()
        self.addCleanup(broker.stopService)
        await broker.started
        lost = broker.lost
        self.take_over()
        with self.assertRaises(MQError):
            await broker.manager.create_queue(".\\private$\\other")
        self.assertIn("another queue manager has taken it over", str(await lost))
        self.assertEqual((broker.running, broker.addresses), (0, ()))

    def test_under_twistd(self) -> None:
        """The process ends with status 1, and a line with the reason."""
        (self.home / "orders.tac").write_text(APPLICATION % self.address)
        process = PreparedProcess(
            ["twistd", "--nodaemon", "--pidfile=", "--python", "orders.tac"],
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(process.kill)
        client = Client(self.home / "data", reconnect=DEADLINE)
        client.queue(ORDERS)
        self.take_over()
        impatient = Client(self.home / "data", reconnect=0)
        self.assertRaises(MQError, impatient.create_queue, ".\\private$\\other")
        _, errors = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 1)
        [line] = errors.decode().splitlines()
        self.assertIn("Orders ends, since another server is active: ", line)
        self.assertIn("another queue manager has taken it over", line)
