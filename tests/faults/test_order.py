"""No answer leaves a server before what it says is on the disk, as a trace of the process shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msmq.control.client.client import ControlClient, Delivered, Receipt
from msmq.control.protocol.records import StreamRecord
from tests.faults import IS_THOROUGH, tell
from tests.faults.order import TRACED, Disk, early_acknowledgements, early_answers, mark
from tests.faults.scenario import ORDERS
from tests.faults.server import ServerProcess, ServerTestCase
from tests.faults.tracing import FILTERED, Call, read_log, tracer, why_not

SENDERS = 8
SENDS = 20 if IS_THOROUGH else 5
"""Of each sender, of one message to five each."""

TRANSFERRED = 500 if IS_THOROUGH else 120

REMOTE = "DIRECT=OS:BETA\\private$\\orders"


class OrderTestCase(ServerTestCase):
    """Durable first, then acknowledged.

    @cvar storage: the description of the store.
    """

    skip = why_not()
    storage = "sqlite"

    def traced(
        self,
        storage: str | None = None,
        name: str = "ALPHA",
        environment: Mapping[str, str] | None = None,
    ) -> ServerProcess:
        around = tracer(self.log, TRACED, *FILTERED, "-s", "1100000")
        server = self.server(
            storage=storage or self.storage,
            name=name,
            environment=self.plugins() if environment is None else environment,
            tracer=around,
        )
        self.assertTrue(server.is_ready(), server.output)
        return server

    @property
    def log(self) -> Path:
        return self.home / "log"

    def calls(self, server: ServerProcess) -> Sequence[Call]:
        """The system calls of the server, including this last one."""
        self.assertEqual(server.terminate(), -15)
        self.assertFalse(server.is_hung)
        return list(read_log(self.log))

    def load(self, server: ServerProcess) -> dict[str, str]:
        """Send from many sides at once, and receive meanwhile; gives identifiers by marks."""
        client = server.client
        client.create_queue(ORDERS, {})
        total = SENDERS * SENDS * 3
        with ThreadPoolExecutor(SENDERS + 1) as pool:
            receiver = pool.submit(_receive, client, total)
            senders = [pool.submit(_send, client, sender) for sender in range(SENDERS)]
            identifiers = {found: identifier for sender in senders for found, identifier in sender.result()}
            self.assertEqual(receiver.result(), total)
        self.assertEqual(len(set(identifiers.values())), total)
        return identifiers

    def check_answers(self) -> None:
        """Answers on the control socket follow the disk."""
        server = self.traced()
        identifiers = self.load(server)
        calls = self.calls(server)
        self.assertEqual(early_answers(calls, identifiers), [])
        transactions = len(Disk.of(calls).commits)
        tell(f"{len(identifiers)} messages in {transactions} transactions, none answered too early")
        # Else there was never more than one answer that could have been too early.
        self.assertLess(transactions, len(identifiers))

    def transfer(self, receiver: ServerProcess, marks: Sequence[str]) -> None:
        """Send recoverable messages from another queue manager, until it knows that they arrived."""
        receiver.client.create_queue(ORDERS, {})
        sender = self.server(self.directory(), hosts={"BETA": receiver.session_address})
        self.assertTrue(sender.is_ready(), sender.output)
        header = {"destination": REMOTE, "delivery": "recoverable"}
        list(sender.client.send(StreamRecord(header, text.encode()) for text in marks))
        self.assertEqual(_receive(receiver.client, len(marks)), len(marks))
        # The last acknowledgement comes a moment after the last message.
        while any(queue["messages"] for queue in sender.client.outgoing()):
            pass

    def check_acknowledgements(self) -> None:
        """No session acknowledgement leaves before the messages that it names are on the disk."""
        server = self.traced(name="BETA")
        marks = [mark(number) for number in range(TRANSFERRED)]
        self.transfer(server, marks)
        self.assertEqual(early_acknowledgements(self.calls(server), marks), [])

    def careless(self, storage: str) -> list[str]:
        """The violations found in a store that does not sync."""
        server = self.traced(storage, environment=self.plugins())
        identifiers = self.load(server)
        return early_answers(self.calls(server), identifiers)


class OrderTests(OrderTestCase):
    """The store in SQLite."""

    def test_answers_follow_the_disk(self) -> None:
        """No identifier and no confirmation leaves the server before the record is on the disk."""
        self.check_answers()

    def test_acknowledgements_follow_the_disk(self) -> None:
        """No session acknowledgement leaves before the messages that it names are on the disk."""
        self.check_acknowledgements()

    def test_notices_a_store_that_does_not_wait(self) -> None:
        """With C{synchronous = OFF} these tests fail, for messages and for confirmations."""
        faults = self.careless("careless:OFF")
        self.assertTrue(
            any("<mark" in fault and "before it was on the disk" in fault for fault in faults), faults
        )
        self.assertTrue(any("receipt" in fault for fault in faults), faults)

    def test_notices_a_store_that_seldom_waits(self) -> None:
        """With C{synchronous = NORMAL} too."""
        faults = self.careless("careless:NORMAL")
        self.assertTrue(
            any("<mark" in fault and "before it was on the disk" in fault for fault in faults), faults
        )

    def test_notices_a_store_that_answers_at_once(self) -> None:
        """A store that synchronises all it writes, but does not wait for that, is noticed too."""
        faults = self.careless("hasty")
        self.assertTrue(
            any("<mark" in fault and "before it was on the disk" in fault for fault in faults), faults
        )

    def test_notices_acknowledgements_of_a_store_that_does_not_wait(self) -> None:
        """So are acknowledgements in a session."""
        server = self.traced("careless:OFF", name="BETA", environment=self.plugins())
        marks = [mark(number) for number in range(50)]
        self.transfer(server, marks)
        faults = early_acknowledgements(self.calls(server), marks)
        self.assertIn(f"{marks[0]} was acknowledged before it was on the disk", faults)


class LogOrderTests(OrderTestCase):
    """The record log."""

    storage = "small-log"

    def test_answers_follow_the_disk(self) -> None:
        """No identifier and no confirmation leaves the server before the group is on the disk."""
        self.check_answers()

    def test_acknowledgements_follow_the_disk(self) -> None:
        """No session acknowledgement leaves before the messages that it names are on the disk."""
        self.check_acknowledgements()

    def test_notices_a_store_that_answers_at_once(self) -> None:
        """A log that does not wait for the end of its writes is noticed."""
        faults = self.careless("hasty-log")
        self.assertTrue(
            any("<mark" in fault and "before it was on the disk" in fault for fault in faults), faults
        )


def _send(client: ControlClient, sender: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    header = {"destination": ORDERS, "delivery": "recoverable"}
    for number in range(SENDS):
        first = sender * 1000 + number * 10
        marks = [mark(first + more) for more in range(number % 5 + 1)]
        found += zip(marks, client.send(StreamRecord(header, text.encode()) for text in marks), strict=True)
    return found


def _receive(client: ControlClient, count: int) -> int:
    received = 0
    with client.receive(ORDERS, count=count) as stream:
        for item in stream:
            match item:
                case Delivered():
                    received += 1
                case Receipt():
                    item.confirm()
    return received
