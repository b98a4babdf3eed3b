"""The store as the queue manager sees it: Deferreds on this side, threads on the other."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorFromThreads
from zope.interface import implementer

from msmq.interfaces.plugins import IStorageFactory
from msmq.interfaces.storage import (
    IMessageStore,
    LogEntry,
    LogExtent,
    StorageError,
    StoredEvent,
    StoreNotOpen,
)
from msmq.queues.changes import Change
from msmq.queues.snapshot import Snapshot
from msmq.storage.sqlite.database import Database
from msmq.storage.sqlite.reading import PacketReader
from msmq.storage.sqlite.schema import SCHEMA, Schema
from msmq.storage.sqlite.threads import Outcome, Read, ReadingThread, Stop, WritingThread

FILE_NAME = "msmq.sqlite"
FIRED_TOGETHER = 128
"""Deferreds that fire in one turn of the reactor; a millisecond or two, with what waits for them."""


class _Phase(enum.Enum):
    CLOSED = enum.auto()
    OPENING = enum.auto()
    OPEN = enum.auto()
    CLOSING = enum.auto()


@implementer(IMessageStore)
class SqliteMessageStore:
    """Keeps everything in one SQLite file, on stable storage when a commit is done.

    A batch that is handed over while a read is under way may already be seen by it.

    @param path: the file; it is made, mode 0600, if it is not there, and others of its name lie beside it.
    @param page_limit: the most pages of 4096 bytes that the file may have; C{None} for as many as fit.
    @param schema: the version of the tables.
    @param reactor: in whose thread the Deferreds fire; the running one by default.
    """

    name = "sqlite"
    durable = True

    def __init__(
        self,
        path: Path,
        *,
        page_limit: int | None = None,
        schema: Schema = SCHEMA,
        reactor: IReactorFromThreads | None = None,
    ) -> None:
        self.path = path.absolute()
        self._open_database = partial(Database, self.path, page_limit=page_limit, schema=schema)
        self._reactor = reactor
        self._phase = _Phase.CLOSED
        self._unfinished = 0
        self._outcomes: deque[Outcome] = deque()
        self._call: Callable[..., object]
        self._threads: tuple[WritingThread, ReadingThread] | None = None
        self._closing: list[Deferred[None]] = []

    def open(self) -> Deferred[Snapshot]:
        """See L{IMessageStore.open}.

        It fails if the file is of another program, of a newer version, damaged, or in use.
        """
        if self._phase is not _Phase.CLOSED:
            return fail(StorageError(f"the store {self.path} is open already"))
        self._phase = _Phase.OPENING
        done: Deferred[Snapshot] = Deferred()
        self._call = call = (self._reactor or _running_reactor()).callFromThread
        reading = ReadingThread(PacketReader(self.path), partial(call, _fire))
        writing = WritingThread(
            self._open_database,
            reading,
            opened=partial(call, self._opened, done),
            deliver=partial(call, self._written),
            ended=partial(call, self._ended),
        )
        self._threads = writing, reading
        return done

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""
        if self._threads is None or self._phase is not _Phase.OPEN:
            return fail(self._not_open())
        done: Deferred[None] = Deferred()
        self._unfinished += 1
        self._threads[0].put((tuple(changes), done))
        return done

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """See L{IMessageStore.read}."""
        wanted = tuple(lookup_ids)
        return self._ask(lambda reader: reader.read(queue, wanted))

    def find(self, identity: bytes) -> Deferred[Sequence[tuple[UUID, int]]]:
        """See L{IMessageStore.find}."""
        return self._ask(lambda reader: reader.find(identity))

    def read_log(self, queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        """See L{IMessageStore.read_log}."""
        return self._ask(lambda reader: reader.read_log(queue, after, limit))

    def log_extent(self, queue: UUID) -> Deferred[LogExtent]:
        """See L{IMessageStore.log_extent}."""
        return self._ask(lambda reader: reader.log_extent(queue))

    def read_events(
        self, after: int, limit: int, identity: bytes | None = None
    ) -> Deferred[Sequence[StoredEvent]]:
        """See L{IMessageStore.read_events}."""
        return self._ask(lambda reader: reader.read_events(after, limit, identity))

    def close(self) -> Deferred[None]:
        """See L{IMessageStore.close}."""
        if self._threads is None:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._closing.append(done)
        if self._phase is not _Phase.CLOSING:
            self._phase = _Phase.CLOSING
            self._threads[0].put(Stop())
        return done

    def _ask(self, ask: Callable[[PacketReader], object]) -> Deferred[Any]:
        if self._threads is None or self._phase is not _Phase.OPEN:
            return fail(self._not_open())
        done: Deferred[Any] = Deferred()
        writing, reading = self._threads
        # Behind the batches that are under way; past the writer, if there is none.
        (writing if self._unfinished else reading).put(Read(ask, done))
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
        self._unfinished -= len(some)
        if self._outcomes:
            # The others in a later turn, so that sockets are served in between.
            self._call(self._fire_some)
        _fire(some)

    def _ended(self) -> None:
        while self._outcomes:
            self._fire_some()
        self._phase = _Phase.CLOSED
        self._threads = None
        closing, self._closing = self._closing, []
        _fire([(done, None) for done in closing])

    def _not_open(self) -> StoreNotOpen:
        return StoreNotOpen(f"the store {self.path} is not open")


@implementer(IStorageFactory)
@attrs.frozen
class SqliteStorageFactory:
    """C{sqlite}: C{msmq.sqlite} in the data directory; C{sqlite:PATH}: another file, from there."""

    name: str = "sqlite"
    description: str = "in one SQLite file; survives a kill and a power cut"

    def open_store(self, argument: str, data: Path) -> IMessageStore:
        """See L{IStorageFactory.open_store}."""
        if "\0" in argument:
            raise ValueError("a path holds no null character")
        return SqliteMessageStore(data / (argument or FILE_NAME))


def _fire(outcomes: Sequence[Outcome]) -> None:
    for done, outcome in outcomes:
        if outcome is None or not isinstance(outcome, Exception):
            done.callback(outcome)
        else:
            done.errback(outcome)


def _running_reactor() -> IReactorFromThreads:
    from twisted.internet import reactor

    return IReactorFromThreads(reactor)
