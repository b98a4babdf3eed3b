"""Loop-free alternates: steps that bring a message nearer to its destination (RFC 5286).

In [MS-MQBR] a message waits for a next hop that is down.
Here a queue manager may send the message to an alternate instead, by the downstream-path criterion of RFC
5286:
only to a queue manager of smaller rank. Ranks depend only on the destination and the topology, not on which
queue managers are believed down.
C{docs/design/routing.md} has the proof that messages do not loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from heapq import heappop, heappush
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from msmq.routing.topology import QueueManager, Topology
from msmq.structures.packet.user_header import MAXIMUM_HOP_COUNT

MOST_GATES: Final = MAXIMUM_HOP_COUNT - 2
"""Limit on site gates that a message may pass; out- and in-routing servers count a hop too."""

Rank: TypeAlias = tuple[int, int, int]
"""Class, distance and site number of a site gate: a smaller rank is nearer to the destination.

Class 0 is an in-routing server of the destination, 1 a gate that shares a site with it, 2 any other gate.
Distance to the nearest site of the destination, and number of that site, are compared only in class 2.
"""

Step: TypeAlias = tuple[int, int, bool, UUID]
"""Sort key of a step: link cost, number of the next site, whether the gate does not serve the link, gate.

Of steps with the same cost to the destination, the smallest is the next hop of [MS-MQBR] as read here.
"""


@attrs.frozen
class DownstreamPaths:
    """Allowed steps between site gates on routes to one destination.

    @ivar order: the gates from which the destination can be reached, the nearest first.
    @ivar ranks: the rank of each.
    @ivar steps: for each gate, the gates to which it may send a message.
    """

    target: QueueManager
    order: Sequence[UUID]
    ranks: Mapping[UUID, Rank]
    steps: Mapping[UUID, Sequence[Step]]

    def delivers(self, gate: UUID) -> bool:
        """Whether a gate sends the message to the destination, or to its in-routing server."""
        rank = self.ranks.get(gate)
        return rank is not None and rank[0] < 2

    def costs(self, avoided: Set[UUID]) -> dict[UUID, int]:
        """Compute the least cost from each gate to the destination over gates that are not avoided.

        A gate whose every path passes an avoided gate is missing. An avoided gate is present with the cost
        that its path would have if it were up.
        """
        servers = self.target.in_routing_servers
        is_open = not servers or any(server not in avoided for server in servers)
        costs: dict[UUID, int] = {}
        for gate in self.order:
            if self.ranks[gate][0] == 0:
                costs[gate] = 0
            elif self.ranks[gate][0] == 1:
                if is_open:
                    costs[gate] = 0
            else:
                found = [
                    step[0] + costs[step[3]]
                    for step in self.steps[gate]
                    if step[3] in costs and step[3] not in avoided
                ]
                if found:
                    costs[gate] = min(found)
        return costs


def downstream_paths(topology: Topology, target: QueueManager) -> DownstreamPaths:
    """Compute the allowed steps to a destination.

    It takes about as long as a routing table; call it in a worker thread.
    """
    distances = _distances(topology, target.sites)
    ranks = _ranks(topology, target, distances)
    order = sorted(ranks, key=lambda gate: (ranks[gate], gate.int))
    steps = {gate: () if ranks[gate][0] < 2 else _steps(topology, gate, ranks) for gate in order}
    return DownstreamPaths(target, order, ranks, _within_hop_limit(order, ranks, steps, distances))


def _distances(topology: Topology, sites: Iterable[UUID]) -> dict[int, int]:
    """Distance of each site from the nearest of these sites; link costs are symmetric."""
    graph = topology.graph
    heap = [(0, graph.numbers[site]) for site in dict.fromkeys(sites) if site in graph.numbers]
    heap.sort()
    distances: dict[int, int] = {}
    while heap:
        distance, here = heappop(heap)
        if here not in distances:
            distances[here] = distance
            for there, cost in graph.edges(here):
                if there not in distances:
                    heappush(heap, (distance + cost, there))
    return distances


def _ranks(topology: Topology, target: QueueManager, distances: Mapping[int, int]) -> dict[UUID, Rank]:
    ranks: dict[UUID, Rank] = {}
    own = set(target.sites)
    numbers = topology.graph.numbers
    for site in topology.graph.vertices:
        number = numbers[site]
        for gate in topology.gates(site):
            machine = topology.queue_manager(gate)
            if machine is None:
                continue
            rank: Rank | None = None
            if gate == target.identifier or gate in target.in_routing_servers:
                rank = 0, 0, 0
            elif not own.isdisjoint(machine.sites):
                rank = 1, 0, 0
            elif number in distances:
                rank = 2, distances[number], number
            if rank is not None and (gate not in ranks or rank < ranks[gate]):
                ranks[gate] = rank
    return ranks


def _steps(topology: Topology, gate: UUID, ranks: Mapping[UUID, Rank]) -> tuple[Step, ...]:
    """Steps of a gate: to every gate of smaller rank in a neighboring site."""
    machine = topology.queue_manager(gate)
    assert machine is not None
    own = ranks[gate]
    graph = topology.graph
    found: list[Step] = []
    for site in topology.gated_sites(machine):
        for there, link in graph.links[graph.numbers[site]].items():
            for other in topology.gates(graph.vertices[there]):
                rank = ranks.get(other)
                if rank is not None and rank < own:
                    found.append((link.cost, there, other not in link.gates, other))
    return tuple(sorted(found))


def _within_hop_limit(
    order: Sequence[UUID],
    ranks: Mapping[UUID, Rank],
    steps: Mapping[UUID, Sequence[Step]],
    distances: Mapping[int, int],
) -> dict[UUID, Sequence[Step]]:
    """Drop alternates through which a message could exceed the hop limit.

    The height of a gate is the largest number of gates on a least-cost path from it, itself included.
    The limit minus the largest height is the number of hops that alternates may add to any path.
    """
    plain = {
        gate: {step[3] for step in steps[gate] if step[0] + distances[step[1]] == ranks[gate][1]}
        for gate in order
    }
    heights: dict[UUID, int] = {}
    for gate in order:
        heights[gate] = 1 + max((heights[other] for other in plain[gate]), default=0)
    spare = max(0, MOST_GATES - max(heights.values(), default=0))
    longest: dict[UUID, int] = {}
    kept: dict[UUID, Sequence[Step]] = {}
    for gate in order:
        most = heights[gate] + spare
        kept[gate] = [step for step in steps[gate] if step[3] in plain[gate] or longest[step[3]] < most]
        longest[gate] = 1 + max((longest[step[3]] for step in kept[gate]), default=0)
    return kept
