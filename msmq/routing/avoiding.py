"""The enterprise as it is while some of its queue managers cannot be reached.

[MS-MQBR] knows no such thing: a gate that is down is waited for.
Here whoever finds that a next hop cannot be reached looks for another way for a while, and takes the old
one if there is none.
Others may not know of it yet, so that a message may come back; the hop count in it bounds that.
"""

from __future__ import annotations

from collections.abc import Set
from uuid import UUID

import attrs

from msmq.routing.topology import Topology


def avoiding(topology: Topology, unreachable: Set[UUID]) -> Topology:
    """The same without these queue managers, and without the links to sites that have no other gate."""
    if not unreachable:
        return topology
    without = attrs.evolve(
        topology,
        queue_managers=tuple(
            machine for machine in topology.queue_managers if machine.identifier not in unreachable
        ),
    )
    cut = {
        site.identifier
        for site in topology.sites
        if topology.gates(site.identifier) and not without.gates(site.identifier)
    }
    if not cut:
        return without
    return attrs.evolve(
        without,
        links=tuple(link for link in without.links if link.site1 not in cut and link.site2 not in cut),
    )
