"""Runs the calls of the blocking client in worker threads, for its asynchronous faces."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

WORKERS: Final = 4
"""Requests of a client that are in progress at the same time; others wait."""


class CallThreads:
    """Worker threads that start when they are needed, and end when the client is closed."""

    def __init__(self, workers: int = WORKERS) -> None:
        self._pool = ThreadPoolExecutor(workers, "msmq-client")

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Make a call in a thread."""
        return self._pool.submit(call)

    def close(self) -> None:
        """Accept no more calls; those that were submitted are completed, and then the threads end."""
        self._pool.shutdown(wait=False)
