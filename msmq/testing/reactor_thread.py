"""The reactor in a thread of its own, for tests that block."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from inspect import isawaitable
from typing import Any, Final, TypeVar, cast, overload

from twisted.internet.defer import Deferred
from twisted.internet.error import ReactorNotRestartable
from twisted.python.failure import Failure

from msmq.errors import LocalProtocolError
from msmq.net.reactors import running_reactor
from msmq.quoting import kind_of

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds that a call may take by default."""


class ReactorThread:
    """Twisted's global reactor in a thread, once in a process.

    @raise LocalProtocolError: the reactor runs already: the test runs in it, and can await services itself;
        or it has run before, and cannot run again.
    """

    def __init__(self) -> None:
        self._reactor = cast(Any, running_reactor())
        if self._reactor.running:
            raise LocalProtocolError(
                "ReactorThread: the reactor runs already; start the service in it, and await what it returns"
            )
        self._thread = threading.Thread(target=self._run, name="reactor", daemon=True)
        self._begun = threading.Event()
        self._refusal: BaseException | None = None
        self._reactor.callWhenRunning(self._begun.set)
        self._thread.start()
        if problem := self._problem(has_begun=self._begun.wait(PATIENCE)):
            raise LocalProtocolError(f"ReactorThread: the reactor cannot run: {problem}")

    def _problem(self, *, has_begun: bool) -> str:
        if isinstance(self._refusal, ReactorNotRestartable):
            return "it has run in this process before; one ReactorThread serves all its tests"
        if self._refusal is not None:
            return repr(self._refusal)
        return "" if has_begun else f"it does not run after {PATIENCE:g} s"

    def _run(self) -> None:
        try:
            self._reactor.run(installSignalHandlers=False)
        except Exception as error:
            self._refusal = error
        finally:
            self._begun.set()

    @overload
    def call(self, function: Callable[[], Awaitable[T]], *, timeout: float = PATIENCE) -> T: ...

    @overload
    def call(self, function: Callable[[], T], *, timeout: float = PATIENCE) -> T: ...

    def call(self, function: Callable[[], Any], *, timeout: float = PATIENCE) -> Any:
        """Call C{function} in the thread of the reactor; returns or raises its result.

        @param function: a coroutine function, or one that returns a Deferred or a value.
        @raise TimeoutError: it took longer than C{timeout} seconds, and was cancelled.
        @raise LocalProtocolError: the reactor has stopped, or the caller is in its thread.
        """
        if not callable(function):
            raise LocalProtocolError(
                f"ReactorThread: call: function is {kind_of(function)}; it has to be a callable"
            )
        if not self._thread.is_alive():
            raise LocalProtocolError("ReactorThread: call: the reactor has stopped")
        if threading.current_thread() is self._thread:
            raise LocalProtocolError(
                "ReactorThread: call: this is the thread of the reactor, which cannot wait for itself; await"
                " the result"
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
