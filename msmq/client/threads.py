"""Runs the calls of the blocking client in worker threads, for its asynchronous faces."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, Generic, TypeVar

import attrs

from msmq.client.withdrawal import Withdrawal
from msmq.errors import LocalProtocolError

T = TypeVar("T")

WORKERS: Final = 4
"""Requests of a client that are in progress at the same time; others wait."""

WAITS: Final = 16
"""Requests of a client that wait for messages at the same time, in addition to L{WORKERS}."""


@attrs.frozen(eq=False)
class SubmittedCall(Generic[T]):
    """A call that is made in a thread, or waits for one.

    @ivar future: its result.
    @ivar is_wait: whether it waits for something that may never come, and changes nothing.
    """

    future: Future[T]
    _withdrawal: Withdrawal
    is_wait: bool = False

    def withdraw(self) -> None:
        """Make it no more, if it waits; otherwise repeat no request of it, and end its connection."""
        self._withdrawal.withdraw()
        self.future.cancel()


class CallThreads:
    """Worker threads that start when they are needed, and end when the client is closed.

    Calls that wait for messages have separate threads, so that they hold up no other call.
    """

    def __init__(self, workers: int = WORKERS) -> None:
        self._pool = ThreadPoolExecutor(workers, "msmq-client")
        self._waits = ThreadPoolExecutor(WAITS, "msmq-client-wait")
        self._is_closed = False
        self._pending: set[Withdrawal] = set()

    def submit(self, call: Callable[[], T], *, is_wait: bool = False) -> SubmittedCall[T]:
        """Make a call in a thread; it fails with L{LocalProtocolError} once these are closed.

        The call sees the context variables of the caller, such as the current span of OpenTelemetry.

        @param is_wait: see L{SubmittedCall}.
        """
        withdrawal = Withdrawal()
        context = copy_context()

        def run() -> T:
            with withdrawal.applied():
                return call()

        if self._is_closed:
            refused: Future[T] = Future()
            refused.set_exception(LocalProtocolError("the client, or its consumer, is closed"))
            return SubmittedCall(refused, withdrawal, is_wait)
        self._pending.add(withdrawal)
        future = (self._waits if is_wait else self._pool).submit(context.run, run)
        future.add_done_callback(lambda _: self._pending.discard(withdrawal))
        return SubmittedCall(future, withdrawal, is_wait)

    def withdraw(self) -> None:
        """Repeat no request of the calls that are made at present."""
        for withdrawal in list(self._pending):
            withdrawal.withdraw()

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
            self._waits.shutdown(wait=False)
