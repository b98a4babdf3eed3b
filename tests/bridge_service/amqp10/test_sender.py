"""L{SenderLink} at a broker that grants credit and settles only when a test says so."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge_service.amqp10.sender import NO_CREDIT, NO_SETTLEMENT, SenderLink
from msmq.bridge_service.brokers import PublishResults
from tests.bridge_service.amqp10.scripted_broker import ScriptedBroker

STALL_TIME = 5


class StallTests(SynchronousTestCase):
    """A broker that accepts nothing for a time."""

    def setUp(self) -> None:
        """A link on which one message was sent."""
        self.clock = Clock()
        self.broker = ScriptedBroker(self.clock)
        self.blocked: list[str] = []
        self.confirmed: list[int] = []
        results = PublishResults(
            confirmed=self.confirmed.append,
            returned=self._unexpected,
            nacked=self._unexpected,
            failed=self._unexpected,
        )
        self.link = SenderLink(self.broker.client, "orders", results, self.clock)
        self.link.watch(STALL_TIME, self.blocked.append)
        opened = Deferred.fromCoroutine(self.link.open())
        self.broker.exchange()
        self.successResultOf(opened)

    def _unexpected(self, *arguments: object) -> None:
        self.fail(f"{arguments}")

    def send(self) -> None:
        """Send a message."""
        self.link.send(b"a message", 1)
        self.broker.exchange()

    def test_no_credit(self) -> None:
        """Without credit the broker counts as blocked after a time, until it grants some."""
        self.send()
        self.clock.advance(STALL_TIME - 0.1)
        self.assertEqual(self.blocked, [])
        self.clock.advance(0.1)
        self.assertEqual(self.blocked, [NO_CREDIT])
        self.broker.grant(1)
        self.assertEqual(self.blocked, [NO_CREDIT, ""])
        self.broker.settle()
        self.assertEqual(self.confirmed, [1])

    def test_no_settlement(self) -> None:
        """A broker that settles nothing counts as blocked after a time, until it settles."""
        self.broker.grant(10)
        self.send()
        self.clock.advance(STALL_TIME)
        self.assertEqual(self.blocked, [NO_SETTLEMENT])
        self.broker.settle()
        self.assertEqual((self.blocked, self.confirmed), ([NO_SETTLEMENT, ""], [1]))

    def test_progress(self) -> None:
        """What the broker settles in time begins the time anew for what is left."""
        self.broker.grant(10)
        self.send()
        self.clock.advance(STALL_TIME - 0.1)
        self.link.send(b"another", 2)
        self.broker.settle()
        self.broker.exchange()
        self.clock.advance(STALL_TIME - 0.1)
        self.assertEqual(self.blocked, [])
        self.clock.advance(0.1)
        self.assertEqual(self.blocked, [NO_SETTLEMENT])

    def test_nothing_outstanding(self) -> None:
        """A broker that nothing is expected from is not blocked."""
        self.broker.grant(10)
        self.send()
        self.broker.settle()
        self.clock.advance(2 * STALL_TIME)
        self.assertEqual(self.blocked, [])

    def test_state_without_outcome(self) -> None:
        """A broker that has a part of a message has neither accepted nor released it. [AMQP] 3.4.1."""
        self.broker.grant(10)
        self.send()
        self.broker.progress()
        self.assertEqual(self.confirmed, [])
        self.broker.settle()
        self.assertEqual(self.confirmed, [1])

    def test_closed_here(self) -> None:
        """A connection that is closed while a message waits leaves no timer, and reports nothing."""
        self.send()
        closed = Deferred.fromCoroutine(self.broker.client.close())
        self.broker.client.connectionLost()
        self.successResultOf(closed)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.blocked, [])
