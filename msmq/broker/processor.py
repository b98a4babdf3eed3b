"""Hands over the messages of queues to a coroutine: bounded concurrency, order where it has to be kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Hashable
from inspect import isawaitable
from typing import Any, ClassVar, Final, Protocol

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.broker.in_process import MessagesInProcess, Processing
from msmq.broker.lanes import AHEAD, MOST_BYTES, MOST_PARKED, Lane, ProcessedQueue, TakenMessage
from msmq.broker.outcomes import Acceptance, Deferral, Outcome, Rejection, later
from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.interfaces.manager.queue_manager import IMessaging
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.line_limit import LineLimit
from msmq.net.coroutines import run_coroutine
from msmq.net.hooks import discard
from msmq.quoting import kind_of, shown
from msmq.slots import Slots
from msmq.structures.status import MQError, Status

REST: Final = 5.0
"""Seconds between attempts to read or remove messages while the store fails."""

AT_ONCE: Final = 50
"""Messages of a lane, or of a queue, that are processed before the reactor has its turn, if nothing has to be
waited for."""

MOST_ACCEPTED: Final = 10_000
"""Limit on messages that were accepted, and whose removal the store has refused."""

LINES: Final = 20
"""Log lines of failed messages in a minute."""

_GONE: Final = (Status.MQ_ERROR_QUEUE_DELETED, Status.MQ_ERROR_QUEUE_NOT_FOUND)


class Handler(Protocol):
    """The part of a broker that the processor calls."""

    def message_received(self, message: ReceivedMessage) -> Coroutine[Any, Any, Outcome]:
        """Process a message."""

    def message_failed(self, message: ReceivedMessage, error: Exception) -> Coroutine[Any, Any, Outcome]:
        """Decide about a message whose processing has raised an error."""

    def lane(self, message: ReceivedMessage) -> Hashable | None:
        """The key of the messages that are processed in order; C{None} for no order."""


class MessageProcessor:
    """Takes messages out of queues, has them processed, and removes them.

    A message is locked while it is processed, and removed when its outcome is known and that is stored; so
    one that is in process when the process ends is there again afterwards.

    @param messaging: the queue manager.
    @param concurrency: how many messages are processed at a time.
    @param finished: called when a message has left its queue.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        messaging: IMessaging,
        handler: Handler,
        concurrency: int,
        reactor: IReactorTime,
        clock: IClock,
        finished: Callable[[], None],
    ) -> None:
        self._messaging = messaging
        self._handler = handler
        self._reactor = reactor
        self._clock = clock
        self._finished = finished
        self._ahead = concurrency if concurrency == 1 else AHEAD * concurrency
        self._slots = Slots(concurrency)
        self._queues: dict[str, ProcessedQueue] = {}
        self._lanes: dict[Hashable, Lane] = {}
        self._bytes = 0
        # In the order of their failures.
        self._accepted: dict[tuple[str, int], None] = {}
        self._in_process = MessagesInProcess(reactor)
        self._sleeping: set[Deferred[None]] = set()
        self._lines = LineLimit.a_minute(LINES)
        self._is_paused = True
        self._is_stopped = False

    @property
    def paths(self) -> Collection[str]:
        """The paths of its queues."""
        return self._queues.keys()

    def add(self, path: str, *, is_kept: bool) -> None:
        """Process the messages of a queue as well; no effect if it is there already.

        @param is_kept: look for it again after it was deleted.
        """
        if path.lower() not in self._queues and not self._is_stopped:
            queue = self._queues[path.lower()] = ProcessedQueue(path, is_kept)
            self._detach(self._read(queue))

    def resume(self) -> None:
        """Process messages."""
        if not self._is_stopped and self._is_paused:
            self._is_paused = False
            self._wake_readers()

    def pause(self) -> None:
        """Process no further messages; those that are not in process return to their queues."""
        self._is_paused = True
        for queue in self._queues.values():
            if queue.reading is not None:
                queue.reading.cancel()
        for lane in list(self._lanes.values()):
            self._return_waiting(lane)

    def _return_waiting(self, lane: Lane) -> None:
        """Return the messages of a lane, except the first if it is in process or parked."""
        kept = 1 if lane.is_parked or lane.is_processing else 0
        while len(lane.messages) > kept:
            taken = lane.messages.pop()
            taken.reservation.release()
            self._forget(lane, taken)

    def others_ended(self) -> Deferred[None] | None:
        """See L{MessagesInProcess.others_ended}."""
        return self._in_process.others_ended()

    async def stop(self) -> None:
        """Process no further messages, and wait for those in process, as L{MessagesInProcess.stop} does."""
        self.pause()
        self._is_stopped = True
        for sleeping in list(self._sleeping):
            sleeping.cancel()
        self._wake_readers()
        if not await self._in_process.stop():
            self.log.warn("messages that are in process do not end; they are processed again")
        for lane in list(self._lanes.values()):
            while lane.messages:
                lane.messages.pop().reservation.release()
        self._lanes.clear()

    # Reading

    def _may_read(self, queue: ProcessedQueue) -> bool:
        if self._is_stopped:
            return True
        own = self._lanes.get(queue.path)
        return not (
            self._is_paused
            or queue.is_resting
            or queue.taken - queue.parked >= self._ahead
            or queue.parked >= MOST_PARKED
            or self._bytes >= MOST_BYTES
            or (own is not None and own.is_parked)
        )

    def _wake_readers(self) -> None:
        for queue in list(self._queues.values()):
            self._wake_reader(queue)

    def _wake_reader(self, queue: ProcessedQueue) -> None:
        if queue.reader_waits is not None and self._may_read(queue):
            waiting, queue.reader_waits = queue.reader_waits, None
            waiting.callback(None)

    async def _read(self, queue: ProcessedQueue) -> None:
        """Take messages out of a queue while there may be more, until it is deleted or this stops."""
        in_turn = 0
        while True:
            while not self._may_read(queue):
                queue.reader_waits = Deferred()
                await queue.reader_waits
                in_turn = 0
            if self._is_stopped:
                return
            in_turn += 1
            if in_turn % AT_ONCE == 0:
                await self._sleep(0)
                continue
            queue.reading = Deferred.fromCoroutine(self._reserve(queue))
            if not queue.reading.called:
                in_turn = 0
            try:
                reservation = await queue.reading
            except CancelledError:
                continue
            except MQError as error:
                if error.status in _GONE and not queue.is_kept:
                    del self._queues[queue.path.lower()]
                    return
                if error.status is Status.MQ_ERROR_SERVICE_NOT_AVAILABLE:
                    self._is_stopped = True
                    return
                self._report_unread(queue, error)
                self._rest(queue)
                continue
            finally:
                queue.reading = None
            queue.is_missing = False
            for message in reservation.messages:
                self._take(
                    TakenMessage(queue, reservation, attrs.evolve(message, queue=queue.path, attempt=1))
                )

    def _report_unread(self, queue: ProcessedQueue, error: MQError) -> None:
        """Log that a queue cannot be read; a deleted one once, until it is found again."""
        if error.status in _GONE:
            if not queue.is_missing:
                self.log.warn(
                    "queue {queue} of a broker was deleted; it is looked for every {seconds} s",
                    queue=shown(queue.path),
                    seconds=REST,
                )
            queue.is_missing = True
        elif (others := self._lines.take(self._clock.now())) is not None:
            self.log.warn(
                "messages of {queue} cannot be read: {error}{others}",
                queue=shown(queue.path),
                error=error,
                others=others,
            )

    async def _reserve(self, queue: ProcessedQueue) -> Any:
        return await self._messaging.reserve(queue.path)

    def _rest(self, queue: ProcessedQueue) -> None:
        """Leave a queue alone for a while: neither read nor process its messages.

        Otherwise many would be processed whose removal the store refuses.
        """
        if queue.is_resting:
            return
        queue.is_resting = True

        async def rest() -> None:
            await self._sleep(REST)
            queue.is_resting = False
            self._wake_reader(queue)

        self._detach(rest())

    # Lanes

    def _take(self, taken: TakenMessage) -> None:
        queue = taken.queue
        if (queue.path, taken.message.lookup_id) in self._accepted:
            taken.outcome = Acceptance()
        key = self._key(taken)
        lane = self._lanes.get(key)
        is_new = lane is None
        if lane is None:
            lane = self._lanes[key] = Lane(key)
        lane.messages.append(taken)
        queue.taken += 1
        self._bytes += taken.size
        if lane.is_parked:
            queue.parked += 1
        if is_new:
            self._detach(self._serve(lane))

    def _key(self, taken: TakenMessage) -> Hashable:
        """The key of a message: that of the broker, or one for the message alone."""
        try:
            key = self._handler.lane(taken.message)
            if isawaitable(key):
                # Each is another key, which would end the order without a trace.
                discard(key)
                raise LocalProtocolError(
                    f"{type(self._handler).__qualname__}.lane returned {kind_of(key)}; it has to be a plain"
                    " method that returns the key"
                )
            hash(key)
        except Exception:
            self._report(taken, Failure(), "the lane of a message was not found")
            return taken.queue.path
        return taken if key is None else key

    def _forget(self, lane: Lane, taken: TakenMessage) -> None:
        """A message is no longer taken out, and was removed from its lane."""
        taken.queue.taken -= 1
        if lane.is_parked:
            taken.queue.parked -= 1
        was_full = self._bytes >= MOST_BYTES
        self._bytes -= taken.size
        if was_full:
            self._wake_readers()
        else:
            self._wake_reader(taken.queue)

    def _park(self, lane: Lane, is_parked: bool) -> None:
        """The first message of a lane begins or ends to wait."""
        lane.is_parked = is_parked
        for taken in lane.messages:
            taken.queue.parked += 1 if is_parked else -1
        for queue in {taken.queue: None for taken in lane.messages}:
            self._wake_reader(queue)

    async def _serve(self, lane: Lane) -> None:
        """Process the messages of a lane, one after the other."""
        in_turn = 0
        while lane.messages and not self._is_stopped:
            in_turn += 1
            if in_turn % AT_ONCE == 0:
                await self._sleep(0)
            await self._slots.acquire()
            lane.is_processing = True
            try:
                # A separate coroutine, since the message in process is a variable of its context.
                delay = await Deferred.fromCoroutine(self._process_first(lane))
            except GeneratorExit:
                raise
            except BaseException:
                # Also what is no Exception: a handler's end of a test, or of the process.
                self.log.failure("a broker cannot process its messages")
                delay = REST
            finally:
                lane.is_processing = False
                self._slots.release()
            if delay is not None and lane.messages:
                self._park(lane, True)
                await self._sleep(delay)
                self._park(lane, False)
        if self._lanes.get(lane.key) is lane and not lane.messages:
            del self._lanes[lane.key]

    async def _process_first(self, lane: Lane) -> float | None:
        """Process the first message of a lane; returns seconds after which it is processed again."""
        processing = self._in_process.begin()
        try:
            return await self._settle_first(lane, processing)
        finally:
            self._in_process.end(processing)

    async def _settle_first(self, lane: Lane, processing: Processing) -> float | None:
        if not lane.messages or self._is_stopped:
            return None
        taken = lane.messages[0]
        is_halted = self._is_paused or taken.queue.is_resting
        if is_halted or taken.has_expired(self._clock.now().wall):
            taken.reservation.release()
            outcome: Outcome | None = None
        else:
            outcome = taken.outcome or await self._outcome(taken, processing)
        match outcome:
            case Deferral(seconds):
                taken.next_attempt()
                return seconds
            case Acceptance():
                await self._remove(taken)
            case Rejection(message_class, reason):
                taken.reservation.reject(message_class, reason)
            case _:
                taken.reservation.release()
        if lane.messages and lane.messages[0] is taken:
            lane.messages.popleft()
            self._forget(lane, taken)
        self._finished()
        return None

    async def _outcome(self, taken: TakenMessage, processing: Processing) -> Outcome | None:
        """Have a message processed; C{None} if that was not finished when the processor stopped."""
        try:
            return await self._call(processing, self._handler.message_received, taken.message)
        except Exception as error:
            if self._is_stopped:
                return None
            is_known = taken.message.attempt > 1
            self._report(taken, Failure(), "a message could not be processed", is_known=is_known)
            try:
                return await self._call(processing, self._handler.message_failed, taken.message, error)
            except Exception:
                self._report(taken, Failure(), "message_failed of a broker failed")
                return later(REST)

    async def _call(
        self, processing: Processing, method: Callable[..., Coroutine[Any, Any, Outcome]], *args: object
    ) -> Outcome:
        result: object = method(*args)
        if isinstance(result, Coroutine):
            result = run_coroutine(result)
        if isinstance(result, Deferred):
            processing.running = result
            try:
                result = await processing.running
            finally:
                processing.running = None
        if not isinstance(result, Outcome):
            raise LocalProtocolError(
                f"{method.__qualname__} returned {kind_of(result)}; it has to be a coroutine that returns"
                " accept(), reject(...) or later(...)"
            )
        return result

    async def _remove(self, taken: TakenMessage) -> None:
        """Remove a message that was accepted; if that cannot be stored, it is not processed again."""
        key = (taken.queue.path, taken.message.lookup_id)
        try:
            await taken.reservation.confirm()
        except MQError as error:
            if error.status is Status.MQ_ERROR_QUEUE_DELETED:
                # It is gone with its queue, and has an event.
                return
            if error.status is Status.MQ_ERROR_SERVICE_NOT_AVAILABLE:
                # The queue manager has stopped before the processor.
                self._is_stopped = True
            if not self._is_stopped:
                self.log.warn(
                    "a message that was processed is removed from {queue} later: {error}",
                    queue=shown(taken.queue.path),
                    error=error,
                )
                self._accepted[key] = None
                if len(self._accepted) > MOST_ACCEPTED:
                    del self._accepted[next(iter(self._accepted))]
                self._rest(taken.queue)
        else:
            self._accepted.pop(key, None)

    def _report(self, taken: TakenMessage, failure: Failure, what: str, *, is_known: bool = False) -> None:
        """Log a message that could not be processed.

        @param is_known: its traceback was logged.
        """
        suffix = self._lines.take(self._clock.now())
        if suffix is None:
            return
        queue, message = shown(taken.queue.path), taken.message
        if is_known:
            self.log.warn(
                "message {message} of {queue} could not be processed, attempt {attempt}: {error}{others}",
                message=message.identifier,
                queue=queue,
                attempt=message.attempt,
                error=shown(f"{type(failure.value).__name__}: {failure.value}"),
                others=suffix,
            )
        else:
            self.log.failure(
                "{what}: message {message} of {queue}{others}",
                failure,
                what=what,
                message=message.identifier,
                queue=queue,
                others=suffix,
            )

    async def _sleep(self, seconds: float) -> None:
        """Wait, but not longer than the processor runs."""
        if self._is_stopped:
            return
        sleeping: Deferred[None] = deferLater(self._reactor, seconds)
        self._sleeping.add(sleeping)
        try:
            await sleeping
        except CancelledError:
            pass
        finally:
            self._sleeping.discard(sleeping)

    def _detach(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine whose errors are ours."""
        Deferred.fromCoroutine(coroutine).addErrback(
            lambda failure: self.log.failure("a broker cannot process its messages", failure)
        )
