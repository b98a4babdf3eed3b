"""Basic properties between L{AmqpProperties} and pika."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

from pika.spec import BasicProperties

from msmq.bridge_service.rabbitmq.field_table import encoded_field_table, encoded_short_string
from msmq.interfaces.bridge_messages import DECODE_ERROR, AmqpMessage, AmqpProperties

DEPTH: Final = 32
"""Limit on the levels of tables and arrays in a header."""

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


class _EncodedProperties(BasicProperties):  # type: ignore[misc]
    """Properties that are encoded already."""

    def __init__(self, encoded: bytes) -> None:
        # No attribute of a BasicProperties: nothing but the encoding is asked for.
        self._encoded = encoded

    def encode(self) -> list[bytes]:
        """The pieces of the encoding; the caller owns the list."""
        return [self._encoded]


_OCTET: Final = struct.Struct(">B").pack
_ENCODINGS: Final[tuple[tuple[str, int, Callable[[Any], bytes]], ...]] = (
    ("content_type", BasicProperties.FLAG_CONTENT_TYPE, encoded_short_string),
    ("content_encoding", BasicProperties.FLAG_CONTENT_ENCODING, encoded_short_string),
    ("headers", BasicProperties.FLAG_HEADERS, encoded_field_table),
    ("delivery_mode", BasicProperties.FLAG_DELIVERY_MODE, _OCTET),
    ("priority", BasicProperties.FLAG_PRIORITY, _OCTET),
    ("correlation_id", BasicProperties.FLAG_CORRELATION_ID, encoded_short_string),
    ("reply_to", BasicProperties.FLAG_REPLY_TO, encoded_short_string),
    ("expiration", BasicProperties.FLAG_EXPIRATION, encoded_short_string),
    ("message_id", BasicProperties.FLAG_MESSAGE_ID, encoded_short_string),
    ("timestamp", BasicProperties.FLAG_TIMESTAMP, struct.Struct(">Q").pack),
    ("type", BasicProperties.FLAG_TYPE, encoded_short_string),
    ("user_id", BasicProperties.FLAG_USER_ID, encoded_short_string),
    ("app_id", BasicProperties.FLAG_APP_ID, encoded_short_string),
)
"""The properties with their flags and types, in the order of their values."""

_values = attrgetter(*(name for name, *_ in _ENCODINGS))


def to_pika(properties: AmqpProperties) -> BasicProperties:
    """The properties of a message to publish: encoded, and without attributes.

    @raise ValueError: one cannot be encoded; the text says which, and why.
    """
    return _EncodedProperties(_encoded(properties))


def _encoded(properties: AmqpProperties) -> bytes:
    """The flags of the properties that a message has, and their values (4.2.6.1)."""
    flags = 0
    pieces = []
    for (name, flag, encoded), value in zip(_ENCODINGS, _values(properties), strict=True):
        if value is None or value == {}:
            continue
        flags |= flag
        try:
            pieces.append(encoded(value))
        except (ValueError, AttributeError, struct.error) as error:
            raise ValueError(f"{name}: {error}") from error
    return struct.pack(">H", flags) + b"".join(pieces)


def from_pika(method: Any, properties: Any, body: bytes) -> AmqpMessage:
    """A message that the broker delivers."""
    texts = {name: _text(getattr(properties, name)) for name in _TEXTS}
    headers = {_text(name) or "": value for name, value in (properties.headers or {}).items()}
    if _is_deep(headers):
        headers = {DECODE_ERROR: f"its headers are nested more than {DEPTH} levels deep"}
    headers = {
        name: _named(value) if isinstance(value, list | dict) else value for name, value in headers.items()
    }
    timestamp = properties.timestamp
    return AmqpMessage(
        _text(method.exchange) or "",
        _text(method.routing_key) or "",
        AmqpProperties(
            headers=headers,
            delivery_mode=properties.delivery_mode,
            priority=properties.priority,
            timestamp=timestamp if isinstance(timestamp, int) else None,
            **texts,
        ),
        body,
        bool(method.redelivered),
    )


def _is_deep(headers: Mapping[str, Any]) -> bool:
    """Whether values of headers are nested more than L{DEPTH} levels."""
    level: list[Any] = [value for value in headers.values() if isinstance(value, list | dict)]
    for _ in range(DEPTH):
        if not level:
            return False
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [value for values in inner for value in values if isinstance(value, list | dict)]
    return bool(level)


def _named(value: Any) -> Any:
    """A value whose tables have text as names, which a publisher may have written in other bytes."""
    if isinstance(value, dict):
        return {_text(name) or "": _named(inner) for name, inner in value.items()}
    return [_named(each) for each in value] if isinstance(value, list) else value


def _text(value: object) -> str | None:
    """A short string, which a publisher may have filled with bytes that are not UTF-8."""
    if value is None:
        return None
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
