"""[MS-MQBR] 3.1.5 as the document writes it down, line for line, over plain lists.

What the document leaves open is left open here too: where it says "one of", the answers are all of them, and
the routing table has every next site of a least-cost path.
With that it is an oracle: an answer of ours has to be among these.
C{None} is the document's Nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise, permutations
from uuid import UUID

import attrs
import networkx

from msmq.routing.topology import QueueManager, RoutingLink, Site

Answers = frozenset[tuple[UUID, ...]]
"""Every list of next hops that would be right; an empty list, or none at all, is the exception."""


Table = dict[UUID, tuple[float, set[UUID]]]
"""For each site the least cost, and every next site that has it."""


@attrs.frozen
class Pseudocode:
    """The functions of 3.1.5, for a directory that holds these."""

    sites: tuple[Site, ...]
    links: tuple[RoutingLink, ...]
    queue_managers: tuple[QueueManager, ...]
    _tables: dict[UUID, Table] = attrs.field(init=False, factory=dict)

    def site_gate_collection(self, site: Site) -> list[UUID]:
        """[MS-MQDMPR] 3.1.1.7, as the reading has it: from the links, routing servers of the site only."""
        gates = []
        for link in self.links:
            for gate in link.gates:
                if site.identifier in (link.site1, link.site2) and gate not in gates:
                    machine = self.get_queue_manager(gate)
                    if machine and machine.routing_server and site.identifier in machine.sites:
                        gates.append(gate)
        return gates

    def get_next_hops(self, source: UUID, destination: UUID) -> Answers:
        """3.1.5.1"""
        found: set[tuple[UUID, ...]] = set()
        source_machine = self.get_queue_manager(source)
        destination_machine = self.get_queue_manager(destination)
        if source_machine is not None and destination_machine is not None:
            if source_machine.routing_server:
                found |= self.get_next_hops_for_router(source_machine, destination_machine)
            elif len(source_machine.out_routing_servers) > 0:
                found.add(source_machine.out_routing_servers)
            elif set(source_machine.sites) & set(destination_machine.sites):
                if len(destination_machine.in_routing_servers) > 0:
                    found.add(destination_machine.in_routing_servers)
                else:
                    found.add((destination,))
            else:
                router = self.get_routing_server(source)
                if router is not None:
                    found.add((router,))
        return frozenset(found)

    def get_next_hops_for_router(self, source: QueueManager, destination: QueueManager) -> Answers:
        """3.1.5.2"""
        if self.is_site_gate(source.identifier):
            return self.get_next_hops_for_site_gate(source, destination)
        if source.identifier in destination.in_routing_servers:
            return frozenset({(destination.identifier,)})
        if set(source.sites) & set(destination.sites):
            if len(destination.in_routing_servers) > 0:
                return frozenset({destination.in_routing_servers})
            return frozenset({(destination.identifier,)})
        return frozenset((gate,) for gate in self.get_site_gate(source.identifier))

    def get_next_hops_for_site_gate(self, source: QueueManager, destination: QueueManager) -> Answers:
        """3.1.5.3"""
        if source.identifier in destination.in_routing_servers:
            return frozenset({(destination.identifier,)})
        if set(source.sites) & set(destination.sites):
            if len(destination.in_routing_servers) > 0:
                return frozenset({destination.in_routing_servers})
            return frozenset({(destination.identifier,)})
        if source.identifier not in self._tables:
            self._tables[source.identifier] = self.routing_table(source.identifier)
        table = self._tables[source.identifier]
        rows = [table[site] for site in destination.sites if site in table]
        # The last row decides, and the order of the rows is free.  The reading: the cheapest.
        least = min((cost for cost, _ in rows), default=0)
        next_sites = {site for cost, sites in rows if cost == least for site in sites}
        found: set[tuple[UUID, ...]] = set()
        for site in next_sites:
            gates = self.get_site_gate_for_site(site)
            found |= {(gate,) for gate in gates} or {()}
        return frozenset(found)

    def get_queue_manager(self, machine: UUID) -> QueueManager | None:
        """3.1.5.4"""
        for queue_manager in self.queue_managers:
            if queue_manager.identifier == machine:
                return queue_manager
        return None

    def get_routing_server(self, machine: UUID) -> UUID | None:
        """3.1.5.5"""
        source = self.get_queue_manager(machine)
        if source is None:
            return None
        for other in self.queue_managers:
            if set(other.sites) & set(source.sites) and other.routing_server:
                return other.identifier
        return None

    def get_site_gate(self, machine: UUID) -> Collection[UUID]:
        """3.1.5.6, all that it may return"""
        source = self.get_queue_manager(machine)
        if source is None:
            return ()
        for site in self.sites:
            if site.identifier in source.sites:
                return self.site_gate_collection(site)
        return ()

    def get_site_gate_for_site(self, identifier: UUID) -> Collection[UUID]:
        """3.1.5.7, all that it may return"""
        for site in self.sites:
            if site.identifier == identifier:
                return self.site_gate_collection(site)
        return ()

    def is_site_gate(self, identifier: UUID) -> bool:
        """3.1.5.8"""
        machine = self.get_queue_manager(identifier)
        if machine is None or not machine.routing_server:
            return False
        for site in self.sites:
            if site.identifier in machine.sites:
                for gate in self.site_gate_collection(site):
                    if gate == identifier:
                        return True
        return False

    def graph(self) -> networkx.Graph[UUID]:
        """3.1.3.1 the enterprise as a graph E = (S, L)."""
        graph: networkx.Graph[UUID] = networkx.Graph()
        graph.add_nodes_from(site.identifier for site in self.sites)
        for link in self.links:
            ends = link.site1, link.site2
            if not graph.has_edge(*ends) or link.cost < graph.edges[ends]["weight"]:
                graph.add_edge(link.site1, link.site2, weight=link.cost)
        return graph

    def own_sites(self, own: UUID) -> set[UUID]:
        """The sites that a queue manager is a gate of."""
        machine = self.get_queue_manager(own)
        assert machine is not None
        return {
            site.identifier
            for site in self.sites
            if site.identifier in machine.sites and own in self.site_gate_collection(site)
        }

    def routing_table(self, own: UUID) -> Table:
        """3.1.3.1 each other site that can be reached.

        The sites of a gate are one root: a route between them costs it nothing, and a route back to one of
        them is not
        considered.
        """
        if not (self.is_site_gate(own) and self.sites and self.links):
            return {}
        mine = self.own_sites(own)
        graph = self.graph()
        elsewhere = graph.subgraph([site for site in graph if site not in mine])
        table: Table = {}
        for site in elsewhere:
            rest = networkx.single_source_dijkstra_path_length(elsewhere, site)
            costs: dict[UUID, float] = {}
            for one in mine:
                for two in set(graph[one]) & set(rest):
                    cost = graph[one][two]["weight"] + rest[two]
                    costs[two] = min(costs.get(two, cost), cost)
            if costs:
                least = min(costs.values())
                table[site] = (least, {two for two, cost in costs.items() if cost == least})
        return table


def cheapest_by_trying(graph: networkx.Graph[UUID], start: UUID, end: UUID) -> int | None:
    """The cost of the best of all paths, by exhaustive search."""
    others = [site for site in graph if site not in (start, end)]
    costs = []
    for length in range(len(others) + 1):
        for between in permutations(others, length):
            path = [start, *between, end]
            if all(graph.has_edge(one, two) for one, two in pairwise(path)):
                costs.append(sum(graph[one][two]["weight"] for one, two in pairwise(path)))
    return min(costs, default=None)
