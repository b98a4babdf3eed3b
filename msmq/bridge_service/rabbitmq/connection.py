"""Connections to RabbitMQ: one attempt, and what a route opens on a connection."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from pika.connection import ConnectionParameters
from pika.credentials import PlainCredentials
from pika.exceptions import AMQPError
from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.endpoints import connectProtocol
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.brokers import BrokerError, IBrokerConnection, PublishResults
from msmq.bridge_service.client_endpoints import client_endpoint
from msmq.bridge_service.rabbitmq.channel import BrokerChannel
from msmq.bridge_service.rabbitmq.consumer import QueueConsumer, peek
from msmq.bridge_service.rabbitmq.dead_letter_queue import RabbitDeadLetters
from msmq.bridge_service.rabbitmq.errors import broker_error
from msmq.bridge_service.rabbitmq.publisher import ConfirmedPublisher
from msmq.bridge_service.rabbitmq.settings import RabbitSettings
from msmq.bridge_service.rabbitmq.transport import PikaProtocol
from msmq.interfaces.bridge_messages import AmqpMessage

ALARM: Final = "the broker has raised an alarm"
"""The reason while the broker blocks connections that publish."""

_CLOSED: Final = "the connection was closed"


@implementer(IBrokerConnection)
class RabbitConnection:
    """An open connection to a node, and another one for dead letters once there are any.

    While the broker has an alarm it reads nothing more from a connection that publishes, acknowledgements
    included; and what is published is not confirmed while this side reads nothing.

    @param open_another: opens the other connection.
    """

    def __init__(
        self,
        protocol: PikaProtocol,
        open_another: Callable[[], Coroutine[Any, Any, PikaProtocol]],
        answer_time: float,
        reactor: IReactorTime,
    ) -> None:
        self._protocol = protocol
        self._open_another = open_another
        self._other: PikaProtocol | None = None
        self._opening: Deferred[PikaProtocol] | None = None
        self._is_closed = False
        self._answer_time = answer_time
        self._reactor = reactor
        self.is_working = False

    async def open_channel(self) -> BrokerChannel:
        """Open a channel.

        @raise BrokerError: the connection was closed, has as many channels as it may have, or the broker does
            not answer.
        """
        return await self._open_channel(self._protocol)

    async def open_other_channel(self) -> BrokerChannel:
        """Open a channel of the connection for dead letters, one after the other.

        @raise BrokerError: as L{open_channel}, or there is no such connection.
        """
        if self._is_closed:
            raise BrokerError(_CLOSED)
        if self._other is None or not self._other.connection.is_open:
            self._opening = Deferred.fromCoroutine(self._open_another())
            try:
                self._other = await self._opening
            except CancelledError as error:
                raise BrokerError(_CLOSED) from error
            finally:
                self._opening = None
        return await self._open_channel(self._other)

    async def _open_channel(self, protocol: PikaProtocol) -> BrokerChannel:
        try:
            channel = BrokerChannel(protocol.connection, self._answer_time, self._reactor)
        except AMQPError as error:
            raise broker_error(error) from error
        await channel.opened
        return channel

    async def check(self, destination: str) -> None:
        """See L{IBrokerConnection}; the destination is an exchange."""
        await self._checked_channel(destination)

    async def open_publisher(
        self, destination: str, results: PublishResults, blocked: Callable[[str], None]
    ) -> ConfirmedPublisher:
        """See L{IBrokerConnection}; the destination is an exchange."""
        publisher = ConfirmedPublisher(await self._checked_channel(destination), results, destination)
        await publisher.start()
        connection = self._protocol.connection
        connection.add_on_connection_blocked_callback(lambda *_: blocked(ALARM))
        connection.add_on_connection_unblocked_callback(lambda *_: blocked(""))
        return publisher

    async def open_consumer(
        self, source: str, prefetch: int, delivered: Callable[[int, AmqpMessage], None]
    ) -> QueueConsumer:
        """See L{IBrokerConnection}; the source is a queue."""
        consumer = QueueConsumer(await self.open_channel(), delivered, self._protocol)
        await consumer.start(source, prefetch)
        return consumer

    def dead_letters(self, name: str) -> RabbitDeadLetters:
        """See L{IBrokerConnection}; the name is that of a queue."""
        return RabbitDeadLetters(self.open_other_channel, name)

    async def peek(self, source: str, count: int) -> Sequence[AmqpMessage]:
        """See L{IBrokerConnection}."""
        return await peek(await self.open_channel(), source, count)

    async def close(self) -> None:
        """See L{IBrokerConnection}."""
        self._is_closed = True
        ends: list[Deferred[Any]] = []
        if self._opening is not None:
            ends.append(self._opening)
            self._opening.cancel()
        for protocol in (self._protocol, self._other):
            if protocol is not None:
                ends.append(Deferred.fromCoroutine(protocol.close()))
        for is_closed, failure in await DeferredList(ends, consumeErrors=True):
            if not is_closed:
                failure.raiseException()

    async def _checked_channel(self, exchange: str) -> BrokerChannel:
        channel = await self.open_channel()
        if exchange:
            await channel.request("exchange_declare", exchange=exchange, passive=True)
        return channel


async def connect(settings: RabbitSettings, address: BrokerAddress, reactor: Any) -> RabbitConnection:
    """Connect to a node, and log in.

    @raise BrokerError: it cannot be reached, or refuses the login or the virtual host.
    """

    async def open_protocol() -> PikaProtocol:
        return await _connected(settings, address, reactor)

    return RabbitConnection(await open_protocol(), open_protocol, settings.connect_time, reactor)


async def _connected(settings: RabbitSettings, address: BrokerAddress, reactor: Any) -> PikaProtocol:
    parameters = ConnectionParameters(
        host=address.host,
        port=address.port,
        virtual_host=settings.virtual_host,
        credentials=PlainCredentials(settings.user, settings.password),
        heartbeat=settings.heartbeat,
        client_properties={"connection_name": "msmq bridge"},
    )
    protocol = PikaProtocol(parameters, reactor)
    try:
        await connectProtocol(client_endpoint(settings, address, reactor), protocol)
        await protocol.opened.addTimeout(settings.connect_time, reactor)
    except (CancelledError, ConnectingCancelledError) as error:
        await protocol.close()
        raise CancelledError from error
    except Exception as error:
        # pika's errors, Twisted's, and those of OpenSSL, have no common base.
        await protocol.close()
        raise broker_error(error) from error
    return protocol
