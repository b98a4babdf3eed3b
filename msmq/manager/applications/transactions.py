"""Transactions as applications use them: send, receive, move, commit, abort."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn, Protocol
from uuid import UUID

import attrs
from twisted.logger import Logger
from zope.interface import implementer

from msmq.background import undivided
from msmq.interfaces.manager.queue_manager import ITransaction
from msmq.interfaces.manager.summaries import TransactionDetails, TransactionOperation, TransactionSummary
from msmq.manager.administration.summaries import queue_path
from msmq.manager.administration.unread_removals import UnreadRemovals
from msmq.manager.applications.keyed_messages import KeyedMessages
from msmq.manager.applications.transaction_commits import PART, TransactionCommits
from msmq.manager.events import EventLog
from msmq.manager.interruptions import INTERRUPTIONS
from msmq.manager.outbox import Outbox
from msmq.manager.peers.sequence_numbering import SequenceNumbers
from msmq.manager.peers.sequences import Sequences
from msmq.manager.performer import Performer
from msmq.persistence.changes import AppendEvent, Change
from msmq.queues.leaving.relocation import Relocation
from msmq.queues.leaving.transaction import Abortion, Dequeue, Enqueue, Transaction
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.quoting import shown
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.wire.guid import format_guid

if TYPE_CHECKING:
    from typing import Self

SHOWN: Final = 1_000
"""Limit on messages of a transaction in C{transaction show}."""

POISONED: Final = "poisoned"
"""The event of a message that C{[queues] poison_after} has moved to the subqueue C{poison}."""


@implementer(ITransaction)
class TransactionHandle:
    """See L{ITransaction}."""

    def __init__(self, transactions: Transactions, transaction: Transaction) -> None:
        self._transactions = transactions
        self.core = transaction
        # What is stored with its commit.
        self.also: Sequence[Change] = ()
        # By the application itself, not by an operator or for a queue that was deleted.
        self._was_ended = False

    @property
    def identifier(self) -> UUID:
        """See L{ITransaction}."""
        return self.core.identifier

    @property
    def state(self) -> str:
        """See L{ITransaction}."""
        return self.core.state.value

    async def commit(self) -> None:
        """See L{ITransaction.commit}."""
        await undivided(self._transactions.commit(self.core, self.also))
        self._was_ended = True

    async def abort(self) -> None:
        """See L{ITransaction.abort}."""
        await undivided(self._transactions.abort(self.core))
        self._was_ended = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._was_ended:
            return
        if kind is None:
            await undivided(self._transactions.commit_or_abort(self.core, self.also))
        elif self.core.may_end:
            await self.abort()


class TransactionListener(Protocol):
    """Is notified of the ends of transactions."""

    def transaction_ended(self, transaction: Transaction) -> None:
        """A transaction was committed or aborted."""


class Transactions:
    """Commits and aborts.

    @ivar poisoned: how many messages were moved to the subqueue C{poison} of each queue, by its path.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        outbox: Outbox,
        departures: UnreadRemovals,
        sequences: Sequences,
        events: EventLog,
        keyed: KeyedMessages,
        listener: TransactionListener,
    ) -> None:
        self._performer = performer
        self._keyed = keyed
        numbers = SequenceNumbers(performer.model, performer.clock, sequences)
        self._commits = TransactionCommits(performer, outbox, numbers, keyed)
        self._departures = departures
        self._events = events
        self._listener = listener
        self.poisoned: Counter[str] = Counter()

    def begin(self, identifier: UUID) -> TransactionHandle:
        """Create Transaction. [MS-MQDMPR] 3.1.7.1.8."""
        transactions = self._performer.model.transacting.transactions
        return TransactionHandle(self, transactions.create(identifier, self._performer.clock.now().wall))

    def enlist(self, identifier: UUID) -> NoReturn:
        """[MS-MQDMPR] 3.1.1.14 a transaction with SinglePhase False, which a DTC coordinates: always refused.

        @raise MQError: MQ_ERROR_DTC_CONNECT.
        """
        raise MQError(
            Status.MQ_ERROR_DTC_CONNECT,
            f"transaction {format_guid(identifier)} belongs to a distributed transaction coordinator,"
            " which is not available; begin an internal transaction",
        )

    def find(self, identifier: UUID) -> Transaction:
        """The transaction with this identifier.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if there is none, or it has ended.
        """
        return self._performer.model.transacting.transactions.find(identifier)

    def core(self, transaction: ITransaction) -> Transaction:
        """The transaction of a handle from L{begin}.

        @raise MQError: as L{find}, for one that was not begun here.
        """
        return (
            transaction.core
            if isinstance(transaction, TransactionHandle)
            else self.find(transaction.identifier)
        )

    async def commit(self, transaction: Transaction, also: Sequence[Change] = ()) -> None:
        """Commit. [MS-MQDMPR] 3.1.4.4.

        @param also: what is stored with it.
        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if it has ended; MQ_ERROR_QUEUE_DELETED if a queue from
            which it has received messages was deleted, and then it is aborted; or that the store failed, and
            then the transaction is as it was before.
        """
        await self._remove_unmoved(transaction)
        try:
            left = await self._commits.commit(transaction, also)
        except MQError as error:
            if error.status is Status.MQ_ERROR_QUEUE_DELETED and transaction.may_end:
                # It could never be committed: their senders got NackQueueDeleted.
                await self.abort(transaction)
            raise
        self._ended(transaction, left)

    async def _remove_unmoved(self, transaction: Transaction) -> None:
        """Remove messages that it was to move and whose queue was purged or deleted meanwhile."""
        performer = self._performer
        while departures := performer.model.transacting.unmoved(transaction):
            while departures:
                try:
                    await self._departures.finish(departures[0])
                except INTERRUPTIONS:
                    # They are removed all the same.
                    performer.perform(departures)
                    raise
                del departures[0]

    async def commit_or_abort(self, transaction: Transaction, also: Sequence[Change] = ()) -> None:
        """Commit, or else abort.

        @param also: what is stored with the commit.
        @raise MQError: as L{commit}, but the transaction has ended.
        """
        try:
            await self.commit(transaction, also)
        except INTERRUPTIONS:
            if transaction.may_end:
                await self.abort(transaction)
            raise

    async def abort(self, transaction: Transaction) -> None:
        """Abort. [MS-MQDMPR] 3.1.4.5.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if it has ended, or is being committed.
        """
        performer = self._performer
        transacting = performer.model.transacting
        transacting.begin_abort(transaction)
        left: set[Queue] = set()
        poisoned: list[Abortion] = []
        while True:
            abortion = transacting.abort_part(transaction, PART)
            left |= abortion.left
            performer.commit_later(abortion.changes, "the abort counts of messages")
            performer.perform(performer.model.aborted(abortion, performer.clock.now()))
            if abortion.poisonous:
                poisoned.append(abortion)
            if not transaction.operations:
                break
            await performer.next_turn()
        transacting.aborted(transaction)
        self._ended(transaction, left)
        for abortion in poisoned:
            await self._move_aside(abortion)

    def _ended(self, transaction: Transaction, left: Iterable[Queue]) -> None:
        """End its waiting reads, and delete subqueues that it left empty."""
        performer = self._performer
        performer.perform(
            performer.model.readers.cancel_owned(transaction, Status.MQ_ERROR_TRANSACTION_SEQUENCE)
        )
        performer.forget_empty(left)
        self._keyed.ended(transaction)
        self._listener.transaction_ended(transaction)

    async def _move_aside(self, abortion: Abortion) -> None:
        """Move poison messages to their subqueue; those that cannot be moved return to their positions."""
        performer = self._performer
        # The queue may have been purged since, while other parts of a long transaction were aborted.
        purged = [each for each in abortion.poisonous if each.state is PositionState.PURGE_PENDING]
        performer.perform(performer.model.release(purged, performer.clock.now()))
        for relocation in performer.model.transacting.poison(abortion, performer.clock.now()):
            positions = [position for position, _ in relocation.moves]
            path = queue_path(positions[0].queue)
            for position, view in zip(positions, await self._views(positions), strict=True):
                relocation.changes.append(self._poisoned(position, view))
            relocation.changes[:] = self._events.trim(relocation.changes)
            try:
                await move(performer, relocation)
            except MQError as error:
                self._events.not_stored(relocation.changes)
                self.log.error("poison messages stay in {queue}: {error}", queue=shown(path), error=error)
                continue
            self.poisoned[path] += len(positions)
            self.log.warn(
                "{count} poison message(s) moved to {queue};poison after {aborts} aborted transactions,"
                " as [queues] poison_after says; the first is {message}",
                count=len(positions),
                queue=shown(path),
                aborts=positions[0].aborts,
                message=_identifier(positions[0]) or positions[0].lookup_id,
            )

    async def _views(self, positions: Sequence[MessagePosition]) -> Sequence[UserMessageView | None]:
        """The packets of messages, also of those that are not in memory; C{None} where one cannot be read."""
        try:
            return await self._performer.load(positions)
        except MQError:
            return [position.view for position in positions]

    def _poisoned(self, position: MessagePosition, view: UserMessageView | None) -> AppendEvent:
        path = position.queue.definition.path
        identity = b"" if view is None else view.identity
        reason = f"moved to the subqueue poison after {position.aborts} aborted transactions"
        return AppendEvent(self._performer.clock.now().wall, identity, POISONED, reason, queue=path)

    def summaries(self) -> list[TransactionSummary]:
        """Every transaction that has not ended, in the order in which they began."""
        return [_summary(each) for each in self._performer.model.transacting.transactions]

    def details(self, identifier: UUID) -> TransactionDetails:
        """One transaction with its first L{SHOWN} messages, in order.

        @raise MQError: as L{find}.
        """
        transaction = self.find(identifier)
        operations = [
            TransactionOperation(
                operation=_name(operation),
                queue=queue_path(operation.position.queue),
                lookup_id=operation.position.lookup_id,
                id=_identifier(operation.position),
            )
            for operation in islice(transaction.operations, SHOWN)
        ]
        return TransactionDetails(**attrs.asdict(_summary(transaction)), messages=operations)


def _summary(transaction: Transaction) -> TransactionSummary:
    return TransactionSummary(
        identifier=transaction.identifier,
        state=transaction.state.value,
        began=transaction.began,
        sent=len(transaction.sent()),
        received=len(transaction.received()),
        moved=len(transaction.moved()),
    )


async def move(performer: Performer, relocation: Relocation) -> None:
    """Store a move, then make the messages available at their new positions.

    @raise MQError: it was not stored; the messages are where they were.
    """
    await undivided(_move(performer, relocation))


async def _move(performer: Performer, relocation: Relocation) -> None:
    model = performer.model
    try:
        await performer.commit(relocation.changes)
    except Exception:
        performer.perform(model.unmove(relocation, performer.clock.now()))
        raise
    model.stored(relocation.changes)
    performer.perform(model.moved(relocation, performer.clock.now()))
    left = [position for position, _ in relocation.moves]
    performer.left_unsent(left)
    # Here, since a caller that has stopped waiting does not do it.
    performer.remove_empty_subqueues(left)


def _name(operation: object) -> str:
    if isinstance(operation, Enqueue):
        return "send"
    return "receive" if isinstance(operation, Dequeue) else "move"


def _identifier(position: MessagePosition) -> str | None:
    return None if position.view is None else str(position.view.identifier)


def check_usage(path: str, queue: Queue) -> None:
    """Check that a queue is transactional, so that it may be read in a transaction.

    @raise MQError: MQ_ERROR_TRANSACTION_USAGE.
    """
    if not queue.definition.transactional:
        raise MQError(
            Status.MQ_ERROR_TRANSACTION_USAGE,
            f"{path} is not transactional and cannot be read in a transaction",
        )
