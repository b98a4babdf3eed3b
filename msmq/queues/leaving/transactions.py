"""Transactions: their operations, commit and abort. [MS-MQDMPR] 3.1.4.3 to 3.1.4.5.

There is no distributed transaction coordinator, hence none of the events of 3.1.4.6 to 3.1.4.11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

from msmq.moment import Moment
from msmq.persistence.changes import AppendLog, Change, PutAborts, RemoveMessages
from msmq.queues.arriving.admission import EnqueueRefusal, EnqueueStatus, enqueue_status
from msmq.queues.collection import POISON, QueueCollection
from msmq.queues.holdings import Holdings, forget_queues, room_in
from msmq.queues.leaving.copies import MessageCopies
from msmq.queues.leaving.deadlines import due_time
from msmq.queues.leaving.departure_kinds import Departure, by_queue, gone_with_queue, removals
from msmq.queues.leaving.purge import finish_purge
from msmq.queues.leaving.relocation import Relocation, check_available, check_move, relocate, undo_move
from msmq.queues.leaving.transaction import (
    Abortion,
    Commitment,
    Dequeue,
    Move,
    Operation,
    Transaction,
    TransactionCollection,
    TransactionState,
    Uncommitted,
    check_sources,
    deleted_sources,
    moved_by,
    queues_of,
    received_by,
    received_from_deleted,
    sent_by,
)
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.packet.message_class import MessageClass

if TYPE_CHECKING:
    from msmq.structures.packet.user_message_view import UserMessageView

SequenceNumbering: TypeAlias = Callable[[Queue, Sequence[MessagePosition]], Sequence[Change]]
"""Assigns sequence numbers to the messages that a transaction sends to a queue: patches their packets, and
returns the changes to store."""


@attrs.define(eq=False)
class QueueTransactions:
    """The transactions of a queue manager.

    @ivar poison_after: the number of aborted transactions after which a message is poison; 0 for never.
    @ivar transactions: those that have not ended.
    """

    _holdings: Holdings
    _copying: MessageCopies
    _collection: QueueCollection
    poison_after: int = 0
    transactions: TransactionCollection = attrs.field(factory=TransactionCollection, init=False)

    # Operations in a transaction

    def send(
        self,
        transaction: Transaction,
        arrivals: Iterable[tuple[Queue, UserMessageView]],
        now: Moment,
        *,
        spare: int = 0,
    ) -> list[EnqueueRefusal]:
        """Enqueue messages, invisible before the commit. [MS-MQDMPR] 3.1.7.1.9.

        If one is refused, none is enqueued.

        @param spare: bytes that they may take beyond QueueManagerQuota: they replace messages that leave.
        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if the transaction accepts no more operations.
        """
        transaction.check_active()
        arrivals = self._collection.renewed(list(arrivals), now)
        if (run := self._run(transaction, arrivals, now, spare)) is not None:
            transaction.add_sent(run)
            return []
        sent: list[MessagePosition] = []
        refusals: list[EnqueueRefusal] = []
        free = self._holdings.storage.free_with(spare)
        for index, (queue, view) in enumerate(arrivals):
            status = enqueue_status(queue, view, free, room_in(queue), now)
            if status is not EnqueueStatus.STORED:
                refusals.append(EnqueueRefusal(index, queue, view, status))
                break
            # The priority of a transactional message counts as 0.
            lookup_id = 7 << 56 | self._holdings.sequential.take(1)
            position = MessagePosition(queue, lookup_id, view, view.size, now.wall, kept=PacketHolder.STORE)
            position.owner = transaction
            position.due = due_time(queue, view)
            self._holdings.link(position)
            free -= view.size
            sent.append(position)
        if refusals:
            for position in sent:
                self._holdings.unlink(position)
        else:
            transaction.add_sent(sent)
        return refusals

    def _run(
        self,
        transaction: Transaction,
        arrivals: Sequence[tuple[Queue, UserMessageView]],
        now: Moment,
        spare: int,
    ) -> list[MessagePosition] | None:
        """Enqueue messages for one queue that have one shape, none of which is refused.

        C{None} for all else, of which nothing has changed then.
        """
        if len(arrivals) < 2:
            return None
        (queue, head), storage = arrivals[0], self._holdings.storage
        shape = head.shape
        views = [view for target, view in arrivals if target is queue and view.shape is shape]
        count = len(views)
        total = count * shape.size
        free = storage.free_with(spare)
        if (
            count < len(arrivals)
            or queue.is_subqueue
            or queue.is_system
            or total > min(free, room_in(queue))
            or enqueue_status(queue, head, free, total, now)
        ):
            return None
        # The priority of a transactional message counts as 0.
        first = 7 << 56 | self._holdings.sequential.take(count)
        due, state, kept = due_time(queue, head), PositionState.ARRIVING, PacketHolder.STORE
        positions = [
            MessagePosition(queue, number, view, shape.size, now.wall, state, transaction, kept, due)
            for number, view in enumerate(views, first)
        ]
        queue.positions.update(zip(range(first, first + count), positions, strict=True))
        queue.total_bytes += total
        storage.used += total
        storage.messages += count
        return positions

    def uncommitted(self) -> dict[Queue, Uncommitted]:
        """The uncommitted messages of each queue; takes time proportional to the number of transactions."""
        found: dict[Queue, Uncommitted] = {}
        for transaction in self.transactions:
            for queue, counted in transaction.uncommitted.items():
                total = found.setdefault(queue, Uncommitted())
                total.messages += counted.messages
                total.size += counted.size
        return found

    def receive(self, transaction: Transaction, positions: Iterable[MessagePosition]) -> None:
        """These messages, locked by a read, are received when it commits. [MS-MQDMPR] 3.1.7.1.10.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if the transaction accepts no more operations.
        """
        transaction.check_active()
        for position in positions:
            position.owner = transaction
            transaction.operations.append(Dequeue(position))

    def move(self, transaction: Transaction, position: MessagePosition, target: Queue) -> None:
        """This message, locked by its mover, is moved when it commits. [MS-MQDMPR] 3.1.7.1.16.

        @raise MQError: as L{check_move}, or MQ_ERROR_TRANSACTION_SEQUENCE if the transaction accepts no more
            operations.
        """
        transaction.check_active()
        check_move(position.queue, target, is_transactional=True)
        position.owner = transaction
        target.users += 1
        transaction.moves += 1
        transaction.operations.append(Move(position, target))

    def lock_and_move(self, transaction: Transaction, position: MessagePosition, target: Queue) -> None:
        """Lock an available message, and move it when the transaction commits.

        @raise MQError: as L{move}, or MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION if it is not available.
        """
        check_available(position)
        transaction.check_active()
        check_move(position.queue, target, is_transactional=True)
        position.queue.remove_available(position)
        position.state = PositionState.LOCKED_READER
        self.move(transaction, position, target)

    # End of a transaction

    def unmoved(self, transaction: Transaction) -> list[Departure]:
        """Messages that it was to move, and that are removed since their queue was purged or deleted.

        Their removal has to be stored before the commit: otherwise a crash right after the commit could
        restore them in their old queue, which neither the commit nor the purge or deletion allows.
        """
        if not transaction.may_end or not transaction.has_moves:
            return []
        positions = [
            operation.position for operation in transaction.operations if isinstance(operation, Move)
        ]
        deleted = [position for position in positions if position.queue.is_deleted and position.is_at_rest]
        purged = [
            position
            for position in positions
            if position.state is PositionState.PURGE_PENDING and not position.queue.is_deleted
        ]
        return [*gone_with_queue(deleted), *finish_purge(purged)]

    def commit(self, transaction: Transaction, numbering: SequenceNumbering, now: Moment) -> Commitment:
        """Commit: the changes to store, as one batch. [MS-MQDMPR] 3.1.4.4.

        Either L{msmq.queues.model.QueueManagerModel.committed} or L{uncommit} has to follow.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if it has ended, or is ending, and
            MQ_ERROR_QUEUE_DELETED as of L{commit_part}; it is in its former state then.
        """
        before = self.begin_commit(transaction)
        try:
            return self.commit_part(transaction, transaction.operations, before, numbering, now)
        except BaseException:
            transaction.state = before
            raise

    def begin_commit(self, transaction: Transaction) -> TransactionState:
        """Begin a commit that is prepared in parts, each with L{commit_part}; returns the former state.

        All changes of the parts are one batch of the store.
        Then L{msmq.queues.model.QueueManagerModel.part_committed} has to follow for each part, and L{end}; or
        L{uncommit} for each part.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if it has ended, or is ending.
        """
        before = transaction.state
        self.transactions.begin_end(transaction, TransactionState.COMMITTING)
        return before

    def commit_part(
        self,
        transaction: Transaction,
        operations: Sequence[Operation],
        before: TransactionState,
        numbering: SequenceNumbering,
        now: Moment,
    ) -> Commitment:
        """The changes that commit some of the operations.

        A queue may be deleted before they are submitted to the store: see L{without_deleted}.

        @param before: from L{begin_commit}.
        @raise MQError: MQ_ERROR_QUEUE_DELETED if a queue from which they receive messages was deleted before,
            unless the transaction was prepared, which promised its coordinator to commit; nothing has
            changed.
        """
        if before is not TransactionState.PREPARED:
            check_sources(operations)
        changes: list[Change] = []
        lost: list[MessagePosition] = []
        sent: dict[Queue, list[MessagePosition]] = {}
        for position in sent_by(operations):
            if position.queue.is_deleted:
                lost.append(position)
            else:
                sent.setdefault(position.queue, []).append(position)
        for queue, positions in sent.items():
            if isinstance(queue, OutgoingQueue):
                # Others may have committed since; messages are sent in the order of the commits.
                following = 7 << 56 | self._holdings.sequential.take(len(positions))
                for number, position in enumerate(positions, following):
                    queue.renumber(position, number)
            changes += numbering(queue, positions)
        for queue, positions in sent.items():
            if not queue.definition.log:
                self._holdings.put_run(queue, positions, changes)
                continue
            # The store keeps one packet for a message and the entry behind it.
            identifier = queue.definition.identifier
            for position in positions:
                self._holdings.put(position, changes)
                changes.append(AppendLog(identifier, position.lookup_id, position.record, position.arrived))
        left = queues_of(operations)
        received = received_by(operations)
        purged = [position for position in received if position.state is PositionState.PURGE_PENDING]
        for position in received:
            position.state = PositionState.REMOVING
        back, unmoved, pairs = self._moves(operations)
        removal = self._copying.receive(received, finish_purge(unmoved))
        relocation = Relocation()
        relocate(self._holdings, pairs, relocation)
        changes += removal.changes
        changes += relocation.changes
        # Their queues are being deleted, but a prepared transaction commits all the same.
        changes += removals(received_from_deleted(operations))
        # A pending deletion is stored before the result of the commit is returned.
        changes += (RemoveMessages(queue.definition.identifier, ()) for queue in deleted_sources(operations))
        former = self._copying.dropped
        dead_letters = self._copying.lose(lost, MessageClass.NACK_Q_DELETED, changes, now.wall)
        dropped = removal.dropped + self._copying.uncounted(former)
        removal = attrs.evolve(removal, copies=[*removal.copies, *dead_letters], dropped=dropped)
        self._holdings.reserve(changes)
        return Commitment(transaction, before, changes, sent, lost, purged, removal, relocation, back, left)

    def _moves(
        self, operations: Sequence[Operation]
    ) -> tuple[list[MessagePosition], list[MessagePosition], list[tuple[MessagePosition, Queue]]]:
        """The results of its moves: messages that return, that were purged, and that are moved."""
        back: list[MessagePosition] = []
        purged: list[MessagePosition] = []
        pairs: list[tuple[MessagePosition, Queue]] = []
        for move in moved_by(operations):
            if not move.position.is_at_rest:
                # It was removed, or its removal is pending.
                continue
            if move.position.state is PositionState.PURGE_PENDING:
                purged.append(move.position)
            elif move.target.is_deleted:
                back.append(move.position)
            else:
                move.position.state = PositionState.REMOVING
                pairs.append((move.position, move.target))
        return back, purged, pairs

    def uncommit(self, commitment: Commitment) -> list[Departure]:
        """The changes were not stored: the transaction is in its former state, and can be committed again.

        @return: the departures of messages that it had received from queues deleted since.
        """
        transaction, changes = commitment.transaction, commitment.changes
        removal, moves = commitment.removal, commitment.relocation.moves
        unmoved = [position for departure in removal.departures for position in departure.positions]
        for position in (*removal.positions, *(position for position, _ in moves)):
            position.state = PositionState.LOCKED_READER
        for position in (*commitment.purged, *unmoved):
            position.state = PositionState.PURGE_PENDING
        for queue, positions in commitment.sent.items():
            if queue.is_deleted:
                for position in positions:
                    self._holdings.unlink(position)
        for position in commitment.lost:
            self._holdings.unlink(position)
        self._copying.withdraw(removal.copies)
        undo_move(self._holdings, commitment.relocation)
        forget_queues(changes, commitment.sent)
        forget_queues(changes, (copy.queue for copy in commitment.removal.copies))
        forget_queues(changes, (place.queue for _, place in moves))
        transaction.state = commitment.before
        taken = (*removal.positions, *unmoved, *(position for position, _ in moves))
        return gone_with_queue(position for position in taken if position.queue.is_deleted)

    def end(self, transaction: Transaction) -> None:
        """The commit is stored and has taken effect: the transaction has ended."""
        self.close(transaction, len(transaction.operations))
        self.transactions.end(transaction, TransactionState.COMMITTED)

    def abort(self, transaction: Transaction, now: Moment) -> Abortion:
        """Abort: sent messages are discarded, received ones return to their queues. [MS-MQDMPR] 3.1.4.5.

        @raise MQError: MQ_ERROR_TRANSACTION_SEQUENCE if it has ended, or is being committed.
        """
        self.begin_abort(transaction)
        abortion = self.abort_part(transaction, len(transaction.operations))
        self.aborted(transaction)
        return abortion

    def begin_abort(self, transaction: Transaction) -> None:
        """Begin an abort in parts: L{abort_part} for each, and then L{aborted}.

        @raise MQError: as L{abort}.
        """
        self.transactions.begin_end(transaction, TransactionState.ABORTED)

    def aborted(self, transaction: Transaction) -> None:
        """The abort has taken effect: the transaction has ended."""
        self.transactions.end(transaction, TransactionState.ABORTED)

    def abort_part(self, transaction: Transaction, count: int) -> Abortion:
        """Undo the first C{count} of the operations that are left, and forget them."""
        operations = transaction.operations[:count]
        left = queues_of(operations)
        self._holdings.unlink_all(sent_by(operations))
        received = received_by(operations)
        moved = moved_by(operations)
        held = [*received, *(move.position for move in moved)]
        purged = [position for position in held if position.state is PositionState.PURGE_PENDING]
        back: list[MessagePosition] = []
        poisonous: list[MessagePosition] = []
        changes: list[Change] = []
        back += (move.position for move in moved if move.position.state is PositionState.LOCKED_READER)
        for position in received:
            if position.state is not PositionState.LOCKED_READER:
                continue
            position.aborts += 1
            if self._is_poisonous(position):
                poisonous.append(position)
                continue
            back.append(position)
            if position.is_stored:
                changes.append(
                    PutAborts(
                        position.queue.definition.identifier,
                        position.lookup_id,
                        position.aborts,
                        position.kept is PacketHolder.OVERFLOW,
                    )
                )
        departures: list[Departure] = finish_purge(purged)
        self.close(transaction, count)
        return Abortion(back, poisonous, changes, departures, left)

    def poison(self, abortion: Abortion, now: Moment) -> list[Relocation]:
        """Move poison messages to the subqueue C{poison} of their queues, with L{relocate}.

        Those whose queue was purged or deleted since the abort began are not moved.
        """
        relocations: list[Relocation] = []
        locked = PositionState.LOCKED_READER
        for queue, positions in by_queue(each for each in abortion.poisonous if each.state is locked).items():
            if queue.is_deleted:
                continue
            target = self._collection.subqueue(queue, POISON, now)
            relocation = Relocation()
            for position in positions:
                position.state = PositionState.REMOVING
            relocate(self._holdings, ((position, target) for position in positions), relocation)
            relocations.append(relocation)
        return relocations

    def _is_poisonous(self, position: MessagePosition) -> bool:
        queue = position.queue
        return (
            0 < self.poison_after <= position.aborts
            and queue.parent is None
            and not queue.is_system
            and not isinstance(queue, OutgoingQueue)
        )

    def close(self, transaction: Transaction, count: int) -> None:
        """The first C{count} operations that are left have taken effect, or were undone: forget them."""
        if transaction.has_moves:
            for operation in transaction.operations[:count]:
                if isinstance(operation, Move):
                    operation.target.users -= 1
        del transaction.operations[:count]
