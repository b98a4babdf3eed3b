"""Next-hop selection within a site and between sites. [MS-MQBR] 3.1.5 GetNextHops, 1.3.1 to 1.3.3.

L{decide} is the algorithm, the only event of the protocol (3.1.4); it ignores priorities (3.1).
The decision names the rule that was applied, so that a route can be explained.

[MS-MQBR] 1.3 and 1.3.2: a message is routed if its source and its destination share no site, if the source
has out-routing servers, or if the destination has in-routing servers.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import attrs

from msmq.routing.table import RoutingTable, TableRow, is_site_gate, routing_table
from msmq.routing.topology import QueueManager, Topology
from msmq.structures.status import MQError, Status
from msmq.wire.guid import braced

__all__ = [
    "Decision",
    "NoRoute",
    "Rule",
    "decide",
    "get_routing_server",
    "get_site_gate",
    "get_site_gate_for_site",
    "is_site_gate",
    "next_hops",
]


class Rule(enum.Enum):
    """Routing rule of a decision; the value is its section of [MS-MQBR].

    L{ALTERNATE} is not a rule of [MS-MQBR]: the next hop is down, and L{msmq.routing.alternates} chose
    another.
    """

    OUT_ROUTING_SERVERS = "3.1.5.1 out-routing servers"
    SAME_SITE = "3.1.5.1 same site"
    IN_ROUTING_SERVERS = "3.1.5.1 in-routing servers"
    ROUTING_SERVER_OF_SITE = "3.1.5.5 routing server of the site"
    FROM_IN_ROUTING_SERVER = "3.1.5.2 from an in-routing server"
    SITE_GATE_OF_SITE = "3.1.5.6 site gate of the site"
    ROUTING_TABLE = "3.1.5.3 routing table"
    ALTERNATE = "RFC 5286 downstream path"

    UNKNOWN_SOURCE = "3.1.5.4 the source is not known"
    UNKNOWN_DESTINATION = "3.1.5.4 the destination is not known"
    NO_ROUTING_SERVER = "3.1.5.5 no routing server in the site"
    NO_SITE_GATE = "3.1.5.6 no site gate in the site"
    NO_ROW = "3.1.5.3 no row in the routing table"
    NO_GATE_OF_NEXT_SITE = "3.1.5.7 no site gate in the next site"


UNKNOWN: Final = frozenset({Rule.UNKNOWN_SOURCE, Rule.UNKNOWN_DESTINATION})


class NoRoute(MQError):
    """No route to the destination. [MS-MQBR] 3.1.5.1.

    MQ_ERROR_MACHINE_NOT_FOUND if source or destination is unknown, MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE if
    no route connects them.

    @ivar reason: the rule that failed, or the reason given by a router of another kind.
    """

    def __init__(self, reason: object, detail: str = "") -> None:
        """Create the error.

        @param reason: a L{Rule} of [MS-MQBR], or an object of any other type; a text in most routers.
        @param detail: the text of the error; by default C{reason} as text.
        """
        unknown = isinstance(reason, Rule) and reason in UNKNOWN
        super().__init__(
            Status.MQ_ERROR_MACHINE_NOT_FOUND if unknown else Status.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE,
            detail or reason_text(reason),
        )
        self.reason = reason


def reason_text(reason: object) -> str:
    """The reason of a hop, or of a missing route, as text: the value of an enumeration, else C{str} of it."""
    return str(reason.value if isinstance(reason, enum.Enum) else reason)


@attrs.frozen
class Decision:
    """Routing decision of one queue manager for a destination.

    @ivar hops: NextHops, the candidates in order of preference; empty if there is no route.
    @ivar rule: the rule that was applied.
    @ivar row: the row of the routing table that was used.
    @ivar site: the site that the rule used: the common site, or the site of the routing server or gate.
    """

    hops: tuple[UUID, ...]
    rule: Rule
    row: TableRow | None = None
    site: UUID | None = None


def next_hops(
    topology: Topology, own: UUID, destination: UUID, table: RoutingTable | None = None
) -> tuple[UUID, ...]:
    """GetNextHops: the next hops of a message, in order of preference. [MS-MQBR] 3.1.5.1.

    Not to be called for messages to C{own} itself.

    @param own: QueueManager.Identifier of the queue manager that has the message.
    @param destination: the same of the destination.
    @param table: the routing table of C{own}; computed on demand if not given.
    @raise NoRoute: there is no next hop.
    """
    decision = decide(topology, own, destination, table)
    if not decision.hops:
        raise NoRoute(decision.rule, explain_failure(topology, own, destination, decision))
    return decision.hops


def decide(topology: Topology, own: UUID, destination: UUID, table: RoutingTable | None = None) -> Decision:
    """Decide the next hops, with the rule that was applied; raises nothing. [MS-MQBR] 3.1.5.1.

    @param table: as of L{next_hops}.
    """
    source = topology.queue_manager(own)
    target = topology.queue_manager(destination)
    if source is None:
        return Decision((), Rule.UNKNOWN_SOURCE)
    if target is None:
        return Decision((), Rule.UNKNOWN_DESTINATION)
    if source.routing_server:
        return _from_routing_server(topology, source, target, table)
    if source.out_routing_servers:
        return Decision(source.out_routing_servers, Rule.OUT_ROUTING_SERVERS)
    common = _common_site(source, target)
    if common is not None:
        return _within_site(target, common)
    router = get_routing_server(topology, own)
    if router is None:
        return Decision((), Rule.NO_ROUTING_SERVER)
    return Decision((router,), Rule.ROUTING_SERVER_OF_SITE)


def _from_routing_server(
    topology: Topology, source: QueueManager, target: QueueManager, table: RoutingTable | None
) -> Decision:
    """GetNextHopsForRouter and GetNextHopsForSiteGate. [MS-MQBR] 3.1.5.2 and 3.1.5.3.

    They differ only for messages to another site.
    """
    if source.identifier in target.in_routing_servers:
        return Decision((target.identifier,), Rule.FROM_IN_ROUTING_SERVER)
    common = _common_site(source, target)
    if common is not None:
        return _within_site(target, common)
    if is_site_gate(topology, source.identifier):
        return _from_site_gate(
            topology, target, routing_table(topology, source.identifier) if table is None else table
        )
    site = topology.first_site(source.sites)
    gate = get_site_gate(topology, source.identifier)
    if gate is None:
        return Decision((), Rule.NO_SITE_GATE, site=site)
    return Decision((gate,), Rule.SITE_GATE_OF_SITE, site=site)


def _from_site_gate(topology: Topology, target: QueueManager, table: RoutingTable) -> Decision:
    row = table.best(target.sites)
    if row is None:
        return Decision((), Rule.NO_ROW)
    gate = get_site_gate_for_site(topology, row.next_hop_site_id, table.own_sites)
    if gate is None:
        return Decision((), Rule.NO_GATE_OF_NEXT_SITE, row, row.next_hop_site_id)
    return Decision((gate,), Rule.ROUTING_TABLE, row, row.next_hop_site_id)


def _within_site(target: QueueManager, site: UUID) -> Decision:
    if target.in_routing_servers:
        return Decision(target.in_routing_servers, Rule.IN_ROUTING_SERVERS, site=site)
    return Decision((target.identifier,), Rule.SAME_SITE, site=site)


def _common_site(source: QueueManager, target: QueueManager) -> UUID | None:
    for site in source.sites:
        if site in target.sites:
            return site
    return None


def get_routing_server(topology: Topology, identifier: UUID) -> UUID | None:
    """GetRoutingServer: the first in directory order that shares a site with this one. [MS-MQBR] 3.1.5.5."""
    machine = topology.queue_manager(identifier)
    return None if machine is None else topology.first_routing_server(machine.sites)


def get_site_gate(topology: Topology, identifier: UUID) -> UUID | None:
    """GetSiteGate: a gate of the first of the queue manager's sites. [MS-MQBR] 3.1.5.6.

    Only the first site in directory order is used, even if it has no gate.
    """
    machine = topology.queue_manager(identifier)
    site = None if machine is None else topology.first_site(machine.sites)
    return None if site is None else get_site_gate_for_site(topology, site)


def get_site_gate_for_site(topology: Topology, site: UUID, sources: Sequence[UUID] = ()) -> UUID | None:
    """GetSiteGateForSite: a gate of this site. [MS-MQBR] 3.1.5.7.

    The document allows any.
    Here a gate that serves the incoming link is preferred; then the smallest identifier.

    @param sources: the sites from which the message may come; the cheapest link from them counts.
    """
    gates = topology.gates(site)
    if len(gates) <= 1:
        return gates[0] if gates else None
    links = [link for source in sources if (link := topology.link_between(source, site)) is not None]
    link = min(links, key=lambda link: link.cost, default=None)
    if link is not None:
        serving = [gate for gate in gates if gate in link.gates]
        if serving:
            return serving[0]
    return gates[0]


def explain_failure(topology: Topology, own: UUID, destination: UUID, decision: Decision) -> str:
    """Why there is no next hop, for error texts and the log."""
    source, target = topology.queue_manager_name(own), topology.queue_manager_name(destination)
    match decision.rule:
        case Rule.UNKNOWN_SOURCE:
            return f"no queue manager {braced(own)} is known to routing"
        case Rule.UNKNOWN_DESTINATION:
            return f"no queue manager {braced(destination)} is known to routing"
        case Rule.NO_ROUTING_SERVER:
            why = "shares no site with it, and there is no routing server in its own"
        case Rule.NO_SITE_GATE if decision.site is not None:
            why = f"shares no site with it, and {topology.site_name(decision.site)} has no site gate"
        case Rule.NO_ROW:
            why = "has no route to it in its routing table: " + _sites(topology, destination)
        case Rule.NO_GATE_OF_NEXT_SITE if decision.site is not None:
            why = f"would go on to the site {topology.site_name(decision.site)}, which has no site gate"
        case _:
            why = "belongs to no site"
    return f"{source} cannot send to {target}: it {why}"


def _sites(topology: Topology, destination: UUID) -> str:
    machine = topology.queue_manager(destination)
    names = [] if machine is None else [topology.site_name(site) for site in machine.sites]
    if not names:
        return "it belongs to no site"
    return f"no links lead to {' or '.join(names)}"
