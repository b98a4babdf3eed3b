"""Messages of a bridge as records of Kafka, and back. docs/guide/bridge.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import methodcaller
from typing import Any, Final

import attrs

from msmq.interfaces.bridge_messages import DECODE_ERROR, AmqpMessage, AmqpProperties
from msmq.quoting import quoted

NAMES: Final = {
    "message_id": "message-id",
    "correlation_id": "correlation-id",
    "reply_to": "reply-to",
    "content_type": "content-type",
    "content_encoding": "content-encoding",
    "expiration": "expiration",
    "type": "type",
    "app_id": "app-id",
    "priority": "priority",
}
"""Headers for properties, of which a record has none."""

REPLY_TOPIC: Final = "kafka_replyTopic"
CORRELATION: Final = "kafka_correlationId"
"""The headers by which Spring for Apache Kafka carries requests and replies."""

TOPIC: Final = "kafka-topic"
PARTITION: Final = "kafka-partition"
OFFSET: Final = "kafka-offset"
KEY: Final = "kafka-key"
MESSAGE_ID: Final = "kafka-message-id"
TOMBSTONE: Final = "kafka-tombstone"
"""Headers of a message in a queue that tell where a record was, and what else it had."""

_WHERE: Final = frozenset((TOPIC, PARTITION, OFFSET, KEY, MESSAGE_ID, TOMBSTONE))
_NUMBERS: Final = frozenset(("msmq-application-tag", "msmq-body-type", "msmq-class"))
_CREATED: Final = 1
_LOG_APPENDED: Final = 2
_END_OF_TIME: Final = 1 << 50
"""Seconds of which a record has the milliseconds in 64 bits, with a sign."""


_headers_of: Final = methodcaller("headers")
"""For a name that is not UTF-8 the client returns a list with a hole, and sets an exception.  A call in C
notices that; the interpreter does not, once it has specialised its own call, and crashes at the hole."""


@attrs.frozen
class KafkaRecord:
    """A record to produce.

    @ivar key: C{None} leaves the partition to the producer.
    @ivar timestamp: milliseconds since 1970-01-01 UTC; 0 for now.
    """

    topic: str
    key: bytes | None
    value: bytes | None = attrs.field(repr=False)
    headers: Sequence[tuple[str, bytes]]
    timestamp: int = 0

    @property
    def size(self) -> int:
        """The bytes that it takes, about."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


def to_record(message: AmqpMessage) -> KafkaRecord:
    """The record of a message; without an exchange, the routing key is the topic of a reply.

    @raise ValueError: a text has a lone surrogate that is not of a binary correlation identifier, or the name
        of a header is none of Kafka; or a program has set a property to what no message has.
    """
    try:
        return _encoded(message)
    except (TypeError, AttributeError) as error:
        raise ValueError(str(error)) from error


def _encoded(message: AmqpMessage) -> KafkaRecord:
    properties = message.properties
    headers = {name: value for name, value in properties.headers.items() if name not in _WHERE}
    for name, header in NAMES.items():
        value = getattr(properties, name)
        if value is not None:
            headers[header] = value
    if properties.reply_to:
        headers[REPLY_TOPIC] = properties.reply_to
    if properties.correlation_id:
        headers[CORRELATION] = properties.correlation_id
    key = message.routing_key.encode("utf-8") if message.exchange and message.routing_key else None
    return KafkaRecord(
        message.exchange or message.routing_key,
        key,
        message.body,
        [(_name(name), _bytes(value)) for name, value in headers.items()],
        _milliseconds(properties.timestamp or 0),
    )


def from_record(record: Any) -> AmqpMessage:
    """The message of a record, a C{Message} of confluent-kafka.

    Its message-id is its position, with its time, since a topic that was created anew has the same positions.
    """
    try:
        return _decoded(record)
    except Exception as error:
        # One record that cannot be read would be consumed again and again.
        # The client raises a SystemError whose cause is the fault of the record.
        cause = error.__cause__ or error
        reason = str(cause) or type(cause).__name__
        position = {TOPIC: record.topic(), PARTITION: record.partition(), OFFSET: record.offset()}
        return AmqpMessage(
            record.topic(),
            "",
            AmqpProperties(headers={DECODE_ERROR: reason, **position}, message_id=_position(record)),
            record.value() or b"",
        )


def _position(record: Any) -> str:
    return f"{record.topic()}-{record.partition()}-{record.offset()}-{record.timestamp()[1]}"


def _decoded(record: Any) -> AmqpMessage:
    headers: dict[str, Any] = {}
    for name, value in _headers_of(record) or ():
        # Of several headers with one name the last one counts.
        headers[name] = (value or b"").decode("utf-8", "surrogateescape")
    found = {
        name: headers.pop(header, None)
        for name, header in NAMES.items()
        if name not in ("priority", "message_id")
    }
    topic = headers.pop(REPLY_TOPIC, None)
    correlation = headers.pop(CORRELATION, None)
    found["reply_to"] = found["reply_to"] or topic
    found["correlation_id"] = found["correlation_id"] or correlation
    priority = headers.pop(NAMES["priority"], "")
    original = headers.pop(NAMES["message_id"], None)
    kind, time = record.timestamp()
    key = (record.key() or b"").decode("utf-8", "backslashreplace")
    headers = {name: _clean(name, value) for name, value in headers.items()}
    headers |= {TOPIC: record.topic(), PARTITION: record.partition(), OFFSET: record.offset()}
    if key:
        headers[KEY] = key
    if original:
        headers[MESSAGE_ID] = original
    if record.value() is None:
        headers[TOMBSTONE] = True
    properties = AmqpProperties(
        headers=headers,
        priority=int(priority) if priority.isdecimal() and priority.isascii() and len(priority) < 4 else None,
        message_id=_position(record),
        timestamp=time // 1000 if kind in (_CREATED, _LOG_APPENDED) else None,
        **found,
    )
    return AmqpMessage(record.topic(), key, properties, record.value() or b"")


def _clean(name: str, text: str) -> Any:
    """A header for a queue: those of a bridge that are numbers again, and bytes of others shown."""
    if (
        name in ("msmq-application-tag", "msmq-body-type", "msmq-class")
        and text.isdecimal()
        and text.isascii()
    ):
        return int(text[:10])
    data = text.encode("utf-8", "surrogateescape")
    return data if name == "msmq-extension" else data.decode("utf-8", "backslashreplace")


def _milliseconds(seconds: Any) -> int:
    """The time of a record.

    @raise ValueError: it is none.
    """
    if not isinstance(seconds, int) or seconds >= _END_OF_TIME:
        raise ValueError(f"the timestamp is {quoted(seconds, 60)}; it has to be seconds since 1970-01-01 UTC")
    return max(0, seconds) * 1000


def _name(name: str) -> str:
    """The name of a header, which the client reads as a text of C: it crashes at a lone surrogate.

    @raise ValueError: it has one, or a null character.
    """
    name.encode("utf-8")
    if "\0" in name:
        raise ValueError(f"the name of the header {quoted(name, 60)} has a null character")
    return name


def _bytes(value: Any) -> bytes:
    match value:
        case bytes():
            return value
        case str():
            return value.encode("utf-8", "surrogateescape")
    return json.dumps(value, default=str, separators=(",", ":")).encode("utf-8")
