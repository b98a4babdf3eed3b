"""Messages that are moved: between a queue and its subqueues, and into the queues of the system."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import Change, MoveMessage, PutQueue, RemoveQueue
from msmq.persistence.definition import QueueType
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.name_text import SUBQUEUE_LENGTH, QueueSuffix
from msmq.structures.status import MQError, Status
from tests.queues.builders import arriving
from tests.queues.simulation import Alpha


class MoveCase(SynchronousTestCase):
    """ALPHA with a queue and a subqueue of it."""

    def setUp(self) -> None:
        self.alpha = Alpha()
        self.queue = self.alpha.create()
        self.subqueue = self.alpha.subqueue(self.queue)

    @property
    def deadletter(self) -> Queue:
        """The dead-letter queue."""
        return self.alpha.model.system_queue(QueueSuffix.DEADLETTER)

    def first(self, queue: Queue | None = None) -> MessagePosition:
        """The first message that is available."""
        [position] = (self.queue if queue is None else queue).peek(1)
        return position

    def refused(self, status: Status, call: object, *arguments: object) -> str:
        """See that a call is refused; answers why."""
        assert callable(call)
        with self.assertRaises(MQError) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.status, status)
        return str(caught.exception.detail)

    def tearDown(self) -> None:
        self.alpha.store.drain()
        self.alpha.check()
        self.alpha.check_store()


class MoveTests(MoveCase):
    """[MS-MQDMPR] 3.1.7.1.16 without a transaction."""

    def test_moved(self) -> None:
        """A message is out of the one queue and in the other, without an event.

        MQDMPR-3.1.7.1.16-02.
        """
        self.alpha.put(self.queue, b"1", b"2")
        position = self.first()
        self.alpha.move(position, self.subqueue)
        self.assertEqual(position.state, PositionState.DELETED)
        self.assertEqual((self.alpha.bodies(self.queue), self.alpha.bodies(self.subqueue)), ([b"2"], [b"1"]))
        self.assertEqual((self.alpha.departures, self.alpha.events), ([], []))
        self.assertIs(self.first(self.subqueue).queue, self.subqueue)

    def test_there_and_back(self) -> None:
        """Among a queue and its subqueues a message keeps its LookupIdentifier, and so its position."""
        self.alpha.put(self.queue, b"1", b"2")
        number = self.first().lookup_id
        other = self.alpha.subqueue(self.queue, "other")
        for source, target in (
            (self.queue, self.subqueue),
            (self.subqueue, other),
            (other, self.queue),
        ):
            self.alpha.move(self.first(source), target)
        self.assertEqual(self.alpha.bodies(self.queue), [b"1", b"2"])
        self.assertEqual((self.first().lookup_id, self.first().moves), (number, 3))

    def test_order_in_the_target(self) -> None:
        """Moved messages are ordered by priority and age, independent of the time of the move.

        MQDMPR-3.1.7.1.16-03.
        """
        bodies = ((b"a", 3), (b"b", 7), (b"c", 3), (b"d", 0), (b"e", 7))
        for body, priority in bodies:
            self.alpha.put(self.queue, arriving(body, priority=priority, recoverable=True))
        for position in reversed(self.queue.peek(9)):
            self.alpha.move(position, self.subqueue)
        self.assertEqual(self.alpha.bodies(self.subqueue), [b"b", b"e", b"a", b"c", b"d"])
        self.assertEqual({each.queue for each in self.subqueue.peek(9)}, {self.subqueue})

    def test_readers_of_the_target(self) -> None:
        """A waiting reader gets it, in a system queue too.

        MQDMPR-3.1.7.1.16-04 (reading 44)
        """
        for target in (self.subqueue, self.deadletter):
            self.alpha.put(self.queue, b"1")
            waits = self.alpha.read(target, wait=True)
            self.alpha.move(self.first(), target)
            found = self.alpha.reads[waits]
            assert isinstance(found, list)
            self.assertEqual([self.alpha.body(each) for each in found], [b"1"])

    def test_into_a_queue_of_the_system(self) -> None:
        """There it is the youngest of its priority, and lives forever."""
        self.alpha.put(self.queue, arriving(b"old", recoverable=True, time_to_be_received=5))
        self.alpha.put(self.queue, b"young")
        old, young = self.queue.peek(2)
        self.alpha.move(young, self.deadletter)
        self.alpha.move(old, self.deadletter)
        self.assertEqual(self.alpha.bodies(self.deadletter), [b"young", b"old"])
        self.alpha.later(100)
        self.assertEqual(self.alpha.bodies(self.deadletter), [b"young", b"old"])

    def test_hidden_until_the_move_is_stored(self) -> None:
        """Until the move is stored the message is in neither queue for readers, and counts once in each."""
        self.alpha.put(self.queue, b"1")
        self.alpha.store.is_slow = True
        self.alpha.move(self.first(), self.subqueue)
        self.assertEqual((self.alpha.bodies(self.queue), self.alpha.bodies(self.subqueue)), ([], []))
        self.alpha.check()
        self.assertEqual((self.queue.message_count, self.subqueue.message_count), (1, 1))
        self.alpha.store.drain()
        self.assertEqual((self.queue.message_count, self.subqueue.message_count), (0, 1))

    def test_a_store_that_fails(self) -> None:
        """The message is where it was."""
        self.alpha.put(self.queue, b"1", b"2")
        self.alpha.store.fails = 1
        self.alpha.move(self.first(), self.subqueue)
        self.assertEqual(self.alpha.bodies(self.queue), [b"1", b"2"])
        self.assertEqual(self.subqueue.positions, {})
        self.alpha.move(self.first(), self.subqueue)
        self.assertEqual(self.alpha.stored(self.subqueue), [b"1"])

    def test_express(self) -> None:
        """An express message is moved without the store."""
        self.alpha.put(self.queue, arriving(b"e"))
        batches = len(self.alpha.store.done)
        self.alpha.move(self.first(), self.subqueue)
        self.assertEqual(len(self.alpha.store.done), batches)
        self.assertEqual(self.alpha.bodies(self.subqueue), [b"e"])
        self.assertIs(self.first(self.subqueue).kept, PacketHolder.MEMORY)

    def test_locked(self) -> None:
        """A message that a reader holds, or that is not in the queue any more, cannot be moved."""
        self.alpha.put(self.queue, b"1", b"2")
        held = self.alpha.receive(self.queue)
        status = Status.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION
        why = self.refused(status, self.alpha.move, held[0], self.subqueue)
        self.assertIn("locked", why)
        self.alpha.confirm(held)
        self.refused(status, self.alpha.move, held[0], self.subqueue)
        self.assertEqual(self.alpha.bodies(self.queue), [b"2"])

    def test_queues_that_have_nothing_to_do_with_each_other(self) -> None:
        """Messages move within a family and into queues of the system; nothing happens otherwise."""
        other = self.alpha.create("other", journal=True)
        assert other.journal is not None and self.queue.journal is not None
        self.alpha.put(self.queue, b"1")
        position = self.first()
        outgoing = self.alpha.model.outgoing(parse_format_name("DIRECT=OS:beta\\q"), self.alpha.now)
        for target in (
            other,
            self.alpha.subqueue(other),
            other.journal,
            self.queue.journal,
            outgoing,
            self.queue,
        ):
            with self.subTest(target=target.definition.path):
                self.refused(Status.MQ_ERROR_INVALID_PARAMETER, self.alpha.move, position, target)
        self.alpha.move(position, self.deadletter)
        dead_letter = self.first(self.deadletter)
        self.refused(Status.MQ_ERROR_INVALID_PARAMETER, self.alpha.move, dead_letter, self.queue)
        self.assertEqual(self.alpha.bodies(self.deadletter), [b"1"])

    def test_a_queue_that_is_gone(self) -> None:
        """No message moves to or from it."""
        self.alpha.put(self.queue, b"1")
        position = self.first()
        self.alpha.delete(self.subqueue)
        self.refused(Status.MQ_ERROR_QUEUE_NOT_AVAILABLE, self.alpha.move, position, self.subqueue)
        self.alpha.delete(self.queue)
        self.refused(Status.MQ_ERROR_QUEUE_NOT_AVAILABLE, self.alpha.move, position, self.deadletter)

    def test_restart(self) -> None:
        """A moved message is where it was moved to, and knows how often it was moved and when it is due."""
        self.alpha.put(self.queue, arriving(b"1", recoverable=True, time_to_be_received=50))
        self.alpha.move(self.first(), self.subqueue)
        number, due = self.first(self.subqueue).lookup_id, self.first(self.subqueue).due
        self.alpha = self.alpha.restart()
        self.queue = self.alpha.find(".\\private$\\orders")
        self.subqueue = self.alpha.find(".\\private$\\orders;sub")
        again = self.first(self.subqueue)
        self.assertEqual((again.lookup_id, again.due, again.moves), (number, due, 1))
        self.assertEqual(self.queue.subqueue_bytes, again.size)
        self.assertIs(self.subqueue.parent, self.queue)


class TransactionalMoveTests(MoveCase):
    """[MS-MQDMPR] 3.1.7.1.16 with a transaction."""

    def setUp(self) -> None:
        super().setUp()
        self.alpha.put(self.queue, b"1", b"2")
        self.transaction = self.alpha.begin()

    def test_committed(self) -> None:
        """The message is locked until the commit, and is in the target then.

        MQDMPR-3.1.7.1.16-05 MQDMPR-3.1.4.4-05 MQDMPR-3.1.4.4-06 MQDMPR-3.1.1.13-02
        """
        position = self.first()
        self.alpha.move_in(self.transaction, position, self.subqueue)
        self.assertEqual((position.state, position.owner), (PositionState.LOCKED_READER, self.transaction))
        [move] = self.transaction.moved()
        self.assertEqual((move.position, move.target), (position, self.subqueue))
        self.assertEqual(self.alpha.bodies(self.queue), [b"2"])
        self.assertEqual(self.subqueue.positions, {})
        waits = self.alpha.read(self.subqueue, wait=True)
        self.alpha.commit(self.transaction)
        self.assertEqual(position.state, PositionState.DELETED)
        found = self.alpha.reads[waits]
        assert isinstance(found, list)
        self.assertEqual([self.alpha.body(each) for each in found], [b"1"])
        self.assertEqual(self.alpha.events, [])

    def test_aborted(self) -> None:
        """The message is where it was."""
        self.alpha.move_in(self.transaction, self.first(), self.subqueue)
        self.alpha.abort(self.transaction)
        self.assertEqual(self.alpha.bodies(self.queue), [b"1", b"2"])
        self.assertEqual((self.subqueue.positions, self.subqueue.users), ({}, 0))

    def test_into_a_queue_of_the_system(self) -> None:
        """No transaction moves there; the message is still available.

        MQDMPR-3.1.7.1.16-01.
        """
        self.refused(
            Status.MQ_ERROR_TRANSACTION_USAGE,
            self.alpha.move_in,
            self.transaction,
            self.first(),
            self.deadletter,
        )
        self.assertEqual(self.alpha.bodies(self.queue), [b"1", b"2"])
        self.assertEqual(self.transaction.operations, [])

    def test_received_and_moved(self) -> None:
        """The reader that holds a message may move it."""
        held = self.alpha.receive(self.queue)
        self.alpha.model.transacting.move(self.transaction, held[0], self.subqueue)
        self.alpha.commit(self.transaction)
        self.assertEqual(self.alpha.bodies(self.subqueue), [b"1"])

    def test_received_and_moved_out(self) -> None:
        """In a transaction not even its reader may move a message into a queue of the system."""
        held = self.alpha.receive(self.queue)
        move = self.alpha.model.transacting.move
        self.refused(Status.MQ_ERROR_TRANSACTION_USAGE, move, self.transaction, held[0], self.deadletter)
        self.assertEqual(self.transaction.operations, [])

    def test_target_stays(self) -> None:
        """The target is in use until the transaction has ended, and does not go although it is empty."""
        self.alpha.move_in(self.transaction, self.first(), self.subqueue)
        self.alpha.forget_empty(self.subqueue)
        self.assertFalse(self.subqueue.is_deleted)
        self.alpha.commit(self.transaction)
        self.assertEqual(self.subqueue.users, 0)


class SubqueueTests(MoveCase):
    """Reading 14."""

    def changes(self) -> list[Change]:
        """The last batch that was stored."""
        return list(self.alpha.store.done[-1])

    def test_made_when_it_is_named(self) -> None:
        """A subqueue is the same in any case, knows its parent, and has no journal.

        MQDMPR-3.1.7.1.3-03 MQDMPR-3.1.1.2-23
        """
        self.assertIs(self.alpha.subqueue(self.queue, "SUB"), self.subqueue)
        self.assertIsNot(self.alpha.subqueue(self.queue, "other"), self.subqueue)
        self.assertIs(self.subqueue.parent, self.queue)
        self.assertIsNone(self.subqueue.journal)
        self.assertIsNotNone(self.queue.journal)
        self.assertEqual(self.subqueue.definition.type, QueueType.PRIVATE)
        self.assertEqual(list(self.queue.subqueues), ["sub", "other"])
        self.assertEqual(list(self.alpha.model.queues()), [self.queue], "it is no queue of its own")

    def test_shares_what_its_parent_is(self) -> None:
        """Transactional or not, its quota and its journal are those of its parent."""
        self.queue = self.alpha.create("small", transactional=True, quota=1)
        self.subqueue = self.alpha.subqueue(self.queue)
        self.assertTrue(self.subqueue.definition.transactional)
        self.assertIs(self.subqueue.main, self.queue)
        self.alpha.put(self.queue, arriving(b"x" * 600, transactional=True))
        self.alpha.move(self.first(), self.subqueue)
        self.assertEqual((self.queue.total_bytes, self.queue.subqueue_bytes), (0, self.subqueue.total_bytes))
        [refusal] = self.alpha.put(self.queue, arriving(b"x" * 600, transactional=True)).refusals
        self.assertEqual(int(refusal.status), 1)
        self.alpha.confirm(self.alpha.receive(self.subqueue))
        self.assertEqual(self.queue.subqueue_bytes, 0)
        self.assertEqual(self.alpha.put(self.queue, arriving(b"x" * 600, transactional=True)).refusals, [])

    def test_where_there_is_none(self) -> None:
        """Subqueues, journals, queues of the system and outgoing queues have none."""
        assert self.queue.journal is not None
        outgoing = self.alpha.model.outgoing(parse_format_name("DIRECT=OS:beta\\q"), self.alpha.now)
        for queue in (self.subqueue, self.queue.journal, self.deadletter, outgoing):
            self.refused(Status.MQ_ERROR_ILLEGAL_FORMATNAME, self.alpha.subqueue, queue)
        for name in ("", "x" * (SUBQUEUE_LENGTH + 1)):
            self.refused(Status.MQ_ERROR_ILLEGAL_FORMATNAME, self.alpha.subqueue, self.queue, name)
        self.alpha.subqueue(self.queue, "x" * SUBQUEUE_LENGTH)
        self.alpha.delete(self.queue)
        self.refused(Status.MQ_ERROR_QUEUE_NOT_AVAILABLE, self.alpha.subqueue, self.queue, "late")

    def test_stored_with_its_first_message(self) -> None:
        """The store learns of a subqueue when there is something in it to keep."""
        self.assertFalse(self.subqueue.is_stored)
        self.alpha.put(self.queue, b"1", b"2")
        self.alpha.move(self.first(), self.subqueue)
        kinds = [type(change) for change in self.changes()]
        self.assertEqual(kinds[:2], [PutQueue, MoveMessage])
        self.alpha.move(self.first(), self.subqueue)
        self.assertNotIn(PutQueue, [type(change) for change in self.changes()])

    def test_not_stored_with_a_batch_that_fails(self) -> None:
        """The next batch has it again."""
        self.alpha.put(self.queue, b"1")
        self.alpha.store.fails = 1
        self.alpha.move(self.first(), self.subqueue)
        self.assertFalse(self.subqueue.is_stored)
        self.alpha.move(self.first(), self.subqueue)
        self.assertIn(PutQueue(self.subqueue.definition), self.changes())

    def test_goes_when_it_is_empty(self) -> None:
        """Without messages, waiting reads and open handles it is deleted, from the store as well."""
        self.alpha.put(self.queue, b"1")
        self.alpha.move(self.first(), self.subqueue)
        self.alpha.forget_empty(self.subqueue)
        self.assertIn("sub", self.queue.subqueues)
        self.alpha.confirm(self.alpha.receive(self.subqueue))
        self.subqueue.users += 1
        self.alpha.forget_empty(self.subqueue)
        self.assertIn("sub", self.queue.subqueues)
        self.subqueue.users -= 1
        waits = self.alpha.read(self.subqueue, wait=True)
        self.alpha.forget_empty(self.subqueue)
        self.assertIn("sub", self.queue.subqueues)
        self.alpha.perform(self.alpha.model.cancel(waits))
        self.alpha.forget_empty(self.subqueue)
        self.assertEqual(self.queue.subqueues, {})
        self.assertEqual(self.changes(), [RemoveQueue(self.subqueue.definition.identifier)])
        self.assertIsNot(self.alpha.subqueue(self.queue), self.subqueue)
        self.alpha.forget_empty(self.subqueue)
        self.assertIn("sub", self.queue.subqueues, "another of the same name is not concerned")

    def test_one_that_was_never_stored(self) -> None:
        """It goes without the store."""
        batches = len(self.alpha.store.done)
        self.alpha.forget_empty(self.subqueue)
        self.assertEqual((self.queue.subqueues, len(self.alpha.store.done)), ({}, batches))

    def test_other_queues_stay(self) -> None:
        """A queue that is empty is a queue."""
        assert self.queue.journal is not None
        for queue in (self.queue, self.queue.journal, self.deadletter):
            self.alpha.forget_empty(queue)
            self.assertFalse(queue.is_deleted)

    def test_deleted_with_its_parent(self) -> None:
        """Its messages have events as well, and all is gone, from the store too.

        MQDMPR-3.1.7.1.4-01 MQDMPR-3.1.7.1.4-03
        """
        self.alpha.put(self.queue, b"1", b"2", b"3")
        self.alpha.move(self.first(), self.subqueue)
        waits = self.alpha.read(self.alpha.subqueue(self.queue, "empty"), wait=True)
        self.alpha.delete(self.queue)
        self.assertIn(waits, self.alpha.reads)
        self.assertEqual(
            sorted(self.alpha.events),
            [("deleted", "private$\\orders")] * 2 + [("deleted", "private$\\orders;sub")],
        )
        self.assertEqual(list(self.alpha.model.queues()), [])
        self.assertEqual(self.alpha.store.contents.queues, {})
        self.assertEqual(self.alpha.store.contents.messages, {})
        self.assertEqual(self.alpha.model.storage.used, 0)

    def test_deleted_alone(self) -> None:
        """A subqueue can be deleted; its queue stays, and what it held is free."""
        self.alpha.put(self.queue, b"1", b"2")
        self.alpha.move(self.first(), self.subqueue)
        self.alpha.delete(self.subqueue)
        self.assertEqual(self.queue.subqueue_bytes, 0)
        self.assertEqual(self.alpha.bodies(self.queue), [b"2"])
        self.assertEqual(self.alpha.events, [("deleted", "private$\\orders;sub")])

    def test_made_again_while_it_is_deleted(self) -> None:
        """Messages in a new subqueue of the same name stay while the old one is being deleted."""
        self.alpha.put(self.queue, b"1", b"2", b"3", b"4")
        for _ in range(3):
            self.alpha.move(self.first(), self.subqueue)
        self.alpha.store.is_slow = True
        self.alpha.delete(self.subqueue, at_once=1)
        again = self.alpha.subqueue(self.queue)
        self.alpha.move(self.first(), again)
        self.alpha.store.drain()
        self.assertEqual(self.alpha.bodies(again), [b"4"])
        self.assertEqual(self.alpha.stored(again), [b"4"])

    def test_made_again_while_it_is_deleted_and_then_a_crash(self) -> None:
        """Undeleted messages are there again, with those moved since."""
        self.alpha.put(self.queue, b"1", b"2", b"3", b"4")
        for _ in range(3):
            self.alpha.move(self.first(), self.subqueue)
        self.alpha.store.is_slow = True
        self.alpha.delete(self.subqueue, at_once=1)
        self.alpha.move(self.first(), self.alpha.subqueue(self.queue))
        self.alpha.store.step()
        self.alpha.store.step()
        self.alpha = self.alpha.restart()
        self.alpha.store.is_slow = False
        names = [".\\private$\\orders;sub", ".\\private$\\orders;sub~"]
        found = [self.alpha.bodies(self.alpha.find(name)) for name in names]
        self.assertEqual(sorted(found), [[b"2", b"3"], [b"4"]])
        for name in names:
            self.alpha.delete(self.alpha.find(name))
        self.alpha.find(".\\private$\\orders")
