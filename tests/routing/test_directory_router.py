"""A queue manager that routes by what its directory says."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, execute
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase
from zope.interface.verify import verifyObject

import msmq.manager.membership.kept_topology
from msmq.directory.memory import MemoryDirectory
from msmq.interfaces import IRouter, NoRoute
from msmq.manager.membership.directory_router import DirectoryRouter
from msmq.manager.membership.kept_topology import TOPOLOGY, TOPOLOGY_READ
from msmq.manager.membership.procedure_runner import DirectoryRunner
from msmq.membership.objects import RoutingLinkObject
from msmq.membership.requests import (
    DirectoryEffect,
)
from msmq.testing.contracts.router import RouterContract
from tests.routing.builders import guid, guids
from tests.routing.directory_routers import ESTATE, RouterTestCase, link, machine, nothing


class DirectoryRouterTests(RouterTestCase):
    """With a directory in memory."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = MemoryDirectory(self.clock)
        for held in ESTATE:
            self.directory.add(held)

    def created(self, own: str = "gA", in_thread: Any = execute) -> DirectoryRouter:
        async def perform(effect: DirectoryEffect) -> None:
            raise AssertionError(f"routing changes nothing: {effect}")

        return self.router(DirectoryRunner(self.directory, self.clock, perform).run, own, in_thread)

    def opened(self, own: str = "gA", in_thread: Any = execute) -> DirectoryRouter:
        router = self.created(own, in_thread)
        self.successResultOf(router.open())
        return router

    def hops(self, router: DirectoryRouter, destination: str, source: str = "gA") -> list[str]:
        machines = self.successResultOf(router.next_hops(guid(source), guid(destination)))
        return [machine.name for machine in machines]

    def write_cost(self, cost: int) -> None:
        written = RoutingLinkObject(
            identifier=guid("A-C"), site1_identifier=guid("A"), site2_identifier=guid("C"), actual_cost=cost
        )
        self.successResultOf(self.directory.write(written, ("actual_cost",)))

    def test_interface(self) -> None:
        """It is an IRouter."""
        verifyObject(IRouter, self.opened())

    def test_next_hops(self) -> None:
        """MQBR-2.3-01, MQBR-3.1.1.1-01, MQBR-3.1.5.1-12: what the directory holds is routed by, and answered
        are queue managers with the names by which they are reached.
        """
        [hop] = self.successResultOf(self.opened().next_hops(guid("gA"), guid("cC")))
        self.assertEqual((hop.identifier, hop.qualified_computer_name), (guid("gC"), "gC.example.com"))

    def test_unknown_gate(self) -> None:
        """MQQB-3.1.7.5-02: of several next hops those are answered that the directory knows."""
        self.directory.add(machine("hB", "B", routing_server=True))
        written = RoutingLinkObject(
            identifier=guid("A-B"),
            site1_identifier=guid("A"),
            site2_identifier=guid("B"),
            site_gate_identifier_list=guids("gA absent hB"),
        )
        self.successResultOf(self.directory.write(written, ("site_gate_identifier_list",)))
        self.assertEqual(self.hops(self.opened(), "cB"), ["hB"])

    def test_another_source(self) -> None:
        """The next hops of another queue manager can be computed too."""
        router = self.opened()
        self.assertEqual(self.hops(router, "cC", source="gB"), ["gA"])
        self.assertEqual(self.hops(router, "cC", source="cB"), ["gB"])

    def test_route(self) -> None:
        """The whole route is shown with its reasons."""
        way = self.successResultOf(self.opened().route(guid("cB"), guid("cC")))
        self.assertEqual([hop.name for hop in way.hops], ["gB", "gA", "gC", "cC"])
        self.assertEqual(way.cost, 4)

    def test_no_gate(self) -> None:
        """MQBR-3.1.3.1-01: a queue manager that is not a site gate has no table, and sends by its
        routing server.
        """
        router = self.opened("cA")
        self.assertEqual(router.core.snapshot.table.rows, {})
        self.assertEqual(self.hops(router, "cC", source="cA"), ["gA"])

    def test_every_hour(self) -> None:
        """MQBR-3.1.2.1-01, MQBR-3.1.3-01, MQBR-3.1.6.1-01: after an hour, and not a second before,
        changes in the directory hold, and callers that wait for a route are notified.
        """
        router = self.opened()
        self.assertEqual(self.changes, 1)
        self.write_cost(100)
        self.clock.advance(3599)
        self.assertEqual(self.hops(router, "cC"), ["gC"])
        self.clock.advance(1)
        self.assertEqual(self.hops(router, "cC"), ["gB"])
        self.assertEqual(self.changes, 2)
        self.clock.advance(3600)
        self.assertEqual(self.changes, 2)

    def test_new_queue_manager(self) -> None:
        """A queue manager that came since is found by the second message to it, if a minute has passed."""
        router = self.opened()
        self.directory.add(machine("new", "A"))
        self.clock.advance(60)
        self.failureResultOf(router.next_hops(guid("gA"), guid("new")), NoRoute)
        self.assertEqual(self.hops(router, "new"), ["new"])
        self.directory.add(machine("newer", "A"))
        for _ in range(2):
            self.failureResultOf(router.next_hops(guid("gA"), guid("newer")), NoRoute)

    def test_refresh(self) -> None:
        """A caller that knows of a change has it read at once."""
        router = self.opened()
        self.write_cost(100)
        self.successResultOf(router.refresh())
        self.assertEqual(self.hops(router, "cC"), ["gB"])

    def test_change_during_a_reading(self) -> None:
        """A queue manager that comes while the enterprise is read is known once that has ended."""
        threads: list[Deferred[Any]] = []

        def in_thread(call: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
            threads.append(Deferred())
            return threads[-1].addCallback(lambda _: call(*arguments))

        router = self.created(in_thread=in_thread)
        opened = router.open()
        self.directory.add(machine("new", "C"))
        self.successResultOf(router.refresh())
        for number in range(2):
            threads[number].callback(None)
        self.successResultOf(opened)
        self.assertEqual(self.hops(router, "new"), ["gC"])

    def test_directory_is_unavailable(self) -> None:
        """A directory that is away changes nothing, and is asked again an hour later."""
        router = self.opened()
        self.directory.is_connected = False
        self.clock.advance(3600)
        self.assertEqual(self.hops(router, "cC"), ["gC"])
        missing = self.failureResultOf(router.next_hops(guid("gA"), guid("nobody")), NoRoute).value
        self.assertIn("the last reading was not taken: the directory could not be read", missing.detail)
        self.directory.is_connected = True
        self.write_cost(100)
        self.clock.advance(3600)
        self.assertEqual(self.hops(router, "cC"), ["gB"])

    def test_away_from_the_start(self) -> None:
        """A router opens without a directory, has no routes, and finds them when it is back."""
        self.directory.is_connected = False
        router = self.opened()
        self.failureResultOf(router.next_hops(guid("gA"), guid("cC")), NoRoute)
        self.directory.is_connected = True
        self.clock.advance(60)
        self.failureResultOf(router.next_hops(guid("gA"), guid("cC")), NoRoute)
        self.assertEqual(self.hops(router, "cC"), ["gC"])

    def test_restart_while_it_is_away(self) -> None:
        """[MS-MQOD] 2.7.4: the routes of before the restart hold, with their age, until it is back."""
        self.opened()
        read = self.clock.now().wall
        self.clock.advance(600)
        self.restart()
        self.directory.is_connected = False
        self.times.clear()
        router = self.opened()
        self.assertEqual(self.hops(router, "cB"), ["gB"])
        self.assertEqual(self.times, [read])
        self.assertIsNotNone(router.topology.queue_manager(guid("cB")))
        self.assertRaises(NoRoute, router._next_hops, guid("gA"), guid("nobody"))
        self.directory.is_connected = True
        self.write_cost(20)
        self.successResultOf(router.refresh())
        self.assertEqual(self.times, [read, read + 600])
        self.assertEqual(self.hops(router, "cC"), ["gB"])

    def test_topology_is_stored_when_it_changes(self) -> None:
        """A reading without news writes the time alone; one with faults, or that failed, writes nothing."""
        router = self.opened()
        self.assertEqual(self.written, [TOPOLOGY_READ, TOPOLOGY])
        self.written.clear()
        self.successResultOf(router.refresh())
        self.assertEqual(self.written, [TOPOLOGY_READ])
        self.directory.add(link("A", "A", 1))
        self.successResultOf(router.refresh())
        self.directory.is_connected = False
        self.successResultOf(router.refresh())
        self.assertEqual(self.written, [TOPOLOGY_READ])
        self.assertNotIn(b"gA.example.com", self.state[TOPOLOGY], "it is compressed")

    def test_topology_that_was_not_stored(self) -> None:
        """It is stored with the next read, although it has not changed since, and not its time alone."""
        self.is_full = True
        router = self.opened()
        self.is_full = False
        self.assertEqual(self.state, {})
        self.successResultOf(router.refresh())
        self.restart()
        self.directory.is_connected = False
        self.assertEqual(self.hops(self.opened(), "cB"), ["gB"])

    def test_damaged(self) -> None:
        """A damaged stored topology is logged and not used."""
        self.opened()
        self.directory.is_connected = False
        whole = dict(self.state)
        other = zlib.compress(b'[{"type": "User"}]')
        bomb = zlib.compress(bytes(100_001))
        self.patch(msmq.manager.membership.kept_topology, "LARGEST", 100_000)
        for key, value in (
            (TOPOLOGY, b"rubbish"),
            (TOPOLOGY, whole[TOPOLOGY][:-9]),
            (TOPOLOGY, other),
            (TOPOLOGY, bomb),
            (TOPOLOGY_READ, b"soon"),
        ):
            self.state = {**whole, key: value}
            self.restart()
            self.assertEqual(self.opened().topology.queue_managers, ())
            self.assertEqual(len(self.flushLoggedErrors()), 0)

    def test_fault(self) -> None:
        """Faults that come later are logged by name, and the last good table holds."""
        router = self.opened()
        self.directory.add(link("A", "X", 1))
        self.clock.advance(3600)
        self.assertEqual(self.hops(router, "cC"), ["gC"])
        refused = router.core.refused
        self.assertIsNotNone(refused)
        assert refused is not None
        self.assertIn("link A - {58000000-0000-0000-0000-000000000000}", refused.detail)

    def test_failing_thread(self) -> None:
        """An error in computing a table is logged, and counts as a failed read."""
        failing = False

        def in_thread(function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
            return execute(_raise) if failing else execute(function, *arguments)

        router = self.opened(in_thread=in_thread)
        failing = True
        self.clock.advance(3600)
        [failure] = self.flushLoggedErrors(ZeroDivisionError)
        self.assertIsInstance(failure, Failure)
        self.assertEqual(self.hops(router, "cC"), ["gC"])
        self.assertEqual(router.core.deadline, self.clock.now().monotonic + 3600)

    def test_close(self) -> None:
        """A closed router reads nothing, and closing it again does nothing."""
        router = self.opened()
        for _ in range(2):
            self.successResultOf(router.close())
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])

    def test_slices(self) -> None:
        """While very many objects are read, other work is done in between."""
        for number in range(250):
            self.directory.add(machine(f"m{number}", "A"))
        router = self.router(DirectoryRunner(self.directory, self.clock, nothing).run)
        opening = router.open()
        self.assertNoResult(opening)
        self.clock.advance(0)
        self.successResultOf(opening)
        self.assertEqual(self.hops(router, "m249"), ["m249"])


class DirectoryRouterContractTests(RouterContract, TestCase):
    """The contract of every router, with the same enterprise."""

    def setUp(self) -> None:
        self.fixture = DirectoryRouterTests("test_next_hops")
        self.fixture.setUp()
        self.addCleanup(self.fixture.doCleanups)

    def make_router(self) -> IRouter:
        return self.fixture.created()

    def connected_pairs(self) -> list[tuple[UUID, UUID]]:
        return [(guid("gA"), guid(end)) for end in ("gC", "cA", "cB", "cC")] + [(guid("cB"), guid("cA"))]


def _raise() -> None:
    raise ZeroDivisionError("an accident")
