"""Addresses of brokers of AMQP 1.0: C{amqp10://HOST:PORT/ADDRESS}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import unquote

from twisted.internet.interfaces import IReactorTime

from msmq.bridge_service.addresses import BrokerUrl, parse_url
from msmq.bridge_service.amqp10.settings import Amqp10Settings
from msmq.bridge_service.broker_settings import BrokerSettings
from msmq.bridge_service.brokers import IBridgedBroker
from msmq.bridge_service.family import BrokerEnd, BrokerFamily, RouteKeyError

_PORTS = {"amqp10": 5672, "amqps10": 5671}


class Amqp10Family(BrokerFamily):
    """Brokers of AMQP 1.0: Azure Service Bus, ActiveMQ Artemis, Qpid, RabbitMQ with its plugin."""

    name = "AMQP 1.0"
    package = "proton"
    distribution = "python-qpid-proton"
    extra = "amqp10"
    schemes: ClassVar[Mapping[str, bool]] = {"amqp10": False, "amqps10": True}
    settings = Amqp10Settings
    form = "amqp10://HOST:PORT/ADDRESS"
    keys = frozenset({"heartbeat"})
    settable = frozenset(
        (
            *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "type"),
            *("priority", "group_id"),
        )
    )

    def broker(self, settings: BrokerSettings, reactor: IReactorTime) -> IBridgedBroker:
        """See L{BrokerFamily}."""
        from msmq.bridge_service.amqp10.broker import Amqp10Broker

        assert isinstance(settings, Amqp10Settings)
        return Amqp10Broker(settings, reactor)

    def parse(self, text: str) -> BrokerUrl:
        """See L{BrokerFamily}."""
        port = _PORTS[text.partition("://")[0].lower()]
        return parse_url(text, port, self.form, ("hostname",))

    def outward(self, text: str, values: Mapping[str, Any], route: str) -> BrokerEnd:
        """See L{BrokerFamily}."""
        url = self.parse(text)
        if values["answers"] and (url.path or values["routing_key"]):
            raise RouteKeyError("answers", "publishes to the reply-to of requests; to has an address")
        if not values["answers"] and not url.path:
            raise RouteKeyError("to", "has no address")
        return BrokerEnd(settings=self._settings(url, values, route), exchange=unquote(url.path))

    def inward(self, text: str, values: Mapping[str, Any], route: str) -> BrokerEnd:
        """See L{BrokerFamily}."""
        url = self.parse(text)
        if not url.path:
            raise RouteKeyError("from", "has no address")
        return BrokerEnd(settings=self._settings(url, values, route), source=unquote(url.path))

    def _settings(self, url: BrokerUrl, values: Mapping[str, Any], route: str) -> Amqp10Settings:
        return Amqp10Settings(
            hostname=url.parameters.get("hostname", ""),
            container=f"msmq-bridge/{route}",
            **self.connection(url, values),
        )
