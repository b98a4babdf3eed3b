"""Queues whose reading is paused."""

from __future__ import annotations

from msmq.moment import Moment
from msmq.persistence.changes import PutState, RemoveState
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.leaving.expiry import EXPIRED_AT_ONCE
from msmq.queues.reading.seek import MessageSeekAction
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from tests.queues.builders import ORDERS, arriving, bodies, completions, delete
from tests.queues.reading.handles import HandleTestCase, failures

LATE = Status.MQ_ERROR_IO_TIMEOUT


def mortal(body: bytes, now: Moment) -> UserMessageView:
    """A message that expires 5 seconds after it was sent."""
    return arriving(body, time_to_be_received=5, sent_time=now.unix_seconds)


class PauseTests(HandleTestCase):
    """L{msmq.queues.model.QueueManagerModel.set_paused}: a queue whose readers wait."""

    def pause(self) -> None:
        self.model.pause_change(self.queue, True)
        self.assertEqual(self.model.set_paused(self.queue, True, self.now), [])

    def resume(self) -> list[tuple[object, list[bytes]]]:
        """Which readers get which messages."""
        return completions(self.model.set_paused(self.queue, False, self.now))

    def test_a_receive_waits_as_in_an_empty_queue(self) -> None:
        """It gets neither what is there nor what comes, until the queue resumes."""
        self.put(b"1")
        self.pause()
        self.assertEqual(self.receive(), LATE)
        self.assertIsNone(self.receive(seconds=None))
        self.assertEqual(self.put(b"2"), [])
        self.assertEqual(self.resume(), [(self.last_tag, [b"1"])])
        self.assertEqual(self.receive(), b"2")

    def test_a_receive_that_waits_already(self) -> None:
        """A pause holds it too, and its time limit ends it."""
        self.assertIsNone(self.receive(seconds=9))
        self.pause()
        self.assertEqual(self.put(b"1"), [])
        self.now = self.now.later(9)
        self.assertEqual(failures(self.model.expire(self.now)), [(self.last_tag, LATE)])
        self.assertEqual(self.resume(), [])
        self.assertEqual(self.receive(), b"1")

    def test_peeks_find_the_messages(self) -> None:
        """A peek sees what is there, also behind a waiting receive and by lookup identifier."""
        self.pause()
        self.receive(seconds=None)
        self.peek(seconds=None)
        self.assertEqual(self.put(b"1"), [(self.last_tag, [b"1"])])
        self.assertEqual(self.peek(), b"1")
        self.assertEqual(self.lookup(MessageSeekAction.FIRST, peek=True), b"1")
        self.assertEqual(self.lookup(MessageSeekAction.FIRST), LATE)

    def test_released_messages_stay(self) -> None:
        """A message that a reader returns goes to no other reader."""
        self.put(b"1")
        self.receive()
        self.pause()
        self.receive(seconds=None)
        self.assertEqual(self.give_back(*self.taken), [])
        self.assertEqual(self.resume(), [(self.last_tag, [b"1"])])

    def test_messages_are_shared_on_resumption(self) -> None:
        """The waiting receivers get equal parts, as of a burst."""
        self.pause()
        for _ in range(2):
            self.receive(seconds=None, count=9)
        self.put(b"1", b"2", b"3", b"4")
        self.assertEqual([len(bodies) for _, bodies in self.resume()], [2, 2])

    def expired(self, seconds: int) -> list[bytes]:
        """Resume when messages have expired; those that leave are not held by a reader."""
        self.now = self.now.later(seconds)
        effects = list(self.model.set_paused(self.queue, False, self.now))
        self.completed = completions(effects)
        return [
            body for effect in effects if isinstance(effect, Departure) for body in bodies(effect.positions)
        ]

    def test_messages_expire_during_the_pause(self) -> None:
        """Expired ones leave, wherever they are in the queue; the receivers share the others."""
        for living in (0, 1, 2):
            with self.subTest(living=living):
                self.pause()
                for _ in range(2):
                    self.receive(seconds=None, count=9)
                arrivals = [b"live %d" % number for number in range(living)]
                self.put(*arrivals, *(mortal(b"%d" % number, self.now) for number in range(3)))
                self.assertEqual(self.expired(9), [b"0", b"1", b"2"])
                self.assertEqual([body for _, found in self.completed for body in found], arrivals)
                self.assertEqual(self.queue.available_count, 0)
                for tag in list(self.queue.readers):
                    self.model.cancel(tag)

    def test_very_many_messages_expire_during_the_pause(self) -> None:
        """Receives get the messages behind them, although not in one step."""
        self.pause()
        tags = []
        for _ in range(2):
            self.receive(seconds=None)
            tags.append(self.last_tag)
        live = (b"live", b"too")
        self.put(*(mortal(b"%d" % number, self.now) for number in range(2 * EXPIRED_AT_ONCE)), *live)
        self.assertEqual(len(self.expired(9)), 2 * EXPIRED_AT_ONCE)
        self.assertEqual(self.model.deadline(self.now), self.now.monotonic)
        self.assertEqual(
            completions(self.model.expire(self.now)),
            [(tag, [body]) for tag, body in zip(tags, live, strict=True)],
        )

    def test_a_pause_while_very_many_messages_leave(self) -> None:
        """A receive that was to look further does not, so that it does nothing until the queue resumes."""
        for is_cursor in (True, False):
            self.put(*(mortal(b"%d" % number, self.now) for number in range(2 * EXPIRED_AT_ONCE)), b"live")
            self.now = self.now.later(9)
            self.assertIsNone(self.receive(self.cursor() if is_cursor else None, seconds=None))
            self.assertEqual(self.model.readers.deadline(self.now), self.now.monotonic)
            self.pause()
            self.assertEqual(completions(self.model.expire(self.now)), [])
            self.assertIsNone(self.model.readers.deadline(self.now))
            given = [*self.resume(), *completions(self.model.expire(self.now))]
            self.assertEqual(given, [(self.last_tag, [b"live"])])

    def test_a_cursor_peeks(self) -> None:
        """A cursor peeks at one message after the other, and waits for the next one that comes."""
        self.put(b"1", b"2")
        self.pause()
        cursor = self.cursor()
        self.assertEqual(self.peek(cursor), b"1")
        self.assertEqual(self.peek_next(cursor), b"2")
        self.assertEqual(self.peek_next(cursor), LATE)
        self.assertIsNone(self.peek(cursor, seconds=None))
        self.assertEqual(self.put(b"3"), [(self.last_tag, [b"3"])])

    def test_a_cursor_keeps_its_position(self) -> None:
        """A receive by cursor waits without moving it, and then receives the message that was peeked."""
        self.put(b"1", b"2")
        cursor = self.cursor()
        self.peek(cursor)
        self.pause()
        self.assertEqual(self.receive(cursor), LATE)
        self.assertIsNone(self.receive(cursor, seconds=None))
        waiting = self.last_tag
        for read in (self.peek, self.peek_next, self.receive):
            self.assertEqual(read(cursor), Status.MQ_ERROR_ILLEGAL_CURSOR_ACTION)
        self.assertEqual(self.resume(), [(waiting, [b"1"])])
        self.assertEqual(self.receive(cursor), b"2")

    def test_a_cursor_at_the_end_skips_nothing(self) -> None:
        """Messages that came during the pause are ahead of a cursor that waited, also if its wait expired."""
        waits = []
        for seconds in (None, 9):
            cursor = self.cursor()
            self.receive(cursor, seconds=seconds)
            waits.append((cursor, self.last_tag))
        self.receive(seconds=None)
        plain = self.last_tag
        self.pause()
        self.put(b"1", b"2", b"3")
        self.now = self.now.later(9)
        (_, first), (late, last) = waits
        self.assertEqual(failures(self.model.expire(self.now)), [(last, LATE)])
        self.assertEqual(self.resume(), [(first, [b"1"]), (plain, [b"2"])])
        self.assertEqual(self.receive(late), b"3")

    def test_a_subqueue_is_paused_with_its_queue(self) -> None:
        """Its readers wait too, and go on with the queue."""
        self.put(b"1")
        aside = self.model.collection.subqueue(self.queue, "aside", self.now)
        handle = self.open(name="DIRECT=OS:ALPHA\\private$\\orders;aside")
        self.pause()
        self.receive(handle=handle, seconds=None)
        [position] = self.queue.peek(1)
        move = self.model.move(position, aside)
        self.assertEqual(completions(self.model.moved(move, self.now)), [])
        self.assertEqual(self.resume(), [(self.last_tag, [b"1"])])

    def test_names_that_cannot_be_paused(self) -> None:
        """Journals, subqueues, system queues, outgoing and deleted queues are refused, with what to do."""
        assert self.queue.journal is not None
        aside = self.model.collection.subqueue(self.queue, "aside", self.now)
        outgoing = self.model.outgoing(parse_format_name("DIRECT=OS:BETA\\private$\\orders"), self.now)
        for queue, hint in (
            (self.queue.journal, "journal"),
            (aside, "paused together with its queue"),
            (outgoing, "msmq outgoing pause"),
        ):
            error = self.assertRaises(MQError, self.model.pause_change, queue, True)
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_OPERATION)
            self.assertIn(hint, str(error))
        delete(self.model, self.queue)
        self.assertRaises(MQError, self.model.pause_change, self.queue, True)

    def test_a_deleted_queue_leaves_no_pause(self) -> None:
        """The stored pause is removed together with the queue."""
        self.assertEqual(self.model.find(ORDERS), self.queue)
        kept = self.model.pause_change(self.queue, True)
        assert isinstance(kept, PutState)
        self.assertIn(RemoveState(kept.name), self.model.delete_queue(self.queue).changes)
