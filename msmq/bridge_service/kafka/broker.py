"""A cluster of Kafka as a route uses it."""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from msmq.background import to_the_end
from msmq.bridge_service.brokers import IBridgedBroker
from msmq.bridge_service.kafka.connection import KafkaConnection
from msmq.bridge_service.kafka.settings import KafkaSettings


@implementer(IBridgedBroker)
class KafkaBroker:
    """See L{IBridgedBroker}; all nodes are one, since any of them names the others."""

    def __init__(self, settings: KafkaSettings, reactor: Any) -> None:
        self._settings = settings
        self._reactor = reactor
        self.nodes = (settings.bootstrap,)

    async def connect(self, node: str) -> KafkaConnection:
        """See L{IBridgedBroker}."""
        connection = KafkaConnection(self._settings, self._reactor)
        try:
            await connection.connect()
        except BaseException:
            await to_the_end(connection.close())
            raise
        return connection
