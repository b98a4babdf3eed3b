"""A store in SQLite that is read during the run of its server."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import (
    PutMessage,
    PutQueue,
    RemoveQueue,
)
from msmq.storage.readers import StoreReader, open_reader
from msmq.storage.sqlite.database import FileDatabase
from msmq.testing.contracts.store_contract import BILLS, ORDERS
from tests.builders import user_packet
from tests.pipeline.stores import write_sqlite
from tests.storage.policies import policy_of
from tests.storage.readers.reader_contract import ANY, EVERYTHING, ReaderContract, spoil_file

OTHER_UID = 65534
"""A user without rights."""


@contextmanager
def without_rights() -> Iterator[None]:
    """The process of root is meanwhile one of a user without rights; that of another user stays as it is."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(OTHER_UID, OTHER_UID, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


class SqliteTests(ReaderContract, SynchronousTestCase):
    """The store in SQLite."""

    def reader_of(self, *changes: Any) -> StoreReader:
        directory = Path(tempfile.mkdtemp(dir=self.workshop()))
        write_sqlite(directory, changes)
        self.place = directory
        store = open_reader(str(directory))
        self.addCleanup(store.close)
        return store

    def spoil(self, content: bytes) -> None:
        spoil_file(self.place / "msmq.sqlite", content)

    def test_read_only_directory(self) -> None:
        """A user who may only read sees a stopped store as it was when the file was opened: such a reader is
        not kept, and a new one sees what has changed.
        """
        # Every user may pass through this one, and not through the directory of a run of the tests.
        data = Path(tempfile.mkdtemp(dir="/tmp"))
        self.addCleanup(shutil.rmtree, data)
        store = open_reader(str(data / "msmq.sqlite"))
        for queues in ([ORDERS], [ORDERS, BILLS]):
            data.chmod(0o755)
            write_sqlite(data, [PutQueue(queues[-1])])
            (data / "msmq.sqlite").chmod(0o644)
            data.chmod(0o555)
            with without_rights():
                self.assertEqual(store.queues(), queues)
                self.assertFalse(store.is_reusable())
                store.close()

    def test_held(self) -> None:
        """A held reader shows one moment, and after it was closed the present again."""
        store = self.reader_of(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 1, b"m", 1.0))
        store.hold()
        write_sqlite(self.place, [PutMessage(ORDERS.identifier, 2, b"m", 1.0)])
        self.assertEqual(len(store.message_rows(ORDERS.identifier, 0).rows), 1)
        store.close()
        self.assertEqual(len(store.message_rows(ORDERS.identifier, 0).rows), 2)

    def test_number_of_another_queue(self) -> None:
        """A queue that is removed has no messages, though the file gives its number to another one after a
        restart.
        """
        store = self.reader_of(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 1, b"m", 1.0))
        self.assertEqual(len(store.message_rows(ORDERS.identifier, 0).rows), 1)
        path = self.place / "msmq.sqlite"
        with closing(FileDatabase(path, policy_of(path))) as database:
            self.assertEqual(database.write([[RemoveQueue(ORDERS.identifier)]]), [None])
            while database.cleanup():
                pass
        write_sqlite(self.place, [PutQueue(BILLS), PutMessage(BILLS.identifier, 1, b"m", 1.0)])
        self.assertFalse(store.message_rows(ORDERS.identifier, 0).rows)
        self.assertEqual(len(store.message_rows(BILLS.identifier, 0).rows), 1)

    def test_damaged_row(self) -> None:
        """A row with another ArrivalTime is reported too."""
        store = self.reader_of(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 1, b"m", 1.0))
        with closing(sqlite3.connect(self.place / "msmq.sqlite")) as connection:
            connection.execute("UPDATE message SET arrived = 2.0")
            connection.commit()
        error = self.assertRaises(
            StorageError, store.messages, ORDERS.identifier, *EVERYTHING, **ANY, bodies=True
        )
        self.assertIn("table message, lookup id 0x0000000000000001: the checksum of the row", str(error))

    def workshop(self) -> Path:
        directory = Path(self.mktemp()).absolute()
        directory.mkdir(parents=True)
        return directory

    def test_log_stays_short(self) -> None:
        """A job that reads for long keeps SQLite's log from growing no longer than one page takes."""
        directory = self.workshop()
        packet = user_packet(bytes(1000))
        count = 12_000
        changes = [PutMessage(ORDERS.identifier, n, packet, 1.0) for n in range(count)]
        write_sqlite(directory, [PutQueue(ORDERS)], *(changes[n : n + 1000] for n in range(0, count, 1000)))
        database = FileDatabase(directory / "msmq.sqlite", policy_of(directory / "msmq.sqlite"))
        self.addCleanup(database.close)
        log = directory / "msmq.sqlite-wal"
        sizes: list[int] = []
        is_done = threading.Event()
        written = 0
        read = 0

        def job() -> None:
            nonlocal read
            store = open_reader(str(directory))
            try:
                begin: int | None = 0
                while begin is not None:
                    page = store.messages(ORDERS.identifier, begin, 1 << 40, **ANY, bodies=True)
                    read += len(page.rows)
                    begin = page.next
            finally:
                store.close()
                is_done.set()

        thread = threading.Thread(target=job)
        thread.start()
        # As a server does that is under load: a group, and a checkpoint when the log has become long.
        number = 1 << 41
        while written < 40 or not is_done.is_set():
            group = [PutMessage(ORDERS.identifier, number + n, packet, 1.0) for n in range(500)]
            self.assertEqual(database.write([group]), [None])
            database.checkpoint()
            number += 500
            written += 1
            sizes.append(log.stat().st_size)
        thread.join()
        self.assertEqual(read, count)
        self.assertGreater(written * 500 * len(packet), 20_000_000)
        self.assertLess(max(sizes), 32 * 1024 * 1024)

    def test_one_long_read_would_not(self) -> None:
        """The counter-proof: while one transaction lasts the log cannot begin anew, and only grows."""
        directory = self.workshop()
        packet = user_packet(bytes(1000))
        write_sqlite(directory, [PutQueue(ORDERS)])
        database = FileDatabase(directory / "msmq.sqlite", policy_of(directory / "msmq.sqlite"))
        self.addCleanup(database.close)
        with closing(sqlite3.connect(f"file:{directory}/msmq.sqlite?mode=ro", uri=True)) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM message").fetchone()
            for group in range(30):
                number = group * 1000
                changes = [PutMessage(ORDERS.identifier, number + n, packet, 1.0) for n in range(1000)]
                self.assertEqual(database.write([changes]), [None])
                database.checkpoint()
        self.assertGreater((directory / "msmq.sqlite-wal").stat().st_size, 32 * 1024 * 1024)

    def test_foreign_files(self) -> None:
        """A file of another program is refused by name."""
        directory = self.workshop()
        path = directory / "msmq.sqlite"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE t (x)")
        error = self.assertRaises(StorageError, open_reader(str(directory)).queues)
        self.assertEqual(str(error), f"{path}: this is not a store of msmq")
        path.write_bytes(b"nothing of the kind" * 100)
        error = self.assertRaises(StorageError, open_reader(str(path)).queues)
        self.assertIn("the file is not a SQLite database", str(error))
