"""C{python -m msmq.pipeline JOB}: reads inputs, runs the job, writes its report."""

from __future__ import annotations

import re
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import current_thread, main_thread
from typing import Final, NoReturn

import attrs
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from msmq.directory.enterprise_file import EnterpriseFileError, load_enterprise
from msmq.errors import MsmqError
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reports import html_page, text_page
from msmq.pipeline.reports.model import plain
from msmq.pipeline.spark.failures import reason
from msmq.pipeline.spark.inputs import are_small, check_inputs, parse_input, read_estate, unread_rows
from msmq.pipeline.spark.jobs.estate import EVENTS, MESSAGES, Estate
from msmq.pipeline.spark.lineage import LineageRun
from msmq.pipeline.spark.running import (
    checks,
    deadletters,
    drift,
    latency,
    loss,
    quota,
    replay,
    routes,
    sequences,
    sla,
    topology,
)
from msmq.pipeline.spark.running.inputs_section import inputs_section
from msmq.pipeline.spark.running.job import Job, JobContext, JobOutcome, TableCache
from msmq.pipeline.spark.session import OF_JOBS, make_session, planned_once, settings_for_little_data
from msmq.routing.topology import Topology

JOBS: Final = (
    loss.JOB,
    latency.JOB,
    sequences.JOB,
    routes.JOB,
    deadletters.JOB,
    quota.JOB,
    sla.JOB,
    drift.JOB,
    checks.JOB,
    replay.JOB,
    topology.JOB,
)

REFUSED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
TERMINATED: Final = 143


class _JobTerminated(BaseException):
    """SIGTERM has arrived."""


class _Parser(ArgumentParser):
    """Argument parser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        """Report an error of the command line, and exit."""
        self.exit(WRONG_USAGE, f"{self.prog}: {message}\n")


def parser() -> ArgumentParser:
    """The command line."""
    whole = _Parser(
        prog="python -m msmq.pipeline", description="Analysis jobs on the messages and logs of an estate."
    )
    verbs = whole.add_subparsers(metavar="JOB", required=True)
    for job in JOBS:
        verb = verbs.add_parser(job.name, help=job.summary, description=job.summary)
        verb.set_defaults(job=job)
        if job.wanted is not None:
            verb.add_argument(
                "--input",
                action="append",
                required=True,
                metavar="[NAME=]LOCATION",
                help="a data directory, postgresql://..., a capture or Parquet; may be repeated",
            )
            verb.add_argument(
                "--allow-data-loss",
                action="store_true",
                help="leave out rows that are trimmed while they are read, or are damaged in a store",
            )
        verb.add_argument(
            "--output",
            required=True,
            metavar="DIR",
            help="the directory for tables and reports; new or empty",
        )
        verb.add_argument(
            "--enterprise",
            required=job.needs_enterprise,
            metavar="FILE",
            help="the enterprise file, for the names of queue managers and their routes",
        )
        verb.add_argument(
            "--master", metavar="URL", help="where Spark runs, such as local[2] or spark://HOST:7077"
        )
        verb.add_argument(
            "--lineage",
            metavar="WHERE",
            help="report the run to OpenLineage: http(s)://..., or a file to which events are appended",
        )
        job.add_options(verb)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job, and return the exit status."""
    try:
        options = parser().parse_args(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else WRONG_USAGE
    try:
        with _terminated_by_signal():
            outcome = run(options.job, options)
        print(text_page(outcome.report), end="")
    except KeyboardInterrupt:
        return INTERRUPTED
    except _JobTerminated:
        return TERMINATED
    except (MsmqError, PySparkException, Py4JError, OSError) as error:
        line = plain(" ".join(_reason(error).split()))
        print(f"python -m msmq.pipeline {options.job.name}: {line}", file=sys.stderr)
        return REFUSED
    return outcome.status


@contextmanager
def _terminated_by_signal() -> Iterator[None]:
    """End what runs by an exception when SIGTERM arrives, so that the end of the run is reported.

    A second one ends the process at once. A program that handles the signal itself keeps its handler.
    """
    is_free = current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not is_free:
        yield
        return

    def terminate(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise _JobTerminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _reason(error: Exception) -> str:
    """An error in one line; for a failure in Spark the cause, from the Java exception."""
    if not isinstance(error, Py4JJavaError):
        return reason(error)
    causes = re.findall(r"^(?:Caused by)?: [\w.$]+: (.+)$", str(error), re.MULTILINE)
    return str(causes[0]) if causes and reason(error) == str(error).splitlines()[0] else reason(error)


def run(job: Job, options: Namespace) -> JobOutcome:
    """Run a job, write its result, and return it.

    What the run has cached is removed from the session at its end, also if it fails.

    @raise MsmqError: an input is invalid, or Spark is not installed.
    """
    reported = None
    if options.lineage is not None:
        inputs = [parse_input(text) for text in options.input] if job.wanted is not None else []
        streams = job.wanted(options).streams if job.wanted is not None else ()
        reported = LineageRun(options.lineage, job.name, inputs, streams, Path(options.output))
    try:
        if reported is not None:
            try:
                reported.started()
            except ReadingError:
                # It accepts no other event either.
                reported = None
                raise
        outcome = _run(job, options)
    except BaseException as error:
        if reported is not None:
            # What is wrong with the job comes first.
            with suppress(ReadingError):
                if isinstance(error, Exception):
                    reported.failed(plain(" ".join(_reason(error).split())))
                else:
                    reported.aborted()
        raise
    if reported is not None:
        reported.completed(outcome)
    return outcome


def _run(job: Job, options: Namespace) -> JobOutcome:
    output = Path(options.output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ReadingError(f"the output {output} exists and is not an empty directory")
    inputs = [parse_input(text) for text in options.input] if job.wanted is not None else []
    check_inputs(inputs)
    if job.wanted is not None and options.allow_data_loss:
        inputs = [attrs.evolve(one, allows_loss=True) for one in inputs]
    enterprise = None if options.enterprise is None else _enterprise(options.enterprise)
    # A session that exists keeps its settings.
    is_quick = SparkSession.getActiveSession() is None and are_small(inputs)
    settings = {**OF_JOBS, **(settings_for_little_data() if is_quick else {})}
    spark = make_session(f"msmq {job.name}", master=options.master, settings=settings)
    spark.sparkContext.setLogLevel("OFF")
    facts = [("enterprise", options.enterprise)] if options.enterprise is not None else []
    cache = TableCache()
    wanted = None if job.wanted is None else job.wanted(options)
    # Packets are read from the fresh files of an archive too. Counted now: an archiver may finish them.
    reads_packets = wanted is not None and (wanted.headers or wanted.decode != "none")
    unread = 0 if reads_packets else unread_rows(inputs, "" if wanted is None else wanted.archived)
    try:
        with planned_once(spark, is_quick=is_quick):
            if wanted is None:
                estate = Estate(spark.createDataFrame([], MESSAGES), spark.createDataFrame([], EVENTS))
            else:
                # A job reads its input several times, and decoding is the main cost.
                read = read_estate(spark, inputs, wanted)
                estate = attrs.evolve(read, messages=cache.add(read.messages), events=cache.add(read.events))
            setting = JobContext(spark, estate, options, enterprise, facts, inputs, cache)
            outcome = job.run(setting).without_fresh(unread)
            if wanted is not None:
                is_counted = bool(wanted.streams)
                outcome = outcome.with_section(inputs_section(setting, is_counted=is_counted))
            write(outcome, output)
    finally:
        # The session may be that of a program that runs many jobs.
        cache.release()
    return outcome


def write(outcome: JobOutcome, output: Path) -> None:
    """Write the tables as Parquet, then the report as C{report.txt}, and C{report.html} last."""
    output.mkdir(parents=True, exist_ok=True)
    for name, table in outcome.tables.items():
        table.write.parquet(str(output.absolute() / name))
    for name, text in outcome.files.items():
        (output / name).write_text(text, encoding="utf-8")
    (output / "report.txt").write_text(text_page(outcome.report), encoding="utf-8")
    (output / "report.html").write_text(html_page(outcome.report), encoding="utf-8")


def _enterprise(path: str) -> Topology:
    try:
        return load_enterprise(Path(path)).topology
    except EnterpriseFileError as error:
        raise ReadingError(f"the enterprise {path} cannot be used: {str(error).splitlines()[0]}") from None
