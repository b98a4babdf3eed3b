"""The map of the enterprise: sites, links, queue managers, a route, and what is not reached from here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeVar
from uuid import UUID

import attrs

from msmq.alarm_limits import UNREACHED
from msmq.interfaces.manager.summaries import OutgoingQueueSummary, SessionSummary
from msmq.routing.route import Route
from msmq.routing.topology import QueueManager, RoutingLink, Topology
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


def draw_enterprise(
    topology: Topology, states: PeerStates, own: UUID, route: Route | None, chosen: str
) -> EnterpriseMap:
    """Choose what is on the map; where, the browser computes.

    @param own: the identifier of this queue manager.
    @param route: a route that the map shows.
    @param chosen: the name of the queue manager from which a route is wanted; empty for none.
    """
    path = [] if route is None else [route.source, *(hop.queue_manager for hop in route.hops)]
    first = topology.queue_manager_named(chosen) if chosen else None
    ends = {own, *path, *(() if route is None else (route.destination,))}
    ends |= set() if first is None else {first.identifier}
    missed = {machine.identifier for machine in topology.queue_managers if states.is_missed(machine)}

    def machine_rank(machine: QueueManager) -> int:
        if machine.identifier in ends:
            return 0
        if machine.identifier in missed:
            return 1
        return 2 if machine.routing_server else 3

    machines = _first(topology.queue_managers, machine_rank, QUEUE_MANAGERS)
    on_route = {
        site for machine in topology.queue_managers if machine.identifier in ends for site in machine.sites
    }
    sites = _first(topology.sites, lambda site: site.identifier not in on_route, SITES)
    identifiers = [*(site.identifier for site in sites), *(machine.identifier for machine in machines)]
    nodes = {identifier: node for node, identifier in enumerate(identifiers)}
    return EnterpriseMap(
        [MapSite(nodes[site.identifier], str(site), site.is_foreign) for site in sites],
        _links(topology, nodes, missed),
        [
            MapMachine(
                nodes[machine.identifier],
                str(machine),
                _address(topology, machine),
                [topology.site_name(site) for site in machine.sites],
                machine.routing_server,
                machine.identifier == own,
                machine.identifier in missed,
                machine.identifier in states.connected,
            )
            for machine in machines
        ],
        [
            (nodes[machine.identifier], nodes[site])
            for machine in machines
            for site in machine.sites
            if site in nodes
        ],
        [(nodes[one], nodes[other]) for one, other in pairwise(path) if one in nodes and other in nodes],
        len(topology.sites) + len(topology.queue_managers) - len(sites) - len(machines),
    )


def _links(topology: Topology, nodes: Mapping[UUID, int], missed: set[UUID]) -> list[MapLink]:
    """The links between sites on the map; of parallel ones the cheapest, as in routing."""
    cheapest: dict[frozenset[int], RoutingLink] = {}
    for link in topology.links:
        if link.site1 == link.site2 or link.site1 not in nodes or link.site2 not in nodes:
            continue
        ends = frozenset((nodes[link.site1], nodes[link.site2]))
        if ends not in cheapest or link.cost < cheapest[ends].cost:
            cheapest[ends] = link
    return [
        MapLink(
            nodes[link.site1],
            nodes[link.site2],
            [topology.site_name(link.site1), topology.site_name(link.site2)],
            link.cost,
            any(_is_cut_off(topology, link, site, missed) for site in (link.site1, link.site2)),
        )
        for link in cheapest.values()
    ]


def _is_cut_off(topology: Topology, link: RoutingLink, site: UUID, missed: set[UUID]) -> bool:
    found = [topology.queue_manager(gate) for gate in link.gates]
    gates = [gate for gate in found if gate is not None and site in gate.sites]
    return bool(gates) and all(gate.identifier in missed for gate in gates)


def _first(values: Sequence[_T], rank: Callable[[_T], int], most: int) -> list[_T]:
    """Those with the smallest ranks, in their order."""
    if len(values) <= most:
        return list(values)
    chosen = sorted(range(len(values)), key=lambda index: (rank(values[index]), index))[:most]
    return [values[index] for index in sorted(chosen)]


def _address(topology: Topology, machine: QueueManager) -> str:
    is_named = bool(machine.name) and topology.queue_manager_named(machine.name) is machine
    return machine.name if is_named else format_guid(machine.identifier)
