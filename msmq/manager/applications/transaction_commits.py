"""Commits of transactions: small ones at once, large ones in parts, so that the reactor is not held long."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

import attrs
from twisted.internet.defer import Deferred, DeferredLock

from msmq.manager.acknowledgement_batch import AcknowledgementBatch
from msmq.manager.applications.keyed_messages import KeyedMessages
from msmq.manager.outbox import Outbox
from msmq.manager.peers.sequence_numbering import AssignedNumbers, SequenceNumbering, SequenceNumbers
from msmq.manager.performer import Performer
from msmq.persistence.changes import Change, PutQueue
from msmq.queues.arriving.reported import reported_receipts
from msmq.queues.leaving.deleted_queues import without_deleted
from msmq.queues.leaving.transaction import Commitment, Operation, Transaction, TransactionState
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import Queue
from msmq.structures.packet.message_class import MessageClass

PART: Final = 200
"""Operations of a transaction that are prepared, or take effect, in one iteration of the reactor: a few
milliseconds."""


@attrs.define(eq=False)
class _Part:
    """A part of a commit.

    @ivar count: the number of its operations.
    @ivar changes: its changes, with those of the acknowledgements.
    """

    commitment: Commitment
    answers: AcknowledgementBatch
    numbers: AssignedNumbers
    changes: list[Change]
    count: int

    def queues(self) -> set[Queue]:
        """All queues that the changes are about."""
        commitment = self.commitment
        copies = (copy.queue for copy in commitment.removal.copies)
        moved = (position.queue for _, position in commitment.relocation.moves)
        return {*commitment.sent, *commitment.left, *copies, *moved, *self.answers.queues}


class TransactionCommits:
    """Commits transactions; the changes of each are one batch of the store.

    A transaction of more than L{PART} operations is prepared in several iterations of the reactor.
    Commits that begin meanwhile wait for that, so that messages for one destination are numbered, and sent,
    transaction by transaction.
    When the batch is stored its messages become available part by part, in order.
    """

    def __init__(
        self, performer: Performer, outbox: Outbox, numbers: SequenceNumbers, keyed: KeyedMessages
    ) -> None:
        self._performer = performer
        self._outbox = outbox
        self._numbers = numbers
        self._keyed = keyed
        self._preparing = DeferredLock()

    async def commit(self, transaction: Transaction, also: Sequence[Change]) -> set[Queue]:
        """Store the changes of a transaction, and let them take effect.

        @param also: what is stored with them.
        @return: the queues that its receives and moves affect.
        @raise MQError: as L{Transactions.commit<msmq.manager.applications.transactions.Transactions.commit>}.
        """
        transacting = self._performer.model.transacting
        in_parts = len(transaction.operations) > PART
        if in_parts or self._preparing.locked:
            await self._preparing.acquire()
            try:
                before = transacting.begin_commit(transaction)
                parts = await self._prepare(transaction, before)
                stored = Deferred.fromCoroutine(self._store(transaction, parts, also))
            finally:
                self._preparing.release()
            await stored
        else:
            before = transacting.begin_commit(transaction)
            parts = await self._prepare(transaction, before)
            await self._store(transaction, parts, also)
        return await self._take_effect(transaction, parts)

    async def _prepare(self, transaction: Transaction, before: TransactionState) -> list[_Part]:
        """Make the changes of all parts; suspends only between two parts."""
        numbering = self._numbers.begin(transaction)
        parts: list[_Part] = []
        try:
            count = len(transaction.operations)
            for start in range(0, max(1, count), PART):
                if start:
                    await self._performer.next_turn()
                operations = transaction.operations[start : start + PART]
                part = self._prepare_part(transaction, operations, before, numbering)
                parts.append(part)
                if count > PART:
                    await self._create_queues(part)
        except BaseException:
            transaction.state = before
            self._withdraw(transaction, parts)
            self._keyed.uncommitted(transaction)
            raise
        return parts

    def _prepare_part(
        self,
        transaction: Transaction,
        operations: Sequence[Operation],
        before: TransactionState,
        numbering: SequenceNumbering,
    ) -> _Part:
        model = self._performer.model
        now = self._performer.clock.now()
        try:
            commitment = model.transacting.commit_part(transaction, operations, before, numbering.give, now)
        except BaseException:
            # Those of its first queues are given: the next messages of a sequence would wait for them.
            numbering.take().withdrawn()
            raise
        numbers = numbering.take()
        sent = (
            position.view
            for queue, positions in commitment.sent.items()
            for position in positions
            if position.view is not None and not isinstance(queue, OutgoingQueue)
        )
        answers = self._outbox.answers()
        answers.add(sent, MessageClass.ACK_REACH_QUEUE)
        answers.add(reported_receipts(commitment.removal.positions), MessageClass.ACK_RECEIVE)
        changes = [*commitment.changes, *answers.prepare(), *model.reservations()]
        return _Part(commitment, answers, numbers, changes, len(operations))

    async def _create_queues(self, part: _Part) -> None:
        """Store queues that the store does not have yet: messages of others may be stored there before."""
        queues = [change for change in part.changes if isinstance(change, PutQueue)]
        if queues:
            await self._performer.commit(queues)
            for changes in (part.changes, part.commitment.changes):
                changes[:] = [change for change in changes if not isinstance(change, PutQueue)]

    async def _store(self, transaction: Transaction, parts: Sequence[_Part], also: Sequence[Change]) -> None:
        performer = self._performer
        if len(parts) > 1:
            deleted = {
                queue.definition.identifier
                for queue in set().union(*(part.queues() for part in parts))
                if queue.is_deleted
            }
            if deleted:
                for part in parts:
                    part.changes = without_deleted(part.changes, deleted)
        keys = self._keyed.committing(transaction)
        changes = [*chain.from_iterable(part.changes for part in parts), *keys, *also]
        try:
            await performer.commit(changes)
        except Exception:
            self._withdraw(transaction, parts)
            self._keyed.uncommitted(transaction)
            raise
        performer.model.stored(changes)

    def _withdraw(self, transaction: Transaction, parts: Sequence[_Part]) -> None:
        performer = self._performer
        for part in parts:
            part.answers.withdraw()
            part.numbers.withdrawn()
            performer.perform(performer.model.transacting.uncommit(part.commitment))

    async def _take_effect(self, transaction: Transaction, parts: list[_Part]) -> set[Queue]:
        """Remove, move and show the messages of all parts."""
        performer = self._performer
        left: set[Queue] = set()
        parts.reverse()
        while parts:
            part = parts.pop()
            commitment = part.commitment
            left |= commitment.left
            part.numbers.stored()
            effects = performer.model.part_committed(commitment, performer.clock.now())
            performer.perform(commitment.removal.departures)
            performer.perform(effects)
            part.answers.show()
            # The memory of each part is released by itself, since that takes as long as another step.
            performer.model.transacting.close(transaction, part.count)
            del part, commitment
            if parts:
                await performer.next_turn()
        performer.model.transacting.end(transaction)
        self._keyed.committed(transaction)
        return left
