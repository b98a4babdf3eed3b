"""Route of a message from one queue manager to another, hop by hop, with the reason of each hop."""

from __future__ import annotations

from collections.abc import Set
from typing import Final
from uuid import UUID

import attrs

from msmq.routing.alternates import Alternates
from msmq.routing.explanation import explain_alternate, explain_waiting
from msmq.routing.foreign_sites import served_site
from msmq.routing.next_hops import Decision, Rule, explain_failure
from msmq.routing.route_search import RowSearch
from msmq.routing.table import RoutingTable, TableRow, routing_table
from msmq.routing.topology import Topology
from msmq.structures.packet.user_header import MAXIMUM_HOP_COUNT

_LONGEST_PATH_SHOWN: Final = 12
"""Limit on the named sites of a route; the middle of a longer route is omitted."""


@attrs.frozen
class RouteHop:
    """One step of a L{Route}.

    @ivar queue_manager: the next hop.
    @ivar name: its name, or its identifier in braces if it has none.
    @ivar site: the site in which it receives the message; C{None} if it belongs to none.
    @ivar site_name: the name of that site; empty if there is none.
    @ivar cost: cost of this step: that of its link, 0 within a site.
    @ivar total: the cost of the route up to here.
    @ivar rule: the rule of [MS-MQBR] that chose it, or the reason of another router, of any type.
    @ivar reason: that as readable text, with the names of this enterprise.
    @ivar others: the next candidates, tried if it cannot be reached.
    """

    queue_manager: UUID
    name: str
    site: UUID | None
    site_name: str
    cost: int
    total: int
    rule: object
    reason: str
    others: tuple[UUID, ...] = ()


@attrs.frozen
class Route:
    """Route of a message, if each queue manager reaches its first candidate.

    @ivar source: the queue manager that has the message.
    @ivar destination: the destination queue manager.
    @ivar hops: the steps, the last of which leads to the destination if C{problem} is empty; empty for a
        message to the source itself, which is not routed.
    @ivar problem: why the message does not arrive, as readable text; empty if it does.
    @ivar waits_at: the queue manager at which the message waits for one that is down; else C{None}.
    @ivar connector: the foreign site of the destination, if the last queue manager stores the message in a
        connector queue of that site instead of sending it on; C{None} otherwise.
    """

    source: UUID
    destination: UUID
    hops: tuple[RouteHop, ...] = ()
    problem: str = ""
    waits_at: UUID | None = None
    connector: UUID | None = None

    @property
    def arrives(self) -> bool:
        """Whether the route leads to the destination, or to the connector queue of a foreign site."""
        return not self.problem

    @property
    def cost(self) -> int:
        """The sum of the costs of all links on the route."""
        return self.hops[-1].total if self.hops else 0


def route(topology: Topology, source: UUID, destination: UUID, down: Set[UUID] = frozenset()) -> Route:
    """Trace the route of a message: each queue manager decides with its own table. [MS-MQBR] 3.1.5.1.

    The route ends at the destination, without a next hop, before a loop, at the maximum number of hops
    ([MS-MQMQ] 2.2.19.2 RC), or where the message waits for a queue manager that is down.
    It raises no error.

    @param down: queue managers that are down; each queue manager on the route detects this only by trying to
        reach them.
    """
    hops: list[RouteHop] = []
    here, site, total = source, None, 0
    visited = {source}
    alternates = Alternates(topology)
    search = RowSearch(topology)
    waits_at = connector = None
    problem = _unknown(topology, source, destination)
    if not problem and source in down:
        problem = f"{topology.queue_manager_name(source)}, which has the message, is down"
    while not problem and here != destination:
        connector = served_site(topology, here, destination)
        if connector is not None:
            break
        table = _table(topology, here, destination, down, search)
        decision, missed = _decide(alternates, here, destination, down, table)
        if not decision.hops:
            problem = explain_failure(topology, here, destination, decision)
            break
        if decision.hops[0] in down:
            waits_at = here
            problem = explain_waiting(alternates, here, destination, decision, missed)
            break
        next_one, *others = decision.hops
        site = _site_of(topology, here, next_one, site, decision)
        cost = _cost(topology, here, decision, table)
        total += cost
        name = topology.queue_manager_name(next_one)
        hops.append(
            RouteHop(
                next_one,
                name,
                site,
                "" if site is None else topology.site_name(site),
                cost,
                total,
                decision.rule,
                _reason(alternates, here, destination, decision, table),
                tuple(others),
            )
        )
        if topology.queue_manager(next_one) is None:
            problem = f"{name}, to which the message goes next, is not known to routing"
        elif next_one in visited:
            problem = f"the message comes back to {name}, which had it before"
        elif len(hops) > MAXIMUM_HOP_COUNT and next_one != destination:
            problem = f"the message would pass more than {MAXIMUM_HOP_COUNT} queue managers"
        visited.add(next_one)
        here = next_one
    return Route(source, destination, tuple(hops), problem, waits_at, connector)


def _decide(
    alternates: Alternates, here: UUID, destination: UUID, down: Set[UUID], table: RoutingTable | None
) -> tuple[Decision, frozenset[UUID]]:
    """Decide after all attempts of a queue manager; also returns its unreachable next hops."""
    missed: frozenset[UUID] = frozenset()
    while True:
        decision = alternates.decide(here, destination, missed, table)
        found = {hop for hop in decision.hops if hop in down} - missed
        if not decision.hops or decision.hops[0] not in down or not found:
            return decision, missed
        missed |= found


def _unknown(topology: Topology, source: UUID, destination: UUID) -> str:
    for identifier in (source, destination):
        if topology.queue_manager(identifier) is None:
            rule = Rule.UNKNOWN_SOURCE if identifier == source else Rule.UNKNOWN_DESTINATION
            return explain_failure(topology, source, destination, Decision((), rule))
    return ""


def _table(
    topology: Topology, here: UUID, destination: UUID, down: Set[UUID], search: RowSearch
) -> RoutingTable | None:
    """The routing table of this queue manager, if it uses one; only the needed rows if nothing is down."""
    own, target = topology.queue_manager(here), topology.queue_manager(destination)
    if own is None or target is None or set(own.sites) & set(target.sites):
        return None
    return routing_table(topology, here) if down else search.table(here, target.sites)


def _site_of(
    topology: Topology, here: UUID, next_one: UUID, before: UUID | None, decision: Decision
) -> UUID | None:
    """The site in which the next queue manager receives the message."""
    machine = topology.queue_manager(next_one)
    if machine is None:
        return None
    own = topology.queue_manager(here)
    likely = [decision.site, before, *(() if own is None else own.sites), *machine.sites]
    return next((site for site in likely if site in machine.sites), None)


def _cost(topology: Topology, here: UUID, decision: Decision, table: RoutingTable | None) -> int:
    if decision.row is None or table is None:
        return 0
    if decision.rule is not Rule.ALTERNATE or decision.site is None:
        return table.rows[decision.row.next_hop_site_id].cost
    links = (topology.link_between(site, decision.site) for site in table.own_sites)
    return min((link.cost for link in links if link is not None), default=0)


def _reason(
    alternates: Alternates, here: UUID, destination: UUID, decision: Decision, table: RoutingTable | None
) -> str:
    topology = alternates.topology
    source, target = topology.queue_manager_name(here), topology.queue_manager_name(destination)
    hop = topology.queue_manager_name(decision.hops[0])
    site = "" if decision.site is None else topology.site_name(decision.site)
    match decision.rule:
        case Rule.OUT_ROUTING_SERVERS:
            return f"{source} sends everything through its out-routing servers"
        case Rule.IN_ROUTING_SERVERS:
            return f"{target} is in the site {site} too, and gets everything through its in-routing servers"
        case Rule.SAME_SITE:
            return f"{source} and {target} are both in the site {site}"
        case Rule.FROM_IN_ROUTING_SERVER:
            return f"{source} is an in-routing server of {target}"
        case Rule.ROUTING_SERVER_OF_SITE:
            return f"{target} is in another site, and {hop} is the first routing server of a site of {source}"
        case Rule.SITE_GATE_OF_SITE:
            return f"{target} is in another site, and {hop} is a site gate of {site}"
        case Rule.ALTERNATE:
            return explain_alternate(alternates, here, destination, decision)
    # All other rules mean that there is no next hop.
    assert decision.row is not None and table is not None
    return _way(topology, decision.row, table, hop)


def _way(topology: Topology, row: TableRow, table: RoutingTable, hop: str) -> str:
    names = [topology.site_name(site) for site in table.path(row.destination_site_id)]
    if len(names) > _LONGEST_PATH_SHOWN:
        half = _LONGEST_PATH_SHOWN // 2
        names = [*names[:half], f"{len(names) - 2 * half} more", *names[-half:]]
    reason = f"the cheapest route is {' - '.join(names)} at {row.cost}"
    if row.is_tied:
        reason += ", of several the one with the smallest identifier"
    return f"{reason}; {hop} is a site gate of {topology.site_name(row.next_hop_site_id)}"
