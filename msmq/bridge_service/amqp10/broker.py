"""A broker of AMQP 1.0 as a route uses it."""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from msmq.bridge_service.amqp10.connection import Amqp10Connection, connect
from msmq.bridge_service.amqp10.settings import Amqp10Settings
from msmq.bridge_service.brokers import IBridgedBroker


@implementer(IBridgedBroker)
class Amqp10Broker:
    """See L{IBridgedBroker}."""

    def __init__(self, settings: Amqp10Settings, reactor: Any) -> None:
        self._settings = settings
        self._reactor = reactor
        self._addresses = {str(address): address for address in settings.addresses}
        self.nodes = tuple(self._addresses)

    async def connect(self, node: str) -> Amqp10Connection:
        """See L{IBridgedBroker}."""
        return await connect(self._settings, self._addresses[node], self._reactor)
