"""Stores that are read during the run of their server: in short transactions, and only the wanted part."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    PutMessage,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveState,
    TrimLog,
)
from msmq.pipeline.reading.row_selection import RowSelection
from msmq.pipeline.reading.slices import RowSpan
from msmq.pipeline.reading.stores import message_pages
from msmq.pipeline.rows import message_row
from msmq.pipeline.stored_packets import StoredPacket
from msmq.storage.readers import StoreReader, open_reader
from msmq.storage.readers.shape import HEAD, LARGE, PAGE_BYTES, PAGE_ROWS, MomentGone, without_body
from msmq.storage.sqlite.database import FileDatabase
from msmq.testing.contracts.store_contract import BILLS, ORDERS
from tests.builders import user_packet
from tests.pipeline.stores import write_postgresql, write_sqlite
from tests.samples import examples
from tests.servers.postgresql import shared_server
from tests.storage.log.support import LogTestCase
from tests.storage.policies import policy_of
from tests.strategies import user_packets

ANY: dict[str, Any] = {"since": None, "until": None}
EVERYTHING = (0, 1 << 64)
NOBODY = 65534
"""A user without rights."""
HEADERS = ("id", "label", "priority", "body_size", "extension_base64", "transaction", "decode_error")


def spoil_file(path: Path, content: bytes) -> None:
    """Change a bit in the middle of this content in a file."""
    data = path.read_bytes()
    at = data.index(content) + len(content) // 2
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


@contextmanager
def without_rights() -> Iterator[None]:
    """The process of root is meanwhile one of a user without rights; that of another user stays as it is."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


if TYPE_CHECKING:
    _Base = SynchronousTestCase
else:
    _Base = object


class BesideContract(_Base):
    """Contract of readers, for every store."""

    def beside(self, *changes: Any) -> StoreReader:
        """A store with these changes."""
        raise NotImplementedError

    def test_pages(self) -> None:
        """Pages have a limit of rows and of bytes, and together every row once, in order."""
        ids = [number * 3 for number in range(PAGE_ROWS + 10)]
        store = self.beside(PutQueue(ORDERS), *(PutMessage(ORDERS.identifier, n, b"m", 1.0) for n in ids))
        first = store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True)
        self.assertEqual((len(first.rows), first.next), (PAGE_ROWS, ids[PAGE_ROWS]))
        second = store.messages(ORDERS.identifier, first.next or 0, 1 << 64, **ANY, bodies=True)
        self.assertEqual([row[0] for row in (*first.rows, *second.rows)], ids)
        self.assertIsNone(second.next)

    def test_rows(self) -> None:
        """Rows without packets have their sizes and are in pages; a held reader gives the same."""
        ids = range(PAGE_ROWS + 2)
        store = self.beside(
            PutQueue(ORDERS),
            *(
                PutMessage(ORDERS.identifier, n, b"m" * (n % 5), 1.0, 7, 2, 3, event_only=n % 2 == 0)
                for n in ids
            ),
        )
        for _ in range(2):
            first = store.message_rows(ORDERS.identifier, 0)
            second = store.message_rows(ORDERS.identifier, first.next or 0)
            rows = [*first.rows, *second.rows]
            self.assertEqual(rows, [(n, 1.0, 2, 3, 7, n % 5) for n in ids])
            self.assertIsNone(second.next)
            store.hold()
        self.assertEqual(store.queues(), [ORDERS])

    def test_reusable(self) -> None:
        """A reader is worth keeping between its first answer and its close, in which it keeps nothing."""
        store = self.beside(PutQueue(ORDERS))
        for _ in range(2):
            store.close()
            self.assertFalse(store.is_reusable())
            self.assertEqual(store.queues(), [ORDERS])
            self.assertTrue(store.is_reusable())

    def test_large_pages(self) -> None:
        """A page has few packets where they are large, and one at least."""
        large = bytes(PAGE_BYTES // 2 + 1)
        store = self.beside(
            PutQueue(ORDERS), *(PutMessage(ORDERS.identifier, n, large, 1.0) for n in range(3))
        )
        page = store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True)
        self.assertEqual((len(page.rows), page.next), (1, 1))

    def test_unwanted_bodies(self) -> None:
        """Only the beginning of a large message is read, with the correct headers."""
        packets = [user_packet(bytes(400_000), label=f"large {n}", message_id=n) for n in range(10)]
        changes = [PutMessage(ORDERS.identifier, n, packet, 1.0) for n, packet in enumerate(packets)]
        logs = [AppendLog(ORDERS.identifier, n, packet, 1.0) for n, packet in enumerate(packets)]
        store = self.beside(PutQueue(ORDERS), *changes, *logs)
        for read in (store.messages, store.log):
            before = store.bytes_read
            rows = read(ORDERS.identifier, *EVERYTHING, **ANY, bodies=False).rows
            self.assertEqual(store.bytes_read - before, 10 * HEAD)
            self.assertEqual(
                [message_row(StoredPacket(row[-1], "q", 1), HEADERS) for row in rows],
                [message_row(StoredPacket(packet, "q", 1), HEADERS) for packet in packets],
            )
            whole: list[bytes] = []
            begin: int | None = 0
            while begin is not None:
                page = read(ORDERS.identifier, begin, 1 << 64, **ANY, bodies=True)
                whole += [row[-1] for row in page.rows]
                begin = page.next
            self.assertEqual(whole, packets)

    def test_damaged_large_packet(self) -> None:
        """A packet that cannot be parsed from its beginning is read whole."""
        packet = bytes(LARGE + 5)
        store = self.beside(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 1, packet, 1.0))
        [row] = store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=False).rows
        self.assertEqual(row[-1], packet)

    def test_skipped_entries(self) -> None:
        """A reader that skips the beginning of a message log has the rest of it, and the same bounds."""
        entries = [AppendLog(ORDERS.identifier, n, b"entry %d" % n, float(n)) for n in range(1, 31)]
        other = AppendLog(BILLS.identifier, 1, b"other", 1.0)
        store = self.beside(PutQueue(ORDERS), PutQueue(BILLS), *entries, other)
        for start in (1, 2, 15, 29, 30, 31, 40):
            store.skip_logged({ORDERS.identifier: start})
            rows = store.log(ORDERS.identifier, start, 1 << 64, **ANY, bodies=True).rows
            self.assertEqual(
                [(row[0], row[-1]) for row in rows], [(n, b"entry %d" % n) for n in range(start, 31)]
            )
            self.assertEqual(store.log_bounds(ORDERS.identifier), (1, 31))
            self.assertEqual(store.log_cuts(ORDERS.identifier, start, 1 << 64, 100), ([], max(0, 31 - start)))
            self.assertEqual(len(store.log(BILLS.identifier, 0, 1 << 64, **ANY, bodies=True).rows), 1)
            self.assertEqual(store.log_end(), 32)

    def spoil(self, content: bytes) -> None:
        """Change a bit in the middle of this content, which the store of L{beside} has."""
        raise NotImplementedError

    def test_damage(self) -> None:
        """A packet, an entry or an event with a wrong bit is reported, and never another body returned."""
        place, limits = ORDERS.identifier, {**ANY, "bodies": True}
        for content, change, read in (
            (
                b"rotten" * 30,
                PutMessage(place, 2, b"rotten" * 30, 1.0),
                lambda store: store.messages(place, *EVERYTHING, **limits),
            ),
            (
                b"logged" * 30,
                AppendLog(place, 2, b"logged" * 30, 1.0),
                lambda store: store.log(place, *EVERYTHING, **limits),
            ),
            (
                b"reason" * 30,
                AppendEvent(1.0, b"", "e", "reason" * 30),
                lambda store: store.events(*EVERYTHING),
            ),
        ):
            store = self.beside(PutQueue(ORDERS), PutMessage(place, 1, b"sound", 1.0), change)
            read(store)
            self.spoil(content)
            store.close()
            error = self.assertRaises(StorageError, read, store)
            self.assertRegex(str(error), "checksum|are damaged")
            self.assertNotIn("\n", str(error))

    def test_times(self) -> None:
        """Entries outside the time range are left out, in every stream."""
        changes = [PutMessage(ORDERS.identifier, n, b"m", float(n)) for n in range(1, 9)]
        logs = [AppendLog(ORDERS.identifier, n, b"m", float(n)) for n in range(1, 9)]
        events = [AppendEvent(float(n), b"", "e") for n in range(1, 9)]
        store = self.beside(PutQueue(ORDERS), *changes, *logs, *events)
        for read in (store.messages, store.log):
            page = read(ORDERS.identifier, *EVERYTHING, since=3.0, until=5.0, bodies=True)
            self.assertEqual([row[0] for row in page.rows], [3, 4])
        self.assertEqual((store.log_since(ORDERS.identifier, 4.5), store.event_since(4.5)), (5, 5))
        self.assertEqual((store.log_since(ORDERS.identifier, 9.5), store.event_since(9.5)), (None, None))

    def test_cuts(self) -> None:
        """A range is cut into pieces of equal size."""
        changes = [PutMessage(ORDERS.identifier, n * 10, b"m", 1.0) for n in range(7)]
        logs = [AppendLog(ORDERS.identifier, n, b"m", 1.0) for n in range(7)]
        store = self.beside(PutQueue(ORDERS), *changes, *logs)
        self.assertEqual(store.message_cuts(ORDERS.identifier, 0, 1 << 64, 3), ([30, 60], 1))
        self.assertEqual(store.log_cuts(ORDERS.identifier, 0, 1 << 62, 3), ([4, 7], 1))
        self.assertEqual(store.log_cuts(ORDERS.identifier, 2, 4, 3), ([], 2))
        self.assertEqual(store.log_cuts(UUID(int=99), 0, 1 << 62, 3), ([], 0))

    def test_log(self) -> None:
        """The bounds of logs: what was trimmed is below the first number, by no more than it has to be."""
        entries = [AppendLog(queue.identifier, 1, b"abc", 1.0) for queue in (ORDERS, BILLS, ORDERS, BILLS)]
        store = self.beside(
            PutState("queue_manager", UUID(int=7).bytes), PutQueue(ORDERS), PutQueue(BILLS), *entries
        )
        bounds = [store.log_bounds(queue.identifier) for queue in (ORDERS, BILLS)]
        self.assertEqual((bounds, store.log_end()), ([(1, 4), (1, 5)], 5))
        both = [ORDERS.identifier, BILLS.identifier]
        self.assertEqual([store.log_after(both, 1, rows) for rows in (1, 3, 4)], [2, 4, None])
        self.assertEqual(store.log_after([BILLS.identifier], 1, 1), 4)
        # Each of the four packets has three bytes.
        sizes = [store.log_after(both, 1, None, size) for size in (1, 6, 8, 9, 11, 12)]
        self.assertEqual(sizes, [2, 3, 3, 4, 4, None])
        self.assertEqual([store.log_after(both, 1, rows, 9) for rows in (2, 5)], [3, 4])
        self.assertEqual(store.log_after([BILLS.identifier], 2, None, 3), 4)
        self.assertIsNone(store.log_after(both, 1, None))
        self.assertEqual(store.identifier(), "00000000-0000-0000-0000-000000000007")

    def test_trimmed_log(self) -> None:
        """The first number stands right behind the last that went, even if the next entry is far away."""
        entries = [AppendLog(queue.identifier, 1, b"abc", 1.0) for queue in (ORDERS, BILLS, BILLS, ORDERS)]
        store = self.beside(
            PutQueue(ORDERS), PutQueue(BILLS), *entries, TrimLog(ORDERS.identifier, keep_bytes=3)
        )
        self.assertEqual(store.log_bounds(ORDERS.identifier), (2, 5))
        page = store.log(ORDERS.identifier, 0, 99, **ANY, bodies=True)
        self.assertEqual([row[0] for row in page.rows], [4])
        store = self.beside(PutQueue(ORDERS), *entries[:1], TrimLog(ORDERS.identifier, before=2.0))
        self.assertEqual((store.log_bounds(ORDERS.identifier), store.log_end()), ((2, 2), 2))


class OpeningTests(SynchronousTestCase):
    """Stores that are not where they are looked for."""

    def test_directory_without_a_store(self) -> None:
        """The data directory of a server whose store is elsewhere: the error says how to name that one."""
        directory = Path(self.mktemp())
        directory.mkdir()
        error = self.assertRaises(StorageError, open_reader, str(directory))
        self.assertIn(f"{directory}: there is no store in this directory", str(error))
        self.assertIn("postgresql://...", str(error))


class SqliteTests(BesideContract, SynchronousTestCase):
    """The store in SQLite."""

    def beside(self, *changes: Any) -> StoreReader:
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
        store = self.beside(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 1, b"m", 1.0))
        store.hold()
        write_sqlite(self.place, [PutMessage(ORDERS.identifier, 2, b"m", 1.0)])
        self.assertEqual(len(store.message_rows(ORDERS.identifier, 0).rows), 1)
        store.close()
        self.assertEqual(len(store.message_rows(ORDERS.identifier, 0).rows), 2)

    def test_damaged_row(self) -> None:
        """A row with another ArrivalTime is reported too."""
        store = self.beside(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 1, b"m", 1.0))
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


class LogTests(BesideContract, LogTestCase):
    """The record log."""

    def beside(self, *changes: Any) -> StoreReader:
        self.home = Path(tempfile.mkdtemp(dir=self.home)).absolute()
        writer = self.opened()
        self.commit(writer, *changes)
        # With nothing behind it the last group would count as a write that was cut off.
        self.commit(writer, PutState("end", b""))
        self.commit(writer, RemoveState("end"))
        store = open_reader(str(self.home / "log"))
        self.addCleanup(store.close)
        self.assertEqual(store.event_bounds()[0], 1)
        self.done(writer.close())
        return store

    def spoil(self, content: bytes) -> None:
        [path] = [one for one in (self.home / "log").glob("segment-*") if content in one.read_bytes()]
        spoil_file(path, content)

    def test_live_log(self) -> None:
        """A reader follows a server that goes through its segments, and sees each commit that is done."""
        writer = self.opened(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 0, b"old", 1.0))
        store = open_reader(str(self.home / "log"))
        self.addCleanup(store.close)
        for number in range(1, 400):
            packet = b"%d" % number * 300
            self.commit(writer, PutMessage(ORDERS.identifier, number, packet, 1.0))
            if number > 2:
                self.commit(writer, RemoveMessages(ORDERS.identifier, (number - 2,)))
            if number % 40 == 3:
                page = store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True)
                self.assertEqual([row[0] for row in page.rows], [0, number - 1, number])
                self.assertEqual([page.rows[0][-1], page.rows[-1][-1]], [b"old", packet])
        self.assertGreater(writer.counters.reclaimed, 0)
        self.done(writer.close())

    def test_held(self) -> None:
        """A held reader shows one moment, until the server has reused what that moment had."""
        writer = self.opened(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 1, b"m", 1.0))
        store = open_reader(str(self.home / "log"))
        self.addCleanup(store.close)
        store.hold()
        self.commit(
            writer, PutMessage(ORDERS.identifier, 2, b"n", 1.0), RemoveMessages(ORDERS.identifier, (1,))
        )
        page = store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True)
        self.assertEqual([row[-1] for row in page.rows], [b"m"])
        number = 2
        with self.assertRaises(MomentGone):
            while number < 2000:
                number += 1
                self.commit(writer, PutMessage(ORDERS.identifier, number, b"x" * 900, 1.0))
                self.commit(writer, RemoveMessages(ORDERS.identifier, (number - 1,)))
                if number % 100 == 0:
                    store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True)
        page = store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True)
        self.assertEqual([row[0] for row in page.rows], [number])
        self.done(writer.close())

    def spans(self, store: StoreReader) -> dict[str, RowSpan]:
        """Everything in the queue and its log, with places."""
        found = {}
        for kind in ("log", "messages"):
            places = store.places(kind, ORDERS.identifier, *EVERYTHING)
            found[kind] = RowSpan(ORDERS.identifier, "orders", *EVERYTHING, places=places)
        return found

    def read(self, store: StoreReader, kind: str, span: RowSpan, **wanted: Any) -> list[StoredPacket]:
        selection = RowSelection((), **wanted)
        return [row for page in message_pages(store, kind, span, selection) for row in page]

    def test_places(self) -> None:
        """Packets are read by their places as by their numbers: small, large, without bodies, and by time."""
        sizes = (0, 10, 300, LARGE + 10, 5, 100_000, 7)
        packets = [user_packet(b"x" * size, label=f"of {size}", message_id=size) for size in sizes]
        changes: list[Any] = []
        for number, packet in enumerate(packets):
            changes.append(
                PutMessage(ORDERS.identifier, number, packet, 1.0 + number, 7, 2, 3, event_only=True)
            )
            changes.append(AppendLog(ORDERS.identifier, number, packet, 1.0 + number))
        store = self.beside(PutQueue(ORDERS), *changes)
        for kind, span in self.spans(store).items():
            plain = attrs.evolve(span, places=b"")
            for wanted in ({}, {"bodies": False}, {"since": 2.5, "until": 5.5}, {"since": 99.0}):
                found = self.read(store, kind, span, **wanted)
                self.assertEqual(self.read(store, kind, plain, **wanted), found)
            self.assertEqual(7, len(self.read(store, kind, span)))

    def test_places_that_were_reused(self) -> None:
        """What the server has moved since is read by its number, and what has come since is not read."""
        writer = self.opened(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 1, b"stays", 1.0))
        self.commit(writer, PutMessage(ORDERS.identifier, 2, b"goes", 1.0))
        store = open_reader(str(self.home / "log"))
        self.addCleanup(store.close)
        span = self.spans(store)["messages"]
        number, found = 2, [b"stays", b"goes"]
        while found == [b"stays", b"goes"] and number < 3000:
            number += 1
            self.commit(writer, PutMessage(ORDERS.identifier, number, b"x" * 900, 1.0))
            self.commit(writer, RemoveMessages(ORDERS.identifier, (number - 1,)))
            if number % 50 == 0:
                found = [row.packet for row in self.read(store, "messages", span)]
        self.assertEqual([b"stays"], found)
        self.done(writer.close())

    def test_a_damaged_place(self) -> None:
        """The error names file and offset."""
        store = self.beside(PutQueue(ORDERS), AppendLog(ORDERS.identifier, 1, b"a packet to spoil", 1.0))
        span = self.spans(store)["log"]
        self.spoil(b"a packet to spoil")
        error = self.assertRaises(StorageError, self.read, store, "log", span)
        self.assertIn("17 bytes are damaged", str(error))

    def test_both_stores(self) -> None:
        """A data directory with both stores is not guessed at."""
        self.done(self.opened().close())
        (self.home / "log").rename(self.home / "msmq.log")
        self.assertEqual(open_reader(str(self.home)).queues(), [])
        (self.home / "msmq.sqlite").write_bytes(b"")
        self.assertRaises(StorageError, open_reader, str(self.home))


class PostgresqlTests(BesideContract, SynchronousTestCase):
    """The store in PostgreSQL."""

    def beside(self, *changes: Any) -> StoreReader:
        server = shared_server()
        server.drop("beside")
        self.addCleanup(server.drop, "beside")
        store = open_reader(write_postgresql(server, "beside", changes))
        self.addCleanup(store.close)
        return store

    def spoil(self, content: bytes) -> None:
        spoiled = content[:50] + bytes([content[50] ^ 1]) + content[51:]
        with shared_server().connect() as connection:
            for table, column in (("message", "packet"), ("log", "packet"), ("event", "reason")):
                update = f"UPDATE beside.{table} SET {column} = %s WHERE {column} = %s"
                connection.execute(update.encode(), (spoiled, content))

    def test_ended_connection(self) -> None:
        """A reader whose connection the server has ended is not kept, and connects anew once it is closed."""
        store = self.beside(PutQueue(ORDERS))
        self.assertEqual(store.queues(), [ORDERS])
        with shared_server().connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
                " WHERE application_name = 'msmq reader'"
            )
        self.assertFalse(store.is_reusable())
        store.close()
        self.assertEqual(store.queues(), [ORDERS])


class WithoutBodyTests(SynchronousTestCase):
    """A packet of which only the beginning was read."""

    @given(user_packets(), st.integers(0, 400))
    @settings(max_examples=examples(50))
    def test_headers_are_the_same(self, packet: bytes, head: int) -> None:
        """If there is an answer, its headers are those of the whole packet."""
        found = without_body(packet[:head], max(head, len(packet)))
        if found is not None and head <= len(packet):
            self.assertEqual(
                message_row(StoredPacket(found, "q", 1), HEADERS),
                message_row(StoredPacket(packet, "q", 1), HEADERS),
            )
