"""Reads through handles, alone and in transactions."""

from __future__ import annotations

from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.position import PositionState
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.queues.reading.operations import WaitingReader
from msmq.queues.reading.readers import STATUS_NOT_FOUND
from msmq.queues.reading.seek import MessageSeekAction
from msmq.structures.status import Status
from tests.builders import ALPHA
from tests.queues.builders import admit, arriving, bodies, completions, create, model, put
from tests.queues.reading.handles import HandleTestCase, failures


class DequeueTests(HandleTestCase):
    """[MS-MQDMPR] 3.1.7.1.10, 3.1.7.1.15, 3.1.7.1.17 and 3.1.7.3.1, through handles."""

    def test_receive(self) -> None:
        """The message is answered, by cursor or not, and stays locked and counted until its reader decides.

        MQDMPR-3.1.7.1.10-15 MQDMPR-3.1.7.1.10-17 MQDMPR-3.1.1.11-03 MQDMPR-3.1.7.1.11-02
        """
        self.put(b"1", b"2")
        for cursor, body in ((None, b"1"), (self.cursor(), b"2")):
            self.assertEqual(self.receive(cursor), body)
            taken = self.taken[-1]
            self.assertEqual((taken.state, taken.owner), (PositionState.LOCKED_READER, self.last_tag))
        self.assertEqual((self.peek(), self.queue.message_count), (Status.MQ_ERROR_IO_TIMEOUT, 2))

    def test_receive_for_good(self) -> None:
        """A reader that confirms at once has the message deleted, as received.

        MQDMPR-3.1.7.1.10-16
        """
        self.put(b"1")
        self.receive()
        removal = self.model.remove(self.taken)
        self.assertEqual(list(removal.positions), self.taken)
        self.assertEqual(list(removal.departures), [])
        self.model.removed(removal, self.now)
        self.assertEqual((self.taken[0].state, self.queue.total_bytes), (PositionState.DELETED, 0))

    def test_states_of_a_message(self) -> None:
        """From its sending through a release and an abort to its end, the document's states and no other.

        MQDMPR-3.1.1.11-02 MQDMPR-3.1.7.2.2-02
        """
        self.put(b"1")
        message = self.find(b"1")
        states = [message.state]
        self.receive()
        states.append(message.state)
        self.give_back(message)
        states.append(message.state)
        transacting = self.model.transacting
        transaction = transacting.transactions.create(ALPHA, 0.0)
        self.receive(owner=transaction, on_taken=lambda taken: transacting.receive(transaction, taken))
        states.append(message.state)
        self.model.aborted(transacting.abort(transaction, self.now), self.now)
        states.append(message.state)
        self.receive()
        while self.model.purge(self.queue, self.model.last_sequential, 9):
            pass
        states.append(message.state)
        [departure] = self.model.release([message], self.now)
        assert isinstance(departure, Departure)
        self.model.settled(self.model.settle(departure, self.now), self.now)
        states.append(message.state)
        available, locked = PositionState.AVAILABLE, PositionState.LOCKED_READER
        ends = PositionState.PURGE_PENDING, PositionState.DELETED
        self.assertEqual(states, [available, locked, available, locked, available, *ends])

    def test_locked_messages_are_passed_over(self) -> None:
        """MQDMPR-3.1.7.1.10-10 MQDMPR-3.1.7.3.2-01: the first that is available is found."""
        self.put(b"1", b"2", b"3")
        self.hold(b"1")
        self.assertEqual(self.receive(), b"2")

    def test_peek_of_a_locked_message(self) -> None:
        """MQDMPR-3.1.7.1.15-05: a look finds a locked message only if its lock allows that."""
        self.put(b"1", b"2")
        held = self.hold(b"1")
        self.assertEqual(self.peek(), b"2")
        self.give_back(held)
        self.hold(b"1", allow_peek=True)
        self.assertEqual(self.peek(), b"1")
        self.assertEqual(self.receive(), b"2")

    def test_each_message_once(self) -> None:
        """Many readers compete, and each message is given to one of them.

        MQDMPR-3.1.7.1.10-13
        """
        handles = [self.open() for _ in range(20)]
        cursors = [self.cursor(handle) for handle in handles]
        for number, (handle, cursor) in enumerate(zip(handles, cursors, strict=True)):
            self.receive(cursor if number % 3 else None, handle=handle, seconds=None)
        found = self.put(*(b"%d" % number for number in range(15)))
        self.assertEqual(sorted(body for _, [body] in found), sorted(b"%d" % each for each in range(15)))
        self.assertEqual([tag for tag, _ in found], [f"read {number}" for number in range(1, 16)])
        self.assertIsNone(self.queue.after(-1))

    def test_no_limit(self) -> None:
        """MQDMPR-3.1.7.1.10-02 MQDMPR-3.1.7.1.10-11: a receive without a time waits for ever."""
        self.descriptors.receive(self.handle, tag="a", now=self.now)
        self.assertIsNone(self.model.deadline(self.now))
        self.assertEqual(self.wait(1e9), [])
        self.assertEqual(self.put(b"1"), [("a", [b"1"])])

    def test_time_runs_out(self) -> None:
        """With its status, at once or when it does (reading 35).

        MQDMPR-3.1.7.1.10-12 MQDMPR-3.1.7.1.11-02
        """
        late = Status.MQ_ERROR_IO_TIMEOUT
        self.assertEqual(self.receive(seconds=0), late)
        self.assertIsNone(self.receive(seconds=1))
        self.assertEqual(self.wait(1), [(self.last_tag, late)])

    def test_a_queue_that_is_gone(self) -> None:
        """MQDMPR-3.1.7.3.1-01 MQDMPR-3.1.7.1.11-01: a read of it does not wait, with any time limit."""
        self.model.delete_queue(self.queue)
        self.assertEqual(self.receive(seconds=None), Status.MQ_ERROR_QUEUE_NOT_AVAILABLE)
        self.assertEqual((len(self.handle.waiting), len(self.queue.readers)), (0, 0))

    def test_a_queue_that_is_gone_without_a_handle(self) -> None:
        """Reads that come straight to the readers end in the same way."""
        readers, cursor = self.model.readers, self.cursor()
        self.model.delete_queue(self.queue)
        gone = [("a", Status.MQ_ERROR_QUEUE_NOT_AVAILABLE)]
        reader = WaitingReader("a", self.queue, cursor=cursor)
        self.assertEqual(failures(readers.read(reader, self.now)), gone)
        reader = WaitingReader("a", self.queue)
        first = MessageSeekAction.FIRST
        self.assertEqual(failures(readers.read_by_lookup_identifier(reader, 0, first, self.now)), gone)

    def test_waiters(self) -> None:
        """The properties of each waiting read; a cursor only if it has one.

        MQDMPR-3.1.7.3.1-03 MQDMPR-3.1.1.10-03 MQDMPR-3.1.7.1.10-11
        """
        cursor = self.cursor()
        self.receive(seconds=5)
        self.peek(cursor, seconds=7)
        receiver, peeker = map(self.model.readers.waiting, self.handle.waiting)
        assert receiver is not None and peeker is not None
        self.assertEqual((receiver.is_peek, receiver.tag, receiver.cursor), (False, "read 1", None))
        self.assertEqual((peeker.is_peek, peeker.tag, peeker.cursor), (True, "read 2", cursor))
        self.assertEqual(self.model.deadline(self.now), self.now.later(5).monotonic)

    def test_no_wait_after_any_outcome(self) -> None:
        """MQDMPR-3.1.7.3.1-06: satisfied, too late, cancelled, closed or deleted, a wait is forgotten."""

        def wait() -> None:
            self.assertIsNone(self.receive(seconds=5))
            self.assertEqual(list(self.handle.waiting), [self.last_tag])

        for end in (
            lambda: self.put(b"1"),
            lambda: self.wait(5),
            lambda: self.model.cancel(self.last_tag),
            lambda: self.descriptors.close(self.handle),
            lambda: self.model.delete_queue(self.queue),
        ):
            wait()
            end()
            self.assertEqual((len(self.handle.waiting), len(self.queue.readers)), (0, 0))
            self.assertIsNone(self.model.deadline(self.now))
            if not self.handle.is_open:
                self.handle = self.open()

    def test_peek_and_receive_wait(self) -> None:
        """MQDMPR-3.1.1.10-02 MQDMPR-3.1.7.3.6-01: a peek leaves the message for the receive."""
        for read in (self.peek, self.receive, self.receive):
            self.assertIsNone(read(seconds=None))
        self.assertEqual(self.put(b"1"), [("read 1", [b"1"]), ("read 2", [b"1"])])
        self.assertEqual(list(self.handle.waiting), ["read 3"])

    def test_order_over_handles(self) -> None:
        """The longest wait is served first, through whichever handle (reading 37)."""
        other = self.open(QueueAccessType.RECEIVE_ADMIN)
        for handle in (self.handle, other, self.handle, other):
            self.receive(handle=handle, seconds=None)
        found = self.put(b"1", b"2", b"3", b"4")
        self.assertEqual(found, [(f"read {number}", [b"%d" % number]) for number in range(1, 5)])

    def test_order_of_cursors_and_others(self) -> None:
        """A cursor takes the first arrival behind it, others the first of all."""
        self.put(b"old")
        cursor = self.cursor()
        self.peek(cursor)
        self.peek_next(cursor, seconds=None)
        waits = self.last_tag
        self.receive()
        self.receive(seconds=None)
        receives = self.last_tag
        self.peek(self.cursor(), seconds=None)
        looks = self.last_tag
        found = self.put(b"2", arriving(b"1", priority=7))
        self.assertEqual(found, [(waits, [b"1"]), (receives, [b"1"]), (looks, [b"2"])])

    def test_cancel_by_tag(self) -> None:
        """Through whichever handle it came; a tag without a waiting read at this queue is not found.

        MQDMPR-3.1.7.1.17-01 MQDMPR-3.1.7.1.17-02 MQDMPR-3.1.7.1.17-03
        """
        readers = self.model.readers
        other = create(self.model, "other")
        self.model.receive(other, tag="elsewhere", now=self.now)
        self.receive(seconds=5)
        self.receive(handle=self.open(), seconds=5)
        cancelled = Status.MQ_ERROR_OPERATION_CANCELLED
        status, effects = readers.cancel_waiting_read(self.queue, "read 2", cancelled)
        self.assertEqual((status, failures(effects)), (Status.MQ_OK, [("read 2", cancelled)]))
        self.assertEqual(STATUS_NOT_FOUND, 0xC0000225)
        for tag in ("read 2", "elsewhere", "never"):
            self.assertEqual(readers.cancel_waiting_read(self.queue, tag, cancelled), (STATUS_NOT_FOUND, []))
        self.assertEqual(self.put(b"1"), [("read 1", [b"1"])])

    def test_restart(self) -> None:
        """MQDMPR-3.1.1.10-01 MQDMPR-3.1.1.16-01 MQDMPR-3.2.1.2-02: what is stored knows of no reader."""
        self.cursor()
        self.receive(seconds=None)
        admission = admit(self.model, self.queue, arriving(b"1", recoverable=True))
        stored = repr(admission.changes)
        for word in ("read 1", "Descriptor", "Cursor", "Reader"):
            self.assertNotIn(word, stored)
        again = model()
        queue = create(again)
        self.assertEqual((len(again.descriptors), len(queue.readers), queue.is_active), (0, 0, False))


class OwnedReadTests(HandleTestCase):
    """[MS-MQDMPR] 3.1.7.1.10, in a transaction."""

    def setUp(self) -> None:
        super().setUp()
        self.transacting = self.model.transacting
        self.transaction = self.transacting.transactions.create(ALPHA, 0.0)

    def take(self, positions: object) -> None:
        assert isinstance(positions, list)
        self.transacting.receive(self.transaction, positions)

    def receive_in_transaction(self, *, seconds: float | None = None) -> object:
        return self.receive(seconds=seconds, owner=self.transaction, on_taken=self.take)

    def received(self) -> list[bytes]:
        return bodies(self.transaction.received())

    def test_what_is_there(self) -> None:
        """The transaction has the lock, and is notified at once; other reads pass the message over.

        MQDMPR-3.1.7.1.10-14 MQDMPR-3.1.7.1.10-02 MQDMPR-3.1.1.11-03
        """
        self.put(b"1", b"2")
        self.assertEqual(self.receive_in_transaction(), b"1")
        self.assertEqual(self.received(), [b"1"])
        self.assertIs(self.taken[0].owner, self.transaction)
        self.assertEqual(self.receive(), b"2")

    def test_arriving_messages(self) -> None:
        """A wait is part of the transaction as well."""
        self.receive_in_transaction()
        self.assertEqual(self.put(b"1"), [(self.last_tag, [b"1"])])
        self.assertEqual(self.received(), [b"1"])
        self.model.aborted(self.transacting.abort(self.transaction, self.now), self.now)
        self.assertEqual(self.peek(), b"1")

    def test_with_a_cursor(self) -> None:
        """An aborted message is where it was, and a cursor that stood there finds it again."""
        self.put(b"1", b"2")
        cursor = self.cursor()
        self.peek(cursor)
        self.receive(cursor, owner=self.transaction, on_taken=self.take)
        self.assertEqual(self.received(), [b"1"])
        other = self.cursor()
        self.assertEqual(self.peek(other), b"2")
        self.model.aborted(self.transacting.abort(self.transaction, self.now), self.now)
        self.assertEqual([self.peek(cursor), self.peek(self.cursor())], [b"2", b"1"])

    def test_waits_of_an_owner(self) -> None:
        """They end together, and those of others go on."""
        self.receive_in_transaction()
        self.receive_in_transaction()
        self.receive(seconds=None)
        ended = Status.MQ_ERROR_TRANSACTION_SEQUENCE
        effects = self.model.readers.cancel_owned(self.transaction, ended)
        self.assertEqual(failures(effects), [("read 1", ended), ("read 2", ended)])
        self.assertEqual(self.model.readers.cancel_owned(self.transaction, ended), [])
        self.assertEqual(self.put(b"1"), [("read 3", [b"1"])])

    def test_a_transaction_that_takes_nothing_more(self) -> None:
        """The read fails for that, and the message goes to the next waiting reader."""
        self.receive_in_transaction()
        self.receive(seconds=None)
        self.transacting.transactions.prepare(self.transaction)
        effects = put(self.model, self.queue, b"1", b"2")
        self.assertEqual(failures(effects), [("read 1", Status.MQ_ERROR_TRANSACTION_SEQUENCE)])
        self.assertEqual(self.received(), [])
        [(tag, [body])] = completions(effects)
        self.assertEqual(tag, "read 2")
        left = {b"1", b"2"} - {body}
        self.assertEqual({self.peek()}, left)
        self.assertEqual(self.receive_in_transaction(), Status.MQ_ERROR_TRANSACTION_SEQUENCE)
        self.assertEqual({self.receive()}, left)

    def test_of_several_queues(self) -> None:
        """One transaction waits at two queues at a time."""
        other = create(self.model, "other")
        self.receive_in_transaction()
        self.model.receive(other, tag="o", now=self.now, owner=self.transaction, on_taken=self.take)
        put(self.model, other, b"o")
        self.put(b"1")
        self.assertEqual(self.received(), [b"o", b"1"])
