"""Which alternate is chosen, what is waited for, and what is cached."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.routing import alternates
from msmq.routing.alternates import MOST_WAITED_FOR, Alternates
from msmq.routing.downstream import DownstreamPaths
from msmq.routing.next_hops import Decision, Rule, decide
from msmq.routing.table import EMPTY_TABLE
from msmq.routing.topology import QueueManager, Topology
from tests.routing.builders import Estate, guid, guids, names


def decision(topology: Topology, own: str, destination: str, *down: str) -> Decision:
    return Alternates(topology).decide(guid(own), guid(destination), frozenset(guids(down)))


def hops(topology: Topology, own: str, destination: str, *down: str) -> list[str]:
    return names(decision(topology, own, destination, *down).hops)


def machine(topology: Topology, name: str) -> QueueManager:
    found = topology.queue_manager(guid(name))
    assert found is not None
    return found


class BetweenSitesTests(SynchronousTestCase):
    """A site gate, which compares whole paths."""

    def test_cheaper_of_two_ways(self) -> None:
        """If a gate beyond the next hop is down, the next hop remains unless another way is cheaper now."""
        for cost, expected, rule in (
            (7, "gE", Rule.ALTERNATE),
            (8, "gM", Rule.ROUTING_TABLE),
            (9, "gM", Rule.ROUTING_TABLE),
        ):
            with self.subTest(cost=cost):
                topology = Estate(f"A-M 1, M-N 1, N-Z 1, M-Z 9, A-E {cost}, E-Z 2").sound()
                found = decision(topology, "gA", "cZ", "gN")
                self.assertEqual((names(found.hops), found.rule), ([expected], rule))
                self.assertEqual(found.site, guid(expected[1:]))
        nearby = Estate("A-M 5, M-N 1, N-Z 1, M-Z 9, A-E 4, E-N 3, E-Z 8").sound()
        self.assertEqual(hops(nearby, "gA", "cZ", "gN"), ["gE"])

    def test_only_way_is_blocked_further_on(self) -> None:
        """A next hop that is up gets the message even if nothing leads on from it now."""
        topology = Estate("A-B 1, B-C 1").sound()
        self.assertEqual(decision(topology, "gA", "cC", "gC"), decide(topology, guid("gA"), guid("cC")))

    def test_cheapest_alternate(self) -> None:
        """Of several alternates the one with the cheapest whole path is chosen, then the one of the smallest
        site, then one that serves the link.
        """
        links = "A-B 5, B-Z 5, A-{} 7, {}-Z 9, A-{} 9, {}-Z 6"
        for one, two, expected in (("C", "D", "gD"), ("D", "C", "gC")):
            topology = Estate(links.format(one, one, two, two)).sound()
            self.assertEqual(hops(topology, "gA", "cZ", "gB"), [expected])
        alike = Estate("A-B 5, B-Z 5, A-D 7, D-Z 9, A-C 9, C-Z 7").sound()
        self.assertEqual(hops(alike, "gA", "cZ", "gB"), ["gC"])
        estate = Estate("A-B 5, B-Z 5, A-D 7, D-Z 9, A-C 7, C-Z 9 gC aC gZ")
        estate.machine("aC", "C", routing_server=True)
        self.assertEqual(hops(estate.sound(), "gA", "cZ", "gB"), ["gC"])
        self.assertEqual(hops(estate.sound(), "gA", "cZ", "gB", "gC"), ["aC"])

    def test_site_of_the_alternate(self) -> None:
        """The decision names the site of the alternate, and keeps the row of the next hop that is down."""
        topology = Estate("A-B 1, B-C 1, A-D 9, D-C 1").sound()
        found = decision(topology, "gA", "cC", "gB")
        self.assertEqual((names(found.hops), found.rule, found.site), (["gD"], Rule.ALTERNATE, guid("D")))
        assert found.row is not None
        self.assertEqual((found.row.next_hop_site_id, found.row.cost), (guid("B"), 2))

    def test_gates_of_the_own_site(self) -> None:
        """A gate of the own site that is down is on no path, so it changes nothing."""
        estate = Estate("A-B 1, B-C 1, A-C 9")
        estate.link("A", "B", 2, "hA")
        estate.machine("hA", "A", routing_server=True)
        topology = estate.sound()
        self.assertEqual(decision(topology, "gA", "cC", "hA"), decide(topology, guid("gA"), guid("cC")))

    def test_itself(self) -> None:
        """A queue manager is never down for itself, nor is the destination."""
        topology = Estate("A-B 1, B-C 1, A-C 9").sound()
        for own, destination in (("gA", "gC"), ("cA", "gC"), ("gA", "gB")):
            plain = decide(topology, guid(own), guid(destination))
            self.assertEqual(decision(topology, own, destination, own, destination), plain)

    def test_limit_of_waited_for(self) -> None:
        """While all are down the next hop and at most four alternates are tried, the cheapest of them."""
        around = [f"A-{site} {cost}, {site}-Z 1" for cost, site in enumerate("FEDCB", 11)]
        topology = Estate(", ".join(["A-M 1, M-Z 2", *around])).sound()
        gates = [f"g{site}" for site in "MFEDCB"]
        found = hops(topology, "gA", "cZ", *gates)
        self.assertEqual(found, gates[: 1 + MOST_WAITED_FOR])
        self.assertEqual(len(found), 5)
        self.assertIs(decision(topology, "gA", "cZ", *gates).rule, Rule.ROUTING_TABLE)

    def test_no_route(self) -> None:
        """Where there is no route at all, what is down changes nothing."""
        topology = Estate("A-B 1, C-D 1").topology
        for own, destination in (("gA", "cD"), ("gA", "nobody"), ("nobody", "gA")):
            plain = decide(topology, guid(own), guid(destination))
            self.assertEqual(decision(topology, own, destination, "gB", "gC"), plain)
            self.assertEqual(plain.hops, ())

    def test_given_table(self) -> None:
        """A table that the caller has is used, and not computed again."""
        topology = Estate("A-B 1, B-C 1, A-C 9").sound()
        for avoided in (frozenset(), frozenset(guids("gB"))):
            found = Alternates(topology).decide(guid("gA"), guid("cC"), avoided, EMPTY_TABLE)
            self.assertEqual((found.hops, found.rule), ((), Rule.NO_ROW))


class WithinSiteTests(SynchronousTestCase):
    """A queue manager that is not a gate, and takes another routing server or gate of its sites."""

    def test_next_hop_is_up(self) -> None:
        """What else is down changes nothing while the next hop is up."""
        estate = Estate("A-B 1 gA hA gB")
        for server in ("hA", "rA"):
            estate.machine(server, "A", routing_server=True)
        topology = estate.sound()
        self.assertEqual(hops(topology, "cA", "cB", "gB", "hA"), ["gA"])
        self.assertEqual(hops(topology, "rA", "cB", "gB", "hA"), ["gA"])

    def test_gates_of_the_first_site_come_first(self) -> None:
        """A routing server of two sites tries the gates of its first site, then those of the other."""
        estate = Estate("A-C 1 gA hA gC, B-C 1")
        estate.machine("hA", "A", routing_server=True)
        estate.machine("router", "B A", routing_server=True)
        topology = estate.sound()
        for down, expected in (
            ("", ["gA"]),
            ("gA", ["hA"]),
            ("gA hA", ["gB"]),
            ("gA hA gB", ["gA", "hA", "gB"]),
        ):
            self.assertEqual(hops(topology, "router", "cC", *down.split()), expected)
        self.assertIs(decision(topology, "router", "cC", "gA").rule, Rule.ALTERNATE)
        self.assertIs(decision(topology, "router", "cC", *"gA hA gB".split()).rule, Rule.SITE_GATE_OF_SITE)

    def test_itself_is_no_alternate(self) -> None:
        """A routing server that is in no path of its own waits rather than sends to itself."""
        topology = Estate("A-B 1").sound()
        self.assertEqual(hops(topology, "cA", "cB", "gA"), ["gA"])
        estate = Estate("A-B 1")
        estate.machine("router", "A", routing_server=True)
        self.assertEqual(hops(estate.sound(), "router", "cB", "gA"), ["gA"])

    def test_others_without_a_way(self) -> None:
        """Queue managers that do not route, and routing servers of other sites, are no alternates."""
        estate = Estate("A-B 1")
        estate.machine("dA", "A")
        estate.machine("sB", "B", routing_server=True)
        self.assertEqual(hops(estate.sound(), "cA", "cB", "gA"), ["gA"])

    def sites_of_two(self, into: str = "") -> Topology:
        """C{one} in A sends to C{to} in B; C{second} is in both, and no gate."""
        estate = Estate("A-B 1")
        estate.machine("one", "A")
        estate.machine("second", "A B", routing_server=True)
        for server in ("in1", "in2"):
            estate.machine(server, "B", routing_server=True)
        estate.machine("to", "B", into=into)
        return estate.sound()

    def test_server_in_the_site_of_the_destination(self) -> None:
        """A routing server that shares a site with the destination needs no gate, but an in-routing server
        that is up if there are any.
        """
        self.assertEqual(hops(self.sites_of_two(), "one", "to", "gA", "gB"), ["second"])
        listed = self.sites_of_two("in1 in2")
        for down, expected in (("", "second"), ("in1", "second"), ("in2", "second"), ("in1 in2", "gA")):
            self.assertEqual(hops(listed, "one", "to", "gA", "gB", *down.split()), [expected])

    def test_server_of_the_destination(self) -> None:
        """An in-routing server of the destination hands over itself, wherever it is."""
        estate = Estate("A-B 1")
        estate.machine("server", "A", routing_server=True)
        estate.machine("to", "B", into="server")
        self.assertEqual(hops(estate.sound(), "cA", "to", "gA", "gB"), ["server"])

    def test_gate_without_a_path(self) -> None:
        """A gate from which every path is blocked is no alternate, even if another of its site has one."""
        estate = Estate("A-B 1, B-D 1, A-C 1 hA gC, X-Y 1 kA gY, C-D 1")
        estate.machine("hA", "A", routing_server=True)
        estate.machine("kA", "A X", routing_server=True)
        topology = estate.topology
        self.assertEqual(hops(topology, "cA", "cD", "gA"), ["hA"])
        self.assertEqual(hops(topology, "cA", "cD", "gA", "gC", "gB"), ["gA"])

    def test_router_with_a_gate_elsewhere(self) -> None:
        """A routing server is an alternate while one of the gates that it can use is up and has a path."""
        estate = Estate("B-C 1 gB hB gC", "B C")
        estate.add_site(guid("A"), "A")
        estate.machine("mA", "A")
        estate.machine("hB", "B", routing_server=True)
        for server in ("rA", "sA"):
            estate.machine(server, "A B", routing_server=True)
        topology = estate.sound()
        for down, expected in (
            ("", ["sA"]),
            ("gB", ["sA"]),
            ("hB", ["sA"]),
            ("gB hB", ["rA"]),
            ("gC", ["rA"]),
            ("sA", ["rA", "sA"]),
        ):
            with self.subTest(down=down):
                self.assertEqual(hops(topology, "mA", "cC", "rA", *down.split()), expected)


class ListedServersTests(SynchronousTestCase):
    """In- and out-routing servers."""

    def test_rules(self) -> None:
        """The listed servers that are up are candidates by the same rule; if none is, all are."""
        estate = Estate("A-B 1")
        for server in ("rA", "sA", "tA"):
            estate.machine(server, "A", routing_server=True)
        estate.machine("mA", "A", into="rA sA tA", out="rA sA tA")
        topology = estate.sound()
        for own, destination, rule in (
            ("mA", "cB", Rule.OUT_ROUTING_SERVERS),
            ("gA", "mA", Rule.IN_ROUTING_SERVERS),
            ("cA", "mA", Rule.IN_ROUTING_SERVERS),
        ):
            for down, expected in (
                ("sA", ["rA", "tA"]),
                ("rA tA", ["sA"]),
                ("rA sA tA", ["rA", "sA", "tA"]),
                ("gB", ["rA", "sA", "tA"]),
            ):
                found = decision(topology, own, destination, *down.split())
                self.assertEqual((names(found.hops), found.rule), (expected, rule))


class CacheTests(SynchronousTestCase):
    """Allowed steps are computed once for each kind of destination."""

    def test_quick(self) -> None:
        """A destination is quick once its steps are known, and one that is not known needs none."""
        topology = Estate("A-B 1, B-C 1").sound()
        cache = Alternates(topology)
        self.assertTrue(cache.is_quick(guid("nobody")))
        self.assertFalse(cache.is_quick(guid("cC")))
        found = cache.paths(machine(topology, "cC"))
        self.assertTrue(cache.is_quick(guid("cC")))
        self.assertIs(cache.paths(machine(topology, "cC")), found)
        self.assertEqual([cache.is_quick(guid(other)) for other in ("cA", "gC")], [False, False])

    def test_shared(self) -> None:
        """Queue managers of the same sites and in-routing servers share their steps; a gate has its own."""
        estate = Estate("A-B 1, B-C 1")
        estate.machine("dC", "C")
        estate.machine("rC", "C", routing_server=True)
        estate.machine("into", "C", into="rC")
        estate.machine("wide", "C B")
        topology = estate.sound()
        cache = Alternates(topology)
        found = cache.paths(machine(topology, "cC"))
        for other, is_shared in (("dC", True), ("rC", True), ("into", False), ("wide", False), ("gC", False)):
            self.assertEqual(cache.is_quick(guid(other)), is_shared, other)
            self.assertEqual(cache.paths(machine(topology, other)) is found, is_shared, other)

    def test_limit(self) -> None:
        """Beyond its limit of steps the cache drops the other destinations, and begins anew."""
        topology = Estate("A-B 1, B-C 1, C-D 1").sound()
        one, two, three = (machine(topology, name) for name in ("cA", "cB", "cD"))
        sizes = [size(Alternates(topology).paths(target)) for target in (one, two)]
        self.patch(alternates, "_KEPT", sum(sizes))
        cache = Alternates(topology)

        def quick() -> list[bool]:
            return [cache.is_quick(target.identifier) for target in (one, two, three)]

        cache.paths(one)
        cache.paths(two)
        self.assertEqual(quick(), [True, True, False])
        cache.paths(three)
        self.assertEqual(quick(), [False, False, True])
        cache.paths(one)
        cache.paths(two)
        self.assertEqual(quick(), [True, True, True])

    def test_beliefs_change(self) -> None:
        """The same chooser follows which sites are down now, whatever was down before."""
        topology = Estate("A-M 1, M-N 1, N-Z 1, M-Z 9, A-E 7, E-Z 2, A-F 9, F-Z 2").sound()
        chooser = Alternates(topology)
        for down, expected in (
            ("gM", "gE"),
            ("gM", "gE"),
            ("gN", "gE"),
            ("gN gE", "gM"),
            ("gM gE", "gF"),
            ("gE", "gM"),
            ("gN", "gE"),
            ("", "gM"),
        ):
            found = chooser.decide(guid("gA"), guid("cZ"), frozenset(guids(down)))
            self.assertEqual(names(found.hops), [expected])


def size(paths: DownstreamPaths) -> int:
    return sum(map(len, paths.steps.values()))
