"""Messages of a bridge as messages of AMQP 1.0, as proton reads and writes them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from proton import Data, Described, Message, symbol, ulong
from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge_service.amqp10.messages import decode, encode
from msmq.interfaces.bridge_messages import DECODE_ERROR, AmqpMessage, AmqpProperties

IDENTIFIER = UUID("12345678-1234-5678-1234-567812345678")


def message(body: bytes = b"three boxes", **properties: object) -> AmqpMessage:
    """A message for the address C{orders}."""
    return AmqpMessage("orders", "", AmqpProperties(**properties), body)  # type: ignore[arg-type]


def section(code: int, value: Any) -> bytes:
    """A section of a message."""
    data = Data()
    data.put_object(Described(ulong(code), value))
    return bytes(data.encode())


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

    def test_several_sections(self) -> None:
        """A body of several sections is forwarded completely. [AMQP] 3.2."""
        whole = section(0x73, ["1"]) + section(0x75, b"three ") + section(0x75, b"boxes") + section(0x78, {})
        found = decode(whole, "orders")
        self.assertEqual((found.body, found.properties.message_id), (b"three boxes", "1"))
        large = decode(section(0x75, b"x" * 300) + section(0x75, b"y"), "orders")
        self.assertEqual(large.body, b"x" * 300 + b"y")
        found = decode(section(0x76, [1, 2]) + section(0x76, [{"a": 3}]), "orders")
        self.assertEqual((found.body, found.properties.content_type), (b'[1,2,{"a":3}]', "application/json"))

    def test_malformed_sections(self) -> None:
        """A message whose sections have another type than they should is delivered with the reason."""
        body = section(0x75, b"three boxes")
        for data in (
            section(0x74, [1, 2]) + body,
            section(0x72, "annotations") + body,
            section(0x73, [None, None, None, b"\xff"]) + section(0x76, [1]) + body,
            b"three boxes",
            # A body that is a map with a list as a key, and a character beyond Unicode.
            bytes.fromhex("005377c10802c003015401" + "5401"),
            bytes.fromhex("00537773ff110000"),
        ):
            found = decode(data, "orders")
            self.assertIn(DECODE_ERROR, found.properties.headers)
            self.assertEqual(found.body, data)

    def test_no_time_left(self) -> None:
        """A message whose time is over has the shortest time to live, since 0 is one without an end."""
        found: Any = Message()
        found.decode(encode(message(expiration="0")))
        self.assertEqual(found.ttl, 0.001)

    def test_properties_of_a_program(self) -> None:
        """A value that no property can have is a fault of this message."""
        for properties in ({"priority": 300}, {"priority": "high"}, {"reply_to": 5}, {"timestamp": 1 << 70}):
            with self.assertRaises(ValueError):
                encode(message(**properties))
