"""The map of the enterprise: what is drawn, and what is marked as not reached."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.route import route
from msmq.web.console.enterprise_map import (
    QUEUE_MANAGERS,
    SITES,
    EnterpriseDrawing,
    EnterpriseMap,
    PeerStates,
)
from tests.nodes.routes.test_routing import IDENTIFIERS, EnterpriseTestCase
from tests.routing.builders import Estate, guid


def finished(drawing: EnterpriseDrawing) -> EnterpriseMap:
    """The map after all steps."""
    for _ in drawing.steps():
        pass
    return drawing.drawn()


class ReachedTests(EnterpriseTestCase):
    """Queue managers of an enterprise that are down, as one of them sees it."""

    def drawn(self) -> EnterpriseMap:
        """The map that ALPHA's console would draw."""
        inspection = self.alpha.service.inspection
        states = PeerStates(inspection.unreached_members())
        for queue in inspection.each_outgoing():
            states.add_outgoing(queue)
        for session in inspection.each_session():
            states.add_session(session)
        topology = self.successResultOf(Deferred.fromCoroutine(inspection.topology()))
        return finished(EnterpriseDrawing(topology, states, IDENTIFIERS["ALPHA"], None, ""))

    def states(self) -> dict[str, tuple[bool, bool]]:
        """Of each queue manager, whether it is marked as down, and as connected."""
        return {each.name: (each.is_down, each.is_connected) for each in self.drawn().machines}

    def test_next_hop(self) -> None:
        """A gate that is not reached is down, with the links that need it; later it is connected."""
        path = self.queue(self.zeta)
        self.kill("BETA")
        self.send(self.alpha, self.private_name(self.zeta, path), b"x")
        self.clock.advance(5)
        self.assertEqual([name for name, (is_down, _) in self.states().items() if is_down], ["BETA"])
        down = {tuple(sorted(link.sites)): link.is_down for link in self.drawn().links}
        self.assertEqual(sorted(down.values()), [False, True, True])
        self.revive("BETA")
        self.clock.advance(120)
        self.assertEqual(self.states()["BETA"], (False, True))

    def test_direct_name(self) -> None:
        """The computer of a direct name is down while messages for it wait, and unknown without any."""
        self.kill("GAMMA")
        self.assertEqual(self.states()["GAMMA"], (False, False))
        self.send(self.alpha, "DIRECT=OS:gamma\\private$\\q", b"1")
        self.clock.advance(5)
        self.assertEqual([name for name, (is_down, _) in self.states().items() if is_down], ["GAMMA"])


class DrawnTests(SynchronousTestCase):
    """Sites, links and routes on the map."""

    def draw(
        self, estate: Estate, source: str = "", destination: str = "", chosen: str = ""
    ) -> EnterpriseMap:
        """The map that cA would draw."""
        topology = estate.topology
        found = route(topology, guid(source), guid(destination)) if source else None
        return finished(EnterpriseDrawing(topology, PeerStates(()), guid("cA"), found, chosen))

    def test_route(self) -> None:
        """The steps of a route are drawn between its queue managers."""
        drawn = self.draw(Estate("A-B 1, B-C 1, A-C 5"), "cA", "cC")
        names = {each.node: each.name for each in drawn.machines}
        steps = [(names[one], names[other]) for one, other in drawn.steps]
        self.assertEqual(steps, [("cA", "gA"), ("gA", "gB"), ("gB", "gC"), ("gC", "cC")])

    def test_parallel_links(self) -> None:
        """Of two links between the same sites the cheaper one is drawn."""
        self.assertEqual([link.cost for link in self.draw(Estate("A-B 7, B-A 3")).links], [3])

    def test_large_enterprise(self) -> None:
        """Of many sites and queue managers some are drawn, with the chosen one, and the others counted."""
        sites = [f"S{number:03}" for number in range(200)]
        drawn = self.draw(Estate(sites=" ".join(["A", *sites])), chosen="cS199")
        self.assertEqual((len(drawn.sites), len(drawn.machines)), (SITES, QUEUE_MANAGERS))
        self.assertEqual(drawn.hidden, 3 * 201 - SITES - QUEUE_MANAGERS)
        self.assertIn("cS199", [each.name for each in drawn.machines])
        self.assertIn("S199", [each.name for each in drawn.sites])
        self.assertIn("cA", [each.name for each in drawn.machines])

    def test_steps(self) -> None:
        """Each object of an enterprise is a step of its own, so that a page of a large one can pause."""
        topology = Estate("A-B 1, B-C 1").topology
        drawing = EnterpriseDrawing(topology, PeerStates(()), guid("cA"), None, "")
        objects = len(topology.sites) + len(topology.links) + len(topology.queue_managers)
        self.assertEqual(sum(1 for _ in drawing.steps()), objects)

    def test_the_rest_of_the_order(self) -> None:
        """Routing servers come before other queue managers, and those that are not reached before both."""
        sites = [f"S{number:03}" for number in range(200)]
        topology = Estate(sites=" ".join(["A", *sites])).topology
        missed = [guid("cS150"), guid("cS151")]
        drawn = finished(EnterpriseDrawing(topology, PeerStates(missed), guid("cA"), None, ""))
        others = [each for each in drawn.machines if not each.is_routing_server]
        self.assertEqual([each.name for each in others], ["cA", "cS150", "cS151"])
        self.assertEqual([each.is_down for each in others], [False, True, True])

    def test_equal_names(self) -> None:
        """Of two queue managers with one name the second is addressed by its identifier."""
        estate = Estate("A-B 1")
        estate.add_queue_manager(guid("other"), "cB", sites=(guid("B"),))
        addresses = [each.address for each in self.draw(estate).machines if each.name == "cB"]
        self.assertEqual(len(set(addresses)), 2)
        self.assertIn("cB", addresses)
