"""Schemas of files of messages and events, and the writers and readers of one file.

An export writes Parquet. A new file of an archive is Arrow IPC, which is cheap to write and to merge; a
finished one is Parquet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from msmq.durable import sync
from msmq.pipeline.files.errors import FilesError, FileUnwritable
from msmq.pipeline.schema import EVENT_COLUMNS, EXPORTED_COLUMNS, arrow_schema, is_always_known

EVENTS: Final = "events"
"""The stream of the event log."""

DICTIONARIES: Final = frozenset(
    (
        *("topic", "class_name", "delivery", "source_queue_manager", "destination_queue", "admin_queue"),
        *("response_queue", "dead_letter_queue", "sender_id", "event", "reason", "queue"),
    )
)
"""Columns of names and classes, each value of which is stored once for many rows."""

GROUP_ROWS: Final = 100_000
GROUP_BYTES: Final = 64 * 1024 * 1024
"""The largest row group of a Parquet file, and so what a compaction has in memory."""
BATCH_ROWS: Final = 2000
_CHECKED: Final = 1024 * 1024
_PARQUET: Final = ".parquet"


def file_schema(stream: str, *, dictionaries: bool = False) -> Any:
    """The schema of the files of a stream, with the nullability and the comment of each column.

    @param dictionaries: whether the columns of L{DICTIONARIES} are dictionaries, as in Parquet.
    """
    return _file_schema(stream == EVENTS, dictionaries)


@cache
def _file_schema(are_events: bool, dictionaries: bool) -> Any:
    """The schema, which is made once: an archive writes many small files, for which it took longest."""
    import pyarrow

    columns = EVENT_COLUMNS if are_events else EXPORTED_COLUMNS
    plain = arrow_schema(columns)
    fields = []
    for field, column in zip(plain, columns, strict=True):
        kind = field.type
        if dictionaries and column.name in DICTIONARIES:
            kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        fields.append(
            pyarrow.field(
                column.name,
                kind,
                nullable=not is_always_known(column, columns),
                metadata={b"comment": column.meaning.encode()},
            )
        )
    return pyarrow.schema(fields, metadata=plain.metadata)


def write_file(
    path: Path, stream: str, batches: Iterable[Any], *, is_parquet: bool, are_groups: bool = False
) -> int:
    """Write a file durably, and return the number of its rows.

    @param is_parquet: whether to write Parquet, else Arrow IPC.
    @param are_groups: whether each of these is to be a row group of its own, even without rows.
    @raise FileUnwritable: it cannot be written; nothing is left of it.
    """
    from pyarrow.lib import ArrowException

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_parquet:
            rows = _write_parquet(path, stream, batches, are_groups)
        else:
            rows = _write_arrow(path, stream, batches)
        sync(path)
        return rows
    except (OSError, ArrowException) as error:
        path.unlink(missing_ok=True)
        raise FileUnwritable(f"{path}: cannot be written: {_reason(error)}") from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _write_arrow(path: Path, stream: str, batches: Iterable[Any]) -> int:
    import pyarrow

    schema, rows = file_schema(stream), 0
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, schema, options=options) as file:
        for table in _grouped(batches, schema, BATCH_ROWS, GROUP_BYTES):
            for batch in table.to_batches():
                file.write_batch(batch)
            rows += table.num_rows
    return rows


def _write_parquet(path: Path, stream: str, batches: Iterable[Any], are_groups: bool) -> int:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    schema, rows = file_schema(stream, dictionaries=True), 0
    with ParquetWriter(path, schema, compression="zstd", compression_level=3) as file:
        if are_groups:
            tables: Iterator[Any] = (pyarrow.Table.from_batches([_fitted(each, schema)]) for each in batches)
        else:
            tables = _grouped(batches, schema, GROUP_ROWS, GROUP_BYTES)
        for table in tables:
            file.write_table(table, row_group_size=max(1, table.num_rows))
            rows += table.num_rows
    return rows


def _grouped(batches: Iterable[Any], schema: Any, rows: int, size: int) -> Iterator[Any]:
    """Tables of about this number of rows, or of bytes, with exactly this schema."""
    import pyarrow

    held: list[Any] = []
    count = total = 0

    def table() -> Any:
        return pyarrow.Table.from_batches(held).combine_chunks()

    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(_fitted(batch, schema))
        count, total = count + batch.num_rows, total + batch.nbytes
        if count >= rows or total >= size:
            yield table().unify_dictionaries()
            held, count, total = [], 0, 0
    if held:
        yield table().unify_dictionaries()


def _fitted(batch: Any, schema: Any) -> Any:
    import pyarrow

    arrays = []
    for field in schema:
        array = batch.column(field.name)
        if pyarrow.types.is_dictionary(array.type) and not pyarrow.types.is_dictionary(field.type):
            array = array.cast(field.type)
        elif pyarrow.types.is_dictionary(field.type) and not pyarrow.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        arrays.append(array)
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def read_file(path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """The rows of a file of either format, in batches.

    @param columns: the columns to read; C{None} for all.
    @raise FilesError: it cannot be read.
    """
    import pyarrow
    from pyarrow.parquet import ParquetFile

    names = None if columns is None else list(columns)
    try:
        if path.suffix == _PARQUET:
            with ParquetFile(path) as file:
                yield from file.iter_batches(BATCH_ROWS, columns=names)
            return
        with pyarrow.OSFile(str(path)) as source, _opened(source, names) as opened:
            for number in range(opened.num_record_batches):
                batch = opened.get_batch(number)
                yield batch if names is None else batch.select(names)
    except (OSError, pyarrow.lib.ArrowException) as error:
        raise FilesError(f"{path}: cannot be read: {_reason(error)}") from error


def _opened(source: Any, names: list[str] | None) -> Any:
    """A reader of an Arrow file that decompresses these columns only; all if the file has none of them."""
    from pyarrow import ipc

    opened = ipc.open_file(source)
    if names is None:
        return opened
    with opened:
        fields = [number for number, name in enumerate(opened.schema.names) if name in names]
    return ipc.open_file(source, options=ipc.IpcReadOptions(included_fields=fields))


def read_groups(path: Path) -> Iterator[Any]:
    """The row groups of a Parquet file, each as one batch.

    @raise FilesError: it cannot be read.
    """
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group).unify_dictionaries().combine_chunks()
                arrays = [
                    column.chunk(0) if column.num_chunks else pyarrow.array([], column.type)
                    for column in table.columns
                ]
                yield pyarrow.RecordBatch.from_arrays(arrays, schema=table.schema)
    except (OSError, pyarrow.lib.ArrowException) as error:
        raise FilesError(f"{path}: cannot be read: {_reason(error)}") from error


def checksum(path: Path) -> tuple[int, int]:
    """The size of a file, and the CRC-32 of its content.

    @raise FilesError: it cannot be read.
    """
    size = crc = 0
    try:
        with path.open("rb") as file:
            while part := file.read(_CHECKED):
                size, crc = size + len(part), crc32(part, crc)
    except OSError as error:
        raise FilesError(f"{path}: cannot be read: {_reason(error)}") from error
    return size, crc


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())[:200]
