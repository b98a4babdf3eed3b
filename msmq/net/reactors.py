"""The reactor of programs that name none."""

from __future__ import annotations

import asyncio

from twisted.internet.interfaces import IReactorCore, IReactorTime

from msmq.errors import LocalProtocolError


def running_reactor() -> IReactorTime:
    """Twisted's global reactor; importing it installs the default one, if the program has installed none.

    @raise LocalProtocolError: an event loop of asyncio runs in this thread and the reactor does not run, so
        that nothing would ever happen.
    """
    from twisted.internet import reactor

    if _is_in_event_loop() and not IReactorCore(reactor).running:
        raise LocalProtocolError(
            "Twisted's reactor does not run on this event loop of asyncio, so nothing would be sent or"
            " received: start the program with twisted.internet.task.react instead of asyncio.run, after"
            " twisted.internet.asyncioreactor.install if it uses asyncio; msmq.client.AsyncioClient needs"
            " neither"
        )
    return IReactorTime(reactor)


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
