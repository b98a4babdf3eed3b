"""C{format("msmq")} and C{read_archive} of an archive: the same rows, with what Spark pushes down."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import attrs
from pyspark.errors import AnalysisException

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.spark import archive as archive_in_spark
from msmq.pipeline.spark import read_archive
from msmq.pipeline.spark.failures import reason
from tests.pipeline import stores
from tests.pipeline.archive.test_archive_reading import ReadingTestCase
from tests.pipeline.spark_support import shared_session
from tests.pipeline.stores import ARRIVED

COLUMNS = "topic,offset,label,timestamp,class,transaction,acknowledge"


class SparkTests(ReadingTestCase):
    """One archive, with Parquet, Arrow, and a store that has more."""

    def setUp(self) -> None:
        super().setUp()
        self.spark = shared_session()
        self.grow()
        self.path = str(self.directory.absolute())

    def both(self, **options: str) -> list[Any]:
        """The rows of the data source, which are those of the function."""
        source = self.spark.read.format("msmq").options(path=self.path, columns=COLUMNS, **options).load()
        table = read_archive(self.spark, self.path, columns=COLUMNS, **options)
        self.assertEqual(source.dtypes, table.dtypes)
        found = sorted(map(tuple, source.collect()))
        self.assertEqual(found, sorted(map(tuple, table.collect())))
        return [row[1] for row in found]

    def test_both_have_each_row_once(self) -> None:
        """Whether the rest is read by this process or by Spark's; of the archive alone, and of a range."""
        self.assertEqual([*range(1, 29)], self.both())
        self.assertEqual([*range(1, 26)], self.both(store="none"))
        self.assertEqual([*range(19, 29)], self.both(startingOffsets='{"orders": {"0": 19}}'))
        since = str(round((ARRIVED + 18) * 1000))
        self.patch(archive_in_spark, "EAGER_ROWS", 0)
        self.assertEqual([*range(18, 29)], self.both(startingTimestamp=since))

    def test_nothing_new(self) -> None:
        """Without rows that are not in Parquet a query reads files alone."""
        self.update()
        self.compact()
        table = read_archive(self.spark, self.path, columns=COLUMNS)
        self.assertEqual([*range(1, 29)], self.both())
        self.assertEqual([], self.both(startingTimestamp=str(round((ARRIVED + 1000) * 1000))))
        files = [file for each in self.archive.streams() if each.stream == "log" for file in each.files]
        self.assertLessEqual(table.rdd.getNumPartitions(), len(files))
        self.assertNotIn("ExistingRDD", table._jdf.queryExecution().executedPlan().toString())

    def test_microseconds(self) -> None:
        """The rest of the store is selected by the same time as the archive, to the microsecond."""
        moments = [ARRIVED + 60.0004, ARRIVED + 60.0008]
        self.write(*(attrs.evolve(stores.log(60), arrived=moment) for moment in moments))
        self.patch(archive_in_spark, "EAGER_ROWS", 0)
        since = datetime.fromtimestamp(ARRIVED + 60.0006, UTC).isoformat()
        self.assertEqual([30], self.both(startingTimestamp=since))

    def test_filters_skip_files(self) -> None:
        """Of offsets, classes and topics; the rows are those of Spark's filter."""
        table = self.spark.read.format("msmq").options(path=self.path, columns=COLUMNS).load()
        chosen = table.where("offset > 20 and class = 0 and topic = '.\\\\private$\\\\orders'")
        self.assertEqual([*range(21, 29)], sorted(row.offset for row in chosen.collect()))
        self.assertEqual(0, table.where("class = 5").count())

    def test_names_of_directories(self) -> None:
        """The characters of patterns in the path of an archive mean themselves."""
        self.directory = self.directory.rename(self.directory.with_name("odd [1] {a,b} \\x?*"))
        self.path = str(self.directory.absolute())
        self.assertEqual([*range(1, 29)], self.both())

    def test_wrong_reads_are_one_line(self) -> None:
        """An option for archives elsewhere, a directory that is none, another stream."""
        error = self.assertRaises(
            AnalysisException,
            lambda: self.spark.read.format("msmq").options(path=str(self.data), store="none").load().count(),
        )
        self.assertIn("the options store and archivePlan are for an archive", reason(error))
        wrong = self.assertRaises(ReadingError, read_archive, self.spark, str(self.data))
        self.assertIn("is not an archive", str(wrong))
        unreadable = f"{self.path}/{'long' * 99}"
        wrong = self.assertRaises(ReadingError, read_archive, self.spark, unreadable)
        self.assertEqual(f"{unreadable}: cannot be read: File name too long", str(wrong))
        self.assertRaises(ReadingError, read_archive, self.spark, self.path, stream="queue")
