"""The web endpoint: C{/metrics}, C{/health/live}, C{/health/ready}, and the console at all other paths."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, ClassVar, Final, cast

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.http import Request as HTTPRequest
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from msmq.control.authentication.roles import Role
from msmq.control.authentication.token_file import TokenHolder
from msmq.control.server.http.requests import BoundedContent
from msmq.control.server.http.responses import json_answer
from msmq.control.server.messages.json_records import json_record
from msmq.manager.administration.inspection import ManagerInspection
from msmq.web.exposition import CONTENT_TYPE, Exposition
from msmq.web.readiness import Health, Readiness

CONNECTIONS: Final = 256
"""Limit on connections; beyond it the oldest is closed."""

IDLE: Final = 30.0
"""Seconds after which a connection without a request is closed."""

_QUIET: Final = 60.0
"""Minimum seconds between log lines about refused requests."""

CheckToken = Callable[[bytes], TokenHolder | None]
"""The holder of the token in the value of an C{Authorization} header; C{None} if it is not valid."""


class WebRequest(Request):
    """A request; its body is discarded, since no resource uses one."""

    def gotLength(self, length: int | None) -> None:
        """The headers are in."""
        self.content = BoundedContent(0)

    def getRequestHostname(self) -> bytes:
        """A constant: no resource depends on it."""
        return b"localhost"


class WebChannel(HTTPChannel):
    """One connection to the endpoint."""

    def connectionMade(self) -> None:
        """Register the connection."""
        _site_of(self).entered(self)
        HTTPChannel.connectionMade(self)

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Unregister the connection."""
        _site_of(self).left(self)
        HTTPChannel.connectionLost(self, reason)

    def cut(self) -> None:
        """Close at once."""
        cast(Any, self.transport).abortConnection()


def _site_of(channel: WebChannel) -> WebSite:
    site: WebSite = vars(channel)["site"]
    return site


class WebSite(Site):
    """The endpoint as a factory to listen with; it keeps no access log.

    @param check_token: checks the tokens of requests for C{/metrics}; C{None} on a loopback endpoint, where
        requests need none.
    @param check_page_token: checks the tokens of requests for pages of the console; C{None} if these need
        none.
    @param readiness: the current readiness of the queue manager.
    @param console: the pages of the console, which only read.
    """

    protocol = WebChannel  # type: ignore[assignment]
    requestFactory = WebRequest

    def __init__(
        self,
        manager: ManagerInspection,
        exposition: Exposition,
        reactor: IReactorTime,
        check_token: CheckToken | None,
        check_page_token: CheckToken | None,
        readiness: Callable[[], Readiness],
        console: IResource,
    ) -> None:
        access = _Access(check_token, Role.MONITOR, reactor)
        root = _Root(access, _ConsoleEntry(access, _Access(check_page_token, Role.READER, reactor), console))
        health = _Page(access)
        health.putChild(b"live", _Live(access))
        health.putChild(b"ready", _Ready(access, manager, readiness))
        root.putChild(b"health", health)
        root.putChild(b"metrics", _Metrics(access, exposition))
        Site.__init__(self, root, timeout=IDLE, reactor=reactor)
        # Ordered by age, the oldest first.
        self._connections: dict[WebChannel, None] = {}

    def entered(self, channel: WebChannel) -> None:
        """Register a connection."""
        if len(self._connections) >= CONNECTIONS:
            oldest = next(iter(self._connections))
            self.left(oldest)
            oldest.cut()
        self._connections[channel] = None

    def left(self, channel: WebChannel) -> None:
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


@attrs.define
class _Access:
    """Decides which requests are answered.

    On a loopback endpoint every process of this machine may read. A web page in a browser of this machine may
    not: its requests name a host of their own (DNS rebinding), and are refused.
    """

    _log: ClassVar[Logger] = Logger()

    check_token: CheckToken | None
    _role: Role
    _reactor: IReactorTime
    _refused: int = 0
    _quiet_until: float = 0.0

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine reach the endpoint."""
        return self.check_token is None

    def is_known(self, request: Request) -> bool:
        """Whether a request is local or has a valid token with a sufficient role."""
        if self.check_token is None:
            return True
        shown = request.requestHeaders.getRawHeaders(b"authorization", [])
        holder = self.check_token(shown[0]) if len(shown) == 1 else None
        if holder is not None and holder.role >= self._role:
            return True
        self._note(request)
        return False

    def has_own_host(self, request: Request) -> bool:
        """Whether the C{Host} of a request may name this endpoint."""
        if not self.is_loopback:
            return True
        hosts = request.requestHeaders.getRawHeaders("host", [])
        return all(_is_loopback_host(host) for host in hosts)

    def _note(self, request: Request) -> None:
        self._refused += 1
        now = self._reactor.seconds()
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET
            self._log.warn(
                "web: {peer} has no valid token; {count} such requests refused since the last line",
                peer=getattr(request.getClientAddress(), "host", "unknown"),
                count=self._refused,
            )
            self._refused = 0


def _is_loopback_host(host: str) -> bool:
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.rpartition(":")[0] or name
    if name.rstrip(".") == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


class _Page(Resource):
    """A resource that answers GET and HEAD, and other methods with an error text."""

    def __init__(self, access: _Access) -> None:
        Resource.__init__(self)
        self.access = access

    def getChild(self, path: bytes, request: Request) -> Resource:
        return self if path == b"" else _Page(self.access)

    def render(self, request: Request) -> Any:
        request.setHeader(b"cache-control", b"no-store")
        request.setHeader(b"x-content-type-options", b"nosniff")
        if not self.access.has_own_host(request):
            return _error(request, 403, "the Host of the request is not a loopback name or address")
        if request.method not in (b"GET", b"HEAD"):
            request.setHeader(b"allow", b"GET, HEAD")
            return _error(request, 405, "only GET and HEAD are supported")
        return self.answer(request)

    def answer(self, request: Request) -> Any:
        """Answer a GET or HEAD."""
        return _error(request, 404, "no such resource; there are /metrics, /health/live and /health/ready")


def _error(request: Request, status: int, detail: str) -> bytes:
    return json_answer(request, {"error": "MQ_ERROR_INVALID_PARAMETER", "detail": detail}, status)


class _Root(_Page):
    """The root: what is neither metrics nor health is a page of the console."""

    def __init__(self, access: _Access, console: _ConsoleEntry) -> None:
        _Page.__init__(self, access)
        self._console = console

    def getChild(self, path: bytes, request: Request) -> Resource:
        # The console reads the whole path.
        assert request.prepath is not None and request.postpath is not None
        request.postpath.insert(0, request.prepath.pop())
        return self._console


class _ConsoleEntry(_Page):
    """Decides which requests for pages of the console are answered."""

    isLeaf = True

    def __init__(self, access: _Access, page_access: _Access, console: IResource) -> None:
        _Page.__init__(self, access)
        self._page_access = page_access
        self._console = console

    def answer(self, request: Request) -> Any:
        if not self._page_access.is_known(request):
            request.setHeader(b"www-authenticate", b'Bearer realm="msmq"')
            return _denied(request, "the console needs a token at this endpoint")
        return self._console.render(request)


def _denied(request: Request, detail: str) -> bytes:
    return json_answer(request, {"error": "MQ_ERROR_ACCESS_DENIED", "detail": detail}, 401)


class _Live(_Page):
    """Liveness: the process works, in any state of the queue manager."""

    def answer(self, request: Request) -> bytes:
        return json_answer(request, {"status": "live", "reasons": []})


class _Ready(_Page):
    """Readiness of the queue manager."""

    def __init__(
        self, access: _Access, manager: ManagerInspection, readiness: Callable[[], Readiness]
    ) -> None:
        _Page.__init__(self, access)
        self._manager = manager
        self._readiness = readiness

    def answer(self, request: Request) -> bytes:
        found = self._readiness()
        answer: dict[str, object] = {"status": found.health.value, "reasons": list(found.reasons)}
        if self.access.is_loopback:
            # Remote requests need no token here, so the response does not reveal the directory.
            directory = self._manager.measurements.directory_status()
            answer["directory"] = None if directory is None else json_record(directory)
        return json_answer(request, answer, 503 if found.health is Health.UNREADY else 200)


class _Metrics(_Page):
    """The metrics, for clients with a token or on this machine."""

    isLeaf = True

    def __init__(self, access: _Access, exposition: Exposition) -> None:
        _Page.__init__(self, access)
        self._exposition = exposition

    def answer(self, request: Request) -> Any:
        if not self.access.is_known(request):
            request.setHeader(b"www-authenticate", b'Bearer realm="msmq"')
            return _denied(request, "/metrics needs a token at this endpoint")
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
