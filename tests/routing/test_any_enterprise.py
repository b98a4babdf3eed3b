"""Every function of [MS-MQBR] against the document's own words and a graph library, in any enterprise.

C{MSMQ_SOAK} is the number of enterprises of each kind where it shall be another than usual.
"""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import networkx
from hypothesis import HealthCheck, given, settings
from twisted.trial.unittest import SynchronousTestCase

from msmq.routing.next_hops import (
    NoRoute,
    get_routing_server,
    get_site_gate,
    get_site_gate_for_site,
    next_hops,
)
from msmq.routing.route import route
from msmq.routing.route_search import RowSearch
from msmq.routing.table import RoutingTable, is_site_gate, routing_table
from msmq.routing.topology import Topology
from tests.routing.enterprises import Plan, neglected, well_kept
from tests.routing.pseudocode import Pseudocode, cheapest_by_trying
from tests.samples import examples

ENTERPRISES = examples(40)
UNKNOWN = UUID(int=0xDEAD)

any_enterprise = settings(
    max_examples=ENTERPRISES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def oracle(topology: Topology) -> Pseudocode:
    return Pseudocode(topology.sites, topology.links, topology.queue_managers)


class AgreementTests(SynchronousTestCase):
    """Our functions say what the pseudocode allows."""

    def check(self, topology: Topology) -> None:
        naive, search = oracle(topology), RowSearch(topology)
        machines = [machine.identifier for machine in topology.queue_managers]
        for own in [*machines, UNKNOWN]:
            self.assertEqual(is_site_gate(topology, own), naive.is_site_gate(own))
            self.assertEqual(get_routing_server(topology, own), naive.get_routing_server(own))
            self.check_member(get_site_gate(topology, own), naive.get_site_gate(own))
            table = routing_table(topology, own)
            self.check_searched_rows(topology, own, table, search)
            allowed = naive.routing_table(own)
            mine = set(table.own_sites)
            self.assertEqual(set(table.rows) - mine, set(allowed))
            for site, row in table.rows.items():
                if site in mine:
                    self.assertEqual((row.next_hop_site_id, row.cost), (site, 0))
                    continue
                cost, next_sites = allowed[site]
                self.assertEqual(row.cost, cost)
                self.assertEqual(row.next_hop_site_id, min(next_sites))
                self.assertEqual(row.is_tied, len(next_sites) > 1)
            for destination in [*machines, UNKNOWN]:
                if destination == own:
                    continue
                answers = naive.get_next_hops(own, destination)
                try:
                    hops = next_hops(topology, own, destination, table)
                except NoRoute:
                    self.assertIn((), answers or {()})
                else:
                    self.assertIn(hops, answers)
                    self.assertNotIn(own, hops)
                    self.assertEqual(next_hops(topology, own, destination), hops)
        for site in [*(site.identifier for site in topology.sites), UNKNOWN]:
            gate = get_site_gate_for_site(topology, site)
            self.check_member(gate, naive.get_site_gate_for_site(site))

    def check_searched_rows(
        self, topology: Topology, own: UUID, table: RoutingTable, search: RowSearch
    ) -> None:
        """Assert that the rows computed for one message equal those of the table, also after others."""
        for site in [*(site.identifier for site in topology.sites), UNKNOWN]:
            found = search.table(own, [site])
            self.assertEqual(found.own_sites, table.own_sites)
            self.assertEqual(found.rows.get(site), table.rows.get(site))
            self.assertEqual(found.rows, {each: table.rows[each] for each in found.rows})
            self.assertEqual(found.path(site), table.path(site))

    def check_member(self, ours: UUID | None, allowed: object) -> None:
        if ours is None:
            self.assertFalse(allowed)
        else:
            self.assertIn(ours, allowed)

    @given(plan=well_kept())
    @any_enterprise
    def test_well_kept(self, plan: Plan) -> None:
        """In an enterprise as it should be, every answer is one that the document allows."""
        enterprise = plan.builder().build()
        self.assertEqual(enterprise.faults, ())
        self.check(enterprise.topology)

    @given(plan=neglected())
    @any_enterprise
    def test_neglected(self, plan: Plan) -> None:
        """With any contents of a directory, only a missing route raises, and other messages are
        still routed.
        """
        self.check(plan.builder().build().topology)


class DeliveryTests(SynchronousTestCase):
    """The path of a message when each queue manager applies its own GetNextHops."""

    def ways(self, topology: Topology, source: UUID, destination: UUID) -> list[list[UUID]]:
        """Every route that a message can take, by any candidate of each hop.

        None has a loop, and each ends at the destination.
        """
        tables = {
            machine.identifier: routing_table(topology, machine.identifier)
            for machine in topology.queue_managers
        }
        found: list[list[UUID]] = []
        begun = [[source]]
        while begun:
            way = begun.pop()
            if way[-1] == destination:
                found.append(way)
                continue
            for hop in next_hops(topology, way[-1], destination, tables[way[-1]]):
                self.assertNotIn(hop, way)
                begun.append([*way, hop])
        return found

    def pairs(self, topology: Topology) -> list[tuple[UUID, UUID]]:
        machines = [machine.identifier for machine in topology.queue_managers]
        return [(one, two) for one in machines for two in machines if one != two]

    @given(plan=well_kept(one_site=True))
    @any_enterprise
    def test_least_cost(self, plan: Plan) -> None:
        """MQBR-1.3.3-01, MQBR-1.3.3-03, MQBR-3.1-02, MQBR-3.1.3.1-08, MQBR-3.1.3.1-09: hop by hop, every
        message arrives without a loop and at the least cost that a graph library finds, and crosses from site
        to site only between their gates.
        """
        topology = plan.builder().build().topology
        graph = oracle(topology).graph()
        sites = {machine.identifier: machine.sites[0] for machine in topology.queue_managers}
        for source, destination in self.pairs(topology):
            least = networkx.dijkstra_path_length(graph, sites[source], sites[destination])
            for way in self.ways(topology, source, destination):
                cost = 0
                for one, two in pairwise(way):
                    if sites[one] != sites[two]:
                        self.assertIn(one, topology.gates(sites[one]))
                        self.assertIn(two, topology.gates(sites[two]))
                        cost += graph[sites[one]][sites[two]]["weight"]
                self.assertEqual(cost, least)

    @given(plan=well_kept())
    @any_enterprise
    def test_several_sites(self, plan: Plan) -> None:
        """Queue managers of several sites are reached as well, and a gate of several sites shortens
        routes.
        """
        topology = plan.builder().build().topology
        for source, destination in self.pairs(topology):
            ways = self.ways(topology, source, destination)
            found = route(topology, source, destination)
            self.assertEqual(found.problem, "")
            self.assertIn([source, *(hop.queue_manager for hop in found.hops)], ways)
            remaining = [
                topology_cost(topology, one, destination)
                for one in (source, *(hop.queue_manager for hop in found.hops))
            ]
            decided = [cost for cost in remaining if cost is not None]
            self.assertEqual(decided, sorted(set(decided), reverse=True))
            if decided:
                self.assertLessEqual(found.cost, decided[0])

    @given(plan=neglected())
    @any_enterprise
    def test_always_ends(self, plan: Plan) -> None:
        """A route always ends, and says why if it does not end at the destination."""
        topology = plan.builder().build().topology
        for source, destination in self.pairs(topology):
            found = route(topology, source, destination)
            passed = [source, *(hop.queue_manager for hop in found.hops)]
            self.assertEqual(found.arrives, passed[-1] == destination)
            self.assertTrue(found.arrives or found.problem)
            self.assertLessEqual(len(passed) - len(set(passed)), 0 if found.arrives else 1)

    @given(plan=well_kept(one_site=True))
    @any_enterprise
    def test_by_trying(self, plan: Plan) -> None:
        """MQBR-3.1.3.1-09: no route at all is cheaper than that of the table, which is a tree."""
        topology = plan.builder().build().topology
        graph = oracle(topology).graph()
        gates = topology.gates(topology.sites[0].identifier)
        table = routing_table(topology, gates[0] if gates else UNKNOWN)
        for site, row in table.rows.items():
            [own] = table.own_sites
            self.assertEqual(row.cost, 0 if site == own else cheapest_by_trying(graph, own, site))
            path = table.path(site)
            self.assertEqual((path[0], path[-1]), (own, site))
            self.assertEqual(row.cost, sum(graph[one][two]["weight"] for one, two in pairwise(path)))
            self.assertEqual(row.next_hop_site_id, path[min(1, len(path) - 1)])


def topology_cost(topology: Topology, own: UUID, destination: UUID) -> int | None:
    """The cost of a route to a queue manager of another site in the table of a gate."""
    machine, target = topology.queue_manager(own), topology.queue_manager(destination)
    assert machine is not None and target is not None
    if set(machine.sites) & set(target.sites) or not is_site_gate(topology, own):
        return None
    row = routing_table(topology, own).best(target.sites)
    return None if row is None else row.cost
