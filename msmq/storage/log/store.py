"""Message store in a record log: C{IMessageStore}."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, TypeVar
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.interfaces.storage import (
    IMessageRuns,
    IMessageStore,
    IStoreFiles,
    IStoreVerification,
    LogEntry,
    LogExtent,
    StorageError,
    StoredEvent,
    StoreNotOpen,
    storage_error,
)
from msmq.persistence.changes import Change
from msmq.persistence.snapshot import Snapshot
from msmq.storage.damage import DamagePolicy
from msmq.storage.log.batches import WriteBatch
from msmq.storage.log.counters import Counters
from msmq.storage.log.failures import failure
from msmq.storage.log.files import lock_directory
from msmq.storage.log.opened_log import OpenedLog, open_log
from msmq.storage.log.running_log import RunningLog
from msmq.storage.log.system import LOCAL, LogSystem, LogWorker
from msmq.storage.log.workers import Call
from msmq.storage.loss_check import LossCheck
from msmq.storage.reading_thread import Outcome, no_thread

FIRED_TOGETHER: Final = 128
"""Deferreds fired per iteration of the reactor: one or two milliseconds, with their callbacks."""
SEGMENT_BYTES: Final = 16 * 1024 * 1024
"""The usual size of a segment."""

_Result = TypeVar("_Result")
_Opened: TypeAlias = tuple[OpenedLog, Snapshot, LossCheck]


class _Phase(enum.Enum):
    CLOSED = enum.auto()
    OPENING = enum.auto()
    OPEN = enum.auto()
    CLOSING = enum.auto()


@implementer(IMessageRuns, IMessageStore, IStoreFiles, IStoreVerification)
class LogMessageStore:
    """Message store in a log of segments; a completed commit is on stable storage.

    It does not open if files of the log are missing, damaged or of another store or version, or if it is in
    use.
    A batch that is submitted during a read may already be visible to it.

    @param directory: of the log; created with mode 0700 if missing.
    @param policy: handling of damage and loss.
    @param clock: seconds, for measuring how long a write takes.
    @param segment_bytes: the size of a segment; at least 64 KiB.
    @param reactor: the reactor in whose thread the Deferreds fire; by default the running one.
    @param system: files and threads.
    """

    name = "log"
    durable = True
    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        directory: Path,
        policy: DamagePolicy,
        *,
        clock: Callable[[], float],
        segment_bytes: int = SEGMENT_BYTES,
        reactor: IReactorFromThreads | None = None,
        system: LogSystem = LOCAL,
    ) -> None:
        self._system = system
        self.directory = directory.absolute()
        self._policy = attrs.evolve(policy, mark=policy.mark.absolute())
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._reactor = reactor
        self._phase = _Phase.CLOSED
        self._call: Call
        self._soon: Call
        self._running: RunningLog | None = None
        self._upkeep: LogWorker
        self._lock = -1
        self._outcomes: deque[Outcome] = deque()
        self._is_firing = False
        self._closing: list[Deferred[None]] = []

    @property
    def counters(self) -> Counters:
        """Counters since the store was opened."""
        return Counters() if self._running is None else self._running.engine.counters

    def open(self) -> Deferred[Snapshot]:
        """See L{IMessageStore.open}."""
        if self._phase is not _Phase.CLOSED:
            return fail(StorageError(f"the store {self.directory} is open already"))
        reactor = self._reactor or _running_reactor()
        self._call = reactor.callFromThread
        # Avoids the reactor's wake-up pipe, which costs a write, a read and a poll per batch.
        self._soon = partial(IReactorTime(reactor).callLater, 0)
        try:
            self._upkeep = self._system.worker("msmq log upkeep", self._call)
        except RuntimeError as error:
            return fail(no_thread(str(self.directory), "open", error))
        self._phase = _Phase.OPENING
        done: Deferred[Snapshot] = Deferred()
        self._upkeep.do(self._open, partial(self._opened, done))
        return done

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""
        if self._running is None or self._phase is not _Phase.OPEN:
            return fail(self._not_open())
        done: Deferred[None] = Deferred()
        self._running.engine.put(WriteBatch(tuple(changes), done))
        return done

    def verified_bytes(self) -> int:
        """See L{IStoreVerification.verified_bytes}."""
        return self.counters.scrubbed_bytes

    def damaged(self) -> int:
        """See L{IStoreVerification.damaged}."""
        return self.counters.damaged

    def files(self) -> Sequence[Path]:
        """See L{IStoreFiles.files}."""
        try:
            return self._system.list(self.directory)
        except OSError:
            return []

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """See L{IMessageStore.read}."""
        wanted = tuple(lookup_ids)
        return self._ask(lambda running, done: running.lookups.read(queue, wanted, done))

    def find(self, identity: bytes) -> Deferred[Sequence[tuple[UUID, int]]]:
        """See L{IMessageStore.find}."""
        return self._ask(lambda running, done: running.lookups.find(identity, done))

    def read_log(self, queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        """See L{IMessageStore.read_log}."""
        return self._ask(lambda running, done: running.lookups.read_log(queue, after, limit, done))

    def log_extent(self, queue: UUID) -> Deferred[LogExtent]:
        """See L{IMessageStore.log_extent}."""
        return self._ask(lambda running, done: running.lookups.log_extent(queue, done))

    def read_events(
        self, after: int, limit: int, identity: bytes | None = None
    ) -> Deferred[Sequence[StoredEvent]]:
        """See L{IMessageStore.read_events}."""
        return self._ask(lambda running, done: running.lookups.read_events(after, limit, identity, done))

    def close(self) -> Deferred[None]:
        """See L{IMessageStore.close}."""
        if self._phase is _Phase.CLOSED:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._closing.append(done)
        if self._phase is _Phase.OPENING:
            # Closed as soon as it has opened.
            return done
        if self._phase is _Phase.OPEN:
            self._close()
        return done

    def _ask(self, ask: Callable[[RunningLog, Deferred[_Result]], object]) -> Deferred[_Result]:
        running = self._running
        if running is None or self._phase is not _Phase.OPEN:
            return fail(self._not_open())
        done: Deferred[_Result] = Deferred()

        def begin() -> None:
            try:
                ask(running, done)
            except Exception as error:
                # An argument of a wrong type.
                done.errback(failure(self.directory, "read", error))

        if running.engine.is_idle:
            begin()
        else:
            # After the pending batches.
            running.engine.put(WriteBatch((), Deferred(), then=begin))
        return done

    def _open(self) -> _Opened:
        """Read the log; blocks."""
        try:
            self._system.make_directory(self.directory, parents=False)
            lock = lock_directory(self.directory, self._system)
        except OSError as error:
            raise failure(self.directory, "open", error) from error
        try:
            loss = LossCheck(str(self.directory), self._policy, self._system.read_all)
            opened = open_log(self.directory, loss, self._segment_bytes, self._system)
            snapshot = opened.state.snapshot()
        except Exception as error:
            self._system.close(lock)
            raise failure(self.directory, "open", error) from error
        self._lock = lock
        return opened, snapshot, loss

    def _opened(
        self, done: Deferred[Snapshot], outcome: tuple[OpenedLog, Snapshot, LossCheck] | Exception
    ) -> None:
        if isinstance(outcome, Exception):
            self._upkeep.stop()
            self._not_opened(done, storage_error(outcome))
            return
        opened, snapshot, loss = outcome
        if opened.is_cut:
            self.log.info(
                "{directory}: a write that was never confirmed was cut off before group {sequence}",
                directory=self.directory,
                sequence=opened.position.sequence,
            )
        try:
            self._running = RunningLog(
                opened,
                self._policy,
                self._call,
                self._soon,
                self._upkeep,
                self._clock,
                IReactorTime(self._reactor or _running_reactor()),
                self._outcomes.extend,
                self._fire,
            )
        except RuntimeError as error:
            self._upkeep.stop()
            self._unlock()
            self._not_opened(done, no_thread(str(self.directory), "open", error))
            return
        self._phase = _Phase.OPEN
        if events := loss.events():
            self.commit(events).addErrback(self._event_not_stored)
        if self._closing:
            self._close()
        done.callback(snapshot)

    def _not_opened(self, done: Deferred[Snapshot], error: StorageError) -> None:
        self._phase = _Phase.CLOSED
        self._fire_closing()
        done.errback(error)

    def _event_not_stored(self, failed: Failure) -> None:
        self.log.error("an accepted loss has no event: {error}", error=failed.value)

    def _fire(self) -> None:
        """Fire some Deferreds, and the others in later iterations, to serve sockets in between."""
        if not self._is_firing:
            self._fire_some()

    def _fire_some(self) -> None:
        self._is_firing = len(self._outcomes) > FIRED_TOGETHER
        if self._is_firing:
            some = [self._outcomes.popleft() for _ in range(FIRED_TOGETHER)]
            self._soon(self._fire_some)
        else:
            some = list(self._outcomes)
            self._outcomes.clear()
        for done, outcome in some:
            if isinstance(outcome, Exception):
                done.errback(outcome)
            else:
                done.callback(outcome)

    def _close(self) -> None:
        self._phase = _Phase.CLOSING
        running = self._running
        assert running is not None
        running.engine.put(WriteBatch((), Deferred(), then=lambda: running.stop(self._stopped)))

    def _stopped(self) -> None:
        """Complete the shutdown: everything is on disk, and all threads have ended."""
        while self._outcomes:
            self._fire_some()
        self._upkeep.stop()
        self._running = None
        self._unlock()
        self._phase = _Phase.CLOSED
        self._fire_closing()

    def _unlock(self) -> None:
        with suppress(OSError):
            self._system.close(self._lock)
        self._lock = -1

    def _fire_closing(self) -> None:
        closing, self._closing = self._closing, []
        for done in closing:
            done.callback(None)

    def _not_open(self) -> StoreNotOpen:
        return StoreNotOpen(f"the store {self.directory} is not open")


def _running_reactor() -> Any:
    from twisted.internet import reactor

    return IReactorFromThreads(reactor)
