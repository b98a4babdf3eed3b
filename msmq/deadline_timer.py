"""Deadline scheduler: one delayed call of the reactor for one deadline that moves."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from msmq.interfaces.clock import IClock
from msmq.moment import Moment


class DeadlineTimer:
    """Calls back once when a deadline has passed.

    A move to a later deadline is free: the pending call reschedules itself when it fires too early, which is
    cheaper than rescheduling it for every batch of messages. The callback sets the next deadline itself.

    @param expired: called with the time, at the deadline or after it; never after L{stop}.
    """

    __slots__ = ("_armed", "_call", "_clock", "_deadline", "_expired", "_is_stopped", "_reactor")

    def __init__(self, reactor: IReactorTime, clock: IClock, expired: Callable[[Moment], object]) -> None:
        self._reactor = reactor
        self._clock = clock
        self._expired = expired
        self._call: IDelayedCall | None = None
        self._deadline = 0.0
        self._armed = 0.0
        self._is_stopped = False

    def set(self, deadline: float | None) -> None:
        """Replace the deadline.

        @param deadline: in seconds of the monotonic clock; C{None} for none. One in the past expires in the
            next iteration of the reactor.
        """
        if deadline is None:
            if self._call is not None:
                self._cancel()
            return
        self._deadline = deadline
        if self._call is not None:
            if self._armed <= deadline:
                return
            self._call.cancel()
        elif self._is_stopped:
            return
        self._arm()

    def stop(self) -> None:
        """Cancel the deadline, drop the callback, and ignore later deadlines."""
        self._is_stopped = True
        self._expired = _ignored
        self._cancel()

    def _arm(self) -> None:
        self._armed = self._deadline
        delay = max(0.0, self._deadline - self._clock.now().monotonic)
        self._call = self._reactor.callLater(delay, self._fire)

    def _fire(self) -> None:
        self._call = None
        if self._armed < self._deadline:
            self._arm()
        else:
            self._expired(self._clock.now())

    def _cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None


def _ignored(now: Moment) -> None:
    """Replaces the callback after L{DeadlineTimer.stop}, so that the timer does not keep its owner alive."""
