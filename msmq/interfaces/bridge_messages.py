"""Messages as a bridge sees them, on the side of MSMQ and on the side of AMQP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from msmq.errors import MsmqError

DECODE_ERROR: Final = "amqp-decode-error"
"""Header of a message of a broker that cannot be decoded, with the reason; nothing else of its properties is
known.  A route keeps it as a dead letter."""


class MappingError(MsmqError):
    """A message cannot be mapped, or must not be forwarded; the text is the reason of its dead letter."""


@attrs.frozen
class QueuedMessage:
    """A message that is received from a queue of MSMQ.

    @ivar properties: the keys of a message in JSON (docs/commands.md), without body and extension.
    """

    properties: Mapping[str, Any]
    body: bytes = attrs.field(repr=False)
    extension: bytes = attrs.field(default=b"", repr=False)

    @property
    def identifier(self) -> str:
        r"""The identifier of the message: C{{guid}\N}."""
        return str(self.properties["id"])


@attrs.frozen
class MessageForQueue:
    """A message to be sent to a queue of MSMQ.

    @ivar properties: those that a sender chooses, as the control API names them.
    @ivar key: the queue manager sends a message of one key only once; empty without one.
    """

    properties: Mapping[str, Any]
    body: bytes = attrs.field(repr=False)
    extension: bytes = attrs.field(default=b"", repr=False)
    key: str = ""


@attrs.frozen(kw_only=True)
class AmqpProperties:
    """Basic properties of AMQP 0-9-1 (4.2.6.1); C{None} for one that the message does not have.

    Other brokers have most of them too; each family of brokers maps them to what it has.

    @ivar expiration: milliseconds, in decimal digits.
    @ivar timestamp: seconds since 1970-01-01 UTC.
    @ivar group_id: the group of a message of AMQP 1.0; other brokers have none.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Mapping[str, Any] = attrs.field(factory=dict)
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    group_id: str | None = None


@attrs.frozen
class AmqpMessage:
    """A message of AMQP 0-9-1 with the exchange and the routing key of its publication.

    @ivar is_redelivered: whether the broker may have delivered it before.
    """

    exchange: str
    routing_key: str
    properties: AmqpProperties
    body: bytes = attrs.field(repr=False)
    is_redelivered: bool = False
