"""Cursors with waiting reads, and cursors among expired messages."""

from __future__ import annotations

from msmq.queues.reading.cursor import Cursor, CursorState
from msmq.queues.reading.seek import END
from msmq.structures.status import Status
from tests.queues.builders import arriving, bodies, completions
from tests.queues.reading.handles import HandleTestCase, failures

GONE = Status.MQ_ERROR_MESSAGE_ALREADY_RECEIVED
ILLEGAL = Status.MQ_ERROR_ILLEGAL_CURSOR_ACTION
LATE = Status.MQ_ERROR_IO_TIMEOUT


class WaitingCursorTests(HandleTestCase):
    """A cursor with which a read waits already (reading 40)."""

    def check_refused(self, cursor: Cursor) -> None:
        state, waits = cursor.state, cursor.waiting
        for read in (self.peek, self.peek_next, self.receive):
            self.assertEqual(read(cursor), ILLEGAL)
        self.assertEqual((cursor.state, cursor.waiting), (state, waits))

    def test_a_second_read(self) -> None:
        """It is refused, and the first waits on."""
        cursor = self.cursor()
        self.peek(cursor, seconds=None)
        waits = self.last_tag
        self.check_refused(cursor)
        self.assertEqual(self.put(b"1"), [(waits, [b"1"])])
        self.receive(cursor)
        self.receive(cursor, seconds=None)
        waits = self.last_tag
        self.check_refused(cursor)
        self.assertEqual(self.put(b"2"), [(waits, [b"2"])])

    def test_cancel(self) -> None:
        """The cursor can be used again, and finds what comes then."""
        cursor = self.cursor()
        for read in (self.receive, self.peek):
            read(cursor, seconds=None)
            cancelled = failures(self.model.cancel(self.last_tag))
            self.assertEqual(cancelled, [(self.last_tag, Status.MQ_ERROR_OPERATION_CANCELLED)])
            self.assertEqual((cursor.state, cursor.waiting), (CursorState.UNREAD, ()))
        self.put(b"1")
        self.assertEqual(self.receive(cursor), b"1")


class ExpiringTests(HandleTestCase):
    """Cursors among expired messages."""

    def test_expired_messages_are_not_found(self) -> None:
        """An expired message is removed when a cursor reaches it, and the cursor finds the next one."""
        self.put(b"1", *(arriving(b"late", time_to_be_received=5) for _ in range(3)), b"2")
        cursor = self.cursor()
        self.peek(cursor)
        self.now = self.now.later(5)
        self.assertEqual(self.peek_next(cursor), b"2")
        self.assertEqual(bodies(self.queue.peek(9)), [b"1", b"2"])

    def test_messages_that_expire(self) -> None:
        """The message at which it stands leaves: it cannot be had any more."""
        self.put(arriving(b"late", time_to_be_received=5), arriving(b"too", time_to_be_received=5))
        cursors = [self.cursor(), self.cursor()]
        self.peek(cursors[0])
        self.peek(cursors[1])
        self.peek_next(cursors[1])
        self.now = self.now.later(5)
        self.assertEqual(self.peek(cursors[0]), GONE)
        self.assertEqual(self.receive(cursors[1]), GONE)

    def test_expired_and_locked_messages(self) -> None:
        """It is not shown, though its lock would allow that, and does not leave before it is returned."""
        self.put(arriving(b"late", time_to_be_received=5))
        held = self.hold(b"late", allow_peek=True)
        self.assertEqual(self.peek(self.cursor()), b"late")
        self.now = self.now.later(5)
        self.assertEqual(self.peek(self.cursor()), LATE)
        self.assertEqual(held.state.value, "locked")

    def test_very_many_that_are_late(self) -> None:
        """It does not look at all of them at once, waits, and passes nothing that it may have.

        Whether it waits, or may not.
        """
        self.put(b"1", *(arriving(b"late", time_to_be_received=5) for _ in range(120)), b"2")
        self.now = self.now.later(5)
        waiting, hasty = self.cursor(), self.cursor()
        for cursor in (waiting, hasty):
            self.peek(cursor)
        self.assertEqual(self.peek_next(hasty), LATE)
        self.assertNotEqual(hasty.reference, END)
        self.assertIsNone(self.peek_next(waiting, seconds=9))
        tag = self.last_tag
        self.assertEqual(self.model.deadline(self.now), self.now.monotonic)
        effects = self.model.expire(self.now)
        self.assertEqual(self.outcome(effects, tag, is_peek=True), b"2")
        self.assertEqual(self.peek(hasty), b"2")
        self.assertEqual(len(self.queue.readers), 0)

    def test_nothing_but_what_is_late(self) -> None:
        """When all of it has left, a cursor waits as others do."""
        self.put(*(arriving(b"late", time_to_be_received=5) for _ in range(60)))
        self.now = self.now.later(5)
        cursor = self.cursor()
        self.receive(cursor, seconds=None)
        waits = self.last_tag
        self.peek(seconds=None)
        while self.model.deadline(self.now) is not None:
            self.assertEqual(failures(self.model.expire(self.now)), [])
        self.assertEqual(self.put(b"1"), [(waits, [b"1"])])
        self.assertEqual(self.put(b"2"), [(self.last_tag, [b"2"])])

    def test_what_comes_behind_very_many_that_are_late(self) -> None:
        """A reader that waits for them to leave gets it when they have."""
        self.put(*(arriving(b"late", time_to_be_received=5) for _ in range(170)))
        self.now = self.now.later(5)
        self.assertIsNone(self.receive(seconds=None))
        self.assertEqual(self.put(b"1"), [])
        effects = self.model.expire(self.now)
        while not completions(effects):
            effects = self.model.expire(self.now)
        self.assertEqual(completions(effects), [(self.last_tag, [b"1"])])
