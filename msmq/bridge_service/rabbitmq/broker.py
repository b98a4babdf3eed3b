"""RabbitMQ as a route uses it."""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from msmq.bridge_service.brokers import IBridgedBroker
from msmq.bridge_service.rabbitmq.connection import RabbitConnection, connect
from msmq.bridge_service.rabbitmq.settings import RabbitSettings


@implementer(IBridgedBroker)
class RabbitBroker:
    """See L{IBridgedBroker}."""

    def __init__(self, settings: RabbitSettings, reactor: Any) -> None:
        self._settings = settings
        self._reactor = reactor
        self._addresses = {str(address): address for address in settings.addresses}
        self.nodes = tuple(self._addresses)

    async def connect(self, node: str) -> RabbitConnection:
        """See L{IBridgedBroker}."""
        return await connect(self._settings, self._addresses[node], self._reactor)
