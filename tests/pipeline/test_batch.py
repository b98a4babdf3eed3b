"""C{spark.read.format("msmq")} on stores: what it finds, what it leaves unread, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from msmq.persistence.changes import PutQueue, TrimLog
from msmq.pipeline.schema import EVENT_COLUMNS, MESSAGE_COLUMNS, names_of
from msmq.pipeline.spark.failures import reason
from tests.pipeline.spark_support import SparkTestCase
from tests.pipeline.stores import (
    DAMAGED,
    ORDERS,
    estate,
    event,
    log,
    packet,
    put,
    write_log,
    write_postgresql,
    write_sqlite,
)
from tests.servers.postgresql import shared_server

ORDERS_TOPIC = r".\private$\orders"


class BatchCase(SparkTestCase):
    """Reads one store that all tests of a class share."""

    path = ""

    def read(self, columns: str = "", **options: Any) -> DataFrame:
        reader = self.spark.read.format("msmq").options(**{"path": self.path, **options})
        return (reader.option("columns", columns) if columns else reader).load()

    def offsets(self, **options: Any) -> list[int]:
        return sorted(row["offset"] for row in self.rows(self.read("offset", **options)))

    def refused(self, **options: Any) -> str:
        with self.assertRaises((AnalysisException, PySparkException)) as caught:
            self.read(**options).collect()
        return self.line(caught.exception)

    def refused_schema(self, schema: str, path: str) -> str:
        with self.assertRaises((AnalysisException, PySparkException)) as caught:
            self.spark.read.format("msmq").schema(schema).load(path).collect()
        return self.line(caught.exception)

    def line(self, error: Exception) -> str:
        """The one line of an error, without a traceback."""
        self.assertNotIn("Traceback", str(error))
        said = reason(error)
        self.assertNotIn("\n", said)
        self.assertNotIn("PYTHON_DATA_SOURCE_ERROR", said)
        return said


class EstateCase(BatchCase):
    """The store has something in every stream."""

    def setUp(self) -> None:
        super().setUp()
        self.path = str(write_log(Path(self.mktemp()).absolute(), estate()))


class StreamTests(EstateCase):
    """Which rows a stream has."""

    def test_streams(self) -> None:
        """Each stream has the queues that it is named after, and their topics."""
        expected = {
            "queue": {ORDERS_TOPIC: 20, r".\private$\Bills": 2, r".\private$\reports": 2},
            "log": {ORDERS_TOPIC: 20},
            "journal": {r".\private$\Bills;journal": 1},
            "source_journal": {r".\system$;journal": 1},
            "dead_letter": {r".\system$;deadletter": 1},
            "dead_letter_transactional": {r".\system$;deadxact": 1},
            "report": {r".\private$\reports": 1},
            "outgoing": {r"DIRECT=OS:beta\private$\orders": 1},
            "events": {"events": 5},
        }
        found = {}
        for stream in expected:
            counts: dict[str, int] = {}
            for row in self.read("topic", stream=stream).collect():
                counts[row.topic] = counts.get(row.topic, 0) + 1
            found[stream] = counts
        self.assertEqual(found, expected)

    def test_columns(self) -> None:
        """The columns are those of the record format, or the requested ones, in that order."""
        self.assertEqual(tuple(self.read().columns), names_of(MESSAGE_COLUMNS))
        self.assertEqual(tuple(self.read(stream="events").columns), names_of(EVENT_COLUMNS))
        self.assertEqual(self.read("label, offset").columns, ["label", "offset"])

    def test_columns_say_what_they_are(self) -> None:
        """Each has its meaning as a comment, and is nullable only if a row can be without it."""
        schema = self.read("label, offset, topic").schema
        self.assertEqual([True, False, False], [field.nullable for field in schema])
        events = {field.name: field for field in self.read(stream="events").schema}
        self.assertEqual([False, True], [events["event"].nullable, events["queue"].nullable])
        for columns, found in (
            (MESSAGE_COLUMNS, self.read().schema),
            (EVENT_COLUMNS, self.read(stream="events").schema),
        ):
            comments = [field.metadata["comment"] for field in found]
            self.assertEqual([column.meaning for column in columns], comments)

    def test_message(self) -> None:
        """A row holds what the message and the store say."""
        [row] = self.rows(self.read().where("offset = 5 and topic like '%orders'"))
        reported = {
            name: row[name]
            for name in ("id", "label", "body", "priority", "lookup_id", "abort_count", "move_count")
        }
        self.assertEqual(
            reported,
            {
                "id": "{BE7A0000-0000-4000-8000-000000000002}\\5",
                "label": "message 5",
                "body": "body 5",
                "priority": 5,
                "lookup_id": 2 << 56 | 5,
                "abort_count": 1,
                "move_count": 2,
            },
        )

    def test_damaged_packet(self) -> None:
        """A damaged packet is a row with its bytes and what is wrong with it."""
        [row] = self.rows(self.read("value,offset,decode_error,label").where("decode_error is not null"))
        self.assertEqual((bytes(row["value"]), row["offset"], row["label"]), (DAMAGED, 31, None))
        self.assertIn("BaseHeader", row["decode_error"])

    def test_decoded(self) -> None:
        """Bodies are read if that is asked for, and what is wrong with them is in the row."""
        [row] = self.rows(self.read("decoded,decode_error,label", decode="auto").where("label = 'message 2'"))
        self.assertEqual(json.loads(row["decoded"])["value"], "body 2")
        self.assertIsNone(row["decode_error"])
        [row] = self.rows(self.read("offset,decode_error", decode="json").where("offset = 5"))
        self.assertIn("JSON", row["decode_error"])

    def test_event(self) -> None:
        """So does the row of an event."""
        row = self.rows(self.read("offset,event,reason,class_name,queue", stream="events"))[0]
        self.assertEqual(
            list(row.values()),
            [1, "expired", "too late", "MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT", ORDERS_TOPIC],
        )

    def test_subscribe(self) -> None:
        """Queues are chosen by path or name, without case, or by a pattern for the whole of the topic."""
        for name in ("orders", "ORDERS", r"private$\orders", ORDERS_TOPIC):
            self.assertEqual(len(self.offsets(subscribe=name)), 20, name)
        self.assertEqual(len(self.offsets(subscribe="orders, bills")), 22)
        self.assertEqual(self.offsets(subscribe="bills", stream="journal"), [32])
        self.assertEqual(self.offsets(subscribePattern=r".*\\[BR].*"), [30, 31])
        self.assertEqual(self.offsets(subscribePattern="orders"), [])

    def test_offsets(self) -> None:
        """A range includes its start and excludes its end, for any priorities."""
        some = '{"orders": {"0": 5}}'
        until = r'{".\\private$\\orders": {"0": 9}}'
        for stream in ("queue", "log"):
            found = self.offsets(subscribe="orders", stream=stream, startingOffsets=some, endingOffsets=until)
            self.assertEqual(found, [5, 6, 7, 8], stream)
        found = self.offsets(stream="events", startingOffsets='{"events": {"0": 4}}')
        self.assertEqual(found, [4, 5])

    def test_starting_timestamp(self) -> None:
        """Milliseconds as Kafka has them, or a time."""
        for time in ("1700000015250", "2023-11-14T22:13:35.25Z", "2023-11-14T22:13:35.250"):
            for stream in ("queue", "log"):
                found = self.offsets(subscribe="orders", stream=stream, startingTimestamp=time)
                self.assertEqual(found, [15, 16, 17, 18, 19, 20], (time, stream))
        self.assertEqual(self.offsets(stream="events", startingTimestamp="1700000004250"), [4, 5])
        self.assertEqual(self.offsets(stream="log", startingTimestamp="1800000000000"), [])
        both = {"startingTimestamp": "1700000004250", "endingTimestamp": "1700000006250"}
        for stream in ("queue", "log", "events"):
            self.assertEqual(self.offsets(stream=stream, **both), [4, 5], stream)
            before = self.offsets(stream=stream, endingTimestamp="1700000003250")
            self.assertEqual(before, [1, 2], stream)

    def test_partitions(self) -> None:
        """There are as many parts as are asked for, and each row is in one of them."""
        for stream in ("queue", "log", "events"):
            frame = self.read("offset", stream=stream, minPartitions="4")
            self.assertGreaterEqual(frame.rdd.getNumPartitions(), 4)
            self.assertEqual(
                sorted(row.offset for row in frame.collect()), self.offsets(stream=stream), stream
            )


class PushDownTests(EstateCase):
    """Unselected rows are not read."""

    def plan(self, frame: DataFrame) -> str:
        return str(frame._jdf.queryExecution().executedPlan().toString())

    def test_filters_reach_the_source(self) -> None:
        """The plan shows that Spark leaves filters for offset and topic to the source."""
        frame = self.read("offset,topic", subscribe="orders", pushDownFilters="true").where(
            rf"offset > 3 and offset <= 9 and offset < 100 and topic = '{ORDERS_TOPIC}'".replace("\\", "\\\\")
        )
        plan = self.plan(frame)
        self.assertNotIn("Filter (", plan)
        self.assertIn("BatchScan msmq[offset#", plan)
        self.assertEqual(sorted(row.offset for row in frame.collect()), [4, 5, 6, 7, 8, 9])
        self.assertEqual(self.read("offset,topic").where("topic in ('a', 'b')").count(), 0)

    def test_any_filter_is_right(self) -> None:
        """With any pushed filters, the rows equal those of a filter in Spark."""
        rows = [
            (row.offset, row.timestamp, row.topic) for row in self.read("offset,timestamp,topic").collect()
        ]
        frame = self.spark.createDataFrame(rows, "offset bigint, timestamp timestamp, topic string")
        for condition in (
            "offset = 7",
            "offset >= 19 or offset < 3",
            "offset > 10 and not offset = 15",
            "offset in (1, 2, 40)",
            "timestamp > timestamp'2023-11-14 22:13:35.25' and timestamp <= '2023-11-14 22:13:38.25'",
            "timestamp = timestamp'2023-11-14 22:13:35.25'",
            "timestamp >= timestamp'2023-11-14 22:13:35.250001'",
            "offset is null",
            "topic is not null and offset <=> 4",
            "topic like '%Bills' and offset < 31",
        ):
            expected = sorted(row.offset for row in frame.where(condition).collect())
            found = self.read("offset,timestamp,topic", pushDownFilters="true").where(condition)
            self.assertEqual(sorted(row.offset for row in found.collect()), expected, condition)

    def test_filters_on_types_of_a_schema(self) -> None:
        """With pushed filters the rows are those of Spark, also if a column is read as another type."""
        for schema, condition in (
            ("offset string", "offset = '7'"),
            ("offset double", "offset > 17.5"),
            ("offset decimal(20, 0)", "offset < 4"),
            ("offset bigint, topic binary", f"topic = X'{ORDERS_TOPIC.encode().hex()}'"),
            ("offset bigint, timestamp date", "timestamp >= date'2023-11-14'"),
            ("offset bigint, timestamp string", "timestamp >= '2023'"),
            ("offset bigint, timestamp timestamp_ntz", "timestamp > timestamp_ntz'2023-11-14 22:13:35.25'"),
            ("offset bigint, class string", "class in ('0', '5')"),
            ("offset bigint, topic string", f"topic in ('{ORDERS_TOPIC}', null)".replace("\\", "\\\\")),
        ):
            source = self.spark.read.format("msmq").schema(schema).option("subscribe", "orders")
            expected = sorted(map(tuple, source.load(self.path).where(condition).collect()))
            found = source.option("pushDownFilters", "true").load(self.path).where(condition).collect()
            self.assertEqual(sorted(map(tuple, found)), expected, condition)
            self.assertTrue(expected, condition)

    def test_one_table_in_several_queries(self) -> None:
        """A filter in one query, or one side of a union, does not narrow another use of the same table."""
        frame = self.read("offset", subscribe="orders")
        self.assertEqual(frame.where("offset >= 15").count(), 6)
        self.assertEqual(frame.count(), 20)
        ends = frame.where("offset < 3").union(frame.where("offset > 18")).union(frame)
        self.assertEqual(ends.count(), 24)

    def test_session_without_push_down(self) -> None:
        """A session with Spark's own defaults reads too, and filters by itself."""
        name = "spark.sql.python.filterPushdown.enabled"
        self.spark.conf.set(name, "false")
        self.addCleanup(self.spark.conf.set, name, "true")
        frame = self.read("offset", subscribe="orders", pushDownFilters="true").where("offset < 4")
        self.assertIn("Filter (", self.plan(frame))
        self.assertEqual(sorted(row.offset for row in frame.collect()), [1, 2, 3])

    def test_columns_of_a_schema(self) -> None:
        """A schema that names fewer columns is as good as the option."""
        frame = self.spark.read.format("msmq").schema("label string, offset bigint").load(self.path)
        self.assertIn("[label#", self.plan(frame))
        self.assertNotIn("value", self.plan(frame))
        self.assertEqual(frame.where("offset = 2").collect()[0].label, "message 2")


class RefusalTests(EstateCase):
    """Unreadable inputs are refused in one line, which names them."""

    def test_refusals(self) -> None:
        """Unknown stores, options, streams, queues, columns and offsets."""
        nowhere = str(Path(self.mktemp()).absolute())
        foreign = Path(self.mktemp()).absolute()
        foreign.write_bytes(b"SQLite format 3\0" + bytes(84))
        cases: list[tuple[dict[str, str], str]] = [
            ({"path": nowhere}, f"{nowhere}: there is no such store"),
            ({"path": str(foreign)}, f"{foreign}: cannot read: "),
            (
                {"startingOffset": "earliest"},
                "there is no option 'startingoffset' for reading, only archivePlan, columns, ",
            ),
            ({"stream": "queues"}, "the option stream is 'queues': must be one of queue, log, "),
            ({"subscribe": "order"}, "has no queue order in the stream queue"),
            ({"decode": "yaml"}, "decode = 'yaml' is not one of none, auto, "),
            ({"columns": "offset,offset"}, "the column offset is requested twice"),
            ({"decode": "auto", "decodeSchema": "id BIGNT"}, "has the field 'id' as 'BIGNT', which is not"),
            ({"columns": "lable"}, "there is no column 'lable', only value, topic, "),
            (
                {"minPartitions": "0"},
                "the option minPartitions is '0': must be a whole number from 1 to 2",
            ),
            ({"includeHeaders": "yes"}, "the option includeHeaders is 'yes': must be true or false"),
            ({"startingOffsets": "latest"}, "startingOffsets of a batch cannot be latest"),
            ({"startingOffsets": '{"orders": 5}'}, "the option startingOffsets is "),
            ({"endingOffsets": '{"nobody": {"0": 1}}'}, "the option endingOffsets names 'nobody', "),
            ({"startingTimestamp": "noon"}, "the option startingTimestamp is 'noon': "),
            ({"subscribePattern": "("}, "the option subscribePattern is '(': is not a regular expression"),
            ({"subscribe": "a", "subscribePattern": "b"}, "exclude each other"),
            ({"dsn": "postgresql://127.0.0.1/x"}, "the options path and dsn exclude each other"),
            (
                {"stream": "log", "startingOffsets": '{"orders": {"0": 99}}'},
                rf"{ORDERS_TOPIC} is to be read from offset 99, but the log ends before offset 21",
            ),
        ]
        for options, expected in cases:
            with self.subTest(**options):
                self.assertIn(expected, self.refused(**options))

    def test_types(self) -> None:
        """A schema with a type that a column cannot have is refused, with the column and both types."""
        for schema, expected in (
            ("label BIGINT", "the column label is STRING, and the schema has it as BIGINT: give it the type"),
            ("transaction STRUCT<first: BOOLEAN>", "the column transaction is STRUCT<sequence_id: BIGINT, "),
            ("timestamp BOOLEAN", "the column timestamp is TIMESTAMP, and the schema has it as BOOLEAN"),
            ("application_tag INTERVAL DAY", "the column application_tag is BIGINT, and the schema has it"),
            ("application_tag TIMESTAMP", "the column application_tag is BIGINT, and the schema has it"),
            ("label STRING, label STRING", "the column label is requested twice"),
        ):
            with self.subTest(schema=schema):
                self.assertIn(expected, self.refused_schema(schema, self.path))
        # Each value decides: a lookup_id has more than 32 bits, and this body is no text.
        message = put(1, content=packet(1, b"\xff\xfe"))
        store = write_sqlite(Path(self.mktemp()).absolute(), [PutQueue(ORDERS), message])
        for schema, own in (("lookup_id INT", "BIGINT"), ("value STRING", "BINARY")):
            said = self.refused_schema(schema, str(store))
            self.assertIn(f", which cannot hold each of its values: give it the type {own}", said)
        said = self.refused_schema("priority INT NOT NULL, admin_queue STRING NOT NULL", str(store))
        self.assertIn("the column admin_queue is null in some rows, and the schema has it as NOT NULL", said)
        fits = self.spark.read.format("msmq").schema("priority STRING, offset INT, label BINARY")
        self.assertEqual(fits.load(self.path).where("offset = 2").collect()[0].priority, "2")

    def test_newer_store(self) -> None:
        """A store that a newer version has written is not read."""
        import sqlite3

        self.path = str(write_sqlite(Path(self.mktemp()).absolute(), [PutQueue(ORDERS)]))
        connection = sqlite3.connect(f"{self.path}/msmq.sqlite")
        connection.execute("PRAGMA user_version = 99")
        connection.close()
        self.assertIn("written by a newer version of msmq (schema 99, this one knows ", self.refused())

    def test_trimmed_log(self) -> None:
        """Trimmed entries are an error if they are requested by number, unless C{failOnDataLoss} is off."""
        write_log(Path(self.path), [TrimLog(ORDERS.identifier, keep_bytes=3 * len(packet(10)))])
        some = {"stream": "log", "startingOffsets": '{"orders": {"0": 5}}'}
        self.assertIn(
            "but the entries before offset 18 were trimmed (failOnDataLoss is true)", self.refused(**some)
        )
        self.assertEqual(self.offsets(**some, failOnDataLoss="false"), [18, 19, 20])
        self.assertEqual(self.offsets(stream="log"), [18, 19, 20])


class AllStoresTests(BatchCase):
    """The same in all stores."""

    def test_equal_rows(self) -> None:
        """The record log, SQLite and PostgreSQL give the same rows of every stream, in every column."""
        changes = [
            *estate(),
            put(50, content=packet(50, bytes(40_000))),
            put(51, content=packet(51, bytes(9000))),
        ]
        log = str(write_log(Path(self.mktemp()).absolute(), changes))
        sqlite = str(write_sqlite(Path(self.mktemp()).absolute(), changes))
        server = shared_server()
        self.addCleanup(server.drop, "pipeline")
        postgresql = write_postgresql(server, "pipeline", changes)
        for stream in ("queue", "log", "journal", "dead_letter", "outgoing", "events"):
            for columns in ("", "offset,topic,label,id,lookup_id,decode_error"):
                if columns and stream == "events":
                    continue
                found = []
                for place in (log, sqlite, postgresql):
                    self.path = place
                    frame = self.read(columns, stream=stream, minPartitions="3")
                    found.append(sorted(self.rows(frame), key=lambda row: (row["topic"], row["offset"])))
                for other in found[1:]:
                    self.assertEqual(found[0], other, (stream, columns))
                self.assertTrue(found[0])

    def test_missing_schema(self) -> None:
        """A database in which there is no store is named, without its secrets."""
        self.path = ""
        url = shared_server().url("schema=nobody")
        self.assertIn("there is no such store", self.refused(dsn=url, path=""))


class NothingTests(BatchCase):
    """Stores with nothing in them."""

    def test_empty(self) -> None:
        """A queue without messages has no rows, and a log without entries none."""
        self.path = str(write_log(Path(self.mktemp()).absolute(), [PutQueue(ORDERS)]))
        for stream in ("queue", "log", "events", "journal"):
            self.assertEqual(self.offsets(stream=stream), [])

    def test_event_and_log_of_one(self) -> None:
        """One of each."""
        self.path = str(
            write_log(Path(self.mktemp()).absolute(), [PutQueue(ORDERS), log(1), event(1), put(1)])
        )
        for stream in ("queue", "log", "events"):
            self.assertEqual(self.offsets(stream=stream), [1])
