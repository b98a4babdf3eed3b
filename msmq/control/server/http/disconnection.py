"""Awaiting work for requests whose caller may disconnect at any time."""

from __future__ import annotations

from collections.abc import Awaitable
from types import CoroutineType
from typing import TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

_T = TypeVar("_T")


def running(work: Awaitable[_T]) -> Deferred[_T]:
    """Start the work; cancelling the Deferred cancels it."""
    if isinstance(work, CoroutineType):
        return Deferred.fromCoroutine(work)
    if isinstance(work, Deferred):
        return work

    async def wait() -> _T:
        return await work

    return Deferred.fromCoroutine(wait())


def shielded(work: Awaitable[_T]) -> Deferred[_T]:
    """Start the work, which continues when the Deferred is cancelled; its result is dropped then."""
    answer: Deferred[_T] = Deferred()
    running(work).chainDeferred(answer)
    return answer


def next_reactor_turn(clock: IReactorTime) -> Deferred[None]:
    """Fires in the next iteration of the reactor, after everything due in this one."""
    return deferLater(clock, 0)
