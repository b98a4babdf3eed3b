"""Performs what the queue model answers: stores first, then tells those who wait."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from msmq.interfaces.clock import IClock
from msmq.interfaces.storage import IMessageStore, StorageError
from msmq.queues.changes import Change
from msmq.queues.effects import Effect, OutgoingReady, ReadCompleted, ReadFailed
from msmq.queues.leaving import Departure
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import MessagePosition
from msmq.structures.status import MQError, Status
from msmq.structures.user_message_view import UserMessageView


class Performer:
    """Stands between the queue model and the store, the clock, and the readers that wait.

    @ivar on_outgoing: told of an outgoing queue in which messages wait.
    @ivar on_departure: told of messages that leave their queue unread; has to see to their changes.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self, model: QueueManagerModel, store: IMessageStore, reactor: IReactorTime, clock: IClock
    ) -> None:
        self.model = model
        self.store = store
        self.clock = clock
        self.on_outgoing: Callable[[OutgoingQueue], None] = lambda queue: None
        self.on_departure: Callable[[Departure], None] = model.removed
        self._reactor = reactor
        self._readers: dict[Hashable, Deferred[Sequence[MessagePosition]]] = {}
        self._timer: IDelayedCall | None = None

    async def commit(self, changes: Sequence[Change]) -> None:
        """Store these changes, all or none.

        @raise MQError: MQ_ERROR_MESSAGE_STORAGE_FAILED, saying why the store could not.
        """
        if not changes:
            return
        try:
            await self.store.commit(changes)
        except StorageError as error:
            raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error)) from error

    async def load(self, positions: Sequence[MessagePosition]) -> bool:
        """Read from the store the packets of those positions that have none in memory.

        @return: whether there was any.
        @raise MQError: MQ_ERROR_MESSAGE_STORAGE_FAILED, saying what could not be read.
        """
        missing: dict[MessagePosition, None] = {
            position: None for position in positions if position.view is None
        }
        for queue in {position.queue for position in missing}:
            wanted = [position for position in missing if position.queue is queue]
            try:
                packets = await self.store.read(
                    queue.definition.identifier, [position.lookup_id for position in wanted]
                )
            except StorageError as error:
                raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error)) from error
            for position, packet in zip(wanted, packets, strict=True):
                position.view = UserMessageView(packet)
        return bool(missing)

    def wait_for(self, tag: Hashable) -> Deferred[Sequence[MessagePosition]]:
        """What the read of this tag will find; cancelling it ends the read."""
        waiting: Deferred[Sequence[MessagePosition]] = Deferred(lambda _: self._cancel(tag))
        self._readers[tag] = waiting
        return waiting

    def _cancel(self, tag: Hashable) -> None:
        self._readers.pop(tag, None)
        self.perform(self.model.cancel(tag))

    def perform(self, effects: Iterable[Effect]) -> None:
        """Tell readers and outgoing queues, in order, and keep the one delayed call that waits need."""
        for effect in effects:
            match effect:
                case ReadCompleted(tag, positions):
                    reader = self._readers.pop(tag, None)
                    if reader is not None:
                        reader.callback(positions)
                    else:
                        self.perform(self.model.release(positions, self.clock.now()))
                case ReadFailed(tag, status):
                    reader = self._readers.pop(tag, None)
                    if reader is not None:
                        reader.errback(MQError(status, _WHY.get(status, "the read has ended")))
                case OutgoingReady(queue):
                    self.on_outgoing(queue)
                case Departure():
                    self.on_departure(effect)
        self._schedule()

    def stop(self) -> None:
        """End every read that still waits."""
        readers, self._readers = self._readers, {}
        for tag, reader in readers.items():
            self.model.cancel(tag)
            reader.errback(MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, "the queue manager is stopping"))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        now = self.clock.now()
        deadline = self.model.deadline(now)
        if deadline is None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            return
        delay = max(0.0, deadline - now.monotonic)
        if self._timer is not None:
            if self._timer.getTime() <= self._reactor.seconds() + delay:
                return
            self._timer.cancel()
        self._timer = self._reactor.callLater(delay, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self.perform(self.model.expire(self.clock.now()))


_WHY = {
    Status.MQ_ERROR_IO_TIMEOUT: "no message came in time",
    Status.MQ_ERROR_QUEUE_DELETED: "the queue was deleted",
    Status.MQ_ERROR_QUEUE_NOT_AVAILABLE: "the queue is gone",
    Status.MQ_ERROR_OPERATION_CANCELLED: "the read was cancelled",
}
