"""Builds a topology from directory objects, and reports their problems.

[MS-MQBR] 5.1: routing has no security of its own; the access control of the directory protects it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from uuid import UUID

import attrs

from msmq.routing.enterprise_check import check, find_cycles
from msmq.routing.problems import EnterpriseProblem, EnterpriseProblems, ProblemKind
from msmq.routing.topology import MAXIMUM_COST, MINIMUM_COST, QueueManager, RoutingLink, Site, Topology
from msmq.wire.guid import NULL_GUID, braced


@attrs.frozen
class Enterprise:
    """Result of building a topology from directory objects.

    @ivar topology: the well-formed objects.
    @ivar problems: malformed objects and likely mistakes, in the order of detection.
    @ivar problems_left_out: number of further problems.
    """

    topology: Topology
    problems: tuple[EnterpriseProblem, ...] = ()
    problems_left_out: int = 0

    @property
    def faults(self) -> tuple[EnterpriseProblem, ...]:
        """The problems that excluded an object or a part of it."""
        return tuple(problem for problem in self.problems if problem.is_fault)


class TopologyBuilder:
    """Collects sites, links and queue managers in any order, and builds a L{Topology}.

    The order of the calls for one type is kept: it is the order of the directory.
    Nothing raises: an invalid object is left out and reported as a L{EnterpriseProblem}.
    C{where} is the position of an object in its source, C{estate.toml:12} for example; problems include it.
    """

    def __init__(self) -> None:
        self._problems = EnterpriseProblems()
        self._sites: dict[UUID, Site] = {}
        self._links: list[RoutingLink] = []
        self._queue_managers: dict[UUID, QueueManager] = {}
        self._networks: dict[UUID, str] = {}

    def add_site(
        self,
        identifier: UUID,
        name: str = "",
        *,
        gates: Iterable[UUID] | None = None,
        is_foreign: bool = False,
        where: str = "",
    ) -> None:
        """A site.

        @param gates: its gates, if the directory lists them; C{None} if they follow from the links.
        """
        site = Site(identifier, name, None if gates is None else _distinct(gates), is_foreign, where)
        if self._is_new(identifier, self._sites, f"site {site}", where):
            self._sites[identifier] = site

    def add_link(
        self, site1: UUID, site2: UUID, cost: int, gates: Iterable[UUID] = (), *, where: str = ""
    ) -> None:
        """A routing link.

        @param cost: ActualCost; a value outside of 1 to 999,999 is a fault.
        @param gates: SiteGateIdentifierList.
        """
        self._links.append(RoutingLink(site1, site2, cost, _distinct(gates), where))

    def add_queue_manager(
        self,
        identifier: UUID,
        name: str = "",
        *,
        sites: Iterable[UUID],
        routing_server: bool = False,
        in_routing_servers: Iterable[UUID] = (),
        out_routing_servers: Iterable[UUID] = (),
        connected_networks: Iterable[UUID] = (),
        qualified_computer_name: str = "",
        address: str = "",
        where: str = "",
    ) -> None:
        """A queue manager."""
        machine = QueueManager(
            identifier,
            name,
            _distinct(sites),
            routing_server,
            _distinct(in_routing_servers),
            _distinct(out_routing_servers),
            _distinct(connected_networks),
            qualified_computer_name,
            address,
            where,
        )
        if self._is_new(identifier, self._queue_managers, f"queue manager {machine}", where):
            self._queue_managers[identifier] = machine

    def add_connected_network(self, identifier: UUID, name: str = "") -> None:
        """Add a connected network; only its name is used, in problems."""
        self._networks[identifier] = name or braced(identifier)

    def report(self, subject: str, rule: str, where: str = "") -> None:
        """Report a directory object that cannot be decoded and is left out: a fault."""
        self._problems.add(ProblemKind.DIRECTORY, subject, rule, where)

    def build(self) -> Enterprise:
        """Check the collected objects and build the topology.

        Invalid links, sites of queue managers, and in- and out-routing servers that are not routing servers,
        are left out.
        It takes about a second for ten thousand sites and fifty thousand links; call it in a worker thread.
        """
        problems = EnterpriseProblems(list(self._problems.found), self._problems.left_out)
        self._check_emptiness(problems)
        find_cycles(self._queue_managers, problems)
        topology = Topology(
            tuple(self._sites.values()),
            tuple(link for link in self._links if self._is_sound(link, problems)),
            tuple(self._fitted(machine, problems) for machine in self._queue_managers.values()),
        )
        check(topology, self._networks, problems)
        return Enterprise(topology, tuple(problems.found), problems.left_out)

    def _is_new(self, identifier: UUID, known: Container[UUID], subject: str, where: str) -> bool:
        if identifier == NULL_GUID:
            self._problems.add(ProblemKind.IDENTIFIER, subject, "has no identifier and is left out", where)
            return False
        if identifier in known:
            rule = f"has the identifier {braced(identifier)} of another and is left out"
            self._problems.add(ProblemKind.DUPLICATE, subject, rule, where)
            return False
        return True

    def _check_emptiness(self, problems: EnterpriseProblems) -> None:
        for things, held in (("sites", self._sites), ("queue managers", self._queue_managers)):
            if not held:
                problems.add(ProblemKind.NOTHING, "the enterprise", f"has no {things}")
        if len(self._sites) > 1 and not self._links:
            rule = f"has {len(self._sites)} sites and no links between them"
            problems.add(ProblemKind.NOTHING, "the enterprise", rule)

    def _is_sound(self, link: RoutingLink, problems: EnterpriseProblems) -> bool:
        """Whether a link has a usable cost and ends, so that routes over it can be compared."""
        unknown = [site for site in (link.site1, link.site2) if site not in self._sites]
        for site in unknown:
            rule = f"has an end in a site {braced(site)}, which there is not, and is left out"
            problems.add(ProblemKind.UNKNOWN_SITE, self._link_name(link), rule, link.where)
        is_within = link.site1 == link.site2
        if is_within and not unknown:
            rule = "has both ends in one site and is left out"
            problems.add(ProblemKind.SAME_SITE_TWICE, self._link_name(link), rule, link.where)
        is_affordable = MINIMUM_COST <= link.cost <= MAXIMUM_COST
        if not is_affordable:
            rule = f"cost {link.cost} is not within {MINIMUM_COST} to {MAXIMUM_COST}; the link is left out"
            problems.add(ProblemKind.COST, self._link_name(link), rule, link.where)
        return is_affordable and not is_within and not unknown

    def _link_name(self, link: RoutingLink) -> str:
        ends = (
            str(self._sites[site]) if site in self._sites else braced(site)
            for site in (link.site1, link.site2)
        )
        return f"link {' - '.join(ends)}"

    def _fitted(self, machine: QueueManager, problems: EnterpriseProblems) -> QueueManager:
        """The queue manager without references to unknown objects."""
        sites = [site for site in machine.sites if site in self._sites]
        if len(sites) < len(machine.sites):
            for site in machine.sites:
                if site not in self._sites:
                    rule = f"belongs to a site {braced(site)}, which there is not"
                    problems.add(ProblemKind.UNKNOWN_SITE, f"queue manager {machine}", rule, machine.where)
            machine = attrs.evolve(machine, sites=tuple(sites))
        if machine.in_routing_servers or machine.out_routing_servers:
            machine = attrs.evolve(
                machine,
                in_routing_servers=self._routing_servers(machine, machine.in_routing_servers, "in", problems),
                out_routing_servers=self._routing_servers(
                    machine, machine.out_routing_servers, "out", problems
                ),
            )
        return machine

    def _routing_servers(
        self, machine: QueueManager, listed: tuple[UUID, ...], direction: str, problems: EnterpriseProblems
    ) -> tuple[UUID, ...]:
        """The existing routing servers of the list; any other queue manager would cause loops."""
        found: list[UUID] = []
        for identifier in listed:
            server = self._queue_managers.get(identifier)
            if server is not None and server.routing_server:
                found.append(identifier)
                continue
            name = braced(identifier) if server is None else str(server)
            what, kind = (
                ("which there is not", ProblemKind.UNKNOWN_QUEUE_MANAGER)
                if server is None
                else ("which is not a routing server and is left out", ProblemKind.NOT_A_ROUTING_SERVER)
            )
            rule = f"has the {direction}-routing server {name}, {what}"
            problems.add(kind, f"queue manager {machine}", rule, machine.where)
        return tuple(found)


def _distinct(identifiers: Iterable[UUID]) -> tuple[UUID, ...]:
    """Without duplicates, in the same order."""
    return tuple(dict.fromkeys(identifiers))
