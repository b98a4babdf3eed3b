"""A router of a small enterprise, which reads a directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, execute, succeed
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.topology import add_objects
from msmq.manager.membership.directory_router import DirectoryRouter
from msmq.manager.membership.kept_topology import KeptTopology
from msmq.membership.access import DirectoryAccess
from msmq.membership.attributes import DirectoryObject
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.local import LocalQueueManager
from msmq.membership.objects import QueueManagerObject, RoutingLinkObject, SiteObject
from msmq.membership.requests import (
    DirectoryEffect,
)
from msmq.persistence.changes import Change, PutState
from msmq.testing.clock import ManualClock
from tests.routing.builders import guid, guids


def site(text: str) -> SiteObject:
    return SiteObject(identifier=guid(text), name=text)


def link(one: str, two: str, cost: int, gates: str = "") -> RoutingLinkObject:
    return RoutingLinkObject(
        identifier=guid(f"{one}-{two}"),
        site1_identifier=guid(one),
        site2_identifier=guid(two),
        actual_cost=cost,
        site_gate_identifier_list=guids(gates or f"g{one} g{two}"),
    )


def machine(text: str, sites: str, *, routing_server: bool = False, out: str = "") -> QueueManagerObject:
    return QueueManagerObject(
        identifier=guid(text),
        computer_name=text,
        qualified_computer_name=f"{text}.example.com",
        site_identifier_list=guids(sites),
        routing_server=routing_server,
        out_routing_server_identifier_list=guids(out),
    )


ESTATE: tuple[DirectoryObject, ...] = (
    *(site(text) for text in "ABC"),
    *(machine(f"g{text}", text, routing_server=True) for text in "ABC"),
    *(machine(f"c{text}", text) for text in "ABC"),
    link("A", "B", 3),
    link("A", "C", 1),
    link("B", "C", 9),
)


class RouterTestCase(SynchronousTestCase):
    """A router of the queue manager gA."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.changes = 0
        self.times: list[float] = []
        self.state: dict[str, bytes] = {}
        self.written: list[str] = []
        self.is_full = False
        self.kept = KeptTopology(self.store, execute)

    def store(self, changes: Sequence[Change], what: str) -> Deferred[bool]:
        """The state that the store of a queue manager would hold."""
        if self.is_full:
            return succeed(False)
        for change in changes:
            assert isinstance(change, PutState)
            self.state[change.name] = change.value
            self.written.append(change.name)
        return succeed(True)

    def restart(self) -> None:
        """Have what the store has kept, and nothing else."""
        self.kept = KeptTopology(self.store, execute)
        self.kept.restore(self.state)

    def router(self, run: Any, own: str = "gA", in_thread: Any = execute) -> DirectoryRouter:
        local = LocalQueueManager(machine(own, "A"), directory_integrated=True)
        router = DirectoryRouter(
            guid(own),
            DirectoryAccess(local, DirectoryChanges.FOLLOW),
            run,
            self.clock.reactor,
            self.clock,
            kept=self.kept,
            was_read=self.times.append,
            add_objects=add_objects,
            changed=self.change,
            in_thread=in_thread,
        )
        self.addCleanup(router.close)
        return router

    def change(self) -> None:
        self.changes += 1


async def nothing(effect: DirectoryEffect) -> None:
    """An effect that is not performed."""
