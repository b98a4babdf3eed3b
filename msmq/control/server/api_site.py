"""Twisted Web factory of an API over a stream transport, with a limit on its connections."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.logger import Logger
from twisted.web.http import Request as HTTPRequest
from twisted.web.resource import IResource
from twisted.web.server import Site

from msmq.control.authentication.roles import Role
from msmq.control.server.http.channel import ControlChannel
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.request_memory import RequestMemory
from msmq.control.server.http.requests import ControlRequest
from msmq.control.server.sending.pipeline import PausableSource
from msmq.control.server.sending.request_body import SendBody
from msmq.line_limit import LineLimit
from msmq.moment import Moment

_log: Final = Logger()


class ApiSite(Site):
    """HTTP factory of an API for any stream transport, usually a unix socket; no access log."""

    # HTTP/1.1 only, without negotiation of HTTP/2.
    protocol = ControlChannel  # type: ignore[assignment]
    requestFactory = ControlRequest

    def __init__(self, resource: IResource, limits: ControlLimits, clock: IReactorTime) -> None:
        Site.__init__(self, resource, reactor=clock)
        self._clock = clock
        # The permissions of the socket's file decide who may connect.
        self.role_without_token: Role | None = Role.ADMIN
        self.limits = limits
        self.request_memory = RequestMemory(limits.request_memory)
        self.reader_memory = RequestMemory(limits.reader_memory)
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

    def send_body(self, source: PausableSource) -> SendBody | None:
        """Create the consumer of a stream of records in a request body; C{None} if there is none."""
        return None

    def log(self, request: HTTPRequest) -> None:
        """Log nothing: the audit log and the event log record requests that matter."""
