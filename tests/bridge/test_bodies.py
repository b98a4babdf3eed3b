"""Bodies across the bridge: decoded, checked in as claims, and mapped by a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.bridge.body_decoding import BodyDecoding
from msmq.bridge.claims import CLAIM, SIZE, BodyClaim
from msmq.bridge.expressions import MessageExpression
from msmq.bridge.inward import map_inward
from msmq.bridge.mapping_program import MappingProgram
from msmq.bridge.native_headers import read_extension, write_extension
from msmq.bridge.outward import map_outward
from msmq.bridge.rules import InwardRules, OutwardRules
from msmq.interfaces import (
    AmqpMessage,
    IInwardMapping,
    IOutwardMapping,
    MappingError,
    MessageForQueue,
    QueuedMessage,
)
from tests.bridge.test_mapping import published, queued

XML = b'<?xml version="1.0"?><Order><Region>eu</Region></Order>'


class DecodingTests(SynchronousTestCase):
    """Routes with C{decode}."""

    def test_xml_is_json_at_the_broker(self) -> None:
        """The decoded body is published as JSON, and expressions see its values."""
        rules = OutwardRules(
            route="r",
            decoding=BodyDecoding("auto"),
            routing_expression=MessageExpression.parse("body.Order.Region"),
        )
        extension = write_extension({"NServiceBus.ContentType": "text/xml"})
        message = map_outward(queued(XML, extension), rules)
        self.assertEqual((message.routing_key, message.body), ("eu", b'{"Order":{"Region":"eu"}}'))
        self.assertEqual(message.properties.content_type, "application/json")
        self.assertEqual(message.properties.headers["NServiceBus.ContentType"], "application/json")

    def test_text_of_com(self) -> None:
        """A string of ActiveXMessageFormatter is text in JSON."""
        rules = OutwardRules(route="r", routing_key="k", decoding=BodyDecoding("activex"))
        message = map_outward(queued("grün".encode("utf-16-le"), body_type=8), rules)
        self.assertEqual(message.body, '"grün"'.encode())

    def test_json_keeps_its_bytes(self) -> None:
        """JSON in UTF-8 is forwarded byte by byte, without its mark: numbers keep their digits."""
        body = b'{ "price": 1.10000000000000000001 }'
        for data in (body, b"\xef\xbb\xbf" + body):
            self.assertEqual(BodyDecoding("auto").decode(data).data, body)

    def test_from_a_broker(self) -> None:
        """Bodies of a broker are decoded too; the type of the body of before no longer holds."""
        rules = InwardRules(
            route="r",
            decoding=BodyDecoding("xml"),
            properties={"label": MessageExpression.parse("body.Order.Region")},
        )
        message = map_inward(published(XML, headers={"msmq-body-type": 8}), rules)
        self.assertEqual((message.body, message.properties["label"]), (b'{"Order":{"Region":"eu"}}', "eu"))
        self.assertNotIn("body_type", message.properties)
        self.assertEqual((read_extension(message.extension) or {})["content-type"], "application/json")

    def test_body_of_another_format(self) -> None:
        """A body that cannot be decoded is a dead letter with the reason."""
        rules = OutwardRules(route="r", routing_key="k", decoding=BodyDecoding("json"))
        with self.assertRaisesRegex(MappingError, "^decode: the body is not JSON"):
            map_outward(queued(b"two boxes"), rules)
        with self.assertRaisesRegex(MappingError, "^decode: the body is in an unknown format"):
            map_inward(published(b"\x00\xff"), InwardRules(route="r", decoding=BodyDecoding("auto")))


class ClaimTests(SynchronousTestCase):
    """References of bodies that are stored."""

    def test_body_and_back(self) -> None:
        """A message that is checked in and out again is the message of before."""
        message = published(b"large", headers={"tenant": "x"})
        claim = BodyClaim.of(message.body)
        sent = claim.check_in(message)
        self.assertEqual((sent.body, sent.properties.headers[SIZE]), (b"", 5))
        self.assertEqual(BodyClaim.read(sent.properties.headers), claim)
        self.assertEqual(claim.check_out(sent, b"large"), message)
        self.assertIsNone(BodyClaim.read(message.properties.headers))

    def test_another_body(self) -> None:
        """A stored body that has changed is refused."""
        sent = BodyClaim.of(b"large").check_in(published(b"large"))
        with self.assertRaisesRegex(MappingError, "is damaged"):
            BodyClaim.of(b"large").check_out(sent, b"lurge")

    def test_invalid_references(self) -> None:
        """A reference is a digest, and never the path of another file."""
        for reference in ("../../etc/passwd", "A" * 64, "", 7, b"x"):
            with self.assertRaisesRegex(MappingError, "it has to be a SHA-256"):
                BodyClaim.read({CLAIM: reference, SIZE: 1})
        for size in (None, "-1", "1e3", "9" * 13):
            with self.assertRaisesRegex(MappingError, "it has to be a number of bytes"):
                BodyClaim.read({CLAIM: "a" * 64, SIZE: size})

    def test_large_bodies_pass_the_mapping(self) -> None:
        """With a claim check a body over the limit is mapped; without one it is refused by name."""
        large = queued(b"four")
        rules = OutwardRules(route="r", routing_key="k", limit=3, has_claims=True)
        self.assertEqual(map_outward(large, rules).body, b"four")
        with self.assertRaisesRegex(MappingError, "^limit: the body has 4 bytes, and limit is 3"):
            map_outward(large, attrs.evolve(rules, has_claims=False))


@implementer(IOutwardMapping, IInwardMapping)
@attrs.frozen
class Changing:
    """A mapping of a user."""

    change: Callable[[Any], Any]

    def to_broker(self, message: QueuedMessage, mapped: AmqpMessage) -> AmqpMessage:
        """See L{IOutwardMapping}."""
        found: AmqpMessage = self.change(mapped)
        return found

    def to_queue(self, message: AmqpMessage, mapped: MessageForQueue) -> MessageForQueue:
        """See L{IInwardMapping}."""
        found: MessageForQueue = self.change(mapped)
        return found


class ProgramTests(SynchronousTestCase):
    """Routes with C{mapping}."""

    def out(self, change: Callable[[AmqpMessage], Any], **rules: Any) -> AmqpMessage:
        program = MappingProgram("shop:Mapping", Changing(change))
        return map_outward(queued(), OutwardRules(route="r", routing_key="k", program=program, **rules))

    def test_changes(self) -> None:
        """A program changes what the rules have mapped, in both directions."""
        out = self.out(lambda mapped: attrs.evolve(mapped, routing_key="other", body=mapped.body.upper()))
        self.assertEqual((out.routing_key, out.body), ("other", b"TWO BOXES"))
        program = MappingProgram("shop:Mapping", Changing(lambda mapped: attrs.evolve(mapped, body=b"new")))
        self.assertEqual(map_inward(published(), InwardRules(route="r", program=program)).body, b"new")

    def test_trail_stays(self) -> None:
        """Loops are noticed whatever headers a program leaves."""
        out = self.out(
            lambda mapped: attrs.evolve(mapped, properties=attrs.evolve(mapped.properties, headers={}))
        )
        self.assertEqual(out.properties.headers, {"msmq-hops": "1", "msmq-origin": "r"})

    def test_failures(self) -> None:
        """What a program does wrong is the reason of the dead letter of that message."""

        def refuse(mapped: AmqpMessage) -> AmqpMessage:
            raise MappingError("the order has no customer")

        cases: list[tuple[Callable[[AmqpMessage], Any], str]] = [
            (refuse, "mapping: shop:Mapping: the order has no customer"),
            (lambda mapped: 1 / 0, "mapping: shop:Mapping has failed: ZeroDivisionError: division by zero"),
            (lambda mapped: None, "the result of shop:Mapping is a NoneType; it has to be AmqpMessage"),
            (lambda mapped: attrs.evolve(mapped, body=_any("text")), "the body of shop:Mapping is a str"),
            (
                lambda mapped: attrs.evolve(
                    mapped, properties=attrs.evolve(mapped.properties, correlation_id=_any(7))
                ),
                "mapping: the correlation_id is an int; it has to be text",
            ),
            (lambda mapped: attrs.evolve(mapped, routing_key="x" * 300), "limit: the routing key has 300"),
            (lambda mapped: attrs.evolve(mapped, body=bytes(99)), "limit: the body has 99 bytes"),
        ]
        for change, reason in cases:
            with self.assertRaisesRegex(MappingError, reason):
                self.out(change, limit=50)


def _any(value: Any) -> Any:
    """A value that a type checker of the user would have found."""
    return value
