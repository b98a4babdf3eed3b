"""What several dead letters need at once is opened by the first of them, for all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from msmq.background import run_in_background

T = TypeVar("T")


class SharedOpening(Generic[T]):
    """One attempt at a time, whose result all have that wait for it, in their order.

    A lock would resume each from within the one before, deeper than the stack is.

    @param attempt: opens it.
    """

    def __init__(self, attempt: Callable[[], Awaitable[T]]) -> None:
        self._attempt = attempt
        self._waiting: list[Deferred[T]] = []

    def result(self) -> Deferred[T]:
        """Fires with what was opened, or fails as the attempt does."""
        waiter: Deferred[T] = Deferred()
        self._waiting.append(waiter)
        if len(self._waiting) == 1:
            run_in_background(self._try(), "opening a shared resource")
        return waiter

    async def _try(self) -> None:
        found: T | Failure
        try:
            found = await self._attempt()
        except Exception as error:
            found = Failure(error)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(found)
