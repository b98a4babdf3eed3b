"""The web endpoint: C{/metrics}, C{/health/live}, C{/health/ready}, an API at C{/v1}, and pages at all other
paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import Request as HTTPRequest
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from msmq.control.server.api_site import ApiSite
from msmq.control.server.http.channel import ControlChannel
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.request_memory import RequestMemory
from msmq.control.server.http.responses import json_answer
from msmq.control.server.live.figures import LiveFigures
from msmq.control.server.sending.pipeline import PausableSource
from msmq.control.server.sending.request_body import SendBody
from msmq.web.access.identity import Identity
from msmq.web.access.login import login_address
from msmq.web.access.request import LOGIN, WebRequest, refused_as_json
from msmq.web.access.web_access import WebAccess
from msmq.web.exposition import CONTENT_TYPE
from msmq.web.readiness import Health, Readiness
from msmq.wire.addresses import counted_host

CONNECTIONS: Final = 256
"""Limit on connections."""

IDLE: Final = 30.0
"""Seconds after which a connection without a request is closed."""

_ASSETS: Final = "/assets/"


class MetricsText(Protocol):
    """Writes metrics."""

    def text(self) -> Deferred[bytes]:
        """The metrics, in the exposition format of Prometheus."""


class WebChannel(ControlChannel):
    """One connection to the endpoint."""

    @property
    def host(self) -> str:
        """The host to which the connection counts."""
        return counted_host(getattr(cast(Any, self.transport).getPeer(), "host", "unknown"))

    @property
    def is_known(self) -> bool:
        """Whether it has a request of a caller with a token, or a local one."""
        return any(cast(WebRequest, request).identity is not None for request in self.requests)


class WebSite(Site):
    """The endpoint as a factory to listen with; it keeps no access log.

    @param access: identifies callers.
    @param root: the resources, from L{make_root}.
    @param control: the API, served at C{/v1}.
    @param figures: what records the figures of the last hour; C{None} for nothing.
    """

    protocol = WebChannel  # type: ignore[assignment]
    requestFactory = WebRequest
    role_without_token = None

    def __init__(
        self,
        root: IResource,
        access: WebAccess,
        control: ApiSite,
        reactor: IReactorTime,
        figures: LiveFigures | None = None,
    ) -> None:
        Site.__init__(self, root, timeout=IDLE, reactor=reactor)
        self._access = access
        self._control = control
        self._figures = figures
        # Ordered by age, the oldest first.
        self._connections: dict[ControlChannel, None] = {}

    @property
    def limits(self) -> ControlLimits:
        """The limits of the API."""
        return self._control.limits

    @property
    def request_memory(self) -> RequestMemory:
        """The memory of request bodies, shared with the other callers of the API."""
        return self._control.request_memory

    @property
    def reader_memory(self) -> RequestMemory:
        """The same for callers that may only read."""
        return self._control.reader_memory

    def send_body(self, source: PausableSource) -> SendBody | None:
        """See L{ApiSite.send_body}."""
        return self._control.send_body(source)

    def admit(self, request: WebRequest) -> Identity | None:
        """See L{WebAccess.admit}."""
        return self._access.admit(request)

    def is_current(self, identity: Identity) -> bool:
        """See L{WebAccess.is_current}."""
        return self._access.is_current(identity)

    def startFactory(self) -> None:
        """Record the figures of the last hour from now on."""
        Site.startFactory(self)
        if self._figures is not None:
            self._figures.start()

    def stopFactory(self) -> None:
        """Record them no longer, and close the connections, which would outlive the server otherwise."""
        if self._figures is not None:
            self._figures.stop()
        for channel in list(self._connections):
            channel.cut()
        Site.stopFactory(self)

    def connected(self, channel: ControlChannel) -> None:
        """Register a connection; beyond L{CONNECTIONS} one is closed for it."""
        if len(self._connections) >= CONNECTIONS:
            displaced = displaced_by(cast(WebChannel, channel), cast(Iterable[WebChannel], self._connections))
            self.disconnected(displaced)
            displaced.cut()
        self._connections[channel] = None

    def answered(self, channel: ControlChannel) -> None:
        """Do nothing: the order is that of the connections."""

    def disconnected(self, channel: ControlChannel) -> None:
        """Unregister a connection."""
        self._connections.pop(channel, None)

    def acceptableProtocols(self) -> list[bytes]:
        """The protocols that TLS may negotiate: HTTP/1.1."""
        return [b"http/1.1"]

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A connection."""
        return Site.buildProtocol(self, addr)

    def log(self, request: HTTPRequest) -> None:
        """Log nothing: a scrape every few seconds needs no log line."""


def make_root(
    access: WebAccess,
    *,
    metrics: MetricsText,
    readiness: Callable[[], Readiness],
    details: Callable[[], Mapping[str, object]] = dict,
    api: IResource,
    console: IResource | None = None,
) -> IResource:
    """The resources of an endpoint.

    @param metrics: writes the metrics.
    @param readiness: the current readiness.
    @param details: more of the answer about it, on this computer.
    @param api: serves C{/v1}.
    @param console: the pages; C{None} for none.
    """
    pages: IResource = _Page(access) if console is None else _Pages(access, console)
    root = _Root(pages, api)
    health = _Page(access)
    health.putChild(b"live", _Live(access))
    health.putChild(b"ready", _Ready(access, readiness, details))
    root.putChild(b"health", health)
    root.putChild(b"metrics", _Metrics(access, metrics))
    return root


def displaced_by(new: WebChannel, connections: Iterable[WebChannel]) -> WebChannel:
    """The connection to close for a new one: the oldest of the host that has the most of those without a
    request of a known caller, or of all if each has one.
    """
    every = list(connections)
    hosts = {each: each.host for each in [each for each in every if not each.is_known] or every}
    counts = Counter((*hosts.values(), new.host))
    most = max(counts[host] for host in hosts.values())
    return next(each for each, host in hosts.items() if counts[host] == most)


class _Page(Resource):
    """A resource that answers GET and HEAD, and other methods with an error text."""

    def __init__(self, access: WebAccess) -> None:
        Resource.__init__(self)
        self.access = access

    def getChild(self, path: bytes, request: Request) -> Resource:
        return self if path == b"" else _Page(self.access)

    def render(self, request: Request) -> Any:
        if request.method not in (b"GET", b"HEAD"):
            request.setHeader(b"allow", b"GET, HEAD")
            return _error(request, 405, "only GET and HEAD are supported")
        return self.answer(request)

    def answer(self, request: Request) -> Any:
        """Answer a GET or HEAD."""
        return _error(request, 404, "no such resource; there are /metrics, /health/live and /health/ready")


def _error(request: Request, status: int, detail: str) -> bytes:
    return json_answer(request, {"error": "MQ_ERROR_INVALID_PARAMETER", "detail": detail}, status)


class _Root(Resource):
    """The root: the control API, and the console for all paths without a resource of their own."""

    def __init__(self, pages: IResource, api: IResource) -> None:
        Resource.__init__(self)
        self._pages = pages
        self._api = api

    def getChild(self, path: bytes, request: Request) -> Any:
        # Both read the whole path.
        assert request.prepath is not None and request.postpath is not None
        request.postpath.insert(0, request.prepath.pop())
        return self._api if path == b"v1" else self._pages


class _Pages(Resource):
    """The console, for callers with a token, where tokens are configured."""

    isLeaf = True

    def __init__(self, access: WebAccess, console: IResource) -> None:
        Resource.__init__(self)
        self._access = access
        self._console = console

    def render(self, request: Request) -> Any:
        assert isinstance(request, WebRequest)
        path = request.path.decode("utf-8", "replace")
        if request.identity is not None or path == LOGIN or path.startswith(_ASSETS):
            return self._console.render(request)
        is_browser = request.method == b"GET" and "text/html" in request.header("accept")
        if is_browser and self._access.has_login:
            request.setResponseCode(303)
            request.set_header("location", login_address(request.uri))
            return b""
        return refused_as_json(request, self._access.token_required("the console"))


class _Live(_Page):
    """Liveness: the process works, in any state of the queue manager."""

    def answer(self, request: Request) -> bytes:
        return json_answer(request, {"status": "live", "reasons": []})


class _Ready(_Page):
    """Readiness."""

    def __init__(
        self,
        access: WebAccess,
        readiness: Callable[[], Readiness],
        details: Callable[[], Mapping[str, object]],
    ) -> None:
        _Page.__init__(self, access)
        self._readiness = readiness
        self._details = details

    def answer(self, request: Request) -> bytes:
        found = self._readiness()
        answer: dict[str, object] = {"status": found.health.value, "reasons": list(found.reasons)}
        if self.access.is_loopback:
            # Remote requests need no token here, so the response does not reveal the directory.
            answer |= self._details()
        return json_answer(request, answer, 503 if found.health is Health.UNREADY else 200)


class _Metrics(_Page):
    """The metrics, for clients with a token or on this machine."""

    isLeaf = True

    def __init__(self, access: WebAccess, exposition: MetricsText) -> None:
        _Page.__init__(self, access)
        self._exposition = exposition

    def answer(self, request: Request) -> Any:
        assert isinstance(request, WebRequest)
        if request.identity is None and not self.access.serves_metrics:
            return refused_as_json(request, self.access.token_required("/metrics"))
        gone: list[bool] = []
        request.notifyFinish().addBoth(lambda _: gone.append(True))
        text: Deferred[Any] = self._exposition.text()
        text.addCallbacks(
            self._write, self._failed, callbackArgs=(request, gone), errbackArgs=(request, gone)
        )
        return NOT_DONE_YET

    def _write(self, text: bytes, request: Request, gone: list[bool]) -> None:
        if not gone:
            request.setHeader(b"content-type", CONTENT_TYPE.encode("ascii"))
            request.setHeader(b"content-length", b"%d" % len(text))
            request.write(text)
            request.finish()

    def _failed(self, failure: Failure, request: Request, gone: list[bool]) -> None:
        _log.failure("the metrics could not be written", failure)
        if not gone:
            request.write(_error(request, 500, "the metrics could not be written; the log has the error"))
            request.finish()


_log: Final = Logger()
