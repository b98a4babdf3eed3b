"""Threads of stores: errors of the database, and of a system that starts no more of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase, TestCase

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import Change, PutQueue, PutState
from msmq.persistence.snapshot import Snapshot
from msmq.storage.postgresql.address import parse_address
from msmq.storage.postgresql.store import PostgresqlMessageStore
from msmq.storage.sqlite import SqliteMessageStore
from msmq.storage.sqlite.writing_thread import SqliteWritingThread
from msmq.storage.threaded import ThreadedMessageStore
from msmq.storage.writing_thread import Listener, Stop
from msmq.testing.contracts.store_contract import ORDERS, put
from tests.patience import DEADLINE
from tests.storage.policies import policy_of


class FaultyDatabase:
    """A database whose background steps and whose end fail with an error that it should not raise.

    @ivar written: the batches that it has.
    """

    def __init__(self) -> None:
        self.written: list[Sequence[Change]] = []

    def snapshot(self) -> Snapshot:
        """It is empty."""
        return Snapshot()

    def write(self, batches: Sequence[Sequence[Change]]) -> list[StorageError | None]:
        """All are written."""
        self.written += batches
        return [None] * len(batches)

    def cleanup(self) -> bool:
        """Fail."""
        raise ZeroDivisionError("cleanup")

    def checkpoint(self) -> bool:
        """Fail."""
        raise ZeroDivisionError("checkpoint")

    def close(self) -> None:
        """Fail."""
        raise ZeroDivisionError("close")


class SurvivingThreadTests(SynchronousTestCase):
    """Errors of cleanup, checkpoint and close."""

    def test_unexpected_errors(self) -> None:
        """Batches are written and reported after each of them, and the end is reported, too."""
        reports: SimpleQueue[object] = SimpleQueue()
        database = FaultyDatabase()
        thread = SqliteWritingThread(
            "writer",
            lambda: database,  # type: ignore[arg-type, return-value]
            (),
            Listener(reports.put, reports.put, lambda: reports.put("ended")),
        )
        thread.start()
        self.assertIsInstance(reports.get(timeout=DEADLINE), Snapshot)
        for number in range(3):
            done: Deferred[None] = Deferred()
            thread.put(((PutState("n", bytes((number,))),), done))
            self.assertEqual(reports.get(timeout=DEADLINE), [(done, None)])
        thread.put(Stop())
        self.assertEqual(reports.get(timeout=DEADLINE), "ended")
        self.assertEqual(len(database.written), 3)
        self.assertEqual(len(self.flushLoggedErrors()), 0)


class NoThreadTests(TestCase):
    """A start when the system has a limit on threads."""

    def setUp(self) -> None:
        self.path = Path(self.mktemp()).absolute()
        self.path.mkdir()
        self.path /= "msmq.sqlite"
        self.left: int | None = None
        begin = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            if self.left is not None:
                if not self.left:
                    raise RuntimeError("can't start new thread")
                self.left -= 1
            begin(thread)

        self.patch(threading.Thread, "start", start)

    async def check(self, store: ThreadedMessageStore) -> None:
        """No start with fewer threads than a store needs succeeds, or leaves a thread."""
        for self.left in range(3):
            before = set(threading.enumerate())
            error = await self.assertFailure(store.open(), StorageError)
            self.assertEqual(
                str(error),
                f"{store.location}: cannot open: can't start new thread; raise the limit on the threads of "
                "the server's user",
            )
            for thread in set(threading.enumerate()) - before:
                if thread.name.endswith((" packets", " searches")):
                    # It ends as soon as it runs.
                    thread.join(DEADLINE)
                    self.assertFalse(thread.is_alive(), thread.name)
            await store.close()

    async def test_sqlite(self) -> None:
        """The next start finds everything."""
        store = SqliteMessageStore(self.path, policy_of(self.path))
        self.addCleanup(store.close)
        await store.open()
        await store.commit([PutQueue(ORDERS), put(1)])
        await store.close()
        await self.check(store)
        self.left = None
        snapshot = await store.open()
        self.assertEqual(len(snapshot.messages[ORDERS.identifier]), 1)

    async def test_postgresql(self) -> None:
        """The database is not asked."""
        address = parse_address("//msmq@127.0.0.1:1/msmq?schema=msmq")
        await self.check(PostgresqlMessageStore(address, policy_of(self.path)))
