"""Command of the job C{checks}: expectations on an archive, as views of SQL."""

from __future__ import annotations

from argparse import ArgumentParser
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from msmq.pipeline.archive.erased import has_numbers
from msmq.pipeline.archive.erasures import ErasureRecord
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.archive.removed_manifests import all_manifests
from msmq.pipeline.checks import CHECKS, DIALECTS, SPARK, Check, statements_of, views
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reports import JobReport, Plot, Section, Series, Table
from msmq.pipeline.reports.model import Cell
from msmq.pipeline.spark.inputs import JobInput, missing_note
from msmq.pipeline.spark.running.job import EXCEEDED, Job, JobContext, JobOutcome

_KEEPS_PLANS: Final = "spark.sql.legacy.storeAnalyzedPlanForView"
_DELETED: Final = "(deleted queues)"
"""The topic of rows of queues of which nothing is archived any more."""


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--expect",
        action="append",
        default=[],
        choices=[check.name for check in CHECKS],
        metavar="CHECK",
        help="exit status 3 if this check finds rows; may be repeated. Checks: "
        + ", ".join(check.name for check in CHECKS),
    )


def _run(setting: JobContext) -> JobOutcome:
    if len(setting.inputs) != 1:
        raise ReadingError(f"checks takes one archive as --input, not {len(setting.inputs)}")
    [one] = setting.inputs
    archive = one.path
    if archive is None or not one.is_archive:
        raise ReadingError(
            f"the input {one.shown} is not an archive: make one with msmq archive update {one.shown}"
        )
    where = str(archive.absolute())
    has = {f"has_{kind}": _has_files(archive / kind) for kind in ("messages", "events")}
    has["has_erased"] = has_numbers(archive)
    scripts = {f"checks_{dialect}.sql": views(where, dialect, **has) for dialect in DIALECTS}
    _create_views(setting.spark, scripts[f"checks_{SPARK}.sql"])
    counts = _counts(setting.spark)
    expected = {*setting.options.expect}
    broken = [check for check in CHECKS if counts[check]]
    rows: list[list[Cell]] = [
        [check.name, counts[check], check.name in expected, check.meaning] for check in CHECKS
    ]
    found = [f"{check.name} {counts[check]:,}" for check in broken]
    verdict = f"{len(CHECKS)} checks: " + (
        f"rows in {', '.join(found)}" if found else "no rows in any of them"
    )
    if not has["has_messages"]:
        verdict += "; the archive has no finished file of messages (msmq archive update --compact)"
    erased, erasures = _erased(Archive(archive))
    verdict += erased
    if missing := missing_note(setting.inputs):
        verdict += f"; {missing}: a gap may be one of these"
    report = JobReport(
        "Checks of an archive",
        verdict,
        setting.facts,
        [
            Section(
                "Checks",
                "The rows of each check are those of its view in checks_duckdb.sql and checks_spark.sql."
                " Rows that are still in fresh files are not in the views.",
                tables=[
                    Table("By check", ("check", "rows", "expected to be none", "its rows"), rows),
                    *([Table("Erased rows", ("topic", "stream", "rows"), erasures)] if erasures else []),
                ],
                plots=[
                    Plot(
                        "Rows of the checks",
                        "bars",
                        [
                            Series(
                                "rows",
                                [check.name for check in broken],
                                [counts[check] for check in broken],
                            )
                        ],
                    )
                ],
            )
        ],
    )
    table = setting.spark.createDataFrame(
        [(check.name, check.meaning, counts[check]) for check in CHECKS],
        "name STRING, meaning STRING, found BIGINT",
    )
    tables = {"checks": table.withColumn("is_expected", F.col("name").isin(*expected, ""))}
    tables |= {check.view: setting.spark.table(check.view) for check in broken}
    status = EXCEEDED if any(check.name in expected for check in broken) else 0
    return JobOutcome(report, tables, files=scripts, status=status)


def _create_views(spark: SparkSession, script: str) -> None:
    """Create the views of a script, each of which is analysed once.

    Spark keeps the text of a view of SQL by default, and analyses it in each query anew: that lists the files
    of the archive and reads their schemas for each use of C{messages}, dozens of times.
    """
    before = spark.conf.get(_KEEPS_PLANS) or "false"
    spark.conf.set(_KEEPS_PLANS, "true")
    try:
        for statement in statements_of(script):
            spark.sql(statement)
    finally:
        spark.conf.set(_KEEPS_PLANS, before)


def _counts(spark: SparkSession) -> dict[Check, int]:
    """The number of rows of each check, in one query."""
    counted = [
        spark.table(check.view).agg(F.lit(check.name).alias("name"), F.count("*").alias("rows"))
        for check in CHECKS
    ]
    found = {row["name"]: row["rows"] for row in reduce(DataFrame.unionAll, counted).collect()}
    return {check: found[check.name] for check in CHECKS}


def _erased(archive: Archive) -> tuple[str, list[list[Cell]]]:
    """What was erased from an archive: the end of the verdict, and rows by topic and stream."""
    manifests, removed = all_manifests(archive)
    found = [(each.topic, each.stream, each.erased) for each in manifests]
    found += [(_DELETED, stream, each.erased) for stream, each in removed.items()]
    rows: list[list[Cell]] = [list(each) for each in found if each[2]]
    if not rows:
        return "", rows
    text = f"; {sum(count for *_, count in found):,} rows were erased, which are not counted as gaps"
    if unnumbered := ErasureRecord(archive).summary().unnumbered:
        text += (
            f", except that {unnumbered:,} rows of message logs were erased before msmq recorded their"
            " numbers: a gap may be one of these"
        )
    return text, rows


def _has_files(directory: Path) -> bool:
    return next(directory.rglob("*.parquet"), None) is not None


JOB = Job(
    "checks",
    "expectations on an archive, as views of SQL for DuckDB, dbt and Great Expectations",
    _run,
    lambda _: JobInput(()),
    _add_options,
)
