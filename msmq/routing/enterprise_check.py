"""Consistency checks of an enterprise: the preconditions of routing. [MS-MQBR] 1.5."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from msmq.routing.problems import EnterpriseProblems, ProblemKind
from msmq.routing.topology import QueueManager, RoutingLink, Topology
from msmq.wire.guid import braced

_NAMED: Final = 5
"""Limit on the names listed in one problem."""


def check(topology: Topology, networks: Mapping[UUID, str], problems: EnterpriseProblems) -> None:
    """Report likely mistakes in a well-formed enterprise.

    @param networks: the names of connected networks, by their identifiers.
    """
    _check_names(topology, problems)
    _check_addresses(topology, problems)
    _check_links(topology, problems)
    _check_gates(topology, problems)
    _check_connection(topology, problems)
    _check_queue_managers(topology, problems)
    _check_networks(topology, networks, problems)


def find_cycles(machines: Mapping[UUID, QueueManager], problems: EnterpriseProblems) -> None:
    """Find cycles of in- or out-routing servers, self-references included; each cycle once."""
    servers: tuple[tuple[str, Callable[[QueueManager], tuple[UUID, ...]]], ...] = (
        ("in", lambda machine: machine.in_routing_servers),
        ("out", lambda machine: machine.out_routing_servers),
    )
    for direction, listed in servers:
        for cycle in _cycles({identifier: listed(machine) for identifier, machine in machines.items()}):
            names = [str(machines[identifier]) for identifier in (*cycle, cycle[0])]
            rule = f"is its own {direction}-routing server in the end: {_listed(names, ' - ')}"
            first = machines[cycle[0]]
            problems.add(ProblemKind.CYCLE, f"queue manager {first}", rule, first.where)


def _cycles(graph: Mapping[UUID, Iterable[UUID]]) -> list[list[UUID]]:
    """Find cycles of a graph by depth-first search: one for each back edge."""
    found: list[list[UUID]] = []
    done: set[UUID] = set()
    for start in graph:
        if start in done or not graph[start]:
            continue
        path: dict[UUID, None] = {start: None}
        left = [iter(graph[start])]
        while left:
            following = next(left[-1], None)
            if following is None:
                left.pop()
                done.add(path.popitem()[0])
            elif following in path:
                members = list(path)
                found.append(members[members.index(following) :])
            elif following in graph and following not in done:
                path[following] = None
                left.append(iter(graph[following]))
    return found


def _check_names(topology: Topology, problems: EnterpriseProblems) -> None:
    for what, objects in (("site", topology.sites), ("queue manager", topology.queue_managers)):
        names = Counter(held.name.casefold() for held in objects if held.name)
        for held in objects:
            if names[held.name.casefold()] > 1:
                rule = "has a name that another has too"
                problems.add(ProblemKind.DUPLICATE_NAME, f"{what} {held}", rule, held.where)


def _check_addresses(topology: Topology, problems: EnterpriseProblems) -> None:
    """Report queue managers with the same address: sessions reach the wrong one."""
    addresses: dict[str, QueueManager] = {}
    hosts: dict[str, QueueManager] = {}
    for machine in topology.queue_managers:
        subject = f"queue manager {machine}"
        address = machine.address.casefold()
        other = addresses.setdefault(address, machine)
        if address and other is not machine:
            rule = f"has the address {machine.address} of {other}: messages for one of them wait"
            problems.add(ProblemKind.SAME_ADDRESS, subject, rule, machine.where)
        for name in dict.fromkeys((machine.name.casefold(), machine.qualified_computer_name.casefold())):
            other = hosts.setdefault(name, machine)
            if name and other is not machine and other.name.casefold() != machine.name.casefold():
                rule = f"is known by the name {name} as {other} is: messages for one of them wait"
                problems.add(ProblemKind.SAME_ADDRESS, subject, rule, machine.where)


def _check_links(topology: Topology, problems: EnterpriseProblems) -> None:
    for link in topology.links:
        cheapest = topology.link_between(link.site1, link.site2)
        if cheapest is not None and cheapest is not link:
            rule = f"costs {link.cost}; another that costs {cheapest.cost} counts"
            problems.add(ProblemKind.PARALLEL_LINKS, _name(topology, link), rule, link.where)


def _check_gates(topology: Topology, problems: EnterpriseProblems) -> None:
    if len(topology.sites) > 1:
        for site in topology.sites:
            if not topology.gates(site.identifier):
                rule = "has no site gate, so nothing comes in from other sites or goes out"
                problems.add(ProblemKind.NO_GATE, f"site {site}", rule, site.where)
    for link in topology.links:
        if not link.gates:
            problems.add(ProblemKind.NO_GATE, _name(topology, link), "has no site gates", link.where)
        sides = _sides(topology, link, problems)
        for one in sides[0]:
            for other in sides[1]:
                if _are_apart(one, other):
                    rule = f"its gates {one} and {other} have no connected network in common"
                    problems.add(ProblemKind.NETWORKS, _name(topology, link), rule, link.where)
    for site in topology.sites:
        for gate in site.gates or ():
            machine = topology.queue_manager(gate)
            if machine is None or not machine.routing_server or site.identifier not in machine.sites:
                _report_gate(topology, gate, f"site {site}", site.where, problems, "that site")


def _sides(
    topology: Topology, link: RoutingLink, problems: EnterpriseProblems
) -> tuple[list[QueueManager], list[QueueManager]]:
    """The gates of a link at either end; gates at neither end are reported."""
    sides: tuple[list[QueueManager], list[QueueManager]] = ([], [])
    for gate in link.gates:
        machine = topology.queue_manager(gate)
        is_gate = False
        if machine is not None and machine.routing_server:
            for side, site in zip(sides, (link.site1, link.site2), strict=True):
                if site in machine.sites:
                    side.append(machine)
                    is_gate = True
        if not is_gate:
            _report_gate(topology, gate, _name(topology, link), link.where, problems, "either site")
    return sides


def _report_gate(
    topology: Topology, gate: UUID, subject: str, where: str, problems: EnterpriseProblems, sites: str
) -> None:
    machine = topology.queue_manager(gate)
    if machine is None:
        rule = f"has the gate {braced(gate)}, which there is not"
        problems.add(ProblemKind.UNKNOWN_QUEUE_MANAGER, subject, rule, where)
        return
    what = f"does not belong to {sites}" if machine.routing_server else "is not a routing server"
    problems.add(ProblemKind.NOT_A_GATE, subject, f"has the gate {machine}, which {what}", where)


def _check_connection(topology: Topology, problems: EnterpriseProblems) -> None:
    """Report sites that cannot be reached from every other site."""
    graph = topology.graph
    seen: set[int] = set()
    for start in range(len(graph.vertices)):
        if start in seen:
            continue
        part = {start}
        left = [start]
        while left:
            for there, _ in graph.edges(left.pop()):
                if there not in part:
                    part.add(there)
                    left.append(there)
        if seen:
            names = [topology.site_name(graph.vertices[number]) for number in sorted(part)]
            rule = f"no route between {topology.site_name(graph.vertices[0])} and {_listed(names, ', ')}"
            problems.add(ProblemKind.UNCONNECTED, "the enterprise", rule)
        seen |= part


def _check_queue_managers(topology: Topology, problems: EnterpriseProblems) -> None:
    for machine in topology.queue_managers:
        subject = f"queue manager {machine}"
        if not machine.sites:
            rule = "belongs to no site, so nothing is routed to it"
            problems.add(ProblemKind.NO_SITE, subject, rule, machine.where)
        for direction, servers in (("in", machine.in_routing_servers), ("out", machine.out_routing_servers)):
            for identifier in servers:
                server = topology.queue_manager(identifier)
                if server is not None and not set(server.sites) & set(machine.sites):
                    rule = f"has the {direction}-routing server {server}, which is in another site"
                    problems.add(ProblemKind.OTHER_SITE, subject, rule, machine.where)


def _check_networks(topology: Topology, networks: Mapping[UUID, str], problems: EnterpriseProblems) -> None:
    """Report sites whose routing servers are not on all networks of its queue managers."""
    used: dict[UUID, dict[UUID, None]] = {}
    for machine in topology.queue_managers:
        for site in machine.sites:
            used.setdefault(site, {}).update(dict.fromkeys(machine.connected_networks))
    for machine in topology.queue_managers:
        if not machine.routing_server:
            continue
        for site in machine.sites:
            missing = [network for network in used[site] if network not in machine.connected_networks]
            if missing:
                names = _listed([networks.get(network, braced(network)) for network in missing], ", ")
                rule = f"is a routing server of {topology.site_name(site)}, but not on its network {names}"
                problems.add(ProblemKind.NETWORKS, f"queue manager {machine}", rule, machine.where)


def _are_apart(one: QueueManager, other: QueueManager) -> bool:
    """Whether both list connected networks and share none."""
    if one is other or not one.connected_networks or not other.connected_networks:
        return False
    return not set(one.connected_networks) & set(other.connected_networks)


def _name(topology: Topology, link: RoutingLink) -> str:
    return f"link {topology.site_name(link.site1)} - {topology.site_name(link.site2)}"


def _listed(names: list[str], between: str) -> str:
    if len(names) > 2 * _NAMED:
        names = [*names[:_NAMED], f"{len(names) - 2 * _NAMED} more", *names[-_NAMED:]]
    return between.join(names)
