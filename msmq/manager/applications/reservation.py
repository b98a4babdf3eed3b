"""Reservations: messages that one reader has locked until it confirms or releases them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from zope.interface import implementer

from msmq.background import undivided
from msmq.interfaces.manager.queue_manager import IReservation
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.manager.acknowledgement_batch import AcknowledgementBatch
from msmq.manager.performer import Performer
from msmq.persistence.changes import Change
from msmq.queues.holdings import Holdings
from msmq.queues.leaving.departure_kinds import Removal
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.transfer.acknowledgements import wants_final_ack

if TYPE_CHECKING:
    from typing import Self


@implementer(IReservation)
class Reservation:
    """Locked messages, to be confirmed or released. [MS-MQDMPR] 3.1.7.1.11 and 3.1.7.1.12.

    As an asynchronous context manager it confirms when the block ends, and releases when the block raises or
    is cancelled.
    A reservation that is dropped keeps its messages locked until the queue manager stops;
    code that creates reservations for others has to ensure that each is confirmed or released.

    @param views: the packets, in the same order.
    @param is_held: the reservation holds locks; false for a peek, and for reads in a transaction.
    @param answers: the acknowledgements for their senders, sent when they are durably removed.
    """

    def __init__(
        self,
        performer: Performer,
        positions: Sequence[MessagePosition],
        *,
        views: Sequence[UserMessageView],
        is_held: bool,
        answers: Callable[[Sequence[MessagePosition]], AcknowledgementBatch],
    ) -> None:
        self._performer = performer
        self._answers = answers
        self._positions: Sequence[MessagePosition] = positions if is_held else ()
        self.messages: Sequence[ReceivedMessage] = [
            ReceivedMessage(view, position.lookup_id, position.arrived, position.aborts, position.moves)
            for position, view in zip(positions, views, strict=True)
        ]
        # Calls that wait for a removal that another call is storing; C{None} while none is.
        self._waiting: list[Deferred[None]] | None = None
        self._error: Exception | None = None

    def drop_packets(self) -> None:
        """Keep no packets in memory that are in the store too; C{messages} is empty from now on.

        Packets from which an acknowledgement or a copy is made when they are confirmed are kept.
        """
        self.messages = ()
        cache_unless_needed(self._performer.model.holdings, self._positions)

    async def confirm(self) -> None:
        """Remove the messages; done once the removal is stored.

        Those whose queue was purged meanwhile were received all the same (reading 27).
        Those whose queue was deleted before were not: their senders got NackQueueDeleted, and may send them
        to another queue.
        Cancelling it undoes nothing: the messages are removed all the same.
        Each later call, also one during the first, has the result of the first.

        @raise msmq.structures.status.MQError: MQ_ERROR_QUEUE_DELETED; or it could not be stored, and the
            messages are back in the queue.
        """
        if (waiting := self._waiting) is not None:
            done: Deferred[None] = Deferred()
            waiting.append(done)
            await done
        elif self._positions:
            await self._confirm()
        if self._error is not None:
            raise self._error

    async def _confirm(self) -> None:
        positions, self._positions = self._positions, ()
        for position in positions:
            if position.queue.is_deleted:
                path = position.queue.definition.path
                self._error = MQError(
                    Status.MQ_ERROR_QUEUE_DELETED,
                    f"{path} was deleted before its messages were confirmed; they do not count as received",
                )
                break
        removal = self._performer.model.remove(positions, by_reader=True)
        answers = self._answers(removal.positions)
        changes = [*removal.changes, *answers.prepare()]
        if changes:
            self._waiting = []
            await undivided(self._store(removal, answers, changes))
        else:
            self._removed(removal, answers)

    async def _store(
        self, removal: Removal, answers: AcknowledgementBatch, changes: Sequence[Change]
    ) -> None:
        performer = self._performer
        try:
            await performer.commit(changes)
        except Exception as error:
            self._error = error
            answers.withdraw()
            performer.perform(performer.model.restored(removal, performer.clock.now()))
            raise
        else:
            self._removed(removal, answers)
        finally:
            waiting, self._waiting = self._waiting or (), None
            for done in waiting:
                done.callback(None)

    def _removed(self, removal: Removal, answers: AcknowledgementBatch) -> None:
        performer = self._performer
        now = performer.clock.now()
        performer.perform(performer.model.removed(removal, now), now)
        performer.remove_empty_subqueues(removal.positions)
        performer.left_unsent(removal.positions)
        answers.show()

    def release(self) -> None:
        """Release the messages at their positions; no effect if they were confirmed or released.

        Those that have expired, or whose queue was purged, are removed instead.
        """
        positions, self._positions = self._positions, ()
        if positions:
            now = self._performer.clock.now()
            self._performer.perform(self._performer.model.release(positions, now))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.confirm()
        else:
            self.release()

    def reject(
        self, message_class: MessageClass = MessageClass.NACK_RECEIVE_REJECTED, reason: str = ""
    ) -> None:
        """NackReceiveRejected: reject the messages, which are removed. [MS-MQDMPR] 3.1.1.12.

        Each has an event, and an acknowledgement and a dead letter if its sender requested these. No effect
        if they were confirmed, released, or are in a transaction.

        @param message_class: of the acknowledgements and dead letters.
        @param reason: a text for the event log.
        """
        positions, self._positions = self._positions, ()
        if positions:
            self._performer.perform(self._performer.model.reject(positions, message_class, reason))


def cache_unless_needed(holdings: Holdings, positions: Iterable[MessagePosition]) -> None:
    """Keep the stored packets of locked messages within the limit of the cache.

    Those from which something is made when the messages are confirmed stay in memory in any case.
    """
    holdings.cache(
        [
            position
            for position in positions
            # Those of a queue that was deleted meanwhile are counted nowhere any more.
            if position.state is PositionState.LOCKED_READER
            and not position.queue.is_deleted
            and (view := position.view) is not None
            and not view.acknowledge
            and not wants_final_ack(view)
        ]
    )
