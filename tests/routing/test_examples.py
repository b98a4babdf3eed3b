"""[MS-MQBR] 4 the two examples of the document: four sites, four links, two sets of costs.

They check each other.
With A-B at 3 and the rest at 1, B reaches C directly at 1, and by D at 2.
With A-B and B-C at 3 and the rest at 1, B reaches C directly at 3, and by D at 2.
So the table of B, and what A pays, tell the two apart; A goes to B in both.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.route import route
from msmq.routing.table import routing_table
from msmq.routing.topology import Topology
from tests.routing.builders import Estate, guid, name, names

CASE_1 = "A-B 3, B-C 1, B-D 1, C-D 1"
CASE_2 = "A-B 3, B-C 3, B-D 1, C-D 1"


class ExampleTests(SynchronousTestCase):
    """Figure 4."""

    def sites_passed(self, topology: Topology, source: str, destination: str) -> list[str]:
        """The gates' sites, as a message from one queue manager to the other passes them."""
        found = route(topology, guid(source), guid(destination))
        self.assertEqual(found.problem, "")
        self.assertEqual(name(found.hops[-1].queue_manager), destination)
        return [name(hop.queue_manager)[1:] for hop in found.hops[:-1]]

    def table(self, topology: Topology, site: str) -> dict[str, tuple[str, int]]:
        rows = routing_table(topology, guid(f"g{site}")).rows
        return {
            name(destination): (name(row.next_hop_site_id), row.cost) for destination, row in rows.items()
        }

    def test_first_costs(self) -> None:
        """MQBR-4-01, MQBR-3.1.3.1-10, MQBR-3.1.5.3-06: from A to C a message goes by B."""
        topology = Estate(CASE_1).sound()
        self.assertEqual(self.sites_passed(topology, "cA", "cC"), ["A", "B", "C"])
        self.assertEqual(route(topology, guid("cA"), guid("cC")).cost, 4)
        self.assertEqual(
            self.table(topology, "A"), {"A": ("A", 0), "B": ("B", 3), "C": ("B", 4), "D": ("B", 4)}
        )
        self.assertEqual(
            self.table(topology, "B"), {"B": ("B", 0), "A": ("A", 3), "C": ("C", 1), "D": ("D", 1)}
        )

    def test_second_costs(self) -> None:
        """MQBR-4-02, MQBR-3.1.3.1-08: from A to C a message goes by B and D, for 5 instead of 6."""
        topology = Estate(CASE_2).sound()
        self.assertEqual(self.sites_passed(topology, "cA", "cC"), ["A", "B", "D", "C"])
        self.assertEqual(route(topology, guid("cA"), guid("cC")).cost, 5)
        self.assertEqual(
            self.table(topology, "A"), {"A": ("A", 0), "B": ("B", 3), "C": ("B", 5), "D": ("B", 4)}
        )
        self.assertEqual(
            self.table(topology, "B"), {"B": ("B", 0), "A": ("A", 3), "C": ("D", 2), "D": ("D", 1)}
        )

    def test_routes_in_both_directions(self) -> None:
        """MQBR-1.3.3-02: links lead in both directions, and so do the routes."""
        for costs in (CASE_1, CASE_2):
            topology = Estate(costs).sound()
            there = self.sites_passed(topology, "cA", "cC")
            self.assertEqual(self.sites_passed(topology, "cC", "cA"), there[::-1])

    def test_whole_route(self) -> None:
        """MQBR-1.3.3-01: a message leaves a site by its gate, and enters the next by that of the next."""
        found = route(Estate(CASE_1).sound(), guid("cA"), guid("cC"))
        self.assertEqual(names(hop.queue_manager for hop in found.hops), ["gA", "gB", "gC", "cC"])
