"""A thread for the blocking calls of one client of Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

T = TypeVar("T")

PAUSE: Final = 0.5
"""Seconds until C{idle} is called first, and what it returns for a client that has only callbacks."""


CLOSE_TIME: Final = 5.0
"""Seconds that a thread gets to end; after them it is left to itself."""


class ClientThread:
    """Makes calls one after the other in a thread of its own, and reports their results in the reactor.

    The number of calls that wait is bounded by the callers, which wait for the result of one before the next.

    @param idle: called in the thread when there is nothing else to do; returns the seconds to wait for a
        call before it is called again.  What it raises is reported to C{failed}, in the reactor, and it is
        not called any more.
    """

    def __init__(
        self,
        reactor: Any,
        idle: Callable[[], float],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._is_stopping = False
        self._reactor = reactor
        self._idle = idle
        self._failed = failed
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._ended: Deferred[None] = Deferred()
        self._thread = threading.Thread(target=self._run, name="msmq bridge to Kafka", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], T]) -> Deferred[T]:
        """Make a call in the thread; the result of one that is cancelled is dropped."""
        result: Deferred[T] = Deferred()

        def run() -> None:
            try:
                value = work()
            except Exception as error:
                failure = Failure(error)
                self.report(lambda: _fail(result, failure))
            else:
                self.report(lambda: _fire(result, value))

        self._calls.put(run)
        return result

    def report(self, work: Callable[[], None]) -> None:
        """Call something in the reactor, from the thread."""
        self._reactor.callFromThread(work)

    def stop(self, last: Callable[[], None]) -> Deferred[None]:
        """End the thread after a last call in it; fires when it has ended, or hangs."""
        if not self._is_stopping:
            self._is_stopping = True
            self._calls.put(last)
            self._calls.put(None)

        def no_longer_late(_: object = None) -> None:
            if late.active():
                late.cancel()

        stopped: Deferred[None] = Deferred(no_longer_late)
        late = self._reactor.callLater(CLOSE_TIME, _fire, stopped, None)

        def ended(_: None) -> None:
            no_longer_late()
            _fire(stopped, None)

        self._ended.addCallback(ended)
        return stopped

    def _run(self) -> None:
        pause: float | None = PAUSE
        while True:
            try:
                call = self._calls.get(timeout=pause)
            except Empty:
                try:
                    pause = self._idle()
                except Exception as error:
                    pause = None
                    self.report(lambda error=error: self._failed(error))  # type: ignore[misc]
                continue
            if call is None:
                break
            try:
                call()
            except Exception as error:
                # The last call: what cannot be closed is left to the end of the process.
                self.report(lambda error=error: self._failed(error))  # type: ignore[misc]
        self.report(lambda: self._ended.callback(None))


def _fire(result: Deferred[T], value: T) -> None:
    if not result.called:
        result.callback(value)


def _fail(result: Deferred[Any], failure: Failure) -> None:
    if not result.called:
        result.errback(failure)
