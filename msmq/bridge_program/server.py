"""BridgeServer: a bridge that is a process of its own, in the order of its start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from msmq.bridge_program.settings import BridgeConfiguration
from msmq.bridge_service.control_queues import ControlQueues
from msmq.bridge_service.queues import IBridgedQueues
from msmq.bridge_service.service import BridgeService
from msmq.bridge_service.settings import InwardSettings, OutwardSettings
from msmq.control.authentication.guess_limit import TokenGuessLimit
from msmq.control.authentication.roles import Role
from msmq.control.authentication.token_authentication import TokenAuthentication
from msmq.control.authentication.token_file import TokenFile
from msmq.control.authentication.tokens import TokenError
from msmq.control.server.api_site import ApiSite
from msmq.control.server.bridge_site import make_bridge_site
from msmq.net.clock import SystemClock
from msmq.net.endpoints import socket_text
from msmq.service.control_socket import listen_on_control_socket
from msmq.service.data_directory.data_lock import DataLock
from msmq.service.process.staged_service import StagedService
from msmq.service.server_ports import ServerPorts, StartError
from msmq.structures.status import MQError, Status


class BridgeServer(StagedService):
    """Starts the routes of a configuration, its API and its web endpoint.

    Queue managers and brokers may be away: their routes wait for them.

    @ivar started: fires when it has started, or fails with the reason.
    @ivar lost: never fires; there is one bridge for its data directory.
    @ivar bridge: the routes; C{None} before the start and after the stop.
    @ivar web: address and port of the web endpoint; C{None} without one.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, configuration: BridgeConfiguration, reactor: IReactorTime) -> None:
        super().__init__()
        self.configuration = configuration
        self.bridge: BridgeService | None = None
        self.web: tuple[str, int] | None = None
        self._reactor = reactor
        self._ports = ServerPorts(reactor, self._undo.append, self._log_line)

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses on which it listens."""
        web = [] if self.web is None else [f"TCP {socket_text(*self.web)}"]
        return [*([] if self._control_socket is None else [str(self._control_socket)]), *web]

    def reload(self) -> dict[str, Any]:
        """Refuse: every change of the configuration needs a restart, which loses nothing.

        @raise MQError: always.
        """
        raise MQError(
            Status.MQ_ERROR_UNSUPPORTED_OPERATION, "a bridge reads its configuration at its start; restart it"
        )

    async def _start_in_order(self) -> None:
        configuration = self.configuration
        lock = DataLock(configuration.data)
        lock.acquire()
        self._undo.append(lock.release)
        bridge = BridgeService(
            configuration.routes, self._queues, self._reactor, configuration.data / "bridge"
        )
        api = make_bridge_site(bridge, self._reactor)
        if configuration.control is not None:
            port = await listen_on_control_socket(
                self._reactor, configuration.control, api, configuration.control_group
            )
            self._control_socket = configuration.control
            self._undo.append(port.stopListening)
        if configuration.web is not None:
            await self._listen_for_web(bridge, api)
        self._undo.append(bridge.stop)
        bridge.start()
        self.bridge = bridge
        servers = ", ".join(f"{name} ({where})" for name, where in configuration.control_servers.items())
        self._log_line(f"bridge {configuration.name}, {len(bridge.routes)} routes; queue managers: {servers}")
        self._log_line(
            f"control socket {configuration.control or 'off'}, data directory {configuration.data}"
        )

    def _queues(self, route: OutwardSettings | InwardSettings) -> IBridgedQueues:
        queues = ControlQueues.at(self.configuration.control_servers[route.queue_manager], self._reactor)
        self._undo.append(queues.close)
        return queues

    async def _listen_for_web(self, bridge: BridgeService, api: ApiSite) -> None:
        # A bridge without a web endpoint never imports it.
        from msmq.web.bridge_endpoint import bridge_web_site

        configuration = self.configuration
        endpoint = configuration.web
        assert endpoint is not None
        tokens = None
        if configuration.token_file is not None:
            try:
                accepted = TokenFile(configuration.token_file)
            except TokenError as error:
                raise StartError(str(error)) from error
            tokens = TokenAuthentication(
                accepted, TokenGuessLimit(), self._reactor, lambda: SystemClock().now().wall
            )
        site = bridge_web_site(
            configuration.name,
            bridge,
            self._reactor,
            api=api,
            tokens=tokens,
            is_loopback=endpoint.is_loopback,
            # A bridge shows its routes, and no messages.
            anonymous=lambda: Role.READER,
            is_running=lambda: self.bridge is not None,
        )
        port = await self._ports.listen("web", endpoint, site, None)
        host = cast(IPv4Address | IPv6Address, port.getHost())
        self.web = (host.host, host.port)
        self._log_line(f"web on {socket_text(*self.web)}")

    def _forget(self) -> None:
        self.bridge = self.web = None

    def _log_line(self, line: str) -> None:
        self.log.info("{line}", line=line)
