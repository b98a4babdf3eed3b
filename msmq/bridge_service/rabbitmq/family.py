"""Addresses of RabbitMQ: C{amqp://HOST/VHOST?exchange=...}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import unquote

from twisted.internet.interfaces import IReactorTime

from msmq.bridge_service.addresses import BrokerUrl, parse_url
from msmq.bridge_service.broker_settings import BrokerSettings
from msmq.bridge_service.brokers import IBridgedBroker
from msmq.bridge_service.family import BrokerEnd, BrokerFamily, RouteKeyError
from msmq.bridge_service.rabbitmq.settings import RabbitSettings

_PORTS = {"amqp": 5672, "amqps": 5671}


class RabbitFamily(BrokerFamily):
    """RabbitMQ, over AMQP 0-9-1."""

    name = "RabbitMQ"
    package = "pika"
    distribution = "pika"
    extra = "rabbitmq"
    schemes: ClassVar[Mapping[str, bool]] = {"amqp": False, "amqps": True}
    settings = RabbitSettings
    form = "amqp://HOST:PORT/VHOST?..."
    keys = frozenset({"heartbeat"})
    settable = frozenset(
        (
            *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "type"),
            *("app_id", "priority"),
        )
    )

    longest_text = 255

    def broker(self, settings: BrokerSettings, reactor: IReactorTime) -> IBridgedBroker:
        """See L{BrokerFamily}."""
        from msmq.bridge_service.rabbitmq.broker import RabbitBroker

        assert isinstance(settings, RabbitSettings)
        return RabbitBroker(settings, reactor)

    def parse(self, text: str) -> BrokerUrl:
        """See L{BrokerFamily}."""
        port = _PORTS[text.partition("://")[0].lower()]
        url = parse_url(text, port, self.form, ("exchange", "routing_key", "queue"))
        if "/" in url.path:
            raise ValueError("has a virtual host with a slash; write %2F for it")
        return url

    def outward(self, text: str, values: Mapping[str, Any], route: str) -> BrokerEnd:
        """See L{BrokerFamily}."""
        url = self.parse(text)
        exchange, routing_key, queue = map(url.parameters.get, ("exchange", "routing_key", "queue"))
        if queue is not None and (exchange is not None or routing_key is not None):
            raise RouteKeyError("to", "has queue, and exchange or routing_key too")
        fixed = queue if queue is not None else routing_key
        if values["answers"] and (fixed or values["routing_key"] or exchange):
            raise RouteKeyError("answers", "publishes to the reply-to of requests; to has a routing key")
        if not values["answers"] and not (exchange or fixed or values["routing_key"]):
            raise RouteKeyError("to", "has neither exchange nor queue")
        return BrokerEnd(
            settings=self._settings(url, values), exchange=exchange or "", routing_key=fixed or ""
        )

    def inward(self, text: str, values: Mapping[str, Any], route: str) -> BrokerEnd:
        """See L{BrokerFamily}."""
        url = self.parse(text)
        queue = url.parameters.get("queue")
        if not queue or url.parameters.keys() != {"queue"}:
            raise RouteKeyError("from", "must have queue, and neither exchange nor routing_key")
        return BrokerEnd(settings=self._settings(url, values), source=queue)

    def _settings(self, url: BrokerUrl, values: Mapping[str, Any]) -> RabbitSettings:
        return RabbitSettings(virtual_host=unquote(url.path) or "/", **self.connection(url, values))
