"""Tests of the mapping of messages between MSMQ and AMQP."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge.body_decoding import BodyDecoding
from msmq.bridge.expressions import MessageExpression
from msmq.bridge.inward import is_request, map_inward
from msmq.bridge.native_headers import read_extension, write_extension
from msmq.bridge.outward import map_outward
from msmq.bridge.replies import PendingReplies, ReplyAddress
from msmq.bridge.rules import InwardRules, OutwardRules
from msmq.bridge.trail import Trail
from msmq.interfaces.bridge_messages import (
    DECODE_ERROR,
    AmqpMessage,
    AmqpProperties,
    MappingError,
    QueuedMessage,
)

REQUEST = "{67c2b3ac-2d63-4c5b-9a3c-0b1d5e7a0001}\\7"
OTHER = "{67c2b3ac-2d63-4c5b-9a3c-0b1d5e7a0002}\\3"
ANSWERS = "DIRECT=OS:ALPHA\\private$\\answers"


def queued(body: bytes = b"two boxes", extension: bytes = b"", **properties: Any) -> QueuedMessage:
    """A message from a queue."""
    found = {
        "id": REQUEST,
        "label": "order 7",
        "priority": 5,
        "delivery": "recoverable",
        "class": 0,
        "body_type": 0,
        "application_tag": 0,
        "sent_time": "2026-11-23T10:00:00Z",
        "correlation_id": None,
        "response_queue": None,
    }
    return QueuedMessage({**found, **properties}, body, extension)


def published(body: bytes = b"two boxes", **properties: Any) -> AmqpMessage:
    """A message from a broker."""
    return AmqpMessage("", "orders", AmqpProperties(**properties), body)


OUT = OutwardRules(route="alpha/out", exchange="orders", routing_key="new", replies={ANSWERS: "answers"})
IN = InwardRules(
    route="alpha/in", reply_queue="DIRECT=OS:ALPHA\\private$\\to-amqp", replies={ANSWERS: "answers"}
)


class OutwardTests(SynchronousTestCase):
    """Messages to a broker."""

    def test_properties(self) -> None:
        """Identifier, priority, delivery, label and time are properties and headers of AMQP."""
        message = map_outward(queued(application_tag=9, correlation_id="{x}\\1", time_to_be_received=5), OUT)
        found = message.properties
        self.assertEqual(
            (message.exchange, message.routing_key, message.body), ("orders", "new", b"two boxes")
        )
        self.assertEqual((found.message_id, found.priority, found.delivery_mode), (REQUEST, 5, 2))
        self.assertEqual((found.correlation_id, found.expiration), ("{x}\\1", "5000"))
        self.assertEqual(found.timestamp, 1795428000)
        self.assertEqual((found.headers["msmq-label"], found.headers["msmq-application-tag"]), ("order 7", 9))

    def test_time_that_is_left(self) -> None:
        """The broker keeps a message for what is left of its time, which begins when it was sent."""
        message = queued(time_to_be_received=5)
        for now, expiration in ((1795428001.5, "3500"), (1795428099.0, "0"), (1795427000.0, "5000")):
            self.assertEqual(map_outward(message, OUT, now=now).properties.expiration, expiration)
        self.assertIsNone(map_outward(queued(), OUT, now=1795428001.0).properties.expiration)

    def test_request(self) -> None:
        """A request carries its identifier as correlation-id, and the queue for its response queue."""
        found = map_outward(queued(response_queue=ANSWERS.upper()), OUT).properties
        self.assertEqual((found.reply_to, found.correlation_id), ("answers", REQUEST))

    def test_reply(self) -> None:
        """A reply goes to the reply-to of its request, with the correlation-id that the requester expects."""
        rules = OutwardRules(route="alpha/replies", answers=True)
        pending = PendingReplies()
        pending.add(REQUEST, ReplyAddress("amq.gen-1", "c-77", 10.0))
        reply = pending.find(REQUEST, 20.0)
        message = map_outward(queued(correlation_id=REQUEST), rules, reply)
        self.assertEqual((message.exchange, message.routing_key), ("", "amq.gen-1"))
        self.assertEqual(message.properties.correlation_id, "c-77")
        with self.assertRaisesRegex(MappingError, "^reply: no request with the identifier"):
            map_outward(queued(correlation_id=REQUEST), rules, pending.find(REQUEST, 90_000.0))

    def test_long_addresses(self) -> None:
        """Requests with long addresses, which a requester chooses, do not fill the memory: the oldest are
        forgotten.
        """
        pending = PendingReplies()
        long = "a" * (10 * 1024 * 1024)
        for number in range(4):
            pending.add(f"{number}", ReplyAddress(long, None, 10.0))
        pending.add("3", ReplyAddress("answers", None, 10.0))
        self.assertEqual([number for number, _ in pending.items(10.0)], ["1", "2", "3"])
        pending.add("4", ReplyAddress(long, None, 10.0))
        self.assertEqual([number for number, _ in pending.items(10.0)], ["1", "2", "3", "4"])
        # They count as they are stored.
        pending.add("5", ReplyAddress("\N{EURO SIGN}" * (3 * 1024 * 1024), None, 10.0))
        self.assertEqual([number for number, _ in pending.items(10.0)], ["3", "4", "5"])

    def test_routing_key_by_expression(self) -> None:
        """A JMESPath expression over the message chooses the routing key."""
        rules = OutwardRules(
            route="r", routing_expression=MessageExpression.parse("join('.', ['orders', label])")
        )
        self.assertEqual(map_outward(queued(label="eu"), rules).routing_key, "orders.eu")
        missing = OutwardRules(route="r", routing_expression=MessageExpression.parse("nothing"))
        with self.assertRaisesRegex(MappingError, "the value of 'nothing' is None, it has to be text"):
            map_outward(queued(), missing)

    def test_rules_for_properties(self) -> None:
        """Expressions set properties and headers."""
        rules = OutwardRules(
            route="r",
            properties={
                "type": MessageExpression.parse("label"),
                "header.size": MessageExpression.parse("length(body)"),
            },
        )
        found = map_outward(queued(), rules).properties
        self.assertEqual((found.type, found.headers["size"]), ("order 7", 9))

    def test_headers_of_nservicebus_are_native(self) -> None:
        """Headers of NServiceBus in the extension become headers of AMQP."""
        extension = write_extension({"NServiceBus.MessageId": "a<b", "tenant": "x"})
        self.assertTrue(extension.startswith(b'<?xml version="1.0"?><ArrayOfHeaderInfo>'))
        headers = map_outward(queued(extension=extension), OUT).properties.headers
        self.assertEqual((headers["NServiceBus.MessageId"], headers["tenant"]), ("a<b", "x"))

    def test_limits(self) -> None:
        """What the broker would refuse becomes a dead letter with the name of the limit."""
        small = OutwardRules(route="r", limit=3)
        for message, rules, reason in (
            (queued(b"four"), small, "limit: the body has 4 bytes, and limit is 3"),
            (queued(extension=b"\0" * 40_000), OUT, "limit: the extension has 40000 bytes"),
            (
                queued(extension=write_extension({f"tenant-{number}": "" for number in range(40_000)})),
                OUT,
                "limit: the extension has [0-9]+ bytes",
            ),
            (
                queued(label="x" * 300),
                OutwardRules(route="r", routing_expression=MessageExpression.parse("label")),
                "limit: the routing key has 300 bytes, and the limit is 255",
            ),
        ):
            with self.assertRaisesRegex(MappingError, reason):
                map_outward(message, rules)

    def test_expression_that_cannot_be_applied(self) -> None:
        """The reason names the expression, whatever its functions raise at what a sender has written."""
        for text, label in (
            ("contains(label, headers.tenant)", "x"),
            ("floor(to_number(label))", "inf"),
            ("ceil(to_number(label))", "nan"),
            ("label < `1`", "x"),
        ):
            expression = MessageExpression.parse(text)
            raised = self.assertRaises(MappingError, expression.value, {"label": label, "headers": {}})
            self.assertIn(f"mapping: '{text}' cannot be applied: ", str(raised))

    def test_expression_that_costs_too_much(self) -> None:
        """A message on which an expression takes too long, or makes too long a text, cannot be mapped; the
        next one is.
        """
        for text, reason in (
            (f"length([{','.join(['body'] * 300)}][])", "takes more than 200000 steps"),
            ("join(join(label, body), body)", "makes more than 16777216 characters"),
        ):
            rules = OutwardRules(
                route="r",
                properties={"header.x": MessageExpression.parse(text)},
                decoding=BodyDecoding("json"),
            )
            large = queued(json.dumps(["x"] * 1000).encode(), label="x" * 200)
            raised = self.assertRaises(MappingError, map_outward, large, rules)
            self.assertIn(reason, str(raised))
            self.assertIn("x", map_outward(queued(b'["a", "b"]'), rules).properties.headers)


class InwardTests(SynchronousTestCase):
    """Messages from a broker."""

    def test_properties(self) -> None:
        """Priority, expiration, label and identifiers are properties of MSMQ, as far as it has them."""
        message = map_inward(
            published(
                priority=9, expiration="1500", type="order", correlation_id=REQUEST, headers={"tenant": "x"}
            ),
            IN,
        )
        found = message.properties
        self.assertEqual((found["priority"], found["time_to_be_received"]), (7, 2))
        self.assertEqual((found["label"], found["correlation_id"]), ("order", REQUEST))
        headers = read_extension(message.extension)
        assert headers is not None
        self.assertEqual((headers["tenant"], headers["msmq-hops"]), ("x", "1"))

    def test_long_expiration(self) -> None:
        """An expiration of any number of digits is a time: the longest one, if it is longer than that."""
        for digits, seconds in (
            ("9" * 5000, 0xFFFFFFFE),
            ("0" * 5000 + "1500", 2),
            ("0", 0),
            ("\u0661" * 4, None),
        ):
            found = map_inward(published(expiration=digits), IN).properties
            self.assertEqual(found.get("time_to_be_received"), seconds)

    def test_undecodable(self) -> None:
        """A message whose properties are unknown is not forwarded without them."""
        error = self.assertRaises(MappingError, map_inward, published(headers={DECODE_ERROR: "no"}), IN)
        self.assertEqual(str(error), "decoding: the message of the broker cannot be decoded: no")

    def test_response_queues(self) -> None:
        """A reply-to becomes the response queue that it stands for, or else the queue for replies."""
        known = map_inward(published(reply_to="answers"), IN).properties
        other = map_inward(published(reply_to="amq.gen-1"), IN).properties
        self.assertEqual((known["response_queue"], other["response_queue"]), (ANSWERS, IN.reply_queue))
        self.assertEqual(
            [is_request(published(reply_to=name), IN) for name in ("answers", "amq.gen-1", "")],
            [False, True, False],
        )

    def test_key_depends_on_identifier_and_contents(self) -> None:
        """The same message has the same key; another message with its message-id has another one."""
        keys = [
            map_inward(message, IN).key
            for message in (
                published(message_id="1"),
                published(message_id="1"),
                published(b"three boxes", message_id="1"),
                published(message_id="2"),
            )
        ]
        self.assertEqual(keys[0], keys[1])
        self.assertEqual(len(set(keys)), 3)
        self.assertEqual(map_inward(published(), IN).key, "")

    def test_key_depends_on_headers(self) -> None:
        """Published again with other headers, a message is another one; those of the broker do not count."""
        keys = [
            map_inward(published(message_id="1", headers=headers), IN).key
            for headers in ({"retry": 1}, {"retry": 1, "x-delivery-count": 2}, {"retry": 2})
        ]
        self.assertEqual(keys[0], keys[1])
        self.assertNotEqual(keys[0], keys[2])

    def test_key_depends_on_requests(self) -> None:
        """Requests that use an identifier twice are different ones if their replies are."""
        key = map_inward(published(message_id="1", reply_to="a", correlation_id="x"), IN).key
        for reply_to, correlation in (("a", "y"), ("b", "x"), (None, "x"), ("a", None)):
            other = published(message_id="1", reply_to=reply_to, correlation_id=correlation)
            self.assertNotEqual(map_inward(other, IN).key, key)

    def test_identifiers_that_are_none(self) -> None:
        """What only looks like the identifier of a message, or names two queues, stays a header."""
        guid = REQUEST.partition("\\")[0]
        for text in (f"{guid}\\4294967296", f"{guid}\\9999999999", f"{guid[1:]}\\7", f"{guid[:-1]}\\7"):
            mapped = map_inward(published(correlation_id=text), IN)
            self.assertNotIn("correlation_id", mapped.properties)
            found = read_extension(mapped.extension)
            assert found is not None
            self.assertEqual(found["correlation-id"], text)
        mapped = map_inward(published(headers={"msmq-response-queue": f"{ANSWERS},{ANSWERS}"}), IN)
        self.assertNotIn("response_queue", mapped.properties)

    def test_everything_that_msmq_has_no_field_for(self) -> None:
        """Properties of AMQP without a field are headers in the Extension, and return from it."""
        message = map_inward(
            published(
                message_id="1",
                correlation_id="c-1",
                content_type="text/csv",
                content_encoding="gzip",
                type="order",
                app_id="billing",
                user_id="guest",
                timestamp=1795428000,
                headers={"msmq-label": "order 7", "msmq-class": 513},
            ),
            IN,
        )
        headers = read_extension(message.extension)
        assert headers is not None
        for name, value in (
            ("message-id", "1"),
            ("correlation-id", "c-1"),
            ("content-type", "text/csv"),
            ("app-id", "billing"),
            ("user-id", "guest"),
            ("timestamp", "1795428000"),
            ("msmq-class", "513"),
        ):
            self.assertEqual(headers[name], value)
        out = map_outward(queued(extension=message.extension), OUT).properties
        self.assertEqual((out.content_type, out.content_encoding, out.type), ("text/csv", "gzip", "order"))

    def test_message_of_another_queue_manager(self) -> None:
        """A message between two queue managers keeps its response queue and its correlation identifier."""
        original = queued(response_queue="DIRECT=OS:BETA\\private$\\r", correlation_id=OTHER)
        for replies in ({}, {"*": "r"}):
            out = map_outward(original, OutwardRules(route="alpha/out", routing_key="k", replies=replies))
            back = map_inward(out, InwardRules(route="beta/in", replies={"DIRECT=OS:BETA\\private$\\r": "r"}))
            self.assertEqual(
                (back.properties["response_queue"], back.properties["correlation_id"]),
                (original.properties["response_queue"], original.properties["correlation_id"]),
            )
        invalid = published(headers={"msmq-response-queue": "DIRECT=nonsense"})
        self.assertNotIn("response_queue", map_inward(invalid, IN).properties)

    def test_label_is_cut(self) -> None:
        """A label has at most 249 UTF-16 units, and no half of a pair."""
        label = map_inward(published(headers={"msmq-label": "x" * 248 + "\U0001f600"}), IN).properties[
            "label"
        ]
        self.assertEqual(label, "x" * 248)

    def test_round_trip(self) -> None:
        """A message that crosses the bridge twice keeps label, priority, application tag and extension."""
        out = map_outward(queued(application_tag=9, extension=b"\x01\x02"), OUT)
        back = map_inward(out, InwardRules(route="beta/in"))
        self.assertEqual((back.properties["label"], back.properties["application_tag"]), ("order 7", 9))
        self.assertEqual((back.properties["priority"], back.extension), (5, b"\x01\x02"))


class TrailTests(SynchronousTestCase):
    """Loops of bridges."""

    def test_loop_is_noticed(self) -> None:
        """A message that comes to a route again is not forwarded."""
        there = map_outward(queued(), OUT)
        back = map_inward(there, IN)
        with self.assertRaisesRegex(
            MappingError, "loop: the message has passed the route 'alpha/out' before"
        ):
            map_outward(queued(extension=back.extension), OUT)

    def test_hops_are_limited(self) -> None:
        """A message passes a limited number of bridges, also where their names are lost."""
        with self.assertRaisesRegex(MappingError, "has passed 16 bridges, and the limit is 16"):
            Trail.read({"msmq-hops": "16"}).extended("r", 16)
        self.assertEqual(Trail.read({"msmq-hops": "9" * 99, "msmq-origin": 7}), Trail())
