"""Basic properties between L{AmqpProperties} and pika."""

from __future__ import annotations

from typing import Any

from pika.spec import BasicProperties

from msmq.interfaces.bridge_messages import AmqpMessage, AmqpProperties

_TEXTS = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
)


def to_pika(properties: AmqpProperties) -> BasicProperties:
    """The properties of a message to publish."""
    return BasicProperties(
        properties.content_type,
        properties.content_encoding,
        dict(properties.headers) or None,
        properties.delivery_mode,
        properties.priority,
        properties.correlation_id,
        properties.reply_to,
        properties.expiration,
        properties.message_id,
        properties.timestamp,
        properties.type,
        properties.user_id,
        properties.app_id,
    )


def from_pika(method: Any, properties: Any, body: bytes) -> AmqpMessage:
    """A message that the broker delivers."""
    texts = {name: _text(getattr(properties, name)) for name in _TEXTS}
    timestamp = properties.timestamp
    return AmqpMessage(
        method.exchange,
        method.routing_key,
        AmqpProperties(
            headers={str(name): value for name, value in (properties.headers or {}).items()},
            delivery_mode=properties.delivery_mode,
            priority=properties.priority,
            timestamp=timestamp if isinstance(timestamp, int) else None,
            **texts,
        ),
        body,
        bool(method.redelivered),
    )


def _text(value: object) -> str | None:
    """A short string, which a publisher may have filled with bytes that are not UTF-8."""
    if value is None:
        return None
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
