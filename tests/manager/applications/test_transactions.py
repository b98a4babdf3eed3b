"""Transactions of applications: all or nothing, under any concurrent event."""

from __future__ import annotations

import uuid
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.task import deferLater

from msmq.manager.applications.transactions import TransactionHandle
from msmq.queues.arriving.message import Message
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.manager.support import ADMIN, ASK_ALL, BROKEN, FULL, ManagerTestCase


def transactional(*bodies: bytes, **properties: Any) -> list[Message]:
    return [Message(body=body, transactional=True, **properties) for body in bodies]


class TransactionTestCase(ManagerTestCase):
    """One more transactional queue, C{refunds}."""

    def setUp(self) -> None:
        super().setUp()
        self.refunds = self.queue(self.alpha, "refunds", transactional=True)

    def send_in(self, transaction: TransactionHandle, queue: str, *bodies: bytes, **properties: Any) -> None:
        """Send in a transaction."""
        messages = transactional(*bodies, **properties)
        self.run_to_end(self.service.send(queue, messages, transaction=transaction))

    def take_in(self, transaction: TransactionHandle, queue: str) -> bytes:
        """Receive in a transaction what is there."""
        view = self.run_to_end(self.service.receive(queue, timeout=0, transaction=transaction))
        return bytes(view.body)

    async def delete_in(self, turns: int, queue: str) -> None:
        """Delete a queue after this number of iterations of the reactor."""
        for _ in range(turns):
            await deferLater(self.clock.reactor, 0)
        await self.service.delete_queue(queue)


class CommitTests(TransactionTestCase):
    """L{TransactionHandle.commit}."""

    def test_all_at_once(self) -> None:
        """No message is visible before the commit; after it all are there, and stay over a crash."""
        self.put(self.payments, b"1", b"2")
        transaction = self.service.begin()
        self.assertEqual(self.take_in(transaction, self.payments), b"1")
        self.send_in(transaction, self.payments, b"3")
        self.send_in(transaction, self.refunds, b"4", b"5")
        self.assertEqual((self.seen(self.payments), self.seen(self.refunds)), ([b"2"], []))
        self.run_to_end(transaction.commit())
        self.assertEqual(transaction.state, "committed")
        self.assertEqual((self.seen(self.payments), self.seen(self.refunds)), ([b"2", b"3"], [b"4", b"5"]))
        self.restart(crash=True)
        self.assertEqual((self.seen(self.payments), self.seen(self.refunds)), ([b"2", b"3"], [b"4", b"5"]))

    def test_crash_before_it(self) -> None:
        """A crash aborts: nothing was sent, and what was received is there."""
        self.put(self.payments, b"1")
        transaction = self.service.begin()
        self.take_in(transaction, self.payments)
        self.send_in(transaction, self.refunds, b"2")
        self.restart(crash=True)
        self.assertEqual((self.seen(self.payments), self.seen(self.refunds)), ([b"1"], []))

    def test_block(self) -> None:
        """A block commits when it ends."""

        async def work() -> None:
            async with self.service.begin() as transaction:
                await self.service.send(self.payments, transactional(b"1"), transaction=transaction)

        self.run_to_end(work())
        self.assertEqual((self.seen(self.payments), self.service.inspection.transactions()), ([b"1"], []))

    def test_ended(self) -> None:
        """It ends once; nothing more is taken after that."""
        transaction = self.service.begin()
        self.run_to_end(transaction.commit())
        for work in (
            transaction.commit(),
            transaction.abort(),
            self.service.send(self.payments, transactional(b"1"), transaction=transaction),
            self.service.receive(self.payments, timeout=0, transaction=transaction),
            self.service.abort_transaction(transaction.identifier),
        ):
            self.refused(work, Status.MQ_ERROR_TRANSACTION_SEQUENCE)
        self.refused(self.service.abort_transaction(uuid.UUID(int=7)), Status.MQ_ERROR_TRANSACTION_SEQUENCE)

    def test_acknowledgements(self) -> None:
        """They are sent with the commit, and not before it."""
        self.put(self.payments, b"1", acknowledge=ASK_ALL)
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.ACK_REACH_QUEUE])
        transaction = self.service.begin()
        self.take_in(transaction, self.payments)
        self.send_in(
            transaction,
            self.refunds,
            b"2",
            acknowledge=ASK_ALL,
            admin_queue=ADMIN,
        )
        self.assertEqual(self.answers(), [])
        self.run_to_end(transaction.commit())
        self.assertEqual(
            [name for name, _ in self.answers()], [MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE]
        )

    def test_numbers_do_not_come_again(self) -> None:
        """The identifiers of messages that were never committed are not those of others in the next life."""
        given = set()
        for _ in range(5):
            transaction = self.service.begin()
            messages = transactional(b"1", b"2")
            given |= set(self.run_to_end(self.service.send(self.payments, messages, transaction=transaction)))
            self.restart(crash=True)
        self.assertEqual(len(given), 10)

    def test_wrong_kinds(self) -> None:
        """A transaction sends transactional messages, and reads queues for such alone."""
        self.put(self.orders, b"plain")
        transaction = self.service.begin()
        usage = Status.MQ_ERROR_TRANSACTION_USAGE
        self.refused(self.service.send(self.orders, [Message(body=b"plain")], transaction=transaction), usage)
        self.refused(self.service.send(self.payments, [Message(body=b"plain")]), usage)
        self.refused(self.service.send(self.orders, transactional(b"1")), usage)
        self.refused(self.service.receive(self.orders, timeout=0, transaction=transaction), usage)
        self.refused(self.service.send(self.payments, [*transactional(b"1"), Message(body=b"plain")]), usage)
        self.assertEqual(transaction.state, "active")


class FailingStoreTests(TransactionTestCase):
    """The store cannot take a commit."""

    def begin_work(self) -> TransactionHandle:
        """A transaction that receives, sends and moves."""
        self.put(self.payments, b"1", b"2")
        transaction = self.service.begin()
        self.take_in(transaction, self.payments)
        [moved] = self.put(self.payments, b"3")
        self.run_to_end(self.service.move(moved, f"{self.payments};done", transaction=transaction))
        self.send_in(transaction, self.refunds, b"4")
        return transaction

    def test_commit_again(self) -> None:
        """The transaction is as it was, so it can be committed once the store works."""
        for error, status in (
            (BROKEN, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED),
            (FULL, Status.MQ_ERROR_INSUFFICIENT_RESOURCES),
        ):
            transaction = self.begin_work()
            self.store.break_down(error)
            self.refused(transaction.commit(), status)
            self.assertEqual(transaction.state, "active")
            self.assertEqual((self.seen(self.payments), self.seen(self.refunds)), ([b"2"], []))
            self.store.recover()
            self.run_to_end(transaction.commit())
            self.assertEqual(self.bodies(self.alpha, self.payments), [b"2"])
            self.assertEqual(self.bodies(self.alpha, self.refunds), [b"4"])
            self.assertEqual(self.seen(f"{self.payments};done"), [b"3"])
            self.run_to_end(self.service.purge_queue(f"{self.payments};done"))
            self.clock.advance(10)

    def test_abort_instead(self) -> None:
        """It can be aborted as well: everything is back where it was."""
        transaction = self.begin_work()
        self.store.fail_commit(1)
        self.refused(transaction.commit(), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.run_to_end(transaction.abort())
        self.assertEqual((self.seen(self.payments), self.seen(self.refunds)), ([b"1", b"2", b"3"], []))
        self.restart(crash=True)
        self.assertEqual((self.seen(self.payments), self.seen(self.refunds)), ([b"1", b"2", b"3"], []))

    def test_block(self) -> None:
        """A block whose commit fails has aborted."""
        self.put(self.payments, b"1")

        async def work() -> None:
            async with self.service.begin() as transaction:
                await self.service.receive(self.payments, timeout=0, transaction=transaction)
                self.store.fail_commit(1)

        self.refused(work(), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.assertEqual((self.seen(self.payments), self.service.inspection.transactions()), ([b"1"], []))

    def test_one_of_its_own(self) -> None:
        """Transactional messages that are sent without a transaction leave none behind."""
        self.store.fail_commit(1, FULL)
        sending = self.service.send(self.payments, transactional(b"1", b"2"))
        self.refused(sending, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        self.assertEqual((self.count(self.payments), self.service.inspection.transactions()), (0, []))

    def test_queue_deleted_meanwhile(self) -> None:
        """Messages of a queue that was deleted during the commit have events, whether the commit is stored or
        not.
        """
        for is_broken in (False, True):
            [identifier] = self.put(self.payments, b"1", acknowledge=ASK_ALL)
            transaction = self.service.begin()
            self.take_in(transaction, self.payments)
            self.answers()
            self.store.is_slow = True
            committing = self.deferred(transaction.commit())
            deleting = self.deferred(self.service.delete_queue(self.payments))
            if is_broken:
                self.store.fail_commit(1)
            self.store.catch_up()
            self.successResultOf(deleting)
            if is_broken:
                self.failureResultOf(committing, MQError)
                self.run_to_end(transaction.abort())
            else:
                self.successResultOf(committing)
            explanation = self.run_to_end(self.service.inspection.explain(identifier))
            self.assertEqual(explanation.places, [])
            names = [name for name, _ in self.answers()]
            if is_broken:
                self.assertEqual(names, [MessageClass.NACK_Q_DELETED])
                self.assertEqual([event.event for event in explanation.events], ["deleted"])
            else:
                self.assertEqual(names, [MessageClass.ACK_RECEIVE])
                self.assertEqual(explanation.events, [])
            self.assertEqual(self.service.inspection.status().messages, 0)
            self.payments = self.queue(self.alpha, "payments", transactional=True)


class AbortTests(TransactionTestCase):
    """L{TransactionHandle.abort}."""

    def test_everything_is_back(self) -> None:
        """Received messages are back at their positions, with an abort counted; sent ones never existed."""
        self.put(self.payments, b"1", b"2", b"3")
        transaction = self.service.begin()
        self.take_in(transaction, self.payments)
        self.take_in(transaction, self.payments)
        self.send_in(transaction, self.refunds, b"4")
        self.run_to_end(transaction.abort())
        self.assertEqual((transaction.state, self.count(self.refunds)), ("aborted", 0))
        messages = self.messages(self.payments)
        self.assertEqual([bytes(each.view.body) for each in messages], [b"1", b"2", b"3"])
        self.assertEqual([each.aborts for each in messages], [1, 1, 0])

    def test_block_that_raises(self) -> None:
        """A block that raises aborts, and what it raised goes on."""
        self.put(self.payments, b"1")

        async def work() -> None:
            async with self.service.begin() as transaction:
                await self.service.receive(self.payments, timeout=0, transaction=transaction)
                raise ZeroDivisionError

        self.failureResultOf(self.deferred(work()), ZeroDivisionError)
        self.assertEqual((self.seen(self.payments), self.service.inspection.transactions()), ([b"1"], []))

    def test_by_an_administrator(self) -> None:
        """Its owner gets an error at its next operation."""
        self.put(self.payments, b"1")
        transaction = self.service.begin()
        self.take_in(transaction, self.payments)
        [shown] = self.service.inspection.transactions()
        self.assertEqual((shown.received, shown.sent, shown.state), (1, 0, "active"))
        [message] = self.service.inspection.transaction(transaction.identifier).messages
        self.assertEqual((message.operation, message.queue), ("receive", self.payments))
        self.run_to_end(self.service.abort_transaction(transaction.identifier))
        self.assertEqual(self.seen(self.payments), [b"1"])
        self.refused(transaction.commit(), Status.MQ_ERROR_TRANSACTION_SEQUENCE)

    def test_not_while_it_commits(self) -> None:
        """A commit that is being stored cannot be aborted any more."""
        self.put(self.payments, b"1")
        transaction = self.service.begin()
        self.take_in(transaction, self.payments)
        self.store.is_slow = True
        committing = self.deferred(transaction.commit())
        for work in (
            transaction.abort(),
            transaction.commit(),
            self.service.abort_transaction(transaction.identifier),
        ):
            self.refused(work, Status.MQ_ERROR_TRANSACTION_SEQUENCE)
        self.store.catch_up()
        self.successResultOf(committing)
        self.assertEqual(self.count(self.payments), 0)

    def test_the_store_fails(self) -> None:
        """An abort needs no store: only the count of it is missing after a restart."""
        self.put(self.payments, b"1")
        transaction = self.service.begin()
        self.take_in(transaction, self.payments)
        self.store.break_down()
        self.run_to_end(transaction.abort())
        self.assertEqual([each.aborts for each in self.messages(self.payments)], [1])
        self.store.recover()
        self.restart()
        self.assertEqual([each.aborts for each in self.messages(self.payments)], [0])


class TwoTransactionsTests(TransactionTestCase):
    """Two transactions on one queue."""

    def test_each_gets_its_own(self) -> None:
        """No message is in both; what one returns the other gets next, before what is behind it."""
        self.put(self.payments, b"1", b"2", b"3")
        first, second = self.service.begin(), self.service.begin()
        self.assertEqual(self.take_in(first, self.payments), b"1")
        self.assertEqual(self.take_in(second, self.payments), b"2")
        self.run_to_end(first.abort())
        self.assertEqual(self.take_in(second, self.payments), b"1")
        self.run_to_end(second.commit())
        self.assertEqual(self.seen(self.payments), [b"3"])

    def test_concurrent_commits(self) -> None:
        """They do not wait for each other, and each is whole."""
        self.put(self.payments, b"1", b"2")
        first, second = self.service.begin(), self.service.begin()
        self.take_in(first, self.payments)
        self.take_in(second, self.payments)
        self.send_in(first, self.refunds, b"of the first")
        self.send_in(second, self.refunds, b"of the second")
        self.store.is_slow = True
        both = [self.deferred(second.commit()), self.deferred(first.commit())]
        self.store.fail_commit(1)
        self.store.catch_up()
        self.failureResultOf(both[0], MQError)
        self.successResultOf(both[1])
        self.assertEqual(self.seen(self.refunds), [b"of the first"])
        self.run_to_end(second.commit())
        self.assertEqual(self.seen(self.refunds), [b"of the first", b"of the second"])


class WaitingTests(TransactionTestCase):
    """Reads that wait in a transaction."""

    def test_the_transaction_ends(self) -> None:
        """Such a read ends with its transaction, and the message that comes then is for others."""
        for end in (TransactionHandle.commit, TransactionHandle.abort):
            transaction = self.service.begin()
            waiting = self.deferred(self.service.receive(self.payments, transaction=transaction))
            other = self.deferred(self.service.receive(self.payments))
            self.assertNoResult(waiting)
            self.run_to_end(end(transaction))
            failure = self.failureResultOf(waiting, MQError)
            self.assertEqual(failure.value.status, Status.MQ_ERROR_TRANSACTION_SEQUENCE)
            self.put(self.payments, b"1")
            self.assertEqual(bytes(self.successResultOf(other).body), b"1")

    def test_a_message_comes_during_the_commit(self) -> None:
        """It is not for a transaction that is ending."""
        transaction = self.service.begin()
        self.send_in(transaction, self.refunds, b"1")
        waiting = self.deferred(self.service.receive(self.payments, transaction=transaction))
        self.store.is_slow = True
        sending = self.deferred(self.service.send(self.payments, transactional(b"2")))
        committing = self.deferred(transaction.commit())
        self.store.catch_up()
        self.successResultOf(committing)
        self.successResultOf(sending)
        failure = self.failureResultOf(waiting, MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_TRANSACTION_SEQUENCE)
        self.assertEqual(self.seen(self.payments), [b"2"])

    def test_it_finds_a_message(self) -> None:
        """The message is the transaction's from the moment in which it comes."""
        transaction = self.service.begin()
        waiting = self.deferred(self.service.receive(self.payments, transaction=transaction))
        self.put(self.payments, b"1")
        self.assertEqual(bytes(self.successResultOf(waiting).body), b"1")
        self.assertEqual(self.seen(self.payments), [])
        self.run_to_end(transaction.abort())
        self.assertEqual(self.seen(self.payments), [b"1"])


class UnreadPacketTests(TransactionTestCase):
    """A message that a transaction has found, and whose packet cannot be loaded from the store."""

    limits = {"packet_memory": 0}  # noqa: RUF012

    def test_it_cannot_be_read(self) -> None:
        """It was not received, so it does not belong to the transaction."""
        self.put(self.payments, b"1", b"2")
        transaction = self.service.begin()
        self.assertEqual(self.take_in(transaction, self.payments), b"1")
        self.store.unreadable = BROKEN
        receiving = self.service.receive(self.payments, timeout=0, transaction=transaction)
        self.refused(receiving, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.store.recover()
        self.run_to_end(transaction.commit())
        [message] = self.messages(self.payments)
        self.assertEqual((bytes(message.view.body), message.aborts), (b"2", 0))

    def test_cancelled_reads(self) -> None:
        """A read that is cancelled while the packet is loaded has received nothing."""
        self.put(self.payments, b"1")
        transaction = self.service.begin()
        self.store.is_slow = True
        receiving = self.deferred(self.service.receive(self.payments, timeout=0, transaction=transaction))
        receiving.cancel()
        self.failureResultOf(receiving, CancelledError)
        self.store.catch_up()
        self.run_to_end(transaction.commit())
        self.assertEqual(self.seen(self.payments), [b"1"])

    def test_the_transaction_ends_meanwhile(self) -> None:
        """A message returned by an abort is not held by a read that was loading it."""
        self.put(self.payments, b"1")
        transaction = self.service.begin()
        self.store.is_slow = True
        receiving = self.deferred(self.service.receive(self.payments, timeout=0, transaction=transaction))
        aborting = self.deferred(transaction.abort())
        receiving.cancel()
        self.store.catch_up()
        self.successResultOf(aborting)
        self.failureResultOf(receiving, CancelledError)
        self.assertEqual(self.seen(self.payments), [b"1"])

    def test_acknowledged_all_the_same(self) -> None:
        """The receipt is acknowledged, though the packet was not kept in memory."""
        self.put(self.payments, b"1", acknowledge=ASK_ALL)
        transaction = self.service.begin()
        self.take_in(transaction, self.payments)
        self.run_to_end(transaction.commit())
        self.assertEqual(
            [name for name, _ in self.answers()], [MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE]
        )


class CancelledTests(TransactionTestCase):
    """Callers that wait for a commit cancel."""

    def test_commit(self) -> None:
        """The commit goes on to its end, and is not done twice."""
        self.put(self.payments, b"1")
        transaction = self.service.begin()
        self.take_in(transaction, self.payments)
        self.store.is_slow = True
        committing = self.deferred(transaction.commit())
        committing.cancel()
        self.failureResultOf(committing, CancelledError)
        self.store.catch_up()
        self.assertEqual((transaction.state, self.count(self.payments)), ("committed", 0))

    def test_block_whose_commit_fails_then(self) -> None:
        """No caller is left to decide, so it is aborted."""
        self.put(self.payments, b"1")

        async def work() -> None:
            async with self.service.begin() as transaction:
                await self.service.receive(self.payments, timeout=0, transaction=transaction)
                self.store.is_slow = True

        working = self.deferred(work())
        working.cancel()
        self.failureResultOf(working, CancelledError)
        self.store.fail_commit(1)
        self.store.catch_up()
        self.assertEqual((self.seen(self.payments), self.service.inspection.transactions()), ([b"1"], []))

    def test_block_that_waits(self) -> None:
        """A block that is cancelled where it waits has aborted."""

        async def work() -> None:
            async with self.service.begin() as transaction:
                await self.service.send(self.refunds, transactional(b"1"), transaction=transaction)
                await self.service.receive(self.payments, transaction=transaction)

        working = self.deferred(work())
        working.cancel()
        self.failureResultOf(working, CancelledError)
        self.assertEqual((self.count(self.refunds), self.service.inspection.transactions()), (0, []))


class StopTests(TransactionTestCase):
    """The queue manager stops while transactions are open."""

    def test_they_are_aborted(self) -> None:
        """After the restart they are unknown; their owners get an error."""
        self.put(self.payments, b"1")
        transaction = self.service.begin()
        self.take_in(transaction, self.payments)
        self.send_in(transaction, self.refunds, b"2")
        waiting = self.deferred(self.service.receive(self.refunds, transaction=transaction))
        self.restart()
        failure = self.failureResultOf(waiting, MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)
        self.refused(transaction.commit(), Status.MQ_ERROR_SERVICE_NOT_AVAILABLE)
        self.run_to_end(transaction.abort())
        self.assertEqual((self.seen(self.payments), self.seen(self.refunds)), ([b"1"], []))

    def test_a_pending_commit(self) -> None:
        """A commit in progress is completed before the store closes."""
        self.put(self.payments, b"1")
        transaction = self.service.begin()
        self.take_in(transaction, self.payments)
        self.store.is_slow = True
        committing = self.deferred(transaction.commit())
        self.restart()
        self.successResultOf(committing)
        self.assertEqual(self.seen(self.payments), [])
