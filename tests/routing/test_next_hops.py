"""[MS-MQBR] 3.1.5 GetNextHops and its companions, rule by rule."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.next_hops import (
    NoRoute,
    Rule,
    decide,
    get_routing_server,
    get_site_gate,
    get_site_gate_for_site,
    next_hops,
)
from msmq.routing.table import EMPTY_TABLE, is_site_gate
from msmq.routing.topology import Topology
from msmq.structures.status import Status
from tests.routing.builders import Estate, guid, guids, name, names


def hops(topology: Topology, source: str, destination: str) -> list[str]:
    return names(next_hops(topology, guid(source), guid(destination)))


class ClientTests(SynchronousTestCase):
    """Queue managers that are no routing servers."""

    def test_same_site(self) -> None:
        """MQBR-1.3.1-01, MQBR-3.1.5.1-08, MQBR-3.1.5.1-01, MQBR-3.1.5.1-12: within a site messages go to
        their destination.
        """
        estate = Estate("A-B 1")
        estate.machine("near", "A")
        self.assertEqual(next_hops(estate.sound(), guid("cA"), guid("near")), (guid("near"),))

    def test_out_routing_servers(self) -> None:
        """MQBR-1.3.2-01, MQBR-3.1.5.1-05, MQBR-3.1.5.1-06: with out-routing servers all is sent to
        them, in their order, also to the own site and past in-routing servers.
        """
        estate = Estate("A-B 1")
        estate.machine("r2", "A", routing_server=True)
        estate.machine("r1", "A", routing_server=True)
        estate.machine("from", "A", out="r2 r1")
        estate.machine("near", "A", into="gA")
        for destination in ("near", "cA", "cB", "gA"):
            self.assertEqual(hops(estate.sound(), "from", destination), ["r2", "r1"])

    def test_in_routing_servers(self) -> None:
        """MQBR-1.3.2-02, MQBR-3.1.5.1-07: with in-routing servers all from the own site comes by them."""
        estate = Estate("A-B 1")
        estate.machine("r1", "A", routing_server=True)
        estate.machine("near", "A", into="r1 gA")
        self.assertEqual(hops(estate.sound(), "cA", "near"), ["r1", "gA"])

    def test_common_site(self) -> None:
        """MQBR-3.1.5.1-09: one site in common is enough."""
        estate = Estate("A-B 1, B-C 1")
        estate.machine("one", "A B")
        estate.machine("two", "B C")
        estate.machine("other", "C B")
        estate.machine("three", "C")
        for destination in ("two", "other"):
            self.assertEqual(hops(estate.sound(), "one", destination), [destination])
        self.assertEqual(hops(estate.sound(), "one", "three"), ["gA"])

    def test_other_site(self) -> None:
        """MQBR-1.3-01, MQBR-3.1.5.1-10, MQBR-3.1.5.5-03: to another site a message goes to the first
        routing server of the directory in its own, whether that is a gate or not.
        """
        estate = Estate(sites="A B", with_gates=False)
        estate.machine("other", "B", routing_server=True)
        estate.machine("no", "A")
        estate.machine("yes", "A", routing_server=True)
        estate.machine("first", "A", routing_server=True)
        estate.link("A", "B", 1, "first other")
        self.assertEqual(hops(estate.sound(), "no", "other"), ["yes"])
        self.assertEqual(get_routing_server(estate.topology, guid("no")), guid("yes"))
        for sites in ("A B", "B A"):
            estate.machine(sites, sites)
            self.assertEqual(get_routing_server(estate.topology, guid(sites)), guid("other"))

    def test_no_routing_server(self) -> None:
        """MQBR-3.1.5.1-11, MQBR-3.1.5.5-04: without a routing server in the site there is no route."""
        estate = Estate("A-B 1", with_gates=False)
        estate.machine("one", "A")
        estate.machine("two", "B", routing_server=True)
        self.assertIsNone(get_routing_server(estate.topology, guid("one")))
        missing = self.assertRaises(NoRoute, next_hops, estate.topology, guid("one"), guid("two"))
        self.assertEqual(missing.status, Status.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE)
        self.assertEqual(
            missing.detail,
            "one cannot send to two: it shares no site with it, and there is no routing server in its own",
        )

    def test_unknown_destination(self) -> None:
        """MQBR-3.1.5.1-03, MQBR-3.1.5.4-03, MQBR-3.1.5.5-01, MQBR-3.1.5.6-01, MQBR-3.1.5.8-01: a queue
        manager that is not in the directory is not found, sends nothing and gets nothing.
        """
        topology = Estate("A-B 1").sound()
        self.assertIsNone(topology.queue_manager(guid("nobody")))
        for source, destination in (("nobody", "cA"), ("cA", "nobody"), ("gA", "nobody")):
            missing = self.assertRaises(NoRoute, next_hops, topology, guid(source), guid(destination))
            self.assertEqual(missing.status, Status.MQ_ERROR_MACHINE_NOT_FOUND)
            self.assertIn("6E6F626F-6479-0000-0000-000000000000", missing.detail)
        self.assertIsNone(get_routing_server(topology, guid("nobody")))
        self.assertIsNone(get_site_gate(topology, guid("nobody")))
        self.assertFalse(is_site_gate(topology, guid("nobody")))

    def test_networks(self) -> None:
        """MQBR-1.3-02: whether two share a connected network is not looked at, as 3.1.5 has it."""
        estate = Estate("A-B 1")
        estate.machine("one", "A", networks="ip")
        estate.machine("two", "A", networks="ipx")
        self.assertEqual(hops(estate.topology, "one", "two"), ["two"])

    def test_connection_that_fails(self) -> None:
        """MQBR-1.3.2-03: a destination of the same site is the only candidate; no routing server stands in
        for a connection that fails.
        """
        self.assertEqual(hops(Estate("A-B 1").sound(), "cA", "gA"), ["gA"])


class RoutingServerTests(SynchronousTestCase):
    """Routing servers that are no gates."""

    def estate(self) -> Estate:
        estate = Estate("A-B 1, B-C 1")
        estate.machine("router", "A", routing_server=True, out="gA")
        return estate

    def test_out_routing_servers(self) -> None:
        """MQBR-3.1.5.1-04: its own out-routing servers are not looked at."""
        self.assertEqual(hops(self.estate().sound(), "router", "cA"), ["cA"])
        self.assertEqual(hops(self.estate().sound(), "cA", "cC"), ["gA"])

    def test_from_in_routing_server(self) -> None:
        """MQBR-3.1.5.2-02: an in-routing server hands over itself, to another site too."""
        estate = self.estate()
        estate.machine("near", "A", into="router gA")
        estate.machine("far", "C", into="router")
        self.assertEqual(hops(estate.sound(), "router", "near"), ["near"])
        self.assertEqual(hops(estate.sound(), "router", "far"), ["far"])

    def test_in_routing_servers(self) -> None:
        """MQBR-3.1.5.2-03: a router that is not an in-routing server forwards to one that is."""
        estate = self.estate()
        estate.machine("second", "A", routing_server=True)
        estate.machine("near", "A", into="second gA")
        self.assertEqual(hops(estate.sound(), "router", "near"), ["second", "gA"])

    def test_same_site(self) -> None:
        """MQBR-3.1.5.2-04: within its site it hands over to the destination, not to a gate."""
        for destination in ("gA", "cA"):
            self.assertEqual(hops(self.estate().sound(), "router", destination), [destination])

    def test_other_site(self) -> None:
        """MQBR-3.1.5.2-05, MQBR-3.1.5.6-03: to another site it hands over to a gate of its own."""
        topology = self.estate().sound()
        self.assertEqual(hops(topology, "router", "cC"), ["gA"])
        self.assertIn(get_site_gate(topology, guid("router")), topology.gates(guid("A")))

    def test_no_gate(self) -> None:
        """MQBR-3.1.5.2-06: without a gate in its site there is no route."""
        estate = Estate("A-B 1 gB")
        self.assertIsNone(get_site_gate(estate.topology, guid("gA")))
        missing = self.assertRaises(NoRoute, next_hops, estate.topology, guid("gA"), guid("cB"))
        self.assertEqual(
            missing.detail, "gA cannot send to cB: it shares no site with it, and A has no site gate"
        )

    def test_first_site(self) -> None:
        """MQBR-3.1.5.6-03, MQBR-3.1.5.6-04: only the first of its sites in the directory is looked at, gate
        or not.
        """
        for sites, expected in (("B A C", ["gB"]), ("A B C", None)):
            estate = Estate("B-C 1", sites)
            estate.machine("router", "A B", routing_server=True)
            if expected:
                self.assertEqual(hops(estate.topology, "router", "cC"), expected)
            else:
                self.assertIsNone(get_site_gate(estate.topology, guid("router")))

    def test_no_sites(self) -> None:
        """MQBR-3.1.5.6-02, MQBR-3.1.5.8-03, MQBR-3.1.5.5-02: without readable sites there is no gate,
        and without readable queue managers there is no routing server.
        """
        topology = Topology(queue_managers=self.estate().topology.queue_managers)
        for machine in topology.queue_managers:
            self.assertIsNone(get_site_gate(topology, machine.identifier))
            self.assertFalse(is_site_gate(topology, machine.identifier))
        self.assertIsNone(get_routing_server(Topology(self.estate().topology.sites), guid("cA")))


class SiteGateTests(SynchronousTestCase):
    """Site gates."""

    def estate(self) -> Estate:
        return Estate("A-B 1, B-C 1")

    def test_delegation(self) -> None:
        """MQBR-3.1.5.2-01: what a gate sends to other sites goes by its routing table, not to a gate of its
        own site.
        """
        estate = self.estate()
        estate.link("A", "B", 2, "aa")
        estate.machine("aa", "A", routing_server=True)
        self.assertEqual(hops(estate.sound(), "gA", "cB"), ["gB"])
        decision = decide(estate.sound(), guid("gA"), guid("cB"))
        self.assertEqual((decision.rule, decision.site), (Rule.ROUTING_TABLE, guid("B")))

    def test_from_in_routing_server(self) -> None:
        """MQBR-3.1.5.3-01: a gate that is an in-routing server hands over itself, to another site too."""
        estate = self.estate()
        estate.machine("far", "C", into="gA")
        self.assertEqual(hops(estate.sound(), "gA", "far"), ["far"])

    def test_in_routing_servers(self) -> None:
        """MQBR-3.1.5.3-02: a router that is not an in-routing server forwards to one that is."""
        estate = self.estate()
        estate.machine("router", "A", routing_server=True)
        estate.machine("second", "A", routing_server=True)
        estate.machine("near", "A", into="second router")
        self.assertEqual(hops(estate.sound(), "gA", "near"), ["second", "router"])

    def test_same_site(self) -> None:
        """MQBR-3.1.5.3-03: within its site a gate hands over to the destination."""
        self.assertEqual(hops(self.estate().sound(), "gA", "cA"), ["cA"])

    def test_other_site(self) -> None:
        """MQBR-3.1.5.3-04, MQBR-3.1.5.3-06: to another site a gate hands over to one gate of the next."""
        self.assertEqual(hops(self.estate().sound(), "gA", "cC"), ["gB"])

    def test_several_sites(self) -> None:
        """MQBR-3.1.5.3-04, MQBR-3.1.5.3-05: of a destination's sites the cheapest to reach counts, then the
        smallest.
        """
        estate = Estate("A-B 2, A-C 1, A-D 2")
        estate.machine("both", "D C")
        estate.machine("last", "C B")
        estate.machine("alike", "D B")
        self.assertEqual(hops(estate.sound(), "gA", "both"), ["gC"])
        # Neither the last of its sites counts, nor the smallest of them if another is cheaper.
        self.assertEqual(hops(estate.sound(), "gA", "last"), ["gC"])
        self.assertEqual(hops(estate.sound(), "gA", "alike"), ["gB"])

    def test_no_route(self) -> None:
        """MQBR-3.1.5.3-07, MQBR-3.1.3.1-12: to a site that no links lead to there is no route, nor with
        an empty table.
        """
        topology = Estate("A-B 1, C-D 1").topology
        missing = self.assertRaises(NoRoute, next_hops, topology, guid("gA"), guid("cD"))
        self.assertEqual(
            missing.detail,
            "gA cannot send to cD: it has no route to it in its routing table: no links lead to D",
        )
        self.assertRaises(NoRoute, next_hops, topology, guid("gA"), guid("cB"), EMPTY_TABLE)

    def test_no_gate_there(self) -> None:
        """MQBR-3.1.5.7-02: without a gate in the next site, or without such a site, there is no route."""
        topology = Estate("A-B 1 gA").topology
        self.assertIsNone(get_site_gate_for_site(topology, guid("B")))
        self.assertIsNone(get_site_gate_for_site(topology, guid("X")))
        missing = self.assertRaises(NoRoute, next_hops, topology, guid("gA"), guid("cB"))
        self.assertEqual(
            missing.detail, "gA cannot send to cB: it would go on to the site B, which has no site gate"
        )

    def test_gate_of_the_link(self) -> None:
        """MQBR-3.1.5.7-03: of several gates one is taken that serves the link, else the smallest."""
        estate = Estate("A-B 1 gA gB, B-C 1 b2 b1 gC, A-D 1 gA gD")
        estate.machine("b1", "B", routing_server=True)
        estate.machine("b2", "B", routing_server=True)
        topology = estate.sound()
        self.assertEqual(names(topology.gates(guid("B"))), ["b1", "b2", "gB"])
        self.assertEqual(hops(topology, "gA", "cB"), ["gB"])
        self.assertEqual(hops(topology, "gC", "cB"), ["b1"])
        estate.link("D", "B", 1, "gD")
        self.assertEqual(hops(estate.topology, "gD", "cB"), ["b1"])
        self.assertEqual(get_site_gate_for_site(topology, guid("B")), guid("b1"))

    def test_gate_of_the_cheapest_link(self) -> None:
        """Of two gates the one of the link counts, and of several links from the own sites the cheapest."""
        estate = Estate("A-C 1 gA gC, B-C 2 gB aC")
        estate.machine("aC", "C", routing_server=True)
        topology = estate.sound()
        self.assertEqual(names(topology.gates(guid("C"))), ["aC", "gC"])
        for sources, expected in (
            ("A", "gC"),
            ("B", "aC"),
            ("A B", "gC"),
            ("B A", "gC"),
            ("", "aC"),
            ("X", "aC"),
        ):
            found = get_site_gate_for_site(topology, guid("C"), guids(sources))
            self.assertEqual(found, guid(expected), sources)

    def test_gate_of_two_sites(self) -> None:
        """A gate of two sites never sends to itself: its routes begin in all its sites."""
        estate = Estate("A-B 1 both, B-C 5 both gC", with_gates=False)
        estate.machine("both", "A B", routing_server=True)
        estate.machine("gC", "C", routing_server=True)
        self.assertEqual(hops(estate.sound(), "both", "gC"), ["gC"])

    def test_conditions_of_a_gate(self) -> None:
        """MQBR-3.1.5.8-02, MQBR-3.1.5.8-04, MQBR-3.1.5.8-05: a gate is a routing server that is listed
        for a site of its own.
        """
        estate = Estate("A-B 1 gA cB gB far both")
        estate.machine("far", "C", routing_server=True)
        estate.machine("both", "C A", routing_server=True)
        estate.add_site(guid("C"), "C")
        estate.machine("rA", "A", routing_server=True)
        for machine, expected in (
            ("gA", True),
            ("gB", True),
            ("both", True),
            ("cB", False),
            ("far", False),
            ("cA", False),
            ("rA", False),
        ):
            with self.subTest(machine=machine):
                self.assertIs(is_site_gate(estate.topology, guid(machine)), expected)

    def test_gates_of_the_directory(self) -> None:
        """Where the directory says itself which gates a site has, the links are not asked."""
        estate = Estate("A-B 1")
        estate.add_site(guid("C"), "C", gates=[guid("gC")])
        estate.machine("gC", "C", routing_server=True)
        estate.machine("other", "C", routing_server=True)
        estate.link("B", "C", 1, "gB other")
        self.assertEqual(names(estate.topology.gates(guid("C"))), ["gC"])


class NoRouteTests(SynchronousTestCase):
    """The error of a message without a next hop."""

    def test_status(self) -> None:
        """MQ_ERROR_MACHINE_NOT_FOUND is for unknown queue managers alone."""
        for rule in Rule:
            is_unknown = rule in (Rule.UNKNOWN_SOURCE, Rule.UNKNOWN_DESTINATION)
            error = NoRoute(rule)
            self.assertIs(error.reason, rule)
            self.assertEqual(
                error.status,
                Status.MQ_ERROR_MACHINE_NOT_FOUND
                if is_unknown
                else Status.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE,
            )

    def test_text(self) -> None:
        """Without a text of its own an error has that of its reason, which may be of any type."""
        for reason, detail, expected in (
            (Rule.NO_ROW, "", "3.1.5.3 no row in the routing table"),
            (Rule.NO_ROW, "no links", "no links"),
            ("a wall is in between", "", "a wall is in between"),
            (7, "", "7"),
        ):
            self.assertEqual(NoRoute(reason, detail).detail, expected)

    def test_reason(self) -> None:
        """The rule that failed is the reason."""
        lone, apart = Estate("A-B 1 gB", with_gates=True).topology, Estate("A-B 1, C-D 1").topology
        for topology, own, destination, rule in (
            (lone, "x", "cB", Rule.UNKNOWN_SOURCE),
            (lone, "cA", "x", Rule.UNKNOWN_DESTINATION),
            (lone, "gA", "cB", Rule.NO_SITE_GATE),
            (lone, "gB", "cA", Rule.NO_GATE_OF_NEXT_SITE),
            (apart, "gA", "cD", Rule.NO_ROW),
        ):
            missing = self.assertRaises(NoRoute, next_hops, topology, guid(own), guid(destination))
            self.assertIs(missing.reason, rule)


class SnapshotTests(SynchronousTestCase):
    """The topology itself."""

    def test_first_of_two(self) -> None:
        """MQBR-3.1.5.4-01, MQBR-3.1.5.4-02: a queue manager is found by its Identifier, the first of two."""
        one, two = (Estate("A-B 1").sound().queue_managers[0] for _ in range(2))
        other = Estate("A-B 1").sound().queue_managers[1]
        topology = Topology(queue_managers=(other, one, two))
        self.assertIs(topology.queue_manager(guid("gA")), one)
        self.assertIs(topology.queue_manager(other.identifier), other)

    def test_site_by_identifier(self) -> None:
        """MQBR-3.1.5.7-01: the gates of a site are found by its Identifier."""
        topology = Estate("A-B 1").sound()
        self.assertEqual([names(topology.gates(guid(site))) for site in "AB"], [["gA"], ["gB"]])

    def test_members_of_lists(self) -> None:
        """Routing knows no member of a list but by its Identifier, and none that no list has.

        MQDMPR-3.1.1.1-36 MQDMPR-3.1.1.8-03
        """
        estate = Estate("A-B 1, B-C 1")
        estate.machine("x", "A", routing_server=True)
        estate.machine("c", "A", into="x", out="x")
        topology = estate.sound()
        for link in topology.links:
            for site in (link.site1, link.site2):
                found = topology.site(site)
                self.assertEqual(None if found is None else found.identifier, site)
                listed = {
                    gate for each in topology.links if site in (each.site1, each.site2) for gate in each.gates
                }
                self.assertTrue(topology.gates(site))
                self.assertLessEqual(set(topology.gates(site)), listed)
        [client] = [each for each in topology.queue_managers if each.identifier == guid("c")]
        self.assertEqual(hops(topology, "c", "cC"), names(client.out_routing_servers))
        self.assertEqual(hops(topology, "gA", "c"), names(client.in_routing_servers))

    def test_names(self) -> None:
        """People find a queue manager or a site by name or GUID, in any case."""
        topology = Estate("A-B 1").sound()
        for text in ("gA", "GA", str(guid("gA")), f"{{{guid('gA')}}}"):
            found = topology.queue_manager_named(text)
            self.assertEqual(None if found is None else name(found.identifier), "gA")
        site = topology.site_named("a")
        self.assertEqual(None if site is None else name(site.identifier), "A")
        self.assertIsNone(topology.queue_manager_named("gX"))
        self.assertIsNone(topology.queue_manager_named(""))
        self.assertIsNone(topology.site_named(str(guid("X"))))

    def test_lookups_in_order(self) -> None:
        """MQBR-3.1.5.1-02: both are looked up, the source first."""
        topology = Estate("A-B 1").sound()
        for source, rule in (("x", Rule.UNKNOWN_SOURCE), ("cA", Rule.UNKNOWN_DESTINATION)):
            decision = decide(topology, guid(source), guid("y"))
            self.assertEqual((decision.rule, decision.hops), (rule, ()))
