"""Awaiting work for requests whose caller may disconnect at any time."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from types import CoroutineType
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from msmq.background import undivided

_T = TypeVar("_T")


def running(work: Awaitable[_T]) -> Deferred[_T]:
    """Start the work; cancelling the Deferred cancels it."""
    return work if isinstance(work, Deferred) else Deferred.fromCoroutine(_as_coroutine(work))


def shielded(work: Awaitable[_T]) -> Deferred[_T]:
    """Start the work, which continues when the Deferred is cancelled.

    Its result is dropped then, and its failure is logged.
    """
    return undivided(_as_coroutine(work))


def _as_coroutine(work: Awaitable[_T]) -> Coroutine[Any, Any, _T]:
    if isinstance(work, CoroutineType):
        return work

    async def wait() -> _T:
        return await work

    return wait()


def next_reactor_turn(clock: IReactorTime) -> Deferred[None]:
    """Fires in the next iteration of the reactor, after everything due in this one."""
    return deferLater(clock, 0)
