"""The Spark data source, C{spark.read.format("msmq")}: schema, readers and writers.

Spark pickles these objects and sends them to its Python processes, so they consist of plain values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from msmq.pipeline.archive.parts import ArchiveSlice, read_plan
from msmq.pipeline.archive.plan import is_archive, plan_archive
from msmq.pipeline.reading.body_schema import decoded_type
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.files import FileScan, FileSlice, are_files
from msmq.pipeline.reading.options import ReadOptions, read_options
from msmq.pipeline.reading.row_selection import known_names, wanted_columns
from msmq.pipeline.reading.stores import StoreScan
from msmq.pipeline.schema import EVENT_COLUMNS, EXPORTED_COLUMNS, MESSAGE_COLUMNS, names_of, spark_schema
from msmq.pipeline.spark.batches import Batches
from msmq.pipeline.spark.partitions import ArchivePartition, FilePartition, SlicePartition
from msmq.pipeline.spark.streaming import MsmqStreamReader
from msmq.pipeline.spark.versions import HAS_PUSH_DOWN, VERSION
from msmq.pipeline.spark.workers import plain_errors, rows_for_spark
from msmq.pipeline.writing.options import write_options

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.datasource import Filter

    from msmq.pipeline.archive.scan import ArchiveScan


_TYPED: Final = "the body, if it could be read; a field that its type cannot hold is null"


class MsmqDataSource(DataSource):
    """The data source C{msmq}."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "msmq"

    @plain_errors()
    def schema(self) -> str:
        """The columns of the stream, or those in the option C{columns}."""
        options = read_options(self.options)
        every = EVENT_COLUMNS if options.stream == "events" else EXPORTED_COLUMNS
        default = EVENT_COLUMNS if options.stream == "events" else MESSAGE_COLUMNS
        names = known_names(options.columns, options.stream) or names_of(default)
        by_name = {column.name: column for column in every}
        if options.decode_schema and "decoded" in names:
            decoded = by_name["decoded"]
            by_name["decoded"] = attrs.evolve(decoded, type=decoded_type(options), meaning=_TYPED)
        return spark_schema([by_name[name] for name in names], of=every)

    @plain_errors()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Create the reader of a batch."""
        return MsmqReader(read_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Create the reader of a stream."""
        return MsmqStreamReader(read_options(self.options), schema)

    @plain_errors()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Create the writer of a batch."""
        from msmq.pipeline.spark.writer import MsmqWriter

        return MsmqWriter(write_options(self.options), schema, overwrite)

    @plain_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Create the writer of a stream."""
        from msmq.pipeline.spark.writer import MsmqStreamWriter

        return MsmqStreamWriter(write_options(self.options), schema, overwrite)


class MsmqReader(DataSourceReader):
    """Batch reader of a store or of files."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._is_archive = not options.dsn and is_archive(options.path)
        self._stream = options.stream or ("log" if self._is_archive else "queue")
        if not self._is_archive and (options.store or options.plan):
            raise ReadingError("the options store and archivePlan are for an archive")
        self._options = options
        self._batches = Batches(schema, self._stream, options)
        self._batches.check_types()
        is_log = self._stream in ("log", "events") and not self._is_archive
        since = None if is_log else options.since
        self._wanted = attrs.evolve(
            wanted_columns(self._batches.names, options), since=since, until=options.until
        )
        # Spark refuses a reader that overrides the method while the setting for pushing filters down is off;
        # it tests whether the class defines the function.
        # Spark keeps the narrowed reader in the data frame, and uses it for its other queries too.
        if options.push_down and not HAS_PUSH_DOWN:
            raise ReadingError(f"the option pushDownFilters needs PySpark 4.1 or newer; this is {VERSION}")
        if options.push_down:
            self.pushFilters = _Pushing(self)  # type: ignore[method-assign]

    def push(self, filters: Iterable[Filter]) -> Iterable[Filter]:
        """Push filters down; return those that Spark still has to apply."""
        from msmq.pipeline.spark.filters import push

        self._wanted, left = push(filters, self._wanted)
        return left

    @plain_errors()
    def partitions(self) -> Sequence[InputPartition]:
        """The partitions of the read."""
        if self._is_archive:
            return [ArchivePartition(part) for part in self._plan()]
        if are_files(self._options.location):
            plan = self._file_scan().plan()
            if notice := plan.notice(self._options.path):
                # Spark shows the output of its Python processes there.
                print(f"msmq: {notice}", file=sys.stderr)
            return [FilePartition(part) for part in plan.slices]
        return [SlicePartition(part) for part in self._scan().slices()]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The rows of a partition."""
        return rows_for_spark(self._read(partition))

    def _read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        if isinstance(partition, ArchivePartition):
            return self._batches.of_exported(self._archive_scan().batches(partition.part))
        if isinstance(partition, FilePartition):
            return self._read_file(partition.part)
        if not isinstance(partition, SlicePartition):
            return iter(())
        scan = self._scan()
        if self._stream == "events":
            return self._batches.of_events(scan.event_pages(partition.part))
        return self._batches.of_packets(scan.pages(partition.part))

    def _read_file(self, part: FileSlice) -> Iterator[pyarrow.RecordBatch]:
        scan = self._file_scan()
        if part.kind == "parquet" and not self._batches.are_decoded:
            return self._batches.of_exported(scan.batches(part))
        return self._batches.of_packets(scan.packets(part))

    def _plan(self) -> Sequence[ArchiveSlice]:
        if self._options.plan:
            return read_plan(self._options.plan)
        return plan_archive(self._options, self._wanted, self._stream)

    def _archive_scan(self) -> ArchiveScan:
        # Spark workers that read stores start often, and need no reader of Parquet.
        from msmq.pipeline.archive.scan import ArchiveScan

        return ArchiveScan(
            self._options, self._wanted, self._stream, self._batches.readers(), self._batches.are_decoded
        )

    def _file_scan(self) -> FileScan:
        # Files have no index by which a scan begins at the option.
        bounds = [each for each in (self._wanted.since, self._options.since) if each is not None]
        wanted = attrs.evolve(self._wanted, since=max(bounds, default=None))
        return FileScan(self._options, wanted, self._options.stream)

    def _scan(self) -> StoreScan:
        return StoreScan(self._options, self._wanted, self._stream)


class _Pushing:
    """Callable in place of a reader's C{pushFilters}."""

    def __init__(self, reader: MsmqReader) -> None:
        self.__func__ = DataSourceReader.pushFilters
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._reader.push(filters)
