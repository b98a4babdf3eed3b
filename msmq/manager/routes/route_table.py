"""Get Next Hops: caches the router's answers until routes change. [MS-MQQB] 3.1.7.5."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final, Protocol, TypeVar
from uuid import UUID

from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.errors import LocalProtocolError
from msmq.interfaces.routing import IRouter, NoRoute
from msmq.quoting import kind_of
from msmq.routing.topology import QueueManager

RETRY: Final = 60.0
"""Seconds after which the router is queried again for a missing route."""

PATIENCE: Final = 60.0
"""Seconds after which a query without an answer counts as one for a missing route."""

AVOIDED: Final = 60.0
"""Seconds for which a queue manager that could not be reached is avoided, where an alternate is allowed."""


T = TypeVar("T")


def _no_answer(result: Any, seconds: float) -> Any:
    """The error of a query that was cancelled for its time."""
    if isinstance(result, Failure) and result.check(CancelledError):
        raise LocalProtocolError(f"next_hops has not answered for {seconds:.0f} s")
    return result


class RouteListener(Protocol):
    """Is notified of new routes for pending messages."""

    def route_changed(self, destination: UUID) -> None:
        """The routes to this queue manager may have changed."""


class RouteTable:
    """Caches the router's answers until routes change."""

    log: ClassVar[Logger] = Logger()

    def __init__(
        self, own: UUID, router: IRouter | None, reactor: IReactorTime, listener: RouteListener
    ) -> None:
        """Create the cache of a router; without one only existing sessions are used.

        @param own: QueueManager.Identifier.
        """
        self._own = own
        self._router = router
        self._reactor = reactor
        self._known: dict[UUID, tuple[QueueManager, ...]] = {}
        self._asked: set[UUID] = set()
        self._retries: dict[UUID, IDelayedCall] = {}
        self._avoided: dict[UUID, IDelayedCall] = {}
        # Those that are not there yet.
        self._answers: set[Deferred[Any]] = set()
        self._is_stopped = False
        self._generation = 0
        self._listener = listener

    def hops(self, destination: UUID) -> tuple[QueueManager, ...]:
        """The queue managers to try, in order; empty if there is no route, or it is unknown yet.
        L{RouteListener.route_changed} is called when it becomes known.
        """
        if destination not in self._known and destination not in self._asked:
            self._ask(destination)
        return self._known.get(destination, ())

    @property
    def avoided(self) -> frozenset[UUID]:
        """The queue managers that could not be reached lately."""
        return frozenset(self._avoided)

    def changed(self) -> None:
        """The topology has changed: all routes are looked up again."""
        self._generation += 1
        known = list(dict.fromkeys((*self._known, *self._asked)))
        self._known.clear()
        self._asked.clear()
        for destination in known:
            self._drop_retry(destination)
            self._listener.route_changed(destination)

    def missed(self, identifiers: Iterable[UUID]) -> None:
        """These could not be reached: use other routes for a while."""
        new = [identifier for identifier in identifiers if identifier not in self._avoided]
        if self._router is None or self._is_stopped or not new:
            return
        for identifier in new:
            self._avoided[identifier] = self._reactor.callLater(AVOIDED, self.reached, identifier)
        self._forget_routes_through(new)

    def reached(self, identifier: UUID) -> None:
        """This one is reachable, or may be tried again."""
        call = self._avoided.pop(identifier, None)
        if call is None:
            return
        if call.active():
            call.cancel()
        # Whether there is a route is unknown before the query.
        self.changed()

    def stop(self) -> None:
        """Stop querying."""
        self._is_stopped = True
        for call in (*self._retries.values(), *self._avoided.values()):
            call.cancel()
        self._retries.clear()
        self._avoided.clear()
        for answer in list(self._answers):
            answer.cancel()

    def _forget_routes_through(self, missed: Iterable[UUID]) -> None:
        gone = set(missed)
        for destination, hops in list(self._known.items()):
            if any(hop.identifier in gone and hop.identifier != destination for hop in hops):
                del self._known[destination]
                self._listener.route_changed(destination)

    def _ask(self, destination: UUID, *, has_waited: bool = False) -> None:
        """Look up a route.

        @param has_waited: whether the listener waits for it.
        """
        if self._router is None or self._is_stopped:
            return
        self._asked.add(destination)
        avoided = frozenset(self._avoided) - {destination, self._own}
        generation = self._generation
        answer = Deferred.fromCoroutine(self._next_hops(self._router, destination, avoided))
        is_late = has_waited or not answer.called
        if not answer.called:
            self._answers.add(answer)
            answer.addTimeout(PATIENCE, self._reactor, _no_answer)
            answer.addBoth(self._ended, answer)

        def found(hops: tuple[QueueManager, ...]) -> None:
            if generation == self._generation:
                missed = self._avoided.keys() - avoided - {destination, self._own}
                if any(hop.identifier in missed for hop in hops):
                    # It became unreachable during the look-up, and would not be missed once more.
                    self._ask(destination, has_waited=is_late)
                else:
                    self._answered(destination, hops, is_late)
            elif not is_late and destination not in self._known and destination not in self._asked:
                # The query has changed the routes; its caller has no answer yet.
                self._ask(destination)

        def missing(failure: Failure) -> None:
            if self._is_stopped:
                return
            if failure.check(NoRoute) is None:
                self.log.failure("the router failed", failure)
            else:
                self.log.info("no route: {error}", error=failure.value)
            found(())

        answer.addCallbacks(found, missing).addErrback(
            lambda failure: self.log.failure("a new route could not be applied", failure)
        )

    async def _next_hops(
        self, router: IRouter, destination: UUID, avoided: frozenset[UUID]
    ) -> tuple[QueueManager, ...]:
        return self._checked(await maybeDeferred(router.next_hops, self._own, destination, avoided))

    def _ended(self, result: T, answer: Deferred[Any]) -> T:
        self._answers.discard(answer)
        return result

    def _checked(self, answered: object) -> tuple[QueueManager, ...]:
        """The answer of a router, which may be that of a plugin.

        @raise LocalProtocolError: it is not one.
        """
        hops: tuple[object, ...] | None = None
        if isinstance(answered, Iterable) and not isinstance(answered, str | bytes):
            hops = tuple(answered)
        if hops is None:
            raise LocalProtocolError(f"next_hops returned {kind_of(answered)}, not QueueManager objects")
        checked: list[QueueManager] = []
        for hop in hops:
            if not isinstance(hop, QueueManager):
                raise LocalProtocolError(f"next_hops returned {kind_of(hop)} among the QueueManager objects")
            if hop.identifier == self._own:
                raise LocalProtocolError("next_hops returned the queue manager itself, which has the message")
            checked.append(hop)
        return tuple(checked)

    def _answered(self, destination: UUID, hops: tuple[QueueManager, ...], is_late: bool) -> None:
        if self._is_stopped:
            return
        self._asked.discard(destination)
        self._known[destination] = hops
        if not hops:
            self._drop_retry(destination)
            self._retries[destination] = self._reactor.callLater(RETRY, self._retry, destination)
        if is_late:
            self._listener.route_changed(destination)

    def _retry(self, destination: UUID) -> None:
        del self._retries[destination]
        if not self._known.get(destination):
            self._known.pop(destination, None)
            self._listener.route_changed(destination)

    def _drop_retry(self, destination: UUID) -> None:
        call = self._retries.pop(destination, None)
        if call is not None and call.active():
            call.cancel()
