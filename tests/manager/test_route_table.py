"""The next hops of messages, as far as they were looked up."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.errors import LocalProtocolError
from msmq.interfaces import IRouter
from msmq.interfaces.routing import NoRoute
from msmq.manager.routes.route_table import AVOIDED, PATIENCE, RETRY, RouteTable
from msmq.routing.next_hops import Rule
from msmq.routing.topology import QueueManager
from msmq.testing.clock import ManualClock
from tests.routing.builders import Estate, guid, names

# From cA to cC the cheapest way leads through B.
TOPOLOGY = Estate("A-B 1, B-C 1, A-C 5").topology
CA, CC, GA, GB, GC = (guid(name) for name in ("cA", "cC", "gA", "gB", "gC"))


def machine(name: str) -> QueueManager:
    found = TOPOLOGY.queue_manager(guid(name))
    assert found is not None
    return found


def nowhere() -> NoRoute:
    return NoRoute(Rule.UNKNOWN_DESTINATION, "unknown destination")


@implementer(IRouter)
class ScriptedRouter:
    """A router that answers what a test wants, when it wants.

    @ivar answers: for the next questions; without one the question waits.
    @ivar asked: the destination and the unreachable queue managers of each question.
    """

    name = "scripted"
    topology = TOPOLOGY

    def __init__(self) -> None:
        self.answers: list[Sequence[str] | Exception] = []
        self.asked: list[tuple[UUID, Set[UUID]]] = []
        self.waiting: list[Deferred[Sequence[QueueManager]]] = []
        self.on_asked: list[Any] = []

    def open(self) -> Deferred[None]:
        return succeed(None)

    def next_hops(
        self, source: UUID, destination: UUID, unreachable: Set[UUID] = frozenset()
    ) -> Deferred[Sequence[QueueManager]]:
        self.asked.append((destination, unreachable))
        if self.on_asked:
            self.on_asked.pop(0)()
        if not self.answers:
            self.waiting.append(Deferred())
            return self.waiting[-1]
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            return fail(answer)
        return succeed([machine(name) for name in answer])

    def answer(self, *hops: str) -> None:
        """The oldest question that waits is answered."""
        self.waiting.pop(0).callback([machine(name) for name in hops])

    def route(self, source: UUID, destination: UUID, down: Set[UUID] = frozenset()) -> Any:
        raise AssertionError("the whole route is not asked for")

    def close(self) -> Deferred[None]:
        return succeed(None)


class WaysTests(SynchronousTestCase):
    """The routes of cA."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.router = ScriptedRouter()
        self.changes: list[UUID] = []
        self.table = RouteTable(CA, self.router, self.clock.reactor, self)
        self.addCleanup(self.table.stop)

    def route_changed(self, destination: UUID) -> None:
        """See L{RouteListener}."""
        self.changes.append(destination)

    def hops(self, destination: UUID = CC) -> list[str]:
        return names(hop.identifier for hop in self.table.hops(destination))

    def test_answer_at_once(self) -> None:
        """It is looked up for each destination once, without a notification."""
        self.router.answers = [["gA"]]
        self.assertEqual([self.hops(), self.hops()], [["gA"], ["gA"]])
        self.assertEqual(self.router.asked, [(CC, frozenset())])
        self.assertEqual(self.changes, [])

    def test_answers_that_are_none(self) -> None:
        """They are logged, count as a missing route, and the router is queried again."""
        self.router.answers = [["gA"]] * 5
        for wrong, words in (
            (None, "returned a NoneType, not"),
            ("gA", "returned a str, not"),
            ([CC], "returned a UUID among"),
            ([machine("gA"), machine("cA")], "returned the queue manager itself"),
        ):
            patch: Any = self.patch(ScriptedRouter, "next_hops", lambda *_, wrong=wrong: succeed(wrong))
            self.assertEqual([self.hops(), self.hops()], [[], []])
            (error,) = self.flushLoggedErrors(LocalProtocolError)
            self.assertIn(words, str(error.value))
            patch.restore()
            self.clock.advance(RETRY)
            self.assertEqual(self.hops(), ["gA"])
            self.table.changed()

    def test_no_answer(self) -> None:
        """After a time it counts as a missing route, and the router is queried again."""
        self.assertEqual(self.hops(), [])
        self.clock.advance(PATIENCE)
        (error,) = self.flushLoggedErrors(LocalProtocolError)
        self.assertIn("has not answered for 60 s", str(error.value))
        self.assertEqual(self.changes, [CC])
        self.router.answers = [["gA"]]
        self.assertEqual(self.hops(), [])
        self.clock.advance(RETRY)
        self.assertEqual((self.hops(), len(self.router.asked)), (["gA"], 2))

    def test_a_router_that_waits_in_a_callback(self) -> None:
        """Its answer is late too, though its Deferred was called: waiting callers are notified of it, or of a
        missing route after a time.
        """
        waiting: list[Deferred[Sequence[QueueManager]]] = []

        def next_hops(*_: object) -> Deferred[Sequence[QueueManager]]:
            waiting.append(Deferred())
            return succeed(None).addCallback(lambda _: waiting[-1])

        self.patch(ScriptedRouter, "next_hops", next_hops)
        self.assertEqual(self.hops(), [])
        waiting[0].callback([machine("gA")])
        self.assertEqual((self.changes, self.hops()), ([CC], ["gA"]))
        self.table.changed()
        self.assertEqual(self.hops(), [])
        self.clock.advance(PATIENCE)
        self.assertEqual(len(self.flushLoggedErrors(LocalProtocolError)), 1)
        self.assertTrue(waiting[1].called)
        self.assertEqual(self.changes, [CC, CC, CC])

    def test_a_stop_before_the_answer(self) -> None:
        """The query is cancelled, and nothing is left in the reactor."""
        self.hops()
        self.table.stop()
        self.assertTrue(self.router.waiting[0].called)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])

    def test_late_answer(self) -> None:
        """Until the answer there is no route, and no second query; then waiting callers are notified."""
        self.assertEqual([self.hops(), self.hops()], [[], []])
        self.router.answer("gA")
        self.assertEqual(self.changes, [CC])
        self.assertEqual(self.hops(), ["gA"])
        self.assertEqual(len(self.router.asked), 1)

    def test_without_a_router(self) -> None:
        """There is no route to any queue manager."""
        table = RouteTable(CA, None, self.clock.reactor, self)
        self.assertEqual(table.hops(CC), ())
        table.missed([GA])
        table.changed()
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])

    def test_no_route(self) -> None:
        """MQQB-3.1.7.5-03: it is looked up again a minute later, and meanwhile not."""
        self.router.answers = [nowhere(), nowhere(), ["gA"]]
        for _ in range(2):
            self.assertEqual([self.hops(), self.hops()], [[], []])
            self.clock.advance(RETRY)
        self.assertEqual(self.changes, [CC, CC])
        self.assertEqual(self.hops(), ["gA"])
        self.clock.advance(2 * RETRY)
        self.assertEqual(len(self.router.asked), 3)

    def test_router_that_fails(self) -> None:
        """Its failure is logged, and it is asked again as if there were no route."""
        self.router.answers = [ValueError("broken"), ["gA"]]
        self.assertEqual(self.hops(), [])
        [logged] = self.flushLoggedErrors(ValueError)
        self.assertEqual(str(logged.value), "broken")
        self.clock.advance(RETRY)
        self.assertEqual(self.hops(), ["gA"])

    def test_routes_change(self) -> None:
        """Each that was looked up is looked up again; an answer to an earlier query comes too late."""
        self.router.answers = [["gA"]]
        self.hops()
        self.hops(GB)
        self.table.changed()
        self.assertEqual(self.changes, [CC, GB])
        self.router.answers = [["gC"]]
        self.assertEqual((self.hops(), self.hops(GB)), (["gC"], []))
        self.router.answer("gA")
        self.assertEqual(self.hops(GB), [])
        self.router.answer("gB")
        self.assertEqual(self.hops(GB), ["gB"])

    def test_a_route_that_appears(self) -> None:
        """A change ends the wait for a missing route."""
        self.router.answers = [nowhere(), ["gA"]]
        self.hops()
        self.table.changed()
        self.assertEqual(self.hops(), ["gA"])
        self.clock.advance(2 * RETRY)
        self.assertEqual(len(self.router.asked), 2)

    def test_a_query_changes_the_routes(self) -> None:
        """A query without result has the enterprise read, which may be done before the answer is there."""
        self.router.answers = [nowhere(), ["gA"]]
        self.router.on_asked = [self.table.changed]
        self.assertEqual(self.hops(), ["gA"])

    def test_missed(self) -> None:
        """Routes through an unreachable queue manager are looked up without it, others are kept."""
        self.router.answers = [["gA"], ["gB"]]
        self.hops()
        self.hops(GB)
        self.table.missed([GA])
        self.assertEqual(self.changes, [CC])
        self.router.answers = [["gC"]]
        self.assertEqual((self.hops(), self.hops(GB)), (["gC"], ["gB"]))
        self.assertEqual(self.router.asked[-1], (CC, frozenset([GA])))
        self.table.missed([GA])
        self.assertEqual(self.changes, [CC])

    def test_missed_during_a_query(self) -> None:
        """A next hop that is found to be down while it is looked up is not used."""
        for is_at_once in (True, False):
            with self.subTest(is_at_once=is_at_once):
                self.setUp()
                self.assertEqual(self.hops(), [])
                self.table.missed([GB])
                self.router.answers = [["gC"]] if is_at_once else []
                self.router.answer("gB")
                if not is_at_once:
                    self.assertEqual((self.hops(), self.changes), ([], []))
                    self.router.answer("gC")
                self.assertEqual(self.router.asked, [(CC, frozenset()), (CC, {GB})])
                self.assertEqual((self.hops(), self.changes), (["gC"], [CC]))

    def test_missed_destination(self) -> None:
        """There is no route around the destination itself, which is not avoided on routes to it."""
        self.router.answers = [["gB"]]
        self.hops(GB)
        self.table.missed([GB])
        self.assertEqual(self.changes, [])
        self.table.changed()
        self.hops(GB)
        self.assertEqual(self.router.asked[-1], (GB, frozenset()))

    def test_avoided_for_a_while(self) -> None:
        """After a minute the old route is tried again."""
        self.router.answers = [["gA"], ["gC"], ["gA"]]
        self.hops()
        self.table.missed([GA])
        self.hops()
        self.clock.advance(AVOIDED - 1)
        self.assertEqual(self.changes, [CC])
        self.clock.advance(1)
        self.assertEqual((self.changes, self.hops()), ([CC, CC], ["gA"]))
        self.assertEqual(self.router.asked[-1], (CC, frozenset()))

    def test_reached_again(self) -> None:
        """A session with it ends that at once; one with another queue manager does not."""
        self.router.answers = [["gA"], ["gC"], ["gA"]]
        self.hops()
        self.table.missed([GA])
        self.hops()
        self.table.reached(GB)
        self.assertEqual(self.changes, [CC])
        self.table.reached(GA)
        self.assertEqual((self.changes, self.hops()), ([CC, CC], ["gA"]))
        self.clock.advance(2 * AVOIDED)
        self.assertEqual(len(self.router.asked), 3)

    def test_stopped(self) -> None:
        """No query, wait or notification follows."""
        self.router.answers = [nowhere()]
        self.hops()
        self.hops(GB)
        self.table.missed([GA])
        self.table.stop()
        self.router.answer("gB")
        self.assertEqual((self.hops(GB), self.hops(GC), self.changes), ([], [], []))
        self.table.missed([GC])
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])
