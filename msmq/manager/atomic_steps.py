"""Atomic steps: coroutines that complete even if their caller is cancelled."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred
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
