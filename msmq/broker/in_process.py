"""The messages that a broker processes at the moment, and the end of these when it stops."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime

GRACE: Final = 5.0
"""Seconds that messages in process, and coroutines for sessions, have to finish when the broker stops; then
they are cancelled.
"""


@attrs.define(eq=False)
class Processing:
    """One message in process, from the call of its coroutine until its outcome is stored, or one coroutine
    for a session.

    @ivar running: the coroutine of the broker that runs for it, if any.
    @ivar has_asked: the coroutine has asked the broker to stop, and may wait for the others.
    """

    running: Deferred[Any] | None = None
    has_asked: bool = False


# The message for which the code that runs was called: also in what its coroutine calls and awaits, in
# coroutines that this starts, and in tasks of asyncio.
_CURRENT: ContextVar[Processing | None] = ContextVar("msmq_broker_processing", default=None)


class MessagesInProcess:
    """The messages in process, or the coroutines for sessions that run.

    A stop cannot wait for a coroutine that waits for this stop.  So such a coroutine waits for the end of the
    other messages in process alone, L{others_ended}, and the stop waits for its message as the last.
    """

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self._all: set[Processing] = set()
        # What is waited for, each with its condition.
        self._waits: dict[Deferred[None], Callable[[], bool]] = {}
        self._has_waited_for_others = False

    def begin(self) -> Processing:
        """A message is processed by the coroutine that calls this, and by what that calls."""
        processing = Processing()
        self._all.add(processing)
        _CURRENT.set(processing)
        return processing

    def end(self, processing: Processing) -> None:
        """Its outcome is stored, or it will be processed again."""
        self._all.discard(processing)
        self._check()

    def others_ended(self) -> Deferred[None] | None:
        """The end of the other messages in process, for the coroutine of a message.

        @return: fires when they have ended, except those whose coroutines have called this too, or when
            L{stop} waits for them no longer; C{None} if the caller is not the coroutine of a message.
        """
        processing = _CURRENT.get()
        if processing not in self._all or processing is None:
            return None
        processing.has_asked = True
        ended = self._wait(lambda: self._has_waited_for_others or not self._working())
        self._check()
        return ended

    async def stop(self) -> bool:
        """Wait for the messages in process, and last for those whose coroutines have called L{others_ended}.

        Each time their coroutines have L{GRACE} seconds; then they are cancelled, and have that time again.

        @return: whether all have ended.
        """
        await self._finish(self._working)
        self._has_waited_for_others = True
        self._check()
        await self._finish(lambda: list(self._all))
        return not self._all

    def _working(self) -> list[Processing]:
        return [processing for processing in self._all if not processing.has_asked]

    async def _finish(self, remaining: Callable[[], list[Processing]]) -> None:
        """Wait until none of these remains, but for twice L{GRACE} seconds at most."""

        def cancel() -> None:
            for processing in remaining():
                if processing.running is not None:
                    processing.running.cancel()

        ended = self._wait(lambda: not remaining())
        ended.addTimeout(2 * GRACE, self._reactor)
        expired = self._reactor.callLater(GRACE, cancel)
        self._check()
        try:
            await ended
        except TimeoutError:
            pass
        finally:
            if expired.active():
                expired.cancel()

    def _wait(self, condition: Callable[[], bool]) -> Deferred[None]:
        ended: Deferred[None] = Deferred(self._waits.__delitem__)
        self._waits[ended] = condition
        return ended

    def _check(self) -> None:
        for ended in [ended for ended, condition in self._waits.items() if condition()]:
            if self._waits.pop(ended, None) is not None:
                ended.callback(None)
