"""C{spark.read.format("msmq")} on files: exported rows, packets, captures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from msmq.pipeline.files.exporter import Exporter, export_request, store_at
from msmq.pipeline.reading.files import FileScan
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.reading.row_selection import RowSelection
from msmq.pipeline.rows import message_batch
from msmq.pipeline.schema import EXPORTED_COLUMNS, VERSION_KEY, names_of
from msmq.pipeline.spark.failures import reason
from msmq.pipeline.stored_packets import StoredPacket
from tests.decoding.builders import link, pcap
from tests.decoding.test_captures import session
from tests.pipeline.spark_support import SparkTestCase
from tests.pipeline.stores import ARRIVED, DAMAGED, estate, lookup_id, packet, write_log

EXPORTED = names_of(EXPORTED_COLUMNS)


class FileCase(SparkTestCase):
    """Files in one directory."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir()

    def read(self, columns: str = "", **options: Any) -> DataFrame:
        reader = self.spark.read.format("msmq").options(**{"path": str(self.directory), **options})
        return (reader.option("columns", columns) if columns else reader).load()

    def refused(self, **options: Any) -> str:
        with self.assertRaises((AnalysisException, PySparkException)) as caught:
            self.read(**options).collect()
        return reason(caught.exception)


class ExportedTests(FileCase):
    """Files written by C{msmq export}."""

    def export(self, name: str, topic: str, numbers: range, *, is_log: bool = False) -> list[StoredPacket]:
        counts = {} if is_log else {"aborts": 0, "moves": 1}
        stored = [
            StoredPacket(packet(number), topic, number, ARRIVED + number, lookup_id(number), **counts)
            for number in numbers
        ]
        stored.append(StoredPacket(DAMAGED, topic, 99, ARRIVED, 99, **counts))
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        table = pyarrow.Table.from_batches([message_batch(stored, EXPORTED)])
        pyarrow.parquet.write_table(table, path, row_group_size=4)
        return stored

    def test_exporter(self) -> None:
        """An export of a store has every message once, with the same values as the store."""
        data = write_log(self.directory / "data", estate())
        directory = self.directory / "files"
        with store_at(str(data)) as store:
            list(
                Exporter(store, directory, file_rows=7).run(
                    [export_request(store, "orders"), export_request(store, "Bills")]
                )
            )
        found, expected = (
            sorted(
                self.rows(self.read(path=str(path), stream="queue", subscribe="orders,Bills")),
                key=lambda row: (row["topic"], row["offset"]),
            )
            for path in (directory, data)
        )
        self.assertEqual(len(found), 22)
        self.assertEqual(found, expected)

    def test_rows(self) -> None:
        """Rows are as they were exported, in every column, by row groups; bodies can be read anew."""
        stored = self.export("date=2026-11-21/part-0.parquet", r".\private$\orders", range(1, 10))
        (self.directory / "_SUCCESS").write_bytes(b"")
        frame = self.read()
        self.assertEqual(frame.rdd.getNumPartitions(), 3)
        names = tuple(frame.columns)
        expected = self.spark.createDataFrame(
            pyarrow.Table.from_batches([message_batch(stored, names)]), frame.schema
        )
        self.assertEqual(
            sorted(self.rows(frame), key=lambda row: row["offset"]),
            sorted(self.rows(expected), key=lambda row: row["offset"]),
        )
        decoded = self.rows(self.read("offset,decoded", decode="auto").where("offset = 3"))
        self.assertIn("body 3", decoded[0]["decoded"])

    def test_streams(self) -> None:
        """A stream takes its own rows of them, and so do queues and filters."""
        self.export("a.parquet", r".\private$\orders", range(1, 4))
        self.export("b.parquet", r".\private$\orders", range(1, 6), is_log=True)
        self.export("c.parquet", r".\private$\orders;journal", range(1, 7))
        self.export("d.parquet", r".\system$;deadletter", range(1, 8))
        self.export("e.parquet", r"DIRECT=OS:beta\private$\orders", range(1, 9))
        counts = {"queue": 4, "log": 6, "journal": 7, "dead_letter": 8, "outgoing": 9, "source_journal": 0}
        for stream, count in counts.items():
            self.assertEqual(self.read("offset", stream=stream).count(), count, stream)
        self.assertEqual(self.read("offset").count(), 4 + 6 + 7 + 8 + 9)
        self.assertEqual(self.read("offset", subscribe="orders", stream="log").where("offset < 3").count(), 2)
        self.assertEqual(self.read("offset", startingTimestamp="1700000004250", stream="log").count(), 2)
        self.assertEqual(self.read("offset", endingTimestamp="1700000004250", stream="log").count(), 4)

    def test_messages_and_events(self) -> None:
        """Of a directory with both, the stream says which are read, and the other files are counted."""
        data = write_log(self.directory.parent / "data", estate())
        with store_at(str(data)) as store:
            wanted = [export_request(store, name) for name in ("orders", "events")]
            list(Exporter(store, self.directory).run(wanted))
        (self.directory / "packets").write_bytes(packet(1))
        self.assertEqual(self.read("offset", stream="queue").count(), 20)
        self.assertEqual(self.read("offset").count(), 21)
        self.assertEqual({row["event"] for row in self.rows(self.read(stream="events"))}, {"expired"})
        options = read_options({"path": str(self.directory), "stream": "queue"})
        scan = FileScan(options, RowSelection(("offset",)), "queue")
        self.assertEqual(
            scan.plan().notice("x"),
            "x: left out 1 file of events and 1 file of packets; the option stream = events reads events",
        )

    def test_events_alone(self) -> None:
        """A directory without messages is refused with what to do."""
        data = write_log(self.directory.parent / "data", estate())
        with store_at(str(data)) as store:
            list(Exporter(store, self.directory).run([export_request(store, "events")]))
        for options in ({}, {"stream": "log"}):
            self.assertIn(
                "has events and no messages: set the option stream to events", self.refused(**options)
            )

    def test_refusals(self) -> None:
        """A file that is not one of these, and one that a newer version has written, are named."""
        self.assertIn("there is no such store", self.refused(path=str(self.directory / "nothing")))
        (self.directory / "a.txt").write_text("hello")
        self.assertIn("a.txt is not a store, an exported file, a capture or a packet", self.refused())
        (self.directory / "a.txt").unlink()
        self.export("a.parquet", "wire", range(1, 3))
        self.assertIn("has messages, and no events", self.refused(stream="events"))
        self.assertIn(
            "startingOffsets and endingOffsets are for stores", self.refused(startingOffsets="earliest")
        )
        table = pyarrow.parquet.read_table(self.directory / "a.parquet")
        newer = table.replace_schema_metadata({VERSION_KEY: b"99"})
        pyarrow.parquet.write_table(newer, self.directory / "a.parquet")
        self.assertIn("written by a newer version of msmq (record format 99", self.refused())


class WireTests(FileCase):
    """Captures, and packets without one."""

    def test_capture(self) -> None:
        """A message on the wire has the time of its capture, and was in no queue."""
        (self.directory / "one.pcap").write_bytes(pcap([link(1, frame) for frame in session()]))
        columns = "topic,offset,timestampType,arrived_time,lookup_id,class_name"
        [row] = self.rows(self.read(columns, stream="wire"))
        self.assertEqual(list(row.values()), ["wire", 0, 0, None, None, "MQMSG_CLASS_NORMAL"])

    def test_packets(self) -> None:
        """Packets one behind the other are rows, a damaged one too."""
        broken = packet(2)[:60] + b"\xff" * 4 + packet(2)[64:]
        (self.directory / "packets").write_bytes(packet(1) + broken + packet(3))
        rows = self.rows(self.read("offset,label,value,decode_error").orderBy("offset"))
        self.assertEqual([row["label"] for row in rows], ["message 1", None, "message 3"])
        self.assertEqual(bytes(rows[1]["value"]), broken)
        self.assertIn("UserHeader", rows[1]["decode_error"])
        self.assertIn("has packets of the stream wire, not queue", self.refused(stream="queue"))
