"""Waiting reads as coroutines: messages are locked or peeked, and their packets loaded."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import TypeAlias

import attrs

from msmq.interfaces.storage import MessageNotStored
from msmq.manager.acknowledgement_batch import AcknowledgementBatch
from msmq.manager.applications.reservation import Reservation, cache_unless_needed
from msmq.manager.interruptions import INTERRUPTIONS
from msmq.manager.outbox import Outbox
from msmq.manager.performer import Performer
from msmq.moment import Moment
from msmq.queues.arriving.reported import reported_receipts
from msmq.queues.effects import Effect
from msmq.queues.leaving.transaction import Transaction
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition
from msmq.queues.reading.operations import OnTaken
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status


@attrs.frozen
class Lock:
    """How a read locks messages.

    @ivar tag: identifies the read in effects.
    @ivar owner: the owner of the locks.
    @ivar on_taken: called with the messages at the moment they are locked.
    @ivar now: when the read begins.
    """

    tag: Hashable
    owner: Hashable
    on_taken: OnTaken | None
    now: Moment


Read: TypeAlias = Callable[[Lock], Sequence[Effect]]
"""Begins a read of the model, with this tag and these locks."""

CheckAgain: TypeAlias = Callable[[], Awaitable[None]]
"""Raises L{MQError} if the caller may not have messages any more."""


_LEAVING = (PositionState.REMOVING, PositionState.LEAVING, PositionState.DELETED)


class Reads:
    """Begins reads and waits for them."""

    def __init__(self, performer: Performer, outbox: Outbox) -> None:
        self._performer = performer
        self._outbox = outbox
        self._tags = itertools.count()

    async def run(
        self,
        read: Read,
        *,
        is_peek: bool,
        transaction: Transaction | None = None,
        check: CheckAgain | None = None,
    ) -> Reservation:
        """Run a read, and return its messages; cancelling it loses no message.

        @param transaction: confirms or releases the messages; otherwise the holder of the reservation does.
        @param check: called before a read that has waited gets its messages; they are returned to the queue
            if it raises.
        @raise MQError: as the read raises it, or MQ_ERROR_TRANSACTION_SEQUENCE if the transaction has ended,
        or
            MQ_ERROR_MESSAGE_STORAGE_FAILED if a packet could not be read.
        """
        if is_peek:
            transaction = None
        if transaction is not None:
            transaction.check_active()
        positions, views = await self._find(read, is_peek, transaction, check)
        if transaction is not None:
            # A long transaction must not fill memory with stored packets, unless they are needed at the end.
            cache_unless_needed(self._performer.model.holdings, positions)
        return Reservation(
            self._performer,
            positions,
            views=views,
            is_held=not is_peek and transaction is None,
            answers=self._answers,
        )

    async def _find(
        self, read: Read, is_peek: bool, transaction: Transaction | None, check: CheckAgain | None
    ) -> tuple[Sequence[MessagePosition], Sequence[UserMessageView]]:
        performer, model = self._performer, self._performer.model
        has_waited = False
        while True:
            tag, now = next(self._tags), performer.clock.now()
            if transaction is None:
                lock = Lock(tag, tag, None, now)
            else:
                lock = Lock(tag, transaction, partial(_check_active, transaction), now)
            reading = performer.read(tag, partial(read, lock), now)
            has_waited = has_waited or not reading.called
            positions = await reading
            try:
                views = await performer.load(positions)
                if check is not None and has_waited:
                    await check()
                if transaction is not None:
                    # It covers the messages that the reader has received, not those on their way to it.
                    model.transacting.receive(transaction, positions)
                return positions, views
            except MQError as error:
                if any(position.queue.is_deleted for position in positions):
                    raise MQError(Status.MQ_ERROR_QUEUE_DELETED, "the queue was deleted") from None
                if is_peek and any(position.state in _LEAVING for position in positions):
                    # Another reader has received it meanwhile.
                    continue
                self._return_to_queue(positions, is_peek)
                if isinstance(error.__cause__, MessageNotStored):
                    # That message was removed; the next one may be read.
                    continue
                raise
            except INTERRUPTIONS:
                # The caller has cancelled, and does not get the result.
                self._return_to_queue(positions, is_peek)
                raise

    def _return_to_queue(self, positions: Sequence[MessagePosition], is_peek: bool) -> None:
        """Undo a read whose result could not be delivered."""
        if not is_peek:
            performer = self._performer
            performer.perform(performer.model.release(positions, performer.clock.now()))

    def _answers(self, positions: Sequence[MessagePosition]) -> AcknowledgementBatch:
        answers = self._outbox.answers()
        answers.add(reported_receipts(positions), MessageClass.ACK_RECEIVE)
        return answers


def _check_active(transaction: Transaction, positions: Sequence[MessagePosition]) -> None:
    """Refuse a read in a transaction that is ending."""
    transaction.check_active()
