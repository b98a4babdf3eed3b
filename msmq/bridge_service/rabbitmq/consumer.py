"""Consuming a queue of the broker: deliveries, and acknowledgements of as many as possible at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pika.spec import Basic
from twisted.internet.defer import Deferred
from zope.interface import implementer

from msmq.bridge_service.brokers import IN_FLIGHT, BrokerError, IConsumer
from msmq.bridge_service.rabbitmq.basic_properties import from_pika
from msmq.bridge_service.rabbitmq.channel import BrokerChannel
from msmq.interfaces.bridge_messages import AmqpMessage


class PausedReading(Protocol):
    """The part of a connection that a consumer uses."""

    def pause_reading(self) -> None:
        """Read nothing more until L{resume_reading}."""

    def resume_reading(self) -> None:
        """Read again."""


@implementer(IConsumer)
class QueueConsumer:
    """A consumer of one queue on a channel of its own, which nothing else waits for on its connection.

    The prefetch limit counts messages, and a publisher may send large ones: while those that are not
    acknowledged have more than L{IN_FLIGHT} bytes, nothing is read.

    @param delivered: called with the delivery tag and the message.
    """

    def __init__(
        self,
        channel: BrokerChannel,
        delivered: Callable[[int, AmqpMessage], None],
        connection: PausedReading,
    ) -> None:
        self.closed: Deferred[BrokerError] = channel.closed
        self._channel = channel
        self._call = delivered
        self._connection = connection
        self._unacknowledged: dict[int, int] = {}
        self._size = 0
        self._is_paused = False

    async def start(self, queue: str, prefetch: int) -> None:
        """Begin to consume.

        @param prefetch: limit on messages that are delivered and not acknowledged.
        @raise BrokerError: there is no such queue, or the channel was closed.
        """
        await self._channel.request("basic_qos", prefetch_count=prefetch)
        self._channel.channel.add_on_cancel_callback(
            lambda _: self._channel.fail(
                f"the broker has ended the consumer of queue {queue}; it was deleted"
            )
        )
        await self._channel.request("basic_consume", queue=queue, on_message_callback=self._delivered)

    def acknowledge(self, tags: Iterable[int]) -> None:
        """Acknowledge messages; no effect if the channel is closed."""
        if not self._channel.is_open:
            return
        wanted = {tag for tag in tags if tag in self._unacknowledged}
        last = 0
        for tag in list(self._unacknowledged):
            if tag not in wanted:
                break
            last = tag
            wanted.discard(tag)
            self._size -= self._unacknowledged.pop(tag)
        if last:
            self._channel.channel.basic_ack(last, multiple=True)
        for tag in sorted(wanted):
            self._size -= self._unacknowledged.pop(tag)
            self._channel.channel.basic_ack(tag)
        if self._is_paused and self._size < IN_FLIGHT:
            self._is_paused = False
            self._connection.resume_reading()

    def _delivered(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._unacknowledged[method.delivery_tag] = len(body)
        self._size += len(body)
        if self._size >= IN_FLIGHT and not self._is_paused:
            self._is_paused = True
            self._connection.pause_reading()
        self._call(method.delivery_tag, from_pika(method, properties, body))


async def peek(channel: BrokerChannel, queue: str, count: int) -> list[AmqpMessage]:
    """The first messages of a queue, which return to it when the channel closes.

    @raise BrokerError: there is no such queue, or the channel was closed.
    """
    await channel.request("queue_declare", queue=queue, passive=True)
    answers: list[Deferred[AmqpMessage | None]] = []
    channel.channel.add_callback(lambda _: channel.fire(answers[-1], None), [Basic.GetEmpty], one_shot=False)

    def got(_: Any, method: Any, properties: Any, body: bytes) -> None:
        channel.fire(answers[-1], from_pika(method, properties, body))

    found: list[AmqpMessage] = []
    while len(found) < count:
        answers.append(channel.awaited())
        channel.channel.basic_get(queue, got)
        message = await answers[-1]
        if message is None:
            break
        found.append(message)
    return found
