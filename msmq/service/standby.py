"""Standby server: waits until the active one releases the store, and answers operators meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast
from uuid import UUID

from twisted.internet.defer import maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IReactorTime
from twisted.logger import Logger

import msmq.version
from msmq.interfaces.standby import IElection, StandbyReport, StandbyState
from msmq.net.endpoints import StreamEndpoint, server_endpoint
from msmq.net.tls import NeverNone
from msmq.security.tls import PinnedTls
from msmq.service.control_socket import ControlSocketError, listen_on_control_socket, reason
from msmq.service.settings import Configuration
from msmq.service.standby_site import StandbySite, operator_site, web_site
from msmq.storage.factory import make_election, shown


class StandbyWait:
    """Waits for the store on behalf of one start of a server.

    The control socket answers C{/v1/status}, the web endpoint the health and C{msmq_standby}; session, ping
    and discovery ports are closed, so that no peer and no load balancer takes this server for the active one.

    @param announce: receives the state, for the service manager of the process.
    @raise StorageDescriptionError: several servers cannot share the store.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self, configuration: Configuration, reactor: IReactorTime, announce: Callable[[str], object]
    ) -> None:
        self._configuration = configuration
        self._reactor = reactor
        self._announce = announce
        self._report = StandbyReport()
        self._logged: tuple[StandbyState, str] | None = None
        self._ports: list[IListeningPort] = []
        self._election: IElection = make_election(
            configuration.storage, configuration.storage_sharing.standby_lease, self._reported
        )

    async def elected(self) -> UUID | None:
        """Wait; returns QueueManager.Identifier of the store's owner, if it has one. [MS-MQDMPR] 3.1.1.1.

        @raise StorageError: the database refuses.
        @raise MsmqError: the control socket or the web endpoint cannot be opened.
        """
        configuration = self._configuration
        if configuration.listen.control is not None:
            site = operator_site(self.status, self._reactor)
            group = configuration.security.control_group
            port = await listen_on_control_socket(self._reactor, configuration.listen.control, site, group)
            self._ports.append(port)
        if configuration.listen.web is not None:
            await self._listen_for_web(configuration.listen.web)
        result = await self._election.elected()
        await self._close_ports()
        self.log.info("{line}", line=f"active server of {shown(configuration.storage)}: {result.reason}")
        return result.owner

    def settled(self) -> None:
        """The store is open: the next standby may wait for it."""
        self._election.settled()

    async def close(self) -> None:
        """End the wait."""
        await self._close_ports()
        await self._election.close()

    def status(self) -> dict[str, object]:
        """The answer to C{/v1/status}."""
        report, queue_manager = self._report, self._configuration.queue_manager
        return {
            "name": queue_manager.name,
            "dns_name": queue_manager.dns_name,
            "version": msmq.version.VERSION,
            "state": "standby",
            "storage": shown(self._configuration.storage),
            "waits": report.state.value,
            "holder": report.holder,
            "holder_silent_seconds": round(report.silent, 1),
            "problem": report.problem,
        }

    def _reported(self, report: StandbyReport) -> None:
        self._report = report
        line = f"standby: {report.state.value}"
        if report.holder:
            line += f", at {report.holder}"
        if report.problem:
            line += f": {report.problem}"
        if self._logged != (report.state, report.holder):
            self._logged = report.state, report.holder
            self.log.info("{line}", line=line)
            self._announce(line)

    async def _listen_for_web(self, endpoint: StreamEndpoint) -> None:
        site: StandbySite | NeverNone = web_site(lambda: self._report, self._reactor)
        described = server_endpoint(self._reactor, endpoint.description, PinnedTls(_no_refusals))
        if endpoint.description.startswith(("ssl:", "tls:")):
            site = NeverNone(cast(StandbySite, site))
        try:
            self._ports.append(await described.listen(site))
        except CannotListenError as error:
            raise ControlSocketError(f"cannot listen on {endpoint}: {reason(error)}") from error

    async def _close_ports(self) -> None:
        while self._ports:
            await maybeDeferred(self._ports.pop().stopListening)


def _no_refusals(address: str, why: str) -> None:
    """A server endpoint checks no certificates of hosts."""
