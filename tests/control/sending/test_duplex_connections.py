"""Connections that carry records in both directions: each message is answered, and confirmed, meanwhile."""

from __future__ import annotations

from typing import Any

import attrs

from msmq.control.protocol.records import PROTOCOL, RecordDecoder, StreamRecord
from msmq.control.server.http.limits import ControlLimits
from msmq.queues.arriving.message import Delivery
from tests.control.support import ORDERS, Caller, ControlTestCase

SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: msmq-records\r\n\r\n"
UPGRADE = {"Connection": "Upgrade", "Upgrade": PROTOCOL}
OTHER = ".\\private$\\other"
END = StreamRecord({"end": True})


def record(body: bytes, **header: object) -> StreamRecord:
    return StreamRecord({"destination": ORDERS, **header}, body)


class SteadyTestCase(ControlTestCase):
    limits = attrs.evolve(ControlLimits(), slice_messages=3, send_backlog=1000, receive_batch=2)

    def said(self, caller: Caller) -> list[dict[str, object]]:
        """The headers of what the server has said since it agreed."""
        self.assertTrue(caller.transport.value().startswith(SWITCHED))
        return [dict(reported.header) for reported in self.records(caller)]

    def records(self, caller: Caller) -> list[StreamRecord]:
        return RecordDecoder().feed(caller.transport.value().removeprefix(SWITCHED))

    def say(self, caller: Caller, *records: StreamRecord) -> None:
        caller.feed(b"".join(reported.to_bytes() for reported in records))
        # Every slice has its turn.
        for _ in records:
            self.clock.advance(0)

    def sending(self, **parameters: Any) -> Caller:
        caller = self.caller()
        caller.ask("GET", "/v1/send", headers=UPGRADE, **parameters)
        return caller

    def receiving(self, **parameters: Any) -> Caller:
        caller = self.caller()
        caller.ask("GET", "/v1/receive", headers=UPGRADE, **{"queue": ORDERS, **parameters})
        return caller


class SendTests(SteadyTestCase):
    """Messages that are sent, and their answers."""

    def test_answered_as_it_is_taken(self) -> None:
        """Each message is answered while the connection goes on, with its identifier."""
        caller = self.sending()
        self.assertEqual(self.said(caller), [])
        self.say(caller, record(b"1"))
        self.say(caller, record(b"2"), record(b"3"))
        first, second, third = self.identifiers()
        self.assertEqual(
            self.said(caller), [{"first": first, "messages": 1}, {"first": second, "messages": 2}]
        )
        self.assertEqual(int(third.rpartition("\\")[2]), int(second.rpartition("\\")[2]) + 1)
        self.assertEqual(self.bodies(), [b"1", b"2", b"3"])

    def test_answered_only_when_stored(self) -> None:
        """A recoverable message is answered when it is on disk; later messages do not wait for that."""
        caller = self.sending()
        self.disk.is_slow = True
        self.say(caller, *(record(b"%d" % number, delivery="recoverable") for number in range(4)))
        self.assertEqual(self.said(caller), [])
        self.disk.catch_up()
        self.assertEqual([reported["messages"] for reported in self.said(caller)], [3, 1])
        self.assertEqual(self.bodies(), [b"0", b"1", b"2", b"3"])

    def test_keys(self) -> None:
        """A repetition is answered, in its order, with the identifier of the first, and when that is
        stored.
        """
        caller = self.sending()
        self.disk.is_slow = True
        self.say(caller, *(record(key.encode(), key=key, delivery="recoverable") for key in "abcad"))
        self.assertEqual(self.said(caller), [])
        self.disk.catch_up()
        self.disk.is_slow = False
        self.disk.catch_up()
        a, _, _, d = self.identifiers()
        self.assertEqual(self.bodies(), [b"a", b"b", b"c", b"d"])
        self.assertEqual(
            self.said(caller),
            [{"first": a, "messages": 3}, {"first": a, "messages": 1}, {"first": d, "messages": 1}],
        )

    def test_records_in_pieces(self) -> None:
        """Bytes count, not how they arrive."""
        caller = self.sending()
        for byte in record(b"body", label="L").to_bytes():
            caller.feed(bytes([byte]))
        self.assertEqual(self.bodies(), [b"body"])

    def test_records_behind_the_request(self) -> None:
        """A caller that knows the server need not wait for its consent."""
        caller = self.caller()
        caller.feed(
            b"GET /v1/send HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c, MSMQ-Records\r\n\r\n"
            + record(b"early").to_bytes()
        )
        self.clock.advance(0)
        self.assertEqual(self.bodies(), [b"early"])
        self.assertEqual(len(self.said(caller)), 1)

    def test_refused_message(self) -> None:
        """A refusal says which message it is about, what is behind it is dropped, and the connection ends."""
        caller = self.sending()
        self.say(caller, record(b"1"), record(b"2", priority=9), record(b"3"))
        taken, refused, end = self.said(caller)
        self.assertEqual(taken["messages"], 1)
        self.assertEqual((refused["error"], refused["messages"]), ("MQ_ERROR_ILLEGAL_PROPERTY_VALUE", 1))
        self.assertEqual(end, {"end": "error"})
        self.assertEqual(self.bodies(), [b"1"])
        self.assertTrue(caller.transport.disconnecting)

    def test_store_that_fails(self) -> None:
        """A message that could not be stored is refused, each in its order."""
        caller = self.sending()
        self.disk.is_broken = True
        self.say(caller, record(b"1"), record(b"2", delivery="recoverable"))
        refused, end = self.said(caller)
        self.assertEqual((refused["error"], refused["messages"]), ("MQ_ERROR_MESSAGE_STORAGE_FAILED", 2))
        self.assertEqual(end, {"end": "error"})
        self.assertEqual(self.bodies(), [])

    def test_no_record(self) -> None:
        """Bytes that are no record end the connection, behind the answers to what came before."""
        caller = self.sending()
        caller.feed(record(b"1").to_bytes() + b"\xff" * 8)
        self.clock.advance(0)
        taken, refused, end = self.said(caller)
        self.assertEqual((taken["messages"], refused["error"]), (1, "MQ_ERROR_INVALID_PARAMETER"))
        self.assertEqual(end, {"end": "error"})

    def test_end_of_the_stream(self) -> None:
        """A client that says that it has sent everything gets every result, and then the end."""
        caller = self.sending()
        self.disk.is_slow = True
        self.say(caller, record(b"1", delivery="recoverable"), END)
        self.assertEqual(self.said(caller), [])
        self.assertFalse(caller.transport.disconnecting)
        self.disk.catch_up()
        first, end = self.said(caller)
        self.assertEqual((first["messages"], end), (1, {"end": "complete"}))
        self.assertTrue(caller.transport.disconnecting)

    def test_end_before_the_end(self) -> None:
        """A record that ends the stream and is not the last one is refused."""
        caller = self.sending()
        self.say(caller, record(b"1"), END, record(b"2"))
        taken, refused, end = self.said(caller)
        self.assertEqual((taken["messages"], refused["error"]), (1, "MQ_ERROR_INVALID_PARAMETER"))
        self.assertEqual(end, {"end": "error"})
        self.assertEqual(self.bodies(), [b"1"])

    def test_what_is_behind_a_refused_message(self) -> None:
        """It may be sent by then, and is answered; with C{stop_at_refusal} none of it is sent.

        That is the default for transactional messages.
        """
        once = self.make_queue("once", transactional=True)
        recoverable: dict[str, Any] = {"delivery": "recoverable"}
        transactional: dict[str, Any] = {"transactional": True, "destination": once}
        for stops, properties, sent in (
            ("false", recoverable, [b"2"]),
            ("true", recoverable, []),
            (None, recoverable, [b"2"]),
            (None, transactional, []),
            ("true", transactional, []),
            ("false", transactional, [b"2"]),
        ):
            with self.subTest(stop_at_refusal=stops, properties=properties):
                caller = self.sending() if stops is None else self.sending(stop_at_refusal=stops)
                self.disk.is_slow = True
                self.say(caller, record(b"1", **properties))
                self.say(caller, record(b"2", **properties))
                self.disk.fail_late(1)
                self.disk.catch_up()
                self.disk.is_slow = False
                self.clock.advance(0)
                refused, *taken, end = self.said(caller)
                self.assertEqual(refused["error"], "MQ_ERROR_MESSAGE_STORAGE_FAILED")
                self.assertEqual(
                    ([reported["messages"] for reported in taken], end), ([1] * len(sent), {"end": "error"})
                )
                self.assertEqual(self.take(properties.get("destination", ORDERS)), sent)

    def test_read_no_further_than_taken(self) -> None:
        """While too much waits for the disk the connection is not read; afterwards it is."""
        caller = self.sending()
        self.disk.is_slow = True
        self.say(caller, record(bytes(400), delivery="recoverable"))
        self.assertEqual(caller.transport.producerState, "producing")
        self.say(caller, *(record(bytes(400), delivery="recoverable") for _ in range(2)))
        self.assertEqual(caller.transport.producerState, "paused")
        self.disk.catch_up()
        self.assertEqual(caller.transport.producerState, "producing")

    def test_caller_that_does_not_read(self) -> None:
        """Answers that are not read do not pile up: no more input is read until they are."""
        caller = self.sending()
        caller.pause()
        self.say(caller, *(record(bytes(400)) for _ in range(3)))
        self.assertEqual(self.said(caller), [])
        self.assertEqual(caller.transport.producerState, "paused")
        caller.resume()
        self.assertEqual([reported["messages"] for reported in self.said(caller)], [3])
        self.assertEqual(caller.transport.producerState, "producing")

    def test_caller_that_leaves(self) -> None:
        """Messages that were handed over are sent, whether their answer is read or not."""
        caller = self.sending()
        self.disk.is_slow = True
        self.say(caller, record(b"1", delivery="recoverable"))
        caller.hang_up()
        self.disk.catch_up()
        self.assertEqual(self.bodies(), [b"1"])

    def test_plain_get(self) -> None:
        """Without the upgrade there is nothing to get."""
        for path in ("/v1/send", "/v1/receive"):
            answer = self.call("GET", path)
            self.assert_refused(answer, 405, "MQ_ERROR_ILLEGAL_OPERATION", "GET", "POST")


class TransactionTests(SteadyTestCase):
    """A stream that is one transaction: all of it is sent when it ends, or nothing."""

    def setUp(self) -> None:
        super().setUp()
        self.tx = self.make_queue("tx", transactional=True)

    def message(self, body: bytes, **header: object) -> StreamRecord:
        return record(body, destination=self.tx, transactional=True, **header)

    def begin(self, count: int = 4) -> Caller:
        caller = self.sending()
        first, *others = (self.message(b"%d" % number) for number in range(count))
        self.say(caller, attrs.evolve(first, header={**first.header, "one_transaction": True}), *others)
        return caller

    def open_transactions(self) -> int:
        return len(self.call("GET", "/v1/transactions").json)

    def test_committed_at_the_end(self) -> None:
        """Until the client ends the stream no message is there; then all are, and have identifiers."""
        caller = self.begin()
        self.assertEqual((self.said(caller), self.bodies(self.tx)), ([], []))
        self.assertEqual(self.open_transactions(), 1)
        self.say(caller, END)
        first = self.identifiers(self.tx)[0]
        self.assertEqual(self.said(caller), [{"first": first, "messages": 4}, {"end": "complete"}])
        self.assertEqual(self.bodies(self.tx), [b"0", b"1", b"2", b"3"])
        self.assertEqual(self.open_transactions(), 0)

    def test_answered_only_when_committed(self) -> None:
        """The identifiers come after the commit is on disk, and a commit that fails is refused."""
        for fails in (False, True):
            with self.subTest(fails=fails):
                caller = self.begin(1)
                self.disk.is_slow = True
                self.say(caller, END)
                self.assertEqual(self.said(caller), [])
                self.disk.fail_late() if fails else self.disk.catch_up()
                self.disk.is_slow = False
                self.clock.advance(0)
                result, end = self.said(caller)
                if fails:
                    self.assertEqual(result["error"], "MQ_ERROR_MESSAGE_STORAGE_FAILED")
                self.assertEqual(end, {"end": "error" if fails else "complete"})
                self.assertEqual(len(self.take(self.tx)), 0 if fails else 1)

    def test_refused_message_aborts(self) -> None:
        """One refused message, and none is sent; the refusal counts all of them."""
        caller = self.begin()
        self.say(caller, self.message(b"x", priority=9))
        refused, end = self.said(caller)
        self.assertEqual((refused["error"], refused["messages"]), ("MQ_ERROR_ILLEGAL_PROPERTY_VALUE", 4))
        self.assertEqual(end, {"end": "error"})
        self.assertEqual((self.bodies(self.tx), self.open_transactions()), ([], 0))

    def test_client_that_leaves_aborts(self) -> None:
        """Without the end of the stream nothing is sent."""
        self.begin().hang_up()
        self.assertEqual((self.bodies(self.tx), self.open_transactions()), ([], 0))

    def test_not_in_the_middle(self) -> None:
        """Only the first record can begin a transaction."""
        caller = self.sending()
        self.say(caller, record(b"1"))
        self.say(caller, self.message(b"2", one_transaction=True))
        taken, refused, _ = self.said(caller)
        self.assertEqual((taken["messages"], refused["error"]), (1, "MQ_ERROR_INVALID_PARAMETER"))


class ReceiveTests(SteadyTestCase):
    """Received messages on an upgraded connection, and their confirmations."""

    def confirm(self, caller: Caller, receipt: int) -> None:  # type: ignore[override]
        self.say(caller, StreamRecord({"confirm": receipt}))

    def test_confirmed_on_the_same_connection(self) -> None:
        """A receipt is confirmed where it came, and answered; behind the last one the stream ends."""
        self.put(b"1", b"2", b"3")
        caller = self.receiving(count=3)
        bodies = [reported.body for reported in self.records(caller) if "id" in reported.header]
        self.assertEqual(bodies, [b"1", b"2", b"3"])
        self.confirm(caller, 1)
        self.assertEqual(self.said(caller)[-1], {"confirmed": 1, "messages": 2})
        self.confirm(caller, 2)
        self.assertEqual(self.said(caller)[-2:], [{"confirmed": 2, "messages": 1}, {"end": "count"}])
        self.assertTrue(caller.transport.disconnecting)
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 0)

    def test_confirmed_only_when_stored(self) -> None:
        """The answer comes after the removal is on disk, not before."""
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        caller = self.receiving()
        self.disk.is_slow = True
        self.confirm(caller, 1)
        self.assertNotIn("confirmed", self.said(caller)[-1])
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertEqual(self.said(caller)[-2:], [{"confirmed": 1, "messages": 1}, {"end": "count"}])

    def test_removal_that_fails(self) -> None:
        """The refusal names the receipt, and the message is back."""
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        caller = self.receiving()
        self.disk.is_broken = True
        self.confirm(caller, 1)
        refused, end = self.said(caller)[-2:]
        self.assertEqual((refused["error"], refused["receipt"]), ("MQ_ERROR_MESSAGE_STORAGE_FAILED", 1))
        self.assertEqual(end, {"end": "count"})
        self.assertEqual(self.bodies(), [b"1"])

    def test_unknown_receipt(self) -> None:
        """A receipt that there is not, or not any more, is refused, and the stream goes on."""
        self.put(b"1", b"2")
        caller = self.receiving(count=2)
        self.confirm(caller, 7)
        self.assertEqual(self.said(caller)[-1]["error"], "MQ_ERROR_INVALID_HANDLE")
        self.confirm(caller, 1)
        self.assertEqual(self.said(caller)[-1], {"end": "count"})

    def test_answers_that_are_not_read(self) -> None:
        """A caller that confirms without reading answers is not read any further until it reads them."""
        self.put(b"1", b"2")
        caller = self.receiving(count=2)
        before = len(self.said(caller))
        caller.pause()
        self.say(caller, *[StreamRecord({"confirm": 7})] * (self.limits.unread_answers + 30))
        self.assertEqual(len(self.said(caller)) - before, self.limits.unread_answers)
        self.assertEqual(caller.transport.producerState, "paused")
        caller.resume()
        self.assertEqual(len(self.said(caller)) - before, self.limits.unread_answers + 30)
        self.assertEqual(caller.transport.producerState, "producing")
        self.confirm(caller, 1)
        self.assertEqual(self.said(caller)[-1], {"end": "count"})

    def test_what_is_confirmed_behind_them(self) -> None:
        """Confirmations behind them take effect once those answers were read; a slow reader gets its few."""
        self.put(b"1", b"2", b"3")
        caller = self.receiving(count=3)
        caller.pause()
        self.confirm(caller, 1)
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 1)
        self.assertEqual(caller.transport.producerState, "producing")
        self.say(
            caller, *[StreamRecord({"confirm": 7})] * self.limits.unread_answers, StreamRecord({"confirm": 2})
        )
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 1)
        caller.resume()
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 0)
        self.assertEqual(self.said(caller)[-1], {"end": "count"})

    def test_nonsense_behind_them(self) -> None:
        """Malformed input is found in its order, and nothing behind it is processed."""
        self.put(b"1")
        caller = self.receiving()
        caller.pause()
        flood = [StreamRecord({"confirm": 7})] * self.limits.unread_answers
        self.say(caller, *flood, StreamRecord({"confirm": "all"}), StreamRecord({"confirm": 1}))
        self.assertFalse(caller.transport.disconnected)
        caller.resume()
        self.assertTrue(caller.transport.disconnected)
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 1)

    def test_caller_that_leaves_while_it_is_not_read(self) -> None:
        """Messages whose confirmation was not processed are returned."""
        self.put(b"1")
        caller = self.receiving()
        caller.pause()
        flood = [StreamRecord({"confirm": 7})] * self.limits.unread_answers
        self.say(caller, *flood, StreamRecord({"confirm": 1}))
        caller.hang_up()
        self.assertEqual(self.bodies(), [b"1"])

    def test_caller_that_leaves(self) -> None:
        """Unconfirmed messages are returned to their positions."""
        self.put(b"1", b"2")
        self.receiving(count=2).hang_up()
        self.assertEqual(self.bodies(), [b"1", b"2"])

    def test_nonsense(self) -> None:
        """A caller that sends anything else is disconnected, and its messages are returned."""
        self.put(b"1")
        for nonsense in (
            StreamRecord({"confirm": "all"}),
            # In Python a truth value is a number.
            StreamRecord({"confirm": True}),
            StreamRecord({}),
            StreamRecord({"confirm": 1}, b"body"),
        ):
            caller = self.receiving()
            self.say(caller, nonsense)
            self.assertTrue(caller.transport.disconnected)
            caller.hang_up()
            self.assertEqual(self.bodies(), [b"1"])

    def test_refused_in_http(self) -> None:
        """Before the first message a refusal is an answer of HTTP."""
        caller = self.receiving(queue=OTHER)
        self.assert_refused(caller.answer, 404, "MQ_ERROR_QUEUE_NOT_FOUND")
        caller = self.receiving(timeout=1)
        self.assertFalse(caller.is_answered)
        self.clock.advance(1.1)
        self.assert_refused(caller.answer, 408, "MQ_ERROR_IO_TIMEOUT")

    def test_in_a_transaction(self) -> None:
        """The one receipt commits."""
        queue = self.make_queue(transactional=True)
        self.put(b"1", b"2", b"3", queue=queue, transactional=True)
        caller = self.receiving(queue=queue, count=3, transactional="true")
        self.assertEqual(self.said(caller)[-1]["messages"], 3)
        self.confirm(caller, 1)
        self.assertEqual(self.said(caller)[-1], {"end": "count"})
        self.assertEqual(self.service.inspection.queue(queue).messages, 0)
