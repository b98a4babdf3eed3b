"""Messages with a final result leave their queue: journaled, dead-lettered or removed. [MS-MQQB] 3.1.5.7."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from msmq.interfaces.storage import MessageNotStored
from msmq.manager.events import EventLog
from msmq.manager.peers.delivery_log import DeliveryLog
from msmq.manager.performer import Performer
from msmq.manager.states import as_changes
from msmq.persistence.changes import Change
from msmq.queues.leaving.acknowledged import lock_acknowledged
from msmq.queues.leaving.copies import journaled_bytes
from msmq.queues.leaving.departure_kinds import removals
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.transfer.awaiting_final_acks import AwaitingFinalAcks
from msmq.transfer.decisions.final_ack_decision import settlement_event
from msmq.transfer.stream_changes import Disposal, SettledMessage

RETRY = 5.0
"""Seconds after which a failed removal of delivered messages is retried."""


class Settlements:
    """Stores the final results of messages that were sent in sequences.

    @param awaiting: the messages that wait for FinalAcks.
    @param deliveries: stores changes together with the records of deliveries.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        events: EventLog,
        awaiting: AwaitingFinalAcks,
        deliveries: DeliveryLog,
    ) -> None:
        self._performer = performer
        self._events = events
        self._awaiting = awaiting
        self._deliveries = deliveries

    async def settle_awaiting(self, settlements: Iterable[SettledMessage[int]]) -> None:
        """Dispose of messages that waited for their FinalAcks; those removed meanwhile are skipped.

        @raise CancelledError: the queue manager stops.
        """
        for settlement in settlements:
            queue = self._performer.model.collection.awaiting
            position = queue.positions.get(settlement.message)
            if position is not None and lock_acknowledged(position):
                await self.dispose(position, settlement.message_class, settlement.disposal)
            self._awaiting.removed(settlement.message)

    async def dispose(self, position: MessagePosition, message_class: int, disposal: Disposal) -> None:
        """A message with its final result is journaled, dead-lettered or removed. [MS-MQQB] 3.1.5.7.

        @raise CancelledError: the queue manager stops.
        """
        performer = self._performer
        model = performer.model
        changes: list[Change] = []
        copies: list[MessagePosition] = []
        # No other reader may lock it while its packet is read.
        position.state = PositionState.REMOVING
        if disposal is not Disposal.FORGET:
            view = await self._stored_packet(position)
            copy: MessagePosition | None = None
            spare = journaled_bytes((position,))
            if view is not None and disposal is Disposal.DEAD_LETTER:
                copy = model.copying.dead_letter(view, message_class, position, changes, spare)
            elif view is not None:
                copy = model.copying.copy(model.copying.machine_journal, view, position, changes, spare)
            if copy is not None:
                copies.append(copy)
            model.holdings.reserve(changes)
        # One that is not copied is not read, and reported only if it is in memory.
        event = None
        if position.view is not None or disposal is not Disposal.FORGET:
            event = settlement_event(
                position.view,
                message_class,
                disposal,
                performer.clock.now(),
                is_kept=bool(copies),
                note=model.copying.dead_letter_note(copies[0] if copies else None),
            )
        if event is not None:
            changes += self._events.trim([event])
        changes += removals([position])
        if position.queue is model.collection.awaiting:
            changes += as_changes(self._awaiting.take_changes(position.lookup_id))
        await self.persist(changes)
        model.stored(changes)
        performer.perform(model.disposed(position, copies, performer.clock.now()))

    async def _stored_packet(self, position: MessagePosition) -> UserMessageView | None:
        """Read a packet, with retries; C{None} if the store no longer has it, and there can be no copy.

        @raise CancelledError: the queue manager stops.
        """
        performer = self._performer
        while not performer.is_stopped:
            try:
                [view] = await performer.load([position])
                return view
            except MQError as error:
                self.log.error("message that waits for its acknowledgement not read: {error}", error=error)
                if isinstance(error.__cause__, MessageNotStored):
                    return None
            await performer.pause(RETRY)
        raise CancelledError

    async def persist(self, changes: Sequence[Change]) -> None:
        """Store these changes, with retries.

        @raise CancelledError: the queue manager stops; the receiver repeats acknowledgements that were not
            stored.
        """
        if not await self._deliveries.insist(changes, "the delivery of messages", every=RETRY):
            raise CancelledError
