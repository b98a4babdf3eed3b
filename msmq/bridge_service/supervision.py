"""Keeping a connection to one of the nodes of a broker: the next one after a back-off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import cycle

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from msmq.background import to_the_end
from msmq.bridge_service.broker_settings import BrokerSettings
from msmq.bridge_service.brokers import BrokerError, IBridgedBroker, IBrokerConnection


@attrs.frozen(kw_only=True)
class ConnectionReports:
    """What a supervised connection reports.

    @ivar connected: a node accepted the connection.
    @ivar failed: an attempt at a node failed, or the connection is lost; the next attempt follows in some
        seconds.
    @ivar is_stopped: whether there shall be no further attempt; not every endpoint can be cancelled.
    """

    connected: Callable[[str], None]
    failed: Callable[[str, BrokerError, float], None]
    is_stopped: Callable[[], bool]


async def supervise(
    broker: IBridgedBroker,
    settings: BrokerSettings,
    reactor: IReactorTime,
    use: Callable[[IBrokerConnection], Awaitable[None]],
    reports: ConnectionReports,
) -> None:
    """Keep a connection to one of the nodes until this is cancelled.

    @param use: called with each new connection; it is closed when the result fires, or fails with a
        L{BrokerError}.
    """
    delay = settings.retry
    for node in cycle(broker.nodes):
        connection = None
        try:
            connection = await broker.connect(node)
            if reports.is_stopped():
                return
            reports.connected(node)
            await use(connection)
            error = BrokerError("the connection was closed")
        except BrokerError as refused:
            error = refused
        finally:
            if connection is not None:
                await to_the_end(connection.close())
        if reports.is_stopped():
            return
        if connection is not None and connection.is_working:
            delay = settings.retry
        reports.failed(node, error, delay)
        await deferLater(reactor, delay)
        delay = min(2 * delay, settings.retry_maximum)
