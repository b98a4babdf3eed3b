"""The console as a resource: its routes, and its answers to errors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from functools import partial
from hashlib import blake2b
from typing import Final

from klein import Klein
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import CACHED
from twisted.web.iweb import IRequest
from twisted.web.resource import IResource
from twisted.web.server import Request

from msmq.control.authentication.audit import Audit
from msmq.control.protocol.refusals import MethodNotAllowed, internal_error, no_such_resource
from msmq.control.server.http.evaluation_shares import EvaluationShares
from msmq.control.server.resources.context import ResourceFamily, make_tree
from msmq.control.server.server_configuration import ServerConfiguration
from msmq.interfaces.archive import IArchive
from msmq.interfaces.bridges import IBridges
from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.structures.status import MQError
from msmq.web.access.request import WebRequest
from msmq.web.access.web_access import WebAccess
from msmq.web.console.member_explanations import MemberExplanations
from msmq.web.console.page_roles import page_role
from msmq.web.console.pages.configuration import ConfigurationPage
from msmq.web.console.pages.context import PageContext
from msmq.web.console.pages.dead_letter_changes import DeadLetterChanges
from msmq.web.console.pages.dead_letters import DeadLetterPage
from msmq.web.console.pages.history import HistoryPages
from msmq.web.console.pages.journals import JournalPages
from msmq.web.console.pages.login import LoginPage
from msmq.web.console.pages.message_changes import MessageChanges
from msmq.web.console.pages.message_export import MessageExport
from msmq.web.console.pages.messages import MessagePages
from msmq.web.console.pages.overview import OverviewPage
from msmq.web.console.pages.queue_changes import QueueChanges
from msmq.web.console.pages.queues import QueuePages
from msmq.web.console.pages.transfer import TransferPages
from msmq.web.console.pages.transfer_changes import TransferChanges
from msmq.web.console.rendering import ASSETS, PageRenderer, protect
from msmq.web.readiness import Readiness

_log = Logger()


def make_console(
    manager: IQueueManager,
    clock: IReactorTime,
    readiness: Callable[[], Readiness],
    now: Callable[[], float],
    bridges: IBridges,
    archive: IArchive,
    access: WebAccess,
    *,
    configuration: ServerConfiguration,
    evaluations: EvaluationShares,
    members: MemberExplanations,
    zone: tzinfo | None,
) -> IResource:
    """Build the pages about one queue manager.

    @param readiness: the current readiness of the queue manager.
    @param now: the time, seconds since 1970-01-01 UTC.
    @param bridges: the routes to other brokers.
    @param archive: the archive of the server.
    @param access: identifies the callers, whose roles are checked before the handler of a page.
    @param configuration: shows and reloads the configuration of the server.
    @param evaluations: limits the time for slow comparisons of messages.
    @param members: the other servers of the estate, which explain a message too.
    @param zone: the time zone of the times shown; C{None} for that of the process.
    """
    renderer = PageRenderer(manager.inspection.status().name, zone)
    context = PageContext(
        manager,
        renderer,
        clock,
        readiness,
        now,
        bridges,
        archive,
        access,
        Audit(manager.note),
        configuration,
        evaluations,
    )
    families: list[ResourceFamily] = [
        OverviewPage(context),
        QueuePages(context),
        JournalPages(context),
        MessagePages(context),
        DeadLetterPage(context),
        TransferPages(context),
        HistoryPages(context, members),
        QueueChanges(context),
        MessageChanges(context),
        MessageExport(context),
        DeadLetterChanges(context),
        TransferChanges(context),
        ConfigurationPage(context, configuration),
        LoginPage(context),
        ConsoleAssets(),
    ]

    def unknown(request: IRequest, failure: Failure) -> bytes:
        assert isinstance(request, WebRequest)
        path = request.path.decode("utf-8", "replace")
        allowed = getattr(failure.value, "valid_methods", None)
        if allowed is None:
            return context.refused(request, no_such_resource(path))
        request.set_header("allow", ", ".join(sorted(allowed)))
        return context.refused(
            request, MethodNotAllowed(request.method.decode("ascii", "replace"), path, allowed)
        )

    def refused(request: IRequest, failure: Failure) -> bytes | Deferred[None]:
        assert isinstance(request, WebRequest)
        error = failure.value
        if not isinstance(error, MQError):
            _log.failure("A page of the web console failed", failure)
            error = internal_error()
        if request.startedWriting:
            # A download: only a connection that is cut reports that the file is not whole.
            request.connection.abortConnection()
            return Deferred()
        return context.refused(request, error)

    resource: IResource = make_tree(families, partial(_admit, access), unknown, refused).resource()
    return resource


def _admit(access: WebAccess, request: IRequest, route: str) -> None:
    """Check the role of the caller, and the CSRF token of a change.

    @raise MQError: as of L{WebAccess.require}.
    """
    assert isinstance(request, WebRequest)
    role = page_role(request.method.decode("ascii", "replace"), route)
    if role is not None:
        access.require(request, role)


class ConsoleAssets:
    """The style sheet and the scripts."""

    app = Klein()

    def __init__(self) -> None:
        self._style_sheet = Asset(b"text/css; charset=utf-8", "console.css")
        self._live = Asset(_SCRIPT, "live.js")
        self._map = Asset(_SCRIPT, "map.js")
        self._search = Asset(_SCRIPT, "search.js")
        # Each needs those before it.
        self._d3 = Asset(
            _SCRIPT, *(f"d3/d3-{name}.min.js" for name in ("dispatch", "quadtree", "timer", "force"))
        )

    @app.route("/assets/console.css", methods=["GET"])
    def style_sheet(self, request: Request) -> bytes:
        """The style sheet of all pages."""
        return self._style_sheet.answer(request)

    @app.route("/assets/live.js", methods=["GET"])
    def live(self, request: Request) -> bytes:
        """The script that follows the figures of a page."""
        return self._live.answer(request)

    @app.route("/assets/map.js", methods=["GET"])
    def map(self, request: Request) -> bytes:
        """The script that draws the enterprise."""
        return self._map.answer(request)

    @app.route("/assets/search.js", methods=["GET"])
    def search(self, request: Request) -> bytes:
        """The script that searches the rest of a queue."""
        return self._search.answer(request)

    @app.route("/assets/d3-force.js", methods=["GET"])
    def d3(self, request: Request) -> bytes:
        """The library that computes the positions on a map."""
        return self._d3.answer(request)


_SCRIPT: Final = b"text/javascript; charset=utf-8"


class Asset:
    """Files of the console as one, which a browser keeps until it changes."""

    def __init__(self, content_type: bytes, *names: str) -> None:
        self._content = b"\n".join((ASSETS / name).read_bytes() for name in names)
        self._content_type = content_type
        self._tag = b'"%s"' % blake2b(self._content, digest_size=8).hexdigest().encode("ascii")

    def answer(self, request: Request) -> bytes:
        """The file, or that the browser has it."""
        protect(request)
        request.setHeader(b"content-type", self._content_type)
        request.setHeader(b"cache-control", b"no-cache")
        if request.setETag(self._tag) is CACHED:
            return b""
        return self._content
