"""read_archive: an archive and the rest of its store as one table, at the speed of Parquet.

Spark reads finished files by its own reader of Parquet, which a data source in Python cannot do; the newest
rows, in Arrow and in the store, come from this process if they are few, and else from C{format("msmq")}.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

import attrs

from msmq.pipeline.archive.parts import LAST_OFFSET, ArchiveSlice, write_plan
from msmq.pipeline.archive.plan import is_archive, plan_archive
from msmq.pipeline.bodies import NONE
from msmq.pipeline.files.path_patterns import spark_pattern
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.options import ReadOptions, read_options
from msmq.pipeline.reading.row_selection import RowSelection, known_names, wanted_columns
from msmq.pipeline.rows import PLAIN
from msmq.pipeline.schema import EVENT_COLUMNS, EXPORTED_COLUMNS, MESSAGE_COLUMNS, names_of, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EAGER_ROWS: Final = 200_000
"""The largest number of rows that this process reads itself."""
EAGER_BYTES: Final = 64 * 1024 * 1024
"""The largest size of these rows."""

_TRIES: Final = 5
_SELECTING: Final = ("topic", "offset", "timestamp")
"""The columns of L{_condition}."""


def read_archive(spark: SparkSession, path: str, *, stream: str = "log", **options: str) -> DataFrame:
    """Read one stream of an archive and the rest of its store, as both are now, each row once.

    Spark applies filters and selects columns as for any Parquet.

    @param path: the archive.
    @param stream: C{log}, C{journal}, C{source_journal}, C{dead_letter}, C{dead_letter_transactional} or
        C{events}.
    @param options: those of C{format("msmq")}; C{columns} limits what is read of the newest rows.
    @raise ReadingError: the archive or an option is invalid.
    @raise ArchiveError: the archive is damaged.
    @raise StorageError: the store cannot be read.
    """
    found = read_options({"path": path, "stream": stream, **options})
    if not is_archive(path):
        raise ReadingError(f"{path} is not an archive; a store is read by format msmq")
    source = spark.read.format("msmq").options(path=path, stream=stream, **options)
    if found.decode != NONE or found.headers:
        # Both are read from packets.
        return source.load()
    names = known_names(
        found.columns or names_of(EVENT_COLUMNS if stream == "events" else MESSAGE_COLUMNS), stream
    )
    wanted = attrs.evolve(wanted_columns(names, found), since=found.since, until=found.until)
    for _ in range(_TRIES):
        parts = plan_archive(found, wanted, stream)
        try:
            return _union(spark, found, wanted, parts)
        except _FilesGone:
            continue
    raise ReadingError(f"{path}: files are erased while they are read; try again")


class _FilesGone(Exception):
    """An erasure has replaced a file of the plan."""


def _union(
    spark: SparkSession,
    options: ReadOptions,
    wanted: RowSelection,
    parts: Sequence[ArchiveSlice],
) -> DataFrame:
    from pyspark.sql import DataFrame

    files = [file for part in parts for file in part.files if file.path.endswith(".parquet")]
    rest = [
        attrs.evolve(part, files=tuple(file for file in part.files if not file.path.endswith(".parquet")))
        for part in parts
    ]
    rest = [part for part in rest if part.files or part.tail is not None]
    tables: list[DataFrame] = []
    if files:
        from pyspark.errors import AnalysisException

        paths = dict.fromkeys(spark_pattern(f"{options.path}/{file.path}") for file in files)
        ranges = {(file.begin, file.end) for file in files}
        has_condition = ranges != {(0, LAST_OFFSET)} or (wanted.since, wanted.until) != (None, None)
        needed = dict.fromkeys((*wanted.names, *(_SELECTING if has_condition else ())))
        try:
            table = spark.read.schema(_schema(options.stream, list(needed))).parquet(*paths)
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                raise _FilesGone from None
            raise
        if has_condition:
            table = table.where(_condition(parts, wanted)).select(*wanted.names)
        tables.append(table)
    if (newest := _newest(spark, options, wanted, rest)) is not None:
        tables.append(newest)
    if not tables:
        # It has as many partitions as there are cores, so it is no part of other tables.
        return spark.createDataFrame([], _schema(options.stream, wanted.names))
    return reduce(DataFrame.unionAll, tables)


def _newest(
    spark: SparkSession, options: ReadOptions, wanted: RowSelection, parts: Sequence[ArchiveSlice]
) -> DataFrame | None:
    """The rows that are not in Parquet; C{None} if there are none."""
    from datetime import UTC, datetime

    import pyarrow
    from pyspark.sql.types import StructType

    from msmq.pipeline.archive.scan import ArchiveScan
    from msmq.pipeline.spark.batches import Batches

    source = spark.read.format("msmq").options(
        path=options.path, stream=options.stream, columns=",".join(wanted.names)
    )
    if options.store:
        source = source.option("store", options.store)
    if not options.fail_on_data_loss:
        source = source.option("failOnDataLoss", "false")
    for name, moment in (("startingTimestamp", options.since), ("endingTimestamp", options.until)):
        if moment is not None:
            # Milliseconds would not be the time that the rows in Parquet are compared with.
            source = source.option(name, datetime.fromtimestamp(moment, UTC).isoformat())
    schema = StructType.fromDDL(_schema(options.stream, wanted.names))
    assert isinstance(schema, StructType)
    if sum(part.rows for part in parts) <= EAGER_ROWS:
        batches = Batches(schema, options.stream, options)
        scan = ArchiveScan(options, wanted, options.stream, PLAIN, False)
        held, size = [], 0
        for part in parts:
            for batch in batches.of_exported(scan.batches(part)):
                held.append(batch)
                size += batch.nbytes
                if size > EAGER_BYTES:
                    return source.option("archivePlan", write_plan(parts)).load()
        if not held:
            return None
        return spark.createDataFrame(pyarrow.Table.from_batches(held), schema)
    return source.option("archivePlan", write_plan(parts)).load()


def _schema(stream: str, names: Sequence[str]) -> str:
    """The schema of these columns of the files of a stream, as DDL text."""
    every = EVENT_COLUMNS if stream == "events" else EXPORTED_COLUMNS
    by_name = {column.name: column for column in every}
    return spark_schema([by_name[name] for name in names], of=every)


def _condition(parts: Sequence[ArchiveSlice], wanted: RowSelection) -> Column:
    """The selection of rows in files, by the offsets of their topics and by time."""
    from datetime import UTC, datetime

    from pyspark.sql import functions

    offset, condition = functions.col("offset"), functions.lit(True)
    timestamp = functions.col("timestamp")
    if wanted.since is not None:
        condition &= timestamp >= functions.lit(datetime.fromtimestamp(wanted.since, UTC))
    if wanted.until is not None:
        condition &= timestamp < functions.lit(datetime.fromtimestamp(wanted.until, UTC))
    limits = {(file.topic, file.begin, file.end) for part in parts for file in part.files}
    if {(begin, end) for _, begin, end in limits} == {(0, LAST_OFFSET)}:
        return condition
    within = functions.lit(False)
    for topic, begin, end in sorted(limits):
        within |= (functions.col("topic") == topic) & (offset >= begin) & (offset < end)
    return condition & within
