"""[MS-MQBR] 3.1.3.1 the routing table."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.next_hops import next_hops
from msmq.routing.route_search import RowSearch
from msmq.routing.table import EMPTY_TABLE, RoutingTable, routing_table, table_of_site
from msmq.routing.topology import RoutingLink, Site, Topology
from tests.routing.builders import Estate, guid, name, names


def next_sites(table: RoutingTable) -> dict[str, str]:
    return {name(destination): name(row.next_hop_site_id) for destination, row in table.rows.items()}


class RoutingTableTests(SynchronousTestCase):
    """Which rows there are, and what they say."""

    def test_not_a_gate(self) -> None:
        """MQBR-3.1.3.1-01: only a site gate has rows."""
        estate = Estate("A-B 1")
        estate.machine("router", "A", routing_server=True)
        for machine in ("cA", "router", "nobody"):
            self.assertEqual(routing_table(estate.sound(), guid(machine)).rows, {})

    def test_empty(self) -> None:
        """MQBR-3.1.3.1-04: without sites, or without links, there are no rows."""
        topology = Estate("A-B 1").sound()
        for less in (
            Topology((), topology.links, topology.queue_managers),
            Topology(topology.sites, (), topology.queue_managers),
        ):
            self.assertEqual(routing_table(less, guid("gA")).rows, {})
        listed = Estate(sites="A")
        listed.add_site(guid("B"), "B", gates=[guid("gB")])
        listed.machine("gB", "B", routing_server=True)
        self.assertEqual(routing_table(listed.topology, guid("gB")).rows, {})

    def test_every_site(self) -> None:
        """MQBR-3.1.1.2-01: there is a row for each site that can be reached, whose two sites are
        GUIDs.
        """
        topology = Estate("A-B 1, B-C 1, D-E 1").topology
        table = routing_table(topology, guid("gA"))
        self.assertEqual(next_sites(table), {"A": "A", "B": "B", "C": "B"})
        self.assertEqual(table.rows[guid("C")].destination_site_id, guid("C"))
        self.assertEqual(names(table.path(guid("C"))), ["A", "B", "C"])
        self.assertEqual(table.path(guid("D")), ())

    def test_both_directions(self) -> None:
        """MQBR-3.1.3.1-06: it makes no difference which of its sites a link names first."""
        links = ("A-B 2, B-C 1, A-C 5", "B-A 2, C-B 1, C-A 5")
        one, two = (routing_table(Estate(link).sound(), guid("gA")) for link in links)
        self.assertEqual(one.rows, two.rows)

    def test_cost(self) -> None:
        """MQBR-3.1.3.1-07: a link costs its ActualCost, the same in both directions."""
        topology = Estate("A-B 999999, B-C 1").sound()
        self.assertEqual(routing_table(topology, guid("gA")).rows[guid("C")].cost, 1_000_000)
        self.assertEqual(routing_table(topology, guid("gC")).rows[guid("A")].cost, 1_000_000)

    def test_cost_beyond_32_bits(self) -> None:
        """The cost of a route may be larger than 32 bits, and one that just fits is one."""
        for length, cost in (
            (2200, 999_999),
            (2, (1 << 31) - 1),
            (2, (1 << 31) - 2),
            (2, 1 << 31),
            (3, 1 << 30),
        ):
            sites = [UUID(int=number + 1) for number in range(length)]
            topology = Topology(
                tuple(map(Site, sites)), tuple(RoutingLink(*ends, cost) for ends in pairwise(sites))
            )
            table = table_of_site(topology, sites[0])
            self.assertEqual([table.rows[site].cost for site in sites], [cost * n for n in range(length)])
            self.assertIn(sites[-1], table.rows)

    def test_tie(self) -> None:
        """MQBR-3.1.3.1-11: of routes that cost the same the one with the smallest next site is chosen,
        every time, and the row says that there was a choice.
        """
        for links in ("A-B 1, A-C 1, B-D 1, C-D 1, D-E 1", "C-A 1, D-E 1, A-B 1, C-D 1, D-B 1"):
            table = routing_table(Estate(links, "E D C B A").sound(), guid("gA"))
            self.assertEqual(next_sites(table)["E"], "B")
            self.assertEqual([table.rows[guid(site)].is_tied for site in "BCDE"], [False, False, True, True])
            self.assertEqual(names(table.path(guid("E"))), ["A", "B", "D", "E"])

    def test_tie_behind_a_tie(self) -> None:
        """Where two routes meet that begin alike, a choice that one of them had before is still one."""
        links = "A-B 1, A-C 1, B-D 1, B-E 1, C-E 1, D-F 1, E-F 1"
        table = routing_table(Estate(links).sound(), guid("gA"))
        self.assertEqual((next_sites(table)["F"], table.rows[guid("F")].is_tied), ("B", True))

    def test_parallel_links(self) -> None:
        """Of several links between two sites the cheapest one is used, with its gates."""
        estate = Estate("A-B 5 gA gB, B-A 2 gA b0, A-B 3 gA gB")
        estate.machine("b0", "B", routing_server=True)
        topology = estate.sound()
        self.assertEqual(routing_table(topology, guid("gA")).rows[guid("B")].cost, 2)
        self.assertEqual(names(next_hops(topology, guid("gA"), guid("cB"))), ["b0"])

    def test_several_own_sites(self) -> None:
        """The routes of a gate of several sites begin in all of them, and no row leads back into one."""
        estate = Estate("A-B 9, B-C 1, A-C 5, B-D 1 both gD")
        estate.link("A", "C", 5, "both")
        estate.machine("both", "A B", routing_server=True)
        table = routing_table(estate.sound(), guid("both"))
        self.assertEqual(names(table.own_sites), ["A", "B"])
        self.assertEqual(next_sites(table), {"A": "A", "B": "B", "C": "C", "D": "D"})
        self.assertEqual([table.rows[guid(site)].cost for site in "ABCD"], [0, 0, 1, 1])

    def test_foreign_sites(self) -> None:
        """A foreign site is a site as any other, in between as well."""
        estate = Estate("A-B 1, B-C 1", "A C")
        estate.add_site(guid("B"), "B", is_foreign=True)
        estate.machine("gB", "B", routing_server=True)
        self.assertEqual(names(next_hops(estate.sound(), guid("gA"), guid("gC"))), ["gB"])

    def test_many_sites(self) -> None:
        """A chain of a thousand sites is not a deeper than one of three."""
        sites = [f"s{number:04}" for number in range(1000)]
        estate = Estate(", ".join(f"{one}-{two} 7" for one, two in pairwise(sites)))
        table = routing_table(estate.sound(), guid("gs0000"))
        self.assertEqual(table.rows[guid("s0999")].cost, 999 * 7)
        self.assertEqual(len(table.path(guid("s0999"))), 1000)


class SearchedRowsTests(SynchronousTestCase):
    """Rows that are computed for one message."""

    def test_many_ties(self) -> None:
        """In a grid with few different costs they are those of the table, for every site."""
        chance = Random(1)
        pairs = [(one, one + step) for one in range(100) for step in (1, 10) if one + step < 100]
        estate = Estate(", ".join(f"s{one:02}-s{two:02} {chance.randint(1, 2)}" for one, two in pairs))
        topology = estate.sound()
        search = RowSearch(topology)
        for own in ("gs00", "gs47", *(f"gs{number:02}" for number in range(0, 100, 7))):
            table = routing_table(topology, guid(own))
            self.assertEqual(len(table.rows), 100)
            for site, row in table.rows.items():
                found = search.table(guid(own), [site])
                self.assertEqual(found.rows[site], row)
                self.assertEqual(found.path(site), table.path(site))
                self.assertEqual(found.rows, {each: table.rows[each] for each in found.rows})

    def test_out_of_reach(self) -> None:
        """For a site that no links lead to there are no rows, linked to others or not; nor for no site."""
        estate = Estate("A-B 1, C-D 1")
        estate.add_site(guid("E"), "E")
        topology = estate.topology
        for site in "CDEX":
            found = RowSearch(topology).table(guid("gA"), [guid(site)])
            self.assertEqual((names(found.own_sites), found.rows), (["A"], {}))
        for own in ("cA", "nobody"):
            self.assertEqual(RowSearch(topology).table(guid(own), [guid("B")]), EMPTY_TABLE)

    def test_several_sites(self) -> None:
        """There are rows for each of the sites, and for those on the way to them."""
        topology = Estate("A-B 1, B-C 1, A-D 1, D-E 1, A-F 1").sound()
        found = RowSearch(topology).table(guid("gA"), [guid(site) for site in "CXE"])
        table = routing_table(topology, guid("gA"))
        self.assertEqual(found.rows, {guid(site): table.rows[guid(site)] for site in "ABCDE"})
        own = RowSearch(topology).table(guid("gA"), [guid("A")])
        self.assertEqual(own.rows, {guid("A"): table.rows[guid("A")]})

    def test_few_sites_are_settled(self) -> None:
        """Between the ends of a chain with branches the branches are left out."""
        chain = [f"c{one:03}-c{one + 1:03} 1" for one in range(200)]
        estate = Estate(", ".join([*chain, *(f"c{one:03}-b{one:03} 300" for one in range(201))]))
        found = RowSearch(estate.sound()).table(guid("gc000"), [guid("c200")])
        self.assertEqual(len(found.rows), 201)
        self.assertEqual(found.rows[guid("c200")].cost, 200)


class RowsTests(SynchronousTestCase):
    """The rows of a table as a mapping."""

    def test_membership(self) -> None:
        """A site has a row if it can be reached; other sites, and what is no site, have none."""
        rows = routing_table(Estate("A-B 1, B-C 1, D-E 1").topology, guid("gA")).rows
        self.assertEqual([guid(site) in rows for site in "ABCDEX"], [True] * 3 + [False] * 3)
        self.assertNotIn("A", rows)
        self.assertEqual((len(rows), names(rows)), (3, ["A", "B", "C"]))
        for site in "DX":
            self.assertRaises(KeyError, rows.__getitem__, guid(site))
            self.assertIsNone(rows.get(guid(site)))

    def test_order(self) -> None:
        """The rows are in the order of their costs, those of one cost in that of the identifiers."""
        rows = routing_table(Estate("A-E 1, A-D 2, E-C 1, A-B 9").sound(), guid("gA")).rows
        self.assertEqual(names(rows), ["A", "E", "C", "D", "B"])

    def test_table_of_a_site(self) -> None:
        """The table of one site alone begins there, whatever else its gates are gates of."""
        estate = Estate("A-B 2 both gB, B-C 1, D-E 1", "A B C D E")
        estate.machine("both", "A C", routing_server=True)
        estate.link("B", "C", 1, "both")
        topology = estate.topology
        table = table_of_site(topology, guid("A"))
        self.assertEqual(names(table.own_sites), ["A"])
        self.assertEqual(
            {name(site): (name(row.next_hop_site_id), row.cost) for site, row in table.rows.items()},
            {"A": ("A", 0), "B": ("B", 2), "C": ("B", 3)},
        )
        self.assertEqual(names(routing_table(topology, guid("both")).own_sites), ["A", "C"])
        unknown = table_of_site(topology, guid("X"))
        self.assertEqual((unknown.own_sites, dict(unknown.rows)), ((), {}))
