"""Connections to brokers of AMQP 1.0: one attempt, and what a route opens on a connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import connectProtocol
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.bridge_service.amqp10.answer_time import NoAnswer, in_time
from msmq.bridge_service.amqp10.consumer import Amqp10Consumer
from msmq.bridge_service.amqp10.engine import EngineProtocol
from msmq.bridge_service.amqp10.errors import broker_error
from msmq.bridge_service.amqp10.messages import encode
from msmq.bridge_service.amqp10.publisher import Amqp10Publisher
from msmq.bridge_service.amqp10.sender import SenderLink
from msmq.bridge_service.amqp10.settings import Amqp10Settings
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.brokers import (
    BrokerError,
    DeadLetterError,
    IBrokerConnection,
    IDeadLetterPublisher,
    PublishResults,
)
from msmq.bridge_service.client_endpoints import client_endpoint
from msmq.bridge_service.shared_opening import SharedOpening
from msmq.interfaces.bridge_messages import AmqpMessage

QUIET: Final = 0.5
"""Seconds without a message after which L{Amqp10Connection.peek} expects no others."""


@implementer(IBrokerConnection)
class Amqp10Connection:
    """An open connection to a node."""

    def __init__(self, engine: EngineProtocol, settings: Amqp10Settings, reactor: Any) -> None:
        self._engine = engine
        self._settings = settings
        self._reactor = reactor
        self._publisher: Amqp10Publisher | None = None
        self.is_working = False

    async def check(self, destination: str) -> None:
        """See L{IBrokerConnection}; the destination is an address."""
        if destination:
            results = PublishResults(confirmed=_ignore, returned=_ignore, nacked=_ignore, failed=_ignore)
            link = SenderLink(self._engine, destination, results, self._reactor)
            await self._in_time(link.open())
            link.detach()

    async def open_publisher(
        self, destination: str, results: PublishResults, blocked: Callable[[str], None]
    ) -> Amqp10Publisher:
        """See L{IBrokerConnection}; the destination is an address."""
        publisher = Amqp10Publisher(self._engine, self._settings, results, self._reactor)
        await self._in_time(publisher.start(destination, blocked))
        self._engine.ended.addCallback(publisher.end)
        return publisher

    async def open_consumer(
        self, source: str, prefetch: int, delivered: Callable[[int, AmqpMessage], None]
    ) -> Amqp10Consumer:
        """See L{IBrokerConnection}; the source is an address."""
        consumer = Amqp10Consumer(self._engine, source, prefetch, delivered)
        await self._in_time(consumer.open())
        return consumer

    def dead_letters(self, name: str) -> Amqp10DeadLetters:
        """See L{IBrokerConnection}; the name is an address."""
        return Amqp10DeadLetters(self._engine, self._settings, name, self._reactor)

    async def peek(self, source: str, count: int) -> Sequence[AmqpMessage]:
        """See L{IBrokerConnection}."""
        found: list[AmqpMessage] = []
        consumer = Amqp10Consumer(self._engine, source, count, lambda _, message: found.append(message))
        await self._in_time(consumer.open())
        # Not every broker can drain a link: what does not come for a while is not there.
        number = -1
        while number < len(found) < count:
            number = len(found)
            await deferLater(self._reactor, QUIET)
        consumer.release()
        return found

    async def close(self) -> None:
        """See L{IBrokerConnection}."""
        await self._engine.close()

    async def _in_time(self, work: Any) -> None:
        await in_time(work, self._settings.connect_time, self._reactor)


@implementer(IDeadLetterPublisher)
class Amqp10DeadLetters:
    """Stores dead letters at an address, with a link that is opened before the first one."""

    def __init__(
        self, engine: EngineProtocol, settings: Amqp10Settings, address: str, reactor: IReactorTime
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._address = address
        self._reactor = reactor
        self._link: SenderLink | None = None
        self._opening = SharedOpening(self._open_link)
        self._last = 0
        self._waiting: dict[int, Deferred[None]] = {}

    async def store(self, message: AmqpMessage) -> None:
        """See L{IDeadLetterPublisher}."""
        link = self._link
        if link is None:
            link = await self._opening.result()
        self._last += 1
        token = self._last
        stored = self._waiting[token] = Deferred()
        try:
            link.send(encode(message), token)
        except ValueError as error:
            del self._waiting[token]
            raise DeadLetterError(f"the dead letter cannot be encoded: {error}") from error
        await stored

    async def _open_link(self) -> SenderLink:
        results = PublishResults(
            confirmed=self._confirmed, returned=self._refused, nacked=self._released, failed=self._refused
        )
        link = SenderLink(self._engine, self._address, results, self._reactor)
        try:
            await in_time(link.open(), self._settings.connect_time, self._reactor)
        except NoAnswer:
            link.detach()
            raise
        link.closed.addCallback(self._closed)
        self._link = link
        return link

    def _confirmed(self, token: int) -> None:
        self._waiting.pop(token).callback(None)

    def _refused(self, token: int, reason: str) -> None:
        self._waiting.pop(token).errback(Failure(BrokerError(f"address {self._address}: {reason}")))

    def _released(self, token: int) -> None:
        self._refused(token, "the message was released")

    def _closed(self, error: BrokerError) -> None:
        self._link = None
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.errback(Failure(error))


async def connect(settings: Amqp10Settings, address: BrokerAddress, reactor: Any) -> Amqp10Connection:
    """Connect to a node, and log in.

    @raise BrokerError: it cannot be reached, or refuses the login.
    """
    engine = EngineProtocol(settings, address.host, reactor)
    try:
        await connectProtocol(client_endpoint(settings, address, reactor), engine)
        await engine.opened.addTimeout(settings.connect_time, reactor)
    except (CancelledError, ConnectingCancelledError) as error:
        await engine.close()
        raise CancelledError from error
    except Exception as error:
        # proton's errors, Twisted's, and those of OpenSSL, have no common base.
        await engine.close()
        raise broker_error(error) from error
    return Amqp10Connection(engine, settings, reactor)


def _ignore(*_: object) -> None:
    """A result that is of no interest."""
