"""Mapping of messages from AMQP 0-9-1 to MSMQ. docs/guide/bridge.md."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from msmq.bridge.messages import AmqpMessage, MappingError, MessageForQueue
from msmq.bridge.native_headers import EXTENSION, write_extension
from msmq.bridge.rules import InwardRules
from msmq.bridge.trail import Trail
from msmq.quoting import quoted

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

_IDENTIFIER: Final = re.compile(
    r"\{?[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\}?\\[0-9]{1,10}", re.ASCII
)
_HIGHEST_PRIORITY: Final = 7
_U32: Final = 0xFFFFFFFF
_OWN: Final = ("msmq-label", "msmq-class", "msmq-application-tag", "msmq-body-type", "msmq-response-queue")


def map_inward(message: AmqpMessage, rules: InwardRules) -> MessageForQueue:
    """The message to send.

    @raise MappingError: the message cannot be sent; the text is the reason.
    """
    if len(message.body) > rules.limit:
        raise MappingError(f"limit: the body has {len(message.body)} bytes, and limit is {rules.limit}")
    amqp = message.properties
    headers = dict(amqp.headers)
    trail = Trail.read(headers).extended(rules.route, rules.hops)
    properties: dict[str, Any] = {
        "delivery": "express" if rules.delivery == "express" else "recoverable",
        "label": _label(headers.get("msmq-label") or amqp.type or ""),
    }
    if rules.delivery == "transactional":
        properties["transactional"] = True
    for header, key in (("msmq-application-tag", "application_tag"), ("msmq-body-type", "body_type")):
        value = headers.get(header)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _U32:
            properties[key] = value
    if amqp.priority is not None:
        properties["priority"] = min(amqp.priority, _HIGHEST_PRIORITY)
    if amqp.expiration and amqp.expiration.isdecimal():
        properties["time_to_be_received"] = min(-(-int(amqp.expiration) // 1000), _U32 - 1)
    if amqp.correlation_id and _IDENTIFIER.fullmatch(amqp.correlation_id):
        properties["correlation_id"] = amqp.correlation_id
    if amqp.reply_to:
        response_queue = rules.response_queue(amqp.reply_to) or rules.reply_queue
        if response_queue:
            properties["response_queue"] = response_queue
    if rules.properties:
        properties |= _ruled(rules.properties, inward_record(message))
    extension = headers.get(EXTENSION)
    if not isinstance(extension, bytes):
        extension = write_extension(_kept(message, headers, trail))
    return MessageForQueue(properties, message.body, extension, stable_key(message, rules.route))


def is_request(message: AmqpMessage, rules: InwardRules) -> bool:
    """Whether the reply to a message comes back by the reply queue of the route."""
    reply_to = message.properties.reply_to
    return bool(reply_to and rules.reply_queue and rules.response_queue(reply_to) is None)


def stable_key(message: AmqpMessage, route: str) -> str:
    """The key by which a queue manager recognises a message that is delivered again.

    It depends on the message-id and the contents, so that a publisher that uses an identifier twice for
    different messages loses none of them.  Empty without a message-id.
    """
    identifier = message.properties.message_id
    if not identifier:
        return ""
    digest = hashlib.sha256()
    for part in (route, identifier, message.exchange, message.routing_key):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(4, "big") + data)
    digest.update(message.body)
    return f"bridge:{digest.hexdigest()}"


def inward_record(message: AmqpMessage) -> dict[str, Any]:
    """The message as expressions see it: its properties, C{exchange}, C{routing_key}, and C{body} if that is
    UTF-8.
    """
    record = attrs.asdict(message.properties, recurse=False)
    record |= {"exchange": message.exchange, "routing_key": message.routing_key}
    try:
        record["body"] = message.body.decode("utf-8")
    except UnicodeDecodeError:
        record["body"] = None
    return record


def _kept(message: AmqpMessage, headers: Mapping[str, Any], trail: Trail) -> dict[str, Any]:
    """The headers of the Extension: those of the message, its identifiers, and the trail."""
    amqp = message.properties
    kept = {name: value for name, value in headers.items() if name not in _OWN}
    for name, value in (
        (MESSAGE_ID, amqp.message_id),
        (CORRELATION_ID, amqp.correlation_id),
        (REPLY_TO, amqp.reply_to),
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
