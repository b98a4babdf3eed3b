"""Twisted Web factory of the control API."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from msmq.control.server.api import make_api
from msmq.control.server.api_site import ApiSite
from msmq.control.server.http.evaluation_shares import EvaluationShares
from msmq.control.server.http.limits import ControlLimits
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


class ControlSite(ApiSite):
    """HTTP factory of the control API of a queue manager.

    @ivar figures: the live figures of the queue manager.
    @ivar configuration: shows and reloads the configuration of the server.
    @ivar evaluations: limits the time for slow comparisons of messages.
    """

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
        self.evaluations = EvaluationShares(clock)
        api = make_api(
            manager,
            limits,
            clock,
            members,
            configuration,
            self.figures,
            bridges,
            shadows,
            rows,
            archive,
            self.evaluations,
        )
        ApiSite.__init__(self, api.resource(), limits, clock)
        self._manager = manager

    def send_body(self, source: PausableSource) -> SendBody:
        """See L{ApiSite.send_body}."""
        return SendBody(self._manager, self.limits, self._clock, source)


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
