"""Manual clock: time that a test advances."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.moment import Moment
from msmq.quoting import kind_of, quoted

T = TypeVar("T")

START = Moment(monotonic=1000.0, wall=1_700_000_000.0)
"""Start time of a L{ManualClock}: 2023-11-14 22:13:20 UTC."""
LONGEST_RUN: Final = 60.0
"""Simulated seconds that something may take by default."""

MOST_AT_ONCE: Final = 1_000_000
"""Limit on the calls that are scheduled without a delay at one moment."""


class SimulatedReactor(Clock):
    """Twisted's clock, on which calls that schedule themselves without a delay do not go on without end."""

    def __init__(self) -> None:
        super().__init__()
        self._moment = -1.0
        self._at_once = 0

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kw: object
    ) -> IDelayedCall:
        """See L{IReactorTime.callLater<twisted.internet.interfaces.IReactorTime.callLater>}.

        @raise LocalProtocolError: there were L{MOST_AT_ONCE} calls without a delay, and no time has passed.
        """
        now = self.seconds()
        if now + delay <= now:
            if now != self._moment:
                self._moment, self._at_once = now, 0
            self._at_once += 1
            if self._at_once > MOST_AT_ONCE:
                raise LocalProtocolError(
                    f"ManualClock: {MOST_AT_ONCE} calls were scheduled without a delay while no time has"
                    " passed; a call that schedules itself again needs a delay"
                )
        return super().callLater(delay, callable, *args, **kw)


@implementer(IClock)
class ManualClock:
    """Both clocks of a queue manager and the scheduler of its timers, advanced together.

    @ivar reactor: an C{IReactorTime} for the code under test; its scheduled calls run in L{advance}.
    """

    def __init__(self, start: Moment = START) -> None:
        self.reactor: Clock = SimulatedReactor()
        self._start = start

    def now(self) -> Moment:
        """See L{IClock.now}."""
        return self._start.later(self.reactor.seconds())

    def advance(self, seconds: float) -> None:
        """Advance the time, stopping at each due call, so that the call sees its own due time.

        @raise LocalProtocolError: C{seconds} is negative, or no number.
        """
        end = self.reactor.seconds() + _checked_seconds("advance: seconds", seconds)
        for call in iter(self._next_call, None):
            if call > end:
                break
            self.reactor.advance(max(0.0, call - self.reactor.seconds()))
        self.reactor.advance(max(0.0, end - self.reactor.seconds()))

    def advance_until(self, condition: Callable[[], object], within: float = LONGEST_RUN) -> bool:
        """Advance the time to the due call after which C{condition} is true.

        @param within: the seconds to advance at most.
        @return: whether it is true.
        @raise LocalProtocolError: an argument cannot be used; the error names it.
        """
        if not callable(condition):
            raise LocalProtocolError(
                f"ManualClock: advance_until: condition is {kind_of(condition)}; it has to be a callable"
            )
        end = self.reactor.seconds() + _checked_seconds("advance_until: within", within)
        while not condition():
            call = self._next_call()
            if call is None or call > end:
                self.advance(max(0.0, end - self.reactor.seconds()))
                return bool(condition())
            self.reactor.advance(max(0.0, call - self.reactor.seconds()))
        return True

    def run(self, awaitable: Awaitable[T], *, within: float = LONGEST_RUN) -> T:
        """The result of something that may take time, which advances until there is one.

        @param awaitable: a coroutine that awaits Deferreds and the like, or such an object.
        @param within: simulated seconds that it may take.
        @raise TimeoutError: it did not end in that time, and was cancelled.
        @raise Exception: what it raises.
        """
        if not hasattr(awaitable, "__await__"):
            raise LocalProtocolError(
                f"ManualClock: run: awaitable is {kind_of(awaitable)}; it has to be a coroutine or a Deferred"
            )
        running: Deferred[T] = Deferred.fromCoroutine(_awaited(awaitable))
        outcome: list[T | Failure] = []
        running.addBoth(outcome.append)
        try:
            has_ended = self.advance_until(lambda: bool(outcome), within)
        except BaseException:
            running.cancel()
            raise
        if not has_ended:
            running.cancel()
            raise TimeoutError(f"it did not end within {within:g} simulated seconds")
        [result] = outcome
        if isinstance(result, Failure):
            result.raiseException()
        return result

    def set_wall(self, wall: float) -> None:
        """Set the wall clock, forward or back, as an administrator does; timers are not affected."""
        self._start = Moment(self._start.monotonic, wall - self.reactor.seconds())

    def _next_call(self) -> float | None:
        return min((call.getTime() for call in self.reactor.getDelayedCalls()), default=None)


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _checked_seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LocalProtocolError(f"ManualClock: {name} is {kind_of(value)}; it has to be a number")
    if not math.isfinite(value) or value < 0:
        raise LocalProtocolError(f"ManualClock: {name} is {quoted(value)}; it has to be a number, at least 0")
    return value
