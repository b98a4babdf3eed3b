"""Messages that applications send, in a transaction of theirs or without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from msmq.interfaces.queue_manager import ITransaction
from msmq.manager.outbox import Outbox
from msmq.manager.public_names import UnknownPublicQueue
from msmq.manager.targets import Target
from msmq.manager.transactions import Transactions
from msmq.queues.message import Message
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError, Status


class Sender:
    """[MS-MQDMPR] 3.1.7.1.9 Enqueue Message, as applications call it."""

    def __init__(
        self,
        identifier: UUID,
        outbox: Outbox,
        transactions: Transactions,
        new_identifier: Callable[[], UUID],
    ) -> None:
        """Send as a queue manager.

        @param identifier: its own.
        @param new_identifier: makes those of transactions.
        """
        self._identifier = identifier
        self._outbox = outbox
        self._transactions = transactions
        self._new_identifier = new_identifier

    async def send(
        self, targets: Sequence[Target], messages: Sequence[Message], transaction: ITransaction | None
    ) -> list[MessageIdentifier]:
        """Take these messages for each target, all or none, and answer one identifier each.

        @raise MQError: as L{Outbox.check} and L{Outbox.put}; MQ_ERROR_TRANSACTION_USAGE if some are
            transactional and others not, or if the transaction is to send one that is not.
        """
        self._outbox.check(messages, targets)
        kinds = {message.transactional for message in messages}
        if transaction is not None:
            if False in kinds:
                raise MQError(
                    Status.MQ_ERROR_TRANSACTION_USAGE, "only transactional messages are sent in a transaction"
                )
            first = await self._outbox.send_in_open(self._transactions.core(transaction), targets, messages)
        elif True not in kinds:
            first = await self._outbox.put(targets, messages)
        elif False in kinds:
            raise MQError(
                Status.MQ_ERROR_TRANSACTION_USAGE, "transactional messages and others are not sent together"
            )
        else:
            first = await self._send_in_one(targets, messages)
        return [MessageIdentifier(self._identifier, number) for number in range(first, first + len(messages))]

    async def learn(self, unknown: UnknownPublicQueue) -> None:
        """Have a public queue looked for in the directory.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_NO_DS if there is no directory or it is away.
        """
        if self._outbox.learn is None:
            raise unknown
        await self._outbox.learn(unknown.name)

    async def _send_in_one(self, targets: Sequence[Target], messages: Sequence[Message]) -> int:
        async with self._transactions.begin(self._new_identifier()) as transaction:
            return self._outbox.send_in(transaction.core, targets, messages)
