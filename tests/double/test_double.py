"""A double as a service of a test, on real sockets of loopback."""

from __future__ import annotations

from twisted.internet import reactor as installed_reactor
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase

from msmq import Delivery, Message, connect
from msmq.net.clock import SystemClock
from msmq.net.ping import Pinger
from msmq.testing import FaultInjectingDouble, start_service
from tests.builders import ALPHA
from tests.servers.own_address import own_address

SCRIPT = """
[ping]
answer = "refuse"

[[fault]]
action = "close"
count = 1
"""


class DoubleTests(TestCase):
    """A sender and a double."""

    async def test_faults_and_events(self) -> None:
        """A ping is refused; a message whose connection is closed at first arrives on the next one."""
        double = await start_service(self, FaultInjectingDouble(SCRIPT, address=own_address(109)))
        pinger = Pinger(ALPHA, reactor=installed_reactor, clock=SystemClock())  # type: ignore[arg-type]
        self.addCleanup(pinger.stop)
        self.assertTrue((await pinger.ask(own_address(109))).refused)
        async with connect(own_address(109), reactor=IReactorTime(installed_reactor)) as peer:
            await peer.send("orders", Message(label="1", delivery=Delivery.RECOVERABLE), timeout=60)
        event = await double.when(lambda event: event.kind == "received")
        assert event.message is not None
        self.assertEqual(event.message["label"], "1")
        self.assertEqual(len(double.received), 1)
        kinds = [each.kind for each in double.events if each.action == "close" or each.kind == "ping"]
        self.assertEqual(kinds, ["ping", "arrived"])
