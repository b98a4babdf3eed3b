"""All properties of a queue, and its message log."""

from __future__ import annotations

import json
from typing import Any

from msmq.queues.arriving.message import Delivery
from msmq.structures.algorithms import PrivacyLevel
from tests.control.support import DEAD_LETTERS, ORDERS, Answer, ControlTestCase, resource

RECOVERABLE = {"delivery": Delivery.RECOVERABLE}


class ShowTests(ControlTestCase):
    """One queue, with everything about it."""

    def show(self, path: str) -> Any:
        """The queue."""
        answer = self.call("GET", resource("queues", path))
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def test_pending_deletion(self) -> None:
        """A deletion that the store has not taken yet is accepted: the queue is gone, and the answer says
        that its removal is pending. It is not refused, since it is completed later.
        """
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        self.disk.is_broken = True
        answer = self.call("DELETE", resource("queues", ORDERS))
        self.assertEqual((answer.status, answer.json["deleted"]), (202, ORDERS))
        self.assertIn("pending: the disk is on fire", answer.json["pending"])
        self.assertEqual(self.call("GET", resource("queues", ORDERS)).status, 404)
        self.disk.is_broken = False
        self.clock.advance(60)
        self.post("/v1/queues", {"path": ORDERS})

    def test_journal(self) -> None:
        """Received messages of a queue with a journal are counted in it, by number and bytes."""
        path = self.make_queue("kept", journal=True)
        self.put(b"1", b"2", queue=path)
        size = self.show(path)["bytes"]
        self.take(path)
        shown = self.show(path)
        self.assertEqual((shown["messages"], shown["bytes"]), (0, 0))
        self.assertEqual((shown["journal_messages"], shown["journal_bytes"]), (2, size))

    def test_subqueues(self) -> None:
        """A subqueue is there with its messages while it has any, and no longer."""
        self.put(b"1", b"2")
        self.assertEqual(self.show(ORDERS)["subqueues"], [])
        first, _ = self.identifiers()
        later = ORDERS + ";Later"
        self.post(resource("messages", first, "move"), {"queue": later})
        shown = self.show(ORDERS)
        self.assertEqual(shown["messages"], 1)
        self.assertEqual(shown["subqueues"], [{"name": "Later", "messages": 1, "bytes": shown["bytes"]}])
        self.assertEqual(self.take(later), [b"1"])
        self.assertEqual(self.show(ORDERS)["subqueues"], [])

    def test_subqueue_and_journal_are_queues_too(self) -> None:
        """They are shown by their own names, with the limits that hold for them."""
        path = self.make_queue("kept", journal=True, quota=10, journal_quota=5)
        self.put(b"1", queue=path)
        self.run_to_end(self.service.set_queue(path, {"authenticate": True}))
        self.post(resource("messages", self.identifiers(path)[0], "move"), {"queue": path + ";sub"})
        subqueue = self.show(path + ";sub")
        self.assertEqual((subqueue["path"], subqueue["type"]), (path + ";sub", "private"))
        self.assertEqual((subqueue["quota"], subqueue["authenticate"], subqueue["messages"]), (10, True, 1))
        journal = self.show(path + ";journal")
        self.assertEqual((journal["path"], journal["type"]), (path + ";journal", "system"))
        self.assertEqual((journal["quota"], journal["messages"]), (5, 0))

    def test_log(self) -> None:
        """The extent of the message log is shown, also after the messages were received."""
        self.assertEqual(self.show(ORDERS)["log_extent"], {"first": 0, "last": 0, "entries": 0, "bytes": 0})
        path = self.make_queue("logged", log=True)
        self.put(b"1", b"2", b"3", queue=path, **RECOVERABLE)
        size = self.show(path)["bytes"]
        self.take(path)
        extent = self.show(path)["log_extent"]
        self.assertEqual((extent["entries"], extent["bytes"]), (3, size))
        self.assertEqual(extent["last"] - extent["first"], 2)

    def test_system_queues(self) -> None:
        """They can be shown and, on request, listed; they cannot be deleted or changed."""
        self.assertEqual(self.show(DEAD_LETTERS)["path"], DEAD_LETTERS)
        self.assertEqual([queue["path"] for queue in self.call("GET", "/v1/queues").json], [ORDERS])
        listed = [queue["path"] for queue in self.call("GET", "/v1/queues", system="true").json]
        self.assertEqual(listed[0], ORDERS)
        self.assertEqual(
            set(listed[1:]), {".\\system$;journal", ".\\system$;deadletter", ".\\system$;deadxact"}
        )
        for method, body in (("DELETE", None), ("PATCH", b'{"label": "x"}')):
            answer = self.call(method, resource("queues", DEAD_LETTERS), body)
            self.assert_refused(answer, 400, "MQ_ERROR_ILLEGAL_OPERATION", "deadletter")


class LogOptionTests(ControlTestCase):
    """The message log is configured when a queue is created, and later."""

    def set(self, **properties: object) -> Answer:
        """Change properties of the queue."""
        return self.call("PATCH", resource("queues", ORDERS), json.dumps(properties).encode())

    def test_create(self) -> None:
        """A queue is made with the limits of its log."""
        wanted = {"path": ".\\private$\\new", "log": True, "log_age": 60, "log_size": 100}
        answer = self.post("/v1/queues", wanted)
        self.assertEqual(answer.status, 201)
        self.assertEqual({**answer.json, **wanted}, answer.json)

    def test_create_without_limits(self) -> None:
        """Null, or nothing, sets no limit."""
        answer = self.post("/v1/queues", {"path": ".\\private$\\new", "log_age": None, "log_size": None})
        self.assertEqual((answer.json["log_age"], answer.json["log_size"]), (None, None))

    def test_set(self) -> None:
        """Both limits change, and null takes them away."""
        answer = self.set(log=True, log_age=60, log_size=100)
        self.assertEqual(answer.status, 200)
        found = (answer.json["log"], answer.json["log_age"], answer.json["log_size"])
        self.assertEqual(found, (True, 60, 100))
        answer = self.set(log_age=None, log_size=None)
        self.assertEqual((answer.json["log_age"], answer.json["log_size"]), (None, None))

    def test_refusals(self) -> None:
        """A limit is a whole number of 32 bits, and null is not a value of the rest."""
        for properties, error in (
            ({"log_age": -1}, "MQ_ERROR_INVALID_PARAMETER"),
            ({"log_size": "much"}, "MQ_ERROR_INVALID_PARAMETER"),
            ({"label": None}, "MQ_ERROR_INVALID_PARAMETER"),
            ({"log_age": 1 << 32}, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
            ({"log_size": 1 << 32}, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
        ):
            with self.subTest(properties=properties):
                self.assert_refused(self.set(**properties), 400, error)


class ReplayTests(ControlTestCase):
    """Copies of what is in a message log."""

    def setUp(self) -> None:
        super().setUp()
        self.logged = self.make_queue("logged", log=True)
        for body in (b"1", b"2", b"3", b"4"):
            self.put(body, queue=self.logged, label="L", **RECOVERABLE)
            self.clock.advance(10)
        self.began = self.clock.now().wall - 40
        self.take(self.logged)

    def replay(self, **wanted: object) -> Answer:
        """Send them to C{ORDERS}, unless wanted elsewhere."""
        return self.post(resource("queues", self.logged, "replay"), {"into": ORDERS, **wanted})

    def at(self, seconds: float) -> str:
        """A time after the first message came, as people write it."""
        from datetime import UTC, datetime

        return datetime.fromtimestamp(self.began + seconds, UTC).isoformat()

    def test_replay_without_bounds(self) -> None:
        """Without bounds everything is sent, in its order, as new messages."""
        self.assertEqual(self.replay().json, {"replayed": 4})
        self.assertEqual(self.bodies(), [b"1", b"2", b"3", b"4"])
        self.assertEqual(self.bodies(self.logged), [])

    def test_sequence_numbers(self) -> None:
        """Numbers of the log bound what is sent, both ends included; digits as text are numbers too."""
        first = self.call("GET", resource("queues", self.logged)).json["log_extent"]["first"]
        self.assertEqual(self.replay(**{"from": first + 1, "to": str(first + 2)}).json, {"replayed": 2})
        self.assertEqual(self.bodies(), [b"2", b"3"])

    def test_times(self) -> None:
        """Times of arrival bound what is sent; without an offset they are UTC."""
        wanted = {"from": self.at(5), "to": self.at(25).removesuffix("+00:00")}
        self.assertEqual(self.replay(**wanted).json, {"replayed": 2})
        self.assertEqual(self.bodies(), [b"2", b"3"])

    def test_number_and_time(self) -> None:
        """One bound may be a number while the other is a time."""
        first = self.call("GET", resource("queues", self.logged)).json["log_extent"]["first"]
        self.assertEqual(self.replay(**{"from": first + 3, "to": self.at(100)}).json, {"replayed": 1})
        self.assertEqual(self.replay(**{"from": self.at(100), "to": first + 3}).json, {"replayed": 0})

    def test_in_clear(self) -> None:
        """A replay with C{in_clear} sends encrypted messages unencrypted."""
        elsewhere = "DIRECT=TCP:192.0.2.1\\private$\\orders"
        self.put(b"secret", queue=self.logged, privacy_level=PrivacyLevel.BASE)
        answer = self.replay(into=elsewhere)
        self.assert_refused(answer, 501, "MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION", "--in-clear", "entry")
        self.assertEqual(self.replay(into=elsewhere, in_clear=True).json, {"replayed": 5})
        self.assertEqual(self.replay(into=elsewhere, in_clear="perhaps").status, 400)

    def test_into_a_transactional_queue(self) -> None:
        """The copies are what their destination takes."""
        path = self.make_queue("tx", transactional=True)
        self.assertEqual(self.replay(into=path).json, {"replayed": 4})

        self.assertEqual(self.bodies(path), [b"1", b"2", b"3", b"4"])

    def test_refusals(self) -> None:
        """An error names the problem."""
        for wanted, status, error, word in (
            ({"into": None}, 400, "MQ_ERROR_INVALID_PARAMETER", "into"),
            ({"into": ".\\private$\\missing"}, 404, "MQ_ERROR_QUEUE_NOT_FOUND", "missing"),
            ({"from": "yesterday"}, 400, "MQ_ERROR_INVALID_PARAMETER", "from"),
            ({"to": -1}, 400, "MQ_ERROR_INVALID_PARAMETER", "to"),
            ({"to": True}, 400, "MQ_ERROR_INVALID_PARAMETER", "to"),
            ({"to": [1]}, 400, "MQ_ERROR_INVALID_PARAMETER", "to"),
            ({"until": 1}, 400, "MQ_ERROR_INVALID_PARAMETER", "'until'"),
        ):
            with self.subTest(wanted=wanted):
                self.assert_refused(self.replay(**wanted), status, error, word)
        answer = self.post(resource("queues", ".\\private$\\missing", "replay"), {"into": ORDERS})
        self.assert_refused(answer, 404, "MQ_ERROR_QUEUE_NOT_FOUND", "missing")
        self.assertEqual(self.bodies(), [])

    def test_empty_log(self) -> None:
        """Replaying an empty log is not an error, but a wrong destination is."""
        path = resource("queues", ORDERS, "replay")
        self.assertEqual(self.post(path, {"into": ORDERS}).json, {"replayed": 0})
        answer = self.post(path, {"into": "nonsense"})
        self.assert_refused(answer, 400, "MQ_ERROR_ILLEGAL_QUEUE_PATHNAME", "nonsense")
