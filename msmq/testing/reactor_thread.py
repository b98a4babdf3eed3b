"""The reactor in a thread of its own, for tests that block."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from inspect import isawaitable
from typing import Any, Final, TypeVar, cast, overload

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from msmq.errors import LocalProtocolError
from msmq.net.reactors import running_reactor
from msmq.quoting import kind_of

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds that a call may take by default."""


class ReactorThread:
    """Twisted's global reactor in a thread, once in a process.

    @raise LocalProtocolError: the reactor runs already: the test runs in it, and can await services itself.
    """

    def __init__(self) -> None:
        self._reactor = cast(Any, running_reactor())
        if self._reactor.running:
            raise LocalProtocolError(
                "ReactorThread: the reactor runs already; start the service in it, and await what it returns"
            )
        self._thread = threading.Thread(target=self._run, name="reactor", daemon=True)
        started = threading.Event()
        self._reactor.callWhenRunning(started.set)
        self._thread.start()
        started.wait(PATIENCE)

    def _run(self) -> None:
        self._reactor.run(installSignalHandlers=False)

    @overload
    def call(self, function: Callable[[], Awaitable[T]], *, timeout: float = PATIENCE) -> T: ...

    @overload
    def call(self, function: Callable[[], T], *, timeout: float = PATIENCE) -> T: ...

    def call(self, function: Callable[[], Any], *, timeout: float = PATIENCE) -> Any:
        """Call C{function} in the thread of the reactor; returns or raises its result.

        @param function: a coroutine function, or one that returns a Deferred or a value.
        @raise TimeoutError: it took longer than C{timeout} seconds, and was cancelled.
        """
        if not callable(function):
            raise LocalProtocolError(
                f"ReactorThread: call: function is {kind_of(function)}; it has to be a callable"
            )
        outcome: Future[Any] = Future()
        running: list[Deferred[Any]] = []

        def begin() -> None:
            waiting: Deferred[Any] = Deferred.fromCoroutine(_called(function))
            running.append(waiting)
            waiting.addBoth(finish)

        def finish(result: object) -> None:
            if isinstance(result, Failure):
                outcome.set_exception(result.value)
            else:
                outcome.set_result(result)

        def cancel() -> None:
            for waiting in running:
                waiting.cancel()

        self._reactor.callFromThread(begin)
        try:
            return outcome.result(timeout)
        except TimeoutError:
            if outcome.done():
                raise
            self._reactor.callFromThread(cancel)
            raise TimeoutError(f"it did not end within {timeout:g} s") from None

    def stop(self) -> None:
        """Stop the reactor; it cannot run again in this process."""
        if self._thread.is_alive():
            self._reactor.callFromThread(self._reactor.stop)
            self._thread.join(PATIENCE)


async def _called(function: Callable[[], Any]) -> Any:
    result = function()
    return await result if isawaitable(result) else result
