"""What the store in SQLite does when it cannot write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import TestCase

from msmq.interfaces import StorageError
from msmq.queues.changes import Change, PutQueue, PutState, RemoveMessages
from msmq.storage.sqlite import SqliteMessageStore
from tests.contracts.message_store import ORDERS, put

PROJECT = Path(__file__).resolve().parent.parent.parent
KILOBYTES = bytes(10_000)


class FailingTests(TestCase):
    """A file that may not grow, and a disk that takes nothing."""

    def setUp(self) -> None:
        directory = Path(self.mktemp()).absolute()
        directory.mkdir()
        self.path = directory / "msmq.sqlite"

    async def limited(self) -> SqliteMessageStore:
        """An open store that has room for a few messages."""
        store = SqliteMessageStore(self.path, page_limit=60)
        await store.open()
        self.addCleanup(store.close)
        await store.commit([PutQueue(ORDERS)])
        return store

    async def refusal(self, store: SqliteMessageStore, *changes: Change) -> str:
        try:
            await store.commit(changes)
        except StorageError as error:
            return str(error)
        raise self.failureException("it was done")

    async def filled(self, store: SqliteMessageStore) -> int:
        """Put messages until no more goes in; gives how many did."""
        for number in range(100):
            try:
                await store.commit([put(number, KILOBYTES)])
            except StorageError:
                return number
        raise self.failureException("it never becomes full")

    async def test_says_that_it_is_full(self) -> None:
        """The error names the file and what is wrong with it."""
        store = await self.limited()
        number = await self.filled(store)
        self.assertEqual(
            await self.refusal(store, put(number, KILOBYTES)),
            f"{self.path}: cannot write: there is no space left: database or disk is full (SQLITE_FULL)",
        )

    async def test_keeps_what_it_has(self) -> None:
        """Nothing of a batch that does not fit is there; everything before it is, after a restart too."""
        store = await self.limited()
        count = await self.filled(store)
        await self.refusal(store, PutState("half", b""), put(1000), put(1001, KILOBYTES * 10))
        packets = await store.read(ORDERS.identifier, range(count))
        self.assertEqual(list(packets), [KILOBYTES] * count)
        await store.close()
        snapshot = await store.open()
        self.assertEqual([entry[0] for entry in snapshot.messages[ORDERS.identifier]], list(range(count)))
        self.assertEqual(dict(snapshot.state), {})

    async def test_goes_on_when_there_is_room(self) -> None:
        """Once messages are removed others are taken, without a restart."""
        store = await self.limited()
        count = await self.filled(store)
        await store.commit([RemoveMessages(ORDERS.identifier, tuple(range(count)))])
        self.assertEqual(await self.filled(store), count)

    async def test_one_that_does_not_fit_harms_no_other(self) -> None:
        """Of batches that were written together, only the one that is too large fails."""
        store = await self.limited()
        small = [store.commit([put(number)]) for number in range(5)]
        large = store.commit([put(5), put(6, KILOBYTES * 100)])
        behind = [store.commit([put(number)]) for number in range(7, 12)]
        for commit in (*small, *behind):
            await commit
        try:
            await large
        except StorageError as error:
            self.assertIn("no space left", str(error))
        else:
            self.fail("it was done")
        await store.close()
        snapshot = await store.open()
        self.assertEqual(
            [entry[0] for entry in snapshot.messages[ORDERS.identifier]], [0, 1, 2, 3, 4, *range(7, 12)]
        )

    async def test_queue_that_was_not_stored_is_not_there(self) -> None:
        """A queue whose batch failed is unknown to the next batch, and can be made later."""
        store = SqliteMessageStore(self.path, page_limit=60)
        await store.open()
        self.addCleanup(store.close)
        await self.refusal(store, PutQueue(ORDERS), put(1, KILOBYTES * 100))
        self.assertIn("keeps no queue", await self.refusal(store, put(1)))
        await store.commit([PutQueue(ORDERS), put(1, b"one")])
        self.assertEqual(list(await store.read(ORDERS.identifier, [1])), [b"one"])

    async def test_disk_that_fails(self) -> None:
        """When the system refuses to write, batches fail, reads go on, and it recovers by itself."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.storage.limited_child", str(self.path)],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        told = json.loads(done.stdout)
        self.assertIn("cannot write: the disk or its file system failed: disk I/O error", told["errors"][0])
        self.assertEqual(len(told["stored"]), told["read"])
        self.assertGreater(told["read"], 1)
        store = SqliteMessageStore(self.path)
        snapshot = await store.open()
        self.addCleanup(store.close)
        index = [entry[0] for entry in snapshot.messages[ORDERS.identifier]]
        self.assertEqual(index, [*told["stored"], 1000])
