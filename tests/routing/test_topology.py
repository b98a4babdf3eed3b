"""Queries of a topology about one queue manager."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.routing.builders import Estate, guid, names


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
