"""[MS-MQDMPR] 3.1.4.4 and 3.1.4.5: all of a transaction, or nothing of it."""

from __future__ import annotations

from collections.abc import Sequence

from msmq.persistence.changes import (
    AppendLog,
    Change,
    MoveMessage,
    PutAborts,
    PutMessage,
    PutMessages,
    RemoveMessages,
)
from msmq.queues.leaving.transaction import TransactionState
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.status import Status
from tests.queues.leaving.test_transactions import TransactionCase
from tests.queues.simulation import Alpha


class WholeTests(TransactionCase):
    """A commit is one batch of the store, and all that follows comes after it."""

    def prepared(self) -> tuple[object, Queue, list[MessagePosition]]:
        """A transaction that sends two messages, receives one and moves one."""
        self.put(b"receive", b"move", b"stay")
        target = self.alpha.subqueue(self.queue)
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, b"sent")
        received = self.alpha.receive_in(transaction, self.queue)
        moved = self.queue.peek(1)
        self.alpha.move_in(transaction, moved[0], target)
        self.alpha.send_in(transaction, self.queue, b"last")
        self.transaction = transaction
        return transaction, target, [*received, *moved]

    def test_one_batch(self) -> None:
        """Sends, receives and moves are stored together, the message log with them."""
        self.queue.definition = self.alpha.model.alter_queue(self.queue, self.alpha.now, log=True).definition
        self.alpha.store.contents.queues[self.queue.definition.identifier] = self.queue.definition
        _, target, _ = self.prepared()
        batches = len(self.alpha.store.done)
        self.alpha.commit(self.transaction)
        self.assertEqual(len(self.alpha.store.done), batches + 1)
        kinds = [type(change) for change in self.changes()]
        self.assertEqual(kinds.count(PutMessage), 2)
        self.assertEqual(kinds.count(AppendLog), 2)
        self.assertEqual(kinds.count(RemoveMessages), 1)
        self.assertEqual(kinds.count(MoveMessage), 1)
        self.assertEqual(self.alpha.bodies(self.queue), [b"stay", b"sent", b"last"])
        self.assertEqual(self.alpha.bodies(target), [b"move"])

    def test_nothing_before_it_is_stored(self) -> None:
        """While the batch is being stored everything looks as before, and the transaction cannot be
        aborted.
        """
        _, target, held = self.prepared()
        self.alpha.store.is_slow = True
        self.alpha.commit(self.transaction)
        self.assertEqual(self.transaction.state, TransactionState.COMMITTING)
        self.assertEqual((self.alpha.bodies(self.queue), self.alpha.bodies(target)), ([b"stay"], []))
        self.alpha.check()
        for call in (self.alpha.abort, self.alpha.commit):
            self.refused(Status.MQ_ERROR_TRANSACTION_SEQUENCE, call, self.transaction)
        self.alpha.store.drain()
        self.assertEqual(self.alpha.bodies(self.queue), [b"stay", b"sent", b"last"])
        self.assertEqual({position.state for position in held}, {PositionState.DELETED})

    def test_a_store_that_fails(self) -> None:
        """The transaction is as it was before; it can be committed again, with the same outcome."""
        _, target, held = self.prepared()
        self.alpha.store.fails = 2
        for _ in range(2):
            self.alpha.commit(self.transaction)
            self.assertEqual((self.alpha.bodies(self.queue), self.alpha.bodies(target)), ([b"stay"], []))
            self.assertEqual({position.state for position in held}, {PositionState.LOCKED_READER})
            self.assertEqual(self.alpha.stored(self.queue), [b"receive", b"move", b"stay"])
            self.alpha.check()
        self.alpha.send_in(self.transaction, self.queue, b"more")
        self.alpha.commit(self.transaction)
        self.assertEqual(self.alpha.bodies(self.queue), [b"stay", b"sent", b"last", b"more"])
        self.assertEqual(self.alpha.bodies(target), [b"move"])

    def test_a_store_that_fails_and_then_an_abort(self) -> None:
        """Everything is where it was before the transaction began."""
        _, target, _ = self.prepared()
        self.alpha.store.fails = 1
        self.alpha.commit(self.transaction)
        self.alpha.abort(self.transaction)
        self.assertEqual(self.alpha.bodies(self.queue), [b"receive", b"move", b"stay"])
        self.assertEqual(target.positions, {})

    def test_positions_that_cannot_be_assigned(self) -> None:
        """If its messages cannot get their positions, the transaction is as it was before."""
        _, target, _ = self.prepared()

        def fail(queue: Queue, positions: Sequence[MessagePosition]) -> Sequence[Change]:
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            self.alpha.model.transacting.commit(self.transaction, fail, self.alpha.now)
        self.assertEqual(self.transaction.state, TransactionState.ACTIVE)
        self.alpha.commit(self.transaction)
        self.assertEqual(self.alpha.bodies(target), [b"move"])

    def test_a_crash_before_the_commit(self) -> None:
        """The transaction was aborted by it; nothing of it is there, and everything else is.

        MQDMPR-3.1.3-25 MQDMPR-3.1.4.4-07
        """
        self.prepared()
        self.alpha.store.is_slow = True
        self.alpha.commit(self.transaction)
        self.alpha = self.alpha.restart()
        self.alpha.store.is_slow = False
        queue = self.alpha.find(".\\private$\\orders")
        self.assertEqual(self.alpha.bodies(queue), [b"receive", b"move", b"stay"])
        self.assertEqual(list(self.alpha.model.transacting.transactions), [])

    def test_a_crash_after_the_commit(self) -> None:
        """All of it is there."""
        self.prepared()
        self.alpha.commit(self.transaction)
        self.alpha = self.alpha.restart()
        queue = self.alpha.find(".\\private$\\orders")
        self.assertEqual(self.alpha.bodies(queue), [b"stay", b"sent", b"last"])
        self.assertEqual(self.alpha.bodies(self.alpha.find(".\\private$\\orders;sub")), [b"move"])

    def test_sent_messages_are_answered(self) -> None:
        """The store keeps of no transactional message that an event alone follows its removal.

        A sender may learn of its failure, and it may become a dead letter.
        """
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, self.queue, b"1", b"2", b"3")
        self.alpha.send_in(transaction, self.alpha.create("other", transactional=True), b"4")
        self.alpha.commit(transaction)
        puts = [each for each in self.changes() if isinstance(each, PutMessage | PutMessages)]
        self.assertEqual([type(each) for each in puts], [PutMessages, PutMessage])
        self.assertEqual([each.event_only for each in puts], [False, False])

    def test_a_move_out_of_a_deleted_queue(self) -> None:
        """A message that has left with its queue leaves once, and not again before the commit of its move."""
        source = self.alpha.subqueue(self.queue, "source")
        self.put(b"1")
        self.alpha.move(self.queue.peek(1)[0], source)
        transaction = self.alpha.begin()
        self.alpha.move_in(transaction, source.peek(1)[0], self.queue)
        self.alpha.delete(source)
        self.assertEqual(self.alpha.model.transacting.unmoved(transaction), [])
        self.alpha.commit(transaction)
        self.assertEqual(self.alpha.events, [("deleted", "private$\\orders;source")])
        self.assertEqual(self.alpha.bodies(self.queue), [])

    def test_a_prepared_one_and_a_deleted_queue(self) -> None:
        """What a prepared transaction has received, it has received, although the queue is being deleted.

        A crash right after the commit brings back the queue, without these messages.
        """
        self.put(b"1", b"2", b"3")
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue, 2)
        self.alpha.model.transacting.transactions.prepare(transaction)
        self.alpha.store.is_slow = True
        self.alpha.delete(self.queue, at_once=1)
        self.alpha.commit(transaction)
        while transaction.state is not TransactionState.COMMITTED:
            self.alpha.store.step()
        self.alpha = self.alpha.restart()
        self.alpha.store.is_slow = False
        self.assertEqual(self.alpha.bodies(self.alpha.find(".\\private$\\orders")), [b"3"])

    def test_operations_are_in_order(self) -> None:
        """They are kept, and take effect, in the order in which they were asked for.

        MQDMPR-3.1.1.14-02 MQDMPR-3.1.4.4-02
        """
        _, target, held = self.prepared()
        operations = self.transaction.operations
        self.assertEqual(
            [type(each).__name__ for each in operations], ["Enqueue", "Dequeue", "Move", "Enqueue"]
        )
        self.assertEqual([operations[1].position, operations[2].position], held)
        self.alpha.confirm(self.alpha.receive(self.queue))
        readers = [self.alpha.read(queue, wait=True) for queue in (self.queue, self.queue, target)]
        self.alpha.commit(self.transaction)
        found = [self.alpha.reads[tag] for tag in readers]
        self.assertEqual(
            [self.alpha.body(each[0]) for each in found if isinstance(each, list)],
            [b"sent", b"last", b"move"],
        )


class AbortCountTests(TransactionCase):
    """AbortCount, and messages that are never received successfully."""

    def setUp(self) -> None:
        self.alpha = Alpha(poison_after=3)
        self.queue = self.alpha.create(transactional=True)

    def in_vain(self, count: int = 1) -> None:
        """Receive the first message, and abort."""
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue, count)
        self.alpha.abort(transaction)

    def test_counted(self) -> None:
        """Each abort of a transaction that received it counts, and the count survives."""
        self.put(b"1", b"2")
        self.in_vain()
        self.in_vain(2)
        self.assertEqual([position.aborts for position in self.queue.peek(9)], [2, 1])
        [first, second] = self.queue.peek(9)
        identifier = self.queue.definition.identifier
        self.assertEqual(
            self.changes(),
            [PutAborts(identifier, first.lookup_id, 2), PutAborts(identifier, second.lookup_id, 1)],
        )
        self.alpha = self.alpha.restart()
        queue = self.alpha.find(".\\private$\\orders")
        self.assertEqual([position.aborts for position in queue.peek(9)], [2, 1])

    def test_other_returns_do_not_count(self) -> None:
        """A reader that returns it, a move that is aborted and a commit that fails are no such abort."""
        self.put(b"1")
        self.alpha.give_back(self.alpha.receive(self.queue))
        transaction = self.alpha.begin()
        self.alpha.move_in(transaction, self.queue.peek(1)[0], self.alpha.subqueue(self.queue))
        self.alpha.abort(transaction)
        transaction = self.alpha.begin()
        self.alpha.receive_in(transaction, self.queue)
        self.alpha.store.fails = 1
        self.alpha.commit(transaction)
        [position] = self.queue.positions.values()
        self.assertEqual(position.aborts, 0)
        self.alpha.abort(transaction)
        self.assertEqual(position.aborts, 1)

    def test_moved_to_the_subqueue(self) -> None:
        """After the limit of aborts a message is in the subqueue C{poison}, and those behind it are
        served.
        """
        self.put(b"bad", b"good")
        for _ in range(3):
            self.assertEqual(self.alpha.bodies(self.queue), [b"bad", b"good"])
            self.in_vain()
        self.assertEqual(self.alpha.bodies(self.queue), [b"good"])
        poison = self.alpha.find(".\\private$\\orders;poison")
        self.assertEqual(self.alpha.bodies(poison), [b"bad"])
        [position] = poison.peek(9)
        self.assertEqual((position.aborts, position.moves), (3, 1))
        self.alpha = self.alpha.restart()
        poison = self.alpha.find(".\\private$\\orders;poison")
        self.assertEqual([(each.aborts, each.moves) for each in poison.peek(9)], [(3, 1)])

    def test_deleted_on_the_way_to_the_subqueue(self) -> None:
        """If its queue is deleted while the move is stored, the message leaves with it, with one event."""
        for fails in (0, 1):
            self.alpha = Alpha(poison_after=1)
            self.queue = self.alpha.create(transactional=True)
            self.put(b"bad")
            transaction = self.alpha.begin()
            self.alpha.receive_in(transaction, self.queue)
            self.alpha.store.is_slow = True
            self.alpha.abort(transaction)
            self.alpha.delete(self.queue)
            self.alpha.store.fails = fails
            self.alpha.store.drain()
            self.alpha.try_again()
            self.alpha.store.drain()
            self.assertEqual([event for event, _ in self.alpha.events], ["deleted"])
            self.alpha.check_store()

    def test_not_moved_to_the_subqueue_twice(self) -> None:
        """A message in a subqueue stays there, after any number of aborts."""
        self.put(b"bad")
        for _ in range(3):
            self.in_vain()
        poison = self.alpha.find(".\\private$\\orders;poison")
        for _ in range(4):
            transaction = self.alpha.begin()
            self.alpha.receive_in(transaction, poison)
            self.alpha.abort(transaction)
        self.assertEqual([position.aborts for position in poison.peek(9)], [7])

    def test_a_store_that_fails(self) -> None:
        """A message whose move fails is back in its queue, and is moved at the next abort."""
        self.put(b"bad")
        self.in_vain()
        self.in_vain()
        self.alpha.store.fails = 1
        self.in_vain()
        self.assertEqual(self.alpha.bodies(self.queue), [b"bad"])
        self.in_vain()
        self.assertEqual(self.alpha.bodies(self.queue), [])
        self.assertEqual(self.alpha.bodies(self.alpha.find(".\\private$\\orders;poison")), [b"bad"])

    def test_switched_off(self) -> None:
        """With 0 a message is never moved."""
        self.alpha = Alpha()
        self.queue = self.alpha.create(transactional=True)
        self.put(b"1")
        for _ in range(50):
            self.in_vain()
        self.assertEqual([position.aborts for position in self.queue.peek(9)], [50])
        self.assertEqual(self.queue.subqueues, {})
