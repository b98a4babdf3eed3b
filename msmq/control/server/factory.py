"""Twisted Web factory of the control API."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.web.http import Request as HTTPRequest
from twisted.web.server import Site

from msmq.control.server.api import make_api
from msmq.control.server.http.channel import ControlChannel
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.requests import ControlRequest
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.resources.server import Reload
from msmq.control.server.sending.pipeline import PausableSource
from msmq.control.server.sending.request_body import SendBody
from msmq.interfaces.queue_manager import IQueueManager


class ControlSite(Site):
    """The control API for any stream of bytes, a unix socket as a rule; it keeps no access log."""

    # Without the wrapper that chooses between HTTP/1.1 and HTTP/2.
    protocol = ControlChannel  # type: ignore[assignment]
    requestFactory = ControlRequest

    def __init__(
        self,
        manager: IQueueManager,
        limits: ControlLimits,
        clock: IReactorTime,
        members: EstateMembers,
        reload: Reload,
    ) -> None:
        resource = make_api(manager, limits, clock, members, reload).resource()
        Site.__init__(self, resource, reactor=clock)
        self._manager = manager
        self._clock = clock
        self.limits = limits

    def send_body(self, source: PausableSource) -> SendBody:
        """Where the stream of records goes that begins to arrive from a connection."""
        return SendBody(self._manager, self.limits, self._clock, source)

    def log(self, request: HTTPRequest) -> None:
        """Nothing: what is worth a line is logged where it happens."""


def make_site(
    manager: IQueueManager,
    *,
    members: EstateMembers,
    reload: Reload,
    limits: ControlLimits | None = None,
    clock: IReactorTime | None = None,
) -> ControlSite:
    """The control API of a queue manager, as a factory to listen with.

    @param members: where the control APIs of other members are.
    @param reload: reads the configuration of the server again.
    @param limits: how much it takes at once; the defaults of L{ControlLimits}.
    @param clock: the reactor, or one that a test advances.
    """
    if clock is None:
        from twisted.internet import reactor

        clock = IReactorTime(reactor)
    chosen = ControlLimits() if limits is None else limits
    return ControlSite(manager, chosen, clock, members, reload)
