"""Coroutines that run apart from their caller, and complete even if it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Final, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

T = TypeVar("T")

_LOG: Final = Logger()


def undivided(step: Coroutine[Deferred[Any], Any, T]) -> Deferred[T]:
    """Run a step that commits to the store and then performs the consequences.

    Cancelling does not undo a commit, so its consequences have to be performed in any case.
    The canceller gets a CancelledError at once; the step continues, and a later failure is logged.
    """
    answer: Deferred[T] = Deferred()

    def end(result: T | Failure) -> None:
        if not answer.called:
            answer.callback(result)
        elif isinstance(result, Failure):
            _LOG.warn("a step whose caller has stopped waiting failed: {error}", error=result.value)

    Deferred.fromCoroutine(step).addBoth(end)
    return answer


def run_in_background(work: Coroutine[Deferred[Any], Any, None], what: str) -> None:
    """Begin work that nothing waits for; an error that it raises is logged.

    @param what: the work, for the log line if it fails, which it is not expected to.
    """
    Deferred.fromCoroutine(work).addErrback(
        lambda failure: _LOG.failure("unexpected error: {what} failed", failure, what=what)
    )


async def completed(step: Coroutine[Deferred[Any], Any, T]) -> T:
    """Run a step, and have its result also if the caller is cancelled meanwhile.

    A cancellation of Twisted has no effect then, and one of asyncio follows at the next wait of the task: the
    caller could not learn a result in any other way.
    """
    ended: list[T | Failure] = []
    waiting: Deferred[None] = Deferred()
    task: asyncio.Task[Any] | None = None

    def end(result: T | Failure) -> None:
        ended.append(result)
        if not waiting.called:
            waiting.callback(None)

    Deferred.fromCoroutine(step).addBoth(end)
    while not ended:
        try:
            await waiting
        except CancelledError:
            waiting = Deferred()
        except asyncio.CancelledError:
            waiting, task = Deferred(), asyncio.current_task()
    if task is not None:
        task.get_loop().call_soon(cancel_again, task)
    [result] = ended
    if isinstance(result, Failure):
        result.raiseException()
    return result


async def to_the_end(work: Awaitable[None]) -> None:
    """Wait for some work, also if this is cancelled meanwhile: half a close leaves a thread or a socket.

    @raise CancelledError: this was cancelled, and the work is done.
    """

    outcome: list[Failure | None] = []
    waiting: Deferred[None] = Deferred()

    async def wait() -> None:
        await work

    def ended(result: Failure | None) -> None:
        outcome.append(result)
        if not waiting.called:
            waiting.callback(None)

    Deferred.fromCoroutine(wait()).addBoth(ended)
    cancelled: CancelledError | None = None
    while not outcome:
        try:
            await waiting
        except CancelledError as error:
            cancelled = error
            waiting = Deferred()
    [failure] = outcome
    if failure is not None:
        failure.raiseException()
    if cancelled is not None:
        raise cancelled


def cancel_again(task: asyncio.Task[Any]) -> None:
    """Cancel a task whose cancellation came together with a result, if that still holds."""
    if task.cancelling():
        # It was counted before.
        task.uncancel()
        task.cancel()
