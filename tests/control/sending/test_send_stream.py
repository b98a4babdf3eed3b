"""Sending many messages as one stream of records."""

from __future__ import annotations

import struct
from urllib.parse import quote
from uuid import UUID

import attrs

from msmq.control.protocol.records import CONTENT_TYPE, StreamRecord
from msmq.control.protocol.refusals import read_refusal
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.sending.identifiers import IdentifierRange
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MessageTooLarge, MQError
from tests.control.support import ORDERS, Caller, ControlTestCase

OTHER = ".\\private$\\other"


def record(body: bytes, **header: object) -> StreamRecord:
    return StreamRecord({"destination": ORDERS, **header}, body)


class SendTests(ControlTestCase):
    """Content of a stream of sent messages, and its answers."""

    limits = attrs.evolve(ControlLimits(), slice_messages=3)

    def setUp(self) -> None:
        super().setUp()
        self.run_to_end(self.service.create_queue(OTHER))

    def begin(self) -> Caller:
        """Open a stream without sending data yet."""
        caller = self.caller()
        caller.feed(
            b"POST /v1/send HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Type: " + CONTENT_TYPE.encode() + b"\r\n\r\n"
        )
        return caller

    def chunk(self, data: bytes) -> bytes:
        return b"%x\r\n" % len(data) + data + b"\r\n"

    def test_all_arrive_in_order(self) -> None:
        """Every message is in the queue, in the order of the stream, for any division into slices."""
        bodies = [b"%d" % number for number in range(10)]
        answer = self.send_records(*(record(body) for body in bodies))
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.bodies(), bodies)

    def test_identifiers_are_answered_in_order(self) -> None:
        """Each message has its line with its identifier, rising in the order of sending."""
        answer = self.send_records(*(record(b"") for _ in range(7)))
        self.assertEqual(answer.headers["content-type"], "application/x-ndjson")
        peek = self.run_to_end(self.service.reserve(ORDERS, count=10, timeout=0, peek=True))
        self.assertEqual(
            [line["id"] for line in answer.lines],
            [str(message.view.identifier) for message in peek.messages],
        )
        numbers = [int(line["id"].partition("\\")[2]) for line in answer.lines]
        self.assertEqual(numbers, sorted(set(numbers)))

    def test_properties_arrive(self) -> None:
        """The header's properties are those of the message; the extension comes behind the body."""
        self.send_records(record(b"bodyext", label="L", priority=6, extension_size=3))
        peek = self.run_to_end(self.service.reserve(ORDERS, timeout=0, peek=True))
        [view] = [message.view for message in peek.messages]
        self.assertEqual((view.label, view.priority), ("L", 6))
        self.assertEqual((bytes(view.body), bytes(view.extension)), (b"body", b"ext"))

    def test_keys(self) -> None:
        """A key that comes again sends nothing, and its line has the identifier that it had first."""
        keyed = [record(key.encode(), key=key) for key in "abca"]
        first = [line["id"] for line in self.send_records(*keyed).lines]
        self.assertEqual(first[3], first[0])
        again = self.send_records(record(b"new"), *keyed[2:], record(b"d", key="d"), keyed[1]).lines
        self.assertEqual([line["id"] for line in again[1:3]], [first[2], first[0]])
        self.assertEqual(again[4], {"id": first[1]})
        self.assertEqual(self.bodies(), [b"a", b"b", b"c", b"new", b"d"])
        self.assertEqual(self.identifiers()[3:], [again[0]["id"], again[3]["id"]])

    def test_wrong_keys(self) -> None:
        """A key that is not text of 1 to 512 bytes is refused, with the messages before it sent."""
        for key, error in (
            ("", "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
            ("x" * 513, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
            (7, "MQ_ERROR_INVALID_PARAMETER"),
        ):
            answer = self.send_records(record(b"before"), record(b"wrong", key=key))
            self.assertEqual((answer.status, len(answer.lines)), (400, 2))
            self.assertEqual(answer.lines[1]["error"], error)
            self.assertIn("key", answer.lines[1]["detail"])
        self.assertEqual(self.bodies(), [b"before"] * 3)

    def test_destination_holds_until_the_next(self) -> None:
        """A record without a destination goes where the one before it went."""
        self.send_records(
            record(b"1"),
            StreamRecord({}, b"2"),
            StreamRecord({"destination": OTHER}, b"3"),
            StreamRecord({}, b"4"),
            record(b"5"),
        )
        self.assertEqual(self.bodies(), [b"1", b"2", b"5"])
        self.assertEqual(self.bodies(OTHER), [b"3", b"4"])

    def test_empty_stream(self) -> None:
        """A stream without records sends nothing, and that is not an error."""
        answer = self.send_records()
        self.assertEqual((answer.status, answer.body), (200, b""))

    def test_first_record_names_its_destination(self) -> None:
        """A stream that does not say where to is refused."""
        answer = self.send_records(StreamRecord({}, b"1"))
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "destination")

    def test_refused_message_ends_the_stream(self) -> None:
        """Messages before the refusal are sent and answered; the refusal comes last; the rest is not sent."""
        answer = self.send_records(record(b"1"), record(b"2"), record(b"3", priority=9), record(b"4"))
        self.assertEqual(answer.status, 400)
        first, second, refusal = answer.lines
        self.assertTrue(first["id"] and second["id"])
        self.assertEqual(refusal["error"], "MQ_ERROR_ILLEGAL_PROPERTY_VALUE")
        self.assertEqual(self.bodies(), [b"1", b"2"])

    def test_missing_queue(self) -> None:
        """A destination that is not there is refused with its own status."""
        answer = self.send_records(record(b"1"), StreamRecord({"destination": ".\\private$\\missing"}))
        self.assertEqual((answer.status, answer.lines[1]["error"]), (404, "MQ_ERROR_QUEUE_NOT_FOUND"))

    def test_unknown_header_key(self) -> None:
        """An unknown property is refused, and nothing of its record is sent."""
        answer = self.send_records(record(b"1", colour="red"))
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "'colour'")

    def test_extension_longer_than_the_record(self) -> None:
        """An extension cannot be longer than what there is."""
        answer = self.send_records(record(b"12", extension_size=3))
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "extension_size")

    def test_garbage_ends_the_stream(self) -> None:
        """Bytes that are no record are refused with their offset; the records before them are sent."""
        good = record(b"1").to_bytes()
        for rubbish, reason in (
            (struct.pack("<II", 0xFFFFFFFF, 0), "header length"),
            (struct.pack("<II", 2, 0xFFFFFFFF), "body length"),
            (b"\2\0\0\0\0\0\0\0[]", "header"),
            (b"\2\0", "length"),
        ):
            with self.subTest(reason=reason):
                caller = self.caller()
                caller.ask("POST", "/v1/send", good + rubbish, {"Content-Type": CONTENT_TYPE})
                self.assertEqual(caller.answer.status, 400)
                accepted, refusal = caller.answer.lines
                self.assertIn("id", accepted)
                self.assertIn(f"offset {len(good)}: {reason}", refusal["detail"])

    def test_message_over_the_limit(self) -> None:
        """A body that exceeds 4 MiB together with the headers is refused."""
        answer = self.send_records(record(bytes(0x400000)))
        self.assert_refused(answer, 507, "MQ_ERROR_INSUFFICIENT_RESOURCES")
        self.assertIs(type(read_refusal(answer.body, "")), MessageTooLarge)

    def test_quota_that_passes(self) -> None:
        """A message that no quota ever takes is distinguished from one for which there is no space now."""
        self.run_to_end(self.service.set_queue(ORDERS, {"quota": 1}))
        self.assertIs(type(read_refusal(self.send_records(record(bytes(1024))).body, "")), MessageTooLarge)
        self.assertEqual(self.send_records(record(bytes(500))).status, 200)
        full = self.send_records(record(bytes(500)))
        self.assert_refused(full, 507, "MQ_ERROR_INSUFFICIENT_RESOURCES")
        self.assertNotIn("too_large", full.json)
        self.assertIs(type(read_refusal(full.body, "")), MQError)

    def test_another_content_type(self) -> None:
        """Only a stream of records is one."""
        answer = self.call("POST", "/v1/send", record(b"1").to_bytes())
        self.assert_refused(answer, 415, "MQ_ERROR_INVALID_PARAMETER", CONTENT_TYPE)
        caller = self.caller()
        caller.ask("POST", "/v1/queues", record(b"1").to_bytes(), {"Content-Type": CONTENT_TYPE})
        self.assert_refused(caller.answer, 415, "MQ_ERROR_INVALID_PARAMETER", CONTENT_TYPE)

    def test_refused_stream_sends_nothing(self) -> None:
        """A malformed stream of records is refused as a whole, however early it arrives."""
        stream = record(b"1").to_bytes()
        for method, path, status in (
            ("POST", "/v1/messages?destination=" + quote(ORDERS), 415),
            ("POST", "/v1/queues", 415),
            ("POST", "/v1/sent", 404),
            ("PUT", "/v1/send", 405),
            ("GET", "/v1/status", 200),
        ):
            caller = self.caller()
            caller.ask(method, path, stream, {"Content-Type": CONTENT_TYPE})
            self.assertEqual((path, caller.answer.status, self.bodies()), (path, status, []))
        caller = self.caller()
        caller.ask("POST", "/v1/%73end?", stream, {"Content-Type": CONTENT_TYPE})
        self.assertEqual((caller.answer.status, self.bodies()), (200, [b"1"]))

    def test_messages_are_taken_in_while_the_stream_arrives(self) -> None:
        """A message is in its queue as soon as its record has come, long before the stream ends."""
        caller = self.begin()
        caller.feed(self.chunk(record(b"1").to_bytes() + b"\2"))
        self.assertEqual(self.bodies(), [b"1"])
        self.assertFalse(caller.is_answered)

    def test_byte_by_byte(self) -> None:
        """Records arrive however they are cut."""
        caller = self.begin()
        for byte in record(b"1").to_bytes() + StreamRecord({}, b"2").to_bytes():
            caller.feed(self.chunk(bytes([byte])))
        caller.feed(b"0\r\n\r\n")
        self.assertEqual(len(caller.answer.lines), 2)
        self.assertEqual(self.bodies(), [b"1", b"2"])

    def test_caller_that_dies_leaves_what_it_sent(self) -> None:
        """Complete records received before the connection ended are sent; the rest is not."""
        caller = self.begin()
        caller.feed(self.chunk(record(b"1").to_bytes() + record(b"22").to_bytes()[:-1]))
        caller.hang_up()
        self.assertEqual(self.bodies(), [b"1"])


class DurableSendTests(ControlTestCase):
    """A recoverable message is on disk before its answer is sent."""

    limits = attrs.evolve(ControlLimits(), send_backlog=1000, slice_messages=2)

    def test_answered_only_when_stored(self) -> None:
        """There is no answer before the disk has the message."""
        self.disk.is_slow = True
        caller = self.caller()
        stream = record(b"1", delivery="recoverable").to_bytes()
        caller.ask("POST", "/v1/send", stream, {"Content-Type": CONTENT_TYPE})
        self.assertFalse(caller.is_answered)
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertEqual(len(caller.answer.lines), 1)

    def test_failing_disk(self) -> None:
        """A message that could not be stored has no identifier, and the refusal says why."""
        self.disk.is_broken = True
        answer = self.send_records(record(b"1", delivery="recoverable"))
        self.assert_refused(answer, 500, "MQ_ERROR_MESSAGE_STORAGE_FAILED", "on fire")

    def test_headers_count_too(self) -> None:
        """Records wait as well that have little body and large headers, as an extension in base64."""
        self.disk.is_slow = True
        caller = self.caller()
        stream = b"".join(
            record(b"", delivery="recoverable", extension_base64=f"{number:0400}").to_bytes()
            for number in range(8)
        )
        head = (
            f"POST /v1/send HTTP/1.1\r\nHost: x\r\nContent-Type: {CONTENT_TYPE}\r\n"
            f"Content-Length: {len(stream)}\r\n\r\n"
        )
        caller.feed(head.encode("ascii") + stream[:-1])
        self.assertEqual(caller.transport.producerState, "paused")
        for _ in range(8):
            self.disk.catch_up()
            self.clock.advance(0)
        self.assertEqual(caller.transport.producerState, "producing")
        caller.feed(stream[-1:])
        for _ in range(8):
            self.disk.catch_up()
            self.clock.advance(0)
        self.assertEqual((caller.answer.status, len(caller.answer.lines)), (200, 8))

    def test_slow_disk_pauses_the_stream(self) -> None:
        """The connection is not read while too much waits for the disk, and is read on afterwards."""
        self.disk.is_slow = True
        caller = self.caller()
        records = [record(bytes(400), delivery="recoverable").to_bytes() for _ in range(8)]
        head = (
            f"POST /v1/send HTTP/1.1\r\nHost: x\r\nContent-Type: {CONTENT_TYPE}\r\n"
            f"Content-Length: {sum(map(len, records))}\r\n\r\n"
        )
        caller.feed(head.encode("ascii"))
        fed = 0
        while caller.transport.producerState == "producing":
            caller.feed(records[fed])
            fed += 1
        self.assertLess(fed, 8)
        while fed < 8:
            self.disk.catch_up()
            self.clock.advance(0)
            if caller.transport.producerState == "producing":
                caller.feed(records[fed])
                fed += 1
        for _ in range(8):
            self.disk.catch_up()
            self.clock.advance(0)
        self.assertEqual(len(caller.answer.lines), 8)
        self.assertEqual(len(self.bodies()), 8)

    def test_refusal_while_the_stream_is_paused(self) -> None:
        """A message that is refused while its stream is not read is answered; the rest is dropped."""
        self.disk.is_slow = True
        caller = self.caller()
        valid = record(b"1", delivery="recoverable").to_bytes()
        wrong = record(bytes(400), label=5).to_bytes()
        head = (
            f"POST /v1/send HTTP/1.1\r\nHost: x\r\nContent-Type: {CONTENT_TYPE}\r\n"
            f"Content-Length: {len(valid) + 9 * len(wrong)}\r\n\r\n"
        )
        caller.feed(head.encode("ascii") + valid + 8 * wrong)
        self.assertEqual(caller.transport.producerState, "paused")
        self.disk.catch_up()
        self.clock.advance(0)
        self.clock.advance(0)
        self.assertEqual(caller.transport.producerState, "producing")
        caller.feed(wrong)
        self.assertEqual((caller.answer.status, len(caller.answer.lines)), (400, 2))
        self.assertEqual(self.bodies(), [b"1"])

    def test_time_to_store_is_no_idleness(self) -> None:
        """A stream that waits for the disk is not idle, and is not cut."""
        self.disk.is_slow = True
        caller = self.caller()
        stream = record(b"1", delivery="recoverable").to_bytes()
        caller.ask("POST", "/v1/send", stream, {"Content-Type": CONTENT_TYPE})
        self.clock.advance(3600)
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertEqual(len(caller.answer.lines), 1)

    def test_recoverable_delivery(self) -> None:
        """The delivery that was asked for is that of the message."""
        self.send_records(record(b"1", delivery="recoverable"))
        peek = self.run_to_end(self.service.reserve(ORDERS, timeout=0, peek=True))
        self.assertTrue(peek.messages[0].view.is_recoverable)


class AcceptedTests(ControlTestCase):
    """Ranges of identifiers."""

    def test_texts(self) -> None:
        """A range gives its identifiers in parts, and ends where it ends."""
        guid = UUID(int=7)
        accepted = IdentifierRange(MessageIdentifier(guid, 10), 3)
        self.assertTrue(accepted.is_followed_by(MessageIdentifier(guid, 13)))
        self.assertFalse(accepted.is_followed_by(MessageIdentifier(guid, 14)))
        self.assertEqual(
            accepted.texts(0, 2) + accepted.texts(2, 2),
            [str(MessageIdentifier(guid, number)) for number in (10, 11, 12)],
        )
