"""Routing table of a site gate: least-cost routes to all sites. [MS-MQBR] 3.1.1.2 and 3.1.3.1.

[MS-MQBR] 4 has examples.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final
from uuid import UUID

import attrs

from msmq.routing.topology import FARTHEST, Graph, QueueManager, Topology

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


class _GraphRows(Mapping[UUID, TableRow]):
    """The rows of a table, each made when it is asked for, since most of a large one never are.

    @param costs: by number of a site; L{FARTHEST} for one that is not reached.
    @param first: the number of the next site; C{_NOWHERE} for an own site. C{previous} likewise.
    @param order: the reached sites, the nearest first.
    """

    __slots__ = ("_costs", "_first", "_graph", "_order", "_previous", "_tied")

    def __init__(
        self,
        graph: Graph,
        costs: array[int],
        first: Sequence[int],
        previous: Sequence[int],
        tied: Sequence[int],
        order: Sequence[int],
    ) -> None:
        self._graph = graph
        self._costs = costs
        self._first = first
        self._previous = previous
        self._tied = tied
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[UUID]:
        return map(self._graph.vertices.__getitem__, self._order)

    def __contains__(self, site: object) -> bool:
        number = self._graph.numbers.get(site) if isinstance(site, UUID) else None
        return number is not None and self._costs[number] != FARTHEST[self._costs.typecode]

    def __getitem__(self, site: UUID) -> TableRow:
        number = self._graph.numbers[site]
        cost = self._costs[number]
        if cost == FARTHEST[self._costs.typecode]:
            raise KeyError(site)
        vertices = self._graph.vertices
        first, previous = self._first[number], self._previous[number]
        return TableRow(
            vertices[number],
            vertices[number if first == _NOWHERE else first],
            cost,
            None if previous == _NOWHERE else vertices[previous],
            self._tied[number] != 0,
        )


def _rows(graph: Graph, own_sites: Iterable[UUID]) -> Mapping[UUID, TableRow]:
    """Dijkstra's algorithm, from several sites at once.

    The heap holds distances, each once, and C{found} the sites at each of them: there are far fewer distances
    than sites. A site that was found again, nearer, is skipped at its greater distance.
    Every link has a positive cost, so all sites before another on a least-cost route are settled before it,
    and the smallest next site propagates along the routes.
    """
    size = len(graph.vertices)
    neighbours, weights, starts = graph.neighbours, graph.weights, graph.starts
    # As the edges of the graph, without objects for each site.
    costs = array(weights.typecode, [FARTHEST[weights.typecode]]) * size
    first = array("i", [_NOWHERE]) * size
    previous = array("i", [_NOWHERE]) * size
    tied = bytearray(size)
    order: list[int] = []
    roots = {graph.numbers[site] for site in own_sites}
    for root in roots:
        costs[root] = 0
    found = {0: list(roots)}
    heap = [0]
    while heap:
        cost = heappop(heap)
        for here in sorted(found.pop(cost)):
            if costs[here] != cost:
                continue
            order.append(here)
            via = first[here]
            is_tied = tied[here]
            begin, end = starts[here], starts[here + 1]
            for there, weight in zip(neighbours[begin:end], weights[begin:end], strict=True):
                total = cost + weight
                known = costs[there]
                if total > known:
                    # Nearly all; a settled site is never farther.
                    continue
                next_site = there if via == _NOWHERE else via
                if total < known:
                    costs[there] = total
                    first[there] = next_site
                    previous[there] = here
                    tied[there] = is_tied
                    if (same := found.get(total)) is not None:
                        same.append(there)
                    else:
                        found[total] = [there]
                        heappush(heap, total)
                elif next_site != first[there]:
                    tied[there] = True
                    if next_site < first[there]:
                        first[there] = next_site
                        previous[there] = here
                elif is_tied:
                    tied[there] = True
    return _GraphRows(graph, costs, first, previous, tied, order)
