"""Unusable backup paths: links around a failed site that the downstream criterion forbids.

By the rule of L{msmq.routing.downstream} a message goes around a site only if every step brings it nearer to
its destination; otherwise it waits, although there is a path around the site.
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
"""Limit on examined steps; in a larger enterprise only some sites are checked as destinations."""

_MOST_REPORTED: Final = 50
"""Limit on reported links; those that concern the most pairs of sites come first."""

_COMPUTING: Final = 5
"""Cost of computing a step, relative to examining one."""


@attrs.frozen
class _Backup:
    """A path around a failed site that no message may take.

    @ivar sites: the path, from the site where messages wait to the destination.
    @ivar failed: the bypassed site, the next one on the cheapest path.
    @ivar position: index of the first site of the path that is not nearer to the destination than its
        predecessor.
    @ivar distances: distance of each site of the path to the destination.
    """

    sites: tuple[UUID, ...]
    failed: UUID
    position: int
    distances: tuple[int, ...]

    @property
    def ends(self) -> tuple[UUID, UUID]:
        """The ends of the first link that is not allowed, in the direction of the path."""
        return self.sites[self.position - 1], self.sites[self.position]


def find_unusable_backups(topology: Topology) -> list[EnterpriseProblem]:
    """Find links around a site that may not be used, and a link cost that would allow it.

    One problem per link, direction and site; each suggested cost was verified.
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
    """Unusable backups on routes to one site, and the work spent."""
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
    """Any queue manager of a site, as a destination."""
    return QueueManager(NULL_GUID, sites=(site,))


def _distances(topology: Topology, site: UUID, without: UUID | None = None) -> dict[UUID, int]:
    """Least cost from every gated site, over gated sites."""
    graph = topology.graph
    distances: dict[UUID, int] = {}
    heap = [(0, graph.numbers[site])] if topology.gates(site) else []
    while heap:
        distance, number = heappop(heap)
        here = graph.vertices[number]
        if here in distances:
            continue
        distances[here] = distance
        for there, cost in graph.edges(number):
            other = graph.vertices[there]
            if other not in distances and other != without and topology.gates(other):
                heappush(heap, (distance + cost, there))
    return distances


def _next_sites(topology: Topology, site: UUID, distances: Mapping[UUID, int]) -> dict[UUID, list[UUID]]:
    """Map each next site to the sites whose cheapest path continues there."""
    graph = topology.graph
    found: dict[UUID, list[UUID]] = {}
    for source, distance in distances.items():
        for there, cost in sorted(graph.edges(graph.numbers[source])):
            following = graph.vertices[there]
            if distances.get(following) == distance - cost and distance > cost:
                found.setdefault(following, []).append(source)
                break
    return found


def _is_open(topology: Topology, costs: Mapping[UUID, int], source: UUID, down: frozenset[UUID]) -> bool:
    """Whether a message can leave a site in which any gate is up."""
    gates = [gate for gate in topology.gates(source) if gate not in down]
    return not gates or any(gate in costs for gate in gates)


def _backup(
    topology: Topology,
    ends: tuple[UUID, UUID, UUID],
    distances: Mapping[UUID, int],
    around: Mapping[UUID, int],
) -> _Backup | None:
    """The cheapest path around the failed site, and its first forbidden step."""
    source, failed, destination = ends
    sites = [source]
    graph = topology.graph
    while sites[-1] != destination:
        number = graph.numbers[sites[-1]]
        sites.append(
            next(
                graph.vertices[there]
                for there, cost in sorted(graph.edges(number))
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
    """Candidate cost changes: a cheaper link on the backup, or a dearer one before it."""
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
    """Whether the backup is usable with this cost while the same site is down."""
    ends = {changed.site1, changed.site2}
    links = tuple(
        attrs.evolve(link, cost=changed.cost) if {link.site1, link.site2} == ends else link
        for link in topology.links
    )
    other = attrs.evolve(topology, links=links)
    paths = downstream_paths(other, _anyone(backup.sites[-1]))
    down = frozenset(other.gates(backup.failed))
    return _is_open(other, paths.costs(down), backup.sites[0], down)
