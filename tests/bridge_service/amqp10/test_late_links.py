"""Links that are opened when the first message for their address comes."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge_service.amqp10.connection import Amqp10Connection
from msmq.bridge_service.amqp10.publisher import LARGEST_NUMBER
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
        self.dead_letters = self.connection.dead_letters("dead")

    def store(self, body: bytes) -> Deferred[None]:
        """Store one; fires when the broker has it."""
        return Deferred.fromCoroutine(self.dead_letters.store(dead_letter(body)))

    def test_several_at_once(self) -> None:
        """Those that are stored while the link is opened share it."""
        stored = [self.store(b"%d" % number) for number in range(1000)]
        self.broker.exchange()
        self.broker.grant(1000)
        self.broker.settle()
        for each in stored:
            self.successResultOf(each)
        self.assertEqual(self.broker.links, ["dead"])

    def test_several_without_an_answer(self) -> None:
        """The time of the answer is that of all."""
        self.broker.is_deaf = True
        stored = [self.store(b"%d" % number) for number in range(3)]
        self.clock.advance(SETTINGS.connect_time)
        for each in stored:
            self.failureResultOf(each, BrokerError)

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

    def setUp(self) -> None:
        super().setUp()
        self.confirmed: list[int] = []
        unexpected = lambda *arguments: self.fail(f"{arguments}")  # noqa: E731
        self.results = PublishResults(
            confirmed=self.confirmed.append, returned=unexpected, nacked=unexpected, failed=unexpected
        )
        self.publisher = self.successResultOf(
            Deferred.fromCoroutine(self.connection.open_publisher("", self.results, unexpected))
        )

    def publish(self, token: int, address: str = "answers") -> None:
        """Publish a reply."""
        request = QueuedMessage({"id": f"{token}"}, b"yes")
        self.publisher.publish(request, AmqpMessage("", address, AmqpProperties(), b"yes"), token)
        self.broker.exchange()

    def publish_and_settle(self, token: int, address: str = "answers") -> None:
        """Publish a reply, which the broker accepts."""
        self.publish(token, address)
        self.broker.grant(1)
        self.broker.settle()

    def test_no_answer(self) -> None:
        """A broker that does not answer ends the publisher after a time, so that the route connects anew."""
        self.broker.is_deaf = True
        self.publish(1)
        self.clock.advance(SETTINGS.connect_time - 0.1)
        self.assertNoResult(self.publisher.closed)
        self.clock.advance(0.1)
        self.assertIn("has not answered", str(self.successResultOf(self.publisher.closed)))

    def test_connection_ends_before_the_answer(self) -> None:
        """A reply whose link is being opened when the connection ends has not failed: it is sent again."""
        self.broker.is_deaf = True
        self.publish(1)
        self.broker.close()
        self.successResultOf(self.publisher.closed)

    def test_closed_here_before_the_answer(self) -> None:
        """A connection that is closed while a link is being opened leaves no timer."""
        self.broker.is_deaf = True
        self.publish(1)
        closed = Deferred.fromCoroutine(self.connection.close())
        self.broker.client.connectionLost()
        self.successResultOf(closed)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_address_of_a_program(self) -> None:
        """A message for another address than that of the route goes there."""
        opening = Deferred.fromCoroutine(
            self.connection.open_publisher("orders", self.results, lambda _: None)
        )
        self.broker.exchange()
        publisher = self.successResultOf(opening)
        message = AmqpMessage("urgent", "", AmqpProperties(), b"now")
        publisher.publish(QueuedMessage({"id": "1"}, b"now"), message, 1)
        self.broker.exchange()
        self.broker.grant(1)
        self.broker.settle()
        self.assertEqual((self.broker.links, self.confirmed), (["orders", "urgent"], [1]))

    def test_idle_link_ends(self) -> None:
        """A broker that closes a link on which nothing is under way does not end the others."""
        self.publish_and_settle(1)
        self.broker.end_link()
        self.assertNoResult(self.publisher.closed)
        self.publish_and_settle(2)
        self.assertEqual(self.confirmed, [1, 2])
        self.assertEqual(self.broker.links, ["answers", "answers"])

    def test_busy_link_ends(self) -> None:
        """A broker that closes a link without settling its messages has the route connect anew."""
        self.publish(1)
        self.broker.end_link()
        self.successResultOf(self.publisher.closed)

    def test_many_addresses(self) -> None:
        """Links that are closed since others were needed leave nothing behind at either side."""
        for token in range(3 * LARGEST_NUMBER):
            self.publish_and_settle(token, f"client-{token}")
        self.assertEqual(len(self.confirmed), 3 * LARGEST_NUMBER)
        session, number = self.broker.client._connection.session_head(0), 0
        while session is not None:
            session, number = session.next(0), number + 1
        self.assertEqual(number, LARGEST_NUMBER)
