"""A store as the queue manager sees it whose work is done by threads: Deferreds here, threads there."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorFromThreads

from msmq.interfaces.storage import LogEntry, LogExtent, StorageError, StoredEvent, StoreNotOpen
from msmq.persistence.snapshot import Snapshot
from msmq.storage.reading_thread import Deliver, Outcome, Read, ReaderThread, ReadingThread
from msmq.storage.writing_thread import Listener, Stop, WritingThread

FIRED_TOGETHER: Final = 128
"""Deferreds that fire in one turn of the reactor; a millisecond or two, with what waits for them."""

_Result = TypeVar("_Result")


class _Phase(enum.Enum):
    CLOSED = enum.auto()
    OPENING = enum.auto()
    OPEN = enum.auto()
    CLOSING = enum.auto()


class ThreadedMessageStore(ABC):
    """Everything of an L{msmq.interfaces.IMessageStore} but what is written, and where.

    A batch that is handed over while a read is under way may already be seen by it.

    @ivar place: where everything is kept, as people may read it.
    @param reactor: in whose thread the Deferreds fire; the running one by default.
    """

    def __init__(self, place: str, reactor: IReactorFromThreads | None) -> None:
        self.place = place
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
            return fail(StorageError(f"the store {self.place} is open already"))
        self._phase = _Phase.OPENING
        done: Deferred[Snapshot] = Deferred()
        self._call = call = (self._reactor or _running_reactor()).callFromThread
        listener = Listener(
            opened=partial(call, self._opened, done),
            deliver=partial(call, self._written),
            ended=partial(call, self._ended),
        )
        self._writing, self._reading = self._threads(listener, partial(call, _fire))
        self._writing.start()
        return done

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """See L{msmq.interfaces.IMessageStore.read}."""
        wanted = tuple(lookup_ids)
        return self._ask(lambda reader: reader.read(queue, wanted))

    def find(self, identity: bytes) -> Deferred[Sequence[tuple[UUID, int]]]:
        """See L{msmq.interfaces.IMessageStore.find}."""
        return self._ask(lambda reader: reader.find(identity), is_search=True)

    def read_log(self, queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        """See L{msmq.interfaces.IMessageStore.read_log}."""
        return self._ask(lambda reader: reader.read_log(queue, after, limit), is_search=True)

    def log_extent(self, queue: UUID) -> Deferred[LogExtent]:
        """See L{msmq.interfaces.IMessageStore.log_extent}."""
        return self._ask(lambda reader: reader.log_extent(queue), is_search=True)

    def read_events(
        self, after: int, limit: int, identity: bytes | None = None
    ) -> Deferred[Sequence[StoredEvent]]:
        """See L{msmq.interfaces.IMessageStore.read_events}."""
        return self._ask(lambda reader: reader.read_events(after, limit, identity), is_search=True)

    def close(self) -> Deferred[None]:
        """See L{msmq.interfaces.IMessageStore.close}."""
        if self._writing is None:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._closing.append(done)
        if self._phase is not _Phase.CLOSING:
            self._phase = _Phase.CLOSING
            self._writing.put(Stop())
        return done

    @abstractmethod
    def _threads(
        self, listener: Listener, deliver: Deliver
    ) -> tuple[WritingThread[Any, Any], tuple[ReadingThread, ReadingThread]]:
        """The thread that writes, and those that read: one for packets, one for what may take long.

        @param deliver: has fire what was read.
        """

    @abstractmethod
    def _is_writing(self) -> bool:
        """Whether batches are under way."""

    @abstractmethod
    def _forget(self, outcomes: Sequence[Outcome]) -> None:
        """Take note that these are no longer under way."""

    def _open_writing(self) -> WritingThread[Any, Any] | None:
        """The thread that writes, if it takes something."""
        return self._writing if self._phase is _Phase.OPEN else None

    def _ask(self, ask: Callable[[ReaderThread], _Result], *, is_search: bool = False) -> Deferred[_Result]:
        writing = self._open_writing()
        if writing is None:
            return fail(self._not_open())
        done: Deferred[_Result] = Deferred()
        thread = self._reading[is_search]
        read = Read(ask, done, thread)
        # Behind the batches that are under way; past the writer, if there is none.
        if self._is_writing():
            writing.put(read)
        else:
            thread.put(read)
        return done

    def _opened(self, done: Deferred[Snapshot], outcome: Snapshot | StorageError) -> None:
        if isinstance(outcome, StorageError):
            self._ended()
        elif self._phase is _Phase.OPENING:
            self._phase = _Phase.OPEN
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
            # The others in a later turn, so that sockets are served in between.
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
        return StoreNotOpen(f"the store {self.place} is not open")


def _fire(outcomes: Sequence[Outcome]) -> None:
    for done, outcome in outcomes:
        if outcome is None or not isinstance(outcome, Exception):
            done.callback(outcome)
        else:
            done.errback(outcome)


def _running_reactor() -> IReactorFromThreads:
    from twisted.internet import reactor

    return IReactorFromThreads(reactor)
