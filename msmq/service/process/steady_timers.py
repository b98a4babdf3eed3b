"""Timers of the reactor that pass evenly when the wall clock is set."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class SchedulingReactor(Protocol):
    """A reactor, whose C{callLater} schedules by its C{seconds}."""

    seconds: Callable[[], float]


class SteadySeconds:
    """Seconds that begin as those of the wall clock, and go on as those of the monotonic clock.

    @param wall: seconds of the wall clock.
    @param monotonic: seconds of a clock that is never set.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic = monotonic
        self._difference = wall() - monotonic()

    def __call__(self) -> float:
        """The seconds now."""
        return self._difference + self._monotonic()


def keep_timers_steady(reactor: SchedulingReactor) -> None:
    """Let the reactor measure time by the monotonic clock from now on; a second call has no effect.

    Twisted's reactors schedule by C{time.time}: where the wall clock is set back by an hour, every timer that
    is pending is an hour late, those of connections, acknowledgements and expiry among them, and where it is
    set forward all of them are due at once. Calls that are scheduled already keep their times. What
    C{reactor.seconds} returns differs from the wall clock after such a change.
    """
    if not isinstance(reactor.seconds, SteadySeconds):
        reactor.seconds = SteadySeconds()
