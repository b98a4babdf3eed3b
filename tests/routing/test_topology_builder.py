"""Faults of an enterprise are reported by name, and left out."""

from __future__ import annotations

from itertools import pairwise

from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.next_hops import next_hops
from msmq.routing.problems import MAXIMUM_PROBLEMS, ProblemKind
from msmq.wire.guid import NULL_GUID, braced
from tests.routing.builders import Estate, guid, guids, names


def problems(estate: Estate, kind: ProblemKind) -> list[str]:
    return [str(problem) for problem in estate.build().problems if problem.kind is kind]


class FaultTests(SynchronousTestCase):
    """Data that cannot be so."""

    def assert_fault(self, estate: Estate, kind: ProblemKind, *expected: str) -> None:
        self.assertEqual(problems(estate, kind), list(expected))
        self.assertTrue(kind.is_fault)
        self.assertEqual(len(estate.build().faults), len(expected))

    def test_cost(self) -> None:
        """MQBR-5.1-01: a cost outside of 1 to 999,999 is named with its link, which is left out."""
        for cost in (0, -1, 1_000_000):
            estate = Estate("A-B 3")
            estate.link("A", "B", cost, "gA gB", where="estate.toml:12")
            self.assert_fault(
                estate,
                ProblemKind.COST,
                f"estate.toml:12: link A - B: cost {cost} is not within 1 to 999999; the link is left out",
            )
            self.assertEqual([link.cost for link in estate.topology.links], [3])

    def test_least_and_greatest_cost(self) -> None:
        """1 and 999,999 are costs."""
        self.assertEqual(Estate("A-B 1, B-C 999999").build().problems, ())

    def test_unknown_site(self) -> None:
        """A site that there is not is named where it is used, and its users do without it."""
        estate = Estate("A-B 1")
        estate.link("A", "X", 1, "gA")
        estate.machine("lost", "X B", where="CN=lost")
        x = braced(guid("X"))
        self.assert_fault(
            estate,
            ProblemKind.UNKNOWN_SITE,
            f"link A - {x}: has an end in a site {x}, which there is not, and is left out",
            f"CN=lost: queue manager lost: belongs to a site {x}, which there is not",
        )
        lost = estate.topology.queue_manager(guid("lost"))
        self.assertEqual([] if lost is None else names(lost.sites), ["B"])

    def test_site_twice(self) -> None:
        """A link from a site to itself is left out."""
        estate = Estate("A-B 1")
        estate.link("A", "A", 1, "gA")
        self.assert_fault(
            estate, ProblemKind.SAME_SITE_TWICE, "link A - A: has both ends in one site and is left out"
        )

    def test_duplicate_identifiers(self) -> None:
        """Of two sites or queue managers with one identifier the first is used."""
        estate = Estate("A-B 1")
        estate.add_site(guid("A"), "again", where="estate.toml:3")
        estate.machine("gA", "B")
        self.assert_fault(
            estate,
            ProblemKind.DUPLICATE,
            f"estate.toml:3: site again: has the identifier {braced(guid('A'))} of another and is left out",
            f"queue manager gA: has the identifier {braced(guid('gA'))} of another and is left out",
        )
        self.assertEqual(estate.topology.site_name(guid("A")), "A")

    def test_no_identifier(self) -> None:
        """The null GUID identifies nothing."""
        estate = Estate("A-B 1")
        estate.add_site(NULL_GUID, "blank")
        estate.add_queue_manager(NULL_GUID, sites=[guid("A")])
        self.assert_fault(
            estate,
            ProblemKind.IDENTIFIER,
            "site blank: has no identifier and is left out",
            f"queue manager {braced(NULL_GUID)}: has no identifier and is left out",
        )
        self.assertIsNone(estate.topology.site(NULL_GUID))
        self.assertIsNone(estate.topology.queue_manager(NULL_GUID))

    def test_empty_lists(self) -> None:
        """An enterprise without sites, queue managers, or links between several sites, is a fault."""
        self.assert_fault(
            Estate(),
            ProblemKind.NOTHING,
            "the enterprise: has no sites",
            "the enterprise: has no queue managers",
        )
        self.assert_fault(
            Estate(sites="A B"), ProblemKind.NOTHING, "the enterprise: has 2 sites and no links between them"
        )
        self.assertEqual(Estate(sites="A").build().problems, ())

    def test_cycles(self) -> None:
        """In- or out-routing servers that lead back are named, one cycle after the other."""
        estate = Estate("A-B 1")
        estate.machine("r1", "A", routing_server=True, out="r2")
        estate.machine("r2", "A", routing_server=True, out="gA r3")
        estate.machine("r3", "A", routing_server=True, out="r1")
        estate.machine("self", "B", routing_server=True, into="self")
        estate.machine("into1", "B", routing_server=True, into="into2")
        estate.machine("into2", "B", routing_server=True, into="into1")
        self.assert_fault(
            estate,
            ProblemKind.CYCLE,
            "queue manager self: is its own in-routing server in the end: self - self",
            "queue manager into1: is its own in-routing server in the end: into1 - into2 - into1",
            "queue manager r1: is its own out-routing server in the end: r1 - r2 - r3 - r1",
        )

    def test_cycle_that_others_lead_to(self) -> None:
        """A cycle is named once, however many queue managers lead to it and whichever comes first."""
        estate = Estate(sites="A")
        for machine, out in (("q", "r"), ("r", "r"), ("s", "r q"), ("t", "s u"), ("u", "t"), ("v", "u")):
            estate.machine(machine, "A", routing_server=True, out=out)
        self.assert_fault(
            estate,
            ProblemKind.CYCLE,
            "queue manager r: is its own out-routing server in the end: r - r",
            "queue manager t: is its own out-routing server in the end: t - u - t",
        )

    def test_long_cycle(self) -> None:
        """The report of a long cycle omits its middle."""
        estate = Estate(sites="A")
        for number in range(2000):
            estate.machine(f"r{number}", "A", routing_server=True, out=f"r{(number + 1) % 2000}")
        [cycle] = problems(estate, ProblemKind.CYCLE)
        self.assertTrue(
            cycle.endswith("r0 - r1 - r2 - r3 - r4 - 1991 more - r1996 - r1997 - r1998 - r1999 - r0"), cycle
        )

    def test_servers_that_do_not_route(self) -> None:
        """An in- or out-routing server that is not a routing server could send in circles: it is left out."""
        estate = Estate("A-B 1")
        estate.machine("one", "A", out="cA gA")
        estate.machine("two", "A", into="cA")
        self.assert_fault(
            estate,
            ProblemKind.NOT_A_ROUTING_SERVER,
            "queue manager one: has the out-routing server cA, which is not a routing server and is left out",
            "queue manager two: has the in-routing server cA, which is not a routing server and is left out",
        )
        self.assertEqual(names(next_hops(estate.topology, guid("one"), guid("two"))), ["gA"])

    def test_unreadable(self) -> None:
        """An object that a directory cannot return is a fault too."""
        estate = Estate("A-B 1")
        estate.report("link A - C", "cost 'cheap' is not a number", "estate.toml:9")
        self.assert_fault(
            estate, ProblemKind.DIRECTORY, "estate.toml:9: link A - C: cost 'cheap' is not a number"
        )

    def test_bound(self) -> None:
        """Only the first of very many problems are stored, faults rather than notices, with the number of the
        rest.
        """
        estate = Estate(sites="A")
        for number in range(MAXIMUM_PROBLEMS + 5):
            estate.machine(f"m{number}", "")
        enterprise = estate.build()
        self.assertEqual((len(enterprise.problems), enterprise.problems_left_out), (MAXIMUM_PROBLEMS, 5))
        for number in range(MAXIMUM_PROBLEMS):
            estate.machine(f"n{number}", "A", into="nobody")
        estate.machine("lost", "A", out="m0", where="last")
        estate.machine("self", "A", out="m0", where="very last")
        enterprise = estate.build()
        self.assertEqual([problem.where for problem in enterprise.faults], ["last", "very last"])
        self.assertEqual(len(enterprise.problems), MAXIMUM_PROBLEMS)
        self.assertEqual(enterprise.problems_left_out, MAXIMUM_PROBLEMS + 5 + 2)


class CheckTests(SynchronousTestCase):
    """Data that may be so, and is likely not meant: [MS-MQBR] 1.5."""

    def assert_notice(self, estate: Estate, kind: ProblemKind, *expected: str) -> None:
        self.assertEqual(problems(estate, kind), list(expected))
        self.assertFalse(kind.is_fault)
        self.assertEqual(estate.build().faults, ())

    def test_site_without_gate(self) -> None:
        """MQBR-1.5-01: each of several sites needs a gate."""
        self.assert_notice(
            Estate("A-B 1 gA"),
            ProblemKind.NO_GATE,
            "site B: has no site gate, so nothing comes in from other sites or goes out",
        )
        self.assertEqual(problems(Estate(sites="A"), ProblemKind.NO_GATE), [])

    def test_link_without_gate(self) -> None:
        """A link that lists no gates is named."""
        estate = Estate("A-B 1")
        estate.link("A", "B", 2)
        self.assert_notice(estate, ProblemKind.NO_GATE, "link A - B: has no site gates")

    def test_gate_elsewhere(self) -> None:
        """MQBR-1.5-02: a gate belongs to a site of its link, and is a routing server."""
        estate = Estate("A-B 1 gA gB gC cA, B-C 1")
        estate.add_site(guid("D"), "D", gates=[guid("gA")])
        estate.link("D", "C", 1, "gC")
        self.assert_notice(
            estate,
            ProblemKind.NOT_A_GATE,
            "link A - B: has the gate gC, which does not belong to either site",
            "link A - B: has the gate cA, which is not a routing server",
            "site D: has the gate gA, which does not belong to that site",
        )

    def test_gates_of_the_directory(self) -> None:
        """A gate that the directory lists for a site is a routing server of that site; any other is named."""
        estate = Estate("A-B 1")
        estate.machine("rA", "A", routing_server=True)
        estate.add_site(guid("C"), "C", gates=guids("gC cC gA nobody"), where="estate.toml:7")
        estate.machine("gC", "C", routing_server=True)
        estate.machine("cC", "C")
        estate.link("B", "C", 1, "gB gC")
        place = "estate.toml:7: site C"
        self.assertEqual(
            [str(problem) for problem in estate.build().problems],
            [
                f"{place}: has the gate cC, which is not a routing server",
                f"{place}: has the gate gA, which does not belong to that site",
                f"{place}: has the gate {braced(guid('nobody'))}, which there is not",
            ],
        )

    def test_unknown_queue_manager(self) -> None:
        """Missing gates, in- and out-routing servers are named, and no message is sent to them."""
        estate = Estate("A-B 1 gA gB gX")
        estate.machine("one", "A", out="rX gA", into="rX")
        r, g = braced(guid("rX")), braced(guid("gX"))
        self.assert_notice(
            estate,
            ProblemKind.UNKNOWN_QUEUE_MANAGER,
            f"queue manager one: has the in-routing server {r}, which there is not",
            f"queue manager one: has the out-routing server {r}, which there is not",
            f"link A - B: has the gate {g}, which there is not",
        )
        self.assertEqual(names(next_hops(estate.topology, guid("one"), guid("cA"))), ["gA"])
        self.assertEqual(names(next_hops(estate.topology, guid("cA"), guid("one"))), ["one"])

    def test_gates_that_cannot_meet(self) -> None:
        """MQBR-1.5-03: gates at both ends of a link need a connected network in common."""
        estate = Estate("A-B 1 a1 a2 b1, A-B 1 gA gB")
        estate.add_connected_network(guid("ip"), "ip")
        estate.machine("a1", "A", routing_server=True, networks="ip")
        estate.machine("a2", "A", routing_server=True, networks="ip ipx")
        estate.machine("b1", "B", routing_server=True, networks="ipx")
        self.assertIn(
            "link A - B: its gates a1 and b1 have no connected network in common",
            problems(estate, ProblemKind.NETWORKS),
        )
        self.assertEqual(
            [text for text in problems(estate, ProblemKind.NETWORKS) if text.startswith("link")],
            ["link A - B: its gates a1 and b1 have no connected network in common"],
        )

    def test_network_without_routing_server(self) -> None:
        """MQBR-1.5-04: the routing servers of a site are on all the networks that are used there."""
        estate = Estate(sites="A", with_gates=False)
        estate.add_connected_network(guid("ip"), "Internet")
        estate.machine("r1", "A", routing_server=True, networks="ip")
        estate.machine("r2", "A", routing_server=True, networks="lan")
        estate.machine("one", "A", networks="ip lan")
        lan = braced(guid("lan"))
        self.assert_notice(
            estate,
            ProblemKind.NETWORKS,
            f"queue manager r1: is a routing server of A, but not on its network {lan}",
            "queue manager r2: is a routing server of A, but not on its network Internet",
        )

    def test_unconnected(self) -> None:
        """MQBR-3.1.3.1-05, MQBR-3.1.3.1-12: sites that no links lead to are named, also one without links."""
        self.assert_notice(
            Estate("A-B 1, C-D 1"),
            ProblemKind.UNCONNECTED,
            "the enterprise: no route between A and C, D",
        )
        self.assert_notice(
            Estate("B-D 1, C-E 1, A-F 1, F-G 1"),
            ProblemKind.UNCONNECTED,
            "the enterprise: no route between A and B, D",
            "the enterprise: no route between A and C, E",
        )
        self.assert_notice(
            Estate("A-B 1", sites="A B C"),
            ProblemKind.UNCONNECTED,
            "the enterprise: no route between A and C",
        )

    def test_many_unconnected(self) -> None:
        """Ten sites are named, of more the first and the last five."""
        for last, expected in (
            ("L", "C, D, E, F, G, H, I, J, K, L"),
            ("M", "C, D, E, F, G, 1 more, I, J, K, L, M"),
            ("R", "C, D, E, F, G, 6 more, N, O, P, Q, R"),
        ):
            sites = [chr(number) for number in range(ord("C"), ord(last) + 1)]
            chain = [f"{one}-{two} 1" for one, two in pairwise(sites)]
            self.assert_notice(
                Estate(", ".join(["A-B 1", *chain])),
                ProblemKind.UNCONNECTED,
                f"the enterprise: no route between A and {expected}",
            )

    def test_parallel_links(self) -> None:
        """Of two links between the same sites the more expensive one is reported."""
        self.assert_notice(
            Estate("A-B 1, B-A 2"),
            ProblemKind.PARALLEL_LINKS,
            "link B - A: costs 2; another that costs 1 counts",
        )

    def test_server_elsewhere(self) -> None:
        """In- and out-routing servers of another site are named."""
        estate = Estate("A-B 1")
        estate.machine("one", "A", into="gB", out="gA")
        self.assert_notice(
            estate,
            ProblemKind.OTHER_SITE,
            "queue manager one: has the in-routing server gB, which is in another site",
        )

    def test_no_site(self) -> None:
        """A queue manager that belongs to no site is named, and nothing is routed to it."""
        estate = Estate("A-B 1")
        estate.machine("lonely", "")
        self.assert_notice(
            estate,
            ProblemKind.NO_SITE,
            "queue manager lonely: belongs to no site, so nothing is routed to it",
        )

    def test_duplicate_names(self) -> None:
        """Two objects with one name are reported, case-insensitively."""
        estate = Estate("A-B 1")
        estate.add_queue_manager(guid("other"), "GA", sites=[guid("B")])
        self.assert_notice(
            estate,
            ProblemKind.DUPLICATE_NAME,
            "queue manager gA: has a name that another has too",
            "queue manager GA: has a name that another has too",
        )

    def test_one_address_for_two(self) -> None:
        """Two queue managers with one address, or one name, are reported."""
        estate = Estate("A-B 1")
        for name, host, address in (
            ("one", "one.example.com", "10.0.0.1"),
            ("two", "two.example.com", "10.0.0.1"),
            ("three", "ONE.example.com", "10.0.0.3"),
            ("four", "four.example.com", ""),
            ("five", "four", ""),
        ):
            estate.add_queue_manager(
                guid(name),
                name,
                sites=[guid("A")],
                qualified_computer_name=host,
                address=address,
                where=f"estate.toml:{name}",
            )
        self.assertEqual(
            problems(estate, ProblemKind.SAME_ADDRESS),
            [
                "estate.toml:two: queue manager two: has the address 10.0.0.1 of one: messages for one of"
                " them wait",
                "estate.toml:three: queue manager three: is known by the name one.example.com as one is:"
                " messages for one of them wait",
                "estate.toml:five: queue manager five: is known by the name four as four is: messages for one"
                " of them wait",
            ],
        )

    def test_routing_servers_of_the_directory(self) -> None:
        """MQBR-1.3-03: the directory says which queue managers are routing servers; the edition of
        Windows does not matter.
        """
        estate = Estate(sites="A", with_gates=False)
        estate.machine("vista", "A", routing_server=True)
        self.assertEqual(estate.build().problems, ())
        found = estate.topology.queue_manager(guid("vista"))
        self.assertTrue(found is not None and found.routing_server)
