"""Contract of every L{IRouter}."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING
from uuid import UUID

from twisted.trial.unittest import TestCase
from zope.interface.verify import verifyObject

from msmq.interfaces import IRouter, NoRoute
from msmq.routing.topology import Topology
from msmq.structures.status import Status

NO_QUEUE_MANAGER = UUID(int=0xDEAD)
"""The identifier of no queue manager."""

if TYPE_CHECKING:
    _Base = TestCase
else:
    _Base = object


class RouterContract(_Base):
    """Mixin for a C{TestCase} that creates the router under test, with its enterprise."""

    def make_router(self) -> IRouter:
        """Create a router that is not open; all routers of one test have the same enterprise."""
        raise NotImplementedError

    def connected_pairs(self) -> Iterable[tuple[UUID, UUID]]:
        """Sources and destinations with a route, at least one pair; a source is not its destination."""
        raise NotImplementedError

    async def opened_router(self) -> IRouter:
        """A router that is open until the end of the test."""
        router = self.make_router()
        await router.open()
        self.addCleanup(router.close)
        return router

    def test_provides_the_router_interface(self) -> None:
        """A router has every method, a name, and a topology."""
        router = self.make_router()
        verifyObject(IRouter, router)
        self.assertIsInstance(router.name, str)
        self.assertIsInstance(router.topology, Topology)

    async def test_next_hops_are_not_empty(self) -> None:
        """There is a next hop for each destination with a route, and it is not the source itself."""
        router = await self.opened_router()
        for source, destination in self.connected_pairs():
            hops = [each.identifier for each in await router.next_hops(source, destination)]
            self.assertTrue(hops)
            self.assertNotIn(source, hops)

    async def test_next_hops_lead_to_the_destination(self) -> None:
        """A message that each queue manager sends to its first next hop reaches its destination."""
        router = await self.opened_router()
        for source, destination in self.connected_pairs():
            visited = [source]
            while visited[-1] != destination:
                hops = await router.next_hops(visited[-1], destination)
                self.assertNotIn(hops[0].identifier, visited)
                visited.append(hops[0].identifier)

    async def test_unreachable_queue_managers(self) -> None:
        """With unreachable next hops there still is an answer, without the source: an alternate, or they
        themselves, for which the message waits.
        """
        router = await self.opened_router()
        for source, destination in self.connected_pairs():
            hops = await router.next_hops(source, destination)
            down: Set[UUID] = frozenset(each.identifier for each in hops)
            others = await router.next_hops(source, destination, down)
            self.assertTrue(others)
            self.assertNotIn(source, [each.identifier for each in others])

    async def test_unknown_destination(self) -> None:
        """Without a route NoRoute is raised, through the Deferred, with a status, a reason and a text."""
        router = await self.opened_router()
        for source, _ in self.connected_pairs():
            asked = router.next_hops(source, NO_QUEUE_MANAGER)
            try:
                await asked
            except NoRoute as error:
                self.assertIn(
                    error.status,
                    (Status.MQ_ERROR_MACHINE_NOT_FOUND, Status.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE),
                )
                self.assertTrue(str(error.reason))
                self.assertTrue(str(error))
            else:
                raise AssertionError("NoRoute was expected")

    async def test_route(self) -> None:
        """The whole route begins with a next hop, gives a reason for each hop, and has a text for its
        problem if it is incomplete.
        """
        router = await self.opened_router()
        for source, destination in self.connected_pairs():
            route = await router.route(source, destination)
            self.assertEqual((route.source, route.destination), (source, destination))
            if route.arrives and route.connector is None:
                self.assertEqual(route.hops[-1].queue_manager, destination)
                hops = await router.next_hops(source, destination)
                self.assertIn(route.hops[0].queue_manager, [each.identifier for each in hops])
            for hop in route.hops:
                self.assertTrue(hop.reason)

    async def test_route_to_an_unknown_destination(self) -> None:
        """It is no error, and its problem is named."""
        router = await self.opened_router()
        for source, _ in self.connected_pairs():
            route = await router.route(source, NO_QUEUE_MANAGER)
            self.assertFalse(route.arrives)
            self.assertTrue(route.problem)

    async def test_closing_again(self) -> None:
        """Closing a closed router does nothing."""
        router = await self.opened_router()
        await router.close()
        await router.close()
