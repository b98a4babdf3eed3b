"""Connections to RabbitMQ: what is opened on them, and brokers that hang."""

from __future__ import annotations

from typing import Any

from pika import spec
from pika.connection import ConnectionParameters
from pika.frame import Body, Header, Heartbeat, Method
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.error import ConnectionAborted
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge_service.brokers import BrokerError, PublishResults
from msmq.bridge_service.rabbitmq import consumer as consumer_module
from msmq.bridge_service.rabbitmq.broker import RabbitBroker
from msmq.bridge_service.rabbitmq.channel import BrokerChannel
from msmq.bridge_service.rabbitmq.connection import RabbitConnection
from msmq.bridge_service.rabbitmq.dead_letter_queue import RabbitDeadLetters
from msmq.bridge_service.rabbitmq.transport import CLOSE_TIME, PikaProtocol
from msmq.interfaces.bridge_messages import AmqpMessage, AmqpProperties
from tests.bridge_service.support import BridgeTestCase, bodies
from tests.servers.rabbitmq import LARGEST_MESSAGE

HEARTBEAT = 10
ANSWER_TIME = 30


def frame(method: Any) -> bytes:
    """A method on channel 0."""
    return bytes(Method(0, method).marshal())


async def no_other() -> PikaProtocol:
    """A connection without dead letters has no other one."""
    raise AssertionError


class HangingBrokerTests(SynchronousTestCase):
    """A broker that neither sends nor reads."""

    def setUp(self) -> None:
        """An open connection."""
        self.clock = Clock()
        self.protocol = PikaProtocol(ConnectionParameters(heartbeat=HEARTBEAT), self.clock)
        # It closes nothing before it has sent everything, as a transport of the reactor.
        self.transport = StringTransport()
        self.protocol.makeConnection(self.transport)
        for method in (
            spec.Connection.Start(0, 9, {}, "PLAIN", "en_US"),
            spec.Connection.Tune(2047, 131072, HEARTBEAT),
            spec.Connection.OpenOk(),
        ):
            self.protocol.dataReceived(frame(method))
        self.successResultOf(self.protocol.opened)

    def end(self) -> None:
        """The transport has ended, which leaves no timer."""
        self.assertTrue(self.transport.disconnected)
        self.protocol.connectionLost(Failure(ConnectionAborted()))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_no_heartbeat(self) -> None:
        """A connection without heartbeats ends within some seconds, also if not all could be sent."""
        channel = BrokerChannel(self.protocol.connection, 2 * ANSWER_TIME, self.clock)
        channel.opened.addErrback(lambda _: None)
        self.clock.pump([1] * (3 * HEARTBEAT))
        self.assertTrue(self.transport.disconnecting)
        self.clock.advance(CLOSE_TIME)
        self.end()
        self.assertIn("heartbeats", str(self.successResultOf(channel.closed)))

    def test_no_answer(self) -> None:
        """A broker that sends heartbeats and nothing else is an error after a time."""
        connection = RabbitConnection(self.protocol, no_other, ANSWER_TIME, self.clock)
        unexpected = lambda *arguments: self.fail(f"{arguments}")  # noqa: E731
        results = PublishResults(
            confirmed=unexpected, returned=unexpected, nacked=unexpected, failed=unexpected
        )
        for answers in ([], [spec.Channel.OpenOk()]):
            opening = Deferred.fromCoroutine(connection.open_publisher("orders", results, unexpected))
            for answer in answers:
                self.protocol.dataReceived(bytes(Method(1 + len(answers), answer).marshal()))
            for _ in range(ANSWER_TIME):
                self.assertNoResult(opening)
                self.protocol.dataReceived(bytes(Heartbeat().marshal()))
                self.clock.advance(1)
            self.assertIn(
                "has not answered within 30 s", str(self.failureResultOf(opening, BrokerError).value)
            )

    def test_large_messages(self) -> None:
        """Nothing is read while messages with too many bytes are not acknowledged, however long that takes;
        heartbeats that are not read are not missed.
        """
        self.patch(consumer_module, "IN_FLIGHT", 1000)
        connection = RabbitConnection(self.protocol, no_other, ANSWER_TIME, self.clock)
        delivered: list[int] = []
        opening = Deferred.fromCoroutine(
            connection.open_consumer("orders", 256, lambda tag, message: delivered.append(tag))
        )
        for answer in (spec.Channel.OpenOk(), spec.Basic.QosOk()):
            self.protocol.dataReceived(bytes(Method(1, answer).marshal()))
        started = spec.Basic.ConsumeOk(self.consumer_tag())
        self.protocol.dataReceived(bytes(Method(1, started).marshal()))
        consumer = self.successResultOf(opening)
        for tag in (1, 2, 3):
            self.assertEqual(self.transport.producerState, "producing")
            self.deliver(tag, bytes(400))
        self.assertEqual(self.transport.producerState, "paused")
        self.clock.pump([1] * (3 * HEARTBEAT))
        self.assertFalse(self.transport.disconnecting)
        consumer.acknowledge([1])
        self.assertEqual(self.transport.producerState, "producing")
        self.deliver(4, bytes(400))
        self.assertEqual(self.transport.producerState, "paused")
        # The answer to the close is behind what was not read.
        closing = Deferred.fromCoroutine(connection.close())
        self.assertEqual(self.transport.producerState, "producing")
        self.protocol.connectionLost(Failure(ConnectionAborted()))
        self.successResultOf(closing)
        self.assertEqual(delivered, [1, 2, 3, 4])

    def test_closed_while_another_is_opened(self) -> None:
        """The connection for dead letters is not opened any more, and a dead letter has failed."""
        opening: Deferred[PikaProtocol] = Deferred()

        async def open_another() -> PikaProtocol:
            return await opening

        connection = RabbitConnection(self.protocol, open_another, ANSWER_TIME, self.clock)
        dead_letters = connection.dead_letters("dead")
        dead_letter = AmqpMessage("", "dead", AmqpProperties(), b"")
        stored = Deferred.fromCoroutine(dead_letters.store(dead_letter))
        self.assertNoResult(stored)
        closing = Deferred.fromCoroutine(connection.close())
        self.assertIn("closed", str(self.failureResultOf(stored, BrokerError).value))
        self.failureResultOf(Deferred.fromCoroutine(dead_letters.store(dead_letter)), BrokerError)
        self.protocol.connectionLost(Failure(ConnectionAborted()))
        self.successResultOf(closing)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def consumer_tag(self) -> str:
        """The tag that pika has chosen for its consumer."""
        [channel] = self.protocol.connection._channels.values()
        [tag] = channel.consumer_tags
        return str(tag)

    def deliver(self, tag: int, body: bytes) -> None:
        """The broker delivers a message."""
        method = spec.Basic.Deliver(self.consumer_tag(), tag, False, "", "orders")
        for part in (Method(1, method), Header(1, len(body), spec.BasicProperties()), Body(1, body)):
            self.protocol.dataReceived(bytes(part.marshal()))

    def test_name_that_is_too_long(self) -> None:
        """A name that AMQP cannot say is an error of the connection, as any other."""
        connection = RabbitConnection(self.protocol, no_other, ANSWER_TIME, self.clock)
        checked = Deferred.fromCoroutine(connection.check("x" * 256))
        self.protocol.dataReceived(bytes(Method(1, spec.Channel.OpenOk()).marshal()))
        self.failureResultOf(checked, BrokerError)

    def test_no_frame(self) -> None:
        """So does one on which something else than AMQP was received."""
        self.protocol.dataReceived(b"\x08\0\0\0\0\0\0no frame")
        self.clock.advance(CLOSE_TIME)
        self.end()


class DeadLetterTests(BridgeTestCase):
    """The queue of the broker for dead letters."""

    async def test_several_at_once(self) -> None:
        """Dead letters that come together share one channel, besides that which looks for the queue."""
        broker = RabbitBroker(self.broker_settings(), reactor)
        connection = await broker.connect(broker.nodes[0])
        self.addCleanup(lambda: Deferred.fromCoroutine(connection.close()))
        name = f"{self.prefix}.dead"
        opened: list[BrokerChannel] = []

        async def open_channel() -> BrokerChannel:
            opened.append(await RabbitConnection.open_channel(connection))
            return opened[-1]

        dead_letters = RabbitDeadLetters(open_channel, name)
        wanted = [b"%d" % number for number in range(20)]
        await gatherResults(
            [
                Deferred.fromCoroutine(dead_letters.store(AmqpMessage("", name, AmqpProperties(), body)))
                for body in wanted
            ]
        )
        self.assertEqual(bodies(await self.get(name, 20)), wanted)
        self.assertEqual(len(opened), 2)

    async def test_channel_is_closed(self) -> None:
        """A dead letter for which the broker closes the channel has failed, and another one is stored."""
        broker = RabbitBroker(self.broker_settings(), reactor)
        connection = await broker.connect(broker.nodes[0])
        self.addCleanup(lambda: Deferred.fromCoroutine(connection.close()))
        name = f"{self.prefix}.dead"
        dead_letters = connection.dead_letters(name)
        large = AmqpMessage("", name, AmqpProperties(), bytes(2 * LARGEST_MESSAGE))
        with self.assertRaisesRegex(BrokerError, "larger than"):
            await dead_letters.store(large)
        await dead_letters.store(AmqpMessage("", name, AmqpProperties(), b"one"))
        self.assertEqual(bodies(await self.get(name, 1)), [b"one"])

    async def test_queue_is_deleted(self) -> None:
        """A queue for dead letters that an operator deletes is declared again by the next attempt."""
        broker = RabbitBroker(self.broker_settings(), reactor)
        connection = await broker.connect(broker.nodes[0])
        self.addCleanup(lambda: Deferred.fromCoroutine(connection.close()))
        name = f"{self.prefix}.dead"
        dead_letters = connection.dead_letters(name)
        await dead_letters.store(AmqpMessage("", name, AmqpProperties(), b"one"))
        await self.on_channel(lambda channel: channel.queue_delete(name))
        two = AmqpMessage("", name, AmqpProperties(), b"two")
        with self.assertRaisesRegex(BrokerError, "unroutable"):
            await dead_letters.store(two)
        await dead_letters.store(two)
        self.assertEqual(bodies(await self.get(name, 1)), [b"two"])
