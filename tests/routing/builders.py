"""Enterprises in few words."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from msmq.routing.topology import Topology
from msmq.routing.topology_builder import Enterprise, TopologyBuilder


def guid(name: str) -> UUID:
    """The identifier of what has this name; identifiers are in the order of the names."""
    return UUID(bytes=name.encode().ljust(16, b"\0"))


def guids(names: str | Iterable[str]) -> tuple[UUID, ...]:
    """Those of several, in their order."""
    return tuple(guid(name) for name in (names.split() if isinstance(names, str) else names))


def name(identifier: UUID) -> str:
    """The name from which C{identifier} was derived."""
    return identifier.bytes.rstrip(b"\0").decode()


def names(identifiers: Iterable[UUID]) -> list[str]:
    """Those of several, in their order."""
    return [name(identifier) for identifier in identifiers]


class Estate(TopologyBuilder):
    """A builder that takes names for identifiers.

    @param links: C{A-B 3, B-C 1}: sites and costs; the gates of a link between A and B are gA and gB.
    @param sites: C{A B C}; those of the links, in alphabetical order, where they are not given.
    @param with_gates: each site A gets a routing server gA and a queue manager cA.
    """

    def __init__(self, links: str = "", sites: str = "", *, with_gates: bool = True) -> None:
        super().__init__()
        parsed = [link.split() for link in links.split(",") if link]
        ends = [tuple(link[0].split("-")) for link in parsed]
        for site in sites.split() or sorted({end for pair in ends for end in pair}):
            self.add_site(guid(site), site)
            if with_gates:
                self.machine(f"g{site}", site, routing_server=True)
                self.machine(f"c{site}", site)
        for (one, two), (_, cost, *gates) in zip(ends, parsed, strict=True):
            self.link(one, two, int(cost), " ".join(gates) or f"g{one} g{two}")

    def link(self, one: str, two: str, cost: int, gates: str = "", *, where: str = "") -> None:
        self.add_link(guid(one), guid(two), cost, guids(gates), where=where)

    def machine(
        self,
        name: str,
        sites: str,
        *,
        routing_server: bool = False,
        into: str = "",
        out: str = "",
        networks: str = "",
        where: str = "",
    ) -> None:
        """@param into: its in-routing servers. @param out: its out-routing servers."""
        self.add_queue_manager(
            guid(name),
            name,
            sites=guids(sites),
            routing_server=routing_server,
            in_routing_servers=guids(into),
            out_routing_servers=guids(out),
            connected_networks=guids(networks),
            where=where,
        )

    @property
    def topology(self) -> Topology:
        """The valid part of an enterprise."""
        return self.build().topology

    def sound(self) -> Topology:
        """It, which has no faults."""
        enterprise: Enterprise = self.build()
        assert not enterprise.faults, enterprise.faults
        return enterprise.topology
