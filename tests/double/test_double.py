"""A double as a service of a test, on real sockets of loopback."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from twisted.internet import reactor as installed_reactor
from twisted.internet.defer import CancelledError, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase

from msmq import Delivery, Message, NotDelivered, connect
from msmq.double.events import DoubleEvent
from msmq.net.clock import SystemClock
from msmq.net.ping import Pinger
from msmq.testing import FaultInjectingDouble, start_service
from tests.builders import ALPHA
from tests.project.example_files import EXAMPLES, example
from tests.servers.own_address import own_address

REACTOR = IReactorTime(installed_reactor)
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
        async with connect(own_address(109), reactor=REACTOR) as peer:
            await peer.send("orders", Message(label="1", delivery=Delivery.RECOVERABLE), timeout=60)
        event = await double.when(lambda event: event.kind == "received")
        assert event.message is not None
        self.assertEqual(event.message["label"], "1")
        self.assertEqual(len(double.received), 1)
        kinds = [each.kind for each in double.events if each.action == "close" or each.kind == "ping"]
        self.assertEqual(kinds, ["ping", "arrived"])

    async def test_two_stops(self) -> None:
        """Each of two stops ends when the ports are closed: another double can use the address."""
        double = await start_service(self, FaultInjectingDouble(address=own_address(110)))
        first, second = double.stopService(), double.stopService()
        await second
        self.successResultOf(first)
        await start_service(self, FaultInjectingDouble(address=own_address(110)))

    async def test_stop_during_a_delay(self) -> None:
        """A message that is delayed leaves no timer, which would fail the test, and nothing in the log."""
        script = '[[fault]]\naction = "delay"\nseconds = 3600\n'
        double = await start_service(self, FaultInjectingDouble(script, address=own_address(109)))
        async with connect(own_address(109), reactor=REACTOR) as peer:
            sent = ensureDeferred(peer.send("orders", Message(delivery=Delivery.RECOVERABLE)))
            await double.when(lambda event: event.action == "delay")
            await double.stopService()
        await self.assertFailure(sent, NotDelivered)
        left = (call.getTime() - installed_reactor.seconds() for call in installed_reactor.getDelayedCalls())
        self.assertLess(max(left), 600)

    async def test_stop_during_the_start(self) -> None:
        """The stop ends when nothing of the start is left, and its Deferred may be cancelled before."""
        double = FaultInjectingDouble(address=own_address(110))
        double.startService()
        left = double.stopService()
        left.cancel()
        await self.assertFailure(left, CancelledError)
        await double.stopService()
        self.assertEqual(double.addresses, ())
        await start_service(self, FaultInjectingDouble(address=own_address(110)))

    async def test_failed_observer(self) -> None:
        """A failed assertion of an observer is logged, and the message arrives on the same session."""
        double = await start_service(self, FaultInjectingDouble(address=own_address(109)))

        def check(event: DoubleEvent) -> None:
            self.assertNotEqual(event.kind, "arrived")

        double.observers.append(check)
        async with connect(own_address(109), reactor=REACTOR) as peer:
            await peer.send("orders", Message(delivery=Delivery.RECOVERABLE), timeout=60)
        await double.when(lambda event: event.kind == "received")
        self.assertEqual(len(self.flushLoggedErrors(self.failureException)), 1)
        self.assertEqual([each.kind for each in double.events].count("opened"), 1)


class ExampleTests(TestCase):
    """C{examples/unreliable_receiver}."""

    async def report(self, faults: str, *labels: str) -> tuple[int, list[str]]:
        """Its status and its lines, when messages with these labels are sent one after the other."""
        program = example("unreliable_receiver", EXAMPLES / "unreliable_receiver")
        script = Path(self.mktemp())
        script.write_text(faults, encoding="utf-8")
        output = io.StringIO()
        self.patch(sys, "stdout", output)
        running = ensureDeferred(program.main(REACTOR, str(script), own_address(147), str(len(labels))))
        async with connect(own_address(147), reactor=REACTOR) as peer:
            for label in labels:
                await peer.send("orders", Message(label=label, delivery=Delivery.RECOVERABLE), timeout=60)
        status = 0
        try:
            await running
        except SystemExit as ended:
            status = int(ended.code or 0)
        return status, output.getvalue().splitlines()

    async def test_faults(self) -> None:
        """Refused messages count as dealt with; the script is the last fault of the one in the package."""
        faults = (EXAMPLES / "unreliable_receiver" / "faults.toml").read_text(encoding="utf-8")
        status, lines = await self.report(faults[faults.rindex("[[fault]]") :], "1", "2", "3", "4")
        self.assertEqual(status, 0)
        self.assertEqual(
            lines[1:],
            [
                "arrived refuse: 2",
                "session accept: 1",
                "sent again: none",
                "received: 2, 3",
                "missing: none",
            ],
        )

    async def test_changed_order(self) -> None:
        """A sender that changes the order, or leaves a number out, fails."""
        status, lines = await self.report("", "3", "1")
        self.assertEqual((status, lines[-2:]), (1, ["received: 3, 1", "missing: 2"]))
