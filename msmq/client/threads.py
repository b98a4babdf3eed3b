"""Runs the calls of the blocking client in worker threads, for its asynchronous faces."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from msmq.errors import LocalProtocolError

T = TypeVar("T")

WORKERS: Final = 4
"""Requests of a client that are in progress at the same time; others wait."""


class CallThreads:
    """Worker threads that start when they are needed, and end when the client is closed."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._pool = ThreadPoolExecutor(workers, "msmq-client")
        self._is_closed = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Make a call in a thread; it fails with L{LocalProtocolError} once these are closed."""
        if not self._is_closed:
            return self._pool.submit(call)
        refused: Future[T] = Future()
        refused.set_exception(LocalProtocolError("the client, or its consumer, is closed"))
        return refused

    def close(self, last: Callable[[], object] | None = None) -> None:
        """Accept no more calls; those that were submitted are completed, and then the threads end.

        Closing again has no effect.

        @param last: called in a thread, after those that wait.
        """
        if not self._is_closed:
            self._is_closed = True
            if last is not None:
                self._pool.submit(last)
            self._pool.shutdown(wait=False)
