"""The routes to other brokers in the control API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from zope.interface import implementer

from msmq.control.server.factory import make_site
from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.interfaces.bridges import BridgeRouteSummary, IBridges, no_such_route
from tests.control.support import ControlTestCase

ROUTE = BridgeRouteSummary(
    name="out",
    source=".\\private$\\orders",
    destination="exchange orders, routing key new",
    condition="running",
    reason="",
    node="127.0.0.1:5672",
    window=256,
    in_flight=0,
    forwarded=7,
    dead_letters=1,
    dead_letter_queue=".\\private$\\bridge-dead-letters",
    retries=0,
    connections=1,
)


@implementer(IBridges)
class OneRoute:
    """A bridge of one route."""

    def __init__(self) -> None:
        self.route = ROUTE

    def summaries(self) -> Sequence[BridgeRouteSummary]:
        return [self.route]

    def summary(self, name: str) -> BridgeRouteSummary:
        if name != "out":
            raise no_such_route(name)
        return self.route

    def pause(self, name: str) -> BridgeRouteSummary:
        self.route = attrs.evolve(self.summary(name), condition="paused")
        return self.route

    def resume(self, name: str) -> BridgeRouteSummary:
        self.route = attrs.evolve(self.summary(name), condition="running")
        return self.route

    async def test(self, name: str, count: int) -> Sequence[Mapping[str, Any]]:
        self.summary(name)
        return [{"message": str(number), "reason": ""} for number in range(count)]


class BridgeResourceTests(ControlTestCase):
    """C{/v1/bridges}."""

    def test_without_routes(self) -> None:
        """A server without routes has an empty list, and no route of any name."""
        self.assertEqual(self.call("GET", "/v1/bridges").json, [])
        answer = self.call("POST", "/v1/bridges/out/pause")
        self.assertEqual((answer.status, answer.json["detail"]), (400, "no route 'out'"))

    def test_routes(self) -> None:
        """A route is listed, shown, paused, resumed and tested; its changes are in the event log."""
        self.site = make_site(
            self.service,
            configuration=NoServerConfiguration(),
            members=self.members(),
            clock=self.clock.reactor,
            bridges=OneRoute(),
        )
        (found,) = self.call("GET", "/v1/bridges").json
        self.assertEqual(found, attrs.asdict(ROUTE))
        self.assertEqual(self.call("GET", "/v1/bridges/out").json, found)
        self.assertEqual(self.call("POST", "/v1/bridges/out/pause").json["condition"], "paused")
        self.assertEqual(self.call("GET", "/v1/bridges/out").json["condition"], "paused")
        self.assertEqual(self.call("POST", "/v1/bridges/out/resume").json["condition"], "running")
        self.assertEqual(len(self.call("POST", "/v1/bridges/out/test?count=3").json), 3)
        self.assertEqual(self.call("POST", "/v1/bridges/out/test?count=101").status, 400)
