"""Interface of a job to the command that runs it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
from pyspark.sql import DataFrame, SparkSession

from msmq.pipeline.reports import JobReport, Section, Table
from msmq.pipeline.reports.model import MOST_ROWS, Cell
from msmq.pipeline.spark.inputs import Input, JobInput
from msmq.pipeline.spark.jobs.estate import Estate
from msmq.pipeline.spark.jobs.latency import owners_of
from msmq.routing.topology import Topology
from msmq.wire.guid import parse_guid

EXCEEDED: Final = 3
"""Exit status of a job that finds what its user has declared as wrong."""
UNDECIDED: Final = 4
"""Exit status of a job whose input does not decide whether something is wrong."""


class TableCache:
    """Tables that a run has cached in a session, which may have others."""

    def __init__(self) -> None:
        self._tables: list[DataFrame] = []

    def add(self, table: DataFrame) -> DataFrame:
        """The same table, cached in memory and on disk until L{release}."""
        level = table.storageLevel
        if not (level.useMemory or level.useDisk):
            # Otherwise it is the table of a program that uses the same session, and stays.
            self._tables.append(table)
            table.cache()
        return table

    def release(self) -> None:
        """Remove the tables from the session; they can be read again, and are computed again then."""
        while self._tables:
            self._tables.pop().unpersist()


@attrs.frozen
class JobContext:
    """Context of a job run.

    @ivar estate: its input tables.
    @ivar options: the parsed command line.
    @ivar topology: the enterprise; C{None} if none is given.
    @ivar facts: facts about the inputs, for the report.
    @ivar inputs: the inputs of the estate.
    @ivar cache: the cached tables of this run.
    """

    spark: SparkSession
    estate: Estate
    options: Namespace
    topology: Topology | None = None
    facts: Sequence[tuple[str, Cell]] = ()
    inputs: Sequence[Input] = ()
    cache: TableCache = attrs.field(factory=TableCache)

    def cached(self, table: DataFrame) -> DataFrame:
        """The same table, cached in memory and on disk for this run."""
        return self.cache.add(table)


@attrs.frozen
class JobOutcome:
    """Result of a job.

    @ivar tables: the tables to write as Parquet, by the name of the directory.
    @ivar files: further texts to write, by the name of the file.
    @ivar status: the exit status.
    """

    report: JobReport
    tables: Mapping[str, DataFrame]
    files: Mapping[str, str] = attrs.field(factory=dict)
    status: int = 0

    def without_fresh(self, rows: int) -> JobOutcome:
        """The same result with what its verdict says nothing about: rows of archives that were not read."""
        if not rows:
            return self
        note = f"; {rows:,} rows in fresh files of archives are not looked at (msmq archive compact)"
        return attrs.evolve(self, report=attrs.evolve(self.report, verdict=self.report.verdict + note))

    def with_section(self, section: Section) -> JobOutcome:
        """The same result with another section at the end of its report."""
        sections = [*self.report.sections, section]
        return attrs.evolve(self, report=attrs.evolve(self.report, sections=sections))


@attrs.frozen
class Job:
    """Definition of a job for the command.

    @ivar summary: its description, in a line.
    @ivar wanted: its requirements on the inputs; C{None} if it takes no input.
    @ivar add_options: adds its own options to the parser.
    @ivar needs_enterprise: whether it requires an enterprise file.
    """

    name: str
    summary: str
    run: Callable[[JobContext], JobOutcome]
    wanted: Callable[[Namespace], JobInput] | None = None
    add_options: Callable[[ArgumentParser], None] = lambda parser: None
    needs_enterprise: bool = False


Convert = Callable[[object], Cell]


def shown(
    title: str,
    frame: DataFrame,
    columns: Mapping[str, str],
    *,
    convert: Mapping[str, Callable[..., Cell]] | None = None,
    most: int = MOST_ROWS,
) -> Table:
    """The first rows of a table, formatted for people.

    @param columns: the headings of the columns, by their names in the table.
    @param convert: functions that format the values of a column, by its name.
    """
    how = convert or {}
    rows = frame.select(*columns).take(most + 1)
    left_out = frame.count() - most if len(rows) > most else 0
    return Table(
        title,
        list(columns.values()),
        [
            [how[name](row[name]) if name in how and row[name] is not None else row[name] for name in columns]
            for row in rows[:most]
        ],
        left_out,
    )


@attrs.frozen
class QueueManagerNames:
    """Names of queue managers, by their GUIDs."""

    _known: Mapping[str, str]
    _topology: Topology | None = None

    @classmethod
    def of(cls, setting: JobContext) -> QueueManagerNames:
        """Names from the owners of the stores, and from the enterprise."""
        owners = owners_of(setting.estate.messages, setting.estate.owners).collect()
        return cls({row["owner"]: row["store_name"] for row in owners}, setting.topology)

    def __call__(self, guid: str | None) -> str | None:
        """The name of a queue manager, or its GUID."""
        if guid is None or guid in self._known:
            return None if guid is None else self._known[guid]
        if self._topology is not None:
            try:
                machine = self._topology.queue_manager(parse_guid(guid))
            except ValueError:
                return guid
            if machine is not None and machine.name:
                return machine.name
        return guid
