"""Alternate next hops around queue managers that are down.

[MS-MQBR] has no such state: a message for a gate that is down waits for it.
Here a queue manager that cannot reach a next hop sends the message to an alternate that
L{msmq.routing.downstream} allows; without one the message waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from msmq.routing.downstream import DownstreamPaths, Step, downstream_paths
from msmq.routing.next_hops import Decision, Rule, decide
from msmq.routing.table import RoutingTable, routing_table
from msmq.routing.topology import QueueManager, Topology

MOST_WAITED_FOR: Final = 4
"""Limit on unreachable alternates that are tried alternately with the document's next hop."""

_KEPT: Final = 300_000
"""Capacity of the cache of allowed steps, over all destinations."""


_Key: TypeAlias = tuple[tuple[UUID, ...], tuple[UUID, ...], UUID | None]


class Alternates:
    """Chooses next hops in one topology, given the queue managers that the decider believes down.

    Caches the allowed steps of recent destinations. Thread-safe.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._paths: dict[_Key, DownstreamPaths] = {}
        self._costs: dict[_Key, tuple[Set[UUID], dict[UUID, int]]] = {}
        self._size = 0

    def decide(
        self, own: UUID, destination: UUID, avoided: Set[UUID], table: RoutingTable | None = None
    ) -> Decision:
        """GetNextHops of C{own} without the queue managers that it believes to be down. [MS-MQBR] 3.1.5.1.

        The result lists the reachable hops, the best first.
        If all hops are avoided, the message waits for the first one to return: the result then lists the hop
        of the document first, then the allowed alternates.

        @param avoided: the queue managers that C{own} believes to be down; C{own} and the destination in it
            are ignored.
        @param table: the routing table of C{own}; computed on demand if not given.
        """
        avoided = avoided - {own, destination}
        if table is None and avoided:
            table = routing_table(self.topology, own)
        plain = decide(self.topology, own, destination, table)
        if not plain.hops or not avoided:
            return plain
        source, target = self.topology.queue_manager(own), self.topology.queue_manager(destination)
        assert source is not None and target is not None
        match plain.rule:
            case Rule.OUT_ROUTING_SERVERS | Rule.IN_ROUTING_SERVERS:
                left = tuple(hop for hop in plain.hops if hop not in avoided)
                return attrs.evolve(plain, hops=left) if left else plain
            case Rule.ROUTING_SERVER_OF_SITE | Rule.SITE_GATE_OF_SITE if plain.hops[0] in avoided:
                return self._within_site(source, target, plain, avoided)
            case Rule.ROUTING_TABLE:
                assert table is not None
                return self._between_sites(source, target, plain, avoided, table)
        return plain

    def paths(self, target: QueueManager) -> DownstreamPaths:
        """The allowed steps to a destination, from the cache or computed."""
        key = self._key(target)
        found = self._paths.get(key)
        if found is None:
            found = downstream_paths(self.topology, target)
            self._size += sum(map(len, found.steps.values()))
            if self._size > _KEPT:
                self._paths.clear()
                self._costs.clear()
                self._size = 0
            self._paths[key] = found
        return found

    def is_quick(self, destination: UUID) -> bool:
        """Whether the cache has the allowed steps to this destination."""
        target = self.topology.queue_manager(destination)
        return target is None or self._key(target) in self._paths

    def _key(self, target: QueueManager) -> _Key:
        """Cache key: queue managers of the same sites and in-routing servers share their allowed steps."""
        is_gate = any(target.identifier in self.topology.gates(site) for site in target.sites)
        return target.sites, target.in_routing_servers, target.identifier if is_gate else None

    def _costs_without(self, target: QueueManager, avoided: Set[UUID]) -> dict[UUID, int]:
        """Costs without the avoided gates; the last result for each destination is cached."""
        key = self._key(target)
        kept = self._costs.get(key)
        if kept is not None and kept[0] == avoided:
            return kept[1]
        costs = self.paths(target).costs(avoided)
        self._costs[key] = avoided, costs
        return costs

    def _within_site(
        self, source: QueueManager, target: QueueManager, plain: Decision, avoided: Set[UUID]
    ) -> Decision:
        """Choose another routing server or gate of its site, for a queue manager that is not a gate.

        The message does not return: gates send it only to other gates and to routing servers of its
        destination.
        """
        costs = self._costs_without(target, avoided)
        if plain.rule is Rule.SITE_GATE_OF_SITE:
            others: Iterable[UUID] = self._gates_of(source)
        else:
            sites = set(source.sites)
            others = [
                machine.identifier
                for machine in self.topology.queue_managers
                if machine.routing_server and not sites.isdisjoint(machine.sites)
            ]
        useful = [
            other
            for other in dict.fromkeys(others)
            if other not in (source.identifier, plain.hops[0])
            and self._is_useful(other, target, costs, avoided)
        ]
        return _chosen(plain, useful, avoided)

    def _gates_of(self, machine: QueueManager) -> list[UUID]:
        """The gates of its sites; first those of the site that [MS-MQBR] 3.1.5.6 selects."""
        first = self.topology.first_site(machine.sites)
        sites = sorted(machine.sites, key=lambda site: site != first)
        return [gate for site in sites for gate in self.topology.gates(site)]

    def _is_useful(
        self, identifier: UUID, target: QueueManager, costs: dict[UUID, int], avoided: Set[UUID]
    ) -> bool:
        """Whether a known path leads from a routing server to the destination."""
        machine = self.topology.queue_manager(identifier)
        if machine is None:
            return False
        if identifier == target.identifier or identifier in target.in_routing_servers or identifier in costs:
            return True
        if any(identifier in self.topology.gates(site) for site in machine.sites):
            return False
        if not set(machine.sites).isdisjoint(target.sites):
            servers = target.in_routing_servers
            return not servers or any(server not in avoided for server in servers)
        return any(gate in costs and gate not in avoided for gate in self._gates_of(machine))

    def _between_sites(
        self,
        source: QueueManager,
        target: QueueManager,
        plain: Decision,
        avoided: Set[UUID],
        table: RoutingTable,
    ) -> Decision:
        """The next hops from a site gate, which knows the whole path. [MS-MQBR] 3.1.5.3."""
        assert plain.row is not None
        sites = table.path(plain.row.destination_site_id)[1:]
        if not any(gate in avoided for site in sites for gate in self.topology.gates(site)):
            return plain
        paths = self.paths(target)
        costs = self._costs_without(target, avoided)
        usable = [step for step in paths.steps.get(source.identifier, ()) if step[3] in costs]
        usable.sort(key=lambda step: (step[0] + costs[step[3]], *step[1:], step[0]))
        reached = [step for step in usable if step[3] not in avoided]
        if plain.hops[0] not in avoided:
            own = next((step for step in reached if step[3] == plain.hops[0]), None)
            if not reached or (own is not None and _total(own, costs) == _total(reached[0], costs)):
                return plain
        decision = _chosen(plain, [step[3] for step in usable if step[3] != plain.hops[0]], avoided)
        if decision.rule is not Rule.ALTERNATE:
            return decision
        return attrs.evolve(decision, site=self.topology.graph.vertices[reached[0][1]])


def _total(step: Step, costs: dict[UUID, int]) -> int:
    return step[0] + costs[step[3]]


def _chosen(plain: Decision, others: Sequence[UUID], avoided: Set[UUID]) -> Decision:
    """The hops that are not avoided; if all are, every candidate, in order of preference."""
    up = [other for other in others if other not in avoided]
    if up:
        return attrs.evolve(plain, hops=(up[0],), rule=Rule.ALTERNATE)
    return attrs.evolve(plain, hops=(plain.hops[0], *others[:MOST_WAITED_FOR]))
