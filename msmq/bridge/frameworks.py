"""Headers of NServiceBus and Rebus as native properties of a broker, and back.

Both frameworks keep their headers in the Extension of a message in MSMQ, and in the headers of a message at
RabbitMQ.
There the transports of the frameworks also read properties: identifier, correlation, reply-to, content type
and type.
An address in MSMQ is C{QUEUE@COMPUTER}, at RabbitMQ the name of a queue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from msmq.interfaces.bridge_messages import AmqpProperties

LONGEST_TEXT: Final = 255
"""The longest short string of AMQP, in bytes of UTF-8."""

_GUID: Final = re.compile(r"\{?([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})\}?", re.ASCII)
_DIRECT: Final = re.compile(r"DIRECT=OS:([^\\@;]+)\\private\$\\([^\\@;]+)", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"([^\\@;]+)@([^\\@;]+)")


@attrs.frozen
class MessagingFramework:
    """The names of the headers of one framework.

    @ivar prefix: by which its headers are recognised.
    @ivar answered: header of an answer with the identifier of the message that it answers.
    """

    prefix: str
    message_id: str
    correlation_id: str
    reply_to: str
    content_type: str
    types: str
    answered: str

    def outward(
        self, properties: AmqpProperties, reply_to: Callable[[str], str | None], *, is_answer: bool
    ) -> AmqpProperties:
        """The properties of a message for a broker, as the framework's own transport would set them.

        @param properties: with the headers of the framework.
        @param reply_to: the queue of the broker that stands for a response queue, a format name.
        @param is_answer: whether the message goes to the reply-to of a request, whose correlation-id it has.
        """
        headers = dict(properties.headers)
        found = {name: _short(headers.get(getattr(self, name))) for name in _COPIED}
        queue = properties.reply_to
        address = _ADDRESS.fullmatch(str(headers.get(self.reply_to, "")))
        if queue is None and address is not None:
            queue = reply_to(f"DIRECT=OS:{address[2]}\\private$\\{address[1]}")
        if queue is not None:
            headers[self.reply_to] = queue
        kind = _short(str(headers.get(self.types) or "").partition(";")[0].partition(",")[0].strip())
        correlation = None if is_answer else found["correlation_id"]
        return attrs.evolve(
            properties,
            headers=headers,
            message_id=found["message_id"] or properties.message_id,
            correlation_id=correlation or properties.correlation_id,
            content_type=found["content_type"] or properties.content_type,
            reply_to=queue,
            type=kind or properties.type,
        )

    def inward(self, properties: AmqpProperties, response_queue: str | None) -> dict[str, Any]:
        """The headers of a message for MSMQ: those that it has, and those that only its properties say.

        @param response_queue: the response queue of the message, a format name.
        """
        headers = dict(properties.headers)
        for name, value in (
            (self.message_id, properties.message_id),
            (self.correlation_id, properties.correlation_id),
            (self.content_type, properties.content_type),
            (self.types, properties.type),
        ):
            if value and not headers.get(name):
                headers[name] = value
        direct = _DIRECT.fullmatch(response_queue or "")
        if direct is not None:
            headers[self.reply_to] = f"{direct[2]}@{direct[1]}"
        elif properties.reply_to and not headers.get(self.reply_to):
            headers[self.reply_to] = properties.reply_to
        return headers

    def correlation(self, headers: Mapping[str, Any]) -> str | None:
        r"""The correlation identifier that the transport for MSMQ would set: C{{guid}\0}."""
        found = _GUID.fullmatch(str(headers.get(self.correlation_id, "")))
        return None if found is None else f"{{{found[1].lower()}}}\\0"


_COPIED: Final = ("message_id", "correlation_id", "content_type")

NSERVICEBUS: Final = MessagingFramework(
    prefix="NServiceBus.",
    message_id="NServiceBus.MessageId",
    correlation_id="NServiceBus.CorrelationId",
    reply_to="NServiceBus.ReplyToAddress",
    content_type="NServiceBus.ContentType",
    types="NServiceBus.EnclosedMessageTypes",
    answered="NServiceBus.RelatedTo",
)

REBUS: Final = MessagingFramework(
    prefix="rbs2-",
    message_id="rbs2-msg-id",
    correlation_id="rbs2-corr-id",
    reply_to="rbs2-return-address",
    content_type="rbs2-content-type",
    types="rbs2-msg-type",
    answered="rbs2-in-reply-to",
)


def framework_of(headers: Mapping[str, Any]) -> MessagingFramework | None:
    """The framework that has written headers; C{None} if neither has."""
    for framework in (NSERVICEBUS, REBUS):
        if any(name.startswith(framework.prefix) for name in headers):
            return framework
    return None


def answered_identifier(headers: Mapping[str, Any]) -> str | None:
    """The identifier of the message that an answer of a framework is for; C{None} without one."""
    framework = framework_of(headers)
    found = None if framework is None else headers.get(framework.answered)
    return found if isinstance(found, str) and found else None


def request_identifier(properties: AmqpProperties) -> str | None:
    """The identifier by which an answer of a framework names a request; C{None} for other messages."""
    framework = framework_of(properties.headers)
    if framework is None:
        return None
    found = properties.headers.get(framework.message_id) or properties.message_id
    return found if isinstance(found, str) and found else None


def _short(value: object) -> str | None:
    """A text that is a short string of AMQP; C{None} for another value."""
    if not isinstance(value, str) or not value:
        return None
    return value if len(value.encode("utf-8", "surrogatepass")) <= LONGEST_TEXT else None
