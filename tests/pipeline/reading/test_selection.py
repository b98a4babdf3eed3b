"""What readers of Spark select by themselves: filters that are pushed down, and damaged files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThanOrEqual
from pyspark.sql.types import StructType
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.rows import message_batch
from msmq.pipeline.schema import EXPORTED_COLUMNS, VERSION_KEY, names_of
from msmq.pipeline.spark.source import MsmqReader
from msmq.pipeline.stored_packets import StoredPacket
from tests.pipeline.stores import ARRIVED, estate, lookup_id, packet, write_log

ORDERS = r".\private$\orders"


class SelectionTests(SynchronousTestCase):
    """Readers as Spark has them, without a session."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir()

    def offsets(self, filters: Sequence[Filter] = (), **options: str) -> list[int]:
        """The offsets that a reader returns which has applied all of these filters that it takes."""
        reader = MsmqReader(read_options(options), StructType().add("offset", "long"))
        list(reader.push(filters))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]

    def export(self) -> Path:
        """Rows of a message log, in a file."""
        rows = [
            StoredPacket(packet(number), ORDERS, number, ARRIVED + number, lookup_id(number))
            for number in range(1, 11)
        ]
        path = self.directory / "rows.parquet"
        table = pyarrow.Table.from_batches([message_batch(rows, names_of(EXPORTED_COLUMNS))])
        pyarrow.parquet.write_table(table, path)
        return path

    def test_topic_of_events(self) -> None:
        """Events have one topic; a filter for another one, which Spark leaves to the source, takes none."""
        data = str(write_log(self.directory / "data", estate()))
        for topic, expected in (("events", [1, 2, 3, 4, 5]), (ORDERS, [])):
            with self.subTest(topic=topic):
                wanted = [EqualTo(("topic",), topic)]
                self.assertEqual(expected, self.offsets(wanted, path=data, stream="events"))

    def test_types_of_a_schema(self) -> None:
        """A filter is left to Spark if the schema gives its column another type: its values are not those of
        the store.
        """
        data = str(write_log(self.directory / "data", estate()))
        wanted: list[Filter] = [
            EqualTo(("offset",), "7"),
            GreaterThan(("offset",), 17.5),
            LessThanOrEqual(("offset",), Decimal(7)),
            EqualTo(("topic",), ORDERS.encode()),
            In(("topic",), (ORDERS.encode(),)),
            GreaterThanOrEqual(("timestamp",), date(2099, 1, 1)),
            EqualTo(("timestamp",), "2099-01-01"),
            In(("class",), ("5",)),
        ]
        for one in wanted:
            with self.subTest(filter=one):
                reader = MsmqReader(
                    read_options({"path": data, "stream": "log"}), StructType().add("offset", "long")
                )
                self.assertEqual([one], list(reader.push([one])))
                self.assertEqual(
                    20, sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
                )

    def test_nulls_in_a_list(self) -> None:
        """Null equals nothing, so the other values select the rows."""
        data = str(write_log(self.directory / "data", estate()))
        moment = datetime.fromtimestamp(ARRIVED + 4, UTC)
        for values, expected in (((ORDERS, None), 20), ((None,), 0)):
            self.assertEqual(expected, len(self.offsets([In(("topic",), values)], path=data, stream="log")))
        found = self.offsets([In(("timestamp",), (None, moment))], path=data, stream="log")
        self.assertEqual([4], found)
        self.assertEqual(20, len(self.offsets([In(("class",), (0, None))], path=data, stream="log")))

    def test_times_of_files(self) -> None:
        """A filter for a time does not widen what the option has narrowed."""
        since = round((ARRIVED + 6) * 1000)
        earlier = datetime.fromtimestamp(ARRIVED + 3, UTC)
        found = self.offsets(
            [GreaterThanOrEqual(("timestamp",), earlier)],
            path=str(self.export()),
            stream="log",
            startingTimestamp=str(since),
        )
        self.assertEqual([6, 7, 8, 9, 10], found)

    def test_damaged_file(self) -> None:
        """A file whose rows cannot be read is named in one line."""
        path = self.export()
        content = path.read_bytes()
        for damage in (slice(4, 1000), slice(-200, -100)):
            with self.subTest(damage=damage):
                damaged = bytearray(content)
                damaged[damage] = bytes(len(content[damage]))
                path.write_bytes(damaged)
                error = self.assertRaises(ReadingError, self.offsets, path=str(path))
                self.assertIn(f"{path}: cannot be read: ", str(error))
                self.assertNotIn("\n", str(error))

    def test_unknown_record_format(self) -> None:
        """A file whose record format is not a number is refused in one line."""
        path = self.export()
        table = pyarrow.parquet.read_table(path).replace_schema_metadata({VERSION_KEY: b"two\n"})
        pyarrow.parquet.write_table(table, path)
        error = self.assertRaises(ReadingError, self.offsets, path=str(path))
        self.assertIn(rf"{path}: written by a newer version of msmq (record format 'two\n'", str(error))
