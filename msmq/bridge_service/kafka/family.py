"""Addresses of Kafka: C{kafka://HOST:PORT,HOST:PORT/TOPIC}."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from twisted.internet.interfaces import IReactorTime

from msmq.bridge_service.addresses import BrokerUrl, parse_url
from msmq.bridge_service.broker_settings import BrokerSettings
from msmq.bridge_service.brokers import IBridgedBroker
from msmq.bridge_service.family import BrokerEnd, BrokerFamily, RouteKeyError
from msmq.bridge_service.kafka.settings import TOPIC_NAME, KafkaSettings
from msmq.quoting import quoted

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Mechanisms of SASL."""

_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9._-]")
_PORT: Final = 9092
_SESSION: Final = 45


class KafkaFamily(BrokerFamily):
    """Kafka."""

    name = "Kafka"
    package = "confluent_kafka"
    distribution = "confluent-kafka"
    extra = "kafka"
    schemes: ClassVar[Mapping[str, bool]] = {"kafka": False, "kafkas": True}
    settings = KafkaSettings
    form = "kafka://HOST:PORT,HOST:PORT/TOPIC"
    settable = frozenset(
        ("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "type", "app_id")
    )

    def broker(self, settings: BrokerSettings, reactor: IReactorTime) -> IBridgedBroker:
        """See L{BrokerFamily}."""
        from msmq.bridge_service.kafka.broker import KafkaBroker

        assert isinstance(settings, KafkaSettings)
        return KafkaBroker(settings, reactor)

    def parse(self, text: str) -> BrokerUrl:
        """See L{BrokerFamily}."""
        url = parse_url(text, _PORT, self.form, ("group", "mechanism", "session", "state_topic"))
        for topic in (unquote(url.path), url.parameters.get("state_topic", "")):
            if topic and TOPIC_NAME.fullmatch(topic) is None:
                raise ValueError("has a topic with other characters than letters, digits, '.', '-' and '_'")
        mechanism = url.parameters.get("mechanism", MECHANISMS[0])
        if mechanism not in MECHANISMS:
            raise ValueError(f"has the mechanism {quoted(mechanism)}; there are {', '.join(MECHANISMS)}")
        _session(url)
        return url

    def outward(self, text: str, values: Mapping[str, Any], route: str) -> BrokerEnd:
        """See L{BrokerFamily}."""
        url = self.parse(text)
        for name in ("group", "session"):
            if name in url.parameters:
                raise RouteKeyError("to", f"has {name}, which is of routes from a broker")
        if values["answers"] and (url.path or values["routing_key"]):
            raise RouteKeyError("answers", "publishes to the reply-to of requests; to has a topic or a key")
        if not values["answers"] and not url.path:
            raise RouteKeyError("to", "has no topic")
        return BrokerEnd(settings=self._settings(url, values, route), exchange=unquote(url.path))

    def inward(self, text: str, values: Mapping[str, Any], route: str) -> BrokerEnd:
        """See L{BrokerFamily}."""
        url = self.parse(text)
        if not url.path:
            raise RouteKeyError("from", "has no topic")
        if "state_topic" in url.parameters:
            raise RouteKeyError("from", "has state_topic, which is of routes to a broker")
        return BrokerEnd(settings=self._settings(url, values, route), source=unquote(url.path))

    def _settings(self, url: BrokerUrl, values: Mapping[str, Any], route: str) -> KafkaSettings:
        name = f"msmq-bridge.{_ILLEGAL.sub('_', route.replace('/', '.'))}"[:249]
        return KafkaSettings(
            client_name=name,
            group=url.parameters.get("group") or name,
            state_topic=url.parameters.get("state_topic") or name,
            mechanism=url.parameters.get("mechanism", MECHANISMS[0]),
            session_time=_session(url),
            **self.connection(url, values),
        )


def _session(url: BrokerUrl) -> float:
    """The seconds after which a group gives up a consumer."""
    text = url.parameters.get("session", str(_SESSION))
    if not text.isdecimal() or not text.isascii() or len(text) > 4 or not 1 <= int(text) <= 3600:
        raise ValueError(f"has the session {quoted(text)}; it has to be 1 to 3600 seconds")
    return float(text)
