"""Manual clock: time that a test advances."""

from __future__ import annotations

from twisted.internet.task import Clock
from zope.interface import implementer

from msmq.interfaces.clock import IClock
from msmq.moment import Moment

START = Moment(monotonic=1000.0, wall=1_700_000_000.0)
"""When a L{ManualClock} begins: 2023-11-14 22:13:20 UTC."""


@implementer(IClock)
class ManualClock:
    """Both clocks of a queue manager and the scheduler of its timers, advanced together.

    @ivar reactor: give it to whatever wants an C{IReactorTime}; what is scheduled there runs in L{advance}.
    """

    def __init__(self, start: Moment = START) -> None:
        self.reactor = Clock()
        self._start = start

    def now(self) -> Moment:
        """See L{IClock.now}."""
        return self._start.later(self.reactor.seconds())

    def advance(self, seconds: float) -> None:
        """Let time pass, stopping wherever something is due, so that it sees the time it was due at."""
        end = self.reactor.seconds() + seconds
        for call in iter(self._next_call, None):
            if call > end:
                break
            self.reactor.advance(max(0.0, call - self.reactor.seconds()))
        self.reactor.advance(max(0.0, end - self.reactor.seconds()))

    def set_wall(self, wall: float) -> None:
        """Set the wall clock, forward or back, as an administrator does; timers do not notice."""
        self._start = Moment(self._start.monotonic, wall - self.reactor.seconds())

    def _next_call(self) -> float | None:
        return min((call.getTime() for call in self.reactor.getDelayedCalls()), default=None)
