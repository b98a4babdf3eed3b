"""Mapping of messages from AMQP 0-9-1 to MSMQ. docs/guide/bridge.md."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from msmq.bridge.body_decoding import JSON, forwarded_body
from msmq.bridge.frameworks import framework_of
from msmq.bridge.native_headers import EXTENSION, NATIVE, write_extension
from msmq.bridge.rules import InwardRules
from msmq.bridge.trail import Trail
from msmq.interfaces.bridge_messages import (
    DECODE_ERROR,
    AmqpMessage,
    AmqpProperties,
    MappingError,
    MessageForQueue,
)
from msmq.quoting import quoted
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import (
    DirectFormatName,
    PrivateFormatName,
    PublicFormatName,
    QueueSuffix,
    parse_format_name,
)
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.status import MQError

LONGEST_LABEL: Final = 249
"""PROPID_M_LABEL_LEN without its terminator, in UTF-16 units. [MS-MQMQ] 2.3.1."""

MESSAGE_ID: Final = "message-id"
CORRELATION_ID: Final = "correlation-id"
REPLY_TO: Final = "reply-to"
"""Headers that keep properties of AMQP that MSMQ has no field for."""

SETTABLE: Final = (
    "label",
    "body_type",
    "priority",
    "time_to_be_received",
    "time_to_reach_queue",
    "response_queue",
    "correlation_id",
    "application_tag",
    "journal",
    "dead_letter",
)
"""Properties that a rule may set."""

_HIGHEST_PRIORITY: Final = 7
_U32: Final = 0xFFFFFFFF
_DIGITS: Final = 14
"""Digits of an expiration that decide; with as many it is later than any time of a message."""

_OF_BROKER: Final = "x-"
_KEYED: Final = ("correlation_id", "reply_to", "type")
_OWN: Final = ("msmq-label", "msmq-application-tag", "msmq-body-type", "msmq-response-queue")


def map_inward(message: AmqpMessage, rules: InwardRules) -> MessageForQueue:
    """The message to send.

    @raise MappingError: the message cannot be sent; the text is the reason.
    """
    if (error := message.properties.headers.get(DECODE_ERROR)) is not None:
        raise MappingError(f"decoding: the message of the broker cannot be decoded: {error}")
    body = forwarded_body(rules.decoding, message.body)
    amqp = message.properties
    headers = dict(amqp.headers)
    trail = Trail.read(headers).extended(rules.route, rules.hops)
    label = headers.get("msmq-label") or amqp.type or ""
    properties: dict[str, Any] = {
        "delivery": "express" if rules.delivery == "express" else "recoverable",
        "label": _label(label),
    }
    if rules.delivery == "transactional":
        properties["transactional"] = True
    for header, key in (("msmq-application-tag", "application_tag"), ("msmq-body-type", "body_type")):
        value = headers.get(header)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _U32:
            properties[key] = value
    if amqp.priority is not None:
        properties["priority"] = min(amqp.priority, _HIGHEST_PRIORITY)
    if amqp.expiration and amqp.expiration.isdecimal() and amqp.expiration.isascii():
        # Python reads no number of any length.
        digits = amqp.expiration.lstrip("0")[:_DIGITS]
        properties["time_to_be_received"] = min(-(-int(digits or "0") // 1000), _U32 - 1)
    framework = framework_of(headers)
    correlation = _correlation(message)
    if correlation is None and framework is not None:
        correlation = framework.correlation(framework.inward(amqp, None))
    if correlation is not None:
        properties["correlation_id"] = correlation
    response_queue = _response_queue(message, rules)
    if response_queue:
        properties["response_queue"] = response_queue
    if framework is not None:
        amqp = attrs.evolve(amqp, headers=framework.inward(amqp, response_queue))
    if rules.decoding is not None:
        # Another body than that of the sender.
        properties.pop("body_type", None)
        amqp = attrs.evolve(amqp, content_type=JSON, content_encoding=None)
        if framework is not None:
            amqp = attrs.evolve(amqp, headers={**amqp.headers, framework.content_type: JSON})
    if rules.properties:
        properties |= _ruled(rules.properties, inward_record(message, body.value))
    extension = headers.get(EXTENSION)
    if not isinstance(extension, bytes):
        extension = write_extension(_kept(amqp, trail))
    mapped = MessageForQueue(properties, body.data, extension, stable_key(message, rules.route))
    if rules.program is not None:
        mapped = rules.program.to_queue(message, mapped)
    if len(mapped.body) > rules.limit:
        raise MappingError(f"limit: the body has {len(mapped.body)} bytes, and limit is {rules.limit}")
    size, largest = len(mapped.body) + len(mapped.extension), BaseHeader.MAXIMUM_PACKET_SIZE
    if size > largest:
        raise MappingError(f"limit: body and headers have {size} bytes, and a message has {largest} at most")
    response = mapped.properties.get("response_queue")
    if isinstance(response, str) and response and not _is_response_queue(response, is_valid=True):
        raise MappingError(f"mapping: response_queue is {quoted(response)}, which cannot be one")
    return mapped


def is_request(message: AmqpMessage, rules: InwardRules) -> bool:
    """Whether the reply to a message comes back by the reply queue of the route."""
    reply_to = message.properties.reply_to
    return bool(reply_to and rules.reply_queue and rules.response_queue(reply_to) is None)


def stable_key(message: AmqpMessage, route: str) -> str:
    """The key by which a queue manager recognises a message that is delivered again.

    It depends on the message-id and the contents, so that a publisher that uses an identifier twice for
    different messages, or publishes one again with other headers, loses none of them.  The headers of the
    broker itself are different with each delivery.  Empty without a message-id.
    """
    identifier = message.properties.message_id
    if not identifier:
        return ""
    digest = hashlib.sha256()
    headers = {name: value for name, value in message.properties.headers.items() if name[:2] != _OF_BROKER}
    text = json.dumps(headers, sort_keys=True, default=str) if headers else ""
    # Requests whose identifiers begin anew with each start of their sender differ in these at least.
    others = (f"{name}={value}" for name in _KEYED if (value := getattr(message.properties, name)))
    for part in (route, identifier, message.exchange, message.routing_key, text, *others):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(4, "big") + data)
    digest.update(message.body)
    return f"bridge:{digest.hexdigest()}"


def inward_record(message: AmqpMessage, body: object) -> dict[str, Any]:
    """The message as expressions see it: its properties, C{exchange} and C{routing_key}.

    @param body: as of L{msmq.bridge.outward.outward_record}.
    """
    record = attrs.asdict(message.properties, recurse=False)
    return record | {"exchange": message.exchange, "routing_key": message.routing_key, "body": body}


def _correlation(message: AmqpMessage) -> str | None:
    """The correlation identifier of a message, if a field of MSMQ can hold it."""
    amqp = message.properties
    original = amqp.headers.get("msmq-correlation-id")
    if amqp.correlation_id == amqp.message_id and isinstance(original, str):
        # A request from another queue manager: a route has set both to the identifier of the message.
        found: str | None = original
    else:
        found = amqp.correlation_id
    return found if found and _is_identifier(found) else None


def _is_identifier(text: str) -> bool:
    try:
        MessageIdentifier.parse(text)
    except MQError:
        return False
    return True


def _response_queue(message: AmqpMessage, rules: InwardRules) -> str | None:
    reply_to = message.properties.reply_to
    if reply_to:
        return rules.response_queue(reply_to) or rules.reply_queue or None
    # A message of another queue manager, whose response queue no queue of the broker stands for.
    found = message.properties.headers.get("msmq-response-queue")
    return found if isinstance(found, str) and _is_response_queue(found, is_valid=False) else None


def _is_response_queue(text: str, *, is_valid: bool) -> bool:
    """Whether a format name can be the response queue of a message.

    @param is_valid: the answer for a text that is no format name, which the queue manager refuses.
    """
    try:
        name = parse_format_name(text)
    except MQError:
        return is_valid
    if isinstance(name, PublicFormatName | PrivateFormatName):
        return name.suffix is QueueSuffix.NONE
    return isinstance(name, DirectFormatName)


def _kept(amqp: AmqpProperties, trail: Trail) -> dict[str, Any]:
    """The headers of the Extension: those of the message, what MSMQ has no field for, and the trail."""
    kept = {name: value for name, value in amqp.headers.items() if name not in _OWN}
    for name, value in (
        (MESSAGE_ID, amqp.message_id),
        (CORRELATION_ID, amqp.correlation_id),
        (REPLY_TO, amqp.reply_to),
        ("app-id", amqp.app_id),
        ("user-id", amqp.user_id),
        ("timestamp", amqp.timestamp),
        *((header, getattr(amqp, name)) for name, header in NATIVE.items()),
    ):
        if value:
            kept[name] = value
    return kept | trail.headers()


def _label(value: object) -> str:
    """The label, cut at its longest length in UTF-16 units."""
    text = value if isinstance(value, str) else ""
    data = text.replace("\x00", "").encode("utf-16-le", "surrogatepass")[: 2 * LONGEST_LABEL]
    return data.decode("utf-16-le", "ignore")


def _ruled(rules: Mapping[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for name, expression in rules.items():
        value = expression.value(record)
        if value is None:
            continue
        if not isinstance(value, str | int):
            raise MappingError(
                f"mapping: {name} is {quoted(value)}, it has to be text, a number or a boolean"
            )
        chosen[name] = value
    return chosen
