"""Backups that cannot be used: paths around a site whose gates are down, on which no message may go.

By the rule of L{msmq.routing.downstream} a message goes around a site only if every step brings it nearer
to its destination; otherwise it waits, although links lead around.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final
from uuid import UUID

import attrs

from msmq.routing.downstream import downstream_paths
from msmq.routing.problems import EnterpriseProblem, ProblemKind
from msmq.routing.topology import MAXIMUM_COST, QueueManager, RoutingLink, Topology
from msmq.wire.guid import NULL_GUID

MOST_WORK: Final = 1_000_000
"""Steps that are looked at; a larger enterprise is checked for some of its sites as destinations."""

_MOST_REPORTED: Final = 50
"""Links that are reported, those first that concern the most pairs of sites."""

_COMPUTING: Final = 5
"""How many times as long it takes to compute a step as to look at one."""


@attrs.frozen
class _Backup:
    """A path around a site that no message takes.

    @ivar sites: from the site where messages wait to the destination.
    @ivar failed: the site that it leads around, which is next on the cheapest path.
    @ivar position: of the first site of the path that is not nearer to the destination than the one before.
    @ivar distances: of each site of the path from the destination.
    """

    sites: tuple[UUID, ...]
    failed: UUID
    position: int
    distances: tuple[int, ...]

    @property
    def ends(self) -> tuple[UUID, UUID]:
        """The link of the first step that is not allowed, in its direction."""
        return self.sites[self.position - 1], self.sites[self.position]


def find_unusable_backups(topology: Topology) -> list[EnterpriseProblem]:
    """Each link that would lead around a site, and may not be used, with a cost that would change that.

    One problem for each link, direction and site; the costs that are named were tried.
    """
    found: dict[tuple[UUID, UUID, UUID], list[_Backup]] = {}
    work, looked_at = 0, 0
    for site in topology.sites:
        if work > MOST_WORK:
            break
        looked_at += 1
        backups, size = _unusable(topology, site.identifier)
        work += size
        for backup in backups:
            found.setdefault((*backup.ends, backup.failed), []).append(backup)
    most = sorted(found.values(), key=len, reverse=True)
    problems = [_problem(topology, backups) for backups in most[:_MOST_REPORTED]]
    if len(most) > _MOST_REPORTED:
        rule = f"has {len(most) - _MOST_REPORTED} more links that cannot be used as backups"
        problems.append(EnterpriseProblem(ProblemKind.BACKUP, "the enterprise", rule))
    if looked_at < len(topology.sites):
        rule = f"has {len(topology.sites)} sites; backups were checked for routes to {looked_at} of them"
        problems.append(EnterpriseProblem(ProblemKind.BACKUP, "the enterprise", rule))
    return problems


def _unusable(topology: Topology, site: UUID) -> tuple[list[_Backup], int]:
    """The pairs on the routes to one site, and the amount of work done."""
    paths = downstream_paths(topology, _anyone(site))
    size = sum(map(len, paths.steps.values())) + len(topology.links)
    work = _COMPUTING * size
    distances = _distances(topology, site)
    found = []
    for failed, sources in _next_sites(topology, site, distances).items():
        work += size
        down = frozenset(topology.gates(failed))
        costs = paths.costs(down)
        blocked = [source for source in sources if not _is_open(topology, costs, source, down)]
        if not blocked:
            continue
        around = _distances(topology, site, without=failed)
        for source in blocked:
            if source in around:
                backup = _backup(topology, (source, failed, site), distances, around)
                if backup is not None:
                    found.append(backup)
    return found, work


def _anyone(site: UUID) -> QueueManager:
    """A queue manager of a site, as a destination."""
    return QueueManager(NULL_GUID, sites=(site,))


def _distances(topology: Topology, site: UUID, without: UUID | None = None) -> dict[UUID, int]:
    """The least cost from every site with a gate, by such sites."""
    graph = topology.graph
    distances: dict[UUID, int] = {}
    heap = [(0, graph.numbers[site])] if topology.gates(site) else []
    while heap:
        distance, number = heappop(heap)
        here = graph.vertices[number]
        if here in distances:
            continue
        distances[here] = distance
        for there, cost in graph.edges[number]:
            other = graph.vertices[there]
            if other not in distances and other != without and topology.gates(other):
                heappush(heap, (distance + cost, there))
    return distances


def _next_sites(topology: Topology, site: UUID, distances: Mapping[UUID, int]) -> dict[UUID, list[UUID]]:
    """For each site that is next on the cheapest path of others: those others."""
    graph = topology.graph
    found: dict[UUID, list[UUID]] = {}
    for source, distance in distances.items():
        for there, cost in sorted(graph.edges[graph.numbers[source]]):
            following = graph.vertices[there]
            if distances.get(following) == distance - cost and distance > cost:
                found.setdefault(following, []).append(source)
                break
    return found


def _is_open(topology: Topology, costs: Mapping[UUID, int], source: UUID, down: frozenset[UUID]) -> bool:
    """Whether a message goes on from a site in which any gate is up."""
    gates = [gate for gate in topology.gates(source) if gate not in down]
    return not gates or any(gate in costs for gate in gates)


def _backup(
    topology: Topology,
    ends: tuple[UUID, UUID, UUID],
    distances: Mapping[UUID, int],
    around: Mapping[UUID, int],
) -> _Backup | None:
    """The cheapest path around, and where on it messages may not go on."""
    source, failed, destination = ends
    sites = [source]
    graph = topology.graph
    while sites[-1] != destination:
        number = graph.numbers[sites[-1]]
        sites.append(
            next(
                graph.vertices[there]
                for there, cost in sorted(graph.edges[number])
                if around.get(graph.vertices[there]) == around[sites[-1]] - cost
            )
        )
    passed = tuple(distances[site] for site in sites)
    for position in range(1, len(sites)):
        one, two = sites[position - 1], sites[position]
        if (passed[position], two.int) > (passed[position - 1], one.int):
            return _Backup(tuple(sites), failed, position, passed)
    return None


def _problem(topology: Topology, backups: list[_Backup]) -> EnterpriseProblem:
    backup = backups[0]
    name = topology.site_name
    one, two = backup.ends
    source, destination = backup.sites[0], backup.sites[-1]
    near, far = backup.distances[backup.position - 1], backup.distances[backup.position]
    farther, than = ("farther", "than") if far > near else ("as far", "as")
    rule = (
        f"cannot be used as a backup for messages from {name(source)} to {name(destination)} while"
        f" {name(backup.failed)} is down: {name(two)} is {farther} from {name(destination)} ({far})"
        f" {than} {name(one)} ({near}), so they wait"
    )
    if len(backups) > 1:
        rule += f", and so for {len(backups) - 1} more pairs of sites"
    change = next((link for link in _changes(topology, backup) if _helps(topology, backup, link)), None)
    if change is not None:
        ends = f"{name(change.site1)} - {name(change.site2)}"
        rule += f"; with a cost of {change.cost} for the link {ends} they would use this route"
    link = topology.link_between(one, two)
    where = "" if link is None else link.where
    return EnterpriseProblem(ProblemKind.BACKUP, f"link {name(one)} - {name(two)}", rule, where)


def _changes(topology: Topology, backup: _Backup) -> Iterator[RoutingLink]:
    """Links with other costs that may make a backup usable: a cheaper one on it, or a dearer one before."""
    near = backup.distances[backup.position - 1]
    rest = backup.sites[backup.position :]
    links = [link for pair in pairwise(rest) if (link := topology.link_between(*pair))]
    cost = sum(link.cost for link in links)
    for link in sorted(links, key=lambda link: -link.cost):
        lowered = link.cost - (cost - near + 1)
        if 1 <= lowered < link.cost:
            yield attrs.evolve(link, cost=lowered)
    first = topology.link_between(backup.sites[0], backup.failed)
    if first is not None:
        raised = first.cost + cost + 1 - near
        if first.cost < raised <= MAXIMUM_COST:
            yield attrs.evolve(first, cost=raised)


def _helps(topology: Topology, backup: _Backup, changed: RoutingLink) -> bool:
    """Whether messages would go around with this cost, while the same site is down."""
    ends = {changed.site1, changed.site2}
    links = tuple(
        attrs.evolve(link, cost=changed.cost) if {link.site1, link.site2} == ends else link
        for link in topology.links
    )
    other = attrs.evolve(topology, links=links)
    paths = downstream_paths(other, _anyone(backup.sites[-1]))
    down = frozenset(other.gates(backup.failed))
    return _is_open(other, paths.costs(down), backup.sites[0], down)
