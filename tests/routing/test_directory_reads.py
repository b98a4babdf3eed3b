"""How a router reads its directory. [MS-MQBR] 3.1.5.9."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, succeed

from msmq.directory.memory import MemoryDirectory
from msmq.manager.membership.directory_router import DirectoryRouter
from msmq.manager.membership.procedure_runner import DirectoryRunner
from msmq.membership.access import DirectoryAccess
from msmq.membership.attributes import DirectoryObject
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.local import LocalQueueManager
from msmq.membership.objects import ConnectedNetworkObject, QueueManagerObject, RoutingLinkObject, SiteObject
from msmq.membership.queries import equals
from msmq.membership.requests import (
    BeginRead,
    DirectoryRequest,
    EndRead,
    NextRead,
    Outcome,
    Procedure,
)
from tests.membership.directory_builders import DISCONNECTED, DONE, END, FAILED, Played, found, play, replies
from tests.routing.builders import guid, name
from tests.routing.directory_routers import ESTATE, RouterTestCase, machine, nothing


class GetDirectoryDataTests(RouterTestCase):
    """[MS-MQBR] 3.1.5.9, with a directory that answers what a test says."""

    def read(self, *outcomes: Outcome) -> tuple[DirectoryRouter, list[DirectoryRequest]]:
        """The queries of a router at its start, with these answers and no others."""
        played = Played()
        reply = replies(*outcomes, *[FAILED] * 10)

        def run(procedure: Procedure[Any]) -> Deferred[Any]:
            return succeed(play(procedure, reply, played=played)[0])

        router = self.router(run)
        self.successResultOf(router.open())
        return router, played.requests

    def handle(self, number: int) -> Outcome:
        return Outcome(value=number)

    def whole(self, number: int, of: type[DirectoryObject]) -> list[Outcome]:
        """The answers to reading one type to its end."""
        objects = [found(held) for held in ESTATE if type(held) is of]
        return [self.handle(number), *objects, END, DONE]

    def test_events(self) -> None:
        """MQBR-3.1.5.9-01, MQBR-3.1.3.1-02, MQBR-3.1.3.1-03, MQBR-3.1.5.9-04, MQBR-3.1.5.5-02,
        MQBR-3.1.5.6-02: all sites are read, then all links, then all queue managers, without filters: begin,
        one after the other in their order, end.
        """
        router, requests = self.read(
            *self.whole(1, SiteObject),
            *self.whole(2, RoutingLinkObject),
            *self.whole(3, QueueManagerObject),
            *self.whole(4, ConnectedNetworkObject),
        )
        expected: list[DirectoryRequest] = []
        for number, of in enumerate(
            (SiteObject, RoutingLinkObject, QueueManagerObject, ConnectedNetworkObject), 1
        ):
            count = sum(type(held) is of for held in ESTATE)
            expected += [BeginRead(of), *[NextRead(number)] * (count + 1), EndRead(number)]
        self.assertEqual(requests, expected)
        topology = router.core.snapshot.enterprise.topology
        self.assertEqual([name(held.identifier) for held in topology.sites], ["A", "B", "C"])
        self.assertEqual(
            [name(held.identifier) for held in topology.queue_managers], ["gA", "gB", "gC", "cA", "cB", "cC"]
        )

    def test_begin_fails(self) -> None:
        """MQBR-3.1.5.9-03: if it cannot begin, nothing was read, and nothing has to end."""
        router, requests = self.read(DISCONNECTED)
        self.assertEqual(requests, [BeginRead(SiteObject)])
        self.assertEqual(router.core.snapshot.enterprise.topology.sites, ())
        self.assertIsNotNone(router.core.refused)

    def test_next_fails(self) -> None:
        """MQBR-3.1.5.9-06, MQBR-3.1.5.8-03, MQBR-3.1.5.5-02, MQBR-3.1.5.6-02: if reading fails in the middle,
        all that was read is dropped.
        """
        before: list[Outcome] = []
        for number, of in enumerate((SiteObject, RoutingLinkObject, QueueManagerObject), 1):
            _, *objects, _, _ = self.whole(number, of)
            router, requests = self.read(*before, self.handle(number), *objects[:2], FAILED, DONE)
            self.assertEqual(requests[-1], EndRead(number))
            topology = router.core.snapshot.enterprise.topology
            self.assertEqual((topology.sites, topology.links, topology.queue_managers), ((), (), ()))
            before += self.whole(number, of)

    def test_end_is_always_raised(self) -> None:
        """MQBR-3.1.5.9-07: the handle is closed in success and failure, and the result of that makes no
        difference.
        """
        _, requests = self.read(self.handle(7), FAILED, FAILED)
        self.assertEqual(requests, [BeginRead(SiteObject), NextRead(7), EndRead(7)])
        sites = self.whole(1, SiteObject)
        sites[-1] = FAILED
        router, _ = self.read(
            *sites, *self.whole(2, RoutingLinkObject), *self.whole(3, QueueManagerObject), DISCONNECTED
        )
        self.assertIsNone(router.core.refused)
        self.assertEqual(len(router.core.snapshot.enterprise.topology.sites), 3)

    def test_the_value_nothing(self) -> None:
        """MQBR-3.1.5.9-05: the end of the data keeps what was read, and a type without objects is as
        empty as one that returns Nothing.
        """
        router, _ = self.read(
            *self.whole(1, SiteObject), self.handle(2), END, DONE, *self.whole(3, QueueManagerObject)
        )
        topology = router.core.snapshot.enterprise.topology
        self.assertEqual((len(topology.sites), len(topology.links)), (3, 0))
        self.assertEqual(len(router.core.snapshot.table.rows), 0)

    def test_filters(self) -> None:
        """MQBR-3.1.5.9-02, MQBR-3.1.5.4-01, MQBR-3.1.5.7-01: all filters hold for what is read, such as one
        for an Identifier; without any, it is everything.
        """
        directory = MemoryDirectory(self.clock)
        for held in ESTATE:
            directory.add(held)
        local = LocalQueueManager(machine("gA", "A"), directory_integrated=True)
        access = DirectoryAccess(local, DirectoryChanges.FOLLOW)
        run = DirectoryRunner(directory, self.clock, nothing).run

        def read(*filters: tuple[str, UUID | str]) -> list[str]:
            procedure = access.read_all(SiteObject, [equals(*each) for each in filters])
            outcome = self.successResultOf(Deferred.fromCoroutine(run(procedure)))
            return [held.name for held in outcome.value]

        self.assertEqual(read(), ["A", "B", "C"])
        self.assertEqual(read(("identifier", guid("B"))), ["B"])
        self.assertEqual(read(("identifier", guid("B")), ("name", "C")), [])
