"""What every reader promises while a server changes its store: short transactions, the wanted part alone."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    PutMessage,
    PutQueue,
    PutState,
    TrimLog,
)
from msmq.pipeline.reading.row_selection import RowSelection
from msmq.pipeline.reading.slices import RowSpan
from msmq.pipeline.reading.stores import event_pages, message_pages
from msmq.pipeline.rows import message_row
from msmq.pipeline.stored_packets import StoredPacket
from msmq.storage.readers import RowDamaged, StoreReader
from msmq.storage.readers.shape import HEAD, LARGE, PAGE_BYTES, PAGE_ROWS
from msmq.testing.contracts.store_contract import BILLS, ORDERS
from tests.builders import user_packet

ANY: dict[str, Any] = {"since": None, "until": None}
EVERYTHING = (0, 1 << 64)
HEADERS = ("id", "label", "priority", "body_size", "extension_base64", "transaction", "decode_error")


def spoil_file(path: Path, content: bytes) -> None:
    """Change a bit in the middle of this content in a file."""
    data = path.read_bytes()
    at = data.index(content) + len(content) // 2
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


if TYPE_CHECKING:
    _Base = SynchronousTestCase
else:
    _Base = object


class ReaderContract(_Base):
    """Contract of readers, for every store."""

    def reader_of(self, *changes: Any) -> StoreReader:
        """A store with these changes."""
        raise NotImplementedError

    def test_pages(self) -> None:
        """Pages have a limit of rows and of bytes, and together every row once, in order."""
        ids = [number * 3 for number in range(PAGE_ROWS + 10)]
        store = self.reader_of(PutQueue(ORDERS), *(PutMessage(ORDERS.identifier, n, b"m", 1.0) for n in ids))
        first = store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True)
        self.assertEqual((len(first.rows), first.next), (PAGE_ROWS, ids[PAGE_ROWS]))
        second = store.messages(ORDERS.identifier, first.next or 0, 1 << 64, **ANY, bodies=True)
        self.assertEqual([row[0] for row in (*first.rows, *second.rows)], ids)
        self.assertIsNone(second.next)

    def test_rows(self) -> None:
        """Rows without packets have their sizes and are in pages; a held reader gives the same."""
        ids = range(PAGE_ROWS + 2)
        store = self.reader_of(
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
        store = self.reader_of(PutQueue(ORDERS))
        for _ in range(2):
            store.close()
            self.assertFalse(store.is_reusable())
            self.assertEqual(store.queues(), [ORDERS])
            self.assertTrue(store.is_reusable())

    def test_large_pages(self) -> None:
        """A page has few packets where they are large, and one at least."""
        large = bytes(PAGE_BYTES // 2 + 1)
        store = self.reader_of(
            PutQueue(ORDERS), *(PutMessage(ORDERS.identifier, n, large, 1.0) for n in range(3))
        )
        page = store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True)
        self.assertEqual((len(page.rows), page.next), (1, 1))

    def test_unwanted_bodies(self) -> None:
        """Only the beginning of a large message is read, with the correct headers."""
        packets = [user_packet(bytes(400_000), label=f"large {n}", message_id=n) for n in range(10)]
        changes = [PutMessage(ORDERS.identifier, n, packet, 1.0) for n, packet in enumerate(packets)]
        logs = [AppendLog(ORDERS.identifier, n, packet, 1.0) for n, packet in enumerate(packets)]
        store = self.reader_of(PutQueue(ORDERS), *changes, *logs)
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
        store = self.reader_of(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 1, packet, 1.0))
        [row] = store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=False).rows
        self.assertEqual(row[-1], packet)

    def test_skipped_entries(self) -> None:
        """A reader that skips the beginning of a message log has the rest of it, and the same bounds."""
        entries = [AppendLog(ORDERS.identifier, n, b"entry %d" % n, float(n)) for n in range(1, 31)]
        other = AppendLog(BILLS.identifier, 1, b"other", 1.0)
        store = self.reader_of(PutQueue(ORDERS), PutQueue(BILLS), *entries, other)
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
        """Change a bit in the middle of this content, which the store of L{reader_of} has."""
        raise NotImplementedError

    def test_damage(self) -> None:
        """A packet, an entry or an event with a wrong bit is named, and never another body returned."""
        place, limits = ORDERS.identifier, {**ANY, "bodies": True}
        for number, content, change, read in (
            (
                2,
                b"rotten" * 30,
                PutMessage(place, 2, b"rotten" * 30, 1.0),
                lambda store: store.messages(place, *EVERYTHING, **limits),
            ),
            (
                1,
                b"logged" * 30,
                AppendLog(place, 2, b"logged" * 30, 1.0),
                lambda store: store.log(place, *EVERYTHING, **limits),
            ),
            (
                1,
                b"reason" * 30,
                AppendEvent(1.0, b"", "e", "reason" * 30),
                lambda store: store.events(*EVERYTHING),
            ),
        ):
            store = self.reader_of(PutQueue(ORDERS), PutMessage(place, 1, b"sound", 1.0), change)
            read(store)
            self.spoil(content)
            store.close()
            error = self.assertRaises(RowDamaged, read, store)
            self.assertRegex(str(error), "checksum|are damaged")
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((number, number, str(error)), (error.number, again.number, str(again)))
            self.assertNotIn("\n", str(error))

    def test_damage_that_is_skipped(self) -> None:
        """All other rows can be read."""
        place = ORDERS.identifier
        changes = [
            *(PutMessage(place, n, b"message %d " % n * 9, 1.0) for n in range(1, 5)),
            *(AppendLog(place, n, b"logged %d " % n * 9, 1.0) for n in range(1, 5)),
            *(AppendEvent(1.0, b"", "e", f"reason {n} " * 9) for n in range(1, 5)),
        ]
        store = self.reader_of(PutQueue(ORDERS), *changes)
        for kind, left in (("message", [1, 4]), ("logged", [1, 4]), ("reason", [1, 4])):
            for number in (2, 3):
                self.spoil(b"%s %d " % (kind.encode(), number) * 9)
            store.close()
            span = RowSpan(place, "orders", 1, 5)
            if kind == "reason":
                events = event_pages(store, span, skips_damage=True)
                found = [row.sequence for page in events for row in page]
            else:
                named = "log" if kind == "logged" else "messages"
                pages = message_pages(store, named, span, RowSelection(()), skips_damage=True)
                found = [row.offset for page in pages for row in page]
            self.assertEqual(left, found, kind)

    def test_times(self) -> None:
        """Entries outside the time range are left out, in every stream."""
        changes = [PutMessage(ORDERS.identifier, n, b"m", float(n)) for n in range(1, 9)]
        logs = [AppendLog(ORDERS.identifier, n, b"m", float(n)) for n in range(1, 9)]
        events = [AppendEvent(float(n), b"", "e") for n in range(1, 9)]
        store = self.reader_of(PutQueue(ORDERS), *changes, *logs, *events)
        for read in (store.messages, store.log):
            page = read(ORDERS.identifier, *EVERYTHING, since=3.0, until=5.0, bodies=True)
            self.assertEqual([row[0] for row in page.rows], [3, 4])
        self.assertEqual((store.log_since(ORDERS.identifier, 4.5), store.event_since(4.5)), (5, 5))
        self.assertEqual((store.log_since(ORDERS.identifier, 9.5), store.event_since(9.5)), (None, None))

    def test_cuts(self) -> None:
        """A range is cut into pieces of equal size."""
        changes = [PutMessage(ORDERS.identifier, n * 10, b"m", 1.0) for n in range(7)]
        logs = [AppendLog(ORDERS.identifier, n, b"m", 1.0) for n in range(7)]
        store = self.reader_of(PutQueue(ORDERS), *changes, *logs)
        self.assertEqual(store.message_cuts(ORDERS.identifier, 0, 1 << 64, 3), ([30, 60], 1))
        self.assertEqual(store.log_cuts(ORDERS.identifier, 0, 1 << 62, 3), ([4, 7], 1))
        self.assertEqual(store.log_cuts(ORDERS.identifier, 2, 4, 3), ([], 2))
        self.assertEqual(store.log_cuts(UUID(int=99), 0, 1 << 62, 3), ([], 0))

    def test_log(self) -> None:
        """The bounds of logs: what was trimmed is below the first number, by no more than it has to be."""
        entries = [AppendLog(queue.identifier, 1, b"abc", 1.0) for queue in (ORDERS, BILLS, ORDERS, BILLS)]
        store = self.reader_of(
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
        store = self.reader_of(
            PutQueue(ORDERS), PutQueue(BILLS), *entries, TrimLog(ORDERS.identifier, keep_bytes=3)
        )
        self.assertEqual(store.log_bounds(ORDERS.identifier), (2, 5))
        page = store.log(ORDERS.identifier, 0, 99, **ANY, bodies=True)
        self.assertEqual([row[0] for row in page.rows], [4])
        store = self.reader_of(PutQueue(ORDERS), *entries[:1], TrimLog(ORDERS.identifier, before=2.0))
        self.assertEqual((store.log_bounds(ORDERS.identifier), store.log_end()), ((2, 2), 2))
