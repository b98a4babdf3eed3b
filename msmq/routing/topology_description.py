"""Routes and topologies as plain values, for JSON, tables and Graphviz."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from msmq.routing.next_hops import NoRoute, Rule, reason_text
from msmq.routing.route import Route, route
from msmq.routing.topology import QueueManager, RoutingLink, Site, Topology
from msmq.structures.names.format_name import ConnectorFormatName
from msmq.wire.guid import format_guid


def find_route(topology: Topology, source: str, destination: str, down: Iterable[str] = ()) -> Route:
    """Find the route between two named queue managers.

    @param source: a name, a qualified name or a GUID; so is C{destination}.
    @param down: names of queue managers that are down.
    @raise NoRoute: one of them is not known.
    """
    return route(topology, *find_ends(topology, source, destination), find_members(topology, down))


def find_ends(topology: Topology, source: str, destination: str) -> tuple[UUID, UUID]:
    """Look up both queue managers of L{find_route}."""
    return (
        _found(topology, source, Rule.UNKNOWN_SOURCE).identifier,
        _found(topology, destination, Rule.UNKNOWN_DESTINATION).identifier,
    )


def find_members(topology: Topology, names: Iterable[str]) -> frozenset[UUID]:
    """Look up queue managers by name, qualified name or GUID.

    @raise NoRoute: one of them is not known.
    """
    return frozenset(_found(topology, name, Rule.UNKNOWN_DESTINATION).identifier for name in names)


def _found(topology: Topology, text: str, rule: Rule) -> QueueManager:
    found = topology.queue_manager_named(text)
    if found is None:
        raise NoRoute(rule, f"no queue manager {text} is known to routing")
    return found


def describe_route(topology: Topology, path: Route) -> dict[str, Any]:
    """Describe a route, with the JSON keys of C{msmq route}."""
    return {
        "source": topology.queue_manager_name(path.source),
        "destination": topology.queue_manager_name(path.destination),
        "cost": path.cost,
        "problem": path.problem,
        "waits_at": "" if path.waits_at is None else topology.queue_manager_name(path.waits_at),
        "connector_queue": "" if path.connector is None else str(ConnectorFormatName(path.connector)),
        "hops": [
            {
                "name": hop.name,
                "identifier": format_guid(hop.queue_manager),
                "site": hop.site_name,
                "cost": hop.cost,
                "total": hop.total,
                "rule": reason_text(hop.rule),
                "reason": hop.reason,
                "others": [topology.queue_manager_name(other) for other in hop.others],
            }
            for hop in path.hops
        ],
    }


def describe_site(topology: Topology, site: Site) -> dict[str, Any]:
    """Describe a site, with its site gates."""
    return {
        "name": str(site),
        "identifier": format_guid(site.identifier),
        "foreign": site.is_foreign,
        "gates": [topology.queue_manager_name(gate) for gate in topology.gates(site.identifier)],
    }


def describe_link(topology: Topology, link: RoutingLink) -> dict[str, Any]:
    """Describe a link between two sites."""
    return {
        "sites": [topology.site_name(link.site1), topology.site_name(link.site2)],
        "cost": link.cost,
        "gates": [topology.queue_manager_name(gate) for gate in link.gates],
    }


def describe_queue_manager(topology: Topology, machine: QueueManager) -> dict[str, Any]:
    """Describe a queue manager, with the names of its sites and routing servers."""
    name = topology.queue_manager_name
    return {
        "name": str(machine),
        "identifier": format_guid(machine.identifier),
        "dns_name": machine.qualified_computer_name,
        "address": machine.address,
        "sites": [topology.site_name(site) for site in machine.sites],
        "routing_server": machine.routing_server,
        "in_routing_servers": [name(server) for server in machine.in_routing_servers],
        "out_routing_servers": [name(server) for server in machine.out_routing_servers],
    }


def describe_parts(topology: Topology) -> Mapping[str, Iterator[dict[str, Any]]]:
    """Describe an enterprise, with the JSON keys of C{msmq topology}, object by object as they are taken."""
    return {
        "sites": (describe_site(topology, site) for site in topology.sites),
        "links": (describe_link(topology, link) for link in topology.links),
        "queue_managers": (describe_queue_manager(topology, each) for each in topology.queue_managers),
    }


def describe_topology(topology: Topology) -> dict[str, Any]:
    """Describe an enterprise at once."""
    return {name: list(part) for name, part in describe_parts(topology).items()}


def to_graphviz(described: Mapping[str, Any]) -> str:
    """Convert a topology description to Graphviz: sites, queue managers, links with costs.

    A queue manager is drawn in the first of its sites, a routing server with a double line.
    """
    lines = ["graph enterprise {", "  compound=true; node [shape=box];"]
    for number, site in enumerate(described["sites"]):
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f"    label={_quoted(site['name'])};")
        lines.append(f"    {_quoted('site ' + site['name'])} [shape=point, style=invis];")
        for machine in described["queue_managers"]:
            if site["name"] in machine["sites"][:1]:
                shape = ", peripheries=2" if machine["routing_server"] else ""
                lines.append(f"    {_quoted(machine['name'])} [label={_quoted(machine['name'])}{shape}];")
        lines.append("  }")
    clusters = {site["name"]: f"cluster_{number}" for number, site in enumerate(described["sites"])}
    for link in described["links"]:
        one, two = link["sites"]
        ends = f"{_quoted('site ' + one)} -- {_quoted('site ' + two)}"
        gates = f" via {', '.join(link['gates'])}" if link["gates"] else ""
        lines.append(
            f"  {ends} [label={_quoted(str(link['cost']) + gates)},"
            f" ltail={clusters.get(one, one)}, lhead={clusters.get(two, two)}];"
        )
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
