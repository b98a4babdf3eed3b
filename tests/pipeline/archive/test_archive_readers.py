"""Other programs read the Parquet files of an archive, and count the same rows."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from unittest import skipIf

from tests.pipeline.archive.archive_case import DAY, ArchiveTestCase
from tests.pipeline.spark_support import shared_session
from tests.pipeline.stores import log

Counts = dict[tuple[str, str, str], int]

COUNTED = "SELECT stream, CAST(date AS VARCHAR(10)), topic, count(*) FROM {} GROUP BY ALL"


@skipIf(find_spec("duckdb") is None, "DuckDB is not installed")
class ReaderTests(ArchiveTestCase):
    """The finished files of an archive, some of which have been compacted, and others replaced."""

    def test_readers_agree(self) -> None:
        """DuckDB, Spark's own Parquet and C{format("msmq")} count what the archive says of itself."""
        spark = shared_session()
        self.update()
        self.now += DAY
        self.update()
        self.write(*(log(number) for number in range(21, 31)))
        self.update()
        self.compact()
        expected = {each: number for each, number in self.archived().items() if each[0] != "events"}
        files = f"{self.directory.absolute()}/messages"

        duck = import_module("duckdb").connect()
        by_duckdb: Counts = {
            (stream, date, topic): count
            for stream, date, topic, count in duck.sql(
                COUNTED.format(f"read_parquet('{files}/**/*.parquet', hive_partitioning = true)")
            ).fetchall()
        }
        spark.read.parquet(files).createOrReplaceTempView("archived")
        by_spark: Counts = {
            (row[0], row[1], row[2]): row[3]
            for row in spark.sql(COUNTED.format("archived").replace("VARCHAR(10)", "STRING")).collect()
        }
        self.assertEqual(by_duckdb, by_spark)
        self.assertEqual(sum(by_spark.values()), sum(expected.values()))
        by_topic = spark.read.format("msmq").option("columns", "topic,offset").load(files).collect()
        self.assertEqual(
            sorted((row.topic, row.offset) for row in by_topic),
            sorted((topic, offset) for _, topic, offset in expected),
        )
        self.assertTrue(all(Path(files, f"stream={stream}").is_dir() for stream, _, _ in by_duckdb))
