"""HTTP of a standby: the status for operators, health and one metric for monitoring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.http import Request as HTTPRequest
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from msmq.control.server.http.responses import json_answer
from msmq.interfaces.standby import StandbyReport
from msmq.structures.status import Status

CONNECTIONS: Final = 64
"""Limit on connections."""

IDLE: Final = 30.0
"""Seconds after which an idle connection is closed."""

_METRICS: Final = (
    "# HELP msmq_standby 1 while this server waits for the active one, 0 on the active one.\n"
    "# TYPE msmq_standby gauge\nmsmq_standby 1\n"
    "# HELP msmq_standby_holder_silent_seconds Time for which the active server was not seen at work.\n"
    "# TYPE msmq_standby_holder_silent_seconds gauge\nmsmq_standby_holder_silent_seconds {silent:.1f}\n"
)


class StandbyChannel(HTTPChannel):
    """One connection, which ends with its site."""

    factory: StandbySite

    def connectionMade(self) -> None:
        """Register it."""
        HTTPChannel.connectionMade(self)
        self.factory.channels.add(self)

    def abort(self) -> None:
        """Close it at once."""
        cast(Any, self.transport).abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Forget it."""
        self.factory.channels.discard(self)
        HTTPChannel.connectionLost(self, reason)


class StandbySite(Site):
    """A site with few connections, without an access log.

    @ivar channels: the open connections.
    """

    noisy = False
    # HTTP/1.1 only, without negotiation of HTTP/2.
    protocol = StandbyChannel  # type: ignore[assignment]

    def __init__(self, root: Resource, reactor: IReactorTime) -> None:
        Site.__init__(self, root, timeout=IDLE, reactor=reactor)
        self.channels: set[StandbyChannel] = set()

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Accept a connection, unless the limit is reached."""
        return Site.buildProtocol(self, addr) if len(self.channels) < CONNECTIONS else None

    def stopFactory(self) -> None:
        """Close the connections: their next requests are for the active server."""
        for channel in list(self.channels):
            channel.abort()
        Site.stopFactory(self)

    def log(self, request: HTTPRequest) -> None:
        """Log nothing: probes come every few seconds."""


def operator_site(status: Callable[[], dict[str, object]], reactor: IReactorTime) -> StandbySite:
    """The site of the control socket: C{/v1/status}, and a refusal of everything else."""
    root = _Page(_refused)
    api = _Page(_refused)
    api.putChild(b"status", _Page(lambda request: json_answer(request, status())))
    root.putChild(b"v1", api)
    return StandbySite(root, reactor)


def web_site(report: Callable[[], StandbyReport], reactor: IReactorTime) -> StandbySite:
    """The site of the web endpoint: health and metrics, without the names of hosts."""
    root = _Page(_refused)
    health = _Page(_refused)
    health.putChild(b"live", _Page(lambda request: json_answer(request, {"status": "live"})))

    def ready(request: Request) -> bytes:
        reasons = [f"the server is a standby: {report().state.value}"]
        return json_answer(request, {"status": "unready", "reasons": reasons}, 503)

    def metrics(request: Request) -> bytes:
        request.setHeader(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
        return _METRICS.format(silent=report().silent).encode("ascii")

    health.putChild(b"ready", _Page(ready))
    root.putChild(b"health", health)
    root.putChild(b"metrics", _Page(metrics))
    return StandbySite(root, reactor)


class _Page(Resource):
    """A resource with one answer, for all that lies below it too."""

    def __init__(self, answer: Callable[[Request], bytes]) -> None:
        Resource.__init__(self)
        self._answer = answer

    def getChild(self, path: bytes, request: Request) -> Resource:
        return _Page(_refused)

    def render(self, request: Request) -> bytes:
        return self._answer(request) if request.method in (b"GET", b"HEAD") else _refused(request)


def _refused(request: Request) -> bytes:
    detail = "this server is a standby, and another one is active; msmq status shows what it waits for"
    error = Status.MQ_ERROR_SERVICE_NOT_AVAILABLE.name
    return json_answer(request, {"error": error, "detail": detail}, 503)
