"""Pending requests of a client when its reactor ends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorCore
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import directlyProvides

from msmq.client.shutdown import LIMIT, RequestsAtShutdown
from msmq.client.threads import SubmittedCall
from msmq.client.withdrawal import Withdrawal


class EndingReactor(Clock):
    """A clock with the triggers of a reactor, which ends when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.triggers: dict[str, list[Callable[[], Any]]] = {"before": [], "during": []}

    def addSystemEventTrigger(
        self, phase: str, event: str, work: Callable[[], Any]
    ) -> tuple[str, Callable[[], Any]]:
        """See C{IReactorCore}."""
        self.triggers[phase].append(work)
        return phase, work

    def removeSystemEventTrigger(self, trigger: tuple[str, Callable[[], Any]]) -> None:
        """See C{IReactorCore}; it is an error for one that is not there any more."""
        self.triggers[trigger[0]].remove(trigger[1])

    def begin_to_end(self) -> list[Deferred[None]]:
        """The first phase: what it waits for."""
        found = []
        while self.triggers["before"]:
            if isinstance(result := self.triggers["before"].pop(0)(), Deferred):
                found.append(result)
        return found

    def end(self) -> None:
        """The second phase."""
        while self.triggers["during"]:
            self.triggers["during"].pop(0)()


class ShutdownTests(SynchronousTestCase):
    """Requests that wait for messages, and others."""

    def setUp(self) -> None:
        self.reactor = EndingReactor()
        directlyProvides(self.reactor, *list(Clock.__provides__), IReactorCore)  # type: ignore[attr-defined]
        self.requests = RequestsAtShutdown(self.reactor)

    def request(self, *, is_wait: bool = False) -> tuple[SubmittedCall[None], Withdrawal]:
        """A pending request."""
        withdrawal = Withdrawal()
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()
        call = SubmittedCall(future, withdrawal, is_wait)
        self.requests.add(call)
        return call, withdrawal

    def test_nothing_pending(self) -> None:
        """A client without requests leaves nothing at the reactor, however many it had."""
        first, _ = self.request()
        second, _ = self.request(is_wait=True)
        self.assertEqual([len(each) for each in self.reactor.triggers.values()], [1, 1])
        self.requests.discard(first)
        self.requests.discard(second)
        self.assertEqual(self.reactor.triggers, {"before": [], "during": []})

    def test_waits_end_at_once(self) -> None:
        """A request that waits for messages is withdrawn; the reactor waits for the other one."""
        _, wait = self.request(is_wait=True)
        call, other = self.request()
        [ending] = self.reactor.begin_to_end()
        self.assertEqual((wait.is_withdrawn, other.is_withdrawn), (True, False))
        self.assertNoResult(ending)
        self.requests.discard(call)
        self.successResultOf(ending)
        self.assertEqual(self.reactor.getDelayedCalls(), [])
        self.reactor.end()
        self.assertFalse(other.is_withdrawn)

    def test_time_limit(self) -> None:
        """A request without an answer is withdrawn after five seconds."""
        call, other = self.request()
        [ending] = self.reactor.begin_to_end()
        self.reactor.advance(LIMIT - 0.1)
        self.assertNoResult(ending)
        self.reactor.advance(0.1)
        self.successResultOf(ending)
        self.assertTrue(other.is_withdrawn)
        self.requests.discard(call)
        self.reactor.end()

    def test_request_of_a_service_that_stops(self) -> None:
        """A request that begins while the reactor ends is made, until all services have stopped."""
        first, _ = self.request(is_wait=True)
        self.assertEqual(self.reactor.begin_to_end(), [])
        self.requests.discard(first)
        call, late = self.request()
        self.assertFalse(late.is_withdrawn)
        self.reactor.end()
        self.assertTrue(late.is_withdrawn)
        self.requests.discard(call)
