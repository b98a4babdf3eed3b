"""Moves in transactions, out of queues that are purged or deleted meanwhile, and crashes after that."""

from __future__ import annotations

from msmq.manager.applications.transactions import TransactionHandle
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.manager.support import ASK_ALL, ManagerTestCase


class MovesMeanwhileTests(ManagerTestCase):
    """A commit that was answered is not undone: a message that cannot move any more is removed, with an
    event.
    """

    limits = {"packet_memory": 0}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        [self.identifier, _] = self.put(self.payments, b"1", b"2", acknowledge=ASK_ALL)
        self.answers()

    def move(self) -> TransactionHandle:
        """Move one of the messages in a transaction."""
        transaction = self.service.begin()
        target = f"{self.payments};done"
        self.run_to_end(self.service.move(self.identifier, target, transaction=transaction))
        return transaction

    def reported(self, identifier: MessageIdentifier) -> list[str]:
        """The events of a message."""
        return [event.event for event in self.run_to_end(self.service.inspection.explain(identifier)).events]

    def crash_after(self, transaction: TransactionHandle) -> None:
        """Commit on a store that is slow already, and crash in the moment in which that is answered."""
        committing = self.deferred(transaction.commit())
        while not committing.called:
            self.store.finish(1)
        self.successResultOf(committing)
        self.restart(crash=True)
        self.clock.advance(1)

    def test_deleted(self) -> None:
        """A message whose queue is being deleted is removed, with an event that names it."""
        transaction = self.move()
        self.store.is_slow = True
        deleting = self.deferred(self.service.delete_queue(self.payments))
        deleting.addErrback(lambda failure: None)
        self.crash_after(transaction)
        self.assertEqual(self.seen(f"{self.payments};done"), [])
        self.assertNotIn(b"1", self.seen(self.payments))
        self.assertEqual(self.reported(self.identifier), ["deleted"])

    def test_deleted_a_moment_ago(self) -> None:
        """The same if the deletion has come to it, and the store has not."""
        for steps in range(6):
            with self.subTest(steps=steps):
                [self.identifier] = self.put(self.payments, b"3")
                transaction = self.move()
                self.store.is_slow = True
                deleting = self.deferred(self.service.delete_queue(self.payments))
                deleting.addErrback(lambda failure: None)
                self.store.finish(steps)
                self.crash_after(transaction)
                self.assertEqual(self.reported(self.identifier), ["deleted"])
                if any(queue.path == self.payments for queue in self.service.inspection.queues()):
                    self.run_to_end(self.service.delete_queue(self.payments))
                self.payments = self.queue(self.alpha, "payments", transactional=True)

    def test_deleted_long_ago(self) -> None:
        """It has one event, whenever the transaction ends."""
        transaction = self.move()
        self.run_to_end(self.service.delete_queue(self.payments))
        self.run_to_end(transaction.commit())
        self.assertEqual(transaction.state, "committed")
        self.assertEqual(self.reported(self.identifier), ["deleted"])
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.NACK_Q_DELETED] * 2)
        self.assertEqual(self.service.inspection.status().messages, 0)

    def test_purged(self) -> None:
        """A message whose queue is being purged is removed, with an event that names it."""
        transaction = self.move()
        self.store.is_slow = True
        purging = self.deferred(self.service.purge_queue(self.payments))
        purging.addErrback(lambda failure: None)
        self.store.finish(2)
        self.crash_after(transaction)
        self.assertEqual((self.seen(self.payments), self.seen(f"{self.payments};done")), ([], []))
        self.assertEqual(self.reported(self.identifier), ["purged"])

    def test_the_store_fails(self) -> None:
        """The commit fails with an error, and may be repeated; the message is deleted with its queue
        all the same.
        """
        transaction = self.move()
        self.store.break_down()
        self.refused(self.service.delete_queue(self.payments), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.refused(transaction.commit(), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.store.recover()
        self.clock.advance(100)
        self.assertEqual(transaction.state, "active")
        self.run_to_end(transaction.commit())
        self.assertEqual(self.reported(self.identifier), ["deleted"])
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.NACK_Q_DELETED] * 2)
        self.assertEqual(self.service.inspection.status().messages, 0)

    def test_the_store_fails_at_the_commit(self) -> None:
        """The same if the store fails when the commit lets the message go."""
        transaction = self.move()
        self.store.is_slow = True
        deleting = self.deferred(self.service.delete_queue(self.payments))
        committing = self.deferred(transaction.commit())
        self.store.break_down()
        self.store.catch_up()
        self.failureResultOf(committing, MQError)
        self.failureResultOf(deleting, MQError)
        self.store.recover()
        self.clock.advance(100)
        self.run_to_end(transaction.commit())
        self.assertEqual(self.reported(self.identifier), ["deleted"])
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.NACK_Q_DELETED] * 2)
        self.assertEqual(self.service.inspection.status().messages, 0)


class PurgedAndDeletedTests(ManagerTestCase):
    """A queue that is deleted while it is purged."""

    def test_the_rest_was_not_purged(self) -> None:
        """The purge fails with an error, since the rest is not removed before the deletion is done."""
        self.put(self.orders, *(b"%d" % number for number in range(300)))
        purging = self.deferred(self.service.purge_queue(self.orders))
        self.assertNoResult(purging)
        self.store.is_slow = True
        deleting = self.deferred(self.service.delete_queue(self.orders))
        self.clock.advance(0)
        error: MQError = self.failureResultOf(purging, MQError).value
        self.assertEqual(error.status, Status.MQ_ERROR_QUEUE_DELETED)
        self.store.catch_up()
        self.clock.advance(1)
        self.successResultOf(deleting)
        self.assertEqual(len({event.identity for event in self.events()}), 300)
