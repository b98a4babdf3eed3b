"""Messages that are read by their LookupIdentifier."""

from __future__ import annotations

from msmq.errors import LocalProtocolError
from msmq.queues.position import PositionState
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.queues.reading.seek import MessageSeekAction
from msmq.structures.status import Status
from tests.builders import ALPHA
from tests.queues.builders import admit, arriving, completions
from tests.queues.reading.handles import HandleTestCase, Outcome, failures

NONE = Status.MQ_ERROR_MESSAGE_NOT_FOUND
LOCKED = Status.MQ_ERROR_TRANSACTION_USAGE

FIRST = MessageSeekAction.FIRST
PREVIOUS = MessageSeekAction.PREVIOUS
CURRENT = MessageSeekAction.CURRENT
NEXT = MessageSeekAction.NEXT
LAST = MessageSeekAction.LAST

UNKNOWN = 77


class LookupTestCase(HandleTestCase):
    """A queue with five messages, C{1} to C{5}, of two priorities."""

    def setUp(self) -> None:
        super().setUp()
        self.put(b"3", arriving(b"1", priority=7), b"4", arriving(b"2", priority=7), b"5")

    def see(self, action: MessageSeekAction, body: bytes = b"") -> Outcome:
        """The result of a peek relative to a message."""
        return self.lookup(action, self.find(body).lookup_id if body else UNKNOWN, peek=True)


class SeekTests(LookupTestCase):
    """[MS-MQDMPR] 3.1.7.3.2 and 3.1.7.3.3."""

    def test_actions(self) -> None:
        """The five of the document, and each relative to the message that is named.

        MQDMPR-3.1.1.17-02 MQDMPR-3.1.7.3.3-02 MQDMPR-3.1.7.3.3-03 MQDMPR-3.1.7.3.3-04
        """
        self.assertEqual(
            {action.value for action in MessageSeekAction},
            {"SeekFirst", "SeekPrevious", "SeekCurrent", "SeekNext", "SeekLast"},
        )
        found = [self.see(action, b"3") for action in (FIRST, PREVIOUS, CURRENT, NEXT, LAST)]
        self.assertEqual(found, [b"1", b"2", b"3", b"4", b"5"])

    def test_walk(self) -> None:
        """From end to end in both directions, one message after the other, and no further.

        MQDMPR-3.1.1.11-05 MQDMPR-3.1.7.3.2-01 MQDMPR-3.1.7.3.2-04
        """
        for first, step, names in (
            (FIRST, NEXT, [b"1", b"2", b"3", b"4", b"5"]),
            (LAST, PREVIOUS, [b"5", b"4", b"3", b"2", b"1"]),
        ):
            walked = [self.see(first), *(self.see(step, body) for body in names)]
            self.assertEqual(walked, [*names, NONE])

    def test_an_empty_queue(self) -> None:
        """There is neither a first nor a last message (reading 43)."""
        self.confirm(*self.model.take(self.queue, 9, "reader", self.now)[0])
        self.assertEqual([self.see(FIRST), self.see(LAST)], [NONE, NONE])

    def test_an_unknown_message(self) -> None:
        """It is not found; but the first and the last need none to start from (reading 43).

        MQDMPR-3.1.7.3.3-01
        """
        self.assertEqual([self.see(action) for action in (PREVIOUS, CURRENT, NEXT)], [NONE] * 3)
        self.assertEqual([self.see(FIRST), self.see(LAST)], [b"1", b"5"])

    def test_locked_messages_are_passed_over(self) -> None:
        """At the ends and in the middle, also in front of what they are counted from.

        MQDMPR-3.1.7.3.2-02 MQDMPR-3.1.7.3.3-02 MQDMPR-3.1.7.3.3-03
        """
        for body in (b"1", b"3", b"5"):
            self.hold(body)
        self.assertEqual([self.see(FIRST), self.see(LAST)], [b"2", b"4"])
        self.assertEqual([self.see(NEXT, b"2"), self.see(PREVIOUS, b"4")], [b"4", b"2"])
        self.assertEqual([self.see(NEXT, b"3"), self.see(PREVIOUS, b"3")], [b"4", b"2"])
        self.assertEqual([self.see(NEXT, b"4"), self.see(PREVIOUS, b"2")], [NONE, NONE])

    def test_locked_messages_that_may_be_looked_at(self) -> None:
        """A peek stops at them, in both directions; a receive does not; and only while they are locked so.

        MQDMPR-3.1.7.3.2-03 MQDMPR-3.1.7.3.2-04 MQDMPR-3.1.7.3.3-05
        """
        held = [self.hold(body, allow_peek=True) for body in (b"1", b"3", b"5")]
        self.assertEqual([self.see(FIRST), self.see(LAST), self.see(CURRENT, b"3")], [b"1", b"5", b"3"])
        self.assertEqual([self.see(NEXT, b"2"), self.see(PREVIOUS, b"4")], [b"3", b"3"])
        self.assertEqual([self.see(NEXT, b"3"), self.see(PREVIOUS, b"3")], [b"4", b"2"])
        self.assertEqual(self.peek(), b"1")
        self.assertEqual(self.lookup(FIRST), b"2")
        self.assertEqual(self.lookup(LAST), b"4")
        self.give_back(*held, *self.taken)
        self.assertIsNone(self.queue.peekable)
        self.hold(b"3")
        self.assertEqual([self.see(CURRENT, b"3"), self.see(NEXT, b"2")], [LOCKED, b"4"])

    def test_peek_of_many_with_locked_ones(self) -> None:
        """Locked messages that may be peeked are at their positions among the others."""
        self.hold(b"2", allow_peek=True)
        self.hold(b"4", allow_peek=True)
        self.hold(b"5")
        for count, names in ((9, [b"1", b"2", b"3", b"4"]), (3, [b"1", b"2", b"3"])):
            effects = self.descriptors.peek(self.handle, tag="all", now=self.now, count=count)
            self.assertEqual(completions(effects), [("all", names)])

    def test_a_locked_message(self) -> None:
        """Whether one wants to look at it or to receive it (reading 43).

        MQDMPR-3.1.7.3.3-06
        """
        lookup_id = self.hold(b"3").lookup_id
        self.assertEqual(self.lookup(CURRENT, lookup_id, peek=True), LOCKED)
        self.assertEqual(self.lookup(CURRENT, lookup_id), LOCKED)
        self.hold(b"4", allow_peek=True)
        self.assertEqual(self.lookup(CURRENT, self.find(b"4").lookup_id), LOCKED)

    def test_a_message_that_is_just_received(self) -> None:
        """Its reader has confirmed it, and the store is forgetting it.

        MQDMPR-3.1.7.3.3-07
        """
        held = self.hold(b"3")
        removal = self.model.remove([held])
        for peek in (True, False):
            found = self.lookup(CURRENT, held.lookup_id, peek=peek)
            self.assertEqual(found, Status.MQ_ERROR_MESSAGE_ALREADY_RECEIVED)
        self.model.removed(removal, self.now)
        self.assertEqual(self.lookup(CURRENT, held.lookup_id), NONE)

    def test_a_message_that_was_purged(self) -> None:
        """It is not found any more, though its reader has not decided yet.

        MQDMPR-3.1.7.3.3-08
        """
        held = self.hold(b"3", allow_peek=True)
        while self.model.purge(self.queue, self.model.last_sequential, 9):
            pass
        self.assertIs(held.state, PositionState.PURGE_PENDING)
        for peek in (True, False):
            self.assertEqual(self.lookup(CURRENT, held.lookup_id, peek=peek), NONE)
        self.assertEqual(self.see(FIRST), NONE)

    def test_a_message_that_comes(self) -> None:
        """A message that is not stored yet is not seen, nor is it a start of a search."""
        admission = admit(self.model, self.queue, b"6")
        for action in (CURRENT, NEXT, PREVIOUS):
            self.assertEqual(self.see(action, b"6"), NONE)
        self.assertEqual(self.see(LAST), b"5")
        self.model.commit(admission, self.now)
        self.assertEqual(self.see(PREVIOUS, b"6"), b"5")

    def test_a_message_that_is_late(self) -> None:
        """It leaves, and the next that is in time is found; asked for by its own name it is not found."""
        self.put(arriving(b"late", priority=0, time_to_be_received=5), arriving(b"6", priority=0))
        late = self.find(b"late")
        self.now = self.now.later(5)
        self.assertEqual(self.see(NEXT, b"5"), b"6")
        self.assertIs(late.state, PositionState.LEAVING)
        self.assertEqual(self.lookup(CURRENT, late.lookup_id), NONE)


class ReadByLookupIdentifierTests(LookupTestCase):
    """[MS-MQDMPR] 3.1.7.1.13."""

    def test_a_queue_that_is_gone(self) -> None:
        """MQDMPR-3.1.7.1.13-01: it says so."""
        self.model.delete_queue(self.queue)
        for peek in (True, False):
            self.assertEqual(self.lookup(FIRST, peek=peek), Status.MQ_ERROR_QUEUE_NOT_AVAILABLE)

    def test_peek(self) -> None:
        """MQDMPR-3.1.7.1.13-06: it changes nothing."""
        for _ in range(2):
            self.assertEqual(self.see(CURRENT, b"4"), b"4")
        self.assertIs(self.find(b"4").state, PositionState.AVAILABLE)

    def test_receive(self) -> None:
        """The message is locked from anywhere in the queue until its reader decides.

        MQDMPR-3.1.7.1.13-05 MQDMPR-3.1.7.1.13-06
        """
        self.assertEqual(self.lookup(NEXT, self.find(b"3").lookup_id), b"4")
        [taken] = self.taken
        self.assertEqual((taken.state, taken.owner), (PositionState.LOCKED_READER, self.last_tag))
        self.assertEqual(self.queue.message_count, 5)
        self.confirm(taken)
        self.assertEqual((taken.state, self.queue.message_count), (PositionState.DELETED, 4))

    def test_receive_in_a_transaction(self) -> None:
        """It belongs to the transaction, which is notified, and is returned if that is aborted.

        MQDMPR-3.1.7.1.13-04
        """
        transacting = self.model.transacting
        transaction = transacting.transactions.create(ALPHA, 0.0)
        found = self.lookup(
            CURRENT,
            self.find(b"4").lookup_id,
            owner=transaction,
            on_taken=lambda positions: transacting.receive(transaction, positions),
        )
        self.assertEqual(found, b"4")
        self.assertEqual(transaction.received(), self.taken)
        self.assertIs(self.taken[0].owner, transaction)
        self.assertEqual(self.see(CURRENT, b"4"), LOCKED)
        self.model.aborted(transacting.abort(transaction, self.now), self.now)
        self.assertEqual(self.see(CURRENT, b"4"), b"4")

    def test_peek_in_a_transaction(self) -> None:
        """MQDMPR-3.1.7.1.13-02: a look locks nothing, and so belongs to no transaction."""
        with self.assertRaises(LocalProtocolError):
            self.lookup(FIRST, peek=True, owner="transaction")

    def test_nothing_found(self) -> None:
        """MQDMPR-3.1.7.1.13-03: the status is that of the search, and no read waits."""
        self.assertEqual(self.lookup(CURRENT, UNKNOWN), NONE)
        self.assertEqual(self.lookup(CURRENT, self.hold(b"3").lookup_id), LOCKED)
        self.assertEqual(len(self.queue.readers), 0)

    def test_access(self) -> None:
        """A handle for peeking cannot receive so either."""
        self.handle = self.open(QueueAccessType.PEEK)
        self.assertEqual(self.lookup(FIRST, peek=True), b"1")
        self.assertEqual(self.lookup(FIRST), Status.MQ_ERROR_ACCESS_DENIED)

    def test_tag_in_use(self) -> None:
        """A read that waits keeps its tag."""
        self.confirm(*self.model.take(self.queue, 9, "reader", self.now)[0])
        self.receive(seconds=None)
        with self.assertRaises(LocalProtocolError):
            self.descriptors.read_by_lookup_identifier(self.handle, 0, FIRST, tag=self.last_tag, now=self.now)
        self.assertEqual(failures(self.model.cancel(self.last_tag))[0][0], self.last_tag)
