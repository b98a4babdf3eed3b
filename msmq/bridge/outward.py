"""Mapping of messages from MSMQ to AMQP 0-9-1. docs/guide/bridge.md."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import attrs

from msmq.bridge.body_decoding import JSON, forwarded_body
from msmq.bridge.frameworks import framework_of
from msmq.bridge.native_headers import EXTENSION, LONGEST_EXTENSION, NATIVE, read_extension
from msmq.bridge.replies import ReplyAddress
from msmq.bridge.rules import OutwardRules
from msmq.bridge.trail import Trail
from msmq.interfaces.bridge_messages import AmqpMessage, AmqpProperties, MappingError, QueuedMessage
from msmq.quoting import kind_of, quoted

LONGEST_HEADERS: Final = 0x10000
"""Limit on the headers of a message, in bytes; all of them share one frame."""

_FIELD: Final = 6
"""What a field of a table has besides its name and its text: two lengths and a type. AMQP 0-9-1 4.2.5.5."""

_PERSISTENT: Final = {"express": 1, "recoverable": 2}
HEADER: Final = "header."
"""Prefix of the name of a header in a rule."""

_SETTABLE: Final = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "type",
    "app_id",
    "priority",
)
"""Properties that a rule may set, if the family of the broker has them."""

_TEXTS: Final = (*(name for name in _SETTABLE if name != "priority"), "message_id")
"""Properties that are texts."""

_texts = attrgetter(*_TEXTS)

_U32: Final = 0xFFFFFFFF
_DIGITS: Final = 10
_TEXT_BODY: Final = {8: "text/plain; charset=utf-16le", 31: "text/plain; charset=utf-16le", 30: "text/plain"}
"""Content types of the string types of ActiveXMessageFormatter."""


def map_outward(
    message: QueuedMessage,
    rules: OutwardRules,
    reply: ReplyAddress | None = None,
    now: float | None = None,
) -> AmqpMessage:
    """The message to publish.

    @param reply: the request that the message answers, if the route publishes replies.
    @param now: seconds since 1970-01-01 UTC: the broker has what is left of the time to be received.
    @raise MappingError: the message cannot be published; the text is the reason.
    """
    found = message.properties
    body = forwarded_body(rules.decoding, message.body, found.get("body_type") or 0, message.extension)
    headers = _headers(message)
    trail = Trail.read(headers).extended(rules.route, rules.hops)
    headers |= trail.headers()
    response_queue = found.get("response_queue") or ""
    reply_to = rules.reply_to(response_queue) if response_queue else None
    if response_queue:
        headers["msmq-response-queue"] = response_queue
    correlation = found.get("correlation_id")
    if reply_to is not None and correlation:
        # A server echoes correlation-id, and the requester compares that with the identifier of its request.
        headers["msmq-correlation-id"] = correlation
    native = dict.fromkeys(NATIVE)
    if message.extension:
        native = {name: _popped(headers, header) for name, header in NATIVE.items()}
    properties = AmqpProperties(
        content_type=native["content_type"] or _content_type(message),
        content_encoding=native["content_encoding"],
        type=native["type"],
        headers=headers,
        delivery_mode=_PERSISTENT.get(str(found.get("delivery")), 2),
        priority=found.get("priority"),
        correlation_id=message.identifier if reply_to is not None else correlation or None,
        reply_to=reply_to,
        expiration=_expiration(found, now),
        message_id=message.identifier,
        timestamp=_timestamp(str(found.get("sent_time"))),
        app_id="msmq",
    )
    exchange, routing_key = rules.exchange, rules.routing_key
    if rules.answers:
        if reply is None:
            raise MappingError(
                f"reply: no request with the identifier {quoted(correlation or '')} is pending here"
            )
        exchange, routing_key = "", reply.reply_to
        properties = attrs.evolve(properties, correlation_id=reply.correlation_id)
    # Only the extension and a program have other headers than those of the bridge.
    framework = framework_of(headers) if message.extension else None
    if framework is not None:
        properties = framework.outward(properties, rules.reply_to, is_answer=rules.answers)
    if rules.decoding is not None:
        properties = attrs.evolve(properties, content_type=JSON, content_encoding=None)
        if framework is not None:
            # The serializer of the receiver is chosen by it.
            properties = _with_headers(properties, {framework.content_type: JSON})
    if rules.routing_expression is not None or rules.properties:
        record = outward_record(message, body.value)
        if rules.routing_expression is not None:
            routing_key = rules.routing_expression.text_value(record)
        properties = _with_rules(properties, rules, record)
    mapped = AmqpMessage(exchange, routing_key, properties, body.data)
    if rules.program is not None:
        mapped = rules.program.to_broker(message, mapped)
        # A loop has to be noticed whatever the program does.
        mapped = attrs.evolve(mapped, properties=_with_headers(mapped.properties, trail.headers()))
    _check(mapped, rules.longest_text)
    if len(mapped.body) > rules.limit and not rules.has_claims:
        raise MappingError(f"limit: the body has {len(mapped.body)} bytes, and limit is {rules.limit}")
    return mapped


def outward_record(message: QueuedMessage, body: object) -> dict[str, Any]:
    """The message as expressions see it: its keys in JSON, with C{headers}.

    @param body: text, what was decoded, or C{None} for bytes that are not UTF-8.
    """
    return {**message.properties, "headers": read_extension(message.extension) or {}, "body": body}


def _headers(message: QueuedMessage) -> dict[str, Any]:
    found = message.properties
    headers: dict[str, Any] = {}
    native = read_extension(message.extension)
    if native is None:
        if len(message.extension) > LONGEST_EXTENSION:
            raise MappingError(
                f"limit: the extension has {len(message.extension)} bytes; a header holds {LONGEST_EXTENSION}"
            )
        headers[EXTENSION] = message.extension
    else:
        headers |= native
    for header, key in (
        ("msmq-label", "label"),
        ("msmq-class", "class"),
        ("msmq-application-tag", "application_tag"),
        ("msmq-body-type", "body_type"),
        ("msmq-sender-id", "sender_id"),
        ("msmq-source-queue-manager", "source_queue_manager"),
        ("msmq-destination-queue", "destination_queue"),
        ("msmq-admin-queue", "admin_queue"),
    ):
        if found.get(key):
            headers[header] = found[key]
    return headers


def _content_type(message: QueuedMessage) -> str:
    kind = message.properties.get("body_type")
    if kind in _TEXT_BODY:
        return _TEXT_BODY[kind]
    start = message.body[:100].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"<?xml"):
        return "application/xml"
    return "application/octet-stream"


def _expiration(found: Mapping[str, Any], now: float | None) -> str | None:
    """The milliseconds that are left of TimeToBeReceived, which begins when a message is sent."""
    seconds = found.get("time_to_be_received")
    if not isinstance(seconds, int):
        return None
    sent = None if now is None else _timestamp(str(found.get("sent_time")))
    left = 1000 * seconds
    if now is not None and sent is not None:
        left = min(left, max(0, int(1000 * (sent + seconds - now))))
    return str(min(left, 0xFFFFFFFF))


@lru_cache(maxsize=64)
def _timestamp(text: str) -> int | None:
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        return None


def _with_rules(properties: AmqpProperties, rules: OutwardRules, record: dict[str, Any]) -> AmqpProperties:
    headers = dict(properties.headers)
    chosen: dict[str, Any] = {}
    for name, expression in rules.properties.items():
        if name.startswith(HEADER):
            value = expression.value(record)
            if value is not None:
                headers[name.removeprefix(HEADER)] = value
        elif name == "priority":
            value = expression.value(record)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 255:
                raise MappingError(f"mapping: priority is {quoted(value)}, it has to be 0 to 255")
            chosen[name] = value
        else:
            chosen[name] = expression.text_value(record)
    expiration = chosen.get("expiration", "0")
    is_number = expiration.isdecimal() and expiration.isascii() and len(expiration) <= _DIGITS
    if not is_number or int(expiration) > _U32:
        raise MappingError(f"mapping: expiration is {quoted(expiration)}, it has to be milliseconds")
    return attrs.evolve(properties, headers=headers, **chosen)


def _with_headers(properties: AmqpProperties, headers: dict[str, Any]) -> AmqpProperties:
    return attrs.evolve(properties, headers={**properties.headers, **headers})


def _popped(headers: dict[str, Any], name: str) -> str | None:
    found = headers.pop(name, None)
    return found if isinstance(found, str) and found else None


def _check(message: AmqpMessage, longest: int) -> None:
    properties = message.properties
    _check_text("exchange", message.exchange, longest)
    _check_text("routing key", message.routing_key, longest)
    for name, text in zip(_TEXTS, _texts(properties), strict=True):
        if text is not None:
            _check_text(name, text, longest)
    size = 0
    for name, value in properties.headers.items():
        if _is_long(name, longest):
            raise MappingError(f"limit: the header {quoted(name, 40)} has a name of over {longest} bytes")
        size += len(name) + (len(value) if isinstance(value, str | bytes) else len(str(value))) + _FIELD
    if 4 * size > LONGEST_HEADERS:
        # A character has at most four bytes; most headers need not be encoded to know.
        size = sum(_size(name) + _size(value) + _FIELD for name, value in properties.headers.items())
    if size > LONGEST_HEADERS:
        raise MappingError(f"limit: the headers have {size} bytes, and the limit is {LONGEST_HEADERS}")


def _size(value: object) -> int:
    """The bytes of a name or a value in a table, about."""
    if isinstance(value, bytes):
        return len(value)
    return len(str(value).encode("utf-8", "surrogatepass"))


def _check_text(name: str, text: object, longest: int) -> None:
    if not isinstance(text, str):
        raise MappingError(f"mapping: the {name} is {kind_of(text)}; it has to be text")
    if _is_long(text, longest):
        size = len(text.encode("utf-8", "surrogatepass"))
        raise MappingError(f"limit: the {name} has {size} bytes, and the limit is {longest}")


def _is_long(text: str, longest: int) -> bool:
    # A character has at most four bytes; most texts need not be encoded to know.
    return 4 * len(text) > longest and len(text.encode("utf-8", "surrogatepass")) > longest
