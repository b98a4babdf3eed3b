"""Connections that carry records in both directions: each message is answered, and confirmed, on the way."""

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


def record(body: bytes, **header: object) -> StreamRecord:
    return StreamRecord({"destination": ORDERS, **header}, body)


class SteadyTestCase(ControlTestCase):
    limits = attrs.evolve(ControlLimits(), slice_messages=3, send_backlog=1000, receive_batch=2)

    def said(self, caller: Caller) -> list[dict[str, object]]:
        """The headers of what the server has said since it agreed."""
        self.assertTrue(caller.transport.value().startswith(SWITCHED))
        return [dict(told.header) for told in self.records(caller)]

    def records(self, caller: Caller) -> list[StreamRecord]:
        return RecordDecoder().feed(caller.transport.value().removeprefix(SWITCHED))

    def say(self, caller: Caller, *records: StreamRecord) -> None:
        caller.feed(b"".join(told.to_bytes() for told in records))
        # Every slice has its turn.
        for _ in records:
            self.clock.advance(0)

    def sending(self) -> Caller:
        caller = self.caller()
        caller.ask("GET", "/v1/send", headers=UPGRADE)
        return caller

    def receiving(self, **parameters: Any) -> Caller:
        caller = self.caller()
        caller.ask("GET", "/v1/receive", headers=UPGRADE, **{"queue": ORDERS, **parameters})
        return caller


class SendTests(SteadyTestCase):
    """What is sent, and what is told of it."""

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
        """What is recoverable is answered when it is on disk; later messages do not wait for it to begin."""
        caller = self.sending()
        self.disk.is_slow = True
        self.say(caller, *(record(b"%d" % number, delivery="recoverable") for number in range(4)))
        self.assertEqual(self.said(caller), [])
        self.disk.catch_up()
        self.assertEqual([told["messages"] for told in self.said(caller)], [3, 1])
        self.assertEqual(self.bodies(), [b"0", b"1", b"2", b"3"])

    def test_keys(self) -> None:
        """A repeat is answered, in its place, with the identifier of the first, and when that is stored."""
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
        """What could not be stored is refused, each message in its place."""
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

    def test_no_transaction(self) -> None:
        """There is no end of the stream at which a transaction could be committed."""
        caller = self.sending()
        self.say(caller, record(b"1", transactional=True, one_transaction=True))
        refused, _ = self.said(caller)
        self.assertEqual(refused["error"], "MQ_ERROR_INVALID_PARAMETER")
        self.assertIn("POST /v1/send", str(refused["detail"]))

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
        """Answers that nobody reads do not pile up: nothing more is read until they are."""
        caller = self.sending()
        caller.pause()
        self.say(caller, *(record(bytes(400)) for _ in range(3)))
        self.assertEqual(self.said(caller), [])
        self.assertEqual(caller.transport.producerState, "paused")
        caller.resume()
        self.assertEqual([told["messages"] for told in self.said(caller)], [3])
        self.assertEqual(caller.transport.producerState, "producing")

    def test_caller_that_leaves(self) -> None:
        """What was handed over is sent, whoever hears of it."""
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


class ReceiveTests(SteadyTestCase):
    """What comes, and what becomes of what is confirmed."""

    def confirm(self, caller: Caller, receipt: int) -> None:  # type: ignore[override]
        self.say(caller, StreamRecord({"confirm": receipt}))

    def test_confirmed_on_the_same_connection(self) -> None:
        """A receipt is confirmed where it came, and answered; behind the last one the stream ends."""
        self.put(b"1", b"2", b"3")
        caller = self.receiving(count=3)
        bodies = [told.body for told in self.records(caller) if "id" in told.header]
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

    def test_answers_that_nobody_reads(self) -> None:
        """A caller that confirms on and on and reads nothing is heard no further, until he reads."""
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
        """Is removed once those answers were taken; whoever is slow to read has his few confirmations."""
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
        """Is found when it is its turn, and nothing behind it is heard."""
        self.put(b"1")
        caller = self.receiving()
        caller.pause()
        flood = [StreamRecord({"confirm": 7})] * self.limits.unread_answers
        self.say(caller, *flood, StreamRecord({"confirm": "all"}), StreamRecord({"confirm": 1}))
        self.assertFalse(caller.transport.disconnected)
        caller.resume()
        self.assertTrue(caller.transport.disconnected)
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 1)

    def test_who_leaves_while_he_is_not_heard(self) -> None:
        """What he had confirmed and nobody heard is back."""
        self.put(b"1")
        caller = self.receiving()
        caller.pause()
        flood = [StreamRecord({"confirm": 7})] * self.limits.unread_answers
        self.say(caller, *flood, StreamRecord({"confirm": 1}))
        caller.hang_up()
        self.assertEqual(self.bodies(), [b"1"])

    def test_caller_that_leaves(self) -> None:
        """What is not confirmed is back in its place."""
        self.put(b"1", b"2")
        self.receiving(count=2).hang_up()
        self.assertEqual(self.bodies(), [b"1", b"2"])

    def test_nonsense(self) -> None:
        """Whoever says something else is cut off, and what it held is back."""
        self.put(b"1")
        for nonsense in (
            StreamRecord({"confirm": "all"}),
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
