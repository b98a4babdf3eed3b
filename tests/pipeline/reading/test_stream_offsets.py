"""Offsets of a stream: where a query that reads what there is ends, and stores that were replaced."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from pyspark.sql.types import StructType
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import Change, PutQueue, PutState, RemoveQueue
from msmq.persistence.definition import QueueType
from msmq.pipeline.files.earlier_entries import earlier_entry
from msmq.pipeline.reading.errors import DataLost, ReadingError
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.reading.progress import LogProgress
from msmq.pipeline.reading.removal_notices import RemovalNotices
from msmq.pipeline.reading.streams import Topic
from msmq.pipeline.spark import streaming
from msmq.pipeline.spark.partitions import SlicePartition
from msmq.pipeline.spark.streaming import MsmqStreamReader
from msmq.storage.checking.log_repair import rebuild_log
from msmq.storage.checking.sqlite_repair import rebuild
from msmq.storage.readers import open_reader
from tests.builders import ALPHA
from tests.pipeline.stores import (
    ARRIVED,
    BILLS,
    ORDERS,
    event,
    log,
    packet,
    spoil_log,
    write_log,
    write_sqlite,
)

OWNER: Final = PutState("queue_manager", ALPHA.bytes)
LOGGED_BILLS: Final = attrs.evolve(BILLS, log=True)


def ranges(partitions: Sequence[InputPartition]) -> list[tuple[int, int]]:
    """The numbers that partitions read: the first of each span, and the one after its last."""
    return [
        (span.begin, span.end)
        for one in partitions
        if isinstance(one, SlicePartition)
        for span in one.part.spans
    ]


class OffsetCase(SynchronousTestCase):
    """A store whose log grows, and readers of it as Spark's driver has them."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir()
        self.store = self.directory / "data"
        self.write(OWNER, PutQueue(ORDERS))

    def write(self, *changes: Change) -> None:
        """Let the store change, as its server does it."""
        write_log(self.store, changes)

    def reader(self, **options: str) -> MsmqStreamReader:
        """That of a query."""
        given = {"path": str(self.store), "startingOffsets": "earliest", **options}
        reader = MsmqStreamReader(read_options(given), StructType().add("id", "string"))
        self.addCleanup(reader.stop)
        return reader

    def read_all(self, stream: str = "queue") -> dict[str, Any]:
        """The offset of a query that has read what there is."""
        reader = self.reader(stream=stream)
        return reader.latestOffset(reader.initialOffset(), ReadAllAvailable())

    def batches_of(
        self, reader: MsmqStreamReader, begin: dict[str, Any], limit: ReadLimit
    ) -> list[list[tuple[str, int]]]:
        """The queues and the numbers of rows of each batch until everything is read."""
        found = []
        while (end := reader.latestOffset(begin, limit)) != begin:
            spans = [
                span
                for one in reader.partitions(begin, end)
                if isinstance(one, SlicePartition)
                for span in one.part.spans
            ]
            found.append([(span.topic.rpartition("\\")[2], span.rows) for span in spans])
            begin = end
        return found


class AvailableNowTests(OffsetCase):
    """Queries that read what there is when they begin."""

    def test_more_arrives_meanwhile(self) -> None:
        """The query ends where the store ended, and does not go on while messages arrive."""
        self.write(log(1), log(2))
        reader = self.reader()
        reader.prepareForTriggerAvailableNow()
        self.write(log(3))
        first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        self.assertEqual([(1, 3)], ranges(reader.partitions(reader.initialOffset(), first)))
        self.write(log(4))
        # Another offset would be one more batch, and so on as long as messages arrive.
        self.assertEqual(first, reader.latestOffset(first, ReadAllAvailable()))

    def test_a_replaced_store_that_grows(self) -> None:
        """With C{failOnDataLoss} off, a store that was replaced by one with fewer entries is read, also if it
        grows before the first batch.
        """
        self.write(*(log(number) for number in range(1, 11)))
        former = self.read_all()
        self.store = self.directory / "other"
        self.write(OWNER, PutQueue(ORDERS), log(1), log(2))
        reader = self.reader(failOnDataLoss="false")
        reader.prepareForTriggerAvailableNow()
        self.write(log(3))
        found = reader.latestOffset(former, ReadAllAvailable())
        self.assertEqual([(1, 3)], ranges(reader.partitions(former, found)))
        self.write(log(4))
        self.assertEqual(found, reader.latestOffset(found, ReadAllAvailable()))


class ReplacedStoreTests(OffsetCase):
    """Stores that were restored from a backup, and stores that only look like it."""

    def test_the_newest_entry_is_of_another_queue(self) -> None:
        """It is noticed also if the number of the newest entry was given to a queue that the query did not
        read it from.
        """
        self.write(PutQueue(LOGGED_BILLS), log(1), log(2))
        backup = self.directory / "backup"
        shutil.copytree(self.store, backup)
        self.write(log(3))
        former = self.read_all()
        shutil.rmtree(self.store)
        shutil.copytree(backup, self.store)
        self.write(log(3, BILLS), log(4, BILLS))
        error = self.assertRaises(DataLost, self.reader().latestOffset, former, ReadAllAvailable())
        self.assertIn("was read up to offset 4, and its entry 3 is another one now, or none", str(error))

    def test_a_repaired_log(self) -> None:
        """An entry that a repair has removed is no sign of a backup."""
        self.write(log(1), log(2))
        offset = self.read_all()
        spoil_log(self.store, packet(2))
        rebuild_log(self.store / "msmq.log", self.directory / "mark", lambda: ARRIVED)
        self.write(log(3))
        self.assertEqual(4, self.reader().latestOffset(offset, ReadAllAvailable())["next"])

    def test_the_event_of_a_repair(self) -> None:
        """It is looked for once, among all, and what a store without it lacks is a sign of a backup."""
        self.write(*map(event, range(1, 4)), log(1), log(2))
        spoil_log(self.store, packet(2))
        rebuild_log(self.store / "msmq.log", self.directory / "mark", lambda: ARRIVED)
        notices, asked = RemovalNotices(), []
        store = open_reader(str(self.store))
        self.addCleanup(store.close)
        read = store.events

        def events(begin: int, end: int) -> Any:
            asked.append(end - begin)
            return read(begin, end)

        self.patch(store, "events", events)
        topic = Topic(ORDERS.identifier, ".\\private$\\orders")
        for _ in range(3):
            self.assertIsNone(earlier_entry(store, topic, 2, is_events=False, notices=notices))
        self.assertEqual([5, 1, 1], asked)
        other = self.directory / "other"
        write_log(other, [OWNER, PutQueue(ORDERS), *map(event, range(1, 6)), log(1)])
        without = open_reader(str(other))
        self.addCleanup(without.close)
        self.assertEqual([], earlier_entry(without, topic, 2, is_events=False, notices=notices))

    def test_a_repaired_event(self) -> None:
        """Nor is an event that a repair has replaced."""
        lost = attrs.evolve(event(2), reason="the only one like it")
        self.store = self.directory / "sqlite"
        write_sqlite(self.store, [OWNER, event(1), lost])
        offset = self.read_all("events")
        path = self.store / "msmq.sqlite"
        path.write_bytes(path.read_bytes().replace(b"the only one", b"not the same"))
        rebuild(path, self.directory / "mark", lambda: ARRIVED)
        later = self.reader(stream="events").latestOffset(offset, ReadAllAvailable())
        self.assertGreater(later["next"], offset["next"])


class LagTests(OffsetCase):
    """How far a query is behind."""

    def test_damaged_entries(self) -> None:
        """The oldest message that is not read counts, though one before it, or one of another queue, is
        damaged.
        """
        first = attrs.evolve(event(1), reason="the only one like it")
        self.write(PutQueue(LOGGED_BILLS), log(1), log(2), log(3, BILLS), first, event(2))
        before = {stream: self.reader(stream=stream).initialOffset() for stream in ("queue", "events")}
        spoil_log(self.store, packet(1))
        spoil_log(self.store, b"the only one like it")
        for stream, begin in before.items():
            with self.subTest(stream=stream):
                options = {"path": str(self.store), "startingOffsets": "earliest", "stream": stream}
                progress = LogProgress(read_options(options), stream)
                self.addCleanup(progress.close)
                self.assertEqual(ARRIVED + 2, progress.state(begin).oldest)


class OlderSparkTests(OffsetCase):
    """Versions of Spark that ask for the newest offset without the one before it."""

    def batch(self, start: dict[str, Any], **options: str) -> list[tuple[int, int]]:
        """What the next batch reads."""
        given = {"path": str(self.store), "startingOffsets": "earliest", **options}
        progress = LogProgress(read_options(given), "queue")
        self.addCleanup(progress.close)
        slices = progress.slices(start, progress.newest())
        return [(span.begin, span.end) for part in slices for span in part.spans]

    def test_losses(self) -> None:
        """A store that was replaced, and a queue that was deleted, are losses; they were passed over."""
        self.write(PutQueue(LOGGED_BILLS), log(1), log(2), log(3, BILLS))
        reader = LogProgress(read_options({"path": str(self.store)}), "queue")
        self.addCleanup(reader.close)
        former = reader.newest()
        backup = self.directory / "backup"
        shutil.copytree(self.store, backup)
        self.write(log(4))
        self.assertEqual([(4, 5)], self.batch(former))
        self.write(RemoveQueue(BILLS.identifier))
        self.assertIn("is no longer read", str(self.assertRaises(DataLost, self.batch, former)))
        self.assertEqual([(4, 5)], self.batch(former, failOnDataLoss="false"))
        later = reader.newest()
        shutil.rmtree(self.store)
        shutil.copytree(backup, self.store)
        error = self.assertRaises(DataLost, self.batch, later)
        self.assertIn("was read up to offset 5, and now ends before 4", str(error))
        self.write(log(5), log(6))
        error = self.assertRaises(DataLost, self.batch, later)
        self.assertIn("its entry 4 is another one now, or none", str(error))
        self.assertEqual([(1, 6), (1, 6)], self.batch(later, failOnDataLoss="false"))

    def test_start_after_the_end_of_the_first_batch(self) -> None:
        """They ask for the end of the first batch before its start: nothing older is read for that, and what
        arrived in between is read once.
        """
        self.patch(streaming, "HAS_LIMITS", False)
        self.write(log(1), log(2))
        reader = self.reader(startingOffsets="latest")
        end = reader.latestOffset()
        self.write(log(3))
        self.assertEqual([], ranges(reader.partitions(reader.initialOffset(), end)))
        later = reader.latestOffset()
        self.assertEqual([(3, 4)], ranges(reader.partitions(end, later)))

    def test_deleted_queue_of_subscribe(self) -> None:
        """It is a loss that can be accepted, as in other versions."""
        self.patch(streaming, "HAS_LIMITS", False)
        self.write(PutQueue(LOGGED_BILLS), log(1), log(2, BILLS))
        reader = self.reader(subscribe="orders,bills", failOnDataLoss="false")
        former = reader.latestOffset()
        self.write(log(3), RemoveQueue(BILLS.identifier))
        self.assertEqual([(3, 4)], ranges(reader.partitions(former, reader.latestOffset())))
        strict = self.reader(subscribe="orders,bills")
        self.assertIn("has no queue bills", str(self.assertRaises(ReadingError, strict.latestOffset)))

    def test_repeated_first_batch(self) -> None:
        """If it is repeated after more has arrived, it reads nothing from before the query began."""
        self.patch(streaming, "HAS_LIMITS", False)
        self.write(log(1), log(2))
        end = self.reader(startingOffsets="latest").latestOffset()
        self.write(log(3))
        repeated = self.reader(startingOffsets="latest")
        self.assertEqual([], ranges(repeated.partitions(repeated.initialOffset(), end)))


class FirstBatchTests(OffsetCase):
    """The first batch of a query without a checkpoint: Spark asks for its start more than once."""

    def test_messages_while_it_starts(self) -> None:
        """What arrives between two calls does not make it read the log from its beginning."""
        self.write(log(1), log(2))
        reader = self.reader(startingOffsets="latest")
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        self.write(log(3))
        self.assertEqual([], ranges(reader.partitions(reader.initialOffset(), end)))
        later = reader.latestOffset(end, ReadAllAvailable())
        self.assertEqual([(3, 4)], ranges(reader.partitions(end, later)))

    def test_repeated_batch(self) -> None:
        """If the process was killed during it, it has the same rows again, whatever has come since."""
        self.write(log(1), log(2))
        reader = self.reader(startingOffsets="latest")
        start = reader.initialOffset()
        self.write(log(3))
        end = reader.latestOffset(start, ReadAllAvailable())
        for change in ((), (log(4),), (PutQueue(LOGGED_BILLS), log(5, BILLS))):
            self.write(*change)
            with self.subTest(change=change):
                repeated = self.reader(startingOffsets="latest")
                found = repeated.partitions(repeated.initialOffset(), end)
                self.assertEqual([(3, 4)], ranges(found))


class NewQueueTests(OffsetCase):
    """Queues that are new to the subscription of a query, and have entries from before."""

    def setUp(self) -> None:
        super().setUp()
        self.write(PutQueue(LOGGED_BILLS), log(1), *(log(number, BILLS) for number in (2, 3, 4, 5)), log(6))
        reader = self.reader(subscribe="orders")
        self.former = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        self.write(log(7), log(8))

    def batches(self, limit: ReadLimit, **options: str) -> list[list[tuple[str, int]]]:
        """The queues and the numbers of rows of each batch until everything is read."""
        return self.batches_of(self.reader(subscribe="orders,bills", **options), self.former, limit)

    def test_limits(self) -> None:
        """The limits of a batch hold for these entries too, and each row is read once."""
        expected = [[("Bills", 2)], [("Bills", 2)], [("orders", 2)]]
        self.assertEqual(expected, self.batches(ReadMaxRows(2), maxOffsetsPerTrigger="2"))
        size = str(2 * len(packet(2)))
        self.assertEqual(expected, self.batches(ReadMaxBytes(int(size)), maxBytesPerTrigger=size))
        expected = [[("Bills", 3)], [("Bills", 1)], [("orders", 2)]]
        self.assertEqual(expected, self.batches(ReadMaxRows(3), maxOffsetsPerTrigger="3"))

    def test_least_rows(self) -> None:
        """They count for the rows that a batch waits for, and those that were read before do not."""
        self.assertEqual([], self.batches(ReadMinRows(7), minOffsetsPerTrigger="7"))
        for rows in (1, 6):
            found = self.batches(ReadMinRows(rows), minOffsetsPerTrigger=str(rows))
            self.assertEqual([[("orders", 2), ("Bills", 4)]], [sorted(each, reverse=True) for each in found])

    def test_least_rows_of_a_new_queue_alone(self) -> None:
        """They are waited for also if the other queues have no new entry."""
        reader = self.reader(subscribe="orders")
        self.former = reader.latestOffset(self.former, ReadAllAvailable())
        self.assertEqual([], self.batches(ReadMinRows(5), minOffsetsPerTrigger="5"))
        self.assertEqual([[("Bills", 4)]], self.batches(ReadMinRows(4), minOffsetsPerTrigger="4"))


class StartingNumbersTests(OffsetCase):
    """Queues that each begin at another number, before which some have entries that are not read."""

    def test_limits(self) -> None:
        """These entries do not count, so each batch has rows, up to the limit or the next beginning."""
        stock = attrs.evolve(ORDERS, identifier=UUID(int=0xAA), path="private$\\stock", number=20)
        self.write(PutQueue(LOGGED_BILLS), PutQueue(stock), log(1))
        self.write(*(log(number, BILLS) for number in range(2, 12)), *(log(n) for n in range(12, 17)))
        self.write(log(17, BILLS), log(18, stock), log(19), log(20, stock))
        starts = json.dumps({"orders": {"0": 2}, "bills": {"0": 17}, "stock": {"0": 20}})
        expected = [[("orders", 3)], [("Bills", 1), ("orders", 2)], [("orders", 1)], [("stock", 1)]]
        size = str(3 * len(packet(12)))
        for limit, options in (
            (ReadMaxRows(3), {"maxOffsetsPerTrigger": "3"}),
            (ReadMaxBytes(int(size)), {"maxBytesPerTrigger": size}),
        ):
            with self.subTest(limit=limit):
                reader = self.reader(subscribe="orders,bills,stock", startingOffsets=starts, **options)
                found = self.batches_of(reader, reader.initialOffset(), limit)
                self.assertEqual(expected, [sorted(batch) for batch in found])


class DeletedQueueTests(OffsetCase):
    """Queues of C{subscribe} that are deleted, or lose their log, while a query follows them."""

    def test_deleted_queue(self) -> None:
        """With C{failOnDataLoss} off the others are read on, and so is none; otherwise it is an error."""
        self.write(PutQueue(LOGGED_BILLS), log(1), log(2, BILLS))
        former = self.read_all()
        lenient = {"subscribe": "orders,bills", "failOnDataLoss": "false"}
        for change, expected in (
            (PutQueue(BILLS), [(3, 4)]),
            (RemoveQueue(BILLS.identifier), [(4, 5)]),
            (RemoveQueue(ORDERS.identifier), []),
        ):
            self.write(log(3), change)
            with self.subTest(change=change):
                error = self.assertRaises(
                    ReadingError,
                    self.reader(subscribe="orders,bills").latestOffset,
                    former,
                    ReadAllAvailable(),
                )
                self.assertRegex(str(error), "has no queue|has no message log")
                reader = self.reader(**lenient)
                later = reader.latestOffset(former, ReadAllAvailable())
                self.assertEqual(expected, ranges(reader.partitions(former, later)))
                self.assertEqual(later, reader.latestOffset(later, ReadAllAvailable()))
                former = later
        missing = self.reader(subscribe="ordres", failOnDataLoss="false")
        self.assertIn("has no queue ordres", str(self.assertRaises(ReadingError, missing.initialOffset)))

    def test_log_enabled_again(self) -> None:
        """A queue whose log was disabled meanwhile is read from where it was, and no row twice."""
        self.write(PutQueue(LOGGED_BILLS), log(1), log(2, BILLS))
        number = 3
        for options in ({"subscribe": "orders,bills"}, {"subscribePattern": ".*"}, {}):
            with self.subTest(options=options):
                reader = self.reader(failOnDataLoss="false", **options)
                before = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
                self.write(PutQueue(BILLS), log(number))
                without = reader.latestOffset(before, ReadAllAvailable())
                self.assertEqual([(number, number + 1)], ranges(reader.partitions(before, without)))
                self.write(PutQueue(LOGGED_BILLS), log(number + 1, BILLS))
                again = reader.latestOffset(without, ReadAllAvailable())
                self.assertEqual([(number + 1, number + 2)], ranges(reader.partitions(without, again)))
                number += 2

    def test_short_name(self) -> None:
        """A name does not pass to another queue if the log of the queue that it means is disabled."""
        public = attrs.evolve(LOGGED_BILLS, path="orders", type=QueueType.PUBLIC)
        self.write(PutQueue(public), log(1), log(2, public))
        options = {"subscribe": "orders", "failOnDataLoss": "false"}
        reader = self.reader(**options)
        former = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        self.write(log(3), PutQueue(attrs.evolve(public, log=False)))
        later = reader.latestOffset(former, ReadAllAvailable())
        self.assertEqual([], ranges(reader.partitions(former, later)))
