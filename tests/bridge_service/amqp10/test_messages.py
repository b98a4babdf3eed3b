"""Messages of a bridge as messages of AMQP 1.0, as proton reads and writes them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from proton import Message, symbol
from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge_service.amqp10.messages import decode, encode
from msmq.interfaces.bridge_messages import DECODE_ERROR, AmqpMessage, AmqpProperties

IDENTIFIER = UUID("12345678-1234-5678-1234-567812345678")


def message(body: bytes = b"three boxes", **properties: object) -> AmqpMessage:
    """A message for the address C{orders}."""
    return AmqpMessage("orders", "", AmqpProperties(**properties), body)  # type: ignore[arg-type]


class MessageTests(SynchronousTestCase):
    """L{encode} and L{decode}."""

    def test_sections(self) -> None:
        """Properties go where AMQP 1.0 has them, headers with x-opt- to the annotations."""
        found: Any = Message()
        found.decode(
            encode(
                message(
                    delivery_mode=2,
                    priority=5,
                    expiration="1500",
                    message_id="{1}\\7",
                    type="order",
                    group_id="customer 7",
                    headers={"tenant": "x", "x-opt-partition-key": "7", "parts": [1], "large": 1 << 70},
                )
            )
        )
        self.assertEqual((found.durable, found.priority, found.ttl), (True, 5, 1.5))
        self.assertEqual((found.id, found.subject, found.group_id), ("{1}\\7", "order", "customer 7"))
        self.assertEqual(found.properties, {"tenant": "x", "parts": "[1]", "large": str(1 << 70)})
        self.assertEqual(found.annotations, {symbol("x-opt-partition-key"): "7"})
        self.assertEqual(bytes(found.body), b"three boxes")

    def test_round_trip(self) -> None:
        """What is encoded is decoded, with the priority if a bridge has written it."""
        sent = message(
            priority=4,
            message_id="1",
            correlation_id="2",
            reply_to="answers",
            content_type="text/plain",
            timestamp=1_700_000_000,
            headers={"msmq-hops": "1", "n": 7, "flag": True, "raw": b"\0\xff"},
        )
        found = decode(encode(sent), "orders").properties
        self.assertEqual(found.headers, sent.properties.headers)
        for name in ("priority", "message_id", "correlation_id", "reply_to", "content_type", "timestamp"):
            self.assertEqual(getattr(found, name), getattr(sent.properties, name))
        self.assertIsNone(decode(encode(message(priority=4)), "orders").properties.priority)

    def test_bodies(self) -> None:
        """Bodies of other kinds than binary data become bytes, with their content type."""
        for body, wanted, kind in (
            (b"\0\xff", b"\0\xff", None),
            ("grün", "grün".encode(), "text/plain; charset=utf-8"),
            ({"a": [1, None]}, b'{"a":[1,null]}', "application/json"),
            (None, b"", None),
        ):
            found = decode(bytes(Message(body=body).encode()), "orders")
            self.assertEqual((found.body, found.properties.content_type), (wanted, kind))

    def test_identifiers_of_other_types(self) -> None:
        """A correlation identifier is echoed with the type that the requester has given it."""
        for value in (IDENTIFIER, 7, b"\x01\xff", "text"):
            text = decode(bytes(Message(correlation_id=value).encode()), "orders").properties.correlation_id
            echoed: Any = Message()
            echoed.decode(encode(message(correlation_id=text)))
            found = echoed.correlation_id
            self.assertEqual(bytes(found) if isinstance(value, bytes) else found, value)

    def test_malformed_message(self) -> None:
        """Bytes that are no message are delivered as they are, with the reason."""
        data = b"\0Sw\xa1\x02\xff\xfe"
        found = decode(data, "orders")
        self.assertIn(DECODE_ERROR, found.properties.headers)
        self.assertEqual(found.body, data)
