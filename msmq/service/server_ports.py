"""The ports of one server: it opens them, knows their addresses, and closes them with its other parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IReactorTime

from msmq.errors import MsmqError
from msmq.interfaces.security.tls import EndpointCertificate, IReloadableTls, ITls, TlsError
from msmq.net.discovery import DiscoveryServerProtocol
from msmq.net.endpoints import DatagramEndpoint, StreamEndpoint, server_endpoint, socket_text
from msmq.net.ping import PingReactor, PingResponderProtocol
from msmq.service.control_socket import reason


class StartError(MsmqError):
    """The server cannot start; has the reason."""


class ServerPorts:
    """The TCP and UDP ports of a server.

    @param on_stop: takes what closes a port.
    @param log_line: logs a line about an endpoint that is not opened.
    @ivar reloadable: the endpoints whose certificates can be reloaded, by key: C{listen.session}.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        on_stop: Callable[[Callable[[], object]], object],
        log_line: Callable[[str], object],
    ) -> None:
        self._reactor = reactor
        self._on_stop = on_stop
        self._log_line = log_line
        self._addresses: list[str] = []
        self.reloadable: dict[str, IReloadableTls] = {}

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses at which peers reach it: C{TCP 127.0.0.1:1801}, C{UDP 127.0.0.1:3527}."""
        return tuple(self._addresses)

    def forget(self) -> None:
        """The server stops: it has no addresses, and no endpoint to reload."""
        self._addresses.clear()
        self.reloadable.clear()

    def certificates(self, now: float) -> list[EndpointCertificate]:
        """The certificates of the endpoints whose expiry is known.

        @param now: seconds since 1970-01-01 UTC.
        """
        return [
            EndpointCertificate(endpoint=key, not_after=end, remaining=end - now)
            for key, endpoint in self.reloadable.items()
            if (end := endpoint.not_after) is not None
        ]

    async def listen(
        self, key: str, endpoint: StreamEndpoint, factory: IProtocolFactory, tls: ITls | None
    ) -> IListeningPort:
        """Open a port for connections of operators.

        @param key: of the table C{[listen]}.
        @raise StartError: it cannot be opened.
        """
        try:
            described = server_endpoint(self._reactor, endpoint.description, tls)
        except Exception as error:
            # Each kind of endpoint raises its own errors: a missing file, an invalid key.
            raise StartError(f"cannot use the endpoint {endpoint.description}: {error}") from error
        reloadable = IReloadableTls(described, None)
        if reloadable is not None:
            self.reloadable[f"listen.{key}"] = reloadable
        try:
            port = await described.listen(factory)
        except CannotListenError as error:
            raise StartError(f"cannot listen on {endpoint}: {reason(error)}") from error
        except TlsError as error:
            raise StartError(f"cannot use the endpoint {endpoint.description}: {error}") from error
        self._on_stop(port.stopListening)
        return port

    async def listen_for_sessions(
        self, endpoint: StreamEndpoint, factory: IProtocolFactory, tls: ITls | None
    ) -> None:
        """Open the port for sessions.

        @raise StartError: it cannot be opened.
        """
        self._add(await self.listen("session", endpoint, factory, tls))

    def listen_for_pings(self, endpoint: DatagramEndpoint, pings: PingResponderProtocol) -> None:
        """Open the port for pings.

        @raise StartError: it cannot be opened.
        """
        try:
            port = cast(PingReactor, self._reactor).listenUDP(
                endpoint.port, pings, interface=endpoint.interface
            )
        except CannotListenError as error:
            raise StartError(f"cannot listen on {endpoint}: {reason(error)}") from error
        self._on_stop(port.stopListening)
        self._add(port)

    def listen_for_discovery(self, endpoint: DatagramEndpoint, discovery: DiscoveryServerProtocol) -> None:
        """Open the port for discovery requests.

        @raise StartError: it cannot be opened.
        """
        if ":" in endpoint.interface:
            self._log_line(f"discovery needs IPv4; {endpoint} is not opened")
            return
        try:
            port = discovery.listen(endpoint.port, endpoint.interface)
        except CannotListenError as error:
            raise StartError(f"cannot listen on {endpoint} for discovery: {reason(error)}") from error
        self._on_stop(discovery.stop)
        self._add(port)

    def _add(self, port: IListeningPort) -> None:
        host = port.getHost()
        if isinstance(host, IPv4Address | IPv6Address):
            self._addresses.append(f"{host.type} {socket_text(host.host, host.port)}")
        else:
            self._addresses.append(str(host))
