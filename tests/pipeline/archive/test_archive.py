"""An archive has every row of its store once."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from uuid import UUID

import attrs
import pyarrow.ipc
import pyarrow.parquet

from msmq.persistence.changes import AppendLog, PutQueue, RemoveQueue
from msmq.pipeline.archive.archiver import ArchiveProgress, Archiver
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.archive.selection import ArchiveSelection
from msmq.pipeline.archive.upkeep import rows, summaries
from msmq.pipeline.files.exporter import store_at
from msmq.pipeline.files.format import read_file
from msmq.pipeline.rows import message_batch
from msmq.pipeline.schema import EXPORTED_COLUMNS, names_of
from msmq.pipeline.stored_packets import StoredPacket
from tests.pipeline import stores
from tests.pipeline.archive.archive_case import DAY, NOW, ArchiveTestCase
from tests.pipeline.stores import BILLS_JOURNAL, DEAD, ORDERS


class ContentTests(ArchiveTestCase):
    """What is archived, and how."""

    def test_each_row_is_archived_once_however_often_it_is_updated(self) -> None:
        """With new rows in between, by the same process and by others."""
        self.assertEqual(ArchiveProgress(29, 0), self.update())
        self.assertEqual(ArchiveProgress(0, 0), self.update())
        self.write(stores.log(40), stores.put(50, DEAD), stores.event(6))
        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now, seconds=lambda: 0.0)
            self.assertEqual(3, archiver.run().rows)
            self.write(stores.log(41), stores.put(51, BILLS_JOURNAL))
            self.assertEqual(2, archiver.run().rows)
        self.assertEqual(0, self.update().rows)
        more = [
            *(("log", ".\\private$\\orders", number) for number in (21, 22)),
            ("dead_letter", ".\\system$;deadletter", 50),
            ("journal", ".\\private$\\Bills;journal", 51),
            ("events", "events", 6),
        ]
        self.assert_complete(*more)
        self.compact()
        self.assert_complete(*more)

    def test_other_users_cannot_read_it(self) -> None:
        """A directory that is created has mode 0700, as the store has; an existing one stays as it is."""
        mask = os.umask(0o022)
        self.addCleanup(os.umask, mask)
        self.update()
        self.assertEqual(0o700, self.directory.stat().st_mode & 0o777)
        self.directory.chmod(0o750)
        self.write(stores.log(40))
        self.update()
        self.assertEqual(0o750, self.directory.stat().st_mode & 0o777)

    def test_a_large_journal_is_not_scanned_all_the_time(self) -> None:
        """A scan is followed by a rest that is twenty times as long; logs are archived meanwhile."""
        seconds = 0.0

        def clock() -> float:
            nonlocal seconds
            seconds += 1
            return seconds

        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now, seconds=clock)
            archiver.run()
            self.write(stores.log(41), stores.put(51, BILLS_JOURNAL))
            self.assertEqual(1, archiver.run().rows)
            seconds += 40
            self.assertEqual(1, archiver.run().rows)

    def test_rows_are_those_that_the_data_source_reads(self) -> None:
        """Fresh and compacted, in every column; a damaged packet is a row too."""
        self.write(
            stores.put(60, DEAD, content=stores.DAMAGED),
            stores.put(61, DEAD, content=stores.packet(61, b"\0\xff")),
        )
        with store_at(str(self.data)) as store:
            page = store.messages(DEAD.identifier, 0, 1 << 63, since=None, until=None, bodies=True)
        expected = message_batch(
            [
                StoredPacket(
                    packet, ".\\system$;deadletter", number % (1 << 56), arrived, number, aborts, moves
                )
                for number, arrived, aborts, moves, _, packet in page.rows
            ],
            names_of(EXPORTED_COLUMNS),
        ).to_pylist()
        self.update()
        for is_compact in (False, True):
            if is_compact:
                self.compact()
            [batch] = rows(self.archive, "dead_letter")
            self.assertEqual(expected, batch.to_pylist())

    def test_parquet_says_what_its_columns_are(self) -> None:
        """Comments, which columns are never null, and dictionaries for names."""
        self.update()
        self.compact()
        [path] = (self.directory / "messages" / "stream=dead_letter").rglob("*.parquet")
        schema = pyarrow.parquet.read_schema(path)
        self.assertEqual(b"1", schema.metadata[b"msmq.record_format"])
        topic = schema.field("topic")
        self.assertTrue(pyarrow.types.is_dictionary(topic.type))
        self.assertFalse(topic.nullable)
        self.assertTrue(schema.field("label").nullable, "a damaged packet has no label")
        self.assertIn(b"the path of the queue", topic.metadata[b"comment"])

    def test_what_is_archived_can_be_selected(self) -> None:
        """By stream, and by the queue of a log or a journal."""
        self.write(PutQueue(attrs.evolve(ORDERS, identifier=UUID(int=0x78), path="private$\\other")))
        self.write(AppendLog(UUID(int=0x78), 1, stores.packet(1), NOW))
        for queues, streams in (
            (("*",), {"log": 21, "journal": 1}),
            (("ord*",), {"log": 20}),
            (("private$\\BILLS",), {"journal": 1}),
            ((".\\private$\\o*", "bills"), {"log": 21, "journal": 1}),
            (("order", "s"), {}),
        ):
            self.archive = Archive(self.directory.with_name(f"selected-{'-'.join(queues).encode().hex()}"))
            with store_at(str(self.data)) as store:
                selection = ArchiveSelection(("log", "journal"), queues)
                progress = Archiver(store, self.archive, clock=lambda: NOW, selection=selection).run()
            found = Counter[str]()
            for (stream, _, _), times in self.archived().items():
                found[stream] += times
            self.assertEqual((streams, 0), (dict(found), progress.behind), queues)

    def test_what_is_selected_no_more(self) -> None:
        """The archive is not behind by it; the rest of a log that was disabled is archived."""
        self.update()
        self.write(stores.log(40), stores.event(6))
        with store_at(str(self.data)) as store:
            selection = ArchiveSelection(("log",), ("bills",))
            progress = Archiver(store, self.archive, clock=lambda: NOW, selection=selection).run()
            self.assertEqual((0, 0), (progress.rows, progress.behind))
        self.write(PutQueue(attrs.evolve(ORDERS, log=False)))
        progress = self.update()
        self.assertEqual((2, 0), (progress.rows, progress.behind))

    def test_small_files_are_merged(self) -> None:
        """So that an update every few seconds does not fill the directory; readers keep their files."""
        more = []
        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now)
            for number in range(40, 60):
                self.write(stores.log(number))
                archiver.run()
                more.append(("log", ".\\private$\\orders", number - 19))
        self.assert_complete(*more)
        [log] = [each for each in summaries(self.archive) if each.stream == "log"]
        self.assertLess(log.files, 8)
        retired = [path for each in self.archive.streams() for path, _ in each.retired]
        self.assertTrue(retired)
        self.now += 3600
        self.update()
        self.assertFalse(any((self.directory / path).exists() for path in retired))
        self.assert_complete(*more)

    def test_past_dates_become_parquet(self) -> None:
        """Without being asked for; of today only what is large."""
        self.update()
        self.assertEqual([], list(self.directory.rglob("*.parquet")))
        self.now += DAY
        self.update()
        self.assertEqual(6, len(list(self.directory.rglob("*.parquet"))))
        self.assert_complete()

    def test_old_dates_of_deleted_queues(self) -> None:
        """The manifest of a queue that was deleted does not name each message that has expired."""
        self.update()
        skipped = []
        for change, seconds in ((PutQueue(ORDERS), 30 * DAY), (RemoveQueue(BILLS_JOURNAL.identifier), 1.0)):
            self.write(change)
            self.now += seconds
            self.update(keep_days=10)
            skipped.append([each.skipped for each in self.archive.streams() if each.stream == "journal"])
        self.assertEqual([1, 0], [len(found) for [found] in skipped])

    def test_old_dates_are_removed(self) -> None:
        """And are not archived again, although the queues still have them."""
        self.update()
        self.now += 10 * DAY
        self.write(AppendLog(ORDERS.identifier, 70, stores.packet(70), self.now))
        self.update(keep_days=3)
        self.update(keep_days=3)
        self.assertEqual({("log", ".\\private$\\orders", 21): 1}, self.archived())
        self.assertEqual(29, sum(each.expired for each in summaries(self.archive)))

    def test_columns_that_are_not_wanted_take_no_memory(self) -> None:
        """The bodies of a file of new rows are not decompressed for a condition on labels."""
        size = 8 << 20
        table = pyarrow.table({"body": [bytes(size)], "label": ["first"], "priority": [3]})
        path = Path(self.mktemp()).with_suffix(".arrow")
        options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
        with pyarrow.ipc.new_file(path, table.schema, options=options) as file:
            file.write_table(table)
        del table
        before = pyarrow.total_allocated_bytes()
        for batch in read_file(path, ("priority", "label")):
            self.assertEqual([{"priority": 3, "label": "first"}], batch.to_pylist())
            self.assertLess(pyarrow.total_allocated_bytes() - before, size // 2)
