"""C{spark.readStream.format("msmq")}: each message once, under any failure of the query or
trim of the log.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
from prometheus_client.parser import text_string_to_metric_families
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.datasource import ReadMinRows
from pyspark.sql.types import StructType

from msmq.persistence.changes import AppendLog, Change, PutQueue, PutState, RemoveQueue, TrimLog
from msmq.pipeline.archive.archiver import Archiver
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.files.exporter import Exporter, export_request, store_at
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.reading.progress import LogProgress
from msmq.pipeline.spark.failures import reason
from msmq.pipeline.spark.stream_metrics import StreamMetrics
from msmq.pipeline.spark.streaming import MsmqStreamReader
from tests.builders import ALPHA, BETA
from tests.pipeline.spark_support import SparkTestCase
from tests.pipeline.stores import ARRIVED, BILLS, ORDERS, event, log, lookup_id, packet, write_log

OWNER = PutState("queue_manager", ALPHA.bytes)


class StreamingCase(SparkTestCase):
    """A store whose log grows, and a query that reads it into Parquet whenever it is run."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir()
        self.store = self.directory / "data"
        self.write(OWNER, PutQueue(ORDERS))

    def write(self, *changes: Change) -> None:
        write_log(self.store, changes)

    def stream(self, columns: str = "", **options: Any) -> DataFrame:
        given = {"path": str(self.store), "startingOffsets": "earliest", **options}
        return (
            self.spark.readStream.format("msmq")
            .options(**given)
            .option("columns", columns or "offset,label")
            .load()
        )

    def run_query(self, columns: str = "", **options: Any) -> list[dict[str, Any]]:
        """Run the query until it has read what there is; gives what is in its result, sorted."""
        query = (
            self.stream(columns, **options)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self.directory / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self.directory / "result"))
        )
        query.awaitTermination()
        self.progress = [dict(one)["numInputRows"] for one in query.recentProgress]
        self.latest = [dict(dict(one)["sources"][0])["latestOffset"] for one in query.recentProgress]
        return self.result()

    def result(self) -> list[dict[str, Any]]:
        frame = self.spark.read.parquet(str(self.directory / "result"))
        return sorted(self.rows(frame), key=lambda row: row["offset"])

    def labels(self, **options: Any) -> list[str]:
        return [row["label"] for row in self.run_query(**options)]

    def refused(self, **options: Any) -> str:
        with self.assertRaises(PySparkException) as caught:
            self.run_query(**options)
        self.assertNotIn("Traceback", str(caught.exception))
        return reason(caught.exception)


class OnceTests(StreamingCase):
    """Rows that a stream reads."""

    def test_resumes(self) -> None:
        """A query goes on where the one before it ended; a message that is more urgent is not passed over."""
        self.write(log(1, priority=0), log(2, priority=0))
        self.assertEqual(self.labels(), ["message 1", "message 2"])
        # Its LookupIdentifier is smaller than all that were read.
        self.write(log(3, priority=7))
        self.assertLess(lookup_id(3, 7), lookup_id(1, 0))
        self.assertEqual(self.labels(), ["message 1", "message 2", "message 3"])
        self.assertEqual(self.labels(), ["message 1", "message 2", "message 3"])

    def test_rate_limit(self) -> None:
        """No batch has more rows than C{maxOffsetsPerTrigger}, and all of them are read."""
        self.write(*(log(number) for number in range(1, 26)))
        self.assertEqual(len(self.labels(maxOffsetsPerTrigger="10", minPartitions="3")), 25)
        self.assertEqual([count for count in self.progress if count], [10, 10, 5])

    def test_lag(self) -> None:
        """The progress of a query says where the log ends, and how much of it is unread after each batch."""
        self.write(*(log(number) for number in range(1, 26)))
        self.labels(maxOffsetsPerTrigger="10")
        latest = [json.loads(text) for text in self.latest]
        self.assertEqual([one["unread"] for one in latest], [15, 5, 0])
        self.assertEqual({one["next"] for one in latest}, {26})
        lags = [one["lag_seconds"] for one in latest]
        self.assertEqual([lag > time.time() - 1_700_000_060 for lag in lags], [True, True, False])
        self.assertEqual(lags[2], 0)

    def test_size_limit(self) -> None:
        """No batch with several rows has more bytes of packets than C{maxBytesPerTrigger}."""
        self.write(*(log(number) for number in range(1, 10)))
        size = len(packet(1))
        self.assertEqual(len(self.labels(maxBytesPerTrigger=str(4 * size))), 9)
        self.assertEqual([count for count in self.progress if count], [4, 4, 1])
        self.write(*(log(number) for number in range(11, 16)))
        self.assertEqual(len(self.labels(maxBytesPerTrigger="1", maxOffsetsPerTrigger="2")), 14)
        self.assertEqual([count for count in self.progress if count], [1] * 5)

    def test_least(self) -> None:
        """A batch waits for C{minOffsetsPerTrigger} rows, but not when the query reads what there is."""
        self.write(log(1), log(2))
        writer = self.stream("label", minOffsetsPerTrigger="3", maxTriggerDelay="1h").writeStream
        query = writer.format("memory").queryName("least").trigger(processingTime="0 seconds").start()
        self.addCleanup(query.stop)
        query.processAllAvailable()
        self.assertEqual(self.spark.table("least").count(), 0)
        self.write(log(3))
        query.processAllAvailable()
        self.assertEqual(self.spark.table("least").count(), 3)
        query.stop()
        self.assertEqual(len(self.labels(minOffsetsPerTrigger="5")), 3)

    def test_least_while_a_row_is_written(self) -> None:
        """A row that completes a batch while its end is looked up is in that batch."""
        self.write(log(1), log(2))
        has_unread = LogProgress.has_unread

        def written_meanwhile(progress: LogProgress, begin: dict[str, Any], least: int) -> bool:
            self.write(log(3))
            return has_unread(progress, begin, least)

        self.patch(LogProgress, "has_unread", written_meanwhile)
        given = {"path": str(self.store), "stream": "log", "startingOffsets": "earliest"}
        options = read_options({**given, "minOffsetsPerTrigger": "3", "maxTriggerDelay": "1h"})
        reader = MsmqStreamReader(options, StructType().add("label", "string"))
        begin = reader.initialOffset()
        self.assertEqual(reader.latestOffset(begin, ReadMinRows(3))["next"], begin["next"] + 3)

    def test_delay(self) -> None:
        """Rows that are too few for a batch wait no longer than C{maxTriggerDelay}."""
        self.write(log(1))
        writer = self.stream("label", minOffsetsPerTrigger="3", maxTriggerDelay="1ms").writeStream
        query = writer.format("memory").queryName("delayed").trigger(processingTime="0 seconds").start()
        self.addCleanup(query.stop)
        while not self.spark.table("delayed").count():
            query.processAllAvailable()

    def test_metrics(self) -> None:
        """A listener has lag and rates of each query for Prometheus, until the query ends."""
        self.write(*(log(number) for number in range(1, 6)))
        file = self.directory / "stream.prom"
        metrics = StreamMetrics(file)
        writer = self.stream("label", maxOffsetsPerTrigger="3").writeStream.format("memory")
        query = writer.queryName("measured").trigger(availableNow=True).start()
        query.awaitTermination()
        for progress in query.recentProgress:
            metrics.observe(progress)
        families = {
            sample.name: sample.value
            for family in text_string_to_metric_families(file.read_text())
            for sample in family.samples
            if sample.labels == {"query": "measured", "source": "0"}
        }
        found = {name.removeprefix("msmq_stream_"): value for name, value in families.items()}
        self.assertEqual(
            {name: found[name] for name in ("unread", "rows_total", "batches_total", "lag_seconds")},
            {"unread": 0, "rows_total": 5, "batches_total": 2, "lag_seconds": 0},
        )
        self.assertGreater(found["batch_seconds"], 0)
        metrics.onQueryTerminated(SimpleNamespace(runId=query.runId))  # type: ignore[arg-type]
        self.assertNotIn("measured", file.read_text())

    def test_several_queues(self) -> None:
        """Several queues have one sequence of numbers; a queue that is made later is read from its first."""
        self.write(log(1), PutQueue(BILLS))
        self.assertEqual(self.labels(), ["message 1"])
        self.write(PutQueue(attrs.evolve(BILLS, log=True)), log(2, BILLS), log(3), log(4, BILLS))
        self.assertEqual(self.labels(), [f"message {number}" for number in (1, 2, 3, 4)])

    def test_starting_offsets(self) -> None:
        """A query without a checkpoint begins where its option says: by default with new arrivals."""
        self.write(*(log(number) for number in range(1, 6)))
        cases: list[tuple[dict[str, str | None], list[int]]] = [
            ({"startingOffsets": None}, []),
            ({"startingOffsets": "latest"}, []),
            ({"startingOffsets": '{"orders": {"0": 4}}'}, [4, 5]),
            ({"startingOffsets": None, "startingTimestamp": "1700000003250"}, [3, 4, 5]),
        ]
        for place, (options, expected) in enumerate(cases):
            name = f"started_{place}"
            writer = self.stream("offset", **options).writeStream.format("memory").queryName(name)
            writer.trigger(availableNow=True).start().awaitTermination()
            self.assertEqual(
                sorted(row.offset for row in self.spark.table(name).collect()), expected, options
            )

    def test_events(self) -> None:
        """The event log is a stream too."""
        self.write(*map(event, range(1, 4)))
        options = {"stream": "events", "maxOffsetsPerTrigger": "2"}
        self.assertEqual([row["offset"] for row in self.run_query("offset,event", **options)], [1, 2, 3])
        self.write(event(4))
        self.assertEqual(len(self.run_query("offset,event", **options)), 4)

    def test_failed_batch_is_read_again(self) -> None:
        """A batch that was begun and not finished is the same when the query is started again."""
        self.write(*(log(number) for number in range(1, 11)))
        seen: list[list[int]] = []

        def fail(frame: DataFrame, batch: int) -> None:
            seen.append(sorted(row.offset for row in frame.collect()))
            if len(seen) == 2:
                raise ValueError("the sink fails once")

        for _ in range(2):
            query = (
                self.stream("offset", maxOffsetsPerTrigger="4")
                .writeStream.foreachBatch(fail)
                .option("checkpointLocation", str(self.directory / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            try:
                query.awaitTermination()
            except Exception as error:
                self.assertIn("the sink fails once", str(error))
                # What comes in meanwhile is not part of the batch that is read again.
                self.write(log(11), log(12))
        self.assertEqual(seen, [[1, 2, 3, 4], [5, 6, 7, 8], [5, 6, 7, 8], [9, 10, 11, 12]])


class LossTests(StreamingCase):
    """Messages that are lost before they are read are reported."""

    def test_trimmed(self) -> None:
        """Trimming read messages loses none; trimming more does, and with C{failOnDataLoss} it is an
        error.
        """
        self.write(*(log(number) for number in range(1, 6)))
        self.assertEqual(len(self.labels()), 5)
        self.write(log(6), TrimLog(ORDERS.identifier, keep_bytes=len(packet(11))))
        self.assertEqual(len(self.labels()), 6)
        self.write(
            *(log(number) for number in range(7, 12)), TrimLog(ORDERS.identifier, keep_bytes=len(packet(11)))
        )
        self.assertIn(
            r".\private$\orders is to be read from offset 7, but the entries before offset 11", self.refused()
        )
        self.assertEqual(self.labels(failOnDataLoss="false")[-1], "message 11")

    def test_trimmed_by_age(self) -> None:
        """Where an old entry went and a younger was not read, nothing is lost."""
        self.write(log(1))
        self.assertEqual(len(self.labels()), 1)
        self.write(
            AppendLog(ORDERS.identifier, 9, packet(9), 1_800_000_000.0),
            TrimLog(ORDERS.identifier, before=1.75e9),
        )
        self.assertEqual(self.labels(), ["message 1", "message 9"])

    def test_deleted_queue(self) -> None:
        """A queue that was deleted with its log is a loss."""
        self.write(log(1))
        self.assertEqual(len(self.labels()), 1)
        self.write(RemoveQueue(ORDERS.identifier))
        self.assertIn("is no longer read: it was deleted", self.refused())

    def test_other_store(self) -> None:
        """A checkpoint of another queue manager is refused; so is a store that has not come as far."""
        self.write(*(log(number) for number in range(1, 6)))
        self.assertEqual(len(self.labels()), 5)
        self.store = self.directory / "other"
        self.write(OWNER, PutQueue(ORDERS), log(1))
        self.assertIn("was read up to offset 6, and now ends before 2", self.refused())
        self.store = self.directory / "foreign"
        self.write(PutState("queue_manager", BETA.bytes), PutQueue(ORDERS), log(1))
        self.assertIn("the checkpoint is of the queue manager ", self.refused(failOnDataLoss="false"))

    def test_refusals(self) -> None:
        """A stream without a log is refused, and offsets beyond the log are named."""
        self.write(PutQueue(BILLS))
        for options, expected in (
            ({"stream": "journal"}, "the stream journal can be read as a batch only: it has no log"),
            ({"subscribe": "bills"}, r".\private$\Bills has no message log"),
            ({"endingOffsets": "latest"}, "endingOffsets is for batches only"),
            ({"endingTimestamp": "1"}, "endingTimestamp is for batches only"),
            (
                {"stream": "events", "columns": "offset", "maxBytesPerTrigger": "1"},
                "maxBytesPerTrigger is for messages",
            ),
            ({"startingOffsets": '{"orders": {"0": 99}}'}, "from offset 99, but the log ends before 1"),
        ):
            with self.subTest(**options):
                self.assertIn(expected, self.refused(**options))

    def test_types(self) -> None:
        """A type that a column cannot have is refused, before there is a row."""
        frame = self.spark.readStream.format("msmq").schema("label BIGINT").load(str(self.store))
        query = frame.writeStream.format("noop").option("checkpointLocation", str(self.directory / "c"))
        with self.assertRaises(PySparkException) as caught:
            query.trigger(availableNow=True).start().awaitTermination()
        self.assertNotIn("Traceback", str(caught.exception))
        self.assertIn("the column label is STRING, and the schema has it as BIGINT", str(caught.exception))

    def test_archive(self) -> None:
        """A stream on an archive, or on files, is refused with what can be followed instead."""
        self.write(log(1))
        archive = self.directory / "archive"
        with store_at(str(self.store)) as store:
            Archiver(store, Archive(archive)).run()
            list(Exporter(store, self.directory / "files").run([export_request(store, "orders", log=True)]))
        for options, expected in (
            (
                {"path": str(archive), "stream": "log"},
                f"set path to {self.store}/msmq.log to follow new messages",
            ),
            ({"path": str(self.directory / "files")}, "has files, which can be read as a batch only"),
            ({"path": str(self.directory / "nowhere")}, "there is no such store"),
        ):
            with self.subTest(**options):
                self.assertIn(expected, self.refused(**options))


class OffsetTests(StreamingCase):
    """Offsets as a checkpoint has them."""

    def test_progress(self) -> None:
        """Offsets only increase, for any sequence of queries, and slices cover each number once."""
        self.write(*(log(number, priority=number % 8) for number in range(1, 31)))
        options = {"path": str(self.store), "startingOffsets": "earliest", "minPartitions": "2"}
        progress = LogProgress(read_options(options), "queue")
        offset = progress.initial()
        found: Counter[int] = Counter()
        while (later := progress.latest(offset, 7)) != offset:
            self.assertGreater(later["next"], offset["next"])
            for part in progress.slices(offset, later):
                for span in part.spans:
                    found.update(range(span.begin, span.end))
            offset = later
        self.assertEqual(found, Counter(range(1, 31)))

    def test_state(self) -> None:
        """The age of the oldest unread message is that of the first after the offset, in any queue read."""
        self.write(PutQueue(attrs.evolve(BILLS, log=True)), log(1), log(2, BILLS), log(3), log(4, BILLS))
        options = {"path": str(self.store), "startingOffsets": "earliest", "subscribe": "orders"}
        progress = LogProgress(read_options(options), "queue")
        offset = progress.latest(progress.initial(), 1)
        found = progress.state(offset)
        self.assertEqual((found.end, found.unread, found.oldest), (5, 2, ARRIVED + 3))
        self.assertEqual(found.record(ARRIVED + 10)["lag_seconds"], 7)
        self.assertEqual(found.record(0.0)["lag_seconds"], 0)
        read = progress.state(progress.latest(offset, None))
        self.assertEqual((read.oldest, read.record(0.0)["lag_seconds"]), (None, 0))
        self.assertIsNone(progress.state(None).record(0.0)["lag_seconds"])
