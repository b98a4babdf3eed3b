"""Work of the store in SQLite between commits: checkpoints, checksums of older rows, deletions."""

from __future__ import annotations

import resource
import sqlite3
from contextlib import closing
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    Change,
    PutQueue,
    PutState,
    RemoveQueue,
    TrimEvents,
    TrimLog,
)
from msmq.storage.sqlite.database import FileDatabase
from msmq.storage.sqlite.packet_reader import PacketReader
from msmq.storage.sqlite.reserve import RESERVE_BYTES
from msmq.testing.contracts.store_contract import BILLS, ORDERS, put
from tests.storage.limited_files import files_of_at_most
from tests.storage.policies import policy_of


class UpkeepTests(SynchronousTestCase):
    """What the writer does between groups."""

    def setUp(self) -> None:
        home = Path(self.mktemp()).absolute()
        home.mkdir()
        self.path = home / "msmq.sqlite"
        self.log = home / "msmq.sqlite-wal"

    def opened(self) -> FileDatabase:
        database = FileDatabase(self.path, policy_of(self.path))
        self.addCleanup(database.close)
        return database

    def test_checkpoint_counts_all_messages(self) -> None:
        """The write-ahead log stays smaller than the reserve, also with many messages in each group."""
        database = self.opened()
        database.write([[PutQueue(ORDERS)]])
        sizes = []
        for group in range(24):
            database.write([[put(64 * group + number, bytes(8000))] for number in range(64)])
            database.checkpoint()
            sizes.append(self.log.stat().st_size)
        self.assertLess(max(sizes), RESERVE_BYTES)

    def test_removed_queue_with_damaged_packets(self) -> None:
        """Packets that cannot be deleted are reported once, and keep nothing else from being deleted."""
        database = self.opened()
        identifier = BILLS.identifier
        logged = [AppendLog(identifier, number, bytes(100), float(number)) for number in range(10)]
        events = [AppendEvent(1.0, b"", "expired") for _ in range(10)]
        database.write([[PutQueue(ORDERS), PutQueue(BILLS), *logged, *events]])
        database.write([[put(number, b"%03d" % number * 500) for number in range(200)]])
        database.close()
        with closing(sqlite3.connect(self.path)) as connection:
            [root] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'packet'").fetchone()
        database = self.opened()
        while database.cleanup():
            pass
        with self.path.open("r+b") as file:
            file.seek((root - 1) * 4096)
            file.write(bytes(100))
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            # A change by another program has the writer read its pages again.
            connection.execute("UPDATE sequence SET last = last + 1")
        database.write([[RemoveQueue(ORDERS.identifier), TrimLog(identifier, before=7.0), TrimEvents(4)]])
        error = self.assertRaises(StorageError, database.cleanup)
        self.assertIn("the file is damaged", str(error))
        for number in range(10):
            database.write([[PutState("now", b"%d" % number)]])
            while database.cleanup():
                pass
        with closing(sqlite3.connect(self.path)) as connection:
            for table, left in (("log", 3), ("event", 4)):
                self.assertEqual(connection.execute(f"SELECT count(*) FROM {table}").fetchone(), (left,))

    def test_checksums_that_cannot_be_committed(self) -> None:
        """Older rows whose checksums a full disk does not take get them later, and are not lost."""
        changes: list[Change] = [
            *(AppendLog(ORDERS.identifier, number, b"%d" % number * 100, 1.0) for number in range(3)),
            *(AppendEvent(1.0, b"", "expired", f"reason {number}") for number in range(3)),
        ]
        database = FileDatabase(self.path, policy_of(self.path))
        database.write([[PutQueue(ORDERS), put(1, b"one"), *changes]])
        database.close()
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for table in ("log", "event"):
                connection.execute(f"UPDATE {table} SET checksum = NULL")
            connection.execute("UPDATE message SET checksum = NULL, row_checksum = NULL")
            connection.execute("UPDATE generation SET is_checked = 0")
        database = self.opened()
        for is_full in (True, False, True, False, True):
            with files_of_at_most(self.log.stat().st_size if is_full else resource.RLIM_INFINITY):
                for _ in range(3):
                    try:
                        database.cleanup()
                    except StorageError:
                        self.assertTrue(is_full)
        while database.cleanup():
            pass
        reader = PacketReader(self.path)
        self.addCleanup(reader.close)
        entries, events = reader.read_log(ORDERS.identifier, 0, 10), reader.read_events(0, 10, None)
        self.assertEqual([entry.lookup_id for entry in entries.rows], [0, 1, 2])
        self.assertEqual([one.event.reason for one in events.rows], ["reason 0", "reason 1", "reason 2"])
        self.assertEqual(reader.read(ORDERS.identifier, [1]), [b"one"])
