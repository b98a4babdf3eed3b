"""Twisted Web factory of the control API."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.logger import Logger
from twisted.web.http import Request as HTTPRequest
from twisted.web.server import Site

from msmq.control.authentication.roles import Role
from msmq.control.server.api import make_api
from msmq.control.server.http.channel import ControlChannel
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.request_memory import RequestMemory
from msmq.control.server.http.requests import ControlRequest
from msmq.control.server.live.figures import LiveFigures
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.sending.pipeline import PausableSource
from msmq.control.server.sending.request_body import SendBody
from msmq.control.server.server_configuration import ServerConfiguration
from msmq.interfaces.archive import IArchive, NoArchive
from msmq.interfaces.bridges import IBridges, NoBridges
from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.interfaces.shadows import IShadows, NoShadows
from msmq.interfaces.stored_rows import IStoredRows, NoStoredRows
from msmq.line_limit import LineLimit
from msmq.moment import Moment

_log: Final = Logger()


class ControlSite(Site):
    """HTTP factory of the control API for any stream transport, usually a unix socket; no access log.

    @ivar figures: the live figures of the queue manager.
    @ivar configuration: shows and reloads the configuration of the server.
    """

    # HTTP/1.1 only, without negotiation of HTTP/2.
    protocol = ControlChannel  # type: ignore[assignment]
    requestFactory = ControlRequest

    def __init__(
        self,
        manager: IQueueManager,
        limits: ControlLimits,
        clock: IReactorTime,
        members: EstateMembers,
        configuration: ServerConfiguration,
        bridges: IBridges,
        shadows: IShadows,
        rows: IStoredRows,
        archive: IArchive,
    ) -> None:
        # The web endpoint starts the recording of its history.
        self.figures = LiveFigures(manager.inspection, clock)
        self.configuration = configuration
        api = make_api(
            manager, limits, clock, members, configuration, self.figures, bridges, shadows, rows, archive
        )
        resource = api.resource()
        Site.__init__(self, resource, reactor=clock)
        self._manager = manager
        self._clock = clock
        # The permissions of the socket's file decide who may connect.
        self.role_without_token = Role.ADMIN
        self.limits = limits
        self.request_memory = RequestMemory(limits.request_memory)
        # Ordered by idle time, the longest first.
        self._channels: dict[ControlChannel, None] = {}
        self._refused = LineLimit.a_minute(1)

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Accept a connection; C{None} refuses it if every other connection has a request."""
        if len(self._channels) >= self.limits.connections and not self._make_room():
            now = Moment(monotonic=self._clock.seconds(), wall=self._clock.seconds())
            if (others := self._refused.take(now)) is not None:
                _log.warn(
                    "a connection to the control socket is refused: each of {limit} has a pending request"
                    "{others}",
                    limit=self.limits.connections,
                    others=others,
                )
            return None
        return Site.buildProtocol(self, addr)

    def _make_room(self) -> bool:
        """Close the connection that has been idle for longest."""
        for channel in self._channels:
            if not channel.requests:
                del self._channels[channel]
                channel.cut()
                return True
        return False

    def connected(self, channel: ControlChannel) -> None:
        """Register a connection."""
        self._channels[channel] = None

    def answered(self, channel: ControlChannel) -> None:
        """Register that a connection is idle."""
        if self._channels.pop(channel, self) is None:
            self._channels[channel] = None

    def disconnected(self, channel: ControlChannel) -> None:
        """Unregister a connection."""
        self._channels.pop(channel, None)

    def send_body(self, source: PausableSource) -> SendBody:
        """Create the consumer of a stream of records in a request body."""
        return SendBody(self._manager, self.limits, self._clock, source)

    def log(self, request: HTTPRequest) -> None:
        """Log nothing: the audit log and the event log record requests that matter."""


def make_site(
    manager: IQueueManager,
    *,
    members: EstateMembers,
    configuration: ServerConfiguration,
    limits: ControlLimits | None = None,
    clock: IReactorTime | None = None,
    bridges: IBridges | None = None,
    shadows: IShadows | None = None,
    rows: IStoredRows | None = None,
    archive: IArchive | None = None,
) -> ControlSite:
    """Create the HTTP factory of the control API of a queue manager.

    @param members: the control endpoints of other members.
    @param configuration: shows and reloads the configuration of the server.
    @param limits: limits of concurrent and large requests; by default those of L{ControlLimits}.
    @param clock: the reactor, or one that a test advances.
    @param bridges: the routes to other brokers; by default none.
    @param shadows: the shadows of queues; by default none.
    @param rows: the rows of the store, for remote readers; by default it is not offered.
    @param archive: the archive of the server; by default none.
    """
    if clock is None:
        from twisted.internet import reactor

        clock = IReactorTime(reactor)
    chosen = ControlLimits() if limits is None else limits
    return ControlSite(
        manager,
        chosen,
        clock,
        members,
        configuration,
        NoBridges() if bridges is None else bridges,
        NoShadows() if shadows is None else shadows,
        NoStoredRows() if rows is None else rows,
        NoArchive() if archive is None else archive,
    )
