"""The map of the enterprise: sites, links, queue managers, a route, and what is not reached from here."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Final, Generic, TypeVar
from uuid import UUID

import attrs

from msmq.alarm_limits import UNREACHED
from msmq.interfaces.manager.summaries import OutgoingQueueSummary, SessionSummary
from msmq.routing.route import Route
from msmq.routing.topology import QueueManager, RoutingLink, Site, Topology
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError
from msmq.wire.guid import format_guid

SITES: Final = 60
"""Sites on the map."""

QUEUE_MANAGERS: Final = 120
"""Queue managers on the map."""

_T = TypeVar("_T")


@attrs.frozen
class MapSite:
    """A site on the map.

    @ivar node: the number of its node; so in the others.
    """

    node: int
    name: str
    is_foreign: bool


@attrs.frozen
class MapLink:
    """A link on the map, between two nodes.

    @ivar is_down: no site gate of one of its ends is reached.
    """

    one: int
    other: int
    sites: Sequence[str]
    cost: int
    is_down: bool


@attrs.frozen
class MapMachine:
    """A queue manager on the map.

    @ivar address: a name that the page takes for it: its own, or its GUID if another one has that too.
    @ivar is_connected: a session with it is open.
    """

    node: int
    name: str
    address: str
    sites: Sequence[str]
    is_routing_server: bool
    is_own: bool
    is_down: bool
    is_connected: bool


@attrs.frozen
class EnterpriseMap:
    """What the page draws.

    @ivar memberships: nodes of queue managers with those of their sites.
    @ivar steps: consecutive nodes of the route.
    @ivar hidden: sites and queue managers that are not on it, since there are too many.
    """

    sites: Sequence[MapSite]
    links: Sequence[MapLink]
    machines: Sequence[MapMachine]
    memberships: Sequence[tuple[int, int]]
    steps: Sequence[tuple[int, int]]
    hidden: int


@attrs.define
class PeerStates:
    """Which other queue managers are reached.

    @ivar unreached: identifiers of the queue managers that were not reached when they were last tried.
    @ivar missed_hosts: names and addresses of the hosts for which messages wait.
    @ivar connected: identifiers of the queue managers that have a session.
    """

    unreached: Collection[UUID]
    missed_hosts: set[str] = attrs.field(factory=set)
    connected: set[UUID] = attrs.field(factory=set)

    def add_outgoing(self, queue: OutgoingQueueSummary) -> None:
        """Look at an outgoing queue."""
        if not queue.messages or queue.state not in UNREACHED:
            return
        self.missed_hosts.update(hop.casefold() for hop in queue.next_hops)
        try:
            name = parse_format_name(queue.format_name)
        except MQError:
            # A multicast queue of several names, for example.
            return
        if isinstance(name, DirectFormatName):
            self.missed_hosts.add((queue.redirected_to or name.address).casefold())

    def add_session(self, session: SessionSummary) -> None:
        """Look at a session."""
        if session.remote_identifier is not None:
            self.connected.add(session.remote_identifier)

    def is_missed(self, machine: QueueManager) -> bool:
        """Whether it could not be reached, and no session is open."""
        if machine.identifier in self.connected:
            return False
        hosts = {machine.name.casefold(), machine.qualified_computer_name.casefold(), machine.address} - {""}
        return machine.identifier in self.unreached or not hosts.isdisjoint(self.missed_hosts)


class EnterpriseDrawing:
    """Chooses what is on the map; where, the browser computes.

    An enterprise may have tens of thousands of queue managers: the caller takes L{steps} one by one, and
    pauses in between.

    @param own: the identifier of this queue manager.
    @param route: a route that the map shows.
    @param chosen: the name of the queue manager from which a route is wanted; empty for none.
    """

    def __init__(
        self, topology: Topology, states: PeerStates, own: UUID, route: Route | None, chosen: str
    ) -> None:
        self._topology = topology
        self._states = states
        self._own = own
        self._path = [] if route is None else [route.source, *(hop.queue_manager for hop in route.hops)]
        first = topology.queue_manager_named(chosen) if chosen else None
        self._ends = {own, *self._path, *(() if route is None else (route.destination,))}
        self._ends |= set() if first is None else {first.identifier}
        self._missed: set[UUID] = set()
        self._machines: _First[QueueManager] = _First(QUEUE_MANAGERS)
        self._sites: _First[Site] = _First(SITES)
        # Of parallel links the cheapest, as in routing; by the nodes of their ends.
        self._links: dict[frozenset[int], RoutingLink] = {}
        self._nodes: dict[UUID, int] = {}

    def steps(self) -> Iterator[None]:
        """Look at each queue manager, site and link."""
        for machine in self._topology.queue_managers:
            if self._states.is_missed(machine):
                self._missed.add(machine.identifier)
            self._machines.add(self._rank(machine), machine)
            yield
        on_route = {
            site
            for identifier in self._ends
            if (end := self._topology.queue_manager(identifier)) is not None
            for site in end.sites
        }
        for site in self._topology.sites:
            self._sites.add(site.identifier not in on_route, site)
            yield
        drawn = [
            *(site.identifier for site in self._sites.chosen),
            *(machine.identifier for machine in self._machines.chosen),
        ]
        self._nodes = {identifier: node for node, identifier in enumerate(drawn)}
        for link in self._topology.links:
            self._add_link(link)
            yield

    def _rank(self, machine: QueueManager) -> int:
        if machine.identifier in self._ends:
            return 0
        if machine.identifier in self._missed:
            return 1
        return 2 if machine.routing_server else 3

    def _add_link(self, link: RoutingLink) -> None:
        one, other = self._nodes.get(link.site1), self._nodes.get(link.site2)
        if one is None or other is None or one == other:
            return
        ends = frozenset((one, other))
        if ends not in self._links or link.cost < self._links[ends].cost:
            self._links[ends] = link

    def drawn(self) -> EnterpriseMap:
        """What is on the map, after all steps."""
        topology, nodes = self._topology, self._nodes
        sites, machines = self._sites.chosen, self._machines.chosen
        return EnterpriseMap(
            [MapSite(nodes[site.identifier], str(site), site.is_foreign) for site in sites],
            [self._map_link(link) for link in self._links.values()],
            [self._map_machine(machine) for machine in machines],
            [
                (nodes[machine.identifier], nodes[site])
                for machine in machines
                for site in machine.sites
                if site in nodes
            ],
            [
                (nodes[one], nodes[other])
                for one, other in pairwise(self._path)
                if one in nodes and other in nodes
            ],
            len(topology.sites) + len(topology.queue_managers) - len(sites) - len(machines),
        )

    def _map_link(self, link: RoutingLink) -> MapLink:
        ends = (link.site1, link.site2)
        return MapLink(
            self._nodes[link.site1],
            self._nodes[link.site2],
            [self._topology.site_name(site) for site in ends],
            link.cost,
            any(self._is_cut_off(link, site) for site in ends),
        )

    def _is_cut_off(self, link: RoutingLink, site: UUID) -> bool:
        found = [self._topology.queue_manager(gate) for gate in link.gates]
        gates = [gate for gate in found if gate is not None and site in gate.sites]
        return bool(gates) and all(gate.identifier in self._missed for gate in gates)

    def _map_machine(self, machine: QueueManager) -> MapMachine:
        is_named = bool(machine.name) and self._topology.queue_manager_named(machine.name) is machine
        return MapMachine(
            self._nodes[machine.identifier],
            str(machine),
            machine.name if is_named else format_guid(machine.identifier),
            [self._topology.site_name(site) for site in machine.sites],
            machine.routing_server,
            machine.identifier == self._own,
            machine.identifier in self._missed,
            machine.identifier in self._states.connected,
        )


class _First(Generic[_T]):
    """The values with the smallest ranks, the first of equal ones, in the order in which they were added."""

    def __init__(self, most: int) -> None:
        self._most = most
        # The worst of those that are kept is at the top.
        self._kept: list[tuple[int, int, _T]] = []
        self._number = 0

    def add(self, rank: int, value: _T) -> None:
        self._number -= 1
        entry = (-rank, self._number, value)
        if len(self._kept) < self._most:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    @property
    def chosen(self) -> list[_T]:
        return [value for _, _, value in sorted(self._kept, key=lambda entry: -entry[1])]
