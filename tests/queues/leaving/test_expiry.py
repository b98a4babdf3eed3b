"""Expired messages."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.persistence.changes import RemoveMessages
from msmq.persistence.snapshot import Snapshot
from msmq.queues.effects import Effect, OutgoingReady, ReadFailed
from msmq.queues.leaving import expiry
from msmq.queues.leaving.acknowledged import lock_acknowledged
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import Status
from tests.queues.builders import (
    NOW,
    admit,
    arriving,
    bodies,
    completions,
    create,
    leave,
    model,
    peek,
    put,
    receive,
    take_out,
)

SENT = Moment(NOW.monotonic, float(NOW.unix_seconds))
"""The very second that the messages carry as their SentTime."""

BETA_ORDERS = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\orders")


def mortal(body: bytes = b"", seconds: int = 5, *, recoverable: bool = False) -> UserMessageView:
    """A message with this TimeToBeReceived in seconds."""
    return arriving(body, time_to_be_received=seconds, recoverable=recoverable)


def gone(effects: Sequence[Effect]) -> list[tuple[MessageClass, list[bytes]]]:
    """The removed messages, and the reasons."""
    return [
        (effect.message_class, bodies(effect.positions))
        for effect in effects
        if isinstance(effect, Departure)
    ]


def timed_out(*names: bytes) -> list[tuple[MessageClass, list[bytes]]]:
    """These leave a queue together, not received in time."""
    return [(MessageClass.NACK_RECEIVE_TIMEOUT, list(names))]


class QueueExpiryTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.2.4 and 3.1.7.2.7: TimeToBeReceived."""

    def setUp(self) -> None:
        self.model = model(now=SENT)
        self.queue = create(self.model)

    def look(self, now: Moment) -> list[bytes]:
        """The messages that a reader would see."""
        found = self.model.receive(self.queue, tag="look", now=now, peek=True, count=99, deadline=0)
        return [body for _, names in completions(found) for body in names]

    def test_a_message_leaves_when_its_time_is_over(self) -> None:
        """At SentTime + TimeToBeReceived, and not before (reading 31).

        MQDMPR-3.1.7.1.9-10, MQDMPR-3.1.1.12-41,
        MQDMPR-3.1.2.4-01, MQDMPR-3.1.7.2.7-02, MQMQ-2.2.19.2-06.
        """
        put(self.model, self.queue, mortal(b"5"), arriving(b"forever"))
        self.assertEqual(self.model.deadline(SENT), SENT.later(5).monotonic)
        self.assertEqual(self.model.expire(SENT.later(4.9)), [])
        [effect] = self.model.expire(SENT.later(5))
        self.assertEqual(gone([effect]), timed_out(b"5"))
        self.assertEqual(peek(self.model, self.queue), [b"forever"])
        self.assertIsNone(self.model.deadline(SENT.later(5)))
        self.assertEqual(self.model.expire(SENT.later(1e9)), [])

    def test_it_leaves_durably_and_gives_its_bytes_back(self) -> None:
        """A recoverable one is in the queue until the store has forgotten it."""
        put(self.model, self.queue, mortal(recoverable=True))
        [position] = self.queue.positions.values()
        [departure] = self.model.expire(SENT.later(5))
        assert isinstance(departure, Departure)
        removal = RemoveMessages(self.queue.definition.identifier, (position.lookup_id,))
        settlement = self.model.settle(departure, SENT.later(5))
        self.assertEqual(settlement.changes[-1], removal)
        self.assertEqual(self.queue.message_count, 1)
        self.model.settled(settlement, SENT.later(5))
        self.assertEqual(
            (self.queue.message_count, self.queue.total_bytes, self.model.storage.used), (0, 0, 0)
        )

    def test_most_messages_never_expire(self) -> None:
        """0xFFFFFFFF is no time at all: nothing waits for it.

        MQDMPR-3.1.1.12-41, MQDMPR-3.1.2.4-01.
        """
        put(self.model, self.queue, b"default", mortal(b"infinite", 0xFFFFFFFF))
        self.assertIsNone(self.model.deadline(SENT))
        self.assertEqual(self.model.expire(SENT.later(1e10)), [])
        self.assertEqual(self.look(SENT.later(1e10)), [b"default", b"infinite"])

    def test_no_time_at_all(self) -> None:
        """TimeToBeReceived 0: it leaves before any reader sees it, a waiting one included.

        MQDMPR-3.1.2.4-02.
        """
        self.model.receive(self.queue, tag="waits", now=SENT)
        effects = put(self.model, self.queue, mortal(b"0", 0), now=SENT)
        self.assertEqual((gone(effects), completions(effects)), (timed_out(b"0"), []))
        effects = put(self.model, self.queue, b"next", now=SENT)
        self.assertEqual(completions(effects), [("waits", [b"next"])])

    def test_already_due_on_arrival(self) -> None:
        """A message that expired in transit leaves at once; the others of its batch stay."""
        effects = put(self.model, self.queue, b"1", mortal(b"2"), b"3", now=SENT.later(9))
        self.assertEqual(gone(effects), timed_out(b"2"))
        self.assertEqual(self.look(SENT.later(9)), [b"1", b"3"])

    def test_due_while_it_is_stored(self) -> None:
        """The time is looked at again before the message is shown."""
        admission = admit(self.model, self.queue, mortal(b"late", recoverable=True), now=SENT)
        self.assertEqual(self.model.expire(SENT.later(5)), [])
        self.assertEqual(gone(self.model.commit(admission, SENT.later(5))), timed_out(b"late"))

    def test_sent_by_a_clock_ahead_of_ours(self) -> None:
        """A message with a SentTime in the future has not expired."""
        early = Moment(NOW.monotonic, NOW.wall - 1000)
        put(self.model, self.queue, mortal(b"fresh"), now=early)
        self.assertEqual(self.model.expire(early.later(500)), [])
        self.assertEqual(self.look(early.later(500)), [b"fresh"])

    def test_received_in_time(self) -> None:
        """A received message does not expire later.

        MQDMPR-3.1.2.4-03.
        """
        put(self.model, self.queue, mortal(b"read"))
        removal = self.model.remove(receive(self.model, self.queue))
        self.model.removed(removal, NOW)
        self.assertIsNone(self.model.deadline(SENT))
        self.assertEqual(self.model.expire(SENT.later(9)), [])

    def test_a_reader_may_still_confirm(self) -> None:
        """A message that a reader has when its time runs out is the reader's, if it takes it."""
        put(self.model, self.queue, mortal(b"held"))
        held = receive(self.model, self.queue)
        self.assertEqual(self.model.expire(SENT.later(9)), [])
        self.assertEqual(bodies(self.model.remove(held).positions), [b"held"])

    def test_returned_after_the_expiry(self) -> None:
        """A message that is returned after it expired leaves, and waiting readers do not get it."""
        put(self.model, self.queue, mortal(b"held"))
        held = receive(self.model, self.queue)
        self.model.receive(self.queue, tag="waits", now=SENT)
        self.model.expire(SENT.later(9))
        effects = self.model.release(held, SENT.later(9))
        self.assertEqual((gone(effects), completions(effects)), (timed_out(b"held"), []))

    def test_returned_before_the_expiry(self) -> None:
        """It is back at its position, and leaves later."""
        put(self.model, self.queue, mortal(b"held"), b"next")
        self.assertEqual(self.model.release(receive(self.model, self.queue), SENT.later(4)), [])
        self.assertEqual(self.look(SENT.later(4)), [b"held", b"next"])
        self.assertEqual(gone(self.model.expire(SENT.later(5))), timed_out(b"held"))

    def test_expired_messages_are_not_received(self) -> None:
        """Even before it is removed neither a receive nor a peek finds it.

        MQMQ-2.2.19.2-07.
        """
        put(self.model, self.queue, mortal(b"late"), b"good")
        self.assertEqual(self.look(SENT.later(5)), [b"good"])
        put(self.model, self.queue, arriving(b"urgent", priority=7, time_to_be_received=5))
        effects = self.model.receive(self.queue, tag="reader", now=SENT.later(5))
        self.assertEqual(gone(effects), timed_out(b"urgent"))
        self.assertEqual(completions(effects), [("reader", [b"good"])])

    def test_a_read_that_finds_only_what_is_late(self) -> None:
        """It fails or waits as if nothing were there."""
        put(self.model, self.queue, mortal(b"late"))
        effects = self.model.receive(self.queue, tag="reader", now=SENT.later(5), deadline=0)
        self.assertEqual(gone(effects), timed_out(b"late"))
        self.assertEqual(effects[-1], ReadFailed("reader", Status.MQ_ERROR_IO_TIMEOUT))

    def test_the_wall_clock_is_set(self) -> None:
        """A day is not slept through: the clock is looked at every minute, and may have been set."""
        put(self.model, self.queue, mortal(b"day", 86400))
        self.assertEqual(self.model.deadline(SENT), SENT.later(60).monotonic)
        set_forward = Moment(SENT.monotonic + 60, SENT.wall + 90000)
        self.assertEqual(gone(self.model.expire(set_forward)), timed_out(b"day"))

    def test_reads_and_messages_have_clocks_of_their_own(self) -> None:
        """A read ends by the monotonic clock, independent of the wall clock."""
        put(self.model, self.queue, mortal(b"10", 10))
        other = create(self.model, "other")
        self.model.receive(other, tag="waits", now=SENT, deadline=SENT.monotonic + 3)
        self.assertEqual(self.model.deadline(SENT), SENT.monotonic + 3)
        set_back = Moment(SENT.monotonic + 3, SENT.wall - 3600)
        self.assertEqual(self.model.expire(set_back), [ReadFailed("waits", Status.MQ_ERROR_IO_TIMEOUT)])

    def test_very_many_leave_in_steps(self) -> None:
        """Each step is short, and the next is due at once until all are gone, in order."""
        self.patch(expiry, "EXPIRED_AT_ONCE", 10)
        names = [b"%d" % number for number in range(25)]
        put(self.model, self.queue, *(mortal(name) for name in names))
        now = SENT.later(5)
        steps = []
        while self.model.deadline(now) == now.monotonic:
            [(_, left)] = gone(self.model.expire(now))
            steps.append(left)
        self.assertEqual(steps, [names[:10], names[10:20], names[20:]])
        self.assertIsNone(self.model.deadline(now))

    def test_a_reader_waits_while_very_many_leave(self) -> None:
        """A reader that finds only expired messages for too long waits, and gets the next one behind them."""
        self.patch(expiry, "EXPIRED_AT_ONCE", 10)
        put(self.model, self.queue, *(mortal() for _ in range(25)), b"good")
        now = SENT.later(5)
        effects = self.model.receive(self.queue, tag="reader", now=now)
        self.assertEqual(completions(effects), [])
        while not completions(effects):
            effects = self.model.expire(now)
        self.assertEqual(len(completions(effects)), 1)

    def test_a_deleted_queue(self) -> None:
        """Messages removed with their queue are not removed a second time."""
        put(self.model, self.queue, mortal(b"in"))
        admission = admit(self.model, self.queue, mortal(b"coming"))
        deletion = self.model.delete_queue(self.queue)
        [departure] = self.model.commit(admission, SENT.later(5))
        self.assertEqual(gone([departure]), [(MessageClass.NACK_Q_DELETED, [b"coming"])])
        self.assertEqual(self.model.expire(SENT.later(5)), [])
        self.model.delete_messages(list(deletion.positions), SENT.later(5))
        self.assertIsNone(self.model.deadline(SENT))

    def test_restored_messages(self) -> None:
        """The store has the expiry of each message, so they expire without being read.

        Those that expired before the start leave with the first look at the clock.
        """
        definition = self.queue.definition
        due = SENT.unix_seconds + 5
        rows = [(number, 1, 0.0, None if number == 7 else due + number, 0, 0) for number in (0, 5, 7)]
        again = model(now=SENT)
        again.restore(Snapshot([definition], {definition.identifier: rows}), SENT.later(7))
        queue = again.find(again.format_name(self.queue))
        assert queue is not None
        self.assertEqual(again.deadline(SENT.later(7)), SENT.later(7).monotonic)
        [departure] = again.expire(SENT.later(7))
        assert isinstance(departure, Departure)
        self.assertEqual([position.lookup_id for position in departure.positions], [0])
        leave(again, departure)
        self.assertEqual(again.deadline(SENT.later(7)), SENT.later(10).monotonic)
        [departure] = again.expire(SENT.later(10))
        assert isinstance(departure, Departure)
        leave(again, departure)
        self.assertEqual((queue.message_count, queue.total_bytes, again.storage.used), (1, 1, 1))
        self.assertIsNone(again.deadline(SENT.later(10)))

    def test_many_lives_that_end_early(self) -> None:
        """Messages that were received leave nothing behind, however many different times they had."""
        for number in range(5000):
            put(self.model, self.queue, mortal(seconds=1000 + number))
            take_out(self.model, receive(self.model, self.queue))
        self.assertLess(len(self.model._expiry._messages._seconds), 1100)
        self.assertIsNone(self.model.deadline(SENT))


class OutgoingExpiryTests(SynchronousTestCase):
    """[MS-MQQB] 3.1.7.1.2 and [MS-MQMQ] 2.2.19.1: TimeToReachQueue."""

    def setUp(self) -> None:
        self.model = model(now=SENT)
        self.queue = self.model.outgoing(BETA_ORDERS, SENT)

    def put(self, *names: bytes, seconds: int = 10) -> None:
        """Let messages wait to be sent, with a limit of seconds to reach their queue."""
        views = [arriving(name, destination=BETA_ORDERS, time_to_reach_queue=seconds) for name in names]
        self.assertEqual(put(self.model, self.queue, *views, now=SENT), [OutgoingReady(self.queue)])

    def take(self, now: Moment) -> list[MessagePosition]:
        """The messages that may be sent."""
        return self.model.take(self.queue, 9, "session", now)[0]

    def late(self, *names: bytes) -> list[tuple[MessageClass, list[bytes]]]:
        return [(MessageClass.NACK_REACH_QUEUE_TIMEOUT, list(names))]

    def test_the_limit(self) -> None:
        """With 10 seconds to go, it is sent at the age of 10 and not at 11; whole seconds count.

        MQQB-3.1.7.1.2-01.
        """
        self.put(b"1", b"2")
        first = self.take(SENT.later(10.9))
        self.assertEqual(bodies(first), [b"1", b"2"])
        self.model.release(first, SENT.later(10.9))
        found, effects = self.model.take(self.queue, 9, "session", SENT.later(11))
        self.assertEqual((found, gone(effects)), ([], self.late(b"1", b"2")))

    def test_it_leaves_without_a_session(self) -> None:
        """There is a deadline for each, whether anything can be sent or not."""
        self.put(b"1")
        self.assertEqual(self.model.deadline(SENT), SENT.later(11).monotonic)
        self.assertEqual(self.model.expire(SENT.later(10)), [])
        [departure] = self.model.expire(SENT.later(11))
        assert isinstance(departure, Departure)
        leave(self.model, departure)
        self.assertEqual((self.queue.message_count, self.queue.is_active), (0, False))

    def test_no_limit(self) -> None:
        """0xFFFFFFFF never expires, and neither does what seems to be sent in the future.

        MQQB-3.1.7.1.2-02, MQMQ-2.2.19.1-17.
        """
        self.put(b"infinite", seconds=0xFFFFFFFF)
        self.assertIsNone(self.model.deadline(SENT))
        self.put(b"future", seconds=0)
        stepped_back = Moment(SENT.monotonic + 9, SENT.wall - 3600)
        self.assertEqual(self.model.expire(stepped_back), [])
        self.assertEqual(bodies(self.take(stepped_back)), [b"infinite", b"future"])

    def test_sent_and_not_acknowledged(self) -> None:
        """It leaves while it is in transit, and a late acknowledgement or a lost session changes nothing."""
        self.put(b"1")
        sent = self.take(SENT)
        [departure] = self.model.expire(SENT.later(11))
        assert isinstance(departure, Departure)
        self.assertEqual(gone([departure]), self.late(b"1"))
        for _ in range(2):
            removal = self.model.remove(sent)
            self.assertEqual((list(removal.positions), list(removal.changes)), ([], []))
            self.assertEqual(self.model.release(sent, SENT.later(11)), [])
            leave(self.model, departure)
        self.assertEqual((self.queue.message_count, self.model.storage.used), (0, 0))

    def test_acknowledged_before_its_expiry(self) -> None:
        """It does not expire while its removal is not yet stored: it has reached its destination."""
        self.put(b"1", b"2")
        sent = self.take(SENT)
        self.assertEqual([lock_acknowledged(each) for each in sent], [True, True])
        self.assertEqual(self.model.expire(SENT.later(11)), [])
        relocation = self.model.move_locked(sent, self.model.collection.awaiting)
        self.model.moved(relocation, SENT.later(12))
        self.assertEqual((self.queue.message_count, self.model.collection.awaiting.message_count), (0, 2))

    def test_a_session_ends_too_late(self) -> None:
        """A message that returns from a lost session after its expiry is not sent again."""
        self.put(b"1", b"2")
        sent = self.take(SENT)
        effects = self.model.release(sent, SENT.later(11))
        self.assertEqual(gone(effects), self.late(b"1", b"2"))
        self.assertFalse(self.queue.has_available)

    def test_the_time_to_be_received_does_not_count_in_transit(self) -> None:
        """Only the destination queue applies it."""
        view = arriving(b"1", destination=BETA_ORDERS, time_to_be_received=5)
        put(self.model, self.queue, view, now=SENT)
        self.assertIsNone(self.model.deadline(SENT))
        self.assertEqual(bodies(self.take(SENT.later(100))), [b"1"])

    def test_the_time_to_reach_a_queue_does_not_count_in_it(self) -> None:
        """A message that has arrived may stay."""
        queue = create(self.model)
        put(self.model, queue, arriving(b"1", time_to_reach_queue=5), now=SENT)
        self.assertNotIsInstance(queue, OutgoingQueue)
        self.assertIsNone(self.model.deadline(SENT))
        [position] = queue.positions.values()
        self.assertIs(position.state, PositionState.AVAILABLE)
