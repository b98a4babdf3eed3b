"""One delayed call for several deadlines."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from msmq.interfaces.clock import IClock


class Wakeup:
    """Calls when the earliest deadline has come, and is told whenever one may have changed.

    @param deadline: the earliest, in seconds of the monotonic clock; C{None} for none.
    @param expire: does what is due.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        clock: IClock,
        deadline: Callable[[], float | None],
        expire: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._clock = clock
        self._deadline = deadline
        self._expire = expire
        self._timer: IDelayedCall | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Call no more."""
        self._is_stopped = True
        self._cancel()

    def look(self) -> None:
        """See to it that the call comes in time."""
        if self._is_stopped:
            return
        deadline = self._deadline()
        if deadline is None:
            self._cancel()
            return
        delay = max(0.0, deadline - self._clock.now().monotonic)
        if self._timer is not None:
            if self._timer.getTime() <= self._reactor.seconds() + delay:
                return
            self._timer.cancel()
        self._timer = self._reactor.callLater(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._expire()
        self.look()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
