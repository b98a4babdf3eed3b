"""The order of messages in a queue, which receiving keeps."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.model import QueueManagerModel
from msmq.queues.queue import Queue
from tests.queues.builders import NOW, arriving, bodies, create, model, peek, put, receive


class OrderTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.1.2 MessagePositionList."""

    def setUp(self) -> None:
        self.model = model()
        self.queue = create(self.model)

    def test_arrival_order(self) -> None:
        """Messages of one priority are received in the order in which they came."""
        put(self.model, self.queue, b"1", b"2")
        put(self.model, self.queue, b"3")
        self.assertEqual(bodies(receive(self.model, self.queue, count=9)), [b"1", b"2", b"3"])

    def test_priority_order(self) -> None:
        """Higher priorities come first; within one, in the order of arrival.

        MQDMPR-3.1.1.2-24 MQDMPR-3.1.7.1.9-09 MQMQ-2.2.19.1-05
        """
        sent = [(priority, turn) for turn in (1, 2) for priority in (0, 3, 7, 5, 1, 6, 2, 4)]
        for priority, turn in sent:
            put(self.model, self.queue, arriving(b"%d.%d" % (priority, turn), priority=priority))
        expected = [b"%d.%d" % (priority, turn) for priority in range(7, -1, -1) for turn in (1, 2)]
        self.assertEqual(peek(self.model, self.queue), expected)
        self.assertEqual(bodies(receive(self.model, self.queue, count=16)), expected)

    def test_transactional_messages_have_no_priority(self) -> None:
        """A transactional message is behind all others, for any priority of its sender."""
        put(
            self.model, self.queue, arriving(b"t", priority=7, transactional=True), arriving(b"e", priority=0)
        )
        put(self.model, self.queue, arriving(b"f", priority=1))
        self.assertEqual(peek(self.model, self.queue), [b"f", b"t", b"e"])

    def test_lookup_identifiers(self) -> None:
        """LookupIdentifiers are unique 64-bit numbers, in the order of the queue (reading 5).

        MQDMPR-3.1.1.12-02 MQDMPR-3.1.7.1.9-08
        """
        for priority in (3, 0, 7):
            put(self.model, self.queue, arriving(priority=priority))
        for priority in (3, 0, 7):
            # Of one shape, so they are admitted together.
            view = arriving(priority=priority)
            put(self.model, self.queue, view, view)
        found = [position.lookup_id for position in receive(self.model, self.queue, count=9)]
        self.assertEqual(found, sorted(set(found)))
        self.assertEqual([number >> 56 for number in found], [0, 0, 0, 4, 4, 4, 7, 7, 7])

    def test_sequential_identifier(self) -> None:
        """MQDMPR-3.1.7.1.9-06 MQDMPR-3.1.7.1.9-07: the low 56 bits count all messages of all queues.

        The number of a message is that of the counter after it was incremented.
        """
        other = create(self.model, "other")
        found: list[int] = []
        for queue in (self.queue, other, self.queue):
            put(self.model, queue, arriving(priority=len(found)))
            found.append(receive(self.model, queue)[0].lookup_id & (1 << 56) - 1)
        self.assertEqual([number - found[0] for number in found], [0, 1, 2])
        self.assertEqual(found[-1], self.model.last_sequential)

    def test_released_message_is_first_again(self) -> None:
        """A message that is returned is at its position again."""
        put(self.model, self.queue, b"1", b"2", b"3")
        first = receive(self.model, self.queue)
        put(self.model, self.queue, b"4")
        self.assertEqual(peek(self.model, self.queue), [b"2", b"3", b"4"])
        self.model.release(first, NOW)
        self.assertEqual(bodies(receive(self.model, self.queue, count=9)), [b"1", b"2", b"3", b"4"])

    def test_released_in_any_order(self) -> None:
        """Several readers may return their messages in any order."""
        put(self.model, self.queue, *[b"%d" % number for number in range(8)])
        held = [receive(self.model, self.queue) for _ in range(6)]
        for number in (2, 5, 0, 3):
            self.model.release(held[number], NOW)
        self.assertEqual(peek(self.model, self.queue), [b"0", b"2", b"3", b"5", b"6", b"7"])
        self.assertEqual(peek(self.model, self.queue, count=3), [b"0", b"2", b"3"])
        self.assertEqual(bodies(receive(self.model, self.queue, count=9)), peek_order(b"023567"))

    def test_late_commit_keeps_its_position(self) -> None:
        """A message that took longer to store still precedes those that arrived after it."""
        slow = self.model.admit([(self.queue, arriving(b"slow", recoverable=True))], NOW)
        put(self.model, self.queue, b"quick", b"quick too")
        self.model.commit(slow, NOW)
        self.assertEqual(peek(self.model, self.queue), [b"slow", b"quick", b"quick too"])

    def test_batch_comes_out_as_it_went_in(self) -> None:
        """A receive of many gets them in order, across priorities, and no more than it asked for."""
        put(self.model, self.queue, *[arriving(b"%d" % n, priority=n % 3) for n in range(9)])
        self.assertEqual(bodies(receive(self.model, self.queue, count=4)), [b"2", b"5", b"8", b"1"])
        self.assertEqual(bodies(receive(self.model, self.queue, count=99)), peek_order(b"47036"))

    def test_peek_keeps_the_order(self) -> None:
        """Peeking at a queue twice shows the same messages."""
        put(self.model, self.queue, b"1", b"2")
        self.assertEqual(peek(self.model, self.queue), peek(self.model, self.queue))
        self.assertEqual(self.queue.message_count, 2)

    def test_locked_messages_are_passed_over(self) -> None:
        """A read passes over what others hold, and finds the first that is available."""
        put(self.model, self.queue, b"1", b"2", b"3")
        receive(self.model, self.queue, count=2)
        self.assertEqual(peek(self.model, self.queue), [b"3"])
        self.assertEqual(bodies(receive(self.model, self.queue)), [b"3"])
        self.assertEqual(receive(self.model, self.queue), [])

    @given(
        st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=30), st.randoms(use_true_random=False)
    )
    def test_any_order_of_releases(self, sent: list[tuple[int, bool]], chance: random.Random) -> None:
        """Locking and releasing messages in any order does not change the order of a queue."""
        alpha, queue = fresh()
        for number, (priority, _) in enumerate(sent):
            put(alpha, queue, arriving(b"%d" % number, priority=priority))
        expected = peek(alpha, queue)
        held = receive(alpha, queue, count=1 + len(sent))
        chance.shuffle(held)
        for position in held:
            alpha.release([position], NOW)
        self.assertEqual(peek(alpha, queue), expected)
        self.assertEqual(bodies(receive(alpha, queue, count=1 + len(sent))), expected)


class ManyMessagesTests(SynchronousTestCase):
    """The length of a queue costs its readers nothing."""

    def test_many_locked_messages_in_front(self) -> None:
        """Locking and releasing one message does not traverse the ten thousand that are locked."""
        alpha, queue = fresh()
        put(alpha, queue, *[arriving(b"x")] * 10_100)
        receive(alpha, queue, count=10_000)
        for _ in range(10_000):
            [position] = receive(alpha, queue)
            alpha.release([position], NOW)
        self.assertEqual(queue.message_count, 10_100)
        self.assertEqual(len(peek(alpha, queue)), 100)

    def test_all_given_back_at_once(self) -> None:
        """A reader that held everything gives it back in its order."""
        alpha, queue = fresh()
        put(alpha, queue, *[b"%d" % number for number in range(1_000)])
        alpha.release(receive(alpha, queue, count=1_000), NOW)
        self.assertEqual(peek(alpha, queue), [b"%d" % number for number in range(1_000)])


def fresh() -> tuple[QueueManagerModel, Queue]:
    alpha = model()
    return alpha, create(alpha)


def peek_order(digits: bytes) -> list[bytes]:
    return [bytes([digit]) for digit in digits]
