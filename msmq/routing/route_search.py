"""Bidirectional least-cost search: only the routing table rows that one message needs."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final
from uuid import UUID

import attrs

from msmq.routing.table import EMPTY_TABLE, RoutingTable, TableRow, gate_sites
from msmq.routing.topology import Graph, Topology

_ENDLESS: Final = 1 << 62


class RowSearch:
    """Searches for the rows of several site gates, such as those that a message passes.

    A search from both ends settles only the sites within half of the cost: some hundred in a table of ten
    thousand. What it finds about the rest of a route serves the next gate on that route too.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._remaining: dict[int, dict[int, int]] = {}

    def table(self, own: UUID, sites: Iterable[UUID]) -> RoutingTable:
        """Compute the rows of a routing table for messages to these sites. [MS-MQBR] 3.1.3.1.

        The result has the rows of L{msmq.routing.table.routing_table} for these sites and for the sites on
        the least-cost routes to them.
        """
        own_sites = gate_sites(self._topology, own)
        if not own_sites:
            return EMPTY_TABLE
        graph = self._topology.graph
        roots = sorted({graph.numbers[site] for site in own_sites})
        rows: dict[UUID, TableRow] = {}
        for site in sites:
            if (target := graph.numbers.get(site)) is not None:
                rows |= self._rows_towards(graph, roots, target)
        return RoutingTable(own_sites, rows)

    def _rows_towards(self, graph: Graph, roots: list[int], target: int) -> dict[UUID, TableRow]:
        remaining = self._remaining.get(target, {})
        if not all(root in remaining for root in roots):
            found = _remaining(graph, roots, target)
            if found is None:
                return {}
            remaining = self._remaining[target] = found
        cost = min(remaining[root] for root in roots if root in remaining)
        begin = [root for root in roots if remaining.get(root) == cost]
        return _restricted_rows(graph, begin, cost, remaining)


@attrs.define
class _Side:
    """Dijkstra's algorithm from one end, with the heap of the routing table."""

    graph: Graph
    distances: dict[int, int]
    settled: dict[int, int] = attrs.field(factory=dict)
    heap: list[int] = attrs.field(factory=list)

    @classmethod
    def of(cls, graph: Graph, begin: Iterable[int]) -> _Side:
        """Start a search in these sites."""
        side = cls(graph, dict.fromkeys(begin, 0))
        side.heap.extend(sorted(side.distances))
        return side

    @property
    def nearest(self) -> int:
        """Distance of the next site, at least that of all settled ones."""
        heap, size = self.heap, len(self.graph.vertices)
        while heap and heap[0] % size in self.settled:
            heappop(heap)
        return heap[0] // size if heap else _ENDLESS

    def settle(self, other: _Side, best: int) -> int:
        """Settle the next site; return the least known cost of a route."""
        size, distances, heap, opposite = len(self.graph.vertices), self.distances, self.heap, other.distances
        cost, here = divmod(heappop(heap), size)
        self.settled[here] = cost
        for there, weight in self.graph.edges(here):
            total = cost + weight
            if there not in distances or total < distances[there]:
                distances[there] = total
                # Routes beyond the least known cost are irrelevant.
                if total <= best:
                    heappush(heap, total * size + there)
                    if there in opposite and total + opposite[there] < best:
                        best = total + opposite[there]
        return best


def _remaining(graph: Graph, roots: list[int], target: int) -> dict[int, int] | None:
    """The least cost to a site from every site on a least-cost route to it; C{None} if there is none.

    The result may contain other sites, with all those on least-cost routes from them. The search ends when
    the distances of the next sites of both ends exceed the least cost together: each site on a least-cost
    route is then settled from at least one end.
    """
    begin, end = _Side.of(graph, roots), _Side.of(graph, (target,))
    best = end.settle(begin, 0 if target in begin.distances else _ENDLESS)
    while True:
        ahead, behind = begin.nearest, end.nearest
        if ahead + behind > best or min(ahead, behind) >= _ENDLESS:
            break
        # One end may have far more sites at the same distance.
        if ahead < _ENDLESS and (behind >= _ENDLESS or len(begin.heap) <= len(end.heap)):
            best = begin.settle(end, best)
        else:
            best = end.settle(begin, best)
    if best >= _ENDLESS:
        return None
    remaining = dict(end.settled)
    near = begin.settled
    # From the meeting sites back to the start.
    reached = end.distances
    found = [here for here, cost in near.items() if reached.get(here, _ENDLESS) == best - cost]
    while found:
        here = found.pop()
        remaining[here] = best - near[here]
        for there, weight in graph.edges(here):
            if near.get(there, _ENDLESS) + weight == near[here] and there not in remaining:
                found.append(there)
    return remaining


def _restricted_rows(
    graph: Graph, roots: list[int], cost: int, remaining: dict[int, int]
) -> dict[UUID, TableRow]:
    """The algorithm of the routing table, restricted to sites of least-cost routes.

    All predecessors of such a site are in the restriction, so the rows are the same.
    """
    size, vertices = len(graph.vertices), graph.vertices
    first: dict[int, int] = {}
    previous: dict[int, int] = {}
    tied: dict[int, bool] = dict.fromkeys(roots, False)
    settled: dict[int, int] = {}
    heap = sorted(roots)
    while heap:
        here_cost, here = divmod(heappop(heap), size)
        if here in settled:
            continue
        settled[here] = here_cost
        for there, weight in graph.edges(here):
            if here_cost + weight + remaining.get(there, _ENDLESS) != cost:
                continue
            next_site = first.get(here, there)
            if there not in first:
                first[there], previous[there], tied[there] = next_site, here, tied[here]
                heappush(heap, (here_cost + weight) * size + there)
            elif next_site != first[there]:
                tied[there] = True
                if next_site < first[there]:
                    first[there], previous[there] = next_site, here
            elif tied[here]:
                tied[there] = True
    return {
        vertices[here]: TableRow(
            vertices[here],
            vertices[first.get(here, here)],
            here_cost,
            vertices[previous[here]] if here in previous else None,
            tied[here],
        )
        for here, here_cost in settled.items()
    }
