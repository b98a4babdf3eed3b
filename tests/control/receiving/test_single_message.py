"""Sending and receiving one message with nothing but an HTTP client."""

from __future__ import annotations

import json
from base64 import b64decode
from urllib.parse import unquote

from msmq.control.protocol.records import StreamRecord
from msmq.control.server.receiving.single_message import property_headers
from msmq.queues.arriving.message import Delivery
from tests.control.support import ORDERS, Caller, ControlTestCase


class SendOneTests(ControlTestCase):
    """The body is the message's, the properties are in the query."""

    def test_send(self) -> None:
        """The body travels as it is, and the answer is the identifier."""
        answer = self.call("POST", "/v1/messages", b"\0\xff", destination=ORDERS, label="Grüße", priority=5)
        self.assertEqual(answer.status, 201)
        peek = self.run_to_end(self.service.reserve(ORDERS, timeout=0, peek=True))
        view = peek.messages[0].view
        self.assertEqual(answer.json, {"id": str(view.identifier)})
        self.assertEqual((bytes(view.body), view.label, view.priority), (b"\0\xff", "Grüße", 5))

    def test_key(self) -> None:
        """A message under a key is sent once, and the repeat has the answer of the first."""
        answers = [
            self.call("POST", "/v1/messages", body, destination=ORDERS, key="7") for body in (b"1", b"2")
        ]
        self.assertEqual([answer.status for answer in answers], [201, 201])
        self.assertEqual(answers[0].json, answers[1].json)
        self.assertEqual(self.bodies(), [b"1"])
        wrong = self.call("POST", "/v1/messages", b"3", destination=ORDERS, key="")
        self.assert_refused(wrong, 400, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE", "key")

    def test_key_and_delivery(self) -> None:
        """A message with a key is recoverable unless its delivery is express; without one it is express."""
        for expected, properties in (
            (True, {"key": "1"}),
            (False, {"key": "2", "delivery": "express"}),
            (True, {"key": "3", "delivery": "recoverable"}),
            (False, {}),
        ):
            self.run_to_end(self.service.purge_queue(ORDERS))
            self.call("POST", "/v1/messages", b"", destination=ORDERS, **properties)
            properties = {name: value + "r" if name == "key" else value for name, value in properties.items()}
            self.send_records(StreamRecord({"destination": ORDERS, **properties}, b""))
            peek = self.run_to_end(self.service.reserve(ORDERS, count=100, timeout=0, peek=True))
            self.assertEqual([one.view.is_recoverable for one in peek.messages], [expected, expected])

    def test_body_is_no_form(self) -> None:
        """Curl calls every body a form by default; it is a body all the same."""
        caller = self.caller()
        caller.ask(
            "POST",
            "/v1/messages",
            b"label=injected&x=y",
            {"Content-Type": "application/x-www-form-urlencoded"},
            destination=ORDERS,
        )
        self.assertEqual(caller.answer.status, 201)
        self.assertEqual(self.bodies(), [b"label=injected&x=y"])

    def test_empty_body(self) -> None:
        """A message may be empty."""
        self.assertEqual(self.call("POST", "/v1/messages", destination=ORDERS).status, 201)
        self.assertEqual(self.bodies(), [b""])

    def test_refusals(self) -> None:
        """An error names the problem, with the appropriate status."""
        for parameters, status, error in (
            ({}, 400, "MQ_ERROR_INVALID_PARAMETER"),
            ({"destination": ".\\private$\\missing"}, 404, "MQ_ERROR_QUEUE_NOT_FOUND"),
            ({"destination": "DIRECT=nonsense"}, 400, "MQ_ERROR_ILLEGAL_FORMATNAME"),
            ({"destination": ORDERS, "priority": "8"}, 400, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
            ({"destination": ORDERS, "colour": "red"}, 400, "MQ_ERROR_INVALID_PARAMETER"),
            ({"destination": ORDERS, "transactional": "1"}, 400, "MQ_ERROR_TRANSACTION_USAGE"),
        ):
            with self.subTest(parameters=parameters):
                self.assert_refused(self.call("POST", "/v1/messages", b"x", **parameters), status, error)
        self.assertEqual(self.bodies(), [])


class ReceiveOneTests(ControlTestCase):
    """One message, removed when it is written."""

    def receive(self, accept: str = "*/*", **parameters: object) -> Caller:
        caller = self.caller()
        headers = {"Accept": accept}
        caller.ask("POST", "/v1/messages/receive", None, headers, **{"queue": ORDERS, **parameters})
        return caller

    def get(self, accept: str = "*/*", **parameters: object) -> Caller:
        caller = self.caller()
        caller.ask("GET", "/v1/messages", None, {"Accept": accept}, **{"queue": ORDERS, **parameters})
        return caller

    def test_raw(self) -> None:
        """The answer is the raw body; the properties are headers."""
        self.put(b"\0\xff", label="a b%Grüße", priority=6, extension=b"xyz")
        answer = self.receive().answer
        self.assertTrue(answer.is_whole)
        self.assertEqual((answer.status, answer.body), (200, b"\0\xff"))
        self.assertEqual(answer.headers["content-type"], "application/octet-stream")
        self.assertEqual(unquote(answer.headers["msmq-label"]), "a b%Grüße")
        self.assertEqual(answer.headers["msmq-priority"], "6")
        self.assertEqual(answer.headers["msmq-extension-base64"], "eHl6")
        self.assertEqual(answer.headers["msmq-journal"], "false")
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 0)

    def test_json(self) -> None:
        """With JSON requested the whole message is one object."""
        self.put("Grüße".encode(), label="L")
        answer = self.receive("application/json").answer
        self.assertTrue(answer.is_whole)
        self.assertEqual((answer.json["body"], answer.json["label"]), ("Grüße", "L"))
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 0)

    def test_large_messages(self) -> None:
        """A message as large as they come arrives whole, raw and in JSON."""
        body = bytes(range(256)) * 16300
        self.put(body, body)
        self.assertEqual(self.receive().answer.body, body)
        self.assertEqual(self.receive("application/json").answer.json["body_size"], len(body))

    def test_large_bodies_in_json(self) -> None:
        """However long a body is, JSON has it as text if it is text, and else in base64."""
        text = "aé€😀" * 40000
        almost = b"\n" * 65535 + b"\x80" * 65537
        for body in (text.encode(), b"x" + text.encode(), almost, b"x" * 200000 + b"\0", b"\xbf" * 70000):
            self.put(body)
            answer = self.receive("application/json").answer
            self.assertTrue(answer.is_whole)
            shown = answer.json
            if "body" in shown:
                self.assertEqual(shown["body"].encode(), body)
            else:
                self.assertNotIn(body, (text.encode(), b"x" + text.encode()))
                self.assertEqual(b64decode(shown["body_base64"]), body)

    def test_receive_by_get(self) -> None:
        """A GET without C{peek} receives too, and its answer says that this is deprecated."""
        self.put(b"1")
        peeked = self.get(peek="true").answer
        self.assertNotIn("deprecation", peeked.headers)
        answer = self.get().answer
        self.assertEqual((answer.body, answer.headers["deprecation"]), (b"1", "@1796083200"))
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 0)
        self.put(b"2")
        received = self.receive().answer
        self.assertEqual(received.body, b"2")
        self.assertNotIn("deprecation", received.headers)

    def test_peek_by_post(self) -> None:
        """What receives cannot be asked for a peek."""
        self.put(b"1")
        self.assert_refused(self.receive(peek="true").answer, 400, "MQ_ERROR_INVALID_PARAMETER", "peek")
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 1)

    def test_peek(self) -> None:
        """A peek leaves the message where it is."""
        self.put(b"1")
        self.assertEqual(self.get(peek="true").answer.body, b"1")
        self.assertEqual(self.bodies(), [b"1"])

    def test_waits(self) -> None:
        """Without a message it waits, and gives up after the time-out."""
        first, second = self.receive(), self.receive(timeout=5)
        self.clock.advance(4)
        self.assertFalse(first.is_answered or second.is_answered)
        self.put(b"1")
        self.clock.advance(0)
        self.assertEqual(first.answer.body, b"1")
        self.clock.advance(1)
        self.assert_refused(second.answer, 408, "MQ_ERROR_IO_TIMEOUT")

    def test_caller_that_dies_waiting_receives_nothing(self) -> None:
        """The message that comes afterwards stays."""
        self.receive().hang_up()
        self.put(b"1")
        self.clock.advance(0)
        self.assertEqual(self.bodies(), [b"1"])

    def test_caller_that_dies_before_the_end(self) -> None:
        """If the connection breaks while the message is written, it is back at its position."""
        self.put(bytes(200000), b"2")
        caller = self.caller()
        caller.protocol.dataReceived(
            b"GET /v1/messages?queue="
            + ORDERS.replace("\\", "%5C").encode()
            + b" HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        caller.pause()
        self.clock.advance(10)
        self.assertEqual(self.bodies(), [b"2"])
        caller.hang_up()
        self.assertEqual(self.bodies(), [bytes(200000), b"2"])

    def test_answer_ends_when_the_message_is_removed(self) -> None:
        """The end of the answer comes only after the removal is on disk."""
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        self.disk.is_slow = True
        caller = self.receive()
        self.assertEqual((caller.answer.body, caller.answer.is_whole), (b"1", False))
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertTrue(caller.answer.is_whole)

    def test_failed_removal_cuts_the_answer(self) -> None:
        """If it cannot be removed, the answer has no end, so that the caller does not count it as
        received.
        """
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        self.disk.is_broken = True
        caller = self.receive()
        self.assertFalse(caller.answer.is_whole)
        self.assertTrue(caller.transport.disconnecting or caller.transport.disconnected)
        caller.hang_up()
        self.assertEqual(self.bodies(), [b"1"])

    def test_head_removes_nothing(self) -> None:
        """A request for the headers alone removes no message."""
        self.put(b"1")
        caller = self.caller()
        caller.ask("HEAD", "/v1/messages", queue=ORDERS)
        self.assertIn(b"405", caller.transport.value().split(b"\r\n")[0])
        self.assertEqual(self.bodies(), [b"1"])

    def test_extension_beyond_a_header(self) -> None:
        """A message whose extension fits in no header stays, and the refusal says how to get it."""
        self.put(b"1", extension=bytes(10000))
        self.assert_refused(self.receive().answer, 406, "MQ_ERROR_INVALID_PARAMETER", "application/json")
        self.assertEqual(self.bodies(), [b"1"])
        self.assertEqual(len(self.receive("application/json").answer.json["extension_base64"]), 13336)


class PropertyHeaderTests(ControlTestCase):
    """Properties as headers."""

    def test_every_kind_of_value(self) -> None:
        """Each kind of value has its one spelling, and what is not there has none."""
        headers = property_headers(
            {
                "label": " tab\there\r\nü%",
                "body_type": 8,
                "journal": True,
                "acknowledge": ["reach", "receive"],
                "admin_queue": None,
                "transaction": {"first": True},
                "response_queue": "DIRECT=OS:beta\\private$\\q;journal",
            }
        )
        self.assertEqual(
            headers,
            {
                "Msmq-Label": "%20tab%09here%0D%0A%C3%BC%25",
                "Msmq-Body-Type": "8",
                "Msmq-Journal": "true",
                "Msmq-Acknowledge": "reach,receive",
                "Msmq-Transaction": '{"first":true}',
                "Msmq-Response-Queue": "DIRECT=OS:beta\\private$\\q;journal",
            },
        )
        self.assertEqual(json.loads(headers["Msmq-Transaction"]), {"first": True})
