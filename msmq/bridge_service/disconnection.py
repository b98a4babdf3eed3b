"""The end of a connection to a broker, for which its close waits."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime


class Disconnection:
    """Whether a transport has ended.

    @ivar has_come: whether it has.
    """

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self._waiting: Deferred[None] | None = None
        self.has_come = False

    def come(self) -> None:
        """The transport has ended."""
        self.has_come = True
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)

    async def within(self, seconds: float, abort: Callable[[], object]) -> None:
        """Wait for the end, also if this is cancelled meanwhile.

        @param seconds: after them C{abort} is called, since a broker that hangs does not answer.
        @param abort: ends the transport at once; called too if this is cancelled.
        @raise CancelledError: this was cancelled, and the transport has ended.
        """
        late = self._reactor.callLater(seconds, abort)
        cancelled: CancelledError | None = None
        while not self.has_come:
            self._waiting = Deferred()
            try:
                await self._waiting
            except CancelledError as error:
                cancelled = error
                abort()
        if late.active():
            late.cancel()
        if cancelled is not None:
            raise cancelled
