"""An archive and the rest of its store are one relation: each row once, whatever goes on meanwhile."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import attrs

from msmq.persistence.changes import PutQueue, PutState, RemoveMessages, RemoveQueue, TrimLog
from msmq.persistence.definition import QueueDefinition
from msmq.pipeline.archive.archiver import Archiver
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.manifest import Archive, StreamManifest
from msmq.pipeline.archive.parts import ArchiveSlice, read_plan, write_plan
from msmq.pipeline.archive.plan import plan_archive
from msmq.pipeline.archive.scan import ArchiveScan
from msmq.pipeline.archive.upkeep import erase
from msmq.pipeline.archive.where import parse_condition
from msmq.pipeline.files.exporter import store_at
from msmq.pipeline.reading.body_schema import decoded_type
from msmq.pipeline.reading.errors import DataLost, ReadingError
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.reading.row_selection import RowSelection, wanted_columns
from msmq.pipeline.reading.slices import RowSpan
from msmq.pipeline.rows import PLAIN
from msmq.pipeline.schema import EVENT_COLUMNS, MESSAGE_COLUMNS, names_of
from msmq.storage.readers.log import LogStoreReader
from tests.builders import BETA
from tests.pipeline import stores
from tests.pipeline.archive.archive_case import DAY, ArchiveTestCase
from tests.pipeline.stores import ARRIVED, BILLS_JOURNAL, DEAD, ORDERS

NAMES = ("topic", "offset", "label")
PATH = ".\\private$\\orders"


def unplaced(spans: Sequence[RowSpan]) -> tuple[RowSpan, ...]:
    """Spans whose packets are read by their numbers."""
    return tuple(attrs.evolve(span, places=b"") for span in spans)


def without_places(parts: Sequence[ArchiveSlice]) -> list[ArchiveSlice]:
    """A plan without places, since the bytes of trimmed entries are there until their space is reused."""
    return [
        part
        if part.tail is None
        else attrs.evolve(part, tail=attrs.evolve(part.tail, spans=unplaced(part.tail.spans)))
        for part in parts
    ]


class ReadingTestCase(ArchiveTestCase):
    """An archive with Parquet and Arrow, and a store that has more."""

    def plan(
        self, stream: str = "log", names: Sequence[str] = NAMES, **given: str
    ) -> tuple[ArchiveScan, list[ArchiveSlice]]:
        """A read, planned."""
        options = read_options({"path": str(self.directory), "stream": stream, **given})
        wanted = attrs.evolve(wanted_columns(tuple(names), options), since=options.since)
        scan = ArchiveScan(options, wanted, stream, PLAIN, False)
        return scan, plan_archive(options, wanted, stream)

    def read(self, stream: str = "log", names: Sequence[str] = NAMES, **given: str) -> list[dict[str, Any]]:
        """The rows of a read."""
        return self.finish(*self.plan(stream, names, **given))

    def finish(self, scan: ArchiveScan, parts: Sequence[ArchiveSlice]) -> list[dict[str, Any]]:
        return [row for part in parts for batch in scan.batches(part) for row in batch.to_pylist()]

    def offsets(self, found: Sequence[dict[str, Any]]) -> list[int]:
        return sorted(row["offset"] for row in found)

    def grow(self) -> None:
        """Parquet with 20 entries, Arrow with 5, and 3 that only the store has."""
        self.update()
        self.compact()
        self.write(*(stores.log(number) for number in range(40, 45)), stores.put(50, DEAD), stores.event(6))
        self.update()
        self.write(*(stores.log(number) for number in range(45, 48)), stores.put(51, DEAD), stores.event(7))


class RelationTests(ReadingTestCase):
    """What is read, while nothing else happens."""

    def test_inferred_schema(self) -> None:
        """Bodies of an archive and of the rest of its store show a schema, also before a file is finished."""
        bodies = {60: b'{"id": 1, "town": "Oslo"}', 61: b'{"id": 2}', 62: b'{"total": 1.5}'}
        entries = [
            attrs.evolve(stores.log(number), packet=stores.packet(number, body))
            for number, body in bodies.items()
        ]
        given = {"path": str(self.directory), "decode": "json", "decodeSchema": "infer"}
        self.write(*entries[:2])
        self.update()
        self.write(entries[2])
        for _ in range(2):
            expected = "STRUCT<`id`: BIGINT, `town`: STRING, `total`: DOUBLE>"
            self.assertEqual(expected, decoded_type(read_options(given)))
            self.compact()
        self.assertIn(
            "no body in",
            str(self.assertRaises(ReadingError, decoded_type, read_options({**given, "stream": "journal"}))),
        )

    def test_each_stream_is_read_whole(self) -> None:
        """With all columns as the data source has them."""
        self.grow()
        self.assertEqual([*range(1, 29)], self.offsets(self.read()))
        self.assertEqual([35, 50, 51], self.offsets(self.read("dead_letter")))
        self.assertEqual([*range(1, 8)], self.offsets(self.read("events", ("offset", "event"))))
        for stream, columns in (("dead_letter", MESSAGE_COLUMNS), ("events", EVENT_COLUMNS)):
            rows = self.read(stream, names_of(columns))
            self.update()
            self.compact()
            self.assertEqual(rows, self.read(stream, names_of(columns)))

    def test_the_archive_alone(self) -> None:
        """Without its store, or where that is not."""
        self.grow()
        self.assertEqual([*range(1, 26)], self.offsets(self.read(store="none")))
        self.data.rename(self.data.with_name("moved"))
        error = self.assertRaises(ReadingError, self.read)
        self.assertIn("is not here: set the option store to where it is, or to none", str(error))
        self.assertEqual([*range(1, 29)], self.offsets(self.read(store=str(self.data.with_name("moved")))))

    def test_a_log_that_was_disabled(self) -> None:
        """It keeps its entries, which are read and archived; those that are trimmed before are reported."""
        self.update()
        disabled = attrs.evolve(ORDERS, log=False)
        self.write(stores.log(40), PutQueue(disabled))
        self.assertEqual([*range(1, 22)], self.offsets(self.read()))
        self.assertEqual(1, self.update().rows)
        self.assertEqual([*range(1, 22)], self.offsets(self.read(store="none")))
        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now)
            archiver.run()
            for again in (UUID(int=0x77), UUID(int=0x78)):
                later = attrs.evolve(ORDERS, identifier=again, path=f"private$\\{again.int}")
                self.write(PutQueue(later))
                archiver.run()
                self.write(stores.log(41, later), PutQueue(attrs.evolve(later, log=False)))
                self.assertEqual(1, archiver.run().rows)
        self.write(PutQueue(ORDERS), stores.log(42), stores.log(43), PutQueue(disabled))
        self.write(TrimLog(ORDERS.identifier, before=ARRIVED + 42.5, keep_bytes=None))
        self.assertEqual(
            (f"{PATH}: the entries 22 to 24 were trimmed before they were archived",), self.update().gaps
        )
        self.assertEqual([*range(1, 26)], sorted([*self.offsets(self.read()), 24]))

    def test_offsets_times_and_names(self) -> None:
        """Select the same rows in files and in the store."""
        self.grow()
        ranges = {"startingOffsets": '{"orders": {"0": 19}}', "endingOffsets": '{"orders": {"0": 27}}'}
        self.assertEqual([*range(19, 27)], self.offsets(self.read(**ranges)))
        since = str(round((ARRIVED + 43) * 1000))
        self.assertEqual([*range(24, 29)], self.offsets(self.read(startingTimestamp=since)))
        self.assertEqual(28, len(self.read(subscribe="orders")))
        self.assertEqual([], self.read(subscribePattern="nothing"))
        error = self.assertRaises(ReadingError, self.read, subscribe="nowhere")
        self.assertIn("has no queue nowhere", str(error))

    def test_files_are_skipped(self) -> None:
        """By date and queue without opening them, row groups by offset, time and class."""
        self.grow()
        options = read_options({"path": str(self.directory), "store": "none"})

        def parts(**selected: Any) -> int:
            found = plan_archive(options, RowSelection(NAMES, **selected), "log")
            return sum(len(part.files) for part in found)

        self.assertEqual(2, parts())
        self.assertEqual(1, parts(begin=21))
        self.assertEqual(0, parts(since=ARRIVED + 3 * DAY))
        self.assertEqual(0, parts(since=DAY * 365 * 9000))
        self.assertEqual(2, parts(since=-DAY * 366 * 2000), "no calendar has this time")
        self.assertEqual(1, parts(since=ARRIVED + 30))
        self.assertEqual(1, parts(classes=frozenset({0x8002})), "a fresh file has no statistics")
        self.assertEqual(0, parts(topics=frozenset({"other"})))

    def test_a_plan_survives_its_text(self) -> None:
        """As an option carries it."""
        self.grow()
        for stream in ("log", "dead_letter", "events"):
            _, parts = self.plan(stream, ("offset",))
            self.assertEqual(parts, read_plan(write_plan(parts)))
        self.assertRaises(ReadingError, read_plan, "[{}]")


class MeanwhileTests(ReadingTestCase):
    """What happens between the plan of a read and its end."""

    def test_compaction(self) -> None:
        """The files of the plan stay for a while, and their successors are not read too."""
        self.grow()
        planned = self.plan()
        self.update()
        self.compact()
        self.update()
        self.assertEqual([*range(1, 29)], self.offsets(self.finish(*planned)))
        self.now += DAY
        self.update()
        error = self.assertRaises(ArchiveError, self.finish, *planned)
        self.assertIn("was removed from the archive after this read began", str(error))

    def test_erasure(self) -> None:
        """Only the erased rows are gone, from Parquet, from Arrow, and from files that were merged since."""
        self.grow()
        self.update()
        planned = self.plan()
        self.compact()
        for number in (3, 42, 46):
            self.assertTrue(erase(self.archive, parse_condition(f"label = 'message {number}'"), self.now))
        expected = [number for number in range(1, 29) if number not in (3, 23, 27)]
        self.assertEqual(expected, self.offsets(self.finish(*planned)))
        self.assertEqual(expected, self.offsets(self.read()))
        erase(self.archive, parse_condition("topic = '.\\private$\\orders'"), self.now)
        self.assertEqual([], self.finish(*planned))

    def test_an_erasure_while_a_read_is_planned(self) -> None:
        """It deletes a file between the manifests and the files; the plan is made anew."""
        self.grow()
        self.update()
        queues, erasures = LogStoreReader.queues, iter(["label = 'message 50'"])

        def erasing(store: LogStoreReader) -> list[QueueDefinition]:
            for condition in erasures:
                erase(self.archive, parse_condition(condition), self.now)
            return queues(store)

        self.patch(LogStoreReader, "queues", erasing)
        self.assertEqual([35, 51], self.offsets(self.read("dead_letter")))

    def test_a_message_that_leaves_while_a_read_is_planned(self) -> None:
        """It is archived and leaves its queue between the manifests and the queue, and is read."""
        self.grow()
        streams, moments = Archive.streams, iter([None])

        def leaving(archive: Archive) -> list[StreamManifest]:
            found = streams(archive)
            for _ in moments:
                self.update()
                self.write(RemoveMessages(DEAD.identifier, (stores.lookup_id(51),)))
            return found

        self.patch(Archive, "streams", leaving)
        self.assertEqual([35, 50, 51], self.offsets(self.read("dead_letter")))

    def test_a_queue_that_is_deleted_while_a_read_is_planned(self) -> None:
        """Its log is archived and leaves the store between the manifests and the queues, and is read."""
        self.grow()
        # Before the plan, they are read to skip the archived entries of the store.
        streams, moments = Archive.streams, iter([False, True])

        def leaving(archive: Archive) -> list[StreamManifest]:
            found = streams(archive)
            if next(moments, False):
                self.update()
                self.write(RemoveQueue(ORDERS.identifier))
            return found

        self.patch(Archive, "streams", leaving)
        self.assertEqual([*range(1, 29)], self.offsets(self.read()))

    def test_an_erasure_keeps_row_groups(self) -> None:
        """So parts of one file that are read before and after it fit together."""
        from msmq.pipeline.files import format as archive_format

        self.patch(archive_format, "GROUP_ROWS", 4)
        for first in (40, 45, 50):
            self.update()
            self.write(*(stores.log(number) for number in range(first, first + 4)))
        self.update()
        self.compact()
        scan, parts = self.plan()
        groups = [
            attrs.evolve(part, files=(file,))
            for part in parts
            for file in part.files
            if file.path.count("log")
        ]
        self.assertEqual(4, len(groups))
        before = self.finish(scan, groups[:1])
        for number in (1, 2, 45, 46, 47, 48, 50):
            erase(self.archive, parse_condition(f"label = 'message {number}'"), self.now)
        after = self.finish(scan, groups[1:])
        self.assertEqual([*range(1, 25), 30, 31, 32], self.offsets(before + after))

    def test_what_is_trimmed_meanwhile_is_read_from_the_archive(self) -> None:
        """Or it is an error that names the entries."""
        self.grow()
        scan, parts = self.plan()
        planned = scan, without_places(parts)
        trim = TrimLog(ORDERS.identifier, before=ARRIVED + 46.5, keep_bytes=None)
        archived = self.data.with_name("copy")
        shutil.copytree(self.directory, archived)
        self.update()
        self.write(trim)
        self.assertEqual([*range(1, 29)], self.offsets(self.finish(*planned)))
        shutil.rmtree(self.directory)
        shutil.copytree(archived, self.directory)
        self.assertEqual([*range(1, 29)], self.offsets(self.finish(scan, parts)))
        error = self.assertRaises(DataLost, self.finish, *planned)
        self.assertIn(
            "2 entries of .\\private$\\orders between the offsets 26 and 29 were trimmed", str(error)
        )
        error = self.assertRaises(DataLost, self.read)
        self.assertIn("the entries 26 to 27 were trimmed before they were archived", str(error))
        found = self.offsets(self.read(failOnDataLoss="false"))
        self.assertEqual([*range(1, 26), 28], found)

    def test_what_is_archived_and_erased_meanwhile(self) -> None:
        """The read goes on with the rows that are left; what was trimmed and not archived is an error."""
        self.grow()
        scan, parts = self.plan()
        planned = scan, without_places(parts)
        self.update()
        erase(self.archive, parse_condition("label = 'message 46'"), self.now)
        self.write(TrimLog(ORDERS.identifier, before=ARRIVED + 47.5, keep_bytes=None))
        self.assertEqual([*range(1, 27), 28], self.offsets(self.finish(*planned)))
        [manifest] = [each for each in self.archive.streams() if each.stream == "log"]
        manifest.missing.trim(27, 27)
        self.archive.store(manifest)
        self.assertRaises(DataLost, self.finish, *planned)

    def test_a_message_that_leaves_its_queue_is_read_if_it_was_archived(self) -> None:
        """And a message that arrives after the plan is not read."""
        self.grow()
        planned = self.plan("dead_letter")
        self.update()
        self.write(RemoveMessages(DEAD.identifier, (stores.lookup_id(51),)), stores.put(52, DEAD))
        self.assertEqual([35, 50, 51], self.offsets(self.finish(*planned)))

    def test_a_queue_made_again_and_late_transactions(self) -> None:
        """Both queues of one name are read, and a number that is smaller than those in the archive."""
        self.grow()
        self.update()
        again = attrs.evolve(ORDERS, identifier=UUID(int=0x77))
        self.write(RemoveQueue(ORDERS.identifier))
        self.write(PutQueue(again), stores.log(1, again), stores.put(20, BILLS_JOURNAL))
        self.assertEqual([*range(1, 30)], self.offsets(self.read(subscribe="orders")))
        self.assertEqual([20, 32], self.offsets(self.read("journal")))

    def test_a_queue_made_again_in_other_case(self) -> None:
        """Names have no case: one name selects the entries of both."""
        self.grow()
        self.update()
        again = attrs.evolve(ORDERS, identifier=UUID(int=0x77), path="private$\\ORDERS")
        self.write(RemoveQueue(ORDERS.identifier), PutQueue(again), stores.log(55, again))
        for name in ("orders", "ORDERS", PATH):
            self.assertEqual([*range(1, 30)], self.offsets(self.read(subscribe=name)))
            self.update()
        limits = {"startingOffsets": '{"orders": {"0": 27}}', "endingOffsets": '{"ORDERS": {"0": 29}}'}
        self.assertEqual([27, 28], self.offsets(self.read(subscribe="orders", **limits)))

    def test_a_store_that_is_not_that_of_the_archive(self) -> None:
        """One line names both; and so is a stream that no archive has, or a damaged file."""
        self.grow()
        self.write(PutState("queue_manager", BETA.bytes))
        self.assertIn("set the option store", str(self.assertRaises(ReadingError, self.read)))
        error = self.assertRaises(ReadingError, self.read, "queue")
        self.assertIn("an archive has the streams log, journal", str(error))
        [path] = (self.directory / "messages" / "stream=log").rglob("*.parquet")
        path.write_bytes(path.read_bytes()[:-20])
        error = self.assertRaises(ArchiveError, self.read, store="none")
        self.assertIn(f"{path}: cannot be read: ", str(error))
        self.assertEqual(1, str(error).count("\n") + 1)

    def test_a_restored_store(self) -> None:
        """Its new entries have numbers of archived ones, and a read that would leave them out is refused.

        A copy that is behind the archive is read.
        """
        for write, first in ((stores.log, 21), (stores.event, 6)):
            stream = "log" if write is stores.log else "events"
            self.data, self.directory = (
                self.data.with_name(f"{stream}-{name}") for name in ("data", "archive")
            )
            self.archive = Archive(self.directory)
            self.write(*stores.estate())
            backup = self.data.with_name("backup")
            shutil.copytree(self.data, backup)
            self.write(write(40), write(41))
            self.update()
            shutil.rmtree(self.data)
            backup.rename(self.data)
            archived = [*range(1, first + 2)]
            self.assertEqual(archived, self.offsets(self.read(stream, ("offset",))))
            for number, more in ((42, []), (43, []), (44, [first + 2])):
                self.write(write(number))
                error = self.assertRaises(DataLost, self.read, stream, ("offset",))
                self.assertIn(
                    f"it was restored from a backup: its entries before {first + 2} are", str(error)
                )
                found = self.read(stream, ("offset",), failOnDataLoss="false")
                self.assertEqual(archived + more, self.offsets(found))
                self.assertEqual(archived, self.offsets(self.read(stream, ("offset",), store="none")))

    def test_every_moment_of_an_archiver(self) -> None:
        """A read that is planned after each of its steps has each row once."""
        self.write(*(stores.log(number) for number in range(40, 60)))
        from msmq.pipeline.archive.archiver import Archiver
        from msmq.pipeline.files.exporter import store_at

        counts = Counter[int]()

        def check(rows: int) -> None:
            self.assertEqual([*range(1, 41)], self.offsets(self.read()))
            counts[rows] += 1

        with store_at(str(self.data)) as store:
            Archiver(store, self.archive, clock=lambda: self.now, pages=1, on_step=check).run()
        self.assertGreater(sum(counts.values()), 5)
