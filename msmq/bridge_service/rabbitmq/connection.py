"""Connections to brokers: one attempt, and supervision that tries the next node after a back-off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import attrs
from pika.connection import ConnectionParameters
from pika.credentials import PlainCredentials
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import HostnameEndpoint, connectProtocol, wrapClientTLS
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.ssl import (
    Certificate,
    PrivateCertificate,
    optionsForClientTLS,
    trustRootFromCertificates,
)
from twisted.internet.task import deferLater

from msmq.bridge_service.rabbitmq.channel import BrokerChannel
from msmq.bridge_service.rabbitmq.errors import BrokerError, broker_error
from msmq.bridge_service.rabbitmq.settings import BrokerAddress, BrokerSettings
from msmq.bridge_service.rabbitmq.transport import PikaProtocol

_PEM_END: Final = b"-----END CERTIFICATE-----"


class BrokerConnection:
    """An open connection to a broker.

    @ivar closed: fires with the reason, a L{BrokerError}.
    @ivar is_working: whether a message has gone through; the back-off begins anew then.
    """

    def __init__(self, protocol: PikaProtocol, address: BrokerAddress) -> None:
        self._protocol = protocol
        self.address = address
        self.is_working = False
        self.closed: Deferred[BrokerError] = protocol.closed.addCallback(broker_error)

    async def open_channel(self) -> BrokerChannel:
        """Open a channel.

        @raise BrokerError: the connection was closed.
        """
        channel = BrokerChannel(self._protocol.connection)
        await channel.opened
        return channel

    def on_blocked(self, changed: Callable[[bool], None]) -> None:
        """Have a callable called when the broker accepts no messages (an alarm), and when it does again."""
        connection = self._protocol.connection
        connection.add_on_connection_blocked_callback(lambda *_: changed(True))
        connection.add_on_connection_unblocked_callback(lambda *_: changed(False))

    async def close(self) -> None:
        """Close it; done when it is closed."""
        await self._protocol.close()


async def connect(settings: BrokerSettings, address: BrokerAddress, reactor: Any) -> BrokerConnection:
    """Connect to a node, and log in.

    @raise BrokerError: it cannot be reached, or refuses the login or the virtual host.
    """
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
        host = address.host.encode("ascii" if address.host.isascii() else "idna")
        endpoint: Any = HostnameEndpoint(reactor, host, address.port, settings.connect_time)
        if settings.is_tls:
            endpoint = wrapClientTLS(_tls(settings, address.host), endpoint)
        await connectProtocol(endpoint, protocol)
        await protocol.opened.addTimeout(settings.connect_time, reactor)
    except (CancelledError, ConnectingCancelledError) as error:
        await protocol.close()
        raise CancelledError from error
    except Exception as error:
        # pika's errors, Twisted's, and those of OpenSSL, have no common base.
        await protocol.close()
        raise broker_error(error) from error
    return BrokerConnection(protocol, address)


def _tls(settings: BrokerSettings, host: str) -> Any:
    """The TLS of a client; the name or address of the broker has to be in its certificate."""
    trusted = client = None
    if settings.ca_file is not None:
        content = Path(settings.ca_file).read_bytes()
        trusted = trustRootFromCertificates(
            [Certificate.loadPEM(part + _PEM_END) for part in content.split(_PEM_END)[:-1]]
        )
    if settings.certificate_file is not None:
        client = PrivateCertificate.loadPEM(Path(settings.certificate_file).read_bytes())
    return optionsForClientTLS(host, trusted, client)


@attrs.frozen(kw_only=True)
class ConnectionReports:
    """What a supervised connection reports.

    @ivar connected: a node accepted the connection.
    @ivar failed: an attempt failed, or the connection is lost; the next attempt follows in some seconds.
    @ivar is_stopped: whether there shall be no further attempt; not every endpoint can be cancelled.
    """

    connected: Callable[[BrokerAddress], None]
    failed: Callable[[BrokerError, float], None]
    is_stopped: Callable[[], bool]


async def supervise(
    settings: BrokerSettings,
    reactor: IReactorTime,
    use: Callable[[BrokerConnection], Awaitable[None]],
    reports: ConnectionReports,
) -> None:
    """Keep a connection to one of the nodes until this is cancelled.

    @param use: called with each new connection; it is closed when the result fires, or fails with a
        L{BrokerError}.
    """
    delay = settings.retry
    for address in cycle(settings.addresses):
        connection = None
        try:
            connection = await connect(settings, address, reactor)
            if reports.is_stopped():
                return
            reports.connected(address)
            await use(connection)
            error = BrokerError("the connection was closed")
        except BrokerError as refused:
            error = refused
        finally:
            if connection is not None:
                await connection.close()
        if reports.is_stopped():
            return
        if connection is not None and connection.is_working:
            delay = settings.retry
        reports.failed(error, delay)
        await deferLater(reactor, delay)
        delay = min(2 * delay, settings.retry_maximum)
