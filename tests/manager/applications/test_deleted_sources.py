"""Transactions that have received messages from a queue that is deleted before they are committed."""

from __future__ import annotations

from msmq.manager.applications.transaction_commits import PART
from msmq.manager.applications.transactions import TransactionHandle
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.manager.applications.test_transactions import TransactionTestCase, transactional
from tests.manager.support import ADMIN, ASK_ALL

DELETED = Status.MQ_ERROR_QUEUE_DELETED
COUNT = 2 * PART


class DeletedSourceTests(TransactionTestCase):
    """Each sender gets one final acknowledgement, and a commit counts no message as received that was
    reported as deleted.
    """

    def work(self, *, large: bool = False) -> TransactionHandle:
        """Receive from C{refunds}, then from C{payments}, and send to C{archive}."""
        self.archive = self.queue(self.alpha, "archive", transactional=True)
        self.put(self.refunds, b"kept", transactional=True)
        count = COUNT if large else 1
        sending = self.service.send(
            self.payments,
            transactional(
                *(b"%d" % number for number in range(count)), acknowledge=ASK_ALL, admin_queue=ADMIN
            ),
        )
        done = self.deferred(sending)
        self.clock.advance(0)
        self.successResultOf(done)
        self.answers()
        transaction = self.service.begin()
        self.take_in(transaction, self.refunds)
        self.run_to_end(self.service.reserve(self.payments, count=count, timeout=0, transaction=transaction))
        self.send_in(transaction, self.archive, b"result")
        return transaction

    def check_aborted(self, transaction: TransactionHandle, count: int = 1) -> None:
        """Nothing of it took effect, and the deletion alone was reported."""
        self.assertEqual(transaction.state, "aborted")
        self.assertEqual(self.service.inspection.transactions(), [])
        [message] = self.messages(self.refunds)
        self.assertEqual((bytes(message.view.body), message.aborts), (b"kept", 1))
        self.assertEqual(self.count(self.archive), 0)
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.NACK_Q_DELETED] * count)
        self.assertEqual([event.event for event in self.events()], ["deleted"] * count)
        self.assertEqual(self.service.inspection.status().messages, 1)
        self.restart(crash=True)
        self.assertEqual((self.seen(self.refunds), self.count(self.archive)), ([b"kept"], 0))
        self.assertEqual(self.service.inspection.status().messages, 1)

    def test_deleted_before_the_commit(self) -> None:
        """The commit is refused, and the transaction is aborted: the senders got NackQueueDeleted."""
        transaction = self.work()
        self.run_to_end(self.service.delete_queue(self.payments))
        error = self.refused(transaction.commit(), DELETED)
        self.assertIn("private$\\payments was deleted", str(error))
        self.check_aborted(transaction)

    def test_a_block(self) -> None:
        """A block that ends raises the same."""

        async def block() -> None:
            async with self.work() as self.transaction:
                await self.service.delete_queue(self.payments)

        self.refused(block(), DELETED)
        self.check_aborted(self.transaction)

    def test_prepared(self) -> None:
        """A prepared transaction commits: its coordinator relies on that, and others have committed."""
        transaction = self.work()
        transactions = self.alpha.model.transacting.transactions
        transactions.prepare(transaction.core)
        self.run_to_end(self.service.delete_queue(self.payments))
        self.run_to_end(transaction.commit())
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.NACK_Q_DELETED])
        self.restart(crash=True)
        self.assertEqual((self.seen(self.refunds), self.seen(self.archive)), ([], [b"result"]))
        self.assertEqual(self.service.inspection.status().messages, 1)

    def test_not_prepared(self) -> None:
        """A transaction whose commit would be refused cannot be prepared."""
        transaction = self.work()
        self.run_to_end(self.service.delete_queue(self.payments))
        transactions = self.alpha.model.transacting.transactions
        error = self.assertRaises(MQError, transactions.prepare, transaction.core)
        self.assertEqual((error.status, transaction.state), (DELETED, "active"))
        self.run_to_end(transaction.abort())
        self.check_aborted(transaction)

    def test_while_the_deletion_is_stored(self) -> None:
        """The commit is refused from the moment in which the queue disappears."""
        transaction = self.work()
        self.store.is_slow = True
        deleting = self.deferred(self.service.delete_queue(self.payments))
        committing = self.deferred(transaction.commit())
        self.store.catch_up()
        self.assertIs(self.failureResultOf(committing, MQError).value.status, DELETED)
        self.successResultOf(deleting)
        self.check_aborted(transaction)

    def test_after_a_failed_commit(self) -> None:
        """A commit that was not stored can be repeated, but not when the queue was deleted meanwhile."""
        transaction = self.work()
        self.store.is_slow = True
        committing = self.deferred(transaction.commit())
        deleting = self.deferred(self.service.delete_queue(self.payments))
        self.store.fail_commit(1)
        self.store.catch_up()
        self.successResultOf(deleting)
        self.assertIsNot(self.failureResultOf(committing, MQError).value.status, DELETED)
        self.assertEqual(transaction.state, "active")
        self.refused(transaction.commit(), DELETED)
        self.check_aborted(transaction)

    def test_after_the_first_part(self) -> None:
        """A queue that is deleted after the first part of a commit has the whole commit refused."""
        self.delete_after(0)

    def test_before_the_last_part(self) -> None:
        """The same if only the last of its messages were reported as deleted so far."""
        self.delete_after(1)

    def delete_after(self, steps: int) -> None:
        """Delete the queue this number of iterations of the reactor after the first part."""
        transaction = self.work(large=True)
        committing = self.deferred(transaction.commit())
        deleting = self.deferred(self.delete_in(steps, self.payments))
        self.assertEqual((transaction.state, committing.called), ("committing", False))
        self.clock.advance(5)
        self.assertIs(self.failureResultOf(committing, MQError).value.status, DELETED)
        self.successResultOf(deleting)
        self.check_aborted(transaction, COUNT)

    def test_while_another_is_prepared(self) -> None:
        """A commit that waits for a larger one is refused when the queue is deleted meanwhile."""
        transaction = self.work()
        large, queue = self.service.begin(), self.queue(self.alpha, "large", transactional=True)
        self.send_in(large, queue, *(b"x" for _ in range(2 * PART)))
        first, second = self.deferred(large.commit()), self.deferred(transaction.commit())
        self.assertFalse(second.called)
        deleting = self.deferred(self.service.delete_queue(self.payments))
        self.clock.advance(5)
        self.successResultOf(first)
        self.successResultOf(deleting)
        self.assertIs(self.failureResultOf(second, MQError).value.status, DELETED)
        self.run_to_end(self.service.purge_queue(queue))
        self.assertEqual(transaction.state, "aborted")
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.NACK_Q_DELETED])
