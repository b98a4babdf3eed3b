"""Measures blocking of the reactor by single callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from msmq.interfaces.clock import IClock
from msmq.line_limit import LineLimit

INTERVAL: Final = 0.1
"""Seconds between two measurements."""

LONG: Final = 0.1
"""Seconds from which on a delay is logged."""

LINES: Final = 5
"""Lines of the log in a minute about long delays."""


class ReactorTurns:
    """Measures how late the reactor makes a call that is due every L{INTERVAL}.

    While the reactor is busy nothing is read from any connection, so this is the delay that every peer and
    client sees.
    A turn lasted at least as long as the delay, and at most L{INTERVAL} longer.

    @param observe: gets each delay, in seconds.
    @ivar longest: the longest delay so far, in seconds.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, reactor: IReactorTime, clock: IClock, observe: Callable[[float], object]) -> None:
        self._reactor = reactor
        self._clock = clock
        self._observe = observe
        self._lines = LineLimit.a_minute(LINES)
        self._call: IDelayedCall | None = None
        self._due = 0.0
        self.longest = 0.0

    def start(self) -> None:
        """Begin to measure."""
        self._due = self._reactor.seconds() + INTERVAL
        self._call = self._reactor.callLater(INTERVAL, self._measure)

    def stop(self) -> None:
        """Measure no more."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _measure(self) -> None:
        delay = max(0.0, self._reactor.seconds() - self._due)
        self._observe(delay)
        self.longest = max(self.longest, delay)
        if delay >= LONG and (others := self._lines.take(self._clock.now())) is not None:
            self.log.warn(
                "reactor busy for {milliseconds} ms: nothing was read or written meanwhile, longest so far"
                " {longest} ms{others}",
                milliseconds=round(delay * 1000),
                longest=round(self.longest * 1000),
                others=others,
            )
        self.start()
