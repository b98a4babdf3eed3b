"""The whole route of a message, with its reasons."""

from __future__ import annotations

from inspect import signature
from itertools import pairwise

from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.next_hops import Rule, decide, next_hops
from msmq.routing.route import Route, route
from msmq.routing.topology import QueueManager, RoutingLink, Site, Topology
from tests.routing.builders import Estate, guid, guids, names
from tests.test_architecture.rooms import BASICS, IMPURE_STANDARD, ROOMS


class RouteTests(SynchronousTestCase):
    """A route, as people are shown it."""

    def route(self, topology: Topology, source: str, destination: str) -> Route:
        return route(topology, guid(source), guid(destination))

    def lines(self, found: Route) -> list[tuple[str, str, int, int, str]]:
        return [(hop.name, hop.site_name, hop.cost, hop.total, hop.reason) for hop in found.hops]

    def test_through_sites(self) -> None:
        """Each hop has its site, its cost, the cost so far, and a reason with names."""
        estate = Estate("A-B 3, B-C 3, B-D 1, C-D 1")
        estate.machine("from", "A", out="rA")
        estate.machine("rA", "A", routing_server=True)
        estate.machine("rC", "C", routing_server=True)
        estate.machine("to", "C", into="rC gC")
        found = self.route(estate.sound(), "from", "to")
        self.assertEqual(
            self.lines(found),
            [
                ("rA", "A", 0, 0, "from sends everything through its out-routing servers"),
                ("gA", "A", 0, 0, "to is in another site, and gA is a site gate of A"),
                ("gB", "B", 3, 3, "the cheapest route is A - B - D - C at 5; gB is a site gate of B"),
                ("gD", "D", 1, 4, "the cheapest route is B - D - C at 2; gD is a site gate of D"),
                ("gC", "C", 1, 5, "the cheapest route is D - C at 1; gC is a site gate of C"),
                ("to", "C", 0, 5, "gC is an in-routing server of to"),
            ],
        )
        self.assertEqual((found.cost, found.problem, found.arrives), (5, "", True))

    def test_within_a_site(self) -> None:
        """Within a site a route costs nothing, and other candidates are listed."""
        estate = Estate(sites="A")
        estate.machine("r1", "A", routing_server=True)
        estate.machine("to", "A", into="r1 gA")
        found = self.route(estate.sound(), "cA", "to")
        self.assertEqual(
            self.lines(found),
            [
                (
                    "r1",
                    "A",
                    0,
                    0,
                    "to is in the site A too, and gets everything through its in-routing servers",
                ),
                ("to", "A", 0, 0, "r1 is an in-routing server of to"),
            ],
        )
        self.assertEqual([names(hop.others) for hop in found.hops], [["gA"], []])
        [only] = self.route(estate.sound(), "cA", "gA").hops
        self.assertEqual((only.rule, only.reason), (Rule.SAME_SITE, "cA and gA are both in the site A"))

    def test_routing_server_of_the_site(self) -> None:
        """A queue manager without out-routing servers has one found."""
        found = self.route(Estate("A-B 1").sound(), "cA", "cB")
        self.assertEqual(
            found.hops[0].reason, "cB is in another site, and gA is the first routing server of a site of cA"
        )

    def test_tie(self) -> None:
        """Where several routes cost the same, the reason says so."""
        found = self.route(Estate("A-B 1, A-C 1, B-D 1, C-D 1").sound(), "gA", "gD")
        self.assertEqual(
            found.hops[0].reason,
            "the cheapest route is A - B - D at 2, of several the one with the smallest identifier; "
            "gB is a site gate of B",
        )

    def test_long_route(self) -> None:
        """The text about a long route omits its middle."""
        for letters, expected in (
            ("ABCDEFGHIJKL", "A - B - C - D - E - F - G - H - I - J - K - L at 11;"),
            ("ABCDEFGHIJKLM", "A - B - C - D - E - F - 1 more - H - I - J - K - L - M at 12;"),
            ("ABCDEFGHIJKLMNOP", "A - B - C - D - E - F - 4 more - K - L - M - N - O - P at 15;"),
        ):
            chain = ", ".join(f"{one}-{two} 1" for one, two in pairwise(letters))
            found = self.route(Estate(chain).sound(), "gA", f"g{letters[-1]}")
            self.assertIn(f"the cheapest route is {expected}", found.hops[0].reason)

    def test_cost(self) -> None:
        """A route costs what all its links do, also where the last hop is one of them."""
        topology = Estate("A-B 3, B-C 4").sound()
        for source, destination, expected in (
            ("gA", "gB", 3),
            ("cA", "gC", 7),
            ("gB", "cC", 4),
            ("cB", "gA", 3),
            ("cA", "gA", 0),
        ):
            self.assertEqual(self.route(topology, source, destination).cost, expected)

    def test_site_of_a_hop(self) -> None:
        """A queue manager of several sites receives a message in the one that led to it, else in one that
        it shares with the sender, else in its first.
        """
        estate = Estate("A-B 1, B-C 1")
        estate.machine("wide", "B A", routing_server=True)
        estate.machine("far", "C B", routing_server=True)
        estate.machine("from", "A", out="wide")
        estate.machine("past", "A", out="far")
        estate.machine("to", "C")
        topology = estate.sound()
        found = self.route(topology, "from", "to")
        self.assertEqual(
            [(hop.name, hop.site_name) for hop in found.hops],
            [("wide", "A"), ("gA", "A"), ("gB", "B"), ("gC", "C"), ("to", "C")],
        )
        found = self.route(topology, "past", "cB")
        self.assertEqual([(hop.name, hop.site_name) for hop in found.hops], [("far", "C"), ("cB", "B")])

    def test_to_oneself(self) -> None:
        """A message to oneself is not routed."""
        found = self.route(Estate("A-B 1").sound(), "cA", "cA")
        self.assertEqual((found.hops, found.arrives, found.cost), ((), True, 0))

    def test_unknown_queue_manager(self) -> None:
        """An unknown queue manager has no route."""
        for source, destination in (("cA", "nobody"), ("nobody", "cA"), ("nobody", "nobody")):
            found = self.route(Estate("A-B 1").sound(), source, destination)
            self.assertEqual(
                found.problem, "no queue manager {6E6F626F-6479-0000-0000-000000000000} is known to routing"
            )
            self.assertEqual((found.hops, found.arrives), ((), False))

    def test_incomplete_route(self) -> None:
        """A route that ends before the destination has the hops up to there, and says why it ends."""
        found = self.route(Estate("A-B 1, C-D 1").topology, "cA", "cD")
        self.assertEqual([hop.name for hop in found.hops], ["gA"])
        self.assertEqual(
            found.problem,
            "gA cannot send to cD: it has no route to it in its routing table: no links lead to D",
        )

    def test_no_site(self) -> None:
        """A queue manager without a site can neither be reached nor reach others."""
        estate = Estate("A-B 1")
        estate.machine("lonely", "")
        estate.machine("router", "", routing_server=True)
        topology = estate.topology
        self.assertEqual(
            self.route(topology, "gA", "lonely").problem,
            "gA cannot send to lonely: it has no route to it in its routing table: it belongs to no site",
        )
        self.assertEqual(
            self.route(topology, "router", "gA").problem, "router cannot send to gA: it belongs to no site"
        )

    def test_while_some_are_down(self) -> None:
        """A message goes by alternates, with reasons, or waits where all that would do are down."""
        estate = Estate("A-B 10, B-C 10, A-D 15, D-C 15, A-E 1, E-C 40")
        estate.machine("hA", "A", routing_server=True)
        estate.machine("rA", "A", routing_server=True)
        topology = estate.sound()
        found = route(topology, guid("cA"), guid("cC"), {guid("gB")})
        self.assertEqual(
            self.lines(found)[1:3],
            [
                (
                    "gD",
                    "D",
                    15,
                    15,
                    "the cheapest path is by gB, and cannot be used; gD is nearer to cC (15) than gA is (20)",
                ),
                ("gC", "C", 15, 30, "the cheapest route is D - C at 15; gC is a site gate of C"),
            ],
        )
        self.assertTrue(found.arrives)
        found = route(topology, guid("rA"), guid("cC"), {guid("gB"), guid("gD")})
        self.assertEqual(
            (names(hop.queue_manager for hop in found.hops), found.waits_at), (["gA"], guid("gA"))
        )
        self.assertEqual(
            found.problem,
            "the message waits at gA for gB or gD; gE is not an alternate, because it is farther from cC (21)"
            " than gA is (20)",
        )
        found = route(topology, guid("cA"), guid("cC"), {guid("gA")})
        self.assertEqual(found.problem, "the message waits at cA for gA")
        found = route(topology, guid("gA"), guid("cA"), {guid("cA")})
        self.assertEqual(found.problem, "the message waits at gA for cA")
        found = route(topology, guid("gA"), guid("cA"), {guid("gA")})
        self.assertEqual((found.problem, found.waits_at), ("gA, which has the message, is down", None))

    def test_foreign_site(self) -> None:
        """A message for a foreign site ends at the connector server, which is not its destination."""
        estate = Estate("A-B 1", sites="A")
        estate.add_site(guid("B"), "B", is_foreign=True)
        estate.machine("gB", "A B", routing_server=True)
        estate.machine("mainframe", "B")
        estate.machine("clerk", "B")
        topology = estate.sound()
        found = route(topology, guid("cA"), guid("mainframe"))
        self.assertEqual((found.arrives, found.connector), (True, guid("B")))
        self.assertEqual(names(hop.queue_manager for hop in found.hops), ["gA", "gB"])
        self.assertEqual(route(topology, guid("gB"), guid("mainframe")).hops, ())
        # Who is in no foreign site alone is reached as any other, and so is a neighbor of the foreign system.
        self.assertIsNone(route(topology, guid("cA"), guid("gB")).connector)
        direct = route(topology, guid("clerk"), guid("mainframe"))
        self.assertEqual(names(hop.queue_manager for hop in direct.hops), ["mainframe"])
        self.assertIsNone(direct.connector)

    def test_circle(self) -> None:
        """Out-routing servers that are no routing servers can send in circles; the route says so."""
        machines = (
            QueueManager(guid("one"), "one", guids("A"), out_routing_servers=guids("two")),
            QueueManager(guid("two"), "two", guids("A"), out_routing_servers=guids("one")),
            QueueManager(guid("to"), "to", guids("A")),
        )
        found = self.route(Topology((Site(guid("A"), "A"),), (), machines), "one", "to")
        self.assertEqual([hop.name for hop in found.hops], ["two", "one"])
        self.assertEqual(found.problem, "the message comes back to one, which had it before")
        later = (QueueManager(guid("zero"), "zero", guids("A"), out_routing_servers=guids("one")), *machines)
        found = self.route(Topology((Site(guid("A"), "A"),), (), later), "zero", "to")
        self.assertEqual([hop.name for hop in found.hops], ["one", "two", "one"])
        self.assertEqual(found.problem, "the message comes back to one, which had it before")

    def test_unknown_hop(self) -> None:
        """A hop that is not known ends the route."""
        machines = (
            QueueManager(guid("one"), "one", guids("A"), out_routing_servers=guids("x")),
            QueueManager(guid("to"), "to", guids("A")),
        )
        found = self.route(Topology((Site(guid("A"), "A"),), (), machines), "one", "to")
        x = "{78000000-0000-0000-0000-000000000000}"
        self.assertEqual([(hop.name, hop.site) for hop in found.hops], [(x, None)])
        self.assertEqual(found.problem, f"{x}, to which the message goes next, is not known to routing")

    def test_too_many_hops(self) -> None:
        """A message may pass 29 queue managers, and no more."""
        for passed, arrives in ((29, True), (30, False)):
            sites = [f"s{number:02}" for number in range(passed + 1)]
            chain = ", ".join(f"{one}-{two} 1" for one, two in pairwise(sites))
            found = self.route(Estate(chain).sound(), "gs00", f"c{sites[-1]}")
            self.assertEqual((found.arrives, len(found.hops)), (arrives, passed + arrives))
            if not arrives:
                self.assertEqual(found.problem, "the message would pass more than 29 queue managers")

    def test_names(self) -> None:
        """A queue manager without a name is shown by its identifier."""
        machines = (QueueManager(guid("a"), "", guids("A")), QueueManager(guid("b"), "", guids("A")))
        topology = Topology((Site(guid("A")),), (RoutingLink(guid("A"), guid("B"), 1),), machines)
        [hop] = self.route(topology, "a", "b").hops
        self.assertEqual(hop.name, "{62000000-0000-0000-0000-000000000000}")
        self.assertEqual(hop.site_name, "{41000000-0000-0000-0000-000000000000}")

    def test_priority(self) -> None:
        """MQBR-3.1-01, MQBR-3.1.4-01: of a message only its destination counts, so its priority makes
        no difference, and routing is not notified of it beforehand.
        """
        for function in (next_hops, decide):
            self.assertEqual([*signature(function).parameters], ["topology", "own", "destination", "table"])
        self.assertEqual([*signature(route).parameters], ["topology", "source", "destination", "down"])

    def test_no_transport(self) -> None:
        """MQBR-2.1-01: routing sends nothing itself: no part of it can reach a socket."""
        room = ROOMS["routing"]
        self.assertTrue(room.pure)
        self.assertIn("socket", IMPURE_STANDARD)
        self.assertEqual(set(room.may_import), set(BASICS))
        self.assertNotIn("net", room.may_import)
