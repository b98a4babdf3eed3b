"""Simulated time: an event queue, and the clocks of hosts, which may be wrong."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from twisted.internet.base import DelayedCall
from twisted.internet.interfaces import IDelayedCall, IReactorFromThreads, IReactorTime
from zope.interface import implementer

from msmq.interfaces.clock import IClock
from msmq.moment import Moment
from msmq.testing.clock import START
from msmq.testing.network import MemoryHost


@implementer(IReactorTime)
class EventClock:
    """Scheduled calls in the order of their times, and of their scheduling.

    @ivar events: how many calls were made.
    @ivar failures: exceptions of calls, which a reactor would log.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._number = 0
        self._calls: list[tuple[float, int, DelayedCall]] = []
        self._watches: list[tuple[int, Callable[[], object]]] = []
        self.events = 0
        self.failures: list[Exception] = []

    def seconds(self) -> float:
        """See L{IReactorTime.seconds}."""
        return self._now

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kwargs: object
    ) -> IDelayedCall:
        """See L{IReactorTime.callLater}."""
        call = DelayedCall(
            self._now + delay, callable, args, kwargs, lambda _: None, self._push, self.seconds
        )
        self._push(call)
        return call

    def getDelayedCalls(self) -> list[DelayedCall]:
        """See L{IReactorTime.getDelayedCalls}."""
        return [call for _, _, call in sorted(self._calls) if call.active()]

    def _push(self, call: DelayedCall) -> None:
        self._number += 1
        heapq.heappush(self._calls, (call.getTime(), self._number, call))

    def advance(self, seconds: float) -> None:
        """Make all calls that are due by then."""
        self.advance_to(self._now + seconds)

    def advance_to(self, end: float, is_reached: Callable[[], bool] = lambda: False) -> bool:
        """Make the calls that are due by a time, or until something is reached; whether it was."""
        calls = self._calls
        while calls and calls[0][0] <= end:
            time, _, call = heapq.heappop(calls)
            if not call.active():
                continue
            due = call.getTime()
            if due > time:
                self._push(call)
                continue
            self._now = max(self._now, time)
            call.called = 1
            self.events += 1
            try:
                call.func(*call.args, **call.kw)
            except Exception as error:
                self.failures.append(error)
            if self._watches:
                self._watched()
            if is_reached():
                return True
        self._now = max(self._now, end)
        return is_reached()

    def watch(self, count: int, work: Callable[[], object]) -> None:
        """Do something after so many calls."""
        self._watches.append((self.events + count, work))

    def unwatch(self) -> None:
        """Do nothing more of that."""
        self._watches.clear()

    def _watched(self) -> None:
        due = [work for count, work in self._watches if count <= self.events]
        if due:
            self._watches = [watch for watch in self._watches if watch[0] > self.events]
            for work in due:
                work()


@implementer(IClock)
class HostClock:
    """The clocks of one host: the monotonic one may be fast or slow, the wall clock may be set.

    @param rate: seconds of the host for each second of the simulation.
    """

    def __init__(self, events: EventClock, rate: float, wall: float) -> None:
        self._events = events
        self._rate = rate
        self._wall = START.wall + wall

    def now(self) -> Moment:
        """See L{IClock.now}."""
        passed = self._events.seconds() * self._rate
        return Moment(START.monotonic + passed, self._wall + passed)

    def jump(self, seconds: float) -> None:
        """Set the wall clock."""
        self._wall += seconds

    def correct(self) -> None:
        """Set the wall clock right."""
        self._wall = START.wall

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return self.now().wall


@implementer(IReactorTime, IReactorFromThreads)
class HostReactor:
    """What a store takes for its reactor: the calls of a host, which end with its power."""

    def __init__(self, host: MemoryHost) -> None:
        self._host = host

    def seconds(self) -> float:
        """See L{IReactorTime.seconds}."""
        return self._host.seconds()

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kwargs: object
    ) -> IDelayedCall:
        """See L{IReactorTime.callLater}."""
        return self._host.callLater(delay, callable, *args, **kwargs)

    def getDelayedCalls(self) -> list[Any]:
        """See L{IReactorTime.getDelayedCalls}."""
        return self._host.getDelayedCalls()

    def callFromThread(self, callable: Callable[..., object], *args: object, **kwargs: object) -> None:
        """See L{IReactorFromThreads.callFromThread}."""
        self._host.callLater(0, callable, *args, **kwargs)
