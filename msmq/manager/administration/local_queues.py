"""Changes and deletions of queues in the model and the store, without the directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.background import undivided
from msmq.manager.events import EventLog
from msmq.manager.outbox import Outbox
from msmq.manager.performer import Performer
from msmq.persistence.changes import Change
from msmq.queues.creation import Deletion
from msmq.queues.leaving.copies import not_removed_in_bulk
from msmq.queues.leaving.departure_kinds import Removal
from msmq.queues.queue import MessagePosition, Queue, at_rest
from msmq.quoting import shown
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import DeletionPending, MQError, Status

SLICE = 200
"""Messages that are processed in one iteration of the reactor when a queue is deleted."""

SLICE_IN_BULK = 500
"""The same with a store that removes messages without their packets; those that need them take longer."""

DELETION: Final = "the deletion of a queue"
"""What is retried, for the log."""

UNDECIDED = 0.1
"""Seconds between checks for pending enqueues and removals of a deleted queue."""


class LocalQueues:
    """Changes and deletes the queues of this queue manager."""

    log: ClassVar[Logger] = Logger()

    def __init__(self, performer: Performer, outbox: Outbox, events: EventLog, reactor: IReactorTime) -> None:
        self._performer = performer
        self._outbox = outbox
        self._events = events
        self._reactor = reactor
        self._altering = DeferredLock()

    async def alter(self, queue: Queue, values: Mapping[str, Any], also: Sequence[Change] = ()) -> None:
        """Give a queue other properties. [MS-MQDMPR] 3.1.1.2.

        @param values: attributes of L{msmq.persistence.definition.QueueDefinition}.
        @param also: changes to store in the same commit.
        """
        await undivided(self._alter_in_turn(queue, values, also))

    async def _alter_in_turn(self, queue: Queue, values: Mapping[str, Any], also: Sequence[Change]) -> None:
        # One at a time, so that the last stored definition has all changes.
        await self._altering.run(self._alter, queue, values, also)

    async def _alter(self, queue: Queue, values: Mapping[str, Any], also: Sequence[Change]) -> None:
        alteration = self._performer.model.alter_queue(queue, self._performer.clock.now(), **values)
        await self._performer.commit([*alteration.changes, *also])
        self._performer.model.altered(alteration)

    async def remove(self, queue: Queue, also: Sequence[Change] = ()) -> None:
        """Delete a queue with all that is in it. [MS-MQDMPR] 3.1.7.1.4.

        @param also: changes to store in the same commit.
        @raise DeletionPending: the store failed; the queue is deleted all the same, and the store is retried.
        @raise MQError: MQ_ERROR_SERVICE_NOT_AVAILABLE if the queue manager stops before it is stored.
        """
        deletion = self._performer.model.delete_queue(queue)
        deletion = attrs.evolve(deletion, changes=[*deletion.changes, *also])
        if deletion.positions:
            self.log.warn(
                "queue {path} was deleted with {count} messages in it",
                path=queue.definition.path,
                count=len(deletion.positions),
            )
        self._performer.perform(deletion.effects)
        stored: Deferred[None] = Deferred()

        def failed(failure: Failure) -> None:
            self.log.failure("the deletion of a queue was not completed", failure)
            if not stored.called:
                stored.errback(failure)

        Deferred.fromCoroutine(self._finish_deletion(deletion, stored)).addCallbacks(
            lambda _: _report_stop(queue, stored), failed
        )
        await stored

    async def _finish_deletion(self, deletion: Deletion, stored: Deferred[None]) -> None:
        """Remove the messages of a deleted queue, a slice per iteration of the reactor, with their events.

        Pending enqueues and removals report their messages themselves.

        @param stored: fires when all of it is stored, or fails at the first failure of the store; the
        deletion is retried until it is complete.
        """
        performer = self._performer
        gone = deletion.positions
        while gone and not performer.is_stopped:
            in_bulk = performer.takes_runs
            at_once = SLICE_IN_BULK if in_bulk else SLICE
            slice_of_it = gone.take(at_once)
            resting = at_rest(slice_of_it)
            if unread := not_removed_in_bulk(resting) if in_bulk else resting:
                await self._read(unread)
                # Messages whose removal has begun meanwhile are reported by that removal.
                resting = at_rest(resting)
            removal = performer.model.delete_messages(slice_of_it, performer.clock.now(), in_bulk=in_bulk)
            if not await self._remove_slice(deletion.queue, removal, resting, stored, in_bulk=in_bulk):
                return
            for position in resting:
                position.view = None
            if gone:
                await deferLater(self._reactor, 0)
        queue = deletion.queue
        while await self._commit_or_retry(queue, deletion.fence, stored):
            if deletion.is_decided:
                break
            await deferLater(self._reactor, UNDECIDED)
        else:
            return
        if await self._commit_or_retry(queue, deletion.changes, stored):
            performer.model.deleted(deletion)
            if not stored.called:
                stored.callback(None)

    async def _read(self, positions: Sequence[MessagePosition]) -> None:
        """Read the packets that can be read; a message received meanwhile does not affect the others."""
        try:
            views = await self._performer.load(positions)
        except MQError as error:
            if len(positions) == 1:
                self.log.warn(
                    "no negative acknowledgement for a message of a deleted queue: {error}", error=error
                )
                return
            for position in positions:
                await self._read((position,))
            return
        for position, view in zip(positions, views, strict=True):
            position.view = view

    async def _remove_slice(
        self,
        queue: Queue,
        removal: Removal,
        resting: Sequence[MessagePosition],
        stored: Deferred[None],
        *,
        in_bulk: bool,
    ) -> bool:
        """Store the removal of some messages with their dead letters and acknowledgements, with retries.

        Between two attempts these copies are withdrawn, so that no count includes what is not stored.

        @return: false if the queue manager stopped before that.
        """
        performer, model = self._performer, self._performer.model

        async def attempt(number: int) -> None:
            nonlocal removal
            if number > 1:
                removal = model.renew_deletion(removal, performer.clock.now(), in_bulk=in_bulk)
            answers = self._outbox.answers()
            views = (position.view for position in resting if position.view is not None)
            answers.add(views, MessageClass.NACK_Q_DELETED)
            # The events of the slice count once, and make the log be trimmed once.
            changes = self._events.trim(removal.changes) if number == 1 else removal.changes
            try:
                await performer.commit(model.renewed([*changes, *answers.prepare()]))
            except MQError as error:
                answers.withdraw()
                model.deletion_failed(removal)
                _report(queue, stored, error)
                raise
            performer.perform(model.messages_deleted(removal, performer.clock.now()))
            answers.show()

        return await performer.retry(attempt, DELETION)

    async def _commit_or_retry(self, queue: Queue, changes: Sequence[Change], stored: Deferred[None]) -> bool:
        async def attempt(number: int) -> None:
            try:
                await self._performer.commit(self._performer.model.renewed(changes))
            except MQError as error:
                _report(queue, stored, error)
                raise

        return await self._performer.retry(attempt, DELETION)


def _report(queue: Queue, stored: Deferred[None], error: MQError) -> None:
    """Report to the caller of a deletion, once, that the store failed."""
    if not stored.called:
        stored.errback(
            DeletionPending(
                error.status,
                f"queue {shown(queue.definition.path)} is deleted, and its removal from the store is "
                f"pending: {error.detail}; it is retried until it is stored",
            )
        )


def _report_stop(queue: Queue, stored: Deferred[None]) -> None:
    """Report to the caller of a deletion that the queue manager has stopped before its end."""
    if not stored.called:
        stored.errback(
            MQError(
                Status.MQ_ERROR_SERVICE_NOT_AVAILABLE,
                f"the queue manager stopped before the removal of queue {shown(queue.definition.path)} was"
                " stored; its next start has the queue again, with the messages that were not removed",
            )
        )
