"""Topology of an enterprise: sites, routing links, queue managers. [MS-MQBR] 3.1.1.1.

A L{Topology} is immutable; each reading of the directory creates a new one.
It does not validate its input: L{msmq.routing.topology_builder} does, and creates topologies.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

import attrs

from msmq.wire.guid import braced, parse_guid

MINIMUM_COST: Final = 1
MAXIMUM_COST: Final = 999_999
"""ActualCost of a routing link. [MS-MQDMPR] 3.1.1.8."""

FARTHEST: Final = {"i": 0x7FFFFFFF, "q": 1 << 62}
"""More than the cost of any route, by the typecode of the weights."""

T = TypeVar("T")


@attrs.frozen
class Site:
    """Site. [MS-MQDMPR] 3.1.1.7.

    @ivar gates: its site gates, if the directory lists them; C{None} if they follow from the links.
    @ivar is_foreign: ForeignSite, ignored by routing.
    @ivar where: position in its source, for problem reports; the same in the other values.
    """

    identifier: UUID
    name: str = ""
    gates: tuple[UUID, ...] | None = None
    is_foreign: bool = False
    where: str = attrs.field(default="", eq=False, repr=False)

    def __str__(self) -> str:
        return self.name or braced(self.identifier)


@attrs.frozen
class RoutingLink:
    """RoutingLink: a connection of two sites, in both directions. [MS-MQDMPR] 3.1.1.8.

    @ivar cost: ActualCost, 1 to 999,999.
    @ivar gates: SiteGateIdentifierList, the queue managers of either site that serve the link.
    """

    site1: UUID
    site2: UUID
    cost: int
    gates: tuple[UUID, ...] = ()
    where: str = attrs.field(default="", eq=False, repr=False)


@attrs.frozen
class QueueManager:
    """QueueManager, with the attributes that routing and connecting use. [MS-MQDMPR] 3.1.1.1.

    @ivar name: ComputerName.
    @ivar qualified_computer_name: the host name to connect to; if empty, the name.
    @ivar address: an address, if the directory has one; empty otherwise.
    @ivar sites: SiteIdentifierList.
    @ivar in_routing_servers: InRoutingServerIdentifierList.
    @ivar out_routing_servers: OutRoutingServerIdentifierList.
    @ivar connected_networks: ConnectedNetworkIdentifierList, ignored by routing.
    """

    identifier: UUID
    name: str = ""
    sites: tuple[UUID, ...] = ()
    routing_server: bool = False
    in_routing_servers: tuple[UUID, ...] = ()
    out_routing_servers: tuple[UUID, ...] = ()
    connected_networks: tuple[UUID, ...] = ()
    qualified_computer_name: str = ""
    address: str = ""
    where: str = attrs.field(default="", eq=False, repr=False)

    def __str__(self) -> str:
        return self.name or braced(self.identifier)


@attrs.frozen(slots=False)
class Topology:
    """Snapshot of an enterprise.

    The order of the sites and of the queue managers is the order of the directory, in which [MS-MQBR] 3.1.5.5
    and 3.1.5.6 search.
    A link with an unknown end, or with both ends in one site, is ignored; of parallel links the cheapest
    counts.
    """

    sites: tuple[Site, ...] = ()
    links: tuple[RoutingLink, ...] = ()
    queue_managers: tuple[QueueManager, ...] = ()
    _index: _Index = attrs.field(init=False, eq=False, repr=False)

    @_index.default
    def _make_index(self) -> _Index:
        return _Index.of(self.sites, self.links, self.queue_managers)

    def queue_manager(self, identifier: UUID) -> QueueManager | None:
        """GetQueueManager. [MS-MQBR] 3.1.5.4."""
        return self._index.queue_managers.get(identifier)

    def site(self, identifier: UUID) -> Site | None:
        """The site of this identifier."""
        return self._index.sites.get(identifier)

    def queue_manager_named(self, text: str) -> QueueManager | None:
        """Look up a queue manager by name, qualified name or GUID, without case."""
        return _named(text, self._index.queue_manager_names, self.queue_manager)

    def site_named(self, text: str) -> Site | None:
        """Look up a site by name or GUID, without case."""
        return _named(text, self._index.site_names, self.site)

    def site_name(self, identifier: UUID) -> str:
        """Display name of a site: its name, or its identifier if it has none or is unknown."""
        site = self.site(identifier)
        return braced(identifier) if site is None else str(site)

    def queue_manager_name(self, identifier: UUID) -> str:
        """Display name of a queue manager: its name, or its identifier."""
        machine = self.queue_manager(identifier)
        return braced(identifier) if machine is None else str(machine)

    def gates(self, site: UUID) -> tuple[UUID, ...]:
        """SiteGateCollection of a site, the smallest identifier first. [MS-MQDMPR] 3.1.1.7.

        Not stored in a directory.
        Derived from the gates listed for the site or, without such a list, from the gates of its links.
        Only a routing server that belongs to the site is a gate of it ([MS-MQBR] 1.5, 3.1.5.8).
        """
        return self._index.gates.get(site, ())

    def gated_sites(self, machine: QueueManager) -> tuple[UUID, ...]:
        """The sites of which a queue manager is a gate, in the order of its SiteIdentifierList."""
        return tuple(site for site in machine.sites if machine.identifier in self.gates(site))

    def link_between(self, site: UUID, other: UUID) -> RoutingLink | None:
        """The cheapest link between two sites; of several with equal cost, the first in directory order."""
        graph = self._index.graph
        one, two = graph.numbers.get(site), graph.numbers.get(other)
        return None if one is None or two is None else graph.links[one].get(two)

    def first_routing_server(self, sites: Iterable[UUID]) -> UUID | None:
        """The first routing server in directory order of any of these sites."""
        first = self._index.first_routing_servers
        found = [first[site] for site in sites if site in first]
        return min(found)[1] if found else None

    def first_site(self, sites: Iterable[UUID]) -> UUID | None:
        """The first of these sites in directory order."""
        positions = self._index.site_positions
        found = [(positions[site], site) for site in sites if site in positions]
        return min(found)[1] if found else None

    @property
    def graph(self) -> Graph:
        """The sites and links as a graph for Dijkstra's algorithm."""
        return self._index.graph


@attrs.frozen
class Graph:
    """Sites of an enterprise numbered from 0, in the order of their identifiers.

    A search of a large enterprise waits for memory more than it computes, so that edges are packed: those of
    a site are next to each other, without objects that lie anywhere.

    @ivar vertices: the identifier of each number.
    @ivar numbers: the number of each identifier.
    @ivar links: for each number the neighbours, with the cheapest link to each.
    @ivar neighbours: the other ends of the edges, those of each site after those of the one before.
    @ivar weights: the cost of each edge, in numbers of a size that suffices for each route.
    @ivar starts: for each number, the position of its first edge; at the end, the number of edges.
    """

    vertices: tuple[UUID, ...]
    numbers: Mapping[UUID, int]
    links: tuple[Mapping[int, RoutingLink], ...]
    neighbours: array[int] = attrs.field(repr=False)
    weights: array[int] = attrs.field(repr=False)
    starts: array[int] = attrs.field(repr=False)

    @classmethod
    def of(cls, sites: Mapping[UUID, Site], links: Iterable[RoutingLink]) -> Graph:
        """Both directions of every link between two of these sites."""
        vertices = tuple(sorted(sites, key=lambda identifier: identifier.int))
        numbers = {identifier: number for number, identifier in enumerate(vertices)}
        cheapest: list[dict[int, RoutingLink]] = [{} for _ in vertices]
        for link in links:
            one, two = numbers[link.site1], numbers[link.site2]
            known = cheapest[one].get(two)
            if known is None or link.cost < known.cost:
                cheapest[one][two] = cheapest[two][one] = link
        highest = max((link.cost for there in cheapest for link in there.values()), default=0)
        # No route passes a site twice.
        is_small = highest * len(vertices) < FARTHEST["i"]
        neighbours, weights, starts = array("i"), array("i" if is_small else "q"), array("i", [0])
        for there in cheapest:
            neighbours.extend(there)
            weights.extend([link.cost for link in there.values()])
            starts.append(len(neighbours))
        return cls(vertices, numbers, tuple(cheapest), neighbours, weights, starts)

    def edges(self, number: int) -> Iterator[tuple[int, int]]:
        """The neighbours of a site, with the cost of the cheapest link to each."""
        begin, end = self.starts[number], self.starts[number + 1]
        return zip(self.neighbours[begin:end], self.weights[begin:end], strict=True)


@attrs.frozen
class _Index:
    """Lookup tables of a topology."""

    sites: Mapping[UUID, Site]
    site_names: Mapping[str, Site]
    site_positions: Mapping[UUID, int]
    queue_managers: Mapping[UUID, QueueManager]
    queue_manager_names: Mapping[str, QueueManager]
    first_routing_servers: Mapping[UUID, tuple[int, UUID]]
    gates: Mapping[UUID, tuple[UUID, ...]]
    graph: Graph

    @classmethod
    def of(
        cls, sites: Iterable[Site], links: Iterable[RoutingLink], queue_managers: Iterable[QueueManager]
    ) -> _Index:
        # Of two with the same identifier the first counts ([MS-MQBR] 3.1.5.4).
        by_identifier: dict[UUID, Site] = {}
        for site in sites:
            by_identifier.setdefault(site.identifier, site)
        machines: dict[UUID, QueueManager] = {}
        for machine in queue_managers:
            machines.setdefault(machine.identifier, machine)
        machine_names: dict[str, QueueManager] = {}
        for machine in machines.values():
            for name in (machine.name, machine.qualified_computer_name):
                machine_names.setdefault(name.casefold(), machine)
        routing_servers: dict[UUID, tuple[int, UUID]] = {}
        for position, machine in enumerate(machines.values()):
            if machine.routing_server:
                for identifier in machine.sites:
                    routing_servers.setdefault(identifier, (position, machine.identifier))
        known = [
            link
            for link in links
            if link.site1 in by_identifier and link.site2 in by_identifier and link.site1 != link.site2
        ]
        links_at: dict[UUID, list[RoutingLink]] = {}
        for link in known:
            links_at.setdefault(link.site1, []).append(link)
            links_at.setdefault(link.site2, []).append(link)
        return cls(
            sites=by_identifier,
            site_names={site.name.casefold(): site for site in reversed(by_identifier.values())},
            site_positions={identifier: position for position, identifier in enumerate(by_identifier)},
            queue_managers=machines,
            queue_manager_names=machine_names,
            first_routing_servers=routing_servers,
            gates=_gates(by_identifier, links_at, machines),
            graph=Graph.of(by_identifier, known),
        )


def _gates(
    sites: Mapping[UUID, Site],
    links: Mapping[UUID, Sequence[RoutingLink]],
    machines: Mapping[UUID, QueueManager],
) -> dict[UUID, tuple[UUID, ...]]:
    found: dict[UUID, tuple[UUID, ...]] = {}
    for site in sites.values():
        identifier = site.identifier
        lists = [link.gates for link in links.get(identifier, ())] if site.gates is None else [site.gates]
        # The links of a site repeat the same few gates.
        listed: set[UUID] = set().union(*lists)
        members = [
            gate
            for gate in listed
            if (machine := machines.get(gate)) is not None
            and machine.routing_server
            and identifier in machine.sites
        ]
        if members:
            found[identifier] = tuple(sorted(members, key=lambda gate: gate.int))
    return found


def _named(text: str, names: Mapping[str, T], find: Callable[[UUID], T | None]) -> T | None:
    try:
        return find(parse_guid(text))
    except ValueError:
        return names.get(text.casefold()) if text else None
