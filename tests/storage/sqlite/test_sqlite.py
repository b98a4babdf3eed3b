"""The store in SQLite keeps the contract, and writes what waits together."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import TestCase

from msmq.interfaces import IMessageStore, StorageError
from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    PutAborts,
    PutMessage,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    TrimEvents,
    TrimLog,
)
from msmq.persistence.definition import QueueDefinition
from msmq.storage.factory import StorageDescriptionError, make_store
from msmq.storage.sqlite import SqliteMessageStore
from msmq.testing.contracts.message_store import BILLS, HIGHEST, ORDERS, MessageStoreContract, put
from tests.patience import DEADLINE
from tests.storage.policies import policy_of


class SqliteMessageStoreTests(MessageStoreContract, TestCase):
    """The contract of stores, on a real file."""

    timeout = DEADLINE

    def setUp(self) -> None:
        directory = Path(self.mktemp()).absolute()
        directory.mkdir()
        self.path = directory / "msmq.sqlite"

    def make_store(self) -> IMessageStore:
        store = SqliteMessageStore(self.path, policy_of(self.path))
        self.addCleanup(store.close)
        return store

    def stored(self) -> list[bytes]:
        """The packets that another program sees in the file."""
        with closing(sqlite3.connect(self.path)) as connection:
            return [packet for (packet,) in connection.execute("SELECT content FROM packet ORDER BY id")]

    def test_is_durable(self) -> None:
        """Recoverable messages may be entrusted to it."""
        store = make_store("sqlite", Path("data"))
        self.assertEqual((store.name, store.durable), ("sqlite", True))

    async def test_is_in_the_data_directory(self) -> None:
        """C{sqlite} is one file in the data directory, C{sqlite:PATH} another one."""
        for description, name in (("sqlite", "msmq.sqlite"), ("sqlite:other.db", "other.db")):
            store = make_store(description, self.path.parent)
            await store.open()
            self.assertTrue((self.path.parent / name).exists(), description)
            await store.close()

    def test_unsuitable_path(self) -> None:
        """A path that no file can have is refused before anything is opened."""
        self.assertRaises(StorageDescriptionError, make_store, "sqlite:a\0b", Path("data"))

    async def test_readable_by_its_owner_only(self) -> None:
        """The file, and SQLite's further files, are for its owner alone."""
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        await self.opened(PutQueue(ORDERS), put(1))
        files = list(self.path.parent.iterdir())
        self.assertIn(self.path.with_name("msmq.sqlite-wal"), files)
        self.assertEqual({stat.S_IMODE(file.stat().st_mode) for file in files}, {0o600})

    async def test_done_means_committed(self) -> None:
        """When a batch is done, other readers of the file see it."""
        store = await self.opened(PutQueue(ORDERS))
        seen: list[list[bytes]] = []
        done = store.commit([put(1, b"one")])
        done.addCallback(lambda _: seen.append(self.stored()))
        await done
        self.assertEqual(seen, [[b"one"]])

    async def test_what_waits_is_written_together(self) -> None:
        """A hundred batches that come while the disk is busy are two transactions at most."""
        store = await self.opened(PutQueue(ORDERS))
        log = self.path.with_name("msmq.sqlite-wal")
        with closing(sqlite3.connect(self.path, isolation_level=None)) as busy:
            busy.execute("BEGIN IMMEDIATE")
            before = _transactions(log)
            commits = [store.commit([put(number)]) for number in range(100)]
            self.assertFalse(any(commit.called for commit in commits))
            busy.execute("ROLLBACK")
        for commit in commits:
            await commit
        self.assertLessEqual(_transactions(log) - before, 2)
        self.assertEqual(len(self.stored()), 100)

    async def test_cancelling_does_not_undo(self) -> None:
        """A batch whose caller cancels is committed all the same."""
        store = await self.opened(PutQueue(ORDERS))
        commit = store.commit([put(1, b"one")])
        commit.cancel()
        await self.refused_by_cancelling(commit)
        self.assertEqual(list(await self.packets(store, 1)), [b"one"])

    async def test_stopping_while_it_opens(self) -> None:
        """A store that is closed before it has opened releases its file."""
        store = self.make_store()
        opening = store.open()
        opening.cancel()
        closing_ = store.close()
        await self.refused_by_cancelling(opening)
        await closing_
        again = self.make_store()
        self.assertEqual(list((await again.open()).queues), [])

    async def refused_by_cancelling(self, asked: Deferred[Any]) -> None:
        try:
            await asked
        except CancelledError:
            return
        self.fail("it was not cancelled")

    async def test_handed_over_is_handed_over(self) -> None:
        """Later changes of a submitted list have no effect."""
        store = await self.opened(PutQueue(ORDERS))
        batch = [put(1, b"one")]
        commit = store.commit(batch)
        batch.clear()
        await commit
        self.assertEqual(list(await self.packets(store, 1)), [b"one"])

    async def test_values_that_cannot_be_stored(self) -> None:
        """A value that the file cannot store fails its batch, and no other."""
        store = await self.opened(PutQueue(ORDERS))
        batches: Sequence[Sequence[PutMessage | PutState | RemoveMessages]] = (
            [put(10), put(1 << 64)],
            [put(11), put(-1)],
            [put(12), RemoveMessages(ORDERS.identifier, (1 << 64,))],
            [put(13), PutState("\ud800", b"")],
            [put(14), PutMessage(ORDERS.identifier, 1, b"", float("nan"))],
        )
        commits = [store.commit(batch) for batch in batches]
        good = store.commit([put(2, b"two")])
        for commit in commits:
            await self.refused(commit, StorageError)
        await good
        self.assertEqual(self.stored(), [b"two"])

    async def test_path_that_is_no_text(self) -> None:
        """An outgoing queue keeps its name even if a peer put half a character in it."""
        odd = QueueDefinition(identifier=ORDERS.identifier, path="DIRECT=OS:\ud83d\\q\udfff\udc00")
        store = await self.opened(PutQueue(odd))
        _, snapshot = await self.reopened(store)
        self.assertEqual(list(snapshot.queues), [odd])

    async def test_order_over_all_64_bits(self) -> None:
        """A start finds the messages in the unsigned order of their LookupIdentifiers."""
        numbers = [0, 1, HIGHEST, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
        store = await self.opened(PutQueue(ORDERS))
        await store.commit([put(number) for number in reversed(numbers)])
        _, snapshot = await self.reopened(store)
        self.assertEqual([entry[0] for entry in snapshot.messages[ORDERS.identifier]], numbers)

    async def test_many_messages(self) -> None:
        """Fifty thousand messages are in the index of the next start, and each can be read."""
        store = await self.opened(PutQueue(ORDERS))
        numbers = range(50_000)
        commits = [
            store.commit([put(number, b"%01024d" % number) for number in numbers[start : start + 500]])
            for start in numbers[::500]
        ]
        for commit in commits:
            await commit
        again, snapshot = await self.reopened(store)
        index = snapshot.messages[ORDERS.identifier]
        self.assertEqual([entry[0] for entry in index], list(numbers))
        self.assertEqual({entry[1] for entry in index}, {1024})
        self.assertEqual(list(await self.packets(again, 49_999, 0)), [b"%01024d" % 49_999, b"%01024d" % 0])

    async def test_removed_queue_is_gone_at_once(self) -> None:
        """A queue of many messages is removed, and made anew, without waiting for each of them."""
        store = await self.opened(PutQueue(ORDERS))
        await store.commit([put(number) for number in range(5000)])
        await store.commit([RemoveQueue(ORDERS.identifier), PutQueue(ORDERS), put(1, b"new")])
        again, snapshot = await self.reopened(store)
        self.assertEqual([entry[:2] for entry in snapshot.messages[ORDERS.identifier]], [(1, 3)])
        self.assertEqual(list(await self.packets(again, 1)), [b"new"])

    async def until_small(self, store: IMessageStore, path: Path) -> None:
        """Space is released while others are at work."""
        for number in count():
            await store.commit([PutState("number", b"%d" % number)])
            if path.stat().st_size < 6_000_000:
                return

    async def test_gives_space_back_while_it_works(self) -> None:
        """After a backlog is gone the file shrinks, with no stop and no restart."""
        store = await self.opened(PutQueue(ORDERS))
        await store.commit([put(number, bytes(8000)) for number in range(2000)])
        await store.close()
        self.assertGreater(self.path.stat().st_size, 16_000_000)
        store = await self.opened(RemoveMessages(ORDERS.identifier, tuple(range(2000))))
        await self.until_small(store, self.path)

    async def test_releases_the_space_of_express_messages(self) -> None:
        """So does the file for express messages."""
        store = await self.opened(PutQueue(ORDERS))
        for start in range(0, 2000, 100):
            numbers = range(start, start + 100)
            await store.commit([put(number, bytes(8000), is_express=True) for number in numbers])
        express = self.path.with_name("msmq.sqlite.express")
        self.assertGreater(express.stat().st_size, 8_000_000)
        await store.commit([RemoveMessages(ORDERS.identifier, tuple(range(2000)), is_express=True)])
        await self.until_small(store, express)

    async def test_releases_the_space_of_logs(self) -> None:
        """And trimmed entries, and those of deleted queues, are deleted in slices."""
        store = await self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        for queue in (ORDERS.identifier, BILLS.identifier):
            await store.commit([AppendLog(queue, number, bytes(8000), 1.0) for number in range(1500)])
        await store.commit([AppendEvent(1.0, bytes(20), "expired", "x" * 400) for _ in range(10_000)])
        await store.close()
        self.assertGreater(self.path.stat().st_size, 24_000_000)
        store = await self.opened(
            TrimLog(ORDERS.identifier, keep_bytes=8000), RemoveQueue(BILLS.identifier), TrimEvents(10)
        )
        await self.until_small(store, self.path)
        self.assertEqual(len(await store.read_log(ORDERS.identifier, 0, 10)), 1)
        self.assertEqual(len(await store.read_events(0, 100)), 10)
        with closing(sqlite3.connect(self.path)) as connection:
            self.assertEqual(connection.execute("SELECT count(*) FROM log").fetchone(), (1,))
            self.assertEqual(connection.execute("SELECT count(*) FROM event").fetchone(), (10,))

    async def test_express_messages_wait_for_no_disk(self) -> None:
        """Changes of express messages alone cause no sync."""
        store = await self.opened(PutQueue(ORDERS), put(1))
        log = self.path.with_name("msmq.sqlite-wal")
        before = log.read_bytes(), self.path.read_bytes()
        await store.commit([put(2, is_express=True), put(3, is_express=True)])
        await store.commit([PutAborts(ORDERS.identifier, 2, 1, is_express=True)])
        await store.commit([RemoveMessages(ORDERS.identifier, (2,), is_express=True)])
        self.assertEqual((log.read_bytes(), self.path.read_bytes()), before)

    async def test_express_messages_leave_no_file(self) -> None:
        """After a stop the file for express messages is gone; what a kill leaves of it is not read."""
        store = await self.opened(PutQueue(ORDERS), put(1, is_express=True))
        express = self.path.with_name("msmq.sqlite.express")
        self.assertTrue(express.exists())
        await store.close()
        self.assertFalse(express.exists())
        for suffix in ("", "-wal", "-shm"):
            Path(f"{express}{suffix}").write_bytes(b"rubbish")
        store = await self.opened(put(2, b"two", is_express=True))
        self.assertEqual(list(await self.packets(store, 2)), [b"two"])

    async def test_second_store_on_the_file(self) -> None:
        """Two queue managers never write one file, and the first does not notice the attempt."""
        store = await self.opened(PutQueue(ORDERS))
        error = await self.refused(self.make_store().open(), StorageError)
        self.assertEqual(str(error), f"{self.path} is in use by another queue manager; stop it first")
        await store.commit([put(1)])

    async def test_opens_after_a_refusal(self) -> None:
        """A store that could not open can be opened once the reason is gone."""
        first = await self.opened(PutQueue(ORDERS))
        second = self.make_store()
        await self.refused(second.open(), StorageError)
        await second.close()
        await first.close()
        self.assertEqual(list((await second.open()).queues), [ORDERS])


def _transactions(log: Path) -> int:
    """The transactions in a write-ahead log; the frame that ends one has the size of the database."""
    content = log.read_bytes()
    generation = content[16:24]
    frames = [content[start : start + 24] for start in range(32, len(content), 24 + 4096)]
    return sum(frame[8:16] == generation and frame[4:8] != bytes(4) for frame in frames)
