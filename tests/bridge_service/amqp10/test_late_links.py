"""Links that are opened when the first message for their address comes."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge_service.amqp10.connection import Amqp10Connection
from msmq.bridge_service.amqp10.settings import Amqp10Settings
from msmq.bridge_service.brokers import BrokerError, PublishResults
from msmq.interfaces.bridge_messages import AmqpMessage, AmqpProperties, QueuedMessage
from tests.bridge_service.amqp10.scripted_broker import ScriptedBroker

SETTINGS = Amqp10Settings(addresses=())


def dead_letter(body: bytes) -> AmqpMessage:
    """A message that is stored as a dead letter."""
    return AmqpMessage("", "dead", AmqpProperties(message_id="1"), body)


class LateLinkCase(SynchronousTestCase):
    """A connection to a scripted broker."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.broker = ScriptedBroker(self.clock)
        self.connection = Amqp10Connection(self.broker.client, SETTINGS, self.clock)


class DeadLetterTests(LateLinkCase):
    """Dead letters at the broker."""

    def setUp(self) -> None:
        super().setUp()
        self.letters = self.connection.dead_letters("dead")

    def store(self, body: bytes) -> Deferred[None]:
        """Store one; fires when the broker has it."""
        return Deferred.fromCoroutine(self.letters.store(dead_letter(body)))

    def test_several_at_once(self) -> None:
        """Those that are stored while the link is opened share it."""
        stored = [self.store(b"%d" % number) for number in range(3)]
        self.broker.exchange()
        self.broker.grant(10)
        self.broker.settle()
        for each in stored:
            self.successResultOf(each)
        self.assertEqual(self.broker.links, ["dead"])

    def test_no_answer(self) -> None:
        """A broker that does not answer is an error after a time, and is asked again for the next one."""
        self.broker.is_deaf = True
        stored = self.store(b"1")
        self.broker.exchange()
        self.clock.advance(SETTINGS.connect_time - 0.1)
        self.assertNoResult(stored)
        self.clock.advance(0.1)
        self.assertIn("has not answered", str(self.failureResultOf(stored, BrokerError).value))
        self.broker.is_deaf = False
        stored = self.store(b"2")
        self.broker.exchange()
        self.broker.grant(1)
        self.broker.settle()
        self.successResultOf(stored)


class ReplyTests(LateLinkCase):
    """Replies to addresses that requests have named."""

    def test_no_answer(self) -> None:
        """A broker that does not answer ends the publisher after a time, so that the route connects anew."""
        unexpected = lambda *arguments: self.fail(f"{arguments}")  # noqa: E731
        results = PublishResults(
            confirmed=unexpected, returned=unexpected, nacked=unexpected, failed=unexpected
        )
        publisher = self.successResultOf(
            Deferred.fromCoroutine(self.connection.open_publisher("", results, unexpected))
        )
        self.broker.is_deaf = True
        request = QueuedMessage({"id": "1"}, b"yes")
        publisher.publish(request, AmqpMessage("", "answers", AmqpProperties(message_id="1"), b"yes"), 1)
        self.broker.exchange()
        self.clock.advance(SETTINGS.connect_time - 0.1)
        self.assertNoResult(publisher.closed)
        self.clock.advance(0.1)
        self.assertIn("has not answered", str(self.successResultOf(publisher.closed)))
