"""Dead letters: messages that a route could not deliver, with the reason, in a queue of the source."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import attrs

from msmq.bridge.native_headers import EXTENSION, read_extension, write_extension
from msmq.interfaces.bridge_messages import (
    AmqpMessage,
    AmqpProperties,
    MessageForQueue,
    QueuedMessage,
)

REASON: Final = "msmq-dead-letter-reason"
"""Header with the reason."""

ROUTE: Final = "msmq-dead-letter-route"
"""Header with the name of the route."""

IDENTIFIER: Final = "msmq-dead-letter-id"
"""Header with the identifier of the message that could not be delivered."""

EXTENSION_BASE64: Final = f"{EXTENSION}-base64"
"""Header with an Extension that has no headers in it."""

SOURCE_EXCHANGE: Final = "msmq-dead-letter-exchange"
SOURCE_ROUTING_KEY: Final = "msmq-dead-letter-routing-key"
"""Headers with the exchange and the routing key by which the message was published."""

SOURCE_PROPERTIES: Final = "msmq-dead-letter-properties"
"""Header with the properties of a message that cannot be published with them, as JSON that may be cut."""

_LONGEST_REASON: Final = 1000
_LONGEST_PROPERTIES: Final = 4000
_KEPT: Final = (
    "label",
    "body_type",
    "priority",
    "application_tag",
    "correlation_id",
    "response_queue",
)
_NO_CORRELATION: Final = "{00000000-0000-0000-0000-000000000000}\\0"


def queue_dead_letter(message: QueuedMessage, route: str, reason: str) -> MessageForQueue:
    """The dead letter of a message from a queue.

    It is a copy with an identifier of its own: the Extension has the headers of the original, its
    identifier and the reason. The key makes it arrive once, however often it is sent.
    """
    headers: dict[str, Any] = {}
    native = read_extension(message.extension)
    if native is None:
        headers[EXTENSION_BASE64] = base64.b64encode(message.extension).decode("ascii")
    else:
        headers |= native
    headers |= {REASON: reason[:_LONGEST_REASON], ROUTE: route, IDENTIFIER: message.identifier}
    found = message.properties
    properties: dict[str, Any] = {"delivery": "recoverable"}
    for name in _KEPT:
        if found.get(name) and found[name] != _NO_CORRELATION:
            properties[name] = found[name]
    key = f"bridge-dead:{route}:{message.identifier}"
    return MessageForQueue(properties, message.body, write_extension(headers), key)


def broker_dead_letter(message: AmqpMessage, queue: str, route: str, reason: str) -> AmqpMessage:
    """The dead letter of a message from a broker: a copy with the reason in its headers.

    @param queue: the queue of the broker for dead letters.
    """
    headers = {
        **message.properties.headers,
        REASON: reason[:_LONGEST_REASON],
        ROUTE: route,
        SOURCE_EXCHANGE: message.exchange,
        SOURCE_ROUTING_KEY: message.routing_key,
    }
    # It has to stay until an operator looks at it.
    properties = attrs.evolve(message.properties, headers=headers, delivery_mode=2, expiration=None)
    return AmqpMessage("", queue, properties, message.body)


def plain_dead_letter(message: AmqpMessage, queue: str, route: str, reason: str) -> AmqpMessage:
    """The dead letter of a message whose properties cannot be published as they are.

    @param queue: as of L{broker_dead_letter}.
    """
    found = attrs.asdict(message.properties, recurse=False)
    known = {name: value for name, value in found.items() if value is not None}
    headers = {
        REASON: reason[:_LONGEST_REASON],
        ROUTE: route,
        SOURCE_PROPERTIES: json.dumps(known, default=str, skipkeys=True)[:_LONGEST_PROPERTIES],
    }
    return AmqpMessage("", queue, AmqpProperties(headers=headers, delivery_mode=2), message.body)
