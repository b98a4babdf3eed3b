"""The connection to a broker that does what a test says."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge_service.amqp10 import consumer
from msmq.bridge_service.amqp10.connection import Amqp10Connection
from msmq.bridge_service.amqp10.messages import encode
from msmq.bridge_service.amqp10.settings import Amqp10Settings
from msmq.interfaces.bridge_messages import DECODE_ERROR, AmqpMessage, AmqpProperties
from tests.bridge_service.amqp10.scripted_broker import ScriptedBroker

EMPTY_FRAME = bytes.fromhex("0000000802000000")
IDLE_TIME = 60
MALFORMED = bytes.fromhex("005373c00804404040a102fffe" + "005375a00178")
"""A message whose subject is not UTF-8."""


class KeepAliveTests(SynchronousTestCase):
    """A connection on which nothing passes."""

    def test_idle_connection(self) -> None:
        """A frame is sent within the time that the broker asks for, also the first one. [AMQP] 2.4.5."""
        clock = Clock()
        broker = ScriptedBroker(clock, IDLE_TIME)
        asked = IDLE_TIME / 2
        silent_since = 0.0
        for _ in range(3 * IDLE_TIME):
            clock.advance(0.25)
            self.assertLess(clock.seconds() - silent_since, asked)
            if broker.wire.value():
                self.assertEqual(broker.wire.value(), EMPTY_FRAME)
                silent_since = clock.seconds()
                broker.wire.clear()


class DeliveryTests(SynchronousTestCase):
    """Messages that the broker delivers."""

    def setUp(self) -> None:
        """A consumer of the address C{incoming}."""
        self.clock = Clock()
        self.broker = ScriptedBroker(self.clock)
        self.connection = Amqp10Connection(self.broker.client, Amqp10Settings(addresses=()), self.clock)
        self.delivered: list[AmqpMessage] = []
        opened = Deferred.fromCoroutine(
            self.connection.open_consumer("incoming", 10, lambda _, message: self.delivered.append(message))
        )
        self.broker.exchange()
        self.consumer = self.successResultOf(opened)

    def test_malformed_message(self) -> None:
        """One that cannot be read has the reason, and those behind it are delivered."""
        self.broker.deliver(MALFORMED)
        self.broker.deliver(encode(AmqpMessage("", "", AmqpProperties(), b"after it")))
        first, second = self.delivered
        self.assertIn("utf-8", first.properties.headers[DECODE_ERROR])
        self.assertEqual(first.body, MALFORMED)
        self.assertEqual(second.body, b"after it")

    def test_credit_for_large_messages(self) -> None:
        """The credit is that of the window while messages are small, and less while they are large; a message
        that is larger than the limit is delivered alone.
        """
        self.patch(consumer, "IN_FLIGHT", 10_000)
        small, large = (encode(AmqpMessage("", "", AmqpProperties(), bytes(size))) for size in (10, 4000))
        tag = 0

        def deliver(message: bytes, number: int) -> None:
            nonlocal tag
            for _ in range(number):
                self.broker.deliver(message)
            tag += number

        def acknowledge(first: int) -> int:
            self.consumer.acknowledge(range(first, tag + 1))
            self.broker.exchange()
            return self.broker.credit

        deliver(small, 10)
        self.assertEqual(self.broker.credit, 0)
        self.assertEqual(acknowledge(1), 10)
        self.broker.deliver(*[large] * 10)
        tag += 10
        self.assertEqual(self.broker.credit, 0)
        self.assertEqual(acknowledge(20), 0)
        self.assertEqual(acknowledge(11), 2)
        self.broker.deliver(encode(AmqpMessage("", "", AmqpProperties(), bytes(20_000))), small)
        tag += 2
        self.assertEqual(acknowledge(21), 1)
        for _ in range(400):
            deliver(small, 1)
            acknowledge(tag)
        self.assertEqual(self.broker.credit, 10)

    def test_larger_messages_than_before(self) -> None:
        """Credit that small messages got is taken back when large ones begin: the broker keeps those for
        which there is no memory. What it has sent by then is taken, and counts.
        """
        self.patch(consumer, "IN_FLIGHT", 10_000)
        large = encode(AmqpMessage("", "", AmqpProperties(), bytes(4000)))
        self.assertEqual(self.broker.credit, 10)
        for _ in range(6):
            self.broker.deliver(large)
        self.assertEqual(len(self.delivered), 2)
        self.consumer.acknowledge([1, 2])
        self.broker.exchange()
        self.assertEqual(len(self.delivered), 4)
        self.consumer.acknowledge([3, 4])
        self.broker.exchange()
        self.assertEqual((len(self.delivered), self.broker.credit), (6, 0))
        self.consumer.acknowledge([5, 6])
        self.broker.exchange()
        self.assertEqual(self.broker.credit, 2)

    def test_fault_of_a_handler(self) -> None:
        """What fails while a message is taken over ends the connection, whose close does not hang."""

        def fail(*_: object) -> None:
            raise KeyError("lost")

        self.consumer._delivered = fail
        self.broker.deliver(encode(AmqpMessage("", "", AmqpProperties(), b"one")))
        self.assertIn("lost", str(self.successResultOf(self.consumer.closed)))
        closed = Deferred.fromCoroutine(self.connection.close())
        self.broker.client.connectionLost()
        self.successResultOf(closed)
