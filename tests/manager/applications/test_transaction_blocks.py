"""Blocks of a transaction that end it themselves, or whose transaction is ended by another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msmq.interfaces import ITransaction
from msmq.queues.arriving.message import Message
from msmq.structures.status import Status
from tests.manager.applications.test_transactions import TransactionTestCase


class BlockTests(TransactionTestCase):
    async def block(self, end: Callable[[ITransaction], Awaitable[object]]) -> None:
        """A block that sends a message, and ends its transaction."""
        async with self.service.begin() as transaction:
            message = Message(body=b"1", transactional=True)
            await self.service.send(self.payments, [message], transaction=transaction)
            await end(transaction)

    def test_aborted_in_the_block(self) -> None:
        """The block ends without an error, and nothing is sent."""
        self.run_to_end(self.block(lambda transaction: transaction.abort()))
        self.assertEqual((self.seen(self.payments), self.service.inspection.transactions()), ([], []))

    def test_committed_in_the_block(self) -> None:
        """The block ends without an error, and the message is sent."""
        self.run_to_end(self.block(lambda transaction: transaction.commit()))
        self.assertEqual((self.seen(self.payments), self.service.inspection.transactions()), ([b"1"], []))

    def test_aborted_by_an_operator(self) -> None:
        """The block fails, since what it has done does not take effect."""

        def abort(transaction: ITransaction) -> Awaitable[object]:
            return self.service.abort_transaction(transaction.identifier)

        self.refused(self.block(abort), Status.MQ_ERROR_TRANSACTION_SEQUENCE)
        self.assertEqual(self.seen(self.payments), [])
