"""The views of C{checks} find what was planted in an archive, in Spark and in DuckDB alike."""

from __future__ import annotations

import json
import os
import shutil
import signal
from argparse import Namespace
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import attrs
import duckdb
from openlineage.client.transport.file import FileTransport
from pyarrow import parquet
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import AppendLog, RemoveQueue, TrimLog
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.archive.upkeep import erase, rows
from msmq.pipeline.archive.where import parse_condition
from msmq.pipeline.checks import CHECKS, DUCKDB, SPARK, statements_of, views
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.rows import message_batch
from msmq.pipeline.schema import EXPORTED_COLUMNS, names_of
from msmq.pipeline.spark import command
from msmq.pipeline.spark.command import main, parser, run
from msmq.pipeline.spark.running.checks import JOB
from msmq.pipeline.spark.running.job import Job, JobContext, JobOutcome
from msmq.pipeline.stored_packets import StoredPacket
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_message import UserMessage
from tests.builders import BETA, user_packet
from tests.pipeline.archive.archive_case import DAY, ArchiveTestCase
from tests.pipeline.spark_support import jobs_so_far, shared_session
from tests.pipeline.stores import ARRIVED, BILLS_JOURNAL, ORDERS, event, lookup_id, packet

OPENLINEAGE = ("eventTime", "producer", "schemaURL", "run", "job", "eventType")


def entry(
    number: int, arrived: float, *, message_id: int = 0, sequence: tuple[int, int] | None = None
) -> AppendLog:
    """An entry of the log of orders.

    @param sequence: the number of the message in its sequence, and that of its predecessor.
    """
    content = user_packet(
        b"x", message_id=message_id or number, recoverable=True, sent_time=1_700_000_000, source=BETA
    )
    if sequence is not None:
        header = TransactionHeader(TxSequenceID(7, 0), *sequence)
        content = attrs.evolve(UserMessage.from_bytes(content), transaction=header).to_bytes()
    return AppendLog(ORDERS.identifier, lookup_id(number), content, arrived)


class ChecksTests(ArchiveTestCase):
    """An archive with faults."""

    def run_job(self, *arguments: str) -> tuple[int, str, str]:
        """Status, output, complaints."""
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(arguments)
        return status, out.getvalue(), err.getvalue()

    def test_planted(self) -> None:
        """Each check has the planted rows, in Spark as in DuckDB, with few queries; lineage names what was
        read and written.
        """
        shared_session()
        self.write(
            entry(101, ARRIVED + 40),
            # The clock was set back, the message came twice, and it arrived before it was sent.
            entry(102, ARRIVED + 39, message_id=101),
            entry(103, ARRIVED - 100),
            # The third of the sequence, whose predecessor is the second, is missing.
            entry(104, ARRIVED + 41, sequence=(1, 0)),
            entry(105, ARRIVED + 42, sequence=(2, 1)),
            entry(106, ARRIVED + 43, sequence=(4, 3)),
            entry(107, ARRIVED + 44, sequence=(5, 4)),
            # It came twice, which is no gap.
            entry(108, ARRIVED + 45, message_id=107, sequence=(5, 4)),
            *map(event, (6, 7)),
        )
        self.update()
        self.now += 2 * DAY
        self.update()
        self.compact()
        output, lineage = self.directory.parent / "out", self.directory.parent / "lineage.jsonl"
        before = jobs_so_far()
        status, out, err = self.run_job(
            *("checks", "--input", f"ALPHA={self.directory}", "--output", str(output)),
            *("--expect", "arrived_twice", "--lineage", str(lineage)),
        )
        self.assertEqual((status, err), (3, ""))
        # The schemas of messages and of events, for the estate and for the views; all counts; each table.
        tables = len(list(output.glob("check*/_SUCCESS")))
        self.assertLessEqual(jobs_so_far() - before, 5 + tables)
        self.assertIn("arrived_twice 2", out)
        by_spark = {row["name"]: row["found"] for row in parquet.read_table(output / "checks").to_pylist()}
        database = duckdb.connect()
        database.execute((output / "checks_duckdb.sql").read_text())
        by_duckdb = {
            check.name: database.sql(f"SELECT count(*) FROM {check.view}").fetchall()[0][0]
            for check in CHECKS
        }
        self.assertEqual(by_spark, by_duckdb)
        planted = {
            "offset_twice": 0,
            "arrived_twice": 2,
            "sequence_gap": 1,
            "arrived_before_sent": 1,
            "clock_set_back": 2,
            "dead_letter": 2,
            "refused": 0,
            "removed_unread": 7,
        }
        self.assertEqual({name: by_spark[name] for name in planted}, planted)
        twice = parquet.read_table(output / "check_arrived_twice").to_pylist()
        self.assertEqual([(row["topic"], row["copies"]) for row in twice], [(r".\private$\orders", 2)] * 2)
        self.assert_lineage(lineage.read_text(), str(output.absolute() / "checks"))

    def test_erased(self) -> None:
        """An erased message is no gap, in Spark and DuckDB; one that is missing next to it still is."""
        shared_session()
        last = {2: 1, 3: 2, 4: 3, 6: 5, 7: 6, 8: 7, 9: 8}
        self.write(
            entry(101, ARRIVED + 40, sequence=(1, 0)),
            # The fifth of the sequence never arrived.
            *(entry(100 + n, ARRIVED + 40 + n, sequence=(n, before)) for n, before in last.items()),
        )
        self.update()
        self.compact()
        for number in (103, 107, 108):
            erase(self.archive, parse_condition(f"offset = {self.offset(number)}"), self.now)
        output = self.directory.parent / "out"
        arguments = ("--input", f"ALPHA={self.directory}", "--output")
        status, out, err = self.run_job("checks", *arguments, str(output), "--expect", "sequence_gap")
        self.assertEqual((status, err), (3, ""))
        self.assertIn("3 rows were erased, which are not counted as gaps", out)
        [gap] = parquet.read_table(output / "check_sequence_gap").to_pylist()
        self.assertEqual((gap["sequence_number"], gap["previous"]), (6, 5))
        database = duckdb.connect()
        database.execute((output / "checks_duckdb.sql").read_text())
        self.assertEqual(len(database.sql("SELECT * FROM check_sequence_gap").fetchall()), 1)
        erase(self.archive, parse_condition(f"offset = {self.offset(106)}"), self.now)
        status, out, err = self.run_job("sequences", *arguments, str(self.directory.parent / "audit"))
        self.assertEqual((status, err), (0, ""))
        self.assertIn("4 erased messages are counted as arrived", out)
        found = parquet.read_table(self.directory.parent / "audit" / "findings").to_pylist()
        gaps = [(row["number"], row["missing"]) for row in found if row["kind"] == "gap"]
        self.assertEqual(gaps, [(6, 1)])

    def test_erased_rows_of_deleted_queues(self) -> None:
        """The table has those of queues of which nothing is archived any more, as the verdict has."""
        shared_session()
        self.update()
        for number in (32, 35):
            erase(self.archive, parse_condition(f"label = 'message {number}'"), self.now)
        self.write(RemoveQueue(BILLS_JOURNAL.identifier))
        for days in (30, 1):
            self.now += days * DAY
            self.write(AppendLog(ORDERS.identifier, lookup_id(days), packet(days), self.now))
            self.update(keep_days=10)
        self.compact()
        output = str(self.directory.parent / "out")
        status, out, err = self.run_job("checks", f"--input={self.directory}", "--output", output)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("; 2 rows were erased, which are not counted as gaps\n", out)
        report = (Path(output) / "report.txt").read_text()
        table = [line.split() for line in report.partition("Erased rows\n")[2].splitlines()[1:3]]
        self.assertEqual(
            [
                [".\\system$;deadletter", "dead_letter", "1"],
                ["(deleted", "queues)", "journal", "1"],
            ],
            table,
        )

    def test_fates_of_erased_messages(self) -> None:
        """A message whose entry in the log was erased is neither lost nor unknown; where no record says what
        was erased, the report says that a lost message may be one of these.
        """
        shared_session()
        self.update()
        self.compact()
        for number in (6, 7):
            erase(self.archive, parse_condition(f"label = 'message {number}'"), self.now)
        sent = self.directory.parent / "sent.parquet"
        journal = [
            StoredPacket(packet(n), r".\system$;journal", offset=n, aborts=0, moves=0) for n in (6, 8, 99)
        ]
        batch = message_batch(journal, names_of(EXPORTED_COLUMNS))
        with parquet.ParquetWriter(sent, batch.schema) as writer:
            writer.write_batch(batch)
        arguments = (f"--input=ALPHA={self.directory}", f"--input=BETA={sent}", "--output")
        output = self.directory.parent / "fates"
        status, out, err = self.run_job("loss", *arguments, str(output))
        self.assertEqual((status, err), (0, ""))
        table = parquet.read_table(output / "fates").to_pylist()
        found = {row["id"].rpartition("\\")[2]: (row["fate"], row["reason"]) for row in table}
        erased = "erased", r"erased from log .\private$\orders"
        self.assertEqual((found["6"], found["7"]), (erased, erased))
        self.assertEqual((found["8"], found["99"]), (("delivered", None), ("lost", None)))
        self.assertIn(f"{len(table)} messages, ", out)
        self.assertIn("2 lost, ", out)
        self.assertIn("2 erased from an archive\n", out)
        # As an earlier version has left it.
        record = self.directory / "_erasures.jsonl"
        record.write_text(record.read_text().replace('"identifiers"', '"other"'))
        shutil.rmtree(self.directory / "_erased_identifiers")
        status, out, err = self.run_job("loss", *arguments, str(self.directory.parent / "before"))
        self.assertEqual((status, err), (0, ""))
        self.assertIn("3 lost, ", out)
        self.assertIn("; 2 rows were erased from archives before msmq recorded the identifiers", out)

    def test_names_of_directories(self) -> None:
        """The characters of patterns in the path of an archive mean themselves, also in the scripts."""
        shared_session()
        self.directory = self.directory.with_name("odd [1] {a,b} x?*")
        self.archive = Archive(self.directory)
        self.write(*(entry(n, ARRIVED + n, sequence=(n, n - 1)) for n in range(41, 44)))
        self.update()
        self.compact()
        erase(self.archive, parse_condition("offset = 22"), self.now)
        out, output = "", self.directory.parent
        for job in ("loss", "sequences", "checks"):
            output = self.directory.parent / job
            status, out, err = self.run_job(
                job, f"--input=ODD={self.directory.absolute()}", "--output", str(output)
            )
            self.assertEqual((0, ""), (status, err), out)
        self.assertIn("rows in dead_letter 2, removed_unread 5; 1 rows were erased", out)
        database = duckdb.connect()
        for statement in statements_of((output / "checks_duckdb.sql").read_text()):
            database.execute(statement)
        self.assertEqual(
            [(26, 1)], database.sql("SELECT count(*), (SELECT count(*) FROM erased) FROM messages").fetchall()
        )

    def test_fates_where_an_archive_lacks_entries(self) -> None:
        """The verdict says that a lost message, or a gap, may be one of those that were trimmed before."""
        shared_session()
        self.update()
        self.write(entry(40, ARRIVED + 40), entry(41, ARRIVED + 41), entry(42, ARRIVED + 42))
        self.write(TrimLog(ORDERS.identifier, before=ARRIVED + 41.5, keep_bytes=None))
        self.update()
        self.compact()
        fate, gap = "a lost, missing or unknown message", "a gap"
        for job, what, more in (
            ("loss", fate, ()),
            ("sla", fate, ("--limit", "lost=0")),
            ("sequences", gap, ()),
            ("checks", gap, ()),
        ):
            output = str(self.directory.parent / job)
            _, out, err = self.run_job(job, f"--input={self.directory}", "--output", output, *more)
            self.assertEqual("", err)
            self.assertIn(
                f"; archives lack up to 2 entries of message logs (msmq archive check): {what} may be", out
            )

    def offset(self, number: int) -> int:
        """The offset of the entry with this number."""
        for batch in rows(self.archive, "log", ("offset", "lookup_id")):
            for row in batch.to_pylist():
                if row["lookup_id"] == lookup_id(number):
                    return int(row["offset"])
        raise AssertionError(number)

    def assert_lineage(self, lines: str, table: str) -> None:
        """A start and an end of one run, each with what OpenLineage requires of an event."""
        start, end = map(json.loads, lines.splitlines())
        self.assertEqual((start["eventType"], end["eventType"]), ("START", "COMPLETE"))
        for one in (start, end):
            self.assertEqual([name for name in OPENLINEAGE if not one.get(name)], [])
            self.assertEqual(one["job"]["name"], "msmq.pipeline.checks")
            self.assertEqual(one["inputs"][0]["name"], str(self.directory.absolute()))
        self.assertEqual(start["run"]["runId"], end["run"]["runId"])
        [written] = [one for one in end["outputs"] if one["name"] == table]
        fields = [field["name"] for field in written["facets"]["schema"]["fields"]]
        self.assertEqual(fields, ["name", "meaning", "found", "is_expected"])

    def test_refused(self) -> None:
        """What is not an archive is refused, and a run that fails is reported to OpenLineage."""
        shared_session()
        lineage = self.directory.parent / "failed.jsonl"
        status, out, err = self.run_job(
            *("checks", "--input", str(self.data), "--output", str(self.directory.parent / "none")),
            *("--lineage", str(lineage)),
        )
        self.assertEqual((status, out, err.count("\n")), (1, "", 1), err)
        self.assertIn("is not an archive: make one with msmq archive update", err)
        failed = json.loads(lineage.read_text().splitlines()[-1])
        self.assertEqual(failed["eventType"], "FAIL")
        self.assertIn("is not an archive", failed["run"]["facets"]["errorMessage"]["message"])
        status, _, err = self.run_job(
            *("checks", "--input", str(self.data), "--output", str(self.directory.parent / "none")),
            *("--lineage", "/nowhere/events.jsonl"),
        )
        self.assertEqual(status, 1)
        self.assertIn("--lineage /nowhere/events.jsonl: there is no directory /nowhere", err)

    def test_lineage_that_fails(self) -> None:
        """The reason why a job failed is shown, also if the failure cannot be reported."""
        shared_session()
        place = self.directory.parent / "gone"
        place.mkdir()

        def fail(_: JobContext) -> JobOutcome:
            shutil.rmtree(place)
            raise ReadingError("the reason")

        error = self.assertRaises(ReadingError, run, *self.job_that(fail, place / "lineage.jsonl"))
        self.assertEqual("the reason", str(error))

    def test_interrupted(self) -> None:
        """A run that is interrupted has an end in OpenLineage."""
        shared_session()
        lineage = self.directory.parent / "interrupted.jsonl"

        def interrupt(_: JobContext) -> JobOutcome:
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            run(*self.job_that(interrupt, lineage))
        events = [json.loads(line)["eventType"] for line in lineage.read_text().splitlines()]
        self.assertEqual(["START", "ABORT"], events)

    def test_interrupted_while_it_is_reported(self) -> None:
        """It has an end also if the interrupt comes while the start is sent."""
        lineage = self.directory.parent / "start.jsonl"
        emit, interrupts = FileTransport.emit, iter([KeyboardInterrupt])

        def interrupted(transport: FileTransport, event: Any) -> None:
            emit(transport, event)
            for each in interrupts:
                raise each

        self.patch(FileTransport, "emit", interrupted)
        with self.assertRaises(KeyboardInterrupt):
            run(*self.job_that(lambda _: self.fail("the job begins"), lineage))
        events = [json.loads(line)["eventType"] for line in lineage.read_text().splitlines()]
        self.assertEqual(["START", "ABORT"], events)

    def test_terminated(self) -> None:
        """So has one that SIGTERM ends, and its exit status is that of the signal."""
        shared_session()
        lineage = self.directory.parent / "terminated.jsonl"

        def terminate(_: JobContext) -> JobOutcome:
            os.kill(os.getpid(), signal.SIGTERM)
            return self.fail("the job goes on")

        job, options = self.job_that(terminate, lineage)
        self.patch(command, "JOBS", (job,))
        self.addCleanup(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, signal.SIG_DFL))
        status = main(
            ["checks", "--input", *options.input, "--output", options.output, "--lineage", str(lineage)]
        )
        self.assertEqual(143, status)
        events = [json.loads(line)["eventType"] for line in lineage.read_text().splitlines()]
        self.assertEqual(["START", "ABORT"], events)

    def test_unexpected_error(self) -> None:
        """A run that ends by an error of a library has an end in OpenLineage too."""
        shared_session()
        lineage = self.directory.parent / "unexpected.jsonl"

        def fail(_: JobContext) -> JobOutcome:
            raise ValueError("of a library")

        error = self.assertRaises(ValueError, run, *self.job_that(fail, lineage))
        self.assertEqual("of a library", str(error))
        start, end = map(json.loads, lineage.read_text().splitlines())
        self.assertEqual(("START", "FAIL"), (start["eventType"], end["eventType"]))
        self.assertEqual("of a library", end["run"]["facets"]["errorMessage"]["message"])

    def job_that(self, do: Callable[[JobContext], JobOutcome], lineage: Path) -> tuple[Job, Namespace]:
        """A job, and options for it."""
        output = str(self.directory.parent / "none")
        given = ["checks", "--input", str(self.data), "--output", output, "--lineage", str(lineage)]
        return attrs.evolve(JOB, run=do), parser().parse_args(given)


class ViewTests(SynchronousTestCase):
    """The scripts."""

    def test_empty_archive(self) -> None:
        """Over an archive without finished files all views exist, and are empty."""
        database = duckdb.connect()
        for statement in statements_of(views("/nowhere", DUCKDB, has_messages=False, has_events=False)):
            database.execute(statement)
        for check in CHECKS:
            self.assertEqual(database.sql(f"SELECT * FROM {check.view}").fetchall(), [])

    def test_quoted(self) -> None:
        """A directory with quotation marks is named as it is."""
        script = views("/srv/o'clock/`x`", DUCKDB, has_messages=True, has_events=True)
        self.assertIn("'/srv/o''clock/`x`/messages/**/*.parquet'", script)
        script = views("/srv/o'clock/`x`", SPARK, has_messages=True, has_events=True)
        self.assertIn("parquet.`/srv/o'clock/``x``/messages`", script)
