"""Receiving as a stream of records, confirmed batch by batch."""

from __future__ import annotations

import attrs

from msmq.control.protocol.records import CONTENT_TYPE, StreamRecord
from msmq.control.server.http.limits import ControlLimits
from msmq.queues.arriving.message import Delivery
from tests.control.support import ORDERS, Caller, ControlTestCase


def messages(records: list[StreamRecord]) -> list[bytes]:
    return [record.body for record in records if "id" in record.header]


def receipts(records: list[StreamRecord]) -> list[StreamRecord]:
    return [record for record in records if "receipt" in record.header]


class ReceiveTests(ControlTestCase):
    """A stream of received messages, and its confirmations."""

    def test_message_then_receipt(self) -> None:
        """A message comes with its properties and its raw body, and then the receipt that stands for it."""
        self.put(b"\0\xff", label="binary", extension=b"ext")
        caller = self.receive()
        self.assertEqual(caller.answer.headers["content-type"], CONTENT_TYPE)
        message, receipt = caller.answer.records
        self.assertEqual(message.header["label"], "binary")
        self.assertEqual(message.header["body_size"], 2)
        self.assertEqual(message.header["extension_size"], 3)
        self.assertEqual(message.body, b"\0\xffext")
        self.assertNotIn("body", message.header)
        self.assertNotIn("extension_base64", message.header)
        self.assertEqual((receipt.header["receipt"], receipt.header["messages"]), (1, 1))

    def test_unconfirmed_message_is_locked(self) -> None:
        """While a receipt is open, its message can be neither received nor peeked at by others."""
        self.put(b"1", b"2")
        self.receive()
        self.assertEqual(messages(self.receive(peek="true").answer.records), [b"2"])
        self.assertEqual(messages(self.receive().answer.records), [b"2"])

    def test_confirmed_message_is_gone(self) -> None:
        """A confirmed message is removed, and the stream ends when nothing is open any more."""
        self.put(b"1")
        caller = self.receive()
        [receipt] = receipts(caller.answer.records)
        self.assertFalse(caller.answer.is_whole)
        self.assertEqual(self.confirm(receipt).json, {"confirmed": 1})
        self.clock.advance(0)
        self.assertTrue(caller.answer.is_whole)
        self.assertEqual(caller.answer.records[-1].header, {"end": "count"})
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 0)

    def test_confirmed_only_when_stored(self) -> None:
        """A confirmation is answered after the removal of a recoverable message is on disk, not before."""
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        [receipt] = receipts(self.receive().answer.records)
        self.disk.is_slow = True
        confirming = self.caller()
        confirming.ask("POST", f"/v1/receipts/{receipt.header['stream']}/1")
        self.assertFalse(confirming.is_answered)
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertEqual(confirming.answer.json, {"confirmed": 1})

    def test_caller_that_dies_returns_its_messages(self) -> None:
        """Messages not confirmed when the connection ends are back at their positions."""
        self.put(b"1", b"2", b"3")
        caller = self.receive(count=2)
        self.assertEqual(messages(caller.answer.records), [b"1", b"2"])
        self.assertEqual(self.bodies(), [b"3"])
        caller.hang_up()
        self.assertEqual(self.bodies(), [b"1", b"2", b"3"])

    def test_confirmation_goes_on_without_its_caller(self) -> None:
        """A caller that dies right after it confirmed does not get the message back."""
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        receiving = self.receive()
        [receipt] = receipts(receiving.answer.records)
        self.disk.is_slow = True
        confirming = self.caller()
        confirming.ask("POST", f"/v1/receipts/{receipt.header['stream']}/1")
        confirming.hang_up()
        receiving.hang_up()
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 0)

    def test_failed_removal_is_reported(self) -> None:
        """If the removal cannot be stored, the confirmation says so and the message is back."""
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        caller = self.receive()
        [receipt] = receipts(caller.answer.records)
        self.disk.is_broken = True
        self.assert_refused(self.confirm(receipt), 500, "MQ_ERROR_MESSAGE_STORAGE_FAILED", "on fire")
        self.assertEqual(self.bodies(), [b"1"])
        self.assertEqual(self.confirm(receipt).status, 404)

    def test_receipt_is_confirmed_once(self) -> None:
        """A receipt that was confirmed, or belongs to an ended stream, is not found."""
        self.put(b"1", b"2")
        caller = self.receive(count=2)
        [receipt] = receipts(caller.answer.records)
        self.assertEqual(self.confirm(receipt).status, 200)
        self.assert_refused(self.confirm(receipt), 404, "MQ_ERROR_INVALID_HANDLE", "receipt 1")
        answer = self.call("POST", "/v1/receipts/none/x")
        self.assert_refused(answer, 404, "MQ_ERROR_INVALID_HANDLE", "none", "receipt x")


class WaitTests(ControlTestCase):
    """Waiting for what is not there yet."""

    def test_waits_for_a_message(self) -> None:
        """Without a message there is no answer, and with the message it comes at once."""
        caller = self.receive()
        self.clock.advance(86400)
        self.assertFalse(caller.is_answered)
        self.put(b"late")
        self.clock.advance(0)
        self.assertEqual(messages(caller.answer.records), [b"late"])

    def test_nothing_in_time(self) -> None:
        """A wait ends after its time-out, not before, and says so."""
        caller = self.receive(timeout=2.5)
        self.clock.advance(2.4)
        self.assertFalse(caller.is_answered)
        self.clock.advance(0.2)
        self.assert_refused(caller.answer, 408, "MQ_ERROR_IO_TIMEOUT")

    def test_timeout_is_for_the_next_message(self) -> None:
        """Each message begins the wait anew; fewer than the count are a good end."""
        caller = self.receive(count=3, timeout=10)
        for body in (b"1", b"2"):
            self.clock.advance(9)
            self.put(body)
            self.clock.advance(0)
        for receipt in receipts(caller.answer.records):
            self.confirm(receipt)
        self.clock.advance(10)
        self.assertTrue(caller.answer.is_whole)
        self.assertEqual(messages(caller.answer.records), [b"1", b"2"])
        self.assertEqual(caller.answer.records[-1].header, {"end": "timeout"})

    def test_caller_that_dies_waiting_receives_nothing(self) -> None:
        """The next message goes to a reader that is still there."""
        self.receive().hang_up()
        other = self.receive()
        self.put(b"1")
        self.clock.advance(0)
        self.assertEqual(messages(other.answer.records), [b"1"])

    def test_deleted_queue_ends_the_wait(self) -> None:
        """A wait on a queue that is deleted is refused; after a message the stream says so itself."""
        waiting = self.receive()
        self.run_to_end(self.service.delete_queue(ORDERS))
        self.clock.advance(0)
        self.assert_refused(waiting.answer, 410, "MQ_ERROR_QUEUE_DELETED")

    def test_deleted_queue_ends_the_stream(self) -> None:
        """After a message, the refusal is the last record."""
        self.put(b"1")
        caller = self.receive(count=2)
        [receipt] = receipts(caller.answer.records)
        self.confirm(receipt)
        self.run_to_end(self.service.delete_queue(ORDERS))
        self.clock.advance(0)
        self.assertEqual(caller.answer.records[-1].header["error"], "MQ_ERROR_QUEUE_DELETED")

    def test_missing_queue(self) -> None:
        """A queue that is not there is refused at once."""
        answer = self.receive(queue=".\\private$\\missing").answer
        self.assert_refused(answer, 404, "MQ_ERROR_QUEUE_NOT_FOUND", "missing")

    def test_malformed_name(self) -> None:
        """An invalid name is refused at once."""
        answer = self.receive(queue="DIRECT=nonsense").answer
        self.assert_refused(answer, 400, "MQ_ERROR_ILLEGAL_FORMATNAME")

    def test_parameters_are_checked(self) -> None:
        """A count and a time-out are numbers of their kind, and the queue must be named."""
        for parameters in ({"count": 0}, {"count": "x"}, {"timeout": -1}, {"queue": ""}, {"coutn": 1}):
            with self.subTest(parameters=parameters):
                answer = self.receive(**parameters).answer
                self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", *parameters)


class PeekTests(ControlTestCase):
    """Looking without taking."""

    def test_peek_removes_nothing(self) -> None:
        """A peek shows up to the count, has no receipts, ends, and leaves all messages."""
        self.put(b"1", b"2", b"3")
        answer = self.receive(count=2, peek="true").answer
        self.assertTrue(answer.is_whole)
        self.assertEqual(messages(answer.records), [b"1", b"2"])
        self.assertEqual(receipts(answer.records), [])
        self.assertEqual(self.bodies(), [b"1", b"2", b"3"])

    def test_peek_shows_what_is_there(self) -> None:
        """A peek waits for the first message only."""
        caller = self.receive(count=5, peek="true")
        self.assertFalse(caller.is_answered)
        self.put(b"1")
        self.clock.advance(0)
        self.assertTrue(caller.answer.is_whole)
        self.assertEqual(messages(caller.answer.records), [b"1"])

    def test_peek_is_bounded(self) -> None:
        """One peek shows no more than the limit."""
        answer = self.receive(count=10001, peek="true").answer
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "10000")


class BatchTests(ControlTestCase):
    """Many messages, in batches and slices."""

    limits = attrs.evolve(
        ControlLimits(), receives=2, receive_batch=3, open_receipts=2, slice_messages=2, slice_bytes=1000
    )

    def test_stream_runs_ahead_of_its_confirmations_by_a_bound(self) -> None:
        """Two receipts may be open; the next batch comes when one is confirmed, in whichever order."""
        self.put(*(b"%d" % number for number in range(8)))
        caller = self.receive(count=8)
        first, second = receipts(caller.answer.records)
        self.assertEqual(len(messages(caller.answer.records)), 6)
        self.confirm(second)
        self.clock.advance(0)
        [*_, third] = receipts(caller.answer.records)
        self.assertEqual((third.header["receipt"], third.header["messages"]), (3, 2))
        self.confirm(first)
        self.assertEqual(self.confirm(third).json, {"confirmed": 2})
        self.clock.advance(0)
        self.assertTrue(caller.answer.is_whole)
        self.assertEqual(messages(caller.answer.records), [b"%d" % number for number in range(8)])

    def test_confirmed_messages_stay_removed(self) -> None:
        """The batches that a dying caller did not confirm are returned to their positions."""
        self.put(*(b"%d" % number for number in range(8)))
        caller = self.receive(count=8)
        self.confirm(receipts(caller.answer.records)[0])
        self.clock.advance(0)
        caller.hang_up()
        self.assertEqual(self.bodies(), [b"3", b"4", b"5", b"6", b"7"])

    def test_long_batch_is_sliced(self) -> None:
        """Other requests are answered between the slices of a batch."""
        self.put(b"1", b"2", b"3")
        caller, other = self.begin(3), self.caller()
        other.protocol.dataReceived(b"GET /v1/outgoing HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(messages(caller.answer.records), [b"1", b"2"])
        self.assertTrue(other.answer.is_whole)
        self.clock.advance(0)
        self.assertEqual(messages(caller.answer.records), [b"1", b"2", b"3"])

    def begin(self, count: int) -> Caller:
        """A receive in the very reactor iteration in which it came in."""
        caller = self.caller()
        queue = ORDERS.replace("\\", "%5C")
        request = f"POST /v1/receive?count={count}&queue={queue} HTTP/1.1\r\nHost: x\r\n\r\n"
        caller.protocol.dataReceived(request.encode("ascii"))
        return caller

    def test_slow_reader_is_waited_for(self) -> None:
        """While a reader takes nothing, nothing more is written for it; then it goes on."""
        self.put(bytes(1000), bytes(1000), bytes(1000))
        caller = self.begin(3)
        caller.pause()
        self.clock.advance(3600)
        self.assertEqual(len(messages(caller.answer.records)), 1)
        caller.resume()
        self.assertEqual(len(messages(caller.answer.records)), 3)

    def test_slow_reader_that_dies_returns_its_messages(self) -> None:
        """A reader that dies while it is waited for returns all."""
        self.put(bytes(1000), bytes(1000), bytes(1000))
        caller = self.begin(3)
        caller.pause()
        caller.hang_up()
        self.assertEqual(len(self.bodies()), 3)

    def test_receives_are_bounded(self) -> None:
        """One receive too many is refused, and one that ends makes room."""
        first = self.receive()
        self.receive()
        answer = self.receive().answer
        self.assert_refused(answer, 503, "MQ_ERROR_INSUFFICIENT_RESOURCES", "2 concurrent receives")
        first.hang_up()
        self.assertFalse(self.receive().is_answered)
