"""Base of stores that work in threads: an asynchronous C{IMessageStore} over blocking threads."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.interfaces.storage import (
    DamagedMessageKept,
    LogEntry,
    LogExtent,
    StorageError,
    StoredEvent,
    StoreNotOpen,
)
from msmq.persistence.changes import Change
from msmq.persistence.snapshot import Snapshot
from msmq.storage.damage import DamagedRow, DamagePolicy, PacketDamaged, RowKind, VerifiedRows
from msmq.storage.reading_thread import Deliver, Outcome, Read, ReaderThread, ReadingThread, no_thread
from msmq.storage.row_scrubber import RowScrubber
from msmq.storage.scrub_step import ScrubStep
from msmq.storage.writing_thread import Listener, Stop, WritingThread

REMEMBERED: Final = 10_000
"""Capacity of the set of damaged rows that are not reported again."""
FIRED_TOGETHER: Final = 128
"""Deferreds that fire in one iteration of the reactor; a millisecond or two, with their callbacks."""

_Result = TypeVar("_Result")


class _Phase(enum.Enum):
    CLOSED = enum.auto()
    OPENING = enum.auto()
    OPEN = enum.auto()
    CLOSING = enum.auto()


class ThreadedMessageStore(ABC):
    """Common part of threaded message stores; subclasses define where data is written.

    A batch that is submitted during a read may already be visible to it.

    Reads are verified; damaged rows are quarantined with an event, and other rows are not affected.

    @ivar location: the location of the store, for log lines and errors.
    @param policy: handling of damage and loss.
    @param reactor: the reactor in whose thread the Deferreds fire; by default the running one.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, location: str, policy: DamagePolicy, reactor: IReactorFromThreads | None) -> None:
        self.location = location
        self._policy = policy
        self._scrubber: RowScrubber | None = None
        self._damaged = 0
        self._seen: set[tuple[RowKind, UUID | None, int]] = set()
        self._reactor = reactor
        self._phase = _Phase.CLOSED
        self._call: Callable[..., object]
        self._outcomes: deque[Outcome] = deque()
        self._writing: WritingThread[Any, Any] | None = None
        self._reading: tuple[ReadingThread, ReadingThread]
        self._closing: list[Deferred[None]] = []

    def open(self) -> Deferred[Snapshot]:
        """See L{msmq.interfaces.IMessageStore.open}."""
        if self._phase is not _Phase.CLOSED:
            return fail(StorageError(f"the store {self.location} is open already"))
        self._phase = _Phase.OPENING
        done: Deferred[Snapshot] = Deferred()
        self._call = call = (self._reactor or _running_reactor()).callFromThread
        listener = Listener(
            opened=partial(call, self._opened, done),
            deliver=partial(call, self._written),
            ended=partial(call, self._ended),
        )
        self._writing, self._reading = self._threads(listener, partial(call, _fire))
        try:
            self._writing.start()
        except RuntimeError as error:
            self._writing = None
            self._phase = _Phase.CLOSED
            return fail(no_thread(self.location, "open", error))
        return done

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """See L{msmq.interfaces.IMessageStore.read}."""
        wanted = tuple(lookup_ids)
        done: Deferred[Sequence[bytes]] = self._ask(lambda reader: reader.read(queue, wanted))
        return done.addErrback(self._cannot_read)

    def find(self, identity: bytes) -> Deferred[Sequence[tuple[UUID, int]]]:
        """See L{msmq.interfaces.IMessageStore.find}."""
        return self._ask(lambda reader: reader.find(identity), is_search=True)

    def read_log(self, queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        """See L{msmq.interfaces.IMessageStore.read_log}."""
        asked = self._ask(lambda reader: reader.read_log(queue, after, limit), is_search=True)
        return asked.addCallback(self._have_read)

    def log_extent(self, queue: UUID) -> Deferred[LogExtent]:
        """See L{msmq.interfaces.IMessageStore.log_extent}."""
        return self._ask(lambda reader: reader.log_extent(queue), is_search=True)

    def read_events(
        self, after: int, limit: int, identity: bytes | None = None
    ) -> Deferred[Sequence[StoredEvent]]:
        """See L{msmq.interfaces.IMessageStore.read_events}."""
        asked = self._ask(lambda reader: reader.read_events(after, limit, identity), is_search=True)
        return asked.addCallback(self._have_read)

    def verified_bytes(self) -> int:
        """See L{msmq.interfaces.storage.IStoreVerification.verified_bytes}."""
        return 0 if self._scrubber is None else self._scrubber.size

    def damaged(self) -> int:
        """See L{msmq.interfaces.storage.IStoreVerification.damaged}."""
        return self._damaged

    def scrubs(self) -> int:
        """Completed background verification passes since the store was opened."""
        return 0 if self._scrubber is None else self._scrubber.passes

    def scrub_problem(self) -> BaseException | None:
        """Why the last step of the background verification failed; C{None} if it did not."""
        return None if self._scrubber is None else self._scrubber.problem

    def close(self) -> Deferred[None]:
        """See L{msmq.interfaces.IMessageStore.close}."""
        if self._writing is None:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._closing.append(done)
        if self._phase is not _Phase.CLOSING:
            self._phase = _Phase.CLOSING
            if self._scrubber is not None:
                self._scrubber.stop()
            self._writing.put(Stop())
        return done

    @abstractmethod
    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{msmq.interfaces.IMessageStore.commit}."""

    @abstractmethod
    def _threads(
        self, listener: Listener, deliver: Deliver
    ) -> tuple[WritingThread[Any, Any], tuple[ReadingThread, ReadingThread]]:
        """The writing thread, and two reader threads: one for packets, one for long reads.

        @param deliver: fires the Deferreds of reads.
        """

    @abstractmethod
    def _is_writing(self) -> bool:
        """Whether batches are pending."""

    @abstractmethod
    def _forget(self, outcomes: Sequence[Outcome]) -> None:
        """Record that these are no longer pending."""

    def _open_writing(self) -> WritingThread[Any, Any] | None:
        """The writing thread, if it accepts requests."""
        return self._writing if self._phase is _Phase.OPEN else None

    def _ask(self, ask: Callable[[ReaderThread], _Result], *, is_search: bool = False) -> Deferred[_Result]:
        writing = self._open_writing()
        if writing is None:
            return fail(self._not_open())
        done: Deferred[_Result] = Deferred()
        thread = self._reading[is_search]
        read = Read(ask, done, thread)
        # After the pending batches; without the writer, if there are none.
        if self._is_writing():
            writing.put(read)
        else:
            thread.put(read)
        return done

    def _cannot_read(self, failure: Failure) -> Failure:
        error = failure.value
        if isinstance(error, PacketDamaged):
            self._quarantine(error.damaged)
            if not error.damaged[0].is_kept:
                return Failure(DamagedMessageKept(error.queue, error.lookup_id, error.damaged[0].problem))
        return failure

    def _have_read(self, found: VerifiedRows[_Result]) -> Sequence[_Result]:
        self._quarantine(found.damaged)
        return found.rows

    def _scrubbed(self, step: ScrubStep) -> None:
        self._quarantine(step.damaged)

    def _quarantine(self, damaged: Sequence[DamagedRow]) -> None:
        """Remove damaged rows from their queues; the reader has already saved their data."""
        for one in damaged:
            key = one.kind, one.queue, one.key
            if key in self._seen or not one.is_kept or self._phase is not _Phase.OPEN:
                continue
            if len(self._seen) < REMEMBERED:
                self._seen.add(key)
            self._damaged += 1
            self.commit(one.changes(self._policy.now())).addErrback(self._not_removed, key)

    def _not_removed(self, failure: Failure, key: tuple[RowKind, UUID | None, int]) -> None:
        # The next read of it tries again.
        self._seen.discard(key)
        self._damaged -= 1
        self.log.error("what is damaged stays in the store: {error}", error=failure.value)

    def _opened(self, done: Deferred[Snapshot], outcome: Snapshot | StorageError) -> None:
        if isinstance(outcome, StorageError):
            self._ended()
        elif self._phase is _Phase.OPENING:
            self._phase = _Phase.OPEN
            reactor = IReactorTime(self._reactor or _running_reactor())
            self._scrubber = RowScrubber(
                lambda position, size: self._ask(lambda reader: reader.scrub(position, size), is_search=True),
                self._scrubbed,
                self._policy.scrubbing,
                reactor,
            )
        _fire([(done, outcome)])

    def _written(self, outcomes: Sequence[Outcome]) -> None:
        is_idle = not self._outcomes
        self._outcomes.extend(outcomes)
        if is_idle:
            self._fire_some()

    def _fire_some(self) -> None:
        some = [self._outcomes.popleft() for _ in range(min(len(self._outcomes), FIRED_TOGETHER))]
        self._forget(some)
        if self._outcomes:
            # The others fire in a later iteration, to serve sockets in between.
            self._call(self._fire_some)
        _fire(some)

    def _ended(self) -> None:
        while self._outcomes:
            self._fire_some()
        self._phase = _Phase.CLOSED
        self._writing = None
        closing, self._closing = self._closing, []
        _fire([(done, None) for done in closing])

    def _not_open(self) -> StoreNotOpen:
        return StoreNotOpen(f"the store {self.location} is not open")


def _fire(outcomes: Sequence[Outcome]) -> None:
    for done, outcome in outcomes:
        if outcome is None or not isinstance(outcome, Exception):
            done.callback(outcome)
        else:
            done.errback(outcome)


def _running_reactor() -> IReactorFromThreads:
    from twisted.internet import reactor

    return IReactorFromThreads(reactor)
