"""The queue of the broker for messages that could not be delivered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.bridge_service.brokers import (
    BrokerError,
    DeadLetterError,
    IDeadLetterPublisher,
    PublishResults,
)
from msmq.bridge_service.rabbitmq.channel import BrokerChannel
from msmq.bridge_service.rabbitmq.publisher import ConfirmedPublisher
from msmq.bridge_service.shared_opening import SharedOpening
from msmq.interfaces.bridge_messages import AmqpMessage


@implementer(IDeadLetterPublisher)
class RabbitDeadLetters:
    """Stores dead letters in a durable queue, which is declared before the first one, and if it is missing.

    @param open_channel: opens a channel of the connection.
    @param name: of the queue.
    """

    def __init__(self, open_channel: Callable[[], Awaitable[BrokerChannel]], name: str) -> None:
        self._open_channel = open_channel
        self._name = name
        self._channel: BrokerChannel | None = None
        self._publisher: ConfirmedPublisher | None = None
        self._is_missing = False
        self._opening = SharedOpening(self._open)
        self._tokens = count(1)
        self._waiting: dict[int, Deferred[None]] = {}
        self._returned: dict[int, str] = {}

    async def store(self, message: AmqpMessage) -> None:
        """Publish a dead letter; done when the broker has confirmed it.

        @raise BrokerError: it is not stored.
        """
        publisher = self._publisher
        if publisher is None or self._channel is None or not self._channel.is_open or self._is_missing:
            publisher = await self._opening.result()
        token = next(self._tokens)
        stored = self._waiting[token] = Deferred()
        try:
            publisher.publish(None, message, token)
        except ValueError as error:
            del self._waiting[token]
            raise DeadLetterError(f"AMQP cannot encode the dead letter: {error}") from error
        await stored

    async def _open(self) -> ConfirmedPublisher:
        if self._is_missing and self._channel is not None:
            self._channel.fail(f"queue {self._name} was deleted")
        self._is_missing = False
        channel = await self._open_channel()
        try:
            await channel.request("queue_declare", queue=self._name, passive=True)
        except BrokerError:
            # A queue that exists may have other properties than those that are declared here.
            channel = await self._open_channel()
            await channel.request("queue_declare", queue=self._name, durable=True)
        publisher = ConfirmedPublisher(
            channel,
            PublishResults(
                confirmed=self._confirmed,
                returned=self._note_return,
                nacked=self._nacked,
                failed=self._note_return,
            ),
        )
        await publisher.start()
        publisher.closed.addCallback(self._closed)
        self._channel, self._publisher = channel, publisher
        return publisher

    def _note_return(self, token: int, reason: str) -> None:
        self._returned[token] = reason

    def _confirmed(self, token: int) -> None:
        reason = self._returned.pop(token, None)
        waiting = self._waiting.pop(token)
        if reason is None:
            waiting.callback(None)
        else:
            # It was deleted, and is declared again before the next one.
            self._is_missing = True
            waiting.errback(Failure(BrokerError(f"queue {self._name}: {reason}")))

    def _nacked(self, token: int) -> None:
        self._returned.pop(token, None)
        self._waiting.pop(token).errback(Failure(BrokerError(f"queue {self._name} refuses messages")))

    def _closed(self, error: BrokerError) -> None:
        waiting, self._waiting = self._waiting, {}
        self._returned.clear()
        for each in waiting.values():
            each.errback(Failure(error))
