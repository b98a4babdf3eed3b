"""The directory of a simulated enterprise: two sites, each with a gate and another member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from msmq.directory.memory import MemoryDirectory
from msmq.interfaces.clock import IClock
from msmq.membership.objects import EnterpriseObject, QueueManagerObject, RoutingLinkObject, SiteObject

HERE, THERE = UUID(int=0xB0), UUID(int=0xC0)
SITES = {"ALPHA": HERE, "BETA": HERE, "GAMMA": THERE, "DELTA": THERE}
GATES = ("BETA", "GAMMA")
MEMBERS: Final = (0, 3)
"""The hosts of the applications, by their numbers; the others are gates."""


def make_enterprise(clock: IClock, identifiers: Mapping[str, UUID]) -> MemoryDirectory:
    """A directory with ALPHA and the gate BETA in one site, DELTA and the gate GAMMA in the other."""
    directory = MemoryDirectory(clock)
    directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
    directory.add(SiteObject(identifier=HERE, name="here"))
    directory.add(SiteObject(identifier=THERE, name="there"))
    for name, identifier in identifiers.items():
        directory.add(
            QueueManagerObject(
                identifier=identifier,
                computer_name=name,
                qualified_computer_name=f"{name.lower()}.example.com",
                site_identifier_list=(SITES[name],),
                routing_server=name in GATES,
            )
        )
    directory.add(
        RoutingLinkObject(
            identifier=UUID(int=0xF0),
            site1_identifier=HERE,
            site2_identifier=THERE,
            actual_cost=1,
            site_gate_identifier_list=tuple(identifiers[name] for name in GATES),
        )
    )
    return directory
