"""Manual clock: time that a test advances."""

from __future__ import annotations

from twisted.internet.task import Clock
from zope.interface import implementer

from msmq.interfaces.clock import IClock
from msmq.moment import Moment

START = Moment(monotonic=1000.0, wall=1_700_000_000.0)
"""Start time of a L{ManualClock}: 2023-11-14 22:13:20 UTC."""


@implementer(IClock)
class ManualClock:
    """Both clocks of a queue manager and the scheduler of its timers, advanced together.

    @ivar reactor: an C{IReactorTime} for the code under test; its scheduled calls run in L{advance}.
    """

    def __init__(self, start: Moment = START) -> None:
        self.reactor = Clock()
        self._start = start

    def now(self) -> Moment:
        """See L{IClock.now}."""
        return self._start.later(self.reactor.seconds())

    def advance(self, seconds: float) -> None:
        """Advance the time, stopping at each due call, so that the call sees its own due time."""
        end = self.reactor.seconds() + seconds
        for call in iter(self._next_call, None):
            if call > end:
                break
            self.reactor.advance(max(0.0, call - self.reactor.seconds()))
        self.reactor.advance(max(0.0, end - self.reactor.seconds()))

    def set_wall(self, wall: float) -> None:
        """Set the wall clock, forward or back, as an administrator does; timers are not affected."""
        self._start = Moment(self._start.monotonic, wall - self.reactor.seconds())

    def _next_call(self) -> float | None:
        return min((call.getTime() for call in self.reactor.getDelayedCalls()), default=None)
