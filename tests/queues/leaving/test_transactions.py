"""Transactions: all that is done in one is there at once, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import (
    Change,
    PutState,
)
from msmq.queues.arriving.admission import EnqueueStatus
from msmq.queues.effects import OutgoingReady
from msmq.queues.leaving.transaction import TransactionState
from msmq.queues.position import PositionState
from msmq.queues.queue import Queue
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError, Status
from tests.queues.builders import arriving
from tests.queues.simulation import Alpha


class TransactionCase(SynchronousTestCase):
    """ALPHA with a transactional queue."""

    def setUp(self) -> None:
        self.alpha = Alpha()
        self.queue = self.alpha.create(transactional=True)

    def refused(self, status: Status, call: object, *arguments: object) -> None:
        """See that a call is refused."""
        assert callable(call)
        with self.assertRaises(MQError) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.status, status)

    def put(self, *bodies: bytes, queue: Queue | None = None) -> None:
        """Let transactional messages be there."""
        target = self.queue if queue is None else queue
        self.alpha.put(target, *(arriving(body, transactional=True) for body in bodies))

    def changes(self) -> Sequence[Change]:
        """The last batch that was stored, without numbers that were reserved."""
        return [change for change in self.alpha.store.done[-1] if not isinstance(change, PutState)]

    def tearDown(self) -> None:
        self.alpha.store.drain()
        self.alpha.check()
        self.alpha.check_store()


class CollectionTests(TransactionCase):
    """[MS-MQDMPR] 3.1.7.1.8 and 3.1.1.1 TransactionCollection."""

    def test_created(self) -> None:
        """A new transaction is found by its identifier, and is of the internal kind: it takes operations.

        MQDMPR-3.1.7.1.8-01.
        """
        transactions = self.alpha.model.transacting.transactions
        identifier = UUID(int=77)
        transaction = transactions.create(identifier, 5.0)
        self.assertIs(transactions.find(identifier), transaction)
        self.assertEqual((transaction.identifier, transaction.began), (identifier, 5.0))
        self.assertEqual((transaction.operations, transaction.state), ([], TransactionState.ACTIVE))
        self.assertEqual(list(transactions), [transaction])

    def test_created_twice(self) -> None:
        """The same identifier means the same transaction."""
        transactions = self.alpha.model.transacting.transactions
        self.assertIs(transactions.create(UUID(int=7), 1.0), transactions.create(UUID(int=7), 2.0))

    def test_unknown_transaction(self) -> None:
        """A transaction that never was, or has ended, can be neither found nor prepared nor ended.

        MQDMPR-3.1.4.3-02 MQDMPR-3.1.4.4-01 MQDMPR-3.1.4.5-01
        """
        transacting = self.alpha.model.transacting
        self.refused(Status.MQ_ERROR_TRANSACTION_SEQUENCE, transacting.transactions.find, UUID(int=9))
        for end in (self.alpha.commit, self.alpha.abort):
            transaction = self.alpha.begin()
            end(transaction)
            for call in (self.alpha.commit, self.alpha.abort, transacting.transactions.prepare):
                self.refused(Status.MQ_ERROR_TRANSACTION_SEQUENCE, call, transaction)
            self.refused(
                Status.MQ_ERROR_TRANSACTION_SEQUENCE, transacting.transactions.find, transaction.identifier
            )
        self.assertEqual(list(transacting.transactions), [])

    def test_nothing_is_done_in_one_that_ended(self) -> None:
        """It takes no message, neither to send nor to receive nor to move."""
        self.put(b"1", b"2")
        target = self.alpha.subqueue(self.queue)
        transaction = self.alpha.begin()
        self.alpha.commit(transaction)
        status = Status.MQ_ERROR_TRANSACTION_SEQUENCE
        self.refused(status, self.alpha.send_in, transaction, self.queue, b"x")
        held = self.alpha.receive(self.queue)
        self.refused(status, self.alpha.model.transacting.receive, transaction, held)
        self.refused(status, self.alpha.move_in, transaction, self.queue.peek(1)[0], target)
        self.alpha.give_back(held)
        self.assertEqual(self.alpha.bodies(self.queue), [b"1", b"2"])


class PrepareTests(TransactionCase):
    """[MS-MQDMPR] 3.1.4.3."""

    def test_prepared(self) -> None:
        """A prepared transaction takes nothing more, and is committed or aborted as any other.

        MQDMPR-3.1.4.3-01 MQDMPR-3.1.4.3-04
        """
        prepare = self.alpha.model.transacting.transactions.prepare
        for end, expected in ((self.alpha.commit, [b"1"]), (self.alpha.abort, [b"1"])):
            transaction = self.alpha.begin()
            self.alpha.send_in(transaction, self.queue, b"1")
            self.assertIsNone(prepare(transaction))
            self.assertEqual(transaction.state, TransactionState.PREPARED)
            self.refused(
                Status.MQ_ERROR_TRANSACTION_SEQUENCE, self.alpha.send_in, transaction, self.queue, b"2"
            )
            self.assertEqual(len(transaction.operations), 1)
            end(transaction)
            self.assertEqual(self.alpha.bodies(self.queue), expected)

    def test_a_source_that_is_gone(self) -> None:
        """One that has received from a queue that was deleted is not prepared: its commit would fail."""
        self.put(b"1")
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue)
        self.alpha.delete(self.queue)
        prepare = self.alpha.model.transacting.transactions.prepare
        self.refused(Status.MQ_ERROR_QUEUE_DELETED, prepare, transaction)
        self.assertEqual(transaction.state, TransactionState.ACTIVE)
        self.alpha.abort(transaction)

    def test_a_commit_that_is_not_stored(self) -> None:
        """A failed commit leaves each transaction in its previous state, prepared or not."""
        for is_prepared, state in ((True, TransactionState.PREPARED), (False, TransactionState.ACTIVE)):
            transaction = self.alpha.begin()
            self.alpha.send_in(transaction, self.queue, b"1")
            if is_prepared:
                self.alpha.model.transacting.transactions.prepare(transaction)
            self.alpha.store.fails = 1
            self.alpha.commit(transaction)
            self.assertEqual(transaction.state, state)
            self.alpha.abort(transaction)


class SendTests(TransactionCase):
    """[MS-MQDMPR] 3.1.7.1.9 with iTransaction."""

    def test_hidden_before_the_commit(self) -> None:
        """Before the commit a message is there for its sender alone; then it wakes a waiting reader.

        MQDMPR-3.1.7.1.9-11 MQDMPR-3.1.4.4-03
        """
        transaction = self.alpha.begin()
        waits = self.alpha.read(self.queue, wait=True)
        self.assertEqual(self.alpha.send_in(transaction, self.queue, b"1", b"2"), [])
        self.assertEqual(len(transaction.operations), 2)
        self.assertEqual({position.state for position in transaction.sent()}, {PositionState.ARRIVING})
        self.assertNotIn(waits, self.alpha.reads)
        self.assertEqual(self.alpha.bodies(self.queue), [])
        self.assertEqual(self.alpha.stored(self.queue), [])
        self.alpha.commit(transaction)
        found = self.alpha.reads[waits]
        assert isinstance(found, list)
        self.assertEqual([self.alpha.body(position) for position in found], [b"1"])
        self.assertEqual(self.alpha.bodies(self.queue), [b"2"])
        self.assertEqual(self.alpha.stored(self.queue), [b"1", b"2"])

    def test_it_counts_already(self) -> None:
        """Bytes are charged when a message is sent, so that no quota is overrun; an abort gives them back."""
        small = self.alpha.create("small", quota=1, transactional=True)
        transaction, other = self.alpha.begin(), self.alpha.begin()
        self.alpha.send_in(transaction, small, b"x" * 600)
        [refusal] = self.alpha.send_in(other, small, b"x" * 600)
        self.assertEqual((refusal.index, refusal.status), (0, EnqueueStatus.QUEUE_QUOTA_EXCEEDED))
        self.alpha.abort(transaction)
        self.assertEqual(small.total_bytes, 0)
        self.assertEqual(self.alpha.send_in(other, small, b"x" * 600), [])
        self.alpha.commit(other)

    def test_one_of_several_is_refused(self) -> None:
        """Then none of them is taken; what was sent before is not touched."""
        small = self.alpha.create("small", quota=1, transactional=True)
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, small, b"before")
        [refusal] = self.alpha.send_in(transaction, small, b"1", b"x" * 900, b"2")
        self.assertEqual((refusal.index, refusal.status), (1, EnqueueStatus.QUEUE_QUOTA_EXCEEDED))
        self.alpha.commit(transaction)
        self.assertEqual(self.alpha.bodies(small), [b"before"])

    def test_a_throttled_queue_manager(self) -> None:
        """No message is accepted, in transactions either."""
        self.alpha.model.storage.throttled = True
        [refusal] = self.alpha.send_in(self.alpha.begin(), self.queue, b"1")
        self.assertEqual(refusal.status, EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED)

    def test_order(self) -> None:
        """Messages are in the order in which they were sent, whichever transaction was committed first."""
        first, second = self.alpha.begin(), self.alpha.begin()
        self.alpha.send_in(first, self.queue, b"1")
        self.alpha.send_in(second, self.queue, b"2")
        self.alpha.send_in(first, self.queue, b"3")
        self.alpha.commit(second)
        self.assertEqual(self.alpha.bodies(self.queue), [b"2"])
        self.alpha.commit(first)
        self.assertEqual(self.alpha.bodies(self.queue), [b"1", b"2", b"3"])

    def test_priority_counts_as_0(self) -> None:
        """A transactional message is behind every other, for any Priority."""
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, arriving(b"t", transactional=True, priority=7))
        self.alpha.commit(transaction)
        self.alpha.put(self.queue, arriving(b"e", priority=0), arriving(b"f", priority=1))
        self.assertEqual(self.alpha.bodies(self.queue), [b"f", b"t", b"e"])

    def test_positions_in_a_sequence(self) -> None:
        """They are assigned to all messages for one queue together, in order, receives in between or not.

        MQDMPR-3.1.4.4-02: the commit takes the operations in the order in which they were requested.
        """
        self.put(b"in")
        other = self.alpha.create("other", transactional=True)
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, b"1")
        self.alpha.receive_in(transaction, self.queue)
        self.alpha.send_in(transaction, other, b"alone")
        self.alpha.send_in(transaction, self.queue, b"2", b"3")
        self.alpha.commit(transaction)
        places = []
        for position in (*self.queue.peek(9), *other.peek(9)):
            header = self.alpha.view(position).transaction
            assert header is not None
            places.append((header.tx_sequence_number, header.is_first, header.is_last))
        self.assertEqual(places, [(1, True, False), (2, False, False), (3, False, True), (1, True, True)])

    def test_to_another_queue_manager(self) -> None:
        """A message that waits to be sent is ready at the commit, and not before."""
        outgoing = self.alpha.model.outgoing(parse_format_name("DIRECT=OS:beta\\q"), self.alpha.now)
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, outgoing, b"1")
        self.assertFalse(outgoing.is_active)
        commitment = self.alpha.model.transacting.commit(transaction, self.alpha.give_places, self.alpha.now)
        self.alpha.store.ask(commitment.changes)
        effects = self.alpha.model.committed(commitment, self.alpha.now)
        self.assertEqual(effects, [OutgoingReady(outgoing)])
        self.assertTrue(outgoing.is_active)
        self.assertEqual(self.alpha.stored(outgoing), [b"1"])

    def test_to_another_queue_manager_in_the_order_of_the_commits(self) -> None:
        """Messages are sent in the order in which their transactions are committed, not that of the sends."""
        outgoing = self.alpha.model.outgoing(parse_format_name("DIRECT=OS:beta\\q"), self.alpha.now)
        first, second = self.alpha.begin(), self.alpha.begin()
        for transaction, number in ((first, b"1"), (second, b"2"), (first, b"3"), (second, b"4")):
            self.alpha.send_in(transaction, outgoing, number)
        self.alpha.commit(second)
        self.alpha.commit(first)
        expected = [b"2", b"4", b"1", b"3"]
        self.assertEqual((self.alpha.bodies(outgoing), self.alpha.stored(outgoing)), (expected, expected))


class ReceiveTests(TransactionCase):
    """[MS-MQDMPR] 3.1.7.1.10 with iTransaction."""

    def test_committed(self) -> None:
        """The message leaves with the commit, as received, and the store forgets it in the same batch.

        MQDMPR-3.1.4.4-04 MQDMPR-3.1.1.13-03
        """
        self.put(b"1", b"2")
        transaction = self.alpha.begin()
        [position] = self.alpha.receive_in(transaction, self.queue)
        self.assertEqual((position.state, position.owner), (PositionState.LOCKED_READER, transaction))
        self.assertEqual(self.alpha.bodies(self.queue), [b"2"])
        self.assertEqual(self.alpha.stored(self.queue), [b"1", b"2"])
        self.alpha.commit(transaction)
        self.assertEqual(position.state, PositionState.DELETED)
        self.assertEqual(self.alpha.stored(self.queue), [b"2"])
        self.assertEqual(self.alpha.departures, [], "it was received, and nothing else is reported of it")
        self.assertEqual(self.alpha.events, [])

    def test_aborted(self) -> None:
        """It is back at its position, for a waiting reader too.

        MQDMPR-3.1.4.5-03.
        """
        self.put(b"1", b"2", b"3")
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue, 2)
        self.alpha.abort(transaction)
        self.assertEqual(self.alpha.bodies(self.queue), [b"1", b"2", b"3"])
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue, 3)
        waits = self.alpha.read(self.queue, wait=True)
        self.alpha.abort(transaction)
        found = self.alpha.reads[waits]
        assert isinstance(found, list)
        self.assertEqual([self.alpha.body(position) for position in found], [b"1"])

    def test_an_aborted_send(self) -> None:
        """It was never there: no message, no bytes, nothing in the store.

        MQDMPR-3.1.4.5-04.
        """
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, b"1", b"2")
        self.assertEqual(self.queue.message_count, 2)
        self.alpha.abort(transaction)
        self.assertEqual((self.queue.message_count, self.queue.total_bytes), (0, 0))
        self.assertEqual(self.alpha.stored(self.queue), [])
        self.assertEqual((self.alpha.departures, self.alpha.events), ([], []))

    def test_an_end_is_an_end(self) -> None:
        """Commit and abort remove the operations and the transaction.

        MQDMPR-3.1.4.4-07 MQDMPR-3.1.4.5-05
        """
        for end, state in (
            (self.alpha.commit, TransactionState.COMMITTED),
            (self.alpha.abort, TransactionState.ABORTED),
        ):
            transaction = self.alpha.begin()
            self.alpha.send_in(transaction, self.queue, b"1")
            end(transaction)
            self.assertEqual((transaction.operations, transaction.state), ([], state))
            self.assertEqual(list(self.alpha.model.transacting.transactions), [])
