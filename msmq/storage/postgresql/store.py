"""The store as the queue manager sees it: Deferreds on this side, threads on the other."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorFromThreads
from zope.interface import implementer

from msmq.interfaces.storage import (
    IMessageStore,
    LogEntry,
    LogExtent,
    StorageError,
    StoredEvent,
    StoreNotOpen,
)
from msmq.queues.changes import AppendLog, Change, PutMessage
from msmq.queues.snapshot import Snapshot
from msmq.storage.postgresql.address import Address
from msmq.storage.postgresql.database import Database
from msmq.storage.postgresql.reading import Reader
from msmq.storage.postgresql.reading_thread import Outcome, Read, ReadingThread
from msmq.storage.postgresql.schema import SCHEMA, Schema
from msmq.storage.postgresql.writing_thread import Commit, Stop, WritingThread

WAITING_BYTES: Final = 256 * 1024 * 1024
"""About what may wait for the database; one batch more is refused."""

_CHANGE_BYTES: Final = 256

_Result = TypeVar("_Result")


class _Phase(enum.Enum):
    CLOSED = enum.auto()
    OPENING = enum.auto()
    OPEN = enum.auto()
    CLOSING = enum.auto()


@implementer(IMessageStore)
class PostgresqlMessageStore:
    """Keeps everything in a schema of a PostgreSQL database, committed when a commit is done.

    A batch that is handed over while a read is under way may already be seen by it.
    While the database is away, batches and reads wait, for as long as the address says, and then fail; when
    it is back the store works again.  Of a batch that was under way when the connection was lost it is found
    out then whether it was committed, and its Deferred waits for that, until the store is closed.

    @param address: where the schema is.
    @param schema: the version of the tables.
    @param waiting_bytes: about how many bytes of batches may wait for the database.
    @param reactor: in whose thread the Deferreds fire; the running one by default.
    """

    name = "postgresql"
    durable = True

    def __init__(
        self,
        address: Address,
        *,
        schema: Schema = SCHEMA,
        waiting_bytes: int = WAITING_BYTES,
        reactor: IReactorFromThreads | None = None,
    ) -> None:
        self.address = address
        self._open_database = partial(Database, address, schema=schema)
        self._waiting_limit = waiting_bytes
        self._reactor = reactor
        self._phase = _Phase.CLOSED
        self._unfinished: dict[Deferred[Any], int] = {}
        self._waiting_bytes = 0
        self._writing: WritingThread | None = None
        self._reading: tuple[ReadingThread, ...] = ()
        self._closing: list[Deferred[None]] = []

    def open(self) -> Deferred[Snapshot]:
        """See L{IMessageStore.open}.

        It fails if the database cannot be reached, or the schema is of another program, of a newer version,
        or in use.
        """
        if self._phase is not _Phase.CLOSED:
            return fail(StorageError(f"the store {self.address.text} is open already"))
        self._phase = _Phase.OPENING
        done: Deferred[Snapshot] = Deferred()
        call = (self._reactor or _running_reactor()).callFromThread
        packets, searches = (
            ReadingThread(Reader(self.address), partial(call, _fire)) for _ in ("packets", "searches")
        )
        self._reading = packets, searches
        self._writing = WritingThread(
            self._open_database,
            self.address.wait,
            (packets, searches),
            opened=partial(call, self._opened, done),
            deliver=partial(call, self._written),
            ended=partial(call, self._ended),
        )
        return done

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""
        if self._writing is None or self._phase is not _Phase.OPEN:
            return fail(self._not_open())
        weight = _weight(changes)
        if self._unfinished and self._waiting_bytes + weight > self._waiting_limit:
            return fail(StorageError(f"{self.address.text}: too much waits for the database"))
        done: Deferred[None] = Deferred()
        self._unfinished[done] = weight
        self._waiting_bytes += weight
        self._writing.put(Commit(tuple(changes), done, weight))
        return done

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """See L{IMessageStore.read}."""
        wanted = tuple(lookup_ids)
        return self._read(lambda reader: reader.read(queue, wanted))

    def find(self, identity: bytes) -> Deferred[Sequence[tuple[UUID, int]]]:
        """See L{IMessageStore.find}."""
        return self._read(lambda reader: reader.find(identity), is_search=True)

    def read_log(self, queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        """See L{IMessageStore.read_log}."""
        return self._read(lambda reader: reader.read_log(queue, after, limit), is_search=True)

    def log_extent(self, queue: UUID) -> Deferred[LogExtent]:
        """See L{IMessageStore.log_extent}."""
        return self._read(lambda reader: reader.log_extent(queue), is_search=True)

    def read_events(
        self, after: int, limit: int, identity: bytes | None = None
    ) -> Deferred[Sequence[StoredEvent]]:
        """See L{IMessageStore.read_events}."""
        return self._read(lambda reader: reader.read_events(after, limit, identity), is_search=True)

    def close(self) -> Deferred[None]:
        """See L{IMessageStore.close}.

        If the database is away, what waits for it fails after the time that the address says at the latest.
        """
        if self._writing is None:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._closing.append(done)
        if self._phase is not _Phase.CLOSING:
            self._phase = _Phase.CLOSING
            self._writing.put(Stop())
        return done

    def _read(self, call: Callable[[Reader], _Result], *, is_search: bool = False) -> Deferred[_Result]:
        if self._writing is None or self._phase is not _Phase.OPEN:
            return fail(self._not_open())
        done: Deferred[_Result] = Deferred()
        read = Read(call, done, is_search)
        # Behind the batches that are under way; past the writer, if there is none.
        (self._writing if self._unfinished else self._reading[is_search]).put(read)
        return done

    def _opened(self, done: Deferred[Snapshot], outcome: Snapshot | StorageError) -> None:
        if isinstance(outcome, StorageError):
            self._ended()
        elif self._phase is _Phase.OPENING:
            self._phase = _Phase.OPEN
        _fire([(done, outcome)])

    def _written(self, outcomes: Sequence[Outcome]) -> None:
        for done, _ in outcomes:
            self._waiting_bytes -= self._unfinished.pop(done, 0)
        _fire(outcomes)

    def _ended(self) -> None:
        self._phase = _Phase.CLOSED
        self._writing = None
        self._reading = ()
        closing, self._closing = self._closing, []
        _fire([(done, None) for done in closing])

    def _not_open(self) -> StoreNotOpen:
        return StoreNotOpen(f"the store {self.address.text} is not open")


def _weight(changes: Sequence[Change]) -> int:
    """About how many bytes a batch keeps in memory."""
    packets = sum(len(change.packet) for change in changes if isinstance(change, PutMessage | AppendLog))
    return packets + _CHANGE_BYTES * len(changes)


def _fire(outcomes: Sequence[Outcome]) -> None:
    for done, outcome in outcomes:
        if isinstance(outcome, Exception):
            done.errback(outcome)
        else:
            done.callback(outcome)


def _running_reactor() -> IReactorFromThreads:
    from twisted.internet import reactor

    return IReactorFromThreads(reactor)
