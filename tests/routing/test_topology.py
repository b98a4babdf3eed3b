"""Queries of a topology about one queue manager."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.routing.builders import Estate, guid, guids, names


class GatedSitesTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.1.7 SiteGateCollection: a gate of one site is no gate of every site that it is in."""

    def test_a_gate_of_one_of_its_sites(self) -> None:
        """A routing server in two sites, and a gate of one link, is a gate of that link's site alone."""
        estate = Estate("A-C 1 gX gC, B-C 1")
        estate.machine("gX", "B A", routing_server=True)
        topology = estate.topology
        machine = topology.queue_manager(guid("gX"))
        assert machine is not None
        self.assertEqual(names(machine.sites), ["B", "A"])
        self.assertEqual(names(topology.gated_sites(machine)), ["A"])

    def test_no_gate_of_a_site_of_others(self) -> None:
        """A link may list a gate for both of its sites; it is one only of the site that it belongs to."""
        topology = Estate("A-C 1 gA").topology
        self.assertEqual([names(topology.gates(guid(site))) for site in "AC"], [["gA"], []])
        machine = topology.queue_manager(guid("gA"))
        assert machine is not None
        self.assertEqual(names(topology.gated_sites(machine)), ["A"])

    def test_a_gate_of_both(self) -> None:
        """One that both sites have as a gate comes in the order of its own sites."""
        estate = Estate("A-C 1 gX gC, B-C 1 gX gC")
        estate.machine("gX", "B A", routing_server=True)
        machine = estate.topology.queue_manager(guid("gX"))
        assert machine is not None
        self.assertEqual(names(estate.topology.gated_sites(machine)), ["B", "A"])


class LinkTests(SynchronousTestCase):
    """The link between two sites."""

    def test_cheapest(self) -> None:
        """Of several links the cheapest counts, of those that cost the same the first of the directory."""
        estate = Estate("A-B 5 gA, B-A 3 gB, A-B 3 gA gB, A-B 4, B-C 1")
        topology = estate.topology
        for one, two in (("A", "B"), ("B", "A")):
            link = topology.link_between(guid(one), guid(two))
            assert link is not None
            self.assertEqual((names((link.site1, link.site2)), link.cost), (["B", "A"], 3))
            self.assertEqual(names(link.gates), ["gB"])

    def test_none(self) -> None:
        """Sites that are not neighbours, or that there are not, have no link."""
        topology = Estate("A-B 1, B-C 1").topology
        for one, two in (("A", "C"), ("A", "A"), ("A", "X"), ("X", "A")):
            self.assertIsNone(topology.link_between(guid(one), guid(two)))


class FirstTests(SynchronousTestCase):
    """What comes first in the directory."""

    def test_first_site(self) -> None:
        """The order of the directory counts, not that of the sites that are asked for, nor of identifiers."""
        topology = Estate("A-B 1, B-C 1", "C A B").topology
        for sites, expected in (("B A", "A"), ("A B C", "C"), ("X B", "B"), ("B", "B")):
            self.assertEqual(topology.first_site(guids(sites)), guid(expected))
        self.assertIsNone(topology.first_site(guids("X")))
        self.assertIsNone(topology.first_site([]))

    def test_first_routing_server(self) -> None:
        """So it is with routing servers, which may be of any of the sites."""
        estate = Estate(sites="A B C", with_gates=False)
        for machine, sites, is_server in (
            ("m", "A B", False),
            ("z", "B C", True),
            ("a", "A", True),
            ("b", "B", True),
        ):
            estate.machine(machine, sites, routing_server=is_server)
        topology = estate.topology
        for sites, expected in (("A", "a"), ("B", "z"), ("C", "z"), ("A B", "z"), ("X A", "a")):
            self.assertEqual(topology.first_routing_server(guids(sites)), guid(expected))
        self.assertIsNone(topology.first_routing_server(guids("X")))
        self.assertIsNone(topology.first_routing_server([]))
