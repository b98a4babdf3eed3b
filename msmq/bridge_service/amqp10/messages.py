"""Messages of a bridge as messages of AMQP 1.0, and back. docs/guide/bridge.md."""

from __future__ import annotations

import json
from typing import Any, Final
from uuid import UUID

from proton import Message, symbol, ulong

from msmq.bridge_service.amqp10.body_sections import joined_body
from msmq.interfaces.bridge_messages import DECODE_ERROR, AmqpMessage, AmqpProperties

ANNOTATION: Final = "x-opt-"
"""Prefix of the headers that are message annotations."""

_PRIORITY: Final = 4
"""The priority of a message that has none. [AMQP] 3.2.1."""

_UUID: Final = "ID:AMQP_UUID:"
_ULONG: Final = "ID:AMQP_ULONG:"
_BINARY: Final = "ID:AMQP_BINARY:"
"""Prefixes of identifiers that are not text, as the mapping of AMQP to JMS has them."""

_LARGEST: Final = 1 << 63


def encode(message: AmqpMessage) -> bytes:
    """The message as it is sent.

    @raise ValueError: it cannot be encoded.
    """
    try:
        return _encoded(message)
    except Exception as error:
        # A program may have set properties to values of any type, each with an error of its setter.
        raise ValueError(str(error) or type(error).__name__) from error


def _encoded(message: AmqpMessage) -> bytes:
    properties = message.properties
    headers = {name: _plain(value) for name, value in properties.headers.items() if value is not None}
    annotations = {symbol(name): headers.pop(name) for name in list(headers) if name.startswith(ANNOTATION)}
    found: Any = Message(
        body=message.body,
        inferred=True,
        durable=properties.delivery_mode != 1,
        id=properties.message_id,
        properties=headers or None,
    )
    if annotations:
        found.annotations = annotations
    if properties.priority is not None:
        found.priority = properties.priority
    if properties.expiration is not None:
        # proton has 0 for a message that does not expire, and this one has expired.
        found.ttl = max(1, int(properties.expiration)) / 1000
    if properties.timestamp is not None:
        found.creation_time = properties.timestamp
    if properties.correlation_id is not None:
        found.correlation_id = _identifier(properties.correlation_id)
    found.reply_to = properties.reply_to
    found.subject = (message.routing_key if message.exchange else "") or properties.type
    found.group_id = properties.group_id
    if properties.content_type is not None:
        found.content_type = symbol(properties.content_type)
    if properties.content_encoding is not None:
        found.content_encoding = symbol(properties.content_encoding)
    return bytes(found.encode())


def decode(data: bytes, address: str) -> AmqpMessage:
    """The message of a delivery; one that cannot be decoded has the reason in its headers."""
    try:
        return _decoded(data, address)
    except Exception as error:
        # proton reads properties when they are asked for, with a different error for each fault of a peer.
        return AmqpMessage(
            address, "", AmqpProperties(headers={DECODE_ERROR: str(error) or type(error).__name__}), data
        )


def _decoded(data: bytes, address: str) -> AmqpMessage:
    found: Any = Message()
    found.decode(data)
    joined = joined_body(data)
    body, content_type = _body(found.body if joined is None else joined)
    headers = {str(name): _header(value) for name, value in (found.properties or {}).items()}
    headers |= {str(name): _header(value) for name, value in (found.annotations or {}).items()}
    # A priority of 4 is that of a message without one, unless a bridge has written it.
    is_prioritised = found.priority != _PRIORITY or "msmq-hops" in headers
    properties = AmqpProperties(
        content_type=_text(found.content_type) or content_type,
        content_encoding=_text(found.content_encoding),
        headers=headers,
        delivery_mode=2 if found.durable else 1,
        priority=found.priority if is_prioritised else None,
        correlation_id=_identifier_text(found.correlation_id),
        reply_to=found.reply_to or None,
        expiration=str(int(found.ttl * 1000)) if found.ttl else None,
        message_id=_identifier_text(found.id),
        timestamp=int(found.creation_time) or None,
        type=found.subject or None,
        group_id=found.group_id or None,
    )
    return AmqpMessage(address, found.subject or "", properties, body, not found.first_acquirer)


def _body(value: Any) -> tuple[bytes, str | None]:
    """The body as bytes, with a content type if it was no binary data."""
    match value:
        case None:
            return b"", None
        case bytes() | bytearray() | memoryview():
            return bytes(value), None
        case str():
            return value.encode("utf-8"), "text/plain; charset=utf-8"
    return json.dumps(_json(value), separators=(",", ":")).encode("utf-8"), "application/json"


def _json(value: Any) -> Any:
    match value:
        case dict():
            return {str(name): _json(part) for name, part in value.items()}
        case list() | tuple():
            return [_json(part) for part in value]
        case bytes() | bytearray() | memoryview():
            return bytes(value).decode("utf-8", "backslashreplace")
        case None | bool() | int() | float() | str():
            return value
    return str(value)


def _header(value: Any) -> Any:
    match value:
        case memoryview() | bytearray():
            return bytes(value)
        case bool() | bytes() | float():
            return value
        case int():
            return int(value)
        case str():
            return str(value)
    return _json(value)


def _plain(value: Any) -> Any:
    """A value that application properties may have: no list and no map."""
    match value:
        case bool() | str() | bytes() | float():
            return value
        case int() if -_LARGEST <= value < _LARGEST:
            return value
        case int():
            return str(value)
    return json.dumps(value, default=str, separators=(",", ":"))


def _text(value: object) -> str | None:
    """A symbol; proton has the text C{None} for one that is missing."""
    return str(value) if value and value != "None" else None


def _identifier(text: str) -> Any:
    """An identifier as the requester has sent it."""
    try:
        if text.startswith(_UUID):
            return UUID(text.removeprefix(_UUID))
        if text.startswith(_ULONG):
            return ulong(int(text.removeprefix(_ULONG)))
        if text.startswith(_BINARY):
            return bytes.fromhex(text.removeprefix(_BINARY))
    except ValueError:
        pass
    return text


def _identifier_text(value: Any) -> str | None:
    match value:
        case None | "":
            return None
        case UUID():
            return f"{_UUID}{value}"
        case bytes() | bytearray() | memoryview():
            return f"{_BINARY}{bytes(value).hex()}"
        case int():
            return f"{_ULONG}{int(value)}"
    return str(value)
