"""Routing table of a site gate: least-cost routes to all sites. [MS-MQBR] 3.1.1.2 and 3.1.3.1.

[MS-MQBR] 4 has examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Final
from uuid import UUID

import attrs

from msmq.routing.topology import Graph, QueueManager, Topology

_NOWHERE: Final = -1


@attrs.frozen
class TableRow:
    """Row of a L{RoutingTable}: the route to one site.

    @ivar destination_site_id: DestinationSiteID.
    @ivar next_hop_site_id: NextHopSiteID, the first site after the gate's own on the route; for an own site,
        that site.
    @ivar cost: cost of the whole route; 0 for an own site.
    @ivar previous_site_id: the site before the destination on that route; C{None} for an own site.
    @ivar is_tied: a route through another next site has the same cost.
    """

    destination_site_id: UUID
    next_hop_site_id: UUID
    cost: int
    previous_site_id: UUID | None = None
    is_tied: bool = False


@attrs.frozen
class RoutingTable:
    """RoutingTable of one site gate; empty for other queue managers. [MS-MQBR] 3.1.1.2.

    An unreachable site has no row.

    @ivar own_sites: the sites of which the queue manager is a gate, where the routes begin.
    @ivar rows: by DestinationSiteID.
    """

    own_sites: tuple[UUID, ...] = ()
    rows: Mapping[UUID, TableRow] = attrs.field(factory=dict, repr=False)

    def best(self, sites: Iterable[UUID]) -> TableRow | None:
        """The row for a queue manager that belongs to these sites. [MS-MQBR] 3.1.5.3.

        If several match, the document uses the last one in an unspecified order. Here it is the row with the
        least cost, then with the smallest DestinationSiteID.
        """
        found = [row for site in sites if (row := self.rows.get(site)) is not None]
        return min(found, key=lambda row: (row.cost, row.destination_site_id.int), default=None)

    def path(self, site: UUID) -> tuple[UUID, ...]:
        """All sites on the route to this one, starting with an own site; empty if there is no route."""
        row = self.rows.get(site)
        path: list[UUID] = []
        while row is not None:
            path.append(row.destination_site_id)
            row = None if row.previous_site_id is None else self.rows[row.previous_site_id]
        return tuple(reversed(path))


EMPTY_TABLE: Final = RoutingTable()


def is_site_gate(topology: Topology, identifier: UUID) -> bool:
    """IsSiteGate: a routing server that is a gate of one of its own sites. [MS-MQBR] 3.1.5.8."""
    machine = topology.queue_manager(identifier)
    return machine is not None and _is_gate(topology, machine)


def _is_gate(topology: Topology, machine: QueueManager) -> bool:
    return machine.routing_server and any(
        machine.identifier in topology.gates(site) for site in machine.sites
    )


def routing_table(topology: Topology, own: UUID) -> RoutingTable:
    """Compute the routing table of a queue manager; empty unless it is a site gate. [MS-MQBR] 3.1.3.1.

    The routes begin in every site of which it is a gate.
    Of routes with equal cost the one with the smallest identifier of the next site is used, so that decisions
    are deterministic.
    """
    own_sites = gate_sites(topology, own)
    return RoutingTable(own_sites, _rows(topology.graph, own_sites)) if own_sites else EMPTY_TABLE


def gate_sites(topology: Topology, own: UUID) -> tuple[UUID, ...]:
    """The own sites of a site gate; empty for any other queue manager."""
    machine = topology.queue_manager(own)
    if machine is None or not topology.links or not _is_gate(topology, machine):
        return ()
    return topology.gated_sites(machine)


def table_of_site(topology: Topology, site: UUID) -> RoutingTable:
    """The table of a gate of this site only; empty if there is no such site."""
    if topology.site(site) is None:
        return EMPTY_TABLE
    return RoutingTable((site,), _rows(topology.graph, (site,)))


def _rows(graph: Graph, own_sites: Iterable[UUID]) -> dict[UUID, TableRow]:
    """Dijkstra's algorithm, from several sites at once.

    The heap holds single numbers, the distance times the number of sites plus the site.
    Every link has a positive cost, so all sites before another on a least-cost route are settled before it,
    and the smallest next site propagates along the routes.
    """
    size = len(graph.vertices)
    edges = graph.edges
    costs = [_NOWHERE] * size
    first = [_NOWHERE] * size
    previous = [_NOWHERE] * size
    tied = [False] * size
    settled = [False] * size
    order: list[int] = []
    heap: list[int] = []
    roots = sorted({graph.numbers[site] for site in own_sites})
    for root in roots:
        costs[root] = 0
        heappush(heap, root)
    while heap:
        cost, here = divmod(heappop(heap), size)
        if settled[here]:
            continue
        settled[here] = True
        order.append(here)
        via = first[here]
        is_tied = tied[here]
        for there, weight in edges[here]:
            if settled[there]:
                continue
            total = cost + weight
            known = costs[there]
            next_site = there if via == _NOWHERE else via
            if known == _NOWHERE or total < known:
                costs[there] = total
                first[there] = next_site
                previous[there] = here
                tied[there] = is_tied
                heappush(heap, total * size + there)
            elif total == known:
                if next_site != first[there]:
                    tied[there] = True
                    if next_site < first[there]:
                        first[there] = next_site
                        previous[there] = here
                elif is_tied:
                    tied[there] = True
    vertices = graph.vertices
    return {
        vertices[number]: TableRow(
            vertices[number],
            vertices[number if first[number] == _NOWHERE else first[number]],
            costs[number],
            None if previous[number] == _NOWHERE else vertices[previous[number]],
            tied[number],
        )
        for number in order
    }
