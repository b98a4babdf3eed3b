"""Composition of the web endpoint of a bridge that is a process of its own: metrics, health and its API."""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_urlsafe

from prometheus_client import CollectorRegistry, ProcessCollector
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime

from msmq.control.authentication.roles import Role
from msmq.control.authentication.token_authentication import TokenAuthentication
from msmq.control.server.api_site import ApiSite
from msmq.interfaces.bridges import BridgeRouteSummary, IBridges
from msmq.version import __version__
from msmq.web.access.sessions import BrowserSessions
from msmq.web.access.web_access import WebAccess
from msmq.web.exposition import exposed, without_creation
from msmq.web.metrics import BRIDGE_INFO, BRIDGE_METRICS
from msmq.web.readiness import Health, Readiness
from msmq.web.site import WebSite, make_root

_AT_WORK = ("running", "paused")


class BridgeExposition:
    """Writes the metrics of a bridge.

    @param name: of the bridge, in the trails of messages.
    """

    def __init__(self, name: str, bridges: IBridges) -> None:
        self._name = name
        self._bridges = bridges
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)

    def text(self) -> Deferred[bytes]:
        """The metrics."""
        parts = [exposed(BRIDGE_INFO, [((__version__, self._name), 1)])]
        routes = self._bridges.summaries()
        for metric, count in BRIDGE_METRICS.items():
            parts.append(exposed(metric, [((each.name,), count(each)) for each in routes]))
        parts += map(without_creation, self._registry.collect())
        return succeed(b"".join(parts))


def bridge_readiness(routes: list[BridgeRouteSummary], *, is_running: bool, is_loopback: bool) -> Readiness:
    """The readiness of a bridge: degraded if routes wait, since another bridge could not replace it.

    @param is_loopback: whether the reasons name routes and hosts, as no request needs a token.
    """
    if not is_running:
        return Readiness(Health.UNREADY, ("the bridge is starting or stopping",))
    waiting = [each for each in routes if each.condition not in _AT_WORK]
    if not waiting:
        return Readiness(Health.READY)
    if not is_loopback:
        return Readiness(Health.DEGRADED, (f"{len(waiting)} of {len(routes)} routes forward nothing",))
    return Readiness(
        Health.DEGRADED,
        tuple(f"route {each.name} is {each.condition}: {each.reason}".rstrip(": ") for each in waiting),
    )


def bridge_web_site(
    name: str,
    bridges: IBridges,
    reactor: IReactorTime,
    *,
    api: ApiSite,
    tokens: TokenAuthentication | None,
    is_loopback: bool,
    anonymous: Callable[[], Role | None],
    is_running: Callable[[], bool],
) -> WebSite:
    """Create the site.

    @param name: of the bridge.
    @param api: which it also serves.
    @param tokens: as of L{WebAccess}; so are C{is_loopback} and C{anonymous}.
    @param is_running: whether the bridge has started.
    """
    sessions = BrowserSessions(lambda: token_urlsafe(32), reactor.seconds)
    access = WebAccess(tokens, sessions, reactor, is_loopback=is_loopback, anonymous=anonymous)

    def readiness() -> Readiness:
        return bridge_readiness(list(bridges.summaries()), is_running=is_running(), is_loopback=is_loopback)

    root = make_root(access, metrics=BridgeExposition(name, bridges), readiness=readiness, api=api.resource)
    return WebSite(root, access, api, reactor)
