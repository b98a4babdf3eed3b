"""One run of a coroutine for all callers that ask for it meanwhile, such as the stop of a service."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure


class SharedRun:
    """Runs a coroutine; a caller that asks for it while it runs waits for that run.

    @param function: makes the coroutine.
    @param unreported: takes the failure of a run for which no caller waits any longer.
    """

    def __init__(
        self, function: Callable[[], Coroutine[Any, Any, None]], unreported: Callable[[Failure], object]
    ) -> None:
        self._function = function
        self._unreported = unreported
        self._is_running = False
        self._waiting: list[Deferred[None]] = []

    def join(self) -> Deferred[None]:
        """Run it, unless it runs.

        @return: fires with the result; cancelling it ends this wait alone.
        """
        joined: Deferred[None] = Deferred(lambda cancelled: self._waiting.remove(cancelled))
        self._waiting.append(joined)
        if not self._is_running:
            self._is_running = True
            Deferred.fromCoroutine(self._function()).addBoth(self._ended)
        return joined

    def _ended(self, result: Failure | None) -> None:
        self._is_running = False
        waiting, self._waiting = self._waiting, []
        for joined in waiting:
            if isinstance(result, Failure):
                joined.errback(result)
            else:
                joined.callback(None)
        if not waiting and isinstance(result, Failure):
            self._unreported(result)
