"""Streams that are one transaction: all of it happens, or nothing."""

from __future__ import annotations

from typing import Any

import attrs

from msmq.control.protocol.records import CONTENT_TYPE, StreamRecord
from msmq.control.server.http.limits import ControlLimits
from msmq.queues.arriving.message import Acknowledge
from msmq.structures.names.format_name import parse_format_name
from tests.control.receiving.test_receive_stream import messages, receipts
from tests.control.support import ORDERS, Answer, Caller, ControlTestCase, resource


class TransactionalTestCase(ControlTestCase):
    """A transactional queue in addition to the other, and batches of three."""

    limits = attrs.evolve(ControlLimits(), receive_batch=3, slice_messages=2)

    def setUp(self) -> None:
        super().setUp()
        self.tx = self.make_queue("tx", transactional=True)

    def transactions(self) -> list[Any]:
        """The list of all transactions in the API."""
        listed: list[Any] = self.call("GET", "/v1/transactions").json
        return listed


class ReceiveTests(TransactionalTestCase):
    """Receiving in one transaction."""

    def setUp(self) -> None:
        super().setUp()
        self.put(*(b"%d" % number for number in range(5)), queue=self.tx, transactional=True)

    def begin(self, **parameters: Any) -> Caller:
        """Receive in a transaction."""
        return self.receive(**{"queue": self.tx, "transactional": "true", "count": 5, **parameters})

    def test_one_receipt_behind_all(self) -> None:
        """However many batches there are, the receipt comes behind the last message, for all of them."""
        caller = self.begin()
        self.assertEqual(messages(caller.answer.records), [b"0", b"1", b"2", b"3", b"4"])
        [receipt] = receipts(caller.answer.records)
        self.assertEqual(caller.answer.records[-1], receipt)
        self.assertEqual(receipt.header["messages"], 5)
        self.assertFalse(caller.answer.is_whole)

    def test_receipt_commits(self) -> None:
        """Confirming it removes all of them permanently, and ends the stream."""
        caller = self.begin()
        [transaction] = self.transactions()
        self.assertEqual((transaction["state"], transaction["received"]), ("active", 5))
        [receipt] = receipts(caller.answer.records)
        self.assertEqual(self.confirm(receipt).json, {"confirmed": 5})
        self.clock.advance(0)
        self.assertTrue(caller.answer.is_whole)
        self.assertEqual(caller.answer.records[-1].header, {"end": "count"})
        self.assertEqual(self.service.inspection.queue(self.tx).messages, 0)
        self.assertEqual(self.transactions(), [])

    def test_committed_only_when_stored(self) -> None:
        """The confirmation is answered after the commit is on disk, not before."""
        [receipt] = receipts(self.begin().answer.records)
        self.disk.is_slow = True
        confirming = self.caller()
        confirming.ask("POST", f"/v1/receipts/{receipt.header['stream']}/{receipt.header['receipt']}")
        self.assertFalse(confirming.is_answered)
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertEqual(confirming.answer.json, {"confirmed": 5})

    def test_caller_that_dies_aborts(self) -> None:
        """Without the confirmation all messages are back at their positions, and were aborted once."""
        caller = self.begin(count=4)
        self.assertEqual(self.bodies(self.tx), [b"4"])
        caller.hang_up()
        self.assertEqual(self.bodies(self.tx), [b"0", b"1", b"2", b"3", b"4"])
        self.assertEqual(self.transactions(), [])
        records = self.receive(queue=self.tx, peek="true", count=5).answer.records
        self.assertEqual([record.header.get("abort_count") for record in records[:5]], [1, 1, 1, 1, 0])

    def test_caller_that_dies_waiting_aborts(self) -> None:
        """A caller that dies while it waits for the next message returns what it had."""
        caller = self.begin(count=6)
        self.assertEqual(self.bodies(self.tx), [])
        caller.hang_up()
        self.assertEqual(len(self.bodies(self.tx)), 5)

    def test_fewer_than_wanted(self) -> None:
        """When the next message does not arrive in time, the receipt is for those that did."""
        caller = self.begin(count=9, timeout=10)
        self.assertEqual(receipts(caller.answer.records), [])
        self.clock.advance(10)
        [receipt] = receipts(caller.answer.records)
        self.assertEqual(self.confirm(receipt).json, {"confirmed": 5})
        self.clock.advance(0)
        self.assertEqual(caller.answer.records[-1].header, {"end": "timeout"})
        self.assertEqual(self.service.inspection.queue(self.tx).messages, 0)

    def test_nothing_in_time(self) -> None:
        """No message at all is refused, and leaves no transaction behind."""
        self.take(self.tx)
        caller = self.begin(timeout=1)
        self.assertEqual(len(self.transactions()), 1)
        self.clock.advance(1)
        self.assert_refused(caller.answer, 408, "MQ_ERROR_IO_TIMEOUT")
        self.assertEqual(self.transactions(), [])

    def test_failed_commit_returns_the_messages(self) -> None:
        """If the commit cannot be stored, the confirmation says so and all messages are back."""
        [receipt] = receipts(self.begin().answer.records)
        self.disk.is_broken = True
        self.assert_refused(self.confirm(receipt), 500, "MQ_ERROR_MESSAGE_STORAGE_FAILED", "on fire")
        self.disk.is_broken = False
        self.assertEqual(self.bodies(self.tx), [b"0", b"1", b"2", b"3", b"4"])
        self.assertEqual(self.transactions(), [])

    def test_aborted_by_an_administrator(self) -> None:
        """The messages are back at once, and the confirmation that comes too late is refused."""
        caller = self.begin()
        [transaction] = self.transactions()
        self.call("POST", resource("transactions", transaction["identifier"], "abort"))
        self.assertEqual(len(self.bodies(self.tx)), 5)
        [receipt] = receipts(caller.answer.records)
        self.assert_refused(self.confirm(receipt), 409, "MQ_ERROR_TRANSACTION_SEQUENCE")
        self.clock.advance(0)
        self.assertTrue(caller.answer.is_whole)
        self.assertEqual(len(self.bodies(self.tx)), 5)

    def test_aborted_while_it_waits(self) -> None:
        """A message that comes for an aborted transaction stays, and the stream ends with the refusal."""
        caller = self.begin(count=6)
        [transaction] = self.transactions()
        self.call("POST", resource("transactions", transaction["identifier"], "abort"))
        self.put(b"5", queue=self.tx, transactional=True)
        self.clock.advance(0)
        self.assertEqual(caller.answer.records[-1].header["error"], "MQ_ERROR_TRANSACTION_SEQUENCE")
        self.assertEqual(len(self.bodies(self.tx)), 6)

    def test_deleted_queue_aborts(self) -> None:
        """When the queue is deleted meanwhile, the stream ends with the refusal and the transaction is
        aborted.
        """
        caller = self.begin(count=6)
        self.run_to_end(self.service.delete_queue(self.tx))
        self.clock.advance(0)
        self.assertEqual(caller.answer.records[-1].header["error"], "MQ_ERROR_QUEUE_DELETED")
        self.assertEqual(self.transactions(), [])

    def test_acknowledgements_come_with_the_commit(self) -> None:
        """The acknowledgement of a receipt is sent when the receipt is final."""
        self.take(self.tx)
        admin = self.make_queue("admin")
        name = parse_format_name(self.service.inspection.queue(admin).format_name)
        self.put(
            b"x",
            queue=self.tx,
            transactional=True,
            acknowledge=Acknowledge.POSITIVE_RECEIVE,
            admin_queue=name,
        )
        [receipt] = receipts(self.begin(count=1).answer.records)
        self.assertEqual(self.bodies(admin), [])
        self.confirm(receipt)
        self.assertEqual(len(self.bodies(admin)), 1)

    def test_transactional_queue_without_a_transaction(self) -> None:
        """A transactional queue may be read as every other."""
        caller = self.receive(queue=self.tx)
        [receipt] = receipts(caller.answer.records)
        self.confirm(receipt)
        self.assertEqual(len(self.bodies(self.tx)), 4)

    def test_refusals(self) -> None:
        """Operations that a transaction does not support are refused at once, without creating one."""
        for parameters, error in (
            ({"queue": ORDERS}, "MQ_ERROR_TRANSACTION_USAGE"),
            ({"queue": ORDERS + ";sub"}, "MQ_ERROR_TRANSACTION_USAGE"),
            ({"peek": "true"}, "MQ_ERROR_INVALID_PARAMETER"),
            ({"transactional": "perhaps"}, "MQ_ERROR_INVALID_PARAMETER"),
        ):
            with self.subTest(parameters=parameters):
                self.assert_refused(self.begin(**parameters).answer, 400, error)
        self.assertEqual(self.transactions(), [])
        self.assertEqual(self.service.inspection.queue(ORDERS).subqueues, [])


class SendTests(TransactionalTestCase):
    """Sending in one transaction."""

    def records(self, count: int, **header: object) -> list[StreamRecord]:
        """Records of a stream that is one transaction, all with the same header."""
        whole = {"destination": self.tx, "transactional": True, "one_transaction": True, **header}
        return [StreamRecord(whole, b"%d" % number) for number in range(count)]

    def start(self, stream: bytes, size: int) -> Caller:
        """Send the first bytes of a stream, this number of them."""
        caller = self.caller()
        head = f"POST /v1/send HTTP/1.1\r\nHost: x\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {size}"
        caller.feed(head.encode("ascii") + b"\r\n\r\n" + stream)
        return caller

    def assert_nothing(self, answer: Answer, status: int, error: str) -> None:
        """The answer is nothing but a refusal, and nothing was sent."""
        self.assertEqual(answer.status, status)
        self.assertEqual([line.get("error") for line in answer.lines], [error])
        self.assertEqual(self.service.inspection.queue(self.tx).messages, 0)
        self.assertEqual(self.transactions(), [])

    def test_all_of_them(self) -> None:
        """The identifiers come when all are there, and the sequence of all is one."""
        answer = self.send_records(*self.records(5))
        self.assertEqual(answer.status, 200)
        self.assertEqual([line["id"] for line in answer.lines], self.identifiers(self.tx))
        records = self.receive(queue=self.tx, peek="true", count=5).answer.records[:5]
        ends = [
            (record.header["transaction"]["first"], record.header["transaction"]["last"])
            for record in records
        ]
        self.assertEqual(ends, [(True, False), *[(False, False)] * 3, (False, True)])

    def test_several_destinations(self) -> None:
        """One transaction may send to several queues."""
        other = self.make_queue("other", transactional=True)
        first, second = self.records(2)
        second = StreamRecord({"destination": other, "transactional": True}, b"other")
        self.assertEqual(self.send_records(first, second).status, 200)
        self.assertEqual((self.bodies(self.tx), self.bodies(other)), ([b"0"], [b"other"]))

    def test_no_part_is_visible(self) -> None:
        """While the stream still comes, none of it can be received; then all of it can."""
        stream = b"".join(record.to_bytes() for record in self.records(5))
        caller = self.start(stream[:-1], len(stream))
        self.assertEqual(self.bodies(self.tx), [])
        [transaction] = self.transactions()
        self.assertEqual(transaction["sent"], 4)
        caller.feed(stream[-1:])
        self.assertEqual(caller.answer.status, 200)
        self.assertEqual(len(self.bodies(self.tx)), 5)

    def test_caller_that_dies_has_sent_nothing(self) -> None:
        """A stream that breaks off has sent nothing."""
        stream = b"".join(record.to_bytes() for record in self.records(5))
        for cut in (len(stream) - 1, len(stream) // 2, 100):
            with self.subTest(cut=cut):
                self.start(stream[:cut], len(stream)).hang_up()
                self.assertEqual(self.service.inspection.queue(self.tx).messages, 0)
                self.assertEqual(self.transactions(), [])

    def test_record_that_is_cut(self) -> None:
        """A stream that ends inside a record is refused as a whole."""
        stream = b"".join(record.to_bytes() for record in self.records(3))[:-1]
        self.assert_nothing(self.start(stream, len(stream)).answer, 400, "MQ_ERROR_INVALID_PARAMETER")

    def test_last_is_refused(self) -> None:
        """One message that cannot be sent is enough to send none."""
        for header, status, error in (
            ({"destination": ORDERS}, 400, "MQ_ERROR_TRANSACTION_USAGE"),
            ({"transactional": False}, 400, "MQ_ERROR_TRANSACTION_USAGE"),
            ({"destination": ".\\private$\\missing"}, 404, "MQ_ERROR_QUEUE_NOT_FOUND"),
            ({"priority": 9}, 400, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
        ):
            with self.subTest(header=header):
                last = StreamRecord({"transactional": True, **header}, b"last")
                self.assert_nothing(self.send_records(*self.records(4), last), status, error)

    def test_quota(self) -> None:
        """A transaction that does not fit is refused as a whole."""
        self.run_to_end(self.service.set_queue(self.tx, {"quota": 1}))
        answer = self.send_records(*self.records(9))
        self.assert_nothing(answer, 507, "MQ_ERROR_INSUFFICIENT_RESOURCES")

    def test_failed_commit(self) -> None:
        """A commit that cannot be stored sends nothing, and says so."""
        self.disk.is_broken = True
        answer = self.send_records(*self.records(3))
        self.disk.is_broken = False
        self.assert_nothing(answer, 500, "MQ_ERROR_MESSAGE_STORAGE_FAILED")

    def test_aborted_by_an_administrator(self) -> None:
        """Further messages for an aborted transaction are refused."""
        stream = b"".join(record.to_bytes() for record in self.records(5))
        caller = self.start(stream[:-1], len(stream))
        [transaction] = self.transactions()
        self.call("POST", resource("transactions", transaction["identifier"], "abort"))
        caller.feed(stream[-1:])
        self.assert_nothing(caller.answer, 409, "MQ_ERROR_TRANSACTION_SEQUENCE")

    def test_only_the_first_record_begins(self) -> None:
        """A stream cannot become a transaction when a part of it was sent."""
        records = [StreamRecord({"destination": self.tx, "transactional": True}, b"alone"), *self.records(1)]
        answer = self.send_records(*records)
        self.assertEqual((answer.status, len(answer.lines)), (400, 2))
        self.assertIn("one_transaction", answer.lines[1]["detail"])
        self.assertEqual(self.bodies(self.tx), [b"alone"])

    def test_keys(self) -> None:
        """A transaction that is sent again under the same keys sends nothing; one that failed, all."""
        records = [record for key in "abc" for record in self.records(1, key=key)]
        self.disk.is_broken = True
        self.assert_nothing(self.send_records(*records), 500, "MQ_ERROR_MESSAGE_STORAGE_FAILED")
        self.disk.is_broken = False
        first = self.send_records(*records).lines
        self.assertEqual(self.send_records(*records).lines, first)
        self.assertEqual([line["id"] for line in first], self.identifiers(self.tx))
        self.assertEqual((len(first), self.transactions()), (3, []))

    def test_caller_that_dies_at_the_end(self) -> None:
        """A caller that disconnects while the commit is being stored has sent."""
        stream = b"".join(record.to_bytes() for record in self.records(2))
        self.disk.is_slow = True
        caller = self.start(stream, len(stream))
        caller.hang_up()
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertEqual(self.bodies(self.tx), [b"0", b"1"])
        self.assertEqual(self.transactions(), [])
