"""A data directory whose store has some of everything, its backup, and what is restored from that."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from msmq.interfaces.storage import IMessageStore, StorageError
from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    Change,
    PutMessage,
    PutQueue,
    PutState,
)
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.service.data_directory.backup import backup, restore
from msmq.service.data_directory.data_lock import DataDirectoryError
from msmq.service.data_directory.identity import load_identity
from msmq.storage.migration.digest import digest_of
from msmq.storage.migration.store_locations import store_location_of
from tests.builders import ALPHA
from tests.queues.builders import arriving

ORDERS = UUID(int=1)
TO_BETA = UUID(int=2)
DEADLETTER = "system$;deadletter"


def message(number: int, queue: UUID = ORDERS, body: bytes = b"body", **properties: Any) -> PutMessage:
    """A message as a store keeps it."""
    view = arriving(body, recoverable=True, **properties)
    return PutMessage(queue, number, view.packet, 1000.0 + number, None)


def contents(owner: UUID = ALPHA) -> list[Change]:
    """Some of everything."""
    deadletter = uuid5(owner, DEADLETTER)
    return [
        PutState("queue_manager", owner.bytes),
        PutState("tx/awaiting/1", b"old"),
        PutState("results/1", b"old"),
        PutState("service/bridge.replies/in/1", b"old"),
        PutState("reserved", b"7"),
        PutQueue(QueueDefinition(ORDERS, "private$\\orders", number=1, log=True)),
        PutQueue(QueueDefinition(TO_BETA, "DIRECT=OS:BETA\\private$\\x", type=QueueType.OUTGOING)),
        PutQueue(QueueDefinition(deadletter, DEADLETTER, type=QueueType.SYSTEM)),
        *(message(number, body=b"b" * number) for number in range(1, 6)),
        message(8, deadletter),
        message(9, TO_BETA),
        message(10, TO_BETA, transactional=True),
        AppendLog(ORDERS, 1, b"logged packet", 1.0),
        AppendEvent(5.0, b"", "refused", "r\udc80", 3, "q"),
    ]


class BackupTestCase(TestCase):
    """A data directory with a store, whose server may be running."""

    kind = "log"

    def setUp(self) -> None:
        self.base = Path(self.mktemp())
        self.base.mkdir()
        self.data = self.base / "data"
        self.data.mkdir()
        load_identity(self.data, lambda: ALPHA)
        (self.data / "keys").mkdir()
        (self.data / "keys" / "encryption.pem").write_bytes(b"a key")
        self.directory = self.base / "backup"
        self.target = self.base / "restored"

    async def opened(self) -> IMessageStore:
        """The store of a server that runs."""
        store = store_location_of(self.kind, self.data).make_store()
        await store.open()
        self.addCleanup(store.close)
        return store

    async def stopped(self, *more: Change) -> None:
        store = store_location_of(self.kind, self.data).make_store()
        await store.open()
        await store.commit([*contents(), *more])
        await store.close()

    def back_up(self) -> int:
        """How many messages were new."""
        return backup(self.data, None, self.directory, lambda rows: None).new_messages

    async def restored(self, **options: Any) -> Any:
        given: dict[str, Any] = {"kind": None, "new_identity": False, **options}
        return await restore(self.directory, self.target, report=lambda rows: None, **given)

    def digest(self, data: Path, kind: str | None = None) -> Any:
        reader = store_location_of(kind or self.kind, data).make_reader()
        try:
            return digest_of(reader, lambda rows: None)
        finally:
            reader.close()

    def messages(self, data: Path, queue: UUID, kind: str | None = None) -> list[tuple[int, bytes]]:
        reader = store_location_of(kind or self.kind, data).make_reader()
        try:
            page = reader.messages(queue, 0, 1 << 64, since=None, until=None, bodies=True)
            return [(row[0], bytes(row[-1])) for row in page.rows]
        finally:
            reader.close()

    def deferred(self, coroutine: Any) -> Any:
        return Deferred.fromCoroutine(coroutine)

    def assert_fails(self, words: str, result: Any) -> None:
        failure = self.failureResultOf(result, StorageError, DataDirectoryError)
        self.assertIn(words, str(failure.value))
        self.assertNotIn("\n", str(failure.value))
