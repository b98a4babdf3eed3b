"""Timer of the background verification: runs one step at a time, until it is stopped."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime


class ScrubTimer:
    """Calls the next step after a delay; never two at once.

    @ivar is_stopped: whether it was stopped.
    @param step: a step, which calls L{wait} when it has ended.
    """

    def __init__(self, reactor: IReactorTime, step: Callable[[], object]) -> None:
        self._reactor = reactor
        self._step = step
        self._call: IDelayedCall | None = None
        self.is_stopped = False

    def wait(self, seconds: float) -> None:
        """Start the next step after this many seconds."""
        if not self.is_stopped:
            self._call = self._reactor.callLater(seconds, self._begin)

    def stop(self) -> None:
        """Start no further step."""
        self.is_stopped = True
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _begin(self) -> None:
        self._call = None
        self._step()
