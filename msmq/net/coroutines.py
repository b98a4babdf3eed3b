"""Runs coroutines of applications, which may await Deferreds and, on asyncio's reactor, asyncio's futures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from msmq.background import cancel_again
from msmq.errors import LocalProtocolError

T = TypeVar("T")


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> Deferred[T]:
    """Run a coroutine of an application.

    On a reactor that runs on an asyncio loop it is a task of that loop: it can use libraries, time-outs and
    task groups of asyncio, and await Deferreds too. On other reactors it can only await Deferreds.

    @return: fires with its result; cancelling it cancels the coroutine.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return Deferred.fromCoroutine(coroutine)
    return Deferred.fromFuture(loop.create_task(_awaited(coroutine, loop))).addErrback(_cancelled)


async def in_asyncio(awaitable: Awaitable[T]) -> T:
    """Await what this package returns in a task of asyncio, on whose loop the reactor runs.

    Cancelling the task cancels the operation. A result that comes together with the cancellation, or from an
    operation that could not be cancelled any more, is returned, since nothing else would know of it: a
    message that is locked for the caller, for example. The cancellation follows at the next wait of the task,
    unless it was a time-out that has ended by then.

    @raise LocalProtocolError: it is not awaited in a task of asyncio.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        # There is no loop either.
        task = None
    if task is None:
        raise LocalProtocolError("in_asyncio is for tasks of asyncio; await the awaitable itself here")
    loop = task.get_loop()
    deferred = Deferred.fromCoroutine(_await(awaitable))
    steps = _Steps(_await(deferred), loop)
    try:
        return await steps
    finally:
        if steps.has_late_cancellation:
            loop.call_soon(cancel_again, task)


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _cancelled(failure: Failure) -> Failure:
    """A task that was cancelled, as a Deferred reports it."""
    if failure.check(asyncio.CancelledError):
        raise CancelledError from failure.value
    return failure


async def _awaited(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    return await _Steps(coroutine, loop)


class _Steps(Generic[T]):
    """The steps of a coroutine, in which each Deferred is awaited as a future."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        # A cancellation that came together with a result, and is due at the next wait.
        self._cancelled: asyncio.CancelledError | None = None

    @property
    def has_late_cancellation(self) -> bool:
        """Whether a cancellation came together with the last result."""
        return self._cancelled is not None

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine = self._coroutine
        error: BaseException | None = None
        while True:
            try:
                awaited = coroutine.send(None) if error is None else coroutine.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            error = None
            try:
                if isinstance(awaited, Deferred):
                    yield from self._until_fired(awaited)
                elif (cancelled := self._due()) is not None:
                    if isinstance(awaited, asyncio.Future):
                        awaited.cancel()
                    raise cancelled
                else:
                    yield awaited
            except BaseException as raised:
                error = raised

    def _due(self) -> asyncio.CancelledError | None:
        """The cancellation that came together with a result, once, if it still holds."""
        cancelled, self._cancelled = self._cancelled, None
        task = asyncio.current_task(self._loop)
        # An asyncio.timeout that has ended meanwhile has taken its cancellation back.
        return cancelled if task is not None and task.cancelling() else None

    def _until_fired(self, deferred: Deferred[Any]) -> Generator[Any, Any, None]:
        """Wait for a Deferred, and leave its result for the coroutine that awaits it."""
        waiting: asyncio.Future[None] = self._loop.create_future()
        results: list[Any] = []

        def fire(result: Any) -> Any:
            results.append(result)
            if not waiting.done():
                waiting.set_result(None)
            return result

        deferred.addBoth(fire)
        cancelled: asyncio.CancelledError | None = None
        is_asked = False
        while True:
            try:
                if not is_asked and (due := self._due()) is not None:
                    raise due
                yield from waiting.__await__()
                break
            except asyncio.CancelledError as error:
                cancelled = error
                if not results:
                    is_asked = True
                    deferred.cancel()
                if results:
                    break
                # The operation cannot be undone any more, and has a result soon.
                waiting = self._loop.create_future()
        if cancelled is None:
            return
        if is_asked and isinstance(results[0], Failure):
            # Its failure is the cancellation, which the coroutine gets.
            deferred.addErrback(lambda _: None)
            raise cancelled
        # The coroutine gets the result, such as a message that is locked for it.
        self._cancelled = cancelled
