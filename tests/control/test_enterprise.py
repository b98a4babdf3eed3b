"""The enterprise in the control API."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from msmq.control.server.factory import make_site
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.routing.topology_description import describe_topology
from tests.control.support import Answer, Caller, ControlTestCase
from tests.nodes.routes.test_routing import IDENTIFIERS, EnterpriseTestCase


class EnterpriseResourceTests(EnterpriseTestCase):
    """Asking a member of an enterprise."""

    def call(self, method: str, path: str, **parameters: Any) -> Answer:
        site = make_site(
            self.alpha.service,
            configuration=NoServerConfiguration(),
            members=EstateMembers(("ALPHA",), {}, None),
            limits=ControlLimits(),
            clock=self.clock.reactor,
        )
        caller = Caller(site, self.clock)
        caller.ask(method, path, None, **parameters)
        return caller.answer

    def test_route(self) -> None:
        """A route is an object with its hops, each with a reason; the ends are names or GUIDs."""
        for source in ("ALPHA", "alpha.example.com", str(IDENTIFIERS["ALPHA"])):
            answer = self.call("GET", "/v1/route", source=source, destination="zeta")
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.headers["content-type"], "application/json")
            self.assertEqual(
                [hop["name"] for hop in answer.json["hops"]], ["BETA", "DELTA", "EPSILON", "ZETA"]
            )
            self.assertTrue(all(hop["reason"] for hop in answer.json["hops"]))

    def test_route_while_members_are_down(self) -> None:
        """The fate of a message while members are down; these are named as the ends are."""
        answer = self.call("GET", "/v1/route", source="ALPHA", destination="ZETA", down="delta")
        self.assertEqual([hop["name"] for hop in answer.json["hops"]], ["BETA", "EPSILON", "ZETA"])
        self.assertEqual([hop["cost"] for hop in answer.json["hops"]], [0, 5, 0])
        answer = self.call("GET", "/v1/route", source="ALPHA", destination="ZETA", down="DELTA,EPSILON")
        self.assertEqual(answer.json["waits_at"], "BETA")
        answer = self.call("GET", "/v1/route", source="ALPHA", destination="ZETA", down="OMEGA")
        self.assertEqual((answer.status, answer.json["error"]), (404, "MQ_ERROR_MACHINE_NOT_FOUND"))

    def test_route_to_an_unknown_member(self) -> None:
        """The unknown name is in the error."""
        answer = self.call("GET", "/v1/route", source="ALPHA", destination="OMEGA")
        self.assertEqual((answer.status, answer.json["error"]), (404, "MQ_ERROR_MACHINE_NOT_FOUND"))
        self.assertIn("OMEGA", answer.json["detail"])

    def test_topology(self) -> None:
        """The enterprise is one object, which is made and written part by part."""
        answer = self.call("GET", "/v1/topology")
        self.assertEqual((answer.status, answer.headers["content-type"]), (200, "application/json"))
        sizes = {key: len(value) for key, value in answer.json.items()}
        self.assertEqual(sizes, {"sites": 3, "links": 3, "queue_managers": 6})
        topology = self.successResultOf(Deferred.fromCoroutine(self.alpha.service.inspection.topology()))
        self.assertEqual(answer.json, describe_topology(topology))
        self.assertEqual(answer.headers["transfer-encoding"], "chunked")

    def test_transit(self) -> None:
        """Messages that wait at a gate for another queue manager are shown there under its name."""
        self.kill("DELTA")
        self.kill("EPSILON")
        path = self.queue(self.zeta)
        self.send(self.alpha, self.private_name(self.zeta, path), b"x")
        self.clock.advance(5)
        self.alpha = self.nodes["BETA"]
        [queue] = self.call("GET", "/v1/outgoing").json
        self.assertEqual((queue["transit"], queue["messages"]), (True, 1))
        self.assertEqual(queue["format_name"], f"PRIVATE={str(IDENTIFIERS['ZETA']).upper()}\\00000000")


class WorkgroupTests(ControlTestCase):
    """Asking a queue manager without a directory, or wrongly."""

    def test_without_a_directory(self) -> None:
        """There is no enterprise."""
        for path, parameters in (("/v1/topology", {}), ("/v1/route", {"source": "A", "destination": "B"})):
            self.assert_refused(
                self.call("GET", path, None, **parameters), 503, "MQ_ERROR_NO_DS", "no directory"
            )

    def test_parameters(self) -> None:
        """A route has two ends and nothing else, and a topology nothing at all."""
        for path, parameters in (
            ("/v1/route", {"source": "A"}),
            ("/v1/route", {"destination": "A"}),
            ("/v1/route", {"source": "A", "destination": "B", "by": "C"}),
            ("/v1/topology", {"site": "A"}),
        ):
            self.assertEqual(self.call("GET", path, None, **parameters).status, 400, path)
