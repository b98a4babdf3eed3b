"""The store in SQLite when it cannot write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from msmq.interfaces.storage import StorageError, StorageFull
from msmq.persistence.changes import AppendEvent, Change, PutAborts, PutQueue, PutState, RemoveMessages
from msmq.storage.sqlite import SqliteMessageStore
from msmq.testing.contracts.store_contract import BILLS, ORDERS, put
from msmq.testing.contracts.store_moves import move
from tests.patience import DEADLINE
from tests.storage.mounts import PROJECT, READ_ONLY, run_mounted
from tests.storage.policies import policy_of

KILOBYTES = bytes(10_000)


class FailingTests(TestCase):
    """A file that may not grow, and a disk that takes nothing."""

    def setUp(self) -> None:
        directory = Path(self.mktemp()).absolute()
        directory.mkdir()
        self.path = directory / "msmq.sqlite"

    async def limited(self) -> SqliteMessageStore:
        """An open store with space for a few messages."""
        store = SqliteMessageStore(self.path, policy_of(self.path), page_limit=60)
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

    async def is_done(self, store: SqliteMessageStore, *changes: Change) -> bool:
        try:
            await store.commit(changes)
        except StorageFull:
            return False
        return True

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
        """No part of a batch that does not fit is stored; everything before it is, after a restart too."""
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

    async def test_a_full_disk_has_its_own_error(self) -> None:
        """Callers can distinguish a lack of space from other failures."""
        for is_express in (False, True):
            store = await self.limited()
            number = 0
            while await self.is_done(store, put(number, KILOBYTES, is_express=is_express)):
                number += 1
            self.assertGreater(number, 10)
            await store.close()

    async def test_removes_what_leaves_a_trace(self) -> None:
        """Removing, moving and counting go on without any space, and so do the events that tell of it."""
        store = await self.limited()
        await store.commit([PutQueue(BILLS)])
        count = await self.filled(store)
        while await self.is_done(store, AppendEvent(1.0, b"", "filler", "x" * 400)):
            pass
        reason = "the queue was purged by an operator who had read of it " * 20
        for number in range(count - 2):
            await store.commit(
                [RemoveMessages(ORDERS.identifier, (number,)), AppendEvent(2.0, bytes(20), "purged", reason)]
            )
        last = count - 1
        await store.commit([PutAborts(ORDERS.identifier, last - 1, 1), move(last, 1, moves=1)])
        self.assertEqual(list(await store.read(BILLS.identifier, [1])), [KILOBYTES])
        events = await store.read_events(0, 100, bytes(20))
        self.assertEqual(len(events), count - 2)

    async def test_one_that_does_not_fit_harms_no_other(self) -> None:
        """Of batches written together, only the one that is too large fails."""
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
        """A queue whose batch failed is unknown to the next batch, and can be created later."""
        store = SqliteMessageStore(self.path, policy_of(self.path), page_limit=60)
        await store.open()
        self.addCleanup(store.close)
        await self.refusal(store, PutQueue(ORDERS), put(1, KILOBYTES * 100))
        self.assertIn("keeps no queue", await self.refusal(store, put(1)))
        await store.commit([PutQueue(ORDERS), put(1, b"one")])
        self.assertEqual(list(await store.read(ORDERS.identifier, [1])), [b"one"])

    def reported_by_limited(self, scene: str) -> Any:
        """The output of a process whose files may not grow."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.storage.limited_child", str(self.path), scene],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    async def test_disk_that_fails(self) -> None:
        """When the system refuses to write, batches fail, reads go on, and it recovers by itself."""
        reported = self.reported_by_limited("fill")
        self.assertIn(
            "cannot write: the disk or its file system failed: disk I/O error", reported["errors"][0]
        )
        self.assertEqual(len(reported["stored"]), reported["read"])
        self.assertGreater(reported["read"], 1)
        store = SqliteMessageStore(self.path, policy_of(self.path))
        snapshot = await store.open()
        self.addCleanup(store.close)
        index = [entry[0] for entry in snapshot.messages[ORDERS.identifier]]
        self.assertEqual(index, [*reported["stored"], 1000])

    async def test_express_file_that_fails(self) -> None:
        """A batch is done whole, though its express messages have to wait for their file, or not at all."""
        reported = self.reported_by_limited("lose_express")
        [first, second, *others] = reported["reported"]
        self.assertEqual((first, others), ("done", ["done", "done"]))
        self.assertIn(f"{self.path}.express: cannot write: the disk or its file system failed", second)
        self.assertEqual(reported["packets"], ["durable", "express", "durable", "express"])
        self.assertIn("keeps no message", reported["lost"])
        self.assertEqual(reported["events"], ["100"])
        store = SqliteMessageStore(self.path, policy_of(self.path))
        snapshot = await store.open()
        self.addCleanup(store.close)
        self.assertEqual([entry[0] for entry in snapshot.messages[ORDERS.identifier]], [100, 300])


class LostFileTests(TestCase):
    """Files that are taken away, or cannot be written."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir()
        self.path = self.directory / "msmq.sqlite"

    async def opened(self) -> SqliteMessageStore:
        store = SqliteMessageStore(self.path, policy_of(self.path))
        await store.open()
        self.addCleanup(store.close)
        await store.commit([PutQueue(ORDERS), put(1, b"one")])
        return store

    async def refusal(self, asked: Deferred[Any]) -> str:
        try:
            await asked
        except StorageError as error:
            return str(error)
        raise self.failureException("it was done")

    async def test_file_that_is_taken_away(self) -> None:
        """No message is confirmed that a start would not find."""
        for suffix in ("", "-wal"):
            store = await self.opened()
            taken = Path(f"{self.path}{suffix}")
            elsewhere = self.directory / "elsewhere"
            taken.rename(elsewhere)
            self.assertEqual(
                await self.refusal(store.commit([put(2)])),
                f"{taken}: cannot find it any more: No such file or directory",
            )
            elsewhere.rename(taken)
            await store.commit([put(3, b"three")])
            self.assertEqual(list(await store.read(ORDERS.identifier, [1, 3])), [b"one", b"three"])
            await store.close()

    async def test_file_that_is_replaced(self) -> None:
        """A copy that replaces the file is noticed, and not used in its stead."""
        store = await self.opened()
        copy = self.directory / "copy"
        copy.write_bytes(self.path.read_bytes())
        copy.replace(self.path)
        self.assertEqual(
            await self.refusal(store.commit([put(2)])),
            f"{self.path}: another file was put in its place while it was in use",
        )

    async def test_reading_makes_no_file(self) -> None:
        """A read that comes when the file is gone fails, and creates none."""
        store = await self.opened()
        self.path.unlink()
        self.assertIn(f"{self.path}: cannot read", await self.refusal(store.read(ORDERS.identifier, [1])))
        self.assertFalse(self.path.exists())

    async def test_express_file_that_is_taken_away(self) -> None:
        """Without the file for express messages all others can still be read."""
        store = await self.opened()
        await store.commit([put(2, is_express=True)])
        express = self.directory / "msmq.sqlite.express"
        express.unlink()
        self.assertIn(f"{express}: cannot read", await self.refusal(store.read(ORDERS.identifier, [2])))
        self.assertEqual(list(await store.read(ORDERS.identifier, [1])), [b"one"])

    async def test_a_directory_instead_of_the_file(self) -> None:
        """A path that is not a file is named."""
        self.path.mkdir()
        said = await self.refusal(SqliteMessageStore(self.path, policy_of(self.path)).open())
        self.assertIn(f"{self.path}: cannot open: the file cannot be opened", said)

    def test_directory_that_cannot_be_written(self) -> None:
        """A file system that is mounted for reading only is reported by its name."""
        program = (
            "import sys, pathlib\n"
            "from msmq.storage.sqlite.database import FileDatabase\n"
            "from tests.storage.policies import policy_of\n"
            "path = pathlib.Path(sys.argv[1])\n"
            "FileDatabase(path, policy_of(path))"
        )
        done = run_mounted(READ_ONLY, self.directory, sys.executable, "-c", program, str(self.path))
        self.assertIn(f"{self.path}.lock: cannot open: Read-only file system", done.stderr)
