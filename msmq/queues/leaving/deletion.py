"""Delete Queue, and the removal of its messages. [MS-MQDMPR] 3.1.7.1.4."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from msmq.moment import Moment
from msmq.persistence.changes import RemoveMessages
from msmq.queues.collection import QueueCollection, deletion_of
from msmq.queues.creation import Deletion
from msmq.queues.effects import Effect
from msmq.queues.holdings import Holdings, forget_queues
from msmq.queues.leaving.copies import MessageCopies
from msmq.queues.leaving.departure_kinds import Removal
from msmq.queues.leaving.expiry import Expiry
from msmq.queues.leaving.transaction import Transaction, TransactionState
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue, at_rest
from msmq.queues.queue_positions import RemovedPositions
from msmq.queues.reading.readers import Readers


@attrs.define(eq=False)
class QueueDeletion:
    """Deletes queues, and then their messages, which may be millions, slice by slice."""

    _collection: QueueCollection
    _holdings: Holdings
    _readers: Readers
    _expiry: Expiry
    _copying: MessageCopies

    def delete(self, queue: Queue) -> Deletion:
        """Delete a queue at once, with its journal and its subqueues.

        @raise MQError: as L{QueueCollection.remove}.
        """
        storage = self._holdings.storage
        family = self._collection.remove(queue)
        effects: list[Effect] = []
        gone = RemovedPositions[MessagePosition]()
        for member in family:
            storage.used -= member.total_bytes
            storage.messages -= member.message_count
            if member.is_system:
                storage.journaled -= member.total_bytes
            if member.is_subqueue and member.parent is not None:
                member.parent.subqueue_bytes -= member.total_bytes
            positions = member.clear()
            if not member.is_system:
                gone.join(positions)
            else:
                self._uncount(positions.loaded())
            effects += self._readers.queue_deleted(member)
        fence = (RemoveMessages(queue.definition.identifier, ()),)
        return Deletion(queue, fence, deletion_of(family), effects, gone)

    def delete_messages(
        self, positions: Sequence[MessagePosition], now: Moment, *, in_bulk: bool = False
    ) -> Removal:
        """The changes that remove messages of a deleted queue, each with its event.

        These are DELETED from now on; their packets are in memory, as far as they could be read.
        Messages with a pending enqueue or removal stay, since that operation reports them.

        @param in_bulk: as of L{Departures.settle<msmq.queues.leaving.departures.Departures.settle>}.
        """
        deleted = PositionState.DELETED
        gone = at_rest(positions)
        under_way: list[MessagePosition] = []
        if len(gone) < len(positions):
            under_way = [each for each in positions if not each.is_at_rest and _is_under_way(each)]
        for position in gone:
            position.state = deleted
        removal = self._copying.delete(gone, now.wall, in_bulk=in_bulk)
        self._uncount(positions)
        for position in under_way:
            self._holdings.link(position)
        self._expiry.forget(positions)
        return removal

    def withdraw(self, removal: Removal) -> None:
        """The changes of a removal are not stored: its dead letters do not exist until L{renew}."""
        self._copying.withdraw(removal.copies)
        forget_queues(removal.changes, (copy.queue for copy in removal.copies))

    def renew(self, removal: Removal, now: Moment, *, in_bulk: bool) -> Removal:
        """The changes of a removal again, after L{withdraw}, with new dead letters."""
        return self._copying.delete(removal.positions, now.wall, in_bulk=in_bulk)

    def _uncount(self, positions: Iterable[MessagePosition]) -> None:
        memory = PacketHolder.MEMORY
        for position in positions:
            if position.kept is memory:
                self._holdings.storage.express -= position.size
            elif position.is_cached:
                self._holdings.uncache(position)


def _is_under_way(position: MessagePosition) -> bool:
    """Whether a change for a message is being stored; uncommitted messages are only in memory."""
    if position.state is PositionState.DELETED:
        return False
    owner = position.owner
    return not (
        position.state is PositionState.ARRIVING
        and isinstance(owner, Transaction)
        and owner.state is not TransactionState.COMMITTING
    )
