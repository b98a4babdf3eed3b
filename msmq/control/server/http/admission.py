"""Waits of requests whose caller may lose its role meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from msmq.control.server.http.disconnection import running
from msmq.control.server.http.responses import ResponseStream
from msmq.structures.status import MQError

PERIOD: Final = 5.0
"""Seconds between two checks of the token of a caller that waits."""

_T = TypeVar("_T")


@contextmanager
def watched(
    stream: ResponseStream, clock: IReactorTime, refuse: Callable[[MQError], object]
) -> Iterator[None]:
    """Check the caller of a response now and then, while the block waits.

    @param refuse: called once, with MQ_ERROR_ACCESS_DENIED, if its token was removed or has another role.
    """
    if not stream.has_token:
        yield
        return

    def check() -> None:
        try:
            stream.check_caller()
        except MQError as error:
            refuse(error)
        except CancelledError:
            # The caller has disconnected, which ends the wait.
            pass
        else:
            calls.append(clock.callLater(PERIOD, check))
            del calls[0]

    calls: list[IDelayedCall] = [clock.callLater(PERIOD, check)]
    try:
        yield
    finally:
        if calls[0].active():
            calls[0].cancel()


async def while_admitted(stream: ResponseStream, work: Awaitable[_T], clock: IReactorTime) -> _T:
    """Await the work, which is cancelled if the caller of a response loses its role.

    @raise MQError: as the work; MQ_ERROR_ACCESS_DENIED if its token was removed or has another role.
    """
    refusals: list[MQError] = []
    doing = running(work)

    def refuse(error: MQError) -> None:
        refusals.append(error)
        doing.cancel()

    with watched(stream, clock, refuse):
        try:
            return await doing
        except CancelledError:
            if refusals:
                raise refusals[0] from None
            raise
