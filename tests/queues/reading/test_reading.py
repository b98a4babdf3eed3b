"""Readers that wait."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.queues.effects import Effect, ReadFailed
from msmq.queues.reading.operations import ENDED_AT_ONCE
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import Status
from tests.queues.builders import (
    NOW,
    arriving,
    bodies,
    completions,
    create,
    model,
    peek,
    put,
    receive,
)


class WaitingReaderTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.2.2 and 3.1.7.3.1."""

    def setUp(self) -> None:
        self.model = model()
        self.queue = create(self.model)

    def wait(self, tag: str, *, is_peek: bool = False, count: int = 1, seconds: float | None = None) -> None:
        """Begin a read that finds nothing."""
        deadline = None if seconds is None else NOW.later(seconds).monotonic
        effects = self.model.receive(
            self.queue, tag=tag, now=NOW, peek=is_peek, count=count, deadline=deadline
        )
        self.assertEqual(effects, [])

    def put(self, *bodies: bytes) -> list[tuple[object, list[bytes]]]:
        return completions(put(self.model, self.queue, *bodies))

    def failed(self, effects: list[Effect]) -> list[tuple[object, Status]]:
        return [(effect.tag, effect.status) for effect in effects if isinstance(effect, ReadFailed)]

    def test_waiting_reader_gets_what_arrives(self) -> None:
        """A read that found nothing is completed by the next message.

        MQDMPR-3.1.7.3.1-05 MQDMPR-3.1.7.1.9-12
        """
        self.wait("a", seconds=5)
        self.assertEqual(self.put(b"1"), [("a", [b"1"])])
        self.assertIsNone(self.model.deadline(NOW))
        self.assertEqual(peek(self.model, self.queue), [])

    def test_order_of_waiting(self) -> None:
        """MQDMPR-3.1.7.2.2-03: the reader that waited longest is served first, one message each."""
        for tag in "abc":
            self.wait(tag)
        self.assertEqual(self.put(b"1"), [("a", [b"1"])])
        self.assertEqual(self.put(b"2", b"3"), [("b", [b"2"]), ("c", [b"3"])])

    def test_one_message_wakes_one_receiver(self) -> None:
        """MQDMPR-3.1.7.2.2-04: of two receivers, one message completes the first; the other waits on."""
        self.wait("a")
        self.wait("b")
        self.assertEqual(self.put(b"1"), [("a", [b"1"])])
        self.assertEqual(self.put(b"2"), [("b", [b"2"])])

    def test_peekers_and_receiver(self) -> None:
        """MQDMPR-3.1.7.2.2-05 MQDMPR-3.1.7.3.7-01: all peeks in front of the receive see the message."""
        self.wait("p", is_peek=True)
        self.wait("q", is_peek=True)
        self.wait("r")
        self.wait("late", is_peek=True)
        self.assertEqual(self.put(b"1"), [("p", [b"1"]), ("q", [b"1"]), ("r", [b"1"])])
        self.assertEqual(self.put(b"2"), [("late", [b"2"])])
        self.assertEqual(peek(self.model, self.queue), [b"2"])

    def test_waiting_peek_removes_nothing(self) -> None:
        """MQDMPR-3.1.7.1.15-06: a peek that had to wait leaves the message for others."""
        self.wait("p", is_peek=True)
        self.assertEqual(self.put(b"1"), [("p", [b"1"])])
        self.assertEqual(len(receive(self.model, self.queue)), 1)

    def test_reader_of_many(self) -> None:
        """A reader that takes many gets all of a batch that arrives, in order."""
        self.wait("a", count=10)
        self.assertEqual(self.put(b"1", b"2", b"3"), [("a", [b"1", b"2", b"3"])])

    def test_readers_of_many_share(self) -> None:
        """Every waiting reader gets one message of a batch before any gets a second, then equal shares."""
        self.wait("a", count=10)
        self.wait("b", count=2)
        self.wait("c", count=10)
        self.assertEqual(
            self.put(b"1", b"2", b"3", b"4", b"5"),
            [("c", [b"3"]), ("a", [b"1", b"4"]), ("b", [b"2", b"5"])],
        )

    def test_reader_of_many_does_not_wait_for_more(self) -> None:
        """Some messages complete a read; it does not wait until it has all it would take."""
        put(self.model, self.queue, b"1")
        effects = self.model.receive(self.queue, tag="a", now=NOW, count=10)
        self.assertEqual(completions(effects), [("a", [b"1"])])

    def test_urgent_message_first(self) -> None:
        """A waiting reader gets the message of the highest priority in a batch."""
        self.wait("a")
        effects = put(self.model, self.queue, arriving(b"1", priority=1), arriving(b"7", priority=7))
        self.assertEqual(completions(effects), [("a", [b"7"])])

    def test_release_serves_the_next(self) -> None:
        """A message that is returned goes to a waiting reader."""
        put(self.model, self.queue, b"1")
        held = receive(self.model, self.queue)
        self.wait("a")
        self.assertEqual(completions(self.model.release(held, NOW)), [("a", [b"1"])])

    def test_no_time_to_wait(self) -> None:
        """MQDMPR-3.1.7.3.1-02: a read that may not wait ends at once, and does not wait."""
        for seconds in (0.0, -1.0):
            deadline = NOW.later(seconds).monotonic
            effects = self.model.receive(self.queue, tag="a", now=NOW, deadline=deadline)
            self.assertEqual(self.failed(effects), [("a", Status.MQ_ERROR_IO_TIMEOUT)])
        self.assertEqual(self.put(b"1"), [])

    def test_time_runs_out(self) -> None:
        """A wait ends at its deadline, and not before; one without a limit does not end.

        MQDMPR-3.1.2.3-01 MQDMPR-3.1.2.3-02 MQDMPR-3.1.6.3-01 MQDMPR-3.1.7.1.15-07 MQDMPR-3.1.7.3.4-01
        """
        self.wait("a", seconds=5, is_peek=True)
        self.wait("b", seconds=2)
        self.wait("c")
        self.assertEqual(self.model.deadline(NOW), NOW.later(2).monotonic)
        self.assertEqual(self.model.expire(NOW.later(1.9)), [])
        timed_out = Status.MQ_ERROR_IO_TIMEOUT
        self.assertEqual(self.failed(self.model.expire(NOW.later(2))), [("b", timed_out)])
        self.assertEqual(self.model.deadline(NOW), NOW.later(5).monotonic)
        self.assertEqual(self.failed(self.model.expire(NOW.later(1e9))), [("a", timed_out)])
        self.assertIsNone(self.model.deadline(NOW))
        self.assertEqual(self.put(b"1"), [("c", [b"1"])])

    def test_cancel(self) -> None:
        """A cancelled read ends with the status of its canceller and loses nothing.

        MQDMPR-3.1.7.1.17-02 MQDMPR-3.1.7.3.1-04 MQDMPR-3.1.7.3.5-01
        """
        self.wait("a", seconds=5)
        self.wait("b")
        self.assertEqual(self.failed(self.model.cancel("a")), [("a", Status.MQ_ERROR_OPERATION_CANCELLED)])
        effects = self.model.cancel("b", Status.MQ_ERROR_INVALID_HANDLE)
        self.assertEqual(self.failed(effects), [("b", Status.MQ_ERROR_INVALID_HANDLE)])
        self.assertIsNone(self.model.deadline(NOW))
        self.assertEqual(self.put(b"1"), [])
        self.assertEqual(peek(self.model, self.queue), [b"1"])

    def test_cancel_of_an_unknown_read(self) -> None:
        """Cancelling a read that is completed, or never was, changes nothing."""
        self.wait("a")
        self.put(b"1")
        self.assertEqual(self.model.cancel("a"), [])
        self.assertEqual(self.model.cancel("other"), [])

    def test_waits_on_two_queues(self) -> None:
        """A message completes only reads of its own queue."""
        other = create(self.model, "other")
        self.assertEqual(self.model.receive(other, tag="o", now=NOW), [])
        self.wait("a")
        self.assertEqual(self.put(b"1", b"2"), [("a", [b"1"])])
        self.assertEqual(completions(put(self.model, other, b"3")), [("o", [b"3"])])

    def test_deleted_queue_ends_waits(self) -> None:
        """Reads that wait at a deleted queue end with that status; later ones find no queue."""
        self.wait("a", seconds=5)
        self.wait("b", is_peek=True)
        deleted = Status.MQ_ERROR_QUEUE_DELETED
        deletion = self.model.delete_queue(self.queue)
        self.assertEqual(self.failed(list(deletion.effects)), [("a", deleted), ("b", deleted)])
        self.assertIsNone(self.model.deadline(NOW))

    def test_read_of_a_deleted_queue(self) -> None:
        """A queue that is gone is not available.

        MQDMPR-3.1.7.1.15-01 MQDMPR-3.1.7.1.10-01 MQDMPR-3.1.7.1.4-02 MQDMPR-3.1.7.3.1-01
        """
        self.model.delete_queue(self.queue)
        for is_peek in (True, False):
            effects = self.model.receive(self.queue, tag="a", now=NOW, peek=is_peek)
            self.assertEqual(self.failed(effects), [("a", Status.MQ_ERROR_QUEUE_NOT_AVAILABLE)])

    def test_tag_in_use(self) -> None:
        """Two reads cannot wait under one tag."""
        self.wait("a")
        with self.assertRaises(LocalProtocolError):
            self.model.receive(self.queue, tag="a", now=NOW)

    def test_read_of_no_message(self) -> None:
        """A read takes at least one message."""
        with self.assertRaises(LocalProtocolError):
            self.model.receive(self.queue, tag="a", now=NOW, count=0)

    def test_many_short_waits(self) -> None:
        """Deadlines of reads that found a message do not pile up."""
        for number in range(10_000):
            self.wait(str(number), seconds=3600)
            self.put(b"x")
        self.assertIsNone(self.model.deadline(NOW))
        self.wait("last", seconds=1)
        self.assertEqual(self.model.deadline(NOW), NOW.later(1).monotonic)

    def test_a_peek_has_no_share(self) -> None:
        """A waiting peek sees each message once, and the receivers after it share all of them."""
        self.wait("peek", is_peek=True, count=9)
        self.wait("a", count=9)
        self.wait("b", count=9)
        given = dict(self.put(b"1", b"2", b"3", b"4", b"5"))
        self.assertEqual(given["peek"], [b"1", b"2", b"3", b"4", b"5"])
        self.assertEqual((given["a"], given["b"]), ([b"1", b"3", b"4"], [b"2", b"5"]))

    def test_short_waits_beside_long_ones(self) -> None:
        """Reads that still wait end in the order of their deadlines, however many others were cancelled."""
        for seconds in (1, 50, 2, 40, 3, 30):
            self.wait(f"{seconds} s", seconds=seconds)
        self.model.cancel("1 s")
        for number in range(100):
            self.wait(str(number), seconds=60)
            self.model.cancel(str(number))
        for seconds in (2, 3, 30, 40, 50):
            now = NOW.later(seconds)
            self.assertEqual(self.model.deadline(now), now.monotonic)
            self.assertEqual(
                self.failed(self.model.expire(now)), [(f"{seconds} s", Status.MQ_ERROR_IO_TIMEOUT)]
            )
        self.assertIsNone(self.model.deadline(NOW))

    def test_a_thousand_readers(self) -> None:
        """They are served in the order in which they came, and time out in the order of their deadlines."""
        tags = [f"{number}" for number in range(1000)]
        for number, tag in enumerate(tags):
            self.wait(tag, seconds=1000 - number % 500)
        self.assertEqual(self.put(*(b"m" for _ in range(300))), [(tag, [b"m"]) for tag in tags[:300]])
        effects: list[Effect] = []
        now = NOW.later(1000)
        while self.model.deadline(now) is not None:
            step = self.model.expire(now)
            self.assertLessEqual(len(step), ENDED_AT_ONCE)
            effects += step
        late = sorted(range(300, 1000), key=lambda number: (-(number % 500), number))
        self.assertEqual(self.failed(effects), [(str(each), Status.MQ_ERROR_IO_TIMEOUT) for each in late])
        self.assertEqual(len(self.queue.readers), 0)


class OutgoingReadersTests(SynchronousTestCase):
    """Reads and transfer at one outgoing queue."""

    def test_waiting_reader_is_served_first(self) -> None:
        """An administrator that waits gets what comes, and the session is notified all the same."""
        alpha = model()
        queue = alpha.outgoing(parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\orders"), NOW)
        self.assertEqual(alpha.receive(queue, tag="admin", now=NOW), [])
        effects = put(alpha, queue, b"1", b"2")
        self.assertEqual(completions(effects), [("admin", [b"1"])])
        self.assertEqual(bodies(alpha.take(queue, 9, "session", NOW)[0]), [b"2"])
