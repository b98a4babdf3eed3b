"""Cursors: where they stand, and what they find from there."""

from __future__ import annotations

from msmq.queues.position import PositionState
from msmq.queues.reading.cursor import CursorState
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.queues.reading.seek import END, START
from msmq.structures.status import MQError, Status
from tests.queues.builders import arriving
from tests.queues.reading.handles import HandleTestCase, failures

GONE = Status.MQ_ERROR_MESSAGE_ALREADY_RECEIVED
ILLEGAL = Status.MQ_ERROR_ILLEGAL_CURSOR_ACTION
NONE = Status.MQ_ERROR_MESSAGE_NOT_FOUND
LATE = Status.MQ_ERROR_IO_TIMEOUT


class OpenCursorTests(HandleTestCase):
    """[MS-MQDMPR] 3.1.7.1.1, 3.1.7.1.2 and 3.2.7.1."""

    def test_a_new_cursor(self) -> None:
        """It belongs to its handle and stands in front of all messages, which it has not read.

        MQDMPR-3.1.7.1.1-02 MQDMPR-3.2.7.1-02 MQDMPR-3.2.1.2-02
        """
        self.put(b"1")
        cursor = self.cursor()
        self.assertEqual(list(self.handle.cursors), [cursor.handle])
        self.assertIs(cursor.descriptor, self.handle)
        self.assertEqual((cursor.reference, cursor.state), (START, CursorState.UNREAD))

    def test_handles(self) -> None:
        """Each is found by its handle, for all callers, and no two have the same.

        MQDMPR-3.2.1.2-01 MQDMPR-3.2-01
        """
        other = self.open(QueueAccessType.PEEK)
        cursors = [self.cursor(handle) for _ in range(5000) for handle in (self.handle, other)]
        self.assertEqual(len({cursor.handle for cursor in cursors}), 10_000)
        self.assertIs(self.descriptors.find_cursor(cursors[77].handle), cursors[77])
        self.descriptors.close_cursor(cursors[0])
        self.assertNotIn(self.cursor().handle, {cursor.handle for cursor in cursors})

    def test_a_queue_that_is_gone(self) -> None:
        """MQDMPR-3.1.7.1.1-01 MQDMPR-3.2.7.1-01: no cursor is made, and nothing happens."""
        self.model.delete_queue(self.queue)
        self.assertIsNone(self.descriptors.open_cursor(self.handle))
        self.assertEqual(self.handle.cursors, {})

    def test_a_cursor_of_a_queue_that_goes(self) -> None:
        """MQDMPR-3.1.7.1.14-01: it finds nothing any more, and says that the queue is not there."""
        cursor = self.cursor()
        self.put(b"1")
        self.peek(cursor)
        self.model.delete_queue(self.queue)
        for read in (self.peek, self.peek_next, self.receive):
            self.assertEqual(read(cursor), Status.MQ_ERROR_QUEUE_NOT_AVAILABLE)

    def test_only_readers_have_cursors(self) -> None:
        """A queue that is open for sending, and a closed handle, have no cursors."""
        sender = self.open(QueueAccessType.SEND)
        with self.assertRaises(MQError) as caught:
            self.descriptors.open_cursor(sender)
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_ACCESS_DENIED)
        self.descriptors.close(self.handle)
        with self.assertRaises(MQError) as caught:
            self.descriptors.open_cursor(self.handle)
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_INVALID_HANDLE)

    def test_close(self) -> None:
        """A wait with it ends, and it is not found again.

        MQDMPR-3.1.7.1.2-01, with reading 24 for the wait.
        """
        cursor, other = self.cursor(), self.cursor()
        self.peek(cursor, seconds=None)
        closed = self.last_tag
        self.peek(other, seconds=None)
        effects = self.descriptors.close_cursor(cursor)
        self.assertEqual(failures(effects), [(closed, Status.MQ_ERROR_OPERATION_CANCELLED)])
        self.assertEqual(list(self.handle.cursors), [other.handle])
        self.assertEqual(list(self.handle.waiting), [self.last_tag])
        with self.assertRaises(MQError) as caught:
            self.descriptors.find_cursor(cursor.handle)
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_INVALID_HANDLE)
        self.assertEqual(self.peek(cursor), Status.MQ_ERROR_INVALID_HANDLE)
        self.assertEqual(self.descriptors.close_cursor(cursor), [])

    def test_of_another_handle(self) -> None:
        """A cursor serves only the handle on which it was opened."""
        self.put(b"1")
        other = self.open()
        self.assertEqual(self.peek(self.cursor(), handle=other), Status.MQ_ERROR_INVALID_HANDLE)


class PeekTests(HandleTestCase):
    """[MS-MQDMPR] 3.2.7.2 and 3.1.7.1.15."""

    def test_the_first_message(self) -> None:
        """MQDMPR-3.2.7.2-01: a new cursor looks at the front."""
        self.put(b"1", b"2")
        cursor = self.cursor()
        self.assertEqual(self.peek(cursor), b"1")
        self.assertEqual((cursor.state, cursor.reference), (CursorState.READ, self.find(b"1").lookup_id))

    def test_the_same_message_again(self) -> None:
        """MQDMPR-3.2.7.2-03 MQDMPR-3.1.7.1.15-02: until it moves on it looks at the same message."""
        self.put(b"1", b"2")
        cursor = self.cursor()
        self.assertEqual([self.peek(cursor) for _ in range(3)], [b"1"] * 3)
        self.put(arriving(b"7", priority=7))
        self.assertEqual(self.peek(cursor), b"1")

    def test_a_message_that_is_gone(self) -> None:
        """Whether it was received or is being received.

        MQDMPR-3.2.7.2-04 MQDMPR-3.1.7.1.15-03
        """
        self.put(b"1", b"2")
        cursor = self.cursor()
        self.peek(cursor)
        held = self.hold(b"1")
        self.assertEqual(self.peek(cursor), GONE)
        self.confirm(held)
        self.assertEqual(self.peek(cursor), GONE)
        self.assertEqual(cursor.state, CursorState.READ)

    def test_a_message_that_comes_back(self) -> None:
        """Its reader has returned it: the cursor still stands there."""
        self.put(b"1", b"2")
        cursor = self.cursor()
        self.peek(cursor)
        self.give_back(self.hold(b"1"))
        self.assertEqual(self.peek(cursor), b"1")

    def test_a_message_that_may_be_looked_at_while_it_is_locked(self) -> None:
        """As reading 39 has it: the lock that allows it does not keep a cursor from looking again."""
        self.put(b"1", b"2")
        cursor = self.cursor()
        self.peek(cursor)
        held = self.hold(b"1", allow_peek=True)
        self.assertEqual(self.peek(cursor), b"1")
        self.assertEqual(self.peek(self.cursor()), b"1")
        self.confirm(held)
        self.assertEqual(self.peek(cursor), GONE)

    def test_nothing_there(self) -> None:
        """MQDMPR-3.2.7.2-02: it waits, and its position is unchanged."""
        cursor = self.cursor()
        self.assertIsNone(self.peek(cursor, seconds=None))
        self.assertEqual((cursor.state, cursor.reference), (CursorState.WAIT_PEEK, START))

    def test_a_message_arrives_while_it_waits(self) -> None:
        """It stands at the new message then, and other readers that wait behind it see the message too.

        MQDMPR-3.1.7.1.15-04 MQDMPR-3.2.7.5-01
        """
        cursors = [self.cursor(), self.cursor()]
        for cursor in cursors:
            self.peek(cursor, seconds=None)
        self.receive(seconds=None)
        self.assertEqual(self.put(b"1"), [(f"read {number}", [b"1"]) for number in (1, 2, 3)])
        place = self.queue.positions.popitem()[0]
        for cursor in cursors:
            self.assertEqual((cursor.state, cursor.reference), (CursorState.READ, place))

    def test_nothing_comes(self) -> None:
        """Unread as before, where it was: what comes later is found (reading 40).

        MQDMPR-3.1.7.1.15-04
        """
        self.put(b"1")
        cursor = self.cursor()
        held = self.hold(b"1")
        self.peek(cursor, seconds=5)
        self.assertEqual(self.wait(5), [(self.last_tag, LATE)])
        self.assertEqual((cursor.state, cursor.reference), (CursorState.UNREAD, START))
        self.give_back(held)
        self.assertEqual(self.peek(cursor), b"1")

    def test_no_time(self) -> None:
        """A look that may not wait fails at once, and leaves the cursor unread."""
        cursor = self.cursor()
        self.assertEqual(self.peek(cursor), LATE)
        self.assertEqual((cursor.state, cursor.waiting), (CursorState.UNREAD, ()))


class PeekNextTests(HandleTestCase):
    """[MS-MQDMPR] 3.2.7.3 and 3.1.7.1.14."""

    def test_before_the_first_look(self) -> None:
        """A new cursor has no current message, so no next one.

        MQDMPR-3.2.7.3-01 MQDMPR-3.1.7.1.14-03
        """
        self.put(b"1")
        cursor = self.cursor()
        self.assertEqual(self.peek_next(cursor), ILLEGAL)
        self.assertEqual((cursor.state, cursor.reference), (CursorState.UNREAD, START))

    def test_after_a_receive(self) -> None:
        """MQDMPR-3.2.7.3-01: the message is gone, and with it what it would be the next of (reading 41)."""
        self.put(b"1", b"2")
        cursor = self.cursor()
        self.receive(cursor)
        self.assertEqual(self.peek_next(cursor), ILLEGAL)

    def test_a_walk(self) -> None:
        """In the order of the queue, from end to end.

        MQDMPR-3.2.7.3-02 MQDMPR-3.1.7.1.14-02
        """
        self.put(b"3", arriving(b"7", priority=7), b"3b", arriving(b"0", priority=0))
        cursor = self.cursor()
        seen = [self.peek(cursor), *(self.peek_next(cursor) for _ in range(3))]
        self.assertEqual(seen, [b"7", b"3", b"3b", b"0"])
        self.assertEqual(cursor.state, CursorState.READ)

    def test_over_what_is_locked(self) -> None:
        """MQDMPR-3.1.7.3.2-02: what others have, and what has left, is passed over."""
        self.put(b"1", b"2", b"3", b"4")
        cursor = self.cursor()
        self.peek(cursor)
        self.hold(b"2")
        self.confirm(self.hold(b"3"))
        self.assertEqual(self.peek_next(cursor), b"4")

    def test_over_what_was_purged(self) -> None:
        """MQDMPR-3.1.7.3.2-02: not even a lock that lets others look shows what was purged meanwhile."""
        self.put(b"1", b"2")
        cursor = self.cursor()
        self.peek(cursor)
        purged = self.hold(b"2", allow_peek=True)
        while self.model.purge(self.queue, self.model.last_sequential, 9):
            pass
        self.assertIs(purged.state, PositionState.PURGE_PENDING)
        self.put(b"3")
        self.assertEqual(self.peek_next(cursor), b"3")

    def test_from_a_message_that_is_gone(self) -> None:
        """A cursor survives the message at which it stands (reading 8).

        MQDMPR-3.1.1.11-06
        """
        self.put(b"1", b"2", b"3")
        cursor = self.cursor()
        self.peek(cursor)
        self.peek_next(cursor)
        self.confirm(self.hold(b"2"), self.hold(b"1"))
        self.assertEqual(self.peek_next(cursor), b"3")

    def test_at_the_end(self) -> None:
        """It waits, and stands at the next arrival, even if that is in front of it (reading 42).

        MQDMPR-3.2.7.3-03 MQDMPR-3.1.7.1.14-05 MQDMPR-3.2.7.5-01
        """
        self.put(b"1")
        cursors = [self.cursor(), self.cursor()]
        for cursor in cursors:
            self.peek(cursor)
            self.assertIsNone(self.peek_next(cursor, seconds=None))
            self.assertEqual(cursor.state, CursorState.WAIT_PEEK)
        self.assertEqual([names for _, names in self.put(arriving(b"7", priority=7))], [[b"7"], [b"7"]])
        for cursor in cursors:
            self.assertEqual((cursor.state, self.peek(cursor)), (CursorState.READ, b"7"))
            self.assertEqual(self.peek_next(cursor), b"1")

    def test_a_waiter(self) -> None:
        """MQDMPR-3.1.7.1.14-04: it only looks, and belongs to the cursor."""
        self.put(b"1")
        cursor = self.cursor()
        self.peek(cursor)
        self.peek_next(cursor, seconds=None)
        [reader] = map(self.model.readers.waiting, self.handle.waiting)
        assert reader is not None
        self.assertEqual((reader.is_peek, reader.cursor), (True, cursor))

    def test_nothing_comes(self) -> None:
        """The cursor has moved to the end, and finds later messages at any position (reading 40).

        MQDMPR-3.1.7.1.14-06 MQDMPR-3.1.1.2-25
        """
        for seconds in (0, 5):
            self.put(b"1")
            cursor = self.cursor()
            self.peek(cursor)
            while self.peek_next(cursor, seconds=seconds) not in (LATE, None):
                pass
            if seconds:
                self.assertEqual(self.wait(seconds), [(self.last_tag, LATE)])
            self.assertEqual((cursor.state, cursor.reference), (CursorState.UNREAD, END))
            self.assertEqual(self.peek(cursor), LATE)
            self.assertEqual(self.peek_next(cursor), ILLEGAL)
            self.put(arriving(b"urgent", priority=7))
            self.assertEqual(self.peek(cursor), b"urgent")
            self.assertEqual(self.receive(cursor), b"urgent")


class ReceiveTests(HandleTestCase):
    """[MS-MQDMPR] 3.2.7.4 and 3.1.7.1.10."""

    def test_one_after_the_other(self) -> None:
        """MQDMPR-3.2.7.4-01: without a look in between it goes on from message to message."""
        self.put(b"1", b"2", b"3")
        cursor = self.cursor()
        self.assertEqual([self.receive(cursor) for _ in range(2)], [b"1", b"2"])
        self.assertEqual((cursor.state, cursor.reference), (CursorState.UNREAD, self.find(b"2").lookup_id))
        self.give_back(*self.taken)
        self.assertEqual(self.receive(cursor), b"3")
        self.assertEqual(self.receive(cursor), NONE)

    def test_nothing_there_and_no_time(self) -> None:
        """The cursor stays where it was.

        MQDMPR-3.2.7.4-02 MQDMPR-3.1.7.1.10-03 MQDMPR-3.1.7.1.10-06
        """
        self.put(b"1")
        cursor = self.cursor()
        self.receive(cursor)
        place = cursor.reference
        self.assertEqual(self.receive(cursor), NONE)
        self.assertEqual((cursor.state, cursor.reference), (CursorState.UNREAD, place))

    def test_nothing_there(self) -> None:
        """MQDMPR-3.2.7.4-03 MQDMPR-3.1.7.1.10-03 MQDMPR-3.1.7.1.10-07: it waits to receive."""
        cursor = self.cursor()
        self.assertIsNone(self.receive(cursor, seconds=5))
        self.assertEqual(cursor.state, CursorState.WAIT_RECEIVE)
        [reader] = map(self.model.readers.waiting, self.handle.waiting)
        assert reader is not None
        self.assertEqual((reader.is_peek, reader.tag, reader.cursor), (False, self.last_tag, cursor))

    def test_a_message_arrives_while_it_waits(self) -> None:
        """An arriving message is received, at any position, and the cursor stays where it was.

        MQDMPR-3.1.7.1.10-08 MQDMPR-3.2.7.5-01
        """
        self.put(b"1", b"2")
        cursor = self.cursor()
        self.receive(cursor)
        self.receive(cursor)
        self.give_back(*self.taken)
        self.receive(cursor, seconds=None)
        waits = self.last_tag
        self.assertEqual(self.put(arriving(b"7", priority=7), b"3"), [(waits, [b"7"])])
        self.assertEqual(cursor.state, CursorState.UNREAD)
        self.assertEqual([self.receive(cursor) for _ in range(3)], [b"1", b"2", b"3"])

    def test_two_that_wait(self) -> None:
        """One message is for one of them, and the other waits on."""
        first, second = self.cursor(), self.cursor()
        self.receive(first, seconds=None)
        self.receive(second, seconds=None)
        self.assertEqual(self.put(b"1"), [("read 1", [b"1"])])
        self.assertEqual(self.put(b"2"), [("read 2", [b"2"])])

    def test_a_released_message_during_a_wait(self) -> None:
        """A message that becomes available again satisfies it as well."""
        self.put(b"1")
        held = self.hold(b"1")
        cursor = self.cursor()
        self.receive(cursor, seconds=None)
        self.assertEqual(self.give_back(held), [(self.last_tag, [b"1"])])

    def test_nothing_comes(self) -> None:
        """The cursor is at the end, and finds later messages at any position (reading 41).

        MQDMPR-3.2.7.6-01 MQDMPR-3.1.7.1.10-09
        """
        self.put(b"1", b"2")
        held = self.hold(b"1"), self.hold(b"2")
        cursor = self.cursor()
        self.receive(cursor, seconds=5)
        self.assertEqual(self.wait(4.9), [])
        self.assertEqual(self.wait(0.1), [(self.last_tag, LATE)])
        self.assertEqual((cursor.state, cursor.reference), (CursorState.UNREAD, END))
        self.assertEqual(self.receive(cursor), NONE)
        self.receive(cursor, seconds=5)
        self.wait(5)
        self.put(b"3", arriving(b"7", priority=7))
        self.assertEqual([self.receive(cursor) for _ in range(3)], [b"7", b"3", NONE])
        self.give_back(*held)

    def test_what_was_there_is_not_found_from_the_end(self) -> None:
        """Only what comes after the cursor came to the end."""
        self.put(b"1", b"2")
        cursor = self.cursor()
        self.peek(cursor)
        self.peek_next(cursor)
        self.assertEqual(self.peek_next(cursor), LATE)
        self.assertEqual(self.peek(cursor), LATE)
        self.assertEqual(self.receive(cursor), NONE)
        self.put(b"3")
        self.assertEqual(self.receive(cursor), b"3")

    def test_the_end_of_two_cursors(self) -> None:
        """Each knows for itself what has come since it came to the end."""
        first, second = self.cursor(), self.cursor()
        self.receive(first, seconds=1)
        self.wait(1)
        self.put(b"1")
        self.receive(second)
        self.receive(second, seconds=1)
        self.wait(1)
        self.give_back(*self.taken[-1:])
        self.put(b"2")
        self.descriptors.close_cursor(second)
        self.assertEqual([self.peek(first), self.peek_next(first)], [b"1", b"2"])
        self.assertEqual(self.queue.ends, 0)

    def test_what_is_moved_in_counts_as_coming(self) -> None:
        """A message that is older than the cursor's end, and was in another queue then (reading 41)."""
        self.put(b"old")
        aside = self.model.collection.subqueue(self.queue, "aside", self.now)
        self.model.moved(self.model.move(self.find(b"old"), aside), self.now)
        self.put(b"young")
        cursor = self.cursor()
        self.peek(cursor)
        self.peek_next(cursor)
        [moved] = aside.positions.values()
        self.model.moved(self.model.move(moved, self.queue), self.now)
        self.assertEqual([self.peek(cursor), self.peek_next(cursor)], [b"old", b"young"])

    def test_what_was_looked_at(self) -> None:
        """From the middle of the queue.

        MQDMPR-3.2.7.4-04 MQDMPR-3.1.7.1.10-04
        """
        self.put(b"1", b"2", b"3")
        cursor = self.cursor()
        self.peek(cursor)
        self.peek_next(cursor)
        place = cursor.reference
        self.assertEqual(self.receive(cursor), b"2")
        self.assertEqual((cursor.state, cursor.reference), (CursorState.UNREAD, place))
        self.assertEqual(self.peek(cursor), b"3")

    def test_what_was_looked_at_and_is_gone(self) -> None:
        """Another reader was faster; the next peek goes on behind it.

        MQDMPR-3.2.7.4-05 MQDMPR-3.1.7.1.10-05
        """
        self.put(b"1", b"2")
        cursor = self.cursor()
        self.peek(cursor)
        self.hold(b"1")
        self.assertEqual(self.receive(cursor), GONE)
        self.assertEqual(cursor.state, CursorState.READ)
        self.assertEqual(self.peek_next(cursor), b"2")

    def test_what_may_only_be_looked_at(self) -> None:
        """A lock that lets others look does not let them receive."""
        self.put(b"1")
        self.hold(b"1", allow_peek=True)
        cursor = self.cursor()
        self.assertEqual(self.peek(cursor), b"1")
        self.assertEqual(self.receive(cursor), GONE)
        self.assertEqual(self.receive(self.cursor()), NONE)
