"""Message store in a PostgreSQL schema: C{IMessageStore}."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorFromThreads
from zope.interface import implementer

from msmq.interfaces.standby import IOwnedStore
from msmq.interfaces.storage import IMessageStore, IStoreVerification, StorageError
from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    Change,
    PutMessage,
    PutState,
    RemoveMessages,
    RestoreLog,
)
from msmq.storage.damage import DamagePolicy
from msmq.storage.postgresql.address import Address
from msmq.storage.postgresql.database import ServerDatabase
from msmq.storage.postgresql.reader import DatabaseReader
from msmq.storage.postgresql.schema import SCHEMA, ServerSchema
from msmq.storage.postgresql.writing_thread import Commit, PostgresqlWritingThread
from msmq.storage.reading_thread import Deliver, Outcome, ReadingThread
from msmq.storage.threaded import ThreadedMessageStore
from msmq.storage.writing_thread import Listener

WAITING_BYTES: Final = 256 * 1024 * 1024
"""Approximate limit on the bytes of pending batches; a further batch is refused."""

_CHANGE_BYTES: Final = 256
_NUMBER_BYTES: Final = 40


@implementer(IMessageStore, IOwnedStore, IStoreVerification)
class PostgresqlMessageStore(ThreadedMessageStore):
    """Message store in a schema of a PostgreSQL database; a completed commit is committed there.

    It does not open if the database cannot be reached, or the schema is of another program, of a newer
    version, or in use.
    A batch that is submitted during a read may already be visible to it.
    While the database is unavailable, batches and reads wait for the time of the address, then fail; when it
    is back the store works again.
    The result of a batch in progress when the connection was lost is determined on reconnection; its Deferred
    waits for that, until the store is closed.
    If the database is unavailable when the store is closed, pending requests fail after that time at the
    latest.

    @param address: the location of the schema.
    @param policy: handling of damage and loss.
    @param schema: the version of the tables.
    @param waiting_bytes: approximate limit on the bytes of pending batches.
    @param reactor: in whose thread the Deferreds fire; the running one by default.
    """

    name = "postgresql"
    durable = True

    def __init__(
        self,
        address: Address,
        policy: DamagePolicy,
        *,
        schema: ServerSchema = SCHEMA,
        waiting_bytes: int = WAITING_BYTES,
        reactor: IReactorFromThreads | None = None,
    ) -> None:
        super().__init__(address.text, policy, reactor)
        self.address = address
        self._open_database = partial(ServerDatabase, address, policy, schema=schema)
        self._waiting_limit = waiting_bytes
        self._unfinished: dict[Deferred[Any], int] = {}
        self._waiting_bytes = 0
        self._ownership_lost: Deferred[StorageError] = Deferred()

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""
        writing = self._open_writing()
        if writing is None:
            return fail(self._not_open())
        weight = _weight(changes)
        if self._unfinished and self._waiting_bytes + weight > self._waiting_limit:
            return fail(StorageError(f"{self.location}: too many changes are pending for the database"))
        done: Deferred[None] = Deferred()
        self._unfinished[done] = weight
        self._waiting_bytes += weight
        writing.put(Commit(tuple(changes), done, weight))
        return done

    def ownership_lost(self) -> Deferred[StorageError]:
        """See L{IOwnedStore.ownership_lost}."""
        return self._ownership_lost

    def _threads(
        self, listener: Listener, deliver: Deliver
    ) -> tuple[PostgresqlWritingThread, tuple[ReadingThread, ReadingThread]]:
        quarantine = self._policy.quarantine
        readers = DatabaseReader(self.address, quarantine), DatabaseReader(self.address, quarantine)
        reading = (
            ReadingThread("msmq postgresql packets", readers[0], deliver),
            ReadingThread("msmq postgresql searches", readers[1], deliver),
        )
        wait = self.address.wait
        self._ownership_lost = Deferred()
        writing = PostgresqlWritingThread(
            self._open_database,
            wait,
            readers,
            reading,
            listener,
            partial(self._call, self._ownership_lost.callback),
        )
        return writing, reading

    def _is_writing(self) -> bool:
        return bool(self._unfinished)

    def _forget(self, outcomes: Sequence[Outcome]) -> None:
        for done, _ in outcomes:
            self._waiting_bytes -= self._unfinished.pop(done, 0)


def _weight(changes: Sequence[Change]) -> int:
    """Approximate memory of a batch, in bytes."""
    weight = _CHANGE_BYTES * len(changes)
    for change in changes:
        if isinstance(change, PutMessage | AppendLog):
            weight += len(change.packet)
        elif isinstance(change, PutState):
            weight += len(change.value)
        elif isinstance(change, RemoveMessages):
            weight += _NUMBER_BYTES * len(change.lookup_ids)
        elif isinstance(change, AppendEvent):
            weight += len(change.reason)
        elif isinstance(change, RestoreLog):
            weight += sum(len(entry.packet) for entry in change.entries)
    return weight
