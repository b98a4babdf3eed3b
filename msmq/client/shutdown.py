"""RequestsAtShutdown: no request of a client, in its thread, holds a process whose reactor ends."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorCore, IReactorTime

from msmq.client.threads import SubmittedCall

LIMIT: Final = 5.0
"""Seconds for which the end of a reactor waits for requests that may take effect."""


class RequestsAtShutdown:
    """The pending requests of a client, which end with the reactor.

    A request that waits for messages is withdrawn at once. Another one is completed if that takes no longer
    than L{LIMIT}, since it may take effect. Nothing is registered while no request is pending.

    @param reactor: one that does not provide L{IReactorCore} has no end to wait for.
    """

    def __init__(self, reactor: object) -> None:
        self._core: IReactorCore | None = IReactorCore(reactor, None)
        self._clock: IReactorTime | None = IReactorTime(reactor, None)
        self._pending: set[SubmittedCall[Any]] = set()
        self._triggers: list[Any] = []
        self._has_begun = False
        self._completed: Deferred[None] | None = None

    def add(self, request: SubmittedCall[Any]) -> None:
        """A request begins."""
        self._pending.add(request)
        if self._core is None or self._triggers:
            return
        if not self._has_begun:
            self._triggers.append(self._core.addSystemEventTrigger("before", "shutdown", self._begin))
        self._triggers.append(self._core.addSystemEventTrigger("during", "shutdown", self._end))

    def discard(self, request: SubmittedCall[Any]) -> None:
        """A request has ended."""
        self._pending.discard(request)
        if self._pending:
            return
        triggers, self._triggers = self._triggers, []
        if self._core is not None:
            for trigger in triggers:
                self._core.removeSystemEventTrigger(trigger)
        completed, self._completed = self._completed, None
        if completed is not None:
            completed.callback(None)

    def _begin(self) -> Deferred[None] | None:
        self._has_begun = True
        # The first trigger has fired; the other one follows.
        del self._triggers[0]
        for request in list(self._pending):
            if request.is_wait:
                request.withdraw()
                self._pending.discard(request)
        if not self._pending or self._clock is None:
            return None
        completed: Deferred[None] = Deferred()
        self._completed = completed
        late = self._clock.callLater(LIMIT, self._withdraw)

        def end(result: None) -> None:
            if late.active():
                late.cancel()

        return completed.addCallback(end)

    def _end(self) -> None:
        self._triggers.clear()
        self._withdraw()

    def _withdraw(self) -> None:
        for request in list(self._pending):
            request.withdraw()
        self._pending.clear()
        completed, self._completed = self._completed, None
        if completed is not None:
            completed.callback(None)
