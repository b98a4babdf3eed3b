"""Limit on the time that a broker has for an answer."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime

from msmq.bridge_service.brokers import BrokerError


class NoAnswer(BrokerError):
    """The broker has not answered in time."""


async def in_time(work: Coroutine[Deferred[Any], Any, None], seconds: float, reactor: IReactorTime) -> None:
    """Wait for an answer, for a limited time.

    @raise NoAnswer: there is none after this number of seconds; the work is cancelled.
    """
    late = False

    def give_up(result: object, timeout: float) -> Any:
        nonlocal late
        late = True
        return result

    try:
        await Deferred.fromCoroutine(work).addTimeout(seconds, reactor, give_up)
    except CancelledError:
        if late:
            raise NoAnswer(f"the broker has not answered within {seconds:g} s") from None
        raise
