"""Transactions and their operations. [MS-MQDMPR] 3.1.1.14, 3.1.1.13 and 3.1.4.3 to 3.1.4.5.

Until it is committed a transaction exists only in memory: the messages that it sends are in their queues and
those that it receives or moves are locked, but nothing is stored.
Its commit is one batch of the store; a crash before that is stored aborts it (readings 9, 47 and 49).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from msmq.persistence.changes import Change
from msmq.queues.leaving.departure_kinds import Departure, Removal
from msmq.queues.leaving.relocation import Relocation
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.status import MQError, Status


class TransactionState(enum.Enum):
    """The state of a transaction.

    ACTIVE: accepts operations.
    PREPARED: accepts none; can be committed or aborted.
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
    """Uncommitted messages that transactions have sent to one queue.

    @ivar size: the bytes of the packets.
    """

    messages: int = 0
    size: int = 0


NOTHING_UNCOMMITTED: Final = Uncommitted()


@attrs.define(eq=False)
class Transaction:
    """Transaction, internal (SinglePhase): this is its only resource manager. [MS-MQDMPR] 3.1.1.14.

    @ivar identifier: TransactionIdentifier.
    @ivar began: when it began, seconds since 1970-01-01 UTC.
    @ivar operations: TransactionalOperationCollection, in the order in which they were requested.
    @ivar uncommitted: the messages that it sends, by queue.
    @ivar moves: how many of the operations are moves.
    """

    identifier: UUID
    began: float
    state: TransactionState = TransactionState.ACTIVE
    operations: list[Operation] = attrs.field(factory=list, repr=False)
    uncommitted: dict[Queue, Uncommitted] = attrs.field(factory=dict, init=False, repr=False)
    moves: int = 0

    def add_sent(self, positions: Sequence[MessagePosition]) -> None:
        """Add messages, which are in their queues and are sent when it commits."""
        self.operations += map(Enqueue, positions)
        for position in positions:
            counted = self.uncommitted.get(position.queue)
            if counted is None:
                counted = self.uncommitted[position.queue] = Uncommitted()
            counted.messages += 1
            counted.size += position.size

    @property
    def may_end(self) -> bool:
        """Whether it can be committed or aborted: it has not ended, and is not being committed."""
        return self.state in (TransactionState.ACTIVE, TransactionState.PREPARED)

    @property
    def has_moves(self) -> bool:
        """Whether it moves messages."""
        return self.moves > 0

    def sent(self) -> list[MessagePosition]:
        """The messages that it sends."""
        return sent_by(self.operations)

    def received(self) -> list[MessagePosition]:
        """The messages that it receives, without those whose queue was deleted."""
        return received_by(self.operations)

    def moved(self) -> list[Move]:
        """Its moves, without those of messages whose queue was deleted."""
        return moved_by(self.operations)

    def check_active(self) -> None:
        """Check that it accepts operations.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE.
        """
        if self.state is not TransactionState.ACTIVE:
            raise MQError(
                Status.MQ_ERROR_TRANSACTION_SEQUENCE,
                f"transaction {self.identifier} is {self.state.value} and accepts no more operations",
            )


def sent_by(operations: Iterable[Operation]) -> list[MessagePosition]:
    """The messages that these operations send."""
    return [operation.position for operation in operations if isinstance(operation, Enqueue)]


def received_by(operations: Iterable[Operation]) -> list[MessagePosition]:
    """The messages that these operations receive, without those whose queue was deleted."""
    return [
        operation.position
        for operation in operations
        if isinstance(operation, Dequeue) and not operation.position.queue.is_deleted
    ]


def received_from_deleted(operations: Iterable[Operation]) -> list[MessagePosition]:
    """The messages that these operations receive from queues that were deleted."""
    return [
        operation.position
        for operation in operations
        if isinstance(operation, Dequeue) and operation.position.queue.is_deleted
    ]


def check_sources(operations: Iterable[Operation]) -> None:
    """Check that no queue was deleted from which these operations receive messages.

    A deletion answers locked messages too with NackQueueDeleted, since, unlike a purge, it makes no exception
    for them ([MS-MQDMPR] 3.1.7.1.4 and 3.1.7.1.7).

    @raise MQError: MQ_ERROR_QUEUE_DELETED.
    """
    for position in received_from_deleted(operations):
        raise MQError(
            Status.MQ_ERROR_QUEUE_DELETED,
            f"{position.queue.definition.path} was deleted before the transaction that has received its"
            " messages was committed",
        )


def moved_by(operations: Iterable[Operation]) -> list[Move]:
    """The moves among these operations, without those of messages whose queue was deleted."""
    return [
        operation
        for operation in operations
        if isinstance(operation, Move) and not operation.position.queue.is_deleted
    ]


def deleted_sources(operations: Iterable[Operation]) -> set[Queue]:
    """The deleted queues from which these operations were to move messages."""
    return {
        operation.position.queue
        for operation in operations
        if isinstance(operation, Move) and operation.position.queue.is_deleted
    }


def queues_of(operations: Iterable[Operation]) -> set[Queue]:
    """The queues from which these operations take messages, and to which they move them."""
    queues: set[Queue] = set()
    for operation in operations:
        if isinstance(operation, Enqueue) or operation.position.queue.is_deleted:
            continue
        queues.add(operation.position.queue)
        if isinstance(operation, Move):
            queues.add(operation.target)
    return queues


@attrs.frozen
class Commitment:
    """The changes that commit a transaction, or a part of its operations.

    @ivar before: the former state of the transaction.
    @ivar sent: the messages that become available, queue by queue.
    @ivar lost: sent messages whose queue was deleted before the commit.
    @ivar purged: received messages whose queue was purged before the commit.
    @ivar back: messages that are not moved, because the target queue is deleted.
    @ivar left: the queues from which it takes messages, and to which it moves them.
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
    left: set[Queue] = attrs.field(repr=False)


@attrs.frozen
class Abortion:
    """The results for the messages of an aborted transaction, or of a part of its operations.

    @ivar back: received and moved messages that return to their positions.
    @ivar poisonous: poison messages, which are moved to the subqueue C{poison} instead.
    @ivar changes: their abort counts, whose commit need not be awaited.
    @ivar departures: messages whose queue was purged.
    @ivar left: as of L{Commitment}.
    """

    back: list[MessagePosition] = attrs.field(repr=False)
    poisonous: list[MessagePosition] = attrs.field(repr=False)
    changes: list[Change]
    departures: list[Departure] = attrs.field(repr=False)
    left: set[Queue] = attrs.field(repr=False)


@attrs.define(eq=False)
class TransactionCollection:
    """TransactionCollection: the transactions that have not ended. [MS-MQDMPR] 3.1.1.1."""

    _transactions: dict[UUID, Transaction] = attrs.field(factory=dict, init=False)

    def __iter__(self) -> Iterator[Transaction]:
        """In the order in which they began."""
        return iter(self._transactions.values())

    def create(self, identifier: UUID, now: float) -> Transaction:
        """Create Transaction, or return the existing one (reading 47). [MS-MQDMPR] 3.1.7.1.8."""
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
        """Prepare: no more operations are accepted. [MS-MQDMPR] 3.1.4.3.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if it has ended, or is being committed, and
            MQ_ERROR_QUEUE_DELETED if its commit would be refused for that.
        """
        self.find(transaction.identifier)
        transaction.check_active()
        check_sources(transaction.operations)
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
        """The transaction has ended."""
        transaction.state = state
        transaction.operations.clear()
        self._transactions.pop(transaction.identifier, None)
