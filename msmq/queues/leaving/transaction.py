"""[MS-MQDMPR] 3.1.1.14 Transaction and 3.1.1.13 TransactionalOperation, with 3.1.4.3 to 3.1.4.5.

Until it is committed a transaction exists in memory alone: what it sends is in its queue and what it
receives or moves is locked, but the store knows of nothing.
Its commit is one batch of the store; whatever happens before that is stored has aborted it (readings 9,
47 and 49).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from msmq.persistence.changes import Change
from msmq.queues.leaving.departure_kinds import Departure, Removal
from msmq.queues.leaving.relocation import Relocation
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.status import MQError, Status


class TransactionState(enum.Enum):
    """Where a transaction stands.

    ACTIVE: takes more operations.
    PREPARED: takes none; commit and abort are open.
    COMMITTING: its batch is being stored.
    COMMITTED, ABORTED: it has ended.
    """

    ACTIVE = "active"
    PREPARED = "prepared"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTED = "aborted"


@attrs.frozen
class Enqueue:
    """A message that is sent when the transaction commits."""

    position: MessagePosition


@attrs.frozen
class Dequeue:
    """A message that is received when the transaction commits."""

    position: MessagePosition


@attrs.frozen
class Move:
    """A message that is moved to another queue when the transaction commits."""

    position: MessagePosition
    target: Queue


Operation: TypeAlias = Enqueue | Dequeue | Move


@attrs.define
class Uncommitted:
    """What transactions have sent to one queue and not committed yet.

    @ivar size: the bytes of the packets.
    """

    messages: int = 0
    size: int = 0


NOTHING_UNCOMMITTED: Final = Uncommitted()


@attrs.define(eq=False)
class Transaction:
    """[MS-MQDMPR] 3.1.1.14 Transaction, an internal one (SinglePhase): there is one resource manager, us.

    @ivar identifier: TransactionIdentifier.
    @ivar began: when, seconds since 1970-01-01 UTC.
    @ivar operations: TransactionalOperationCollection, in the order in which they were asked for.
    @ivar uncommitted: how much of what it sends is in each queue.
    """

    identifier: UUID
    began: float
    state: TransactionState = TransactionState.ACTIVE
    operations: list[Operation] = attrs.field(factory=list, repr=False)
    uncommitted: dict[Queue, Uncommitted] = attrs.field(factory=dict, init=False, repr=False)

    def add_sent(self, positions: Sequence[MessagePosition]) -> None:
        """These messages, which are in their queues, are sent when it commits."""
        self.operations += map(Enqueue, positions)
        for position in positions:
            counted = self.uncommitted.get(position.queue)
            if counted is None:
                counted = self.uncommitted[position.queue] = Uncommitted()
            counted.messages += 1
            counted.size += position.size

    @property
    def may_end(self) -> bool:
        """Whether it can be committed, or aborted: it has not ended, and is not about to."""
        return self.state in (TransactionState.ACTIVE, TransactionState.PREPARED)

    def sent(self) -> list[MessagePosition]:
        """The messages that it sends."""
        return [operation.position for operation in self.operations if isinstance(operation, Enqueue)]

    def received(self) -> list[MessagePosition]:
        """The messages that it receives, without those whose queue was deleted meanwhile."""
        return [
            operation.position
            for operation in self.operations
            if isinstance(operation, Dequeue) and not operation.position.queue.is_deleted
        ]

    def received_from_deleted(self) -> list[MessagePosition]:
        """The messages that it receives from queues that were deleted meanwhile."""
        return [
            operation.position
            for operation in self.operations
            if isinstance(operation, Dequeue) and operation.position.queue.is_deleted
        ]

    def moved(self) -> list[Move]:
        """The moves that it makes, without those of messages whose queue was deleted meanwhile."""
        return [
            operation
            for operation in self.operations
            if isinstance(operation, Move) and not operation.position.queue.is_deleted
        ]

    def deleted_sources(self) -> set[Queue]:
        """The queues that were deleted meanwhile and from which it was to move messages."""
        return {
            operation.position.queue
            for operation in self.operations
            if isinstance(operation, Move) and operation.position.queue.is_deleted
        }

    def check_active(self) -> None:
        """See that it takes more operations.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE.
        """
        if self.state is not TransactionState.ACTIVE:
            raise MQError(
                Status.MQ_ERROR_TRANSACTION_SEQUENCE,
                f"transaction {self.identifier} is {self.state.value} and takes nothing more",
            )


@attrs.frozen
class Commitment:
    """What has to be stored for a transaction to be committed.

    @ivar before: what the state of the transaction was.
    @ivar sent: the messages that become available, queue by queue.
    @ivar lost: sent messages whose queue was deleted before the commit.
    @ivar purged: received messages whose queue was purged before the commit.
    @ivar back: messages that are not moved, because the queue they were to go to is gone.
    """

    transaction: Transaction
    before: TransactionState
    changes: list[Change]
    sent: dict[Queue, list[MessagePosition]] = attrs.field(repr=False)
    lost: list[MessagePosition] = attrs.field(repr=False)
    purged: list[MessagePosition] = attrs.field(repr=False)
    removal: Removal = attrs.field(repr=False)
    relocation: Relocation = attrs.field(repr=False)
    back: list[MessagePosition] = attrs.field(repr=False)


@attrs.frozen
class Abortion:
    """What becomes of the messages of a transaction that is aborted.

    @ivar back: received and moved messages that go back to their places.
    @ivar poisonous: those that were aborted too often, which are moved aside instead.
    @ivar changes: their counts, which need not be waited for.
    @ivar departures: messages whose queue was purged meanwhile.
    """

    back: list[MessagePosition] = attrs.field(repr=False)
    poisonous: list[MessagePosition] = attrs.field(repr=False)
    changes: list[Change]
    departures: list[Departure] = attrs.field(repr=False)


@attrs.define(eq=False)
class TransactionCollection:
    """[MS-MQDMPR] 3.1.1.1 TransactionCollection: the transactions that have not ended."""

    _transactions: dict[UUID, Transaction] = attrs.field(factory=dict, init=False)

    def __iter__(self) -> Iterator[Transaction]:
        """In the order in which they began."""
        return iter(self._transactions.values())

    def create(self, identifier: UUID, now: float) -> Transaction:
        """[MS-MQDMPR] 3.1.7.1.8 Create Transaction; the one that there is, if there is one (reading 47)."""
        transaction = self._transactions.get(identifier)
        if transaction is None:
            transaction = self._transactions[identifier] = Transaction(identifier, now)
        return transaction

    def find(self, identifier: UUID) -> Transaction:
        """The transaction of this identifier.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if there is none, or it has ended.
        """
        transaction = self._transactions.get(identifier)
        if transaction is None:
            raise MQError(
                Status.MQ_ERROR_TRANSACTION_SEQUENCE, f"there is no transaction {identifier}, or it has ended"
            )
        return transaction

    def prepare(self, transaction: Transaction) -> None:
        """[MS-MQDMPR] 3.1.4.3 Prepare: nothing more is taken.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if it has ended, or is being committed.
        """
        self.find(transaction.identifier)
        transaction.check_active()
        transaction.state = TransactionState.PREPARED

    def begin_end(self, transaction: Transaction, state: TransactionState) -> None:
        """A commit or an abort begins.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if it has ended, or is being committed (reading 49).
        """
        self.find(transaction.identifier)
        if not transaction.may_end:
            raise MQError(
                Status.MQ_ERROR_TRANSACTION_SEQUENCE,
                f"transaction {transaction.identifier} is {transaction.state.value} already",
            )
        transaction.state = state

    def end(self, transaction: Transaction, state: TransactionState) -> None:
        """It has ended."""
        transaction.state = state
        transaction.operations.clear()
        self._transactions.pop(transaction.identifier, None)
