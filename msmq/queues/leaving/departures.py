"""Two-step removal of messages, or their return to the queue. [MS-MQDMPR] 3.1.7.2.1 and 3.1.7.2.2."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from msmq.moment import Moment
from msmq.queues.arriving.availability import Availability
from msmq.queues.counters import MessageNumbers
from msmq.queues.effects import Effect
from msmq.queues.holdings import Holdings, forget_queues
from msmq.queues.leaving.copies import MessageCopies
from msmq.queues.leaving.departure_kinds import (
    Departure,
    DepartureCommit,
    Removal,
    by_queue,
    departure,
    gone_with_queue,
    removals,
)
from msmq.queues.leaving.expiry import Expiry
from msmq.queues.leaving.purge import finish_purge
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition
from msmq.structures.packet.message_class import MessageClass


@attrs.define(eq=False)
class Departures:
    """Removes received and unread messages, and returns locked ones to their queue."""

    _numbers: MessageNumbers
    _holdings: Holdings
    _copying: MessageCopies
    _expiry: Expiry
    _showing: Availability

    # Received messages

    def remove(self, positions: Iterable[MessagePosition], *, by_reader: bool = False) -> Removal:
        """Request the removal of locked messages, which their readers have confirmed. [MS-MQDMPR] 3.1.7.2.1.

        Either L{removed} has to follow, or L{restored} if the changes were not stored. Positions that are not
        locked (any more) are skipped. Those whose queue was deleted are left to the deletion, which removes
        them with their events and acknowledgements; their reader gets an error, so that after a crash before
        that they may be in the queue again, with the queue. A message whose queue was purged meanwhile was
        received, as by the commit of a transaction (reading 27).

        @param by_reader: an application has received them; from an outgoing queue, where it has the right, so
            they have not arrived, and are not journaled as delivered.
        """
        removing = PositionState.REMOVING
        leaving: list[MessagePosition] = []
        purged: list[MessagePosition] = []
        for position in positions:
            if position.queue.is_deleted:
                continue
            if position.state is PositionState.LOCKED_READER:
                position.state = removing
                leaving.append(position)
            elif position.state is PositionState.PURGE_PENDING:
                position.state = removing
                leaving.append(position)
                purged.append(position)
        if by_reader and leaving and isinstance(leaving[0].queue, OutgoingQueue):
            return Removal(leaving, removals(leaving), purged=purged)
        removal = self._copying.receive(leaving)
        if not purged:
            return removal
        return attrs.evolve(removal, purged=purged)

    def removed(self, removal: Removal, now: Moment, *, is_received: bool = True) -> list[Effect]:
        """The changes of a removal are stored: the messages are removed, and the copies become available.

        @param is_received: they count as received from their queues.
        """
        self._numbers.stored(removal.changes)
        self._copying.dropped += removal.dropped
        if is_received:
            for position in removal.positions:
                position.queue.received_count += 1
        self._holdings.unlink_all(removal.positions)
        self._expiry.forget(removal.positions)
        return self._showing.show(removal.copies, now) if removal.copies else []

    def restored(self, removal: Removal, now: Moment) -> list[Effect]:
        """The changes of a removal were not stored: its messages return to their queues.

        Those whose queue was purged before they were confirmed are removed as purged.
        """
        for position in removal.purged:
            if not position.queue.is_deleted:
                position.state = PositionState.PURGE_PENDING
        self._copying.withdraw(removal.copies)
        forget_queues(removal.changes, (copy.queue for copy in removal.copies))
        return self.release(removal.positions, now)

    def release(self, positions: Iterable[MessagePosition], now: Moment) -> list[Effect]:
        """Release locked messages, which become available at their positions. [MS-MQDMPR] 3.1.7.2.2.

        Those that have expired, or whose queue was purged meanwhile, are removed instead.
        """
        back: list[MessagePosition] = []
        purged: list[MessagePosition] = []
        gone: list[MessagePosition] = []
        for position in positions:
            if position.queue.is_deleted:
                if position.state is PositionState.REMOVING:
                    gone.append(position)
                continue
            if position.state in (PositionState.LOCKED_READER, PositionState.REMOVING):
                position.state = PositionState.LOCKED_READER
                back.append(position)
            elif position.state is PositionState.PURGE_PENDING:
                purged.append(position)
        return [*self._showing.show(back, now, is_return=True), *finish_purge(purged), *gone_with_queue(gone)]

    def reject(
        self,
        positions: Iterable[MessagePosition],
        message_class: MessageClass = MessageClass.NACK_RECEIVE_REJECTED,
        reason: str = "",
    ) -> list[Departure]:
        """NackReceiveRejected: the reader rejects messages that it has locked. [MS-MQDMPR] 3.1.1.12.

        They are removed, with the acknowledgements that were requested. If their queue was purged or deleted,
        that is the reason of their removal.

        @param message_class: the class of the acknowledgement: L{NACK_COULD_NOT_ENCRYPT
            <MessageClass.NACK_COULD_NOT_ENCRYPT>} if a session cannot send them.
        @param reason: a text for the event log.
        """
        rejected: list[MessagePosition] = []
        purged: list[MessagePosition] = []
        for position in positions:
            if position.queue.is_deleted:
                continue
            if position.state is PositionState.LOCKED_READER:
                position.state = PositionState.LEAVING
                rejected.append(position)
            elif position.state is PositionState.PURGE_PENDING:
                purged.append(position)
        groups = by_queue(rejected).values()
        departures = [departure(positions, message_class, reason) for positions in groups]
        return [*departures, *finish_purge(purged)]

    def lost(self, positions: Iterable[MessagePosition], *, is_kept: bool = False) -> list[Departure]:
        """The store has lost these messages, found damaged for example: they are removed unread.

        Positions that are being removed already are skipped.

        @param is_kept: as of L{Departure}.
        """
        leaving: list[MessagePosition] = []
        for each in positions:
            position = each.current()
            if position is None or position.queue.is_deleted:
                continue
            if position.state is PositionState.AVAILABLE:
                position.queue.remove_available(position)
            elif position.state is PositionState.LOCKED_READER:
                position.state = PositionState.LEAVING
            else:
                continue
            leaving.append(position)
        why = "the store no longer has it"
        groups = by_queue(leaving).values()
        rejected = MessageClass.NACK_RECEIVE_REJECTED
        return [departure(group, rejected, why, is_kept=is_kept) for group in groups]

    def disposed(
        self, position: MessagePosition, copies: Iterable[MessagePosition], now: Moment
    ) -> list[Effect]:
        """A locked message was removed from its queue, and its copies become available."""
        self._holdings.unlink(position)
        self._expiry.forget((position,))
        return self._showing.show(copies, now)

    # Removal of unread messages

    def settle(self, departure: Departure, now: Moment, *, in_bulk: bool = False) -> DepartureCommit:
        """The changes that remove messages unread; either L{settled} or L{cancel_departure} has to follow.

        Their packets are to be read before as far as possible, for acknowledgements and dead letters.

        @param in_bulk: the store takes L{RemoveUnread<msmq.persistence.changes.RemoveUnread>}, so that the
            packets of L{msmq.queues.leaving.copies.removed_in_bulk} need not be read.
        """
        return self._copying.settle(departure, now.wall, in_bulk=in_bulk)

    def settled(self, settlement: DepartureCommit, now: Moment) -> list[Effect]:
        """The changes of a departure are stored: its messages are removed."""
        self._numbers.stored(settlement.changes)
        self._copying.dropped += settlement.dropped
        positions = settlement.departure.positions
        self._holdings.unlink_all(positions)
        self._expiry.forget(positions)
        return self._showing.show(settlement.copies, now) if settlement.copies else []

    def unsettle(self, settlement: DepartureCommit) -> None:
        """The changes of a departure were not stored: the copies are discarded, the removal stays pending."""
        self._copying.withdraw(settlement.copies)
        forget_queues(settlement.changes, (copy.queue for copy in settlement.copies))

    def cancel_departure(self, departure: Departure, now: Moment) -> list[Effect]:
        """A departure is cancelled: its messages return to their positions."""
        for position in departure.positions:
            if position.state is PositionState.LEAVING:
                position.state = PositionState.REMOVING
        return self.release(departure.positions, now)
