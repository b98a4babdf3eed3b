"""Single messages by their identifiers: moved, explained, sent again."""

from __future__ import annotations

from msmq.queues.arriving.message import Delivery
from msmq.wire.guid import format_guid
from tests.control.receiving.test_receive_stream import receipts
from tests.control.support import DEAD_LETTERS, ORDERS, Answer, ControlTestCase, resource

LATER = ORDERS + ";later"
UNKNOWN = "{11111111-2222-3333-4444-555555555555}\\7"


class MoveTests(ControlTestCase):
    """Between a queue and its subqueues, and into system queues."""

    def move(self, message: str, queue: str) -> Answer:
        """Move a message."""
        return self.post(resource("messages", message, "move"), {"queue": queue})

    def test_there_and_back(self) -> None:
        """A message goes to a subqueue and returns to its position, and counts how often it moved."""
        self.put(b"1", b"2", b"3", delivery=Delivery.RECOVERABLE)
        _, second, _ = self.identifiers()
        answer = self.move(second, LATER)
        self.assertEqual((answer.status, answer.json), (200, {"id": second, "queue": LATER}))
        self.assertEqual((self.bodies(), self.bodies(LATER)), ([b"1", b"3"], [b"2"]))
        self.assertEqual(self.move(second.strip("{").replace("}", ""), ORDERS).status, 200)
        self.assertEqual(self.bodies(), [b"1", b"2", b"3"])
        records = self.receive(count=3, peek="true").answer.records[:3]
        self.assertEqual([record.header["move_count"] for record in records], [0, 2, 0])

    def test_wakes_a_reader(self) -> None:
        """A reader that waits at the subqueue gets what is moved there."""
        waiting = self.receive(queue=LATER)
        self.assertFalse(waiting.is_answered)
        self.put(b"1")
        self.move(self.identifiers()[0], LATER)
        self.clock.advance(0)
        self.assertEqual(waiting.answer.records[0].body, b"1")

    def test_into_the_dead_letter_queue(self) -> None:
        """An administrator may move a message to the dead letters."""
        self.put(b"1")
        self.assertEqual(self.move(self.identifiers()[0], DEAD_LETTERS).status, 200)
        self.assertEqual((self.bodies(), self.bodies(DEAD_LETTERS)), ([], [b"1"]))

    def test_nearest_copy_moves(self) -> None:
        """Of a message with copies in several queues, the copy in the family of the target is moved."""
        path = self.make_queue("kept", journal=True)
        self.put(b"1", queue=path, journal=True, delivery=Delivery.RECOVERABLE)
        [message] = self.identifiers(path)
        places = self.call("GET", resource("messages", message)).json["places"]
        self.assertEqual(self.move(message, path + ";sub").status, 200, places)
        self.assertEqual(self.bodies(path + ";sub"), [b"1"])

    def test_refusals(self) -> None:
        """An error names the problem, and no subqueue is created."""
        other = self.make_queue("other")
        self.put(b"1")
        [message] = self.identifiers()
        for identifier, queue, status, error in (
            (UNKNOWN, LATER, 404, "MQ_ERROR_MESSAGE_NOT_FOUND"),
            ("nonsense", LATER, 400, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
            (message, other, 400, "MQ_ERROR_INVALID_PARAMETER"),
            (message, other + ";sub", 400, "MQ_ERROR_INVALID_PARAMETER"),
            (message, ORDERS, 400, "MQ_ERROR_INVALID_PARAMETER"),
            (message, ORDERS + ";journal", 400, "MQ_ERROR_INVALID_PARAMETER"),
            (message, ".\\private$\\missing", 404, "MQ_ERROR_QUEUE_NOT_FOUND"),
            (message, ORDERS + ";" + "x" * 33, 400, "MQ_ERROR_ILLEGAL_QUEUE_PATHNAME"),
            (message, "DIRECT=OS:elsewhere\\private$\\q", 501, "MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION"),
        ):
            with self.subTest(identifier=identifier, queue=queue):
                self.assert_refused(self.move(identifier, queue), status, error)
        for path in (ORDERS, other):
            self.assertEqual(self.service.inspection.queue(path).subqueues, [])
        self.assertEqual(self.bodies(), [b"1"])
        answer = self.post(resource("messages", message, "move"), {"queue": LATER, "why": 1})
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "'why'")
        answer = self.post(resource("messages", message, "move"), {})
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "queue")

    def test_locked(self) -> None:
        """A message that a reader holds is not moved."""
        self.put(b"1")
        [message] = self.identifiers()
        self.receive()
        self.assert_refused(self.move(message, LATER), 409, "MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION")

    def test_not_stored(self) -> None:
        """A move that cannot be stored has not happened."""
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        [message] = self.identifiers()
        self.disk.is_broken = True
        self.assert_refused(self.move(message, LATER), 500, "MQ_ERROR_MESSAGE_STORAGE_FAILED")
        self.disk.is_broken = False
        self.assertEqual((self.bodies(), self.bodies(LATER)), ([b"1"], []))


class ExplainTests(ControlTestCase):
    """Everything that is known of a message."""

    def explain(self, message: str) -> Answer:
        """Ask for it."""
        return self.call("GET", resource("messages", message))

    def test_waiting(self) -> None:
        """A waiting message is listed with its queue, and with its sender's properties."""
        self.put(b"1", label="L", priority=5)
        [message] = self.identifiers()
        known = self.explain(message).json
        self.assertEqual(
            list(known),
            [
                "known",
                "summary",
                "records_since",
                "message",
                "events",
                "places",
                "unreadable",
                "deliveries",
                "reports",
            ],
        )
        self.assertEqual((known["message"]["id"], known["message"]["label"]), (message, "L"))
        self.assertNotIn("body", known["message"])
        [place] = known["places"]
        self.assertEqual((place["queue"], place["state"]), (ORDERS, "available"))
        self.assertEqual((place["transaction"], place["abort_count"], place["move_count"]), (None, 0, 0))
        self.assertEqual(known["events"], [])

    def test_expired(self) -> None:
        """An expired one has an event with time, reason and queue; its dead letter is listed."""
        self.put(b"1", delivery=Delivery.RECOVERABLE, time_to_be_received=10, dead_letter=True)
        [message] = self.identifiers()
        self.clock.advance(11)
        known = self.explain(message).json
        [event] = known["events"]
        self.assertEqual((event["event"], event["queue"]), ("expired", ORDERS))
        self.assertEqual((event["class"], event["class_name"]), (0xC002, "MQMSG_CLASS_NACK_RECEIVE_TIMEOUT"))
        self.assertRegex(event["time"], r"^\d{4}-\d\d-\d\dT")
        self.assertIn("dead letter", event["reason"])
        [place] = known["places"]
        self.assertEqual((place["queue"], place["class"]), (DEAD_LETTERS, 0xC002))

    def test_purged(self) -> None:
        """One that was purged is nowhere, and its event says so."""
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        [message] = self.identifiers()
        self.call("POST", resource("queues", ORDERS, "purge"))
        known = self.explain(message).json
        self.assertEqual([event["event"] for event in known["events"]], ["purged"])
        self.assertEqual((known["message"], known["places"]), ({"id": message}, []))

    def test_journaled(self) -> None:
        """A message that was received is found in the journal of its queue."""
        path = self.make_queue("kept", journal=True)
        self.put(b"1", queue=path)
        [message] = self.identifiers(path)
        self.take(path)
        [place] = self.explain(message).json["places"]
        self.assertEqual(place["queue"], path + ";journal")

    def test_in_transit(self) -> None:
        """A message for another computer is in its outgoing queue."""
        name = "DIRECT=OS:nowhere\\private$\\q"
        message = self.call("POST", "/v1/messages", b"x", destination=name).json["id"]
        [place] = self.explain(message).json["places"]
        self.assertEqual(place["queue"].lower(), name.lower())

    def test_unknown_message(self) -> None:
        """An unknown message has no events and no places, which is not an error."""
        answer = self.explain(UNKNOWN)
        self.assertEqual(answer.status, 200)
        known = answer.json
        self.assertEqual((known["known"], known["message"]), (False, {"id": UNKNOWN}))
        self.assertTrue(known["summary"].startswith("unknown: "), known["summary"])
        self.assertEqual([known[key] for key in ("events", "places", "deliveries", "reports")], [[]] * 4)
        self.assert_refused(self.explain("nonsense"), 400, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE", "nonsense")


class DeadLetterTests(ControlTestCase):
    """Dead letters of messages not received in time."""

    def dead_letters(self, *bodies: bytes, queue: str = ORDERS) -> list[str]:
        """Make messages dead letters; returns their identifiers."""
        self.put(*bodies, queue=queue, time_to_be_received=10, dead_letter=True, label="L")
        self.clock.advance(11)
        return self.identifiers(DEAD_LETTERS)

    def test_list(self) -> None:
        """Dead letters are listed with their queue and the class that says why, without their bodies."""
        first, second = self.dead_letters(b"1", b"2")
        listed = self.call("GET", "/v1/deadletters").json
        self.assertEqual([dead_letter["id"] for dead_letter in listed], [first, second])
        self.assertEqual({dead_letter["queue"] for dead_letter in listed}, {DEAD_LETTERS})
        self.assertEqual({dead_letter["state"] for dead_letter in listed}, {"available"})
        self.assertEqual(
            {dead_letter["class_name"] for dead_letter in listed}, {"MQMSG_CLASS_NACK_RECEIVE_TIMEOUT"}
        )
        self.assertNotIn("body", listed[0])

    def test_empty_list(self) -> None:
        """Without failures the list is empty."""
        answer = self.call("GET", "/v1/deadletters")
        self.assertEqual((answer.status, answer.json), (200, []))

    def test_limit(self) -> None:
        """The limit applies to each dead-letter queue."""
        dead_letters = self.dead_letters(b"1", b"2", b"3")
        listed = self.call("GET", "/v1/deadletters", limit=2).json
        self.assertEqual([dead_letter["id"] for dead_letter in listed], dead_letters[:2])
        answer = self.call("GET", "/v1/deadletters", limit="all")
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "limit")
        answer = self.call("GET", "/v1/deadletters", last=1)
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "'last'")

    def test_long_list(self) -> None:
        """A long list is one array, though it is written in slices."""
        for count in (100, 101):
            with self.subTest(count=count):
                self.take(DEAD_LETTERS)
                dead_letters = self.dead_letters(*[b"x"] * count)
                answer = self.call("GET", "/v1/deadletters")
                self.assertTrue(answer.is_whole)
                self.assertEqual([dead_letter["id"] for dead_letter in answer.json], dead_letters)

    def test_requeue(self) -> None:
        """A dead letter is sent again as a new message, and removed from the dead letters."""
        first, second = self.dead_letters(b"1", b"2")
        answer = self.call("POST", resource("deadletters", first, "requeue"))
        self.assertEqual(answer.status, 200)
        self.assertNotEqual(answer.json["id"], first)
        self.assertEqual(self.identifiers(ORDERS), [answer.json["id"]])
        self.assertEqual(self.bodies(ORDERS), [b"1"])
        self.assertEqual(self.identifiers(DEAD_LETTERS), [second])
        [record, _] = self.receive(peek="true").answer.records
        self.assertEqual((record.header["class"], record.header["label"]), (0, "L"))

    def test_requeue_refused(self) -> None:
        """A message that is no dead letter, or whose queue is gone, is left as it is."""
        self.put(b"alive")
        for identifier, status, error in (
            (UNKNOWN, 404, "MQ_ERROR_MESSAGE_NOT_FOUND"),
            (self.identifiers()[0], 404, "MQ_ERROR_MESSAGE_NOT_FOUND"),
            ("nonsense", 400, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
        ):
            answer = self.call("POST", resource("deadletters", identifier, "requeue"))
            self.assert_refused(answer, status, error)
        other = self.make_queue("other")
        [dead_letter] = self.dead_letters(b"1", queue=other)
        self.run_to_end(self.service.delete_queue(other))
        answer = self.call("POST", resource("deadletters", dead_letter, "requeue"))
        self.assert_refused(answer, 404, "MQ_ERROR_QUEUE_NOT_FOUND")
        self.assertEqual(self.identifiers(DEAD_LETTERS), [dead_letter])


class SystemQueueTests(ControlTestCase):
    """Queues that are not destinations are read under all their names."""

    def check(self, body: bytes, *names: str) -> None:
        """Each name shows the one message; the last gives it."""
        for name in names:
            with self.subTest(name=name):
                [message, _] = self.receive(queue=name, peek="true", timeout=0).answer.records
                self.assertEqual(message.body, body)
        caller = self.receive(queue=names[-1], timeout=0)
        [receipt] = receipts(caller.answer.records)
        self.assertEqual(self.confirm(receipt).status, 200)
        self.assert_refused(self.receive(queue=names[0], timeout=0).answer, 408, "MQ_ERROR_IO_TIMEOUT")

    def test_dead_letters(self) -> None:
        """The dead-letter queue by path, machine name and direct name."""
        self.put(b"1", time_to_be_received=10, dead_letter=True)
        self.clock.advance(11)
        manager = format_guid(self.service.model.identifier)
        self.check(
            b"1",
            DEAD_LETTERS,
            ".\\SYSTEM$;DeadLetter",
            f"MACHINE={manager};DEADLETTER",
            "DIRECT=OS:alpha\\SYSTEM$;DEADLETTER",
            "DIRECT=TCP:127.0.0.2\\SYSTEM$;DEADLETTER",
        )

    def test_transactional_dead_letter_queue_and_machine_journal(self) -> None:
        """They are there, empty, and transactional where they should be."""
        manager = format_guid(self.service.model.identifier)
        for name in (".\\system$;deadxact", f"MACHINE={manager};DEADXACT", ".\\system$;journal"):
            answer = self.receive(queue=name, timeout=0).answer
            self.assert_refused(answer, 408, "MQ_ERROR_IO_TIMEOUT")
        caller = self.receive(queue=".\\system$;deadxact", transactional="true", timeout=0)
        self.assert_refused(caller.answer, 408, "MQ_ERROR_IO_TIMEOUT")

    def test_journal(self) -> None:
        """The journal of a queue by path, private and direct name."""
        path = self.make_queue("kept", journal=True)
        self.put(b"1", queue=path, delivery=Delivery.RECOVERABLE)
        self.take(path)
        name = self.service.inspection.queue(path).format_name
        self.check(
            b"1",
            path + ";journal",
            path + ";JOURNAL",
            f"{name};JOURNAL",
            "DIRECT=OS:.\\private$\\kept;JOURNAL",
            "DIRECT=TCP:127.0.0.2\\private$\\kept;journal",
        )

    def test_subqueue(self) -> None:
        """A subqueue is found by path and direct name, case-insensitively."""
        self.put(b"1")
        self.post(resource("messages", self.identifiers()[0], "move"), {"queue": LATER})
        self.check(b"1", LATER, ORDERS + ";LATER", "DIRECT=OS:ALPHA\\private$\\orders;later")

    def test_they_are_no_destinations(self) -> None:
        """They cannot be sent to."""
        for name in (DEAD_LETTERS, ORDERS + ";journal", LATER):
            with self.subTest(name=name):
                answer = self.call("POST", "/v1/messages", b"x", destination=name)
                self.assert_refused(answer, 501, "MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION")

    def test_purge(self) -> None:
        """A journal and the dead letters can be purged."""
        self.put(b"1", time_to_be_received=10, dead_letter=True)
        self.clock.advance(11)
        self.assertEqual(self.call("POST", resource("queues", DEAD_LETTERS, "purge")).json, {"purged": 1})
        path = self.make_queue("kept", journal=True)
        self.put(b"1", b"2", queue=path)
        self.take(path)
        answer = self.call("POST", resource("queues", path + ";journal", "purge"))
        self.assertEqual(answer.json, {"purged": 2})
        self.assertEqual(self.service.inspection.queue(path).journal_messages, 0)
