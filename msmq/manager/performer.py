"""Performs effects of the queue model: commits changes first, then completes waiting reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Sequence
from typing import ClassVar, Final, Protocol, TypeVar
from uuid import UUID

from twisted.internet.defer import CancelledError, Deferred, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.deadline_timer import DeadlineTimer
from msmq.interfaces.clock import IClock
from msmq.interfaces.storage import (
    DamagedMessageKept,
    IMessageRuns,
    IMessageStore,
    MessageNotStored,
    StorageError,
    StorageFull,
    storage_error,
)
from msmq.line_limit import LineBudget
from msmq.manager.new_queues import NewQueues
from msmq.manager.result_records import without_records
from msmq.moment import Moment
from msmq.persistence.changes import Change, has_runs, single_changes
from msmq.queues.arriving.admission import Admission
from msmq.queues.effects import Effect, OutgoingReady, ReadCompleted, ReadFailed
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status

T = TypeVar("T")

OVERFLOW_BACKLOG = 32 * 1024 * 1024
"""Limit on express messages that wait for the store, in bytes; beyond it senders wait."""

RETRY: Final = 60.0
"""Longest time between two attempts when the store fails, in seconds."""

FIRST_RETRY: Final = 1.0
"""Seconds from a failure of the store to the second attempt; each further wait is twice as long."""

LINES: Final = 5
"""Limit on log lines of one kind in a minute that peers cause; further ones are counted."""

LINES_OF_ALL: Final = 25
"""The same limit for all kinds together."""


class PerformerListener(Protocol):
    """Is notified of effects of the model, and of failures of the store."""

    def outgoing_ready(self, queue: OutgoingQueue) -> None:
        """Messages wait in an outgoing queue."""

    def outgoing_left(self, queue: OutgoingQueue, positions: Sequence[MessagePosition]) -> None:
        """A reader has taken messages from an outgoing queue, so that they are not sent."""

    def departing(self, departure: Departure) -> None:
        """Messages are to be removed unread; the listener stores that."""

    def store_failed(self, error: StorageError) -> None:
        """A request to the store failed."""


class Performer:
    """Connects the queue model with the store, the clock, and waiting readers.

    @ivar takes_runs: whether the store provides L{IMessageRuns}.
    @ivar is_stopped: before L{start}, and once L{stop} was called.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        model: QueueManagerModel,
        store: IMessageStore,
        reactor: IReactorTime,
        clock: IClock,
        listener: PerformerListener,
    ) -> None:
        self.model = model
        self.store = store
        self.takes_runs = IMessageRuns.providedBy(store)
        self.clock = clock
        self._listener = listener
        self._reactor = reactor
        self._overflowing = 0
        self._new_queues = NewQueues()
        self._drained: list[Deferred[None]] = []
        self._readers: dict[Hashable, Deferred[Sequence[MessagePosition]]] = {}
        self._timer = DeadlineTimer(reactor, clock, self._expire)
        self._deadline: float | None = None
        self._pauses: dict[Deferred[None], None] = {}
        # The records of results that were left out for want of space.
        self._left_out: set[str] = set()
        self._lines = LineBudget(LINES, LINES_OF_ALL)
        self.is_stopped = True

    def peer_line(self, kind: str) -> str | None:
        """Rate limit for a log line that peers cause: its suffix, or C{None} if it is omitted.

        @param kind: the kind of line, a fixed word.
        """
        return self._lines.take(kind, self.clock.now())

    def check_running(self) -> None:
        """Check that the queue manager is running.

        @raise MQError: MQ_ERROR_SERVICE_NOT_AVAILABLE before it starts, and once it has stopped.
        """
        if self.is_stopped:
            raise _stopped()

    async def commit(self, changes: Sequence[Change]) -> None:
        """Store these changes, all or none.

        @raise MQError: MQ_ERROR_INSUFFICIENT_RESOURCES if the store has no space,
            MQ_ERROR_MESSAGE_STORAGE_FAILED for any other failure, and
            MQ_ERROR_SERVICE_NOT_AVAILABLE once the queue manager has stopped.
        """
        if not changes:
            return
        self.check_running()
        if not self.takes_runs and has_runs(changes):
            changes = list(single_changes(changes))
        changes, created = self._new_queues.begin(changes)
        try:
            try:
                # Apart from the store's Deferred: if that is cancelled by the store it has failed, while a
                # cancellation by the caller only ends the wait.
                answer: Deferred[None] = Deferred()
                self.store.commit(changes).addErrback(_as_storage_error).chainDeferred(answer)
                await answer
            except StorageFull as full:
                await self._commit_without_records(changes, full)
        except CancelledError:
            raise
        except Exception as error:
            # A store may raise other errors by mistake, and nothing may wait without end because of them.
            failed = storage_error(error)
            self._listener.store_failed(failed)
            is_full = isinstance(failed, StorageFull)
            status = (
                Status.MQ_ERROR_INSUFFICIENT_RESOURCES if is_full else Status.MQ_ERROR_MESSAGE_STORAGE_FAILED
            )
            raise MQError(status, str(failed)) from error
        else:
            if created:
                self._are_created(created)
        finally:
            if created:
                self._new_queues.end(created)

    async def _commit_without_records(self, changes: Sequence[Change], full: StorageFull) -> None:
        """Store the removals of a batch that had no space for the records of their results.

        @raise StorageFull: the batch has no records, or nothing else, or no space for the rest either.
        """
        essential, names = without_records(changes)
        if not (names and essential):
            raise full
        # Other batches may have been stored since, with later bounds of numbers.
        await _apart(self.store.commit(self.model.renewed(essential)))
        self._left_out |= names

    def is_left_out(self, name: str) -> bool:
        """Whether the record of a result was left out of its commit for want of space; asked once."""
        is_left_out = name in self._left_out
        self._left_out.discard(name)
        return is_left_out

    def _are_created(self, created: Collection[UUID]) -> None:
        for identifier in created:
            if (queue := self.model.collection.of_identifier(identifier)) is not None:
                # Another batch that was to create it may have failed.
                queue.is_stored = True

    def commit_later(self, changes: Sequence[Change], what: str) -> Deferred[bool]:
        """Store these changes, without waiting for it.

        @param what: what would be lost if the store fails; for the log.
        @return: fires with whether they are stored.
        """
        if not changes:
            return succeed(True)
        storing = Deferred.fromCoroutine(self.commit(changes))
        return storing.addCallbacks(lambda _: True, self._not_stored, errbackArgs=(what,))

    def _not_stored(self, failure: Failure, what: str) -> bool:
        failure.trap(MQError)
        self.log.error("{what} not stored: {error}", what=what, error=failure.value)
        return False

    async def insist(self, changes: Sequence[Change], what: str, *, every: float = RETRY) -> bool:
        """Store these changes, with retries; false if the queue manager stopped before that.

        @param what: as for L{commit_later}.
        @param every: as for L{retry}.
        """
        return await self.retry(lambda attempt: self.commit(self.model.renewed(changes)), what, every=every)

    async def retry(self, work: Callable[[int], Awaitable[None]], what: str, *, every: float = RETRY) -> bool:
        """Repeat work that ends with a commit until it succeeds; false if the queue manager stopped before
        that.

        @param work: takes the number of the attempt, from 1 on; raises L{MQError} if the store failed.
        @param what: as for L{commit_later}.
        @param every: the longest time between two attempts, in seconds; the first waits are shorter, since
            many errors of a disk pass in a moment.
        """
        attempt, wait = 0, min(FIRST_RETRY, every)
        while not self.is_stopped:
            # A commit that succeeds just before the store is known to have space goes without the copies and
            # acknowledgements that are not made for a full one.
            if not attempt or not self.model.storage.throttled:
                attempt += 1
                try:
                    await work(attempt)
                    return True
                except MQError as error:
                    self.log.error("{what} not stored, retrying: {error}", what=what, error=error)
            if not self.is_stopped:
                await self.pause(wait)
            wait = min(every, 2 * wait)
        return False

    def insist_later(self, changes: Sequence[Change], what: str) -> None:
        """As L{insist}, without waiting for it."""
        if changes:
            Deferred.fromCoroutine(self.insist(changes, what)).addErrback(
                lambda failure: self.log.failure("not stored: {what}", failure, what=what)
            )

    def retry_now(self) -> None:
        """The store has space again: end all waits of L{pause}, so that what failed is tried again."""
        for waiting in list(self._pauses):
            waiting.callback(None)

    async def pause(self, seconds: float) -> None:
        """Wait for some seconds, or until L{stop} or L{retry_now}."""
        waiting: Deferred[None] = Deferred()
        call = self._reactor.callLater(seconds, waiting.callback, None)
        self._pauses[waiting] = None
        try:
            await waiting
        finally:
            self._pauses.pop(waiting, None)
            if call.active():
                call.cancel()

    async def next_turn(self) -> None:
        """Let the reactor serve others before the next step of long work."""
        await self.pause(0)

    def remove_empty_subqueues(self, positions: Iterable[MessagePosition]) -> None:
        """Delete subqueues that the removal of these messages left empty."""
        self.forget_empty({position.queue for position in positions})

    def forget_empty(self, queues: Iterable[Queue]) -> None:
        """Delete those of these queues that are empty subqueues without handles."""
        for queue in queues:
            if queue.is_subqueue:
                self.insist_later(self.model.forget_empty(queue), "the deletion of a subqueue")

    def left_unsent(self, positions: Sequence[MessagePosition]) -> None:
        """Messages of one queue were received or moved; the next ones of an outgoing queue do not wait for
        them.
        """
        if positions and isinstance(queue := positions[0].queue, OutgoingQueue):
            self._listener.outgoing_left(queue, positions)

    def overflow(self, admission: Admission) -> None:
        """Write express messages over the memory limit to the store."""
        if admission.overflow:
            size = sum(
                position.size for position in admission.positions if position.kept is PacketHolder.OVERFLOW
            )
            self._overflowing += size
            changes, created = self._new_queues.begin(admission.overflow)
            storing = maybeDeferred(self.store.commit, changes)
            storing.addBoth(self._overflowed, admission, size, created)

    def _overflowed(self, result: object, admission: Admission, size: int, created: Collection[UUID]) -> None:
        error = result.value if isinstance(result, Failure) else None
        self._overflowing -= size
        self._new_queues.end(created)
        if error is None:
            self._are_created(created)
        self.model.overflowed(admission, is_stored=error is None)
        if error is not None:
            self.log.error("express messages stay in memory: {error}", error=error)
        if isinstance(error, StorageError):
            self._listener.store_failed(error)
        if self._overflowing <= OVERFLOW_BACKLOG // 2:
            waiting, self._drained = self._drained, []
            for done in waiting:
                done.callback(None)

    def drained(self) -> Deferred[None] | None:
        """Wait until asynchronous writes to the store are below their limit; C{None} if they are."""
        if self._overflowing <= OVERFLOW_BACKLOG:
            return None
        done: Deferred[None] = Deferred()
        self._drained.append(done)
        return done

    async def load(self, positions: Sequence[MessagePosition]) -> list[UserMessageView]:
        """The packets of these messages, read from the store if they are not in memory.

        The packets of locked messages stay in memory; those of available ones only with the caller.

        A message that the store no longer has leaves its queue.

        @raise MQError: MQ_ERROR_MESSAGE_STORAGE_FAILED, with the message that could not be read; its cause is
        the error of the store.
        """
        missing: dict[Queue, list[MessagePosition]] = {}
        read: dict[MessagePosition, UserMessageView] = {}
        for position in positions:
            if position.view is None:
                missing.setdefault(position.queue, []).append(position)
            else:
                read[position] = position.view
        for queue, wanted in missing.items():
            try:
                packets = await _apart(
                    self.store.read(queue.definition.identifier, [position.lookup_id for position in wanted])
                )
                views = [UserMessageView(packet) for _, packet in zip(wanted, packets, strict=True)]
            except MessageNotStored as error:
                # It is removed, so that later messages are found.
                lost = [one for one in wanted if one.lookup_id == error.lookup_id]
                self.perform(self.model.lost(lost, is_kept=isinstance(error, DamagedMessageKept)))
                raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(error)) from error
            except CancelledError:
                raise
            except Exception as error:
                raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(storage_error(error))) from error
            for position, view in zip(wanted, views, strict=True):
                view = position.view or view
                read[position] = view
                if position.state is not PositionState.AVAILABLE:
                    position.view = view
        return [read[position] for position in positions]

    def read(
        self, tag: Hashable, begin: Callable[[], Iterable[Effect]], now: Moment
    ) -> Deferred[Sequence[MessagePosition]]:
        """Begin a read of the model; the Deferred fires with its messages, and cancelling it ends the read.

        @param now: the time, at which it begins.
        @raise MQError: MQ_ERROR_SERVICE_NOT_AVAILABLE once the queue manager has stopped.
        """
        self.check_running()
        effects = begin()
        waiting: Deferred[Sequence[MessagePosition]] = Deferred(lambda _: self._cancel(tag))
        self._readers[tag] = waiting
        self.perform(effects, now)
        return waiting

    def _cancel(self, tag: Hashable) -> None:
        self._readers.pop(tag, None)
        self.perform(self.model.cancel(tag))

    def perform(self, effects: Iterable[Effect], now: Moment | None = None) -> None:
        """Perform effects on readers and outgoing queues, in order, and keep the one timer for waits.

        @param now: the time, if the caller has just read it.
        """
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
                    self._listener.outgoing_ready(queue)
                case Departure():
                    self._listener.departing(effect)
        if not self.is_stopped:
            deadline = self.model.deadline(self.clock.now() if now is None else now)
            if deadline != self._deadline:
                self._set_timer(deadline)

    def start(self) -> None:
        """Accept requests from now on."""
        self.is_stopped = False

    def stop(self) -> None:
        """End all waits, and refuse new ones."""
        self.is_stopped = True
        self._set_timer(None)
        self.retry_now()
        readers, self._readers = self._readers, {}
        for tag, reader in readers.items():
            self.model.cancel(tag)
            reader.errback(_stopped())

    def _set_timer(self, deadline: float | None) -> None:
        self._deadline = deadline
        self._timer.set(deadline)

    def _expire(self, now: Moment) -> None:
        self._deadline = None
        self.perform(self.model.expire(now))


def _apart(request: Deferred[T]) -> Deferred[T]:
    """The result of a request to the store, in which only the caller cancels; see L{Performer.commit}."""
    answer: Deferred[T] = Deferred()
    request.addErrback(_as_storage_error).chainDeferred(answer)
    return answer


def _as_storage_error(failure: Failure) -> Failure:
    error = failure.value
    if error is None or isinstance(error, StorageError):
        return failure
    raise storage_error(error) from error


def _stopped() -> MQError:
    return MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, "the queue manager is stopped")


_WHY = {
    Status.MQ_ERROR_IO_TIMEOUT: "no message came in time",
    Status.MQ_ERROR_QUEUE_DELETED: "the queue was deleted",
    Status.MQ_ERROR_QUEUE_NOT_AVAILABLE: "the queue no longer exists",
    Status.MQ_ERROR_OPERATION_CANCELLED: "the read was cancelled",
    Status.MQ_ERROR_TRANSACTION_SEQUENCE: "the transaction has ended",
}
