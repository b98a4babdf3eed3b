"""A damaged file of the store in SQLite is repaired: everything that reads a store reads it afterwards."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import AppendEvent, AppendLog, Change, PutQueue, PutState
from msmq.storage.checking.sqlite_check import check_file
from msmq.storage.checking.sqlite_repair import rebuild
from msmq.storage.migration.digest import digest_of
from msmq.storage.readers.sqlite import SqliteStoreReader
from msmq.storage.sqlite.database import FileDatabase
from msmq.storage.sqlite.packet_reader import PacketReader
from msmq.testing.contracts.store_contract import BILLS, ORDERS, put
from tests.storage.policies import NOW, policy_of

LOGGED: list[Change] = [
    *(AppendLog(ORDERS.identifier, number, b"%d" % number * 100, 1.0) for number in range(3)),
    *(AppendEvent(float(number), b"", "expired", f"reason {number}") for number in range(3)),
]


class RepairTests(SynchronousTestCase):
    """C{msmq store repair} of one file."""

    def setUp(self) -> None:
        home = Path(self.mktemp()).absolute()
        home.mkdir()
        self.path = home / "msmq.sqlite"
        self.mark = home / "msmq.sqlite-mark"
        self.quarantine = home / "msmq.sqlite.quarantine"

    def filled(self, *changes: Change) -> None:
        """A closed file."""
        database = FileDatabase(self.path, policy_of(self.path))
        self.assertEqual(database.write([[PutQueue(ORDERS), PutQueue(BILLS), *changes]]), [None])
        database.close()

    def sql(self, *statements: str) -> None:
        """Change the file behind the store's back."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    def repaired(self) -> list[str]:
        """The lines of a repair without the name of the file; afterwards a check finds nothing."""
        lines = [line.removeprefix(f"{self.path}: ") for line in rebuild(self.path, self.mark, lambda: NOW)]
        self.assertEqual(check_file(self.path, self.mark).problems, [])
        return lines

    def opened(self) -> FileDatabase:
        database = FileDatabase(self.path, policy_of(self.path))
        self.addCleanup(database.close)
        return database

    def digest(self) -> dict[str, int]:
        """The rows that a backup or a migration reads, by section."""
        reader = SqliteStoreReader(self.path)
        self.addCleanup(reader.close)
        return {name: section.rows for name, section in digest_of(reader, lambda rows: None).items()}

    def test_file_in_use(self) -> None:
        """A file that a queue manager uses, maybe that of another data directory, is not replaced."""
        self.filled(put(1, b"one"))
        database = self.opened()
        error = self.assertRaises(StorageError, rebuild, self.path, self.mark, lambda: NOW)
        self.assertEqual(str(error), f"{self.path} is in use by another queue manager; stop it first")
        self.assertEqual(database.write([[put(2, b"two")]]), [None])

    def test_damaged_logs(self) -> None:
        """A damaged entry and a damaged event do not prevent backups and migrations after a repair."""
        self.filled(*LOGGED)
        self.sql(
            "UPDATE log SET packet = CAST('rotten' AS BLOB) WHERE sequence = 2",
            "UPDATE event SET reason = 'other' WHERE sequence = 2",
        )
        self.assertIn("does not match", str(self.assertRaises(StorageError, self.digest)))
        lines = self.repaired()
        self.assertEqual(
            lines,
            [
                "table log, sequence 2: the checksum does not match; removed, see quarantine",
                "1 events of the event log are lost",
            ],
        )
        self.assertEqual((self.quarantine / "log_entry-1-2").read_bytes(), b"rotten")
        database, reader = self.opened(), PacketReader(self.path)
        self.addCleanup(reader.close)
        database.write([[AppendLog(ORDERS.identifier, 9, b"new", 1.0), AppendEvent(9.0, b"", "new", "")]])
        entries = reader.read_log(ORDERS.identifier, 0, 10).rows
        self.assertEqual([(one.sequence, one.lookup_id) for one in entries], [(1, 0), (3, 2), (4, 9)])
        extent = reader.log_extent(ORDERS.identifier)
        self.assertEqual((extent.entries, extent.size), (3, sum(len(one.packet) for one in entries)))
        events = [(one.sequence, one.event) for one in reader.read_events(0, 10, None).rows]
        self.assertEqual(
            [(sequence, event.time, event.event, event.reason) for sequence, event in events],
            [
                (1, 0.0, "expired", "reason 0"),
                (2, 1.0, "damaged", "the event that was here is lost"),
                (3, 2.0, "expired", "reason 2"),
                *((4 + index, NOW, "repaired", f"{self.path}: {line}") for index, line in enumerate(lines)),
                (6, 9.0, "new", ""),
            ],
        )
        self.assertEqual(self.digest()["log entries"], 3)

    def test_unreadable_event(self) -> None:
        """An event whose text is no text any more is left out of answers, and replaced by a repair."""
        self.filled(*LOGGED)
        self.sql("UPDATE event SET reason = CAST(x'ff' AS TEXT) WHERE sequence = 3")
        reader = PacketReader(self.path)
        found = reader.read_events(0, 10, None)
        reader.close()
        self.assertEqual([one.event.reason for one in found.rows], ["reason 0", "reason 1"])
        self.assertEqual([one.what for one in found.damaged], ["event 3"])
        self.assertIn("event 3", check_file(self.path, self.mark).problems[0])
        self.assertIn("sequence 3: the checksum", str(self.assertRaises(StorageError, self.digest)))
        self.repaired()
        self.assertEqual(self.digest()["events"], 4)

    def test_size_of_another_type(self) -> None:
        """A log entry whose size is no number any more is like any damaged one."""
        self.filled(*LOGGED)
        self.sql("UPDATE log SET size = 'x' WHERE sequence = 2")
        reader = PacketReader(self.path)
        found = reader.read_log(ORDERS.identifier, 0, 10)
        reader.close()
        self.assertEqual([one.lookup_id for one in found.rows], [0, 2])
        self.assertIn("entry 2", check_file(self.path, self.mark).problems[0])
        self.assertRaises(StorageError, self.digest)
        self.repaired()
        self.assertEqual(self.digest()["log entries"], 2)

    def test_missing_events(self) -> None:
        """The numbers of events have no gaps after a repair, on which readers rely."""
        self.filled(*LOGGED)
        self.sql("DELETE FROM event WHERE sequence IN (1, 3)", "UPDATE sequence SET last = 3")
        self.repaired()
        reader = SqliteStoreReader(self.path)
        self.addCleanup(reader.close)
        events, _ = reader.events(1, 100)
        self.assertEqual([one.sequence for one in events], [1, 2, 3, 4])
        self.assertEqual([one.event.event for one in events], ["damaged", "expired", "damaged", "repaired"])

    def test_damaged_event_numbers(self) -> None:
        """Damaged bounds of the event log do not fill it with placeholders."""
        self.filled(*LOGGED)
        self.sql("UPDATE sequence SET first = -1099511627776, last = 1099511627776 WHERE name = 'event'")
        self.assertEqual(len(self.repaired()), 1)
        self.assertEqual(self.digest()["events"], 4)

    def test_lost_extent(self) -> None:
        """A message log whose bounds are lost is there again after a repair."""
        self.filled(*LOGGED)
        self.sql("DELETE FROM log_extent")
        self.repaired()
        self.assertEqual(self.digest()["log entries"], 3)
        self.opened()
        reader = PacketReader(self.path)
        self.addCleanup(reader.close)
        self.assertEqual(reader.log_extent(ORDERS.identifier).entries, 3)

    def test_types_of_values(self) -> None:
        """One bit makes a text of bytes, and bytes of a text: a start refuses both, and both are repaired."""
        for assignment in ("name = CAST(name AS BLOB)", "value = CAST(value AS TEXT)"):
            with self.subTest(assignment):
                self.path.unlink(missing_ok=True)
                self.mark.unlink(missing_ok=True)
                self.filled(PutState("stream", b"value"))
                self.sql(f"UPDATE state SET {assignment}")
                error = self.assertRaises(StorageError, FileDatabase, self.path, policy_of(self.path))
                self.assertIn("table state, row 'stream'", str(error))
                self.assertEqual(
                    self.repaired(), ["table state, row stream: its type was wrong, and is corrected"]
                )
                database = FileDatabase(self.path, policy_of(self.path))
                self.assertEqual(dict(database.snapshot().state), {"stream": b"value"})
                database.close()

    def test_value_of_another_type(self) -> None:
        """A damaged value goes to quarantine, also one that is a number now."""
        self.filled(PutState("stream", b"value"))
        self.sql("UPDATE state SET value = 77777777")
        self.assertEqual(self.repaired(), ["table state, row stream: removed; its bytes are in quarantine"])
        [kept] = self.quarantine.iterdir()
        self.assertEqual((kept.name, kept.read_bytes()), ("state-73747265616d", b"77777777"))

    def test_second_repair(self) -> None:
        """The file that an earlier repair has kept stays as it is."""
        self.filled(PutState("stream", b"value"), PutState("other", b"value"))
        copies = []
        for name in ("stream", "other"):
            self.sql(f"UPDATE state SET value = x'00' WHERE name = '{name}'")
            copies.append(self.path.read_bytes())
            self.repaired()
        for name, content in zip(("msmq.sqlite.damaged", "msmq.sqlite.damaged-2"), copies, strict=True):
            self.assertEqual(self.path.with_name(name).read_bytes(), content)

    def test_large_packet_with_a_damaged_beginning(self) -> None:
        """A reader that needs no bodies verifies a packet that it has to read completely."""
        self.filled(put(1, b"not a message" * 5000), put(2, b"not one either" * 5000))
        reader = SqliteStoreReader(self.path)
        self.addCleanup(reader.close)
        page = reader.messages(ORDERS.identifier, 0, 1 << 64, since=None, until=None, bodies=False)
        self.assertEqual([row[-1][:3] for row in page.rows], [b"not", b"not"])
        self.sql("UPDATE packet SET content = CAST(replace(content, 'either', 'eather') AS BLOB)")
        error = self.assertRaises(
            StorageError,
            reader.messages,
            ORDERS.identifier,
            0,
            1 << 64,
            since=None,
            until=None,
            bodies=False,
        )
        self.assertIn("the checksum of the packet does not match", str(error))
