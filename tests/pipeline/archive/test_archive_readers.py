"""Other programs read the Parquet files of an archive, and count the same rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from unittest import skipIf
from uuid import UUID

import attrs

from msmq.persistence.changes import AppendLog, PutMessage, PutQueue, RemoveQueue
from msmq.pipeline.archive import changes
from msmq.pipeline.archive.upkeep import erase
from msmq.pipeline.archive.where import parse_condition
from msmq.pipeline.files.format import read_file
from msmq.pipeline.files.import_files import files_in
from msmq.pipeline.files.import_rows import rows_of
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.spark.inputs import parse_input, read_rows
from tests.pipeline.archive.archive_case import DAY, ArchiveTestCase, killed
from tests.pipeline.spark_support import shared_session
from tests.pipeline.stores import ARRIVED, BILLS, BILLS_JOURNAL, ORDERS, event, log, lookup_id, packet

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

    def test_while_a_file_is_written(self) -> None:
        """DuckDB, which also reads files whose names begin with a dot, has the finished rows then, and after
        the writer was killed.
        """
        self.update()
        self.compact()
        self.write(*(log(number) for number in range(21, 31)))
        self.update()
        duck = import_module("duckdb").connect()
        files = f"{self.directory.absolute()}/messages/**/*.parquet"

        def rows() -> int:
            [(number,)] = duck.sql(f"SELECT count(*) FROM read_parquet('{files}')").fetchall()
            return int(number)

        finished, whole = rows(), rows() + 10
        left = 0
        for moment in count(1):
            if not killed(self.compact, self.directory, moment):
                break
            self.assertIn(rows(), (finished, whole))
            left += len([*self.directory.rglob("messages/**/.*")])
            self.update()
            self.assertEqual([], [*self.directory.rglob("messages/**/.*")])
        self.assertEqual(whole, rows())
        self.assertGreater(left, 0)
        self.write(*(log(number) for number in range(31, 41)))
        self.update()
        found = []

        def read_slowly(path: Path) -> Iterator[Any]:
            for batch in read_file(path):
                found.append(rows())
                yield batch

        self.patch(changes, "read_file", read_slowly)
        self.compact()
        self.assertEqual([whole], found)


class FinishedFilesTests(ArchiveTestCase):
    """Jobs and imports read the files that the manifests name."""

    def setUp(self) -> None:
        """The log has two files of one date."""
        super().setUp()
        self.update()
        self.compact()
        self.write(*(log(number) for number in range(40, 45)))
        self.update()
        self.compact()

    def imported(self) -> list[int]:
        """The offsets of the log in the order of an import."""
        lines: list[str] = []
        found = files_in([self.directory], on_left_out=lines.append)
        self.assertEqual(
            [f"{self.directory.absolute()}: left out 1 file of events, which cannot be sent"], lines
        )
        return [row.offset for file in found for row in rows_of(file) if row.topic.endswith("orders")]

    def test_an_import_after_an_erasure(self) -> None:
        """The messages are in the order of the log, although files of an earlier date were written again."""
        self.assertEqual([*range(1, 26)], self.imported())
        # Events are not sent from any file, so these need not be compacted.
        self.write(event(6))
        self.update()
        erase(self.archive, parse_condition("label = 'message 3'"), self.now)
        self.assertEqual([1, 2, *range(4, 26)], self.imported())

    def test_a_queue_made_again(self) -> None:
        """Its messages are imported after those of the queue before it, whatever their files are called."""
        numbers = [*range(1, 26)]
        before = ORDERS
        for number in range(50, 54):
            again = attrs.evolve(ORDERS, identifier=UUID(int=number))
            self.write(RemoveQueue(before.identifier), PutQueue(again), log(number, again))
            self.update()
            self.compact()
            numbers.append(numbers[-1] + 1)
            self.assertEqual(numbers, self.imported())
            before = again

    def test_a_queue_with_a_log_and_a_journal(self) -> None:
        """Its messages are sent once: the journal is left out, unless it is named."""
        self.write(PutQueue(attrs.evolve(BILLS, log=True)), log(32, BILLS))
        self.update()
        self.compact()
        for topic, streams in (
            ("", ["dead_letter", "dead_letter_transactional", "log", "log", "log", "source_journal"]),
            ("bills", ["dead_letter", "dead_letter_transactional", "log", "log", "log", "source_journal"]),
            ("bills;journal", ["journal"]),
        ):
            lines: list[str] = []
            files = files_in([self.directory], topic=topic, on_left_out=lines.append)
            found = [path.parent.parent.name.removeprefix("stream=") for path in files]
            is_left_out = "journal" not in streams
            self.assertEqual(is_left_out, any(".\\private$\\Bills;journal, since" in line for line in lines))
            self.assertEqual(is_left_out, "journal" not in found)
            if is_left_out:
                self.assertEqual(streams, sorted(found))

    def test_a_journal_that_is_older_than_the_log(self) -> None:
        """Its messages of days of which the log has none are sent, and a line names the others."""
        for days, queue in (
            (2, BILLS),
            (2, BILLS_JOURNAL),
            (4, BILLS),
            (4, BILLS_JOURNAL),
            (5, BILLS_JOURNAL),
        ):
            moment, number = ARRIVED + days * DAY, 50 + days
            self.write(
                PutQueue(attrs.evolve(BILLS, log=True)),
                AppendLog(queue.identifier, number, packet(number), moment)
                if queue is BILLS
                else PutMessage(queue.identifier, lookup_id(number), packet(number), moment),
            )
        self.update()
        self.compact()
        lines: list[str] = []
        found = files_in([self.directory], on_left_out=lines.append)
        name = ".\\private$\\Bills;journal"
        self.assertIn(
            f"{self.directory.absolute()}: left out the messages of 2 days from 2023-11-16 to 2023-11-18 in"
            f" {name}, since the message log of the queue, which is sent, has most of these too;"
            f" --topic '{name}' sends them",
            lines,
        )
        sent = [row.offset for file in found for row in rows_of(file) if row.topic == name]
        self.assertEqual([32, 55], sent)
        bills = ".\\private$\\Bills"
        dates = [
            file.parent.name for file in found if any(row.topic.startswith(bills) for row in rows_of(file))
        ]
        self.assertEqual([f"date=2023-11-{day}" for day in (14, 16, 18, 19)], dates)

    def test_a_compaction_during_the_search(self) -> None:
        """The files are those of one moment: a journal that becomes Parquet meanwhile is not sent twice."""
        self.write(PutQueue(attrs.evolve(BILLS, log=True)), log(32, BILLS))
        self.update()
        self.compact()
        self.write(PutMessage(BILLS_JOURNAL.identifier, lookup_id(60), packet(60), ARRIVED))
        self.update()
        found = files_in([self.directory], on_left_out=lambda line: self.compact())
        self.assertEqual([], [path for path in found if "stream=journal" in str(path)])

    def test_files_that_no_manifest_names(self) -> None:
        """An erasure that is killed leaves one: its rows are read once, by jobs as by an import."""
        [path, *_] = self.archive.finished("log")
        shutil.copy(path, path.with_name(path.name.replace("-00000", "-90000")))
        self.assertEqual([*range(1, 26)], self.imported())
        inputs = [parse_input(str(self.directory))]
        rows = read_rows(shared_session(), inputs, "log", ("topic", "offset"))
        self.assertEqual([*range(1, 26)], sorted(row["offset"] for row in rows.collect()))
        path.unlink()
        error = self.assertRaises(ReadingError, read_rows, shared_session(), inputs, "log", ("offset",))
        self.assertIn(f"{path} is gone", str(error))
