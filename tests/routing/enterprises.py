"""Any enterprise, for hypothesis."""

from __future__ import annotations

from uuid import UUID

import attrs
from hypothesis import strategies as st

from msmq.routing.topology import QueueManager, RoutingLink, Site
from msmq.routing.topology_builder import TopologyBuilder


@attrs.frozen
class Plan:
    """The contents of a directory, in order."""

    sites: tuple[Site, ...]
    links: tuple[RoutingLink, ...]
    queue_managers: tuple[QueueManager, ...]

    def builder(self) -> TopologyBuilder:
        """It, read."""
        builder = TopologyBuilder()
        for site in self.sites:
            builder.add_site(site.identifier, site.name, gates=site.gates)
        for link in self.links:
            builder.add_link(link.site1, link.site2, link.cost, link.gates)
        for machine in self.queue_managers:
            builder.add_queue_manager(
                machine.identifier,
                machine.name,
                sites=machine.sites,
                routing_server=machine.routing_server,
                in_routing_servers=machine.in_routing_servers,
                out_routing_servers=machine.out_routing_servers,
            )
        return builder


def _identifiers(draw: st.DrawFn, count: int, prefix: int) -> list[UUID]:
    """In any order, so that the smallest is not the first."""
    numbers = draw(st.permutations(range(1, count + 1)))
    return [UUID(int=prefix << 64 | number) for number in numbers]


@st.composite
def links(draw: st.DrawFn, sites: list[UUID], *, is_connected: bool) -> list[tuple[UUID, UUID, int]]:
    """Links between sites, with few different costs, so that many routes cost the same."""
    costs = st.one_of(st.integers(1, 3), st.integers(1, 10), st.sampled_from((1, 999_999)))
    drawn: list[tuple[UUID, UUID, int]] = []
    if is_connected:
        for number in range(1, len(sites)):
            other = sites[draw(st.integers(0, number - 1))]
            drawn.append((sites[number], other, draw(costs)))
    if len(sites) > 1:
        pairs = st.lists(st.sampled_from(sites), min_size=2, max_size=2, unique=True)
        for one, two in draw(st.lists(pairs, max_size=2 * len(sites))):
            drawn.append((one, two, draw(costs)))
    return drawn


@st.composite
def well_kept(draw: st.DrawFn, *, one_site: bool = False) -> Plan:
    """An enterprise as [MS-MQBR] 1.5 wants it: every site can be reached, and has gates.

    In- and out-routing servers are routing servers of the same site.
    Some queue managers belong to several sites, unless C{one_site}.
    """
    identifiers = _identifiers(draw, draw(st.integers(1, 6)), 0xA)
    drawn = draw(links(identifiers, is_connected=True))
    kinds = [draw(st.sampled_from(("gate", "router", "client"))) for _ in range(draw(st.integers(0, 8)))]
    kinds = ["gate"] * len(identifiers) + kinds
    numbers = _identifiers(draw, len(kinds), 0xB)
    machines: list[QueueManager] = []
    for position, (kind, number) in enumerate(zip(kinds, numbers, strict=True)):
        home = identifiers[position] if position < len(identifiers) else draw(st.sampled_from(identifiers))
        own = [home]
        if not one_site and draw(st.integers(0, 4)) == 0:
            own += draw(st.lists(st.sampled_from(identifiers), max_size=2))
        machines.append(
            QueueManager(number, f"{kind}{position}", tuple(dict.fromkeys(own)), kind != "client")
        )
    gates = {
        machine.identifier: machine.sites
        for machine, kind in zip(machines, kinds, strict=True)
        if kind == "gate"
    }
    made = []
    for one, two, cost in drawn:
        at_ends = [gate for gate, own in gates.items() if one in own or two in own]
        made.append(RoutingLink(one, two, cost, tuple(draw(st.permutations(at_ends)))))
    servers = [machine for machine in machines if machine.routing_server]
    for position, machine in enumerate(machines):
        near = [server.identifier for server in servers if set(server.sites) & set(machine.sites)]
        # One comes after the other, so that none is its own in the end.
        near = [server for server in near if server < machine.identifier or not machine.routing_server]
        near = [server for server in near if server != machine.identifier]
        if near:
            some: st.SearchStrategy[list[UUID]] = st.one_of(
                st.just([]), st.lists(st.sampled_from(near), max_size=2, unique=True)
            )
            machines[position] = attrs.evolve(
                machine,
                in_routing_servers=tuple(draw(some)),
                out_routing_servers=tuple(draw(some)) if not machine.routing_server else (),
            )
    sites = tuple(Site(identifier, f"site{identifier.int & 0xFF}") for identifier in identifiers)
    return Plan(sites, tuple(made), tuple(draw(st.permutations(machines))))


@st.composite
def neglected(draw: st.DrawFn) -> Plan:
    """Any contents of a directory, with unreachable sites, invalid gates and other faults."""
    identifiers = _identifiers(draw, draw(st.integers(0, 5)), 0xA)
    known = st.sampled_from([*identifiers, UUID(int=0xA << 64 | 99)])
    numbers = _identifiers(draw, draw(st.integers(0, 7)), 0xB)
    machine = st.sampled_from([*numbers, UUID(int=0xB << 64 | 99)])
    several = st.lists(machine, max_size=3)
    made = [
        RoutingLink(
            draw(known),
            draw(known),
            draw(st.sampled_from((-1, 0, 1, 2, 5, 999_999, 1_000_000))),
            tuple(draw(several)),
        )
        for _ in range(draw(st.integers(0, 10)))
    ]
    machines = [
        QueueManager(
            number,
            f"m{number.int & 0xFF}",
            tuple(dict.fromkeys(draw(st.lists(known, max_size=3)))),
            draw(st.booleans()),
            tuple(draw(st.one_of(st.just([]), several))),
            tuple(draw(st.one_of(st.just([]), several))),
        )
        for number in numbers
    ]
    duplicates = draw(st.lists(st.sampled_from(machines), max_size=2)) if machines else []
    sites = [Site(identifier, f"site{identifier.int & 0xFF}") for identifier in identifiers]
    return Plan(tuple(sites), tuple(made), (*machines, *duplicates))
