"""The endpoints of a server for operators: control socket, remote control, and web."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IListeningPort, IReactorInThreads, IReactorTime
from twisted.logger import Logger

from msmq.control.authentication.guess_limit import TokenGuessLimit
from msmq.control.authentication.roles import Role
from msmq.control.authentication.token_authentication import TokenAuthentication
from msmq.control.authentication.token_check import TokenSite
from msmq.control.authentication.token_file import TokenFile
from msmq.control.authentication.tokens import TokenError
from msmq.interfaces.clock import IClock
from msmq.manager.administration.metered_store import MeteredStore
from msmq.net.endpoints import StreamEndpoint, socket_text
from msmq.service.composition import ServerParts
from msmq.service.control_socket import listen_on_control_socket
from msmq.service.server_ports import ServerPorts, StartError
from msmq.service.settings import Configuration

if TYPE_CHECKING:
    from msmq.web.endpoint import WebEndpoint


class ManagementEndpoints:
    """The endpoints of a server for operators, and the tokens with which remote callers use them.

    @param ports: opens and closes the TCP ports.
    @param configuration: returns the configuration, which a reload replaces.
    @param reloads: the number of reloads by result, a metric.
    @param log: the log of the server.
    @ivar tokens: those of remote callers; C{None} before L{read_tokens} and if no endpoint needs them.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        clock: IClock,
        ports: ServerPorts,
        configuration: Callable[[], Configuration],
        reloads: Mapping[str, int],
        log: Logger,
    ) -> None:
        self.tokens: TokenFile | None = None
        self._authentication: TokenAuthentication | None = None
        self._reactor = reactor
        self._clock = clock
        self._ports = ports
        self._configuration = configuration
        self._reloads = reloads
        self._log = log

    def read_tokens(self) -> None:
        """Read the tokens of remote callers, if there is an endpoint for them.

        @raise StartError: the file cannot be used.
        """
        configuration = self._configuration()
        path, listen = configuration.security.control_token_file, configuration.listen
        self.tokens = self._authentication = None
        if path is None or (listen.remote_control is None and listen.web is None):
            return
        try:
            self.tokens = TokenFile(Path(path))
        except TokenError as error:
            raise StartError(str(error)) from error
        self._authentication = TokenAuthentication(
            self.tokens, TokenGuessLimit(), self._reactor, lambda: self._clock.now().wall
        )

    async def listen_for_control(self, path: Path, parts: ServerParts) -> IListeningPort:
        """Open the control socket; the caller closes it.

        @raise ControlSocketError: as L{listen_on_control_socket}.
        """
        return await listen_on_control_socket(
            self._reactor, path, parts.control, self._configuration().security.control_group
        )

    async def listen_for_remote_control(
        self, endpoint: StreamEndpoint, parts: ServerParts
    ) -> tuple[str, int] | None:
        """Open the port of the control API for callers with a token, and return its address and port.

        @return: C{None} if no tokens are configured: the port is not opened.
        @raise StartError: it cannot be opened.
        """
        if self._authentication is None:
            return None
        site = TokenSite(parts.control, self._authentication, self._reactor)
        port = await self._ports.listen("remote_control", endpoint, site, parts.tls)
        address = _address_of(port)
        self._log_line(f"remote control on {socket_text(*address)}")
        return address

    def web_endpoint(self, store: MeteredStore) -> WebEndpoint | None:
        """The web endpoint with the instruments of the store and the reactor; C{None} without one."""
        if self._configuration().listen.web is None:
            return None
        # A server without a web endpoint never imports it.
        from msmq.web.endpoint import WebEndpoint

        return WebEndpoint.around(store)

    async def listen_for_web(
        self, endpoint: StreamEndpoint, web: WebEndpoint, parts: ServerParts
    ) -> tuple[str, int]:
        """Open the port of metrics, health and console, and return its address and port.

        @param web: from L{web_endpoint}.
        @raise StartError: it cannot be opened, or other hosts reach it and no tokens are configured.
        """
        if not endpoint.is_loopback and self._authentication is None:
            raise StartError(f"the web endpoint {endpoint} needs [security] control_token_file")
        if self._authentication is None and self._anonymous_role() is Role.READER:
            # The control socket lets in its owner and its group alone.
            self._log.warn(
                "{line}",
                line=f"listen.web: every user of this computer can read messages at {endpoint};"
                " [security] control_token_file requires a token, [web] anonymous limits callers without one",
            )
        configuration = self._configuration()
        site = web.site(
            parts.manager,
            self._reactor,
            control=parts.control,
            # The console shows messages: where tokens are configured it needs one on loopback too.
            tokens=self._authentication,
            is_loopback=endpoint.is_loopback,
            anonymous=self._anonymous_role,
            windows_names=configuration.web.windows_exporter_names,
            members=configuration.control_servers,
            member_token_file=configuration.web.member_token_file,
            reloads=self._reloads,
            bridges=parts.bridge,
            archive=parts.archive,
            shadows=parts.shadows,
        )
        port = await self._ports.listen("web", endpoint, site, parts.tls)
        address = _address_of(port)
        # The first request for a page would wait for it otherwise.
        cast(IReactorInThreads, self._reactor).callInThread(web.prepare)
        self._log_line(f"web on {socket_text(*address)}")
        return address

    def _anonymous_role(self) -> Role | None:
        """The role of callers of the web endpoint without a token; C{None} for C{none}."""
        return Role.parse(self._configuration().web.anonymous)

    def _log_line(self, line: str) -> None:
        self._log.info("{line}", line=line)


def _address_of(port: IListeningPort) -> tuple[str, int]:
    host = cast(IPv4Address | IPv6Address, port.getHost())
    return host.host, host.port
