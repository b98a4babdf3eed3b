"""C{spark.readStream.format("msmq")}: the message logs of queues, or the event log, as they grow.

Spark stores the offsets of each batch before it reads it, and reads the same rows again after a failure. The
log still has them, so that with an idempotent sink each row arrives once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.archive.plan import is_archive
from msmq.pipeline.reading.batch_delay import BatchDelay
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.files import are_files
from msmq.pipeline.reading.options import ReadOptions
from msmq.pipeline.reading.progress import LogProgress
from msmq.pipeline.reading.row_selection import wanted_columns
from msmq.pipeline.reading.stores import StoreScan
from msmq.pipeline.spark.batches import Batches
from msmq.pipeline.spark.partitions import SlicePartition
from msmq.pipeline.spark.versions import (
    HAS_LIMITS,
    VERSION,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from msmq.pipeline.spark.workers import plain_errors, rows_for_spark

if TYPE_CHECKING:
    import pyarrow


def check_limits(options: ReadOptions) -> None:
    """Check that no limits are asked for, where Spark does not say where a batch begins.

    @raise ReadingError: a limit is asked for.
    """
    for name, value in (
        ("maxOffsetsPerTrigger", options.per_trigger),
        ("maxBytesPerTrigger", options.bytes_per_trigger),
        ("minOffsetsPerTrigger", options.at_least),
    ):
        if value is not None:
            raise ReadingError(f"the option {name} needs PySpark 4.2 or newer; this is {VERSION}")


def _check_location(options: ReadOptions) -> None:
    """Check that the location can be a store.

    @raise ReadingError: it is an archive, or has files, which no stream follows.
    """
    if not options.dsn and is_archive(options.path):
        store = Archive(Path(options.path)).store_path() or "its store"
        raise ReadingError(
            f"{options.path} is an archive, which can be read as a batch only: set path to {store} to follow"
            " new messages, and read those that are archived with spark.read or read_archive"
        )
    if not options.dsn and Path(options.path).exists() and are_files(options.location):
        raise ReadingError(
            f"{options.path} has files, which can be read as a batch only: set path to a data directory, or"
            " follow a directory of Parquet with readStream.format('parquet')"
        )


class MsmqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader of message logs or the event log."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        stream = options.stream or "queue"
        self._options = options
        self._of = stream
        self._batches = Batches(schema, stream, options)
        self._stream = "events" if stream == "events" else "log"
        self._target: int | None = None
        self._end: dict[str, Any] | None = None
        # The end of the first batch, of versions that look for it before the start.
        self._first_end: int | None = None
        # Spark asks for it again for the first batch, and the log may have gone on meanwhile.
        self._initial: dict[str, Any] | None = None
        self._delay = BatchDelay(options.delay)

    @cached_property
    def _progress(self) -> LogProgress:
        # Not in the constructor: Spark hides what is raised there behind an error of its own.
        if not HAS_LIMITS:
            check_limits(self._options)
        _check_location(self._options)
        self._batches.check_types()
        return LogProgress(self._options, self._of)

    @plain_errors()
    def initialOffset(self) -> dict[str, Any]:
        """The start offset of a query without a checkpoint."""
        if self._initial is None:
            self._initial = self._progress.initial(self._first_end)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """The most specific of the limits in the options; the others are applied with it."""
        options = self._options
        if options.per_trigger is not None:
            return ReadMaxRows(options.per_trigger)
        if options.bytes_per_trigger is not None:
            return ReadMaxBytes(options.bytes_per_trigger)
        return ReadAllAvailable() if options.at_least is None else ReadMinRows(options.at_least)

    @plain_errors()
    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The end offset of the next batch."""
        if start is None and not HAS_LIMITS:
            found = self._progress.newest()
            if self._first_end is None:
                self._first_end = found["next"]
            return found
        options, begin = self._options, start or self.initialOffset()
        # Without a default limit, or by a trigger that has none, Spark asks for everything.
        is_limited = limit is not None and not isinstance(limit, ReadAllAvailable)
        rows, size = (options.per_trigger, options.bytes_per_trigger) if is_limited else (None, None)
        is_delayed = is_limited and self._target is None and options.at_least is not None
        # Counted before the end is looked up: the batch has these rows at least, whatever is written now.
        has_enough = is_delayed and self._progress.has_unread(begin, options.at_least or 0)
        found = self._progress.latest(begin, rows, size, self._target)
        if is_delayed and self._delay.holds(time.monotonic(), has_rows=found != begin, has_enough=has_enough):
            found = begin
        self._end = found
        return found

    @plain_errors()
    def reportLatestOffset(self) -> dict[str, Any]:
        """The end of the log, for C{latestOffset} in the progress of a query.

        C{unread} is how many numbers of the log are after the last batch: its entries for all queues.
        C{lag_seconds} is the age of the first of those that the query reads.
        """
        return self._progress.state(self._end).record(time.time())

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end offset: later rows are not read."""
        self._target = self._progress.end()

    @plain_errors()
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """The partitions between two offsets."""
        return [SlicePartition(part) for part in self._progress.slices(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The rows of a partition."""
        return rows_for_spark(self._read(partition))

    def _read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        if not isinstance(partition, SlicePartition):
            return iter(())
        scan = StoreScan(self._options, wanted_columns(self._batches.names, self._options), self._stream)
        if self._stream == "events":
            return self._batches.of_events(scan.event_pages(partition.part))
        return self._batches.of_packets(scan.pages(partition.part))

    def commit(self, end: dict[str, Any]) -> None:
        """No operation: a log is trimmed by its own limits, since it may have other readers."""

    def stop(self) -> None:
        """Close the store, whose index is kept between the batches."""
        # Only if a call has made it: invalid options are refused by the first.
        if "_progress" in self.__dict__:
            self._progress.close()
