"""What the pages of the console share: the queue manager, the renderer, and bounded work in each turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.web.server import Request

from msmq.control.authentication.audit import Audit, AuditedOperation
from msmq.control.protocol.refusals import http_status, no_longer_admitted, refusal
from msmq.control.server.http.disconnection import next_reactor_turn, shielded
from msmq.control.server.http.evaluation_shares import EvaluationShares
from msmq.control.server.http.requests import parameters
from msmq.control.server.server_configuration import ServerConfiguration
from msmq.interfaces.archive import IArchive
from msmq.interfaces.bridges import IBridges
from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.structures.status import MQError
from msmq.web.access.request import WebRequest
from msmq.web.access.web_access import WebAccess
from msmq.web.console.change_outcomes import take_outcome
from msmq.web.console.rendering import PageRenderer
from msmq.web.console.rows import TablePage, TableRows
from msmq.web.readiness import Readiness

TURN: Final = 0.002
"""Seconds after which a page lets others be served; an iteration of the reactor may have two such parts."""

_T = TypeVar("_T")


def check_caller(request: WebRequest) -> None:
    """Stop if the caller has lost its role, or has disconnected, since the request began.

    @raise MQError: MQ_ERROR_ACCESS_DENIED.
    """
    if not request.is_current():
        raise no_longer_admitted()


def page_parameters(request: Request) -> dict[str, str]:
    """The query parameters of a page, without the outcome of the change that led to it.

    @raise MQError: as of L{parameters}, or the outcome is not one.
    """
    found = parameters(request)
    take_outcome(found)
    return found


@attrs.frozen
class PageContext:
    """Shared context of the pages.

    @ivar readiness: the current readiness of the queue manager.
    @ivar now: the time, seconds since 1970-01-01 UTC.
    @ivar bridges: the routes to other brokers.
    @ivar archive: the archive of the server.
    @ivar access: identifies callers, and begins and ends their sessions.
    @ivar audit: records changes with their callers.
    @ivar evaluations: limits the time for slow comparisons of messages.
    @ivar configuration: the server, which knows its certificates.
    """

    manager: IQueueManager
    renderer: PageRenderer
    clock: IReactorTime
    readiness: Callable[[], Readiness]
    now: Callable[[], float]
    bridges: IBridges
    archive: IArchive
    access: WebAccess
    audit: Audit
    configuration: ServerConfiguration
    evaluations: EvaluationShares

    async def page(self, request: Request, template: str, **values: Any) -> bytes:
        """Render a page, with a pause for the reactor between two slices of work.

        Its navigation entry is the name of the template.
        It begins with the outcome of the change that led to it, if there is one.
        """
        assert isinstance(request, WebRequest)
        outcome, identity = take_outcome(parameters(request)), self.access.identify(request)
        parts: list[str] = []
        shown = {"section": template, "outcome": outcome, "identity": identity, **values}
        await self.each(self.renderer.parts(f"{template}.html", shown), parts.append)
        return self.renderer.finished(request, parts)

    def change(
        self, request: WebRequest, operation: AuditedOperation, work: Callable[[], Awaitable[_T]]
    ) -> Deferred[_T]:
        """Perform a change, even if the browser disconnects, and record its caller."""
        return shielded(self.audit.change(request.caller, operation, work))

    def redirect(self, request: WebRequest, address: str) -> bytes:
        """Send the browser from a change to a page of this server, with GET."""
        request.setResponseCode(303)
        request.set_header("location", address)
        return b""

    def refused(self, request: Request, error: MQError) -> bytes:
        """Render a refusal: its name and its detail."""
        is_change = request.method not in (b"GET", b"HEAD")
        values = {"section": "", "outcome": None, "is_change": is_change, **refusal(error)}
        return self._rendered(request, "refused.html", values, http_status(error))

    def _rendered(self, request: Request, template: str, values: dict[str, Any], status: int = 200) -> bytes:
        """Render a page with its caller, C{identity}."""
        assert isinstance(request, WebRequest)
        identity = self.access.identify(request)
        return self.renderer.page(request, template, {"identity": identity, **values}, status)

    def pause(self) -> Deferred[None]:
        """Serve others before the next part of a page."""
        return next_reactor_turn(self.clock)

    async def pause_for_more(self) -> None:
        """Serve others before a part that takes the time of a whole iteration of the reactor.

        What was received and what was due before is handled in the iteration before.
        """
        await self.pause()
        await self.pause()

    async def table(self, values: Iterable[_T], rows: TableRows[_T]) -> TablePage[_T]:
        """Collect the rows of a table, and choose those of the page."""
        await self.each(values, rows.add)
        await self.pause()
        page = rows.page()
        await self.pause()
        return page

    async def each(self, values: Iterable[_T], use: Callable[[_T], object]) -> None:
        """Use each value, with a pause for the reactor whenever L{TURN} seconds have passed."""
        began = self.clock.seconds()
        for value in values:
            use(value)
            if self.clock.seconds() - began >= TURN:
                await next_reactor_turn(self.clock)
                began = self.clock.seconds()
