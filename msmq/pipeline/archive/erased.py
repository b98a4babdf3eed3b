"""Identifiers and numbers of erased messages, so that what an erasure has taken is not reported as lost.

For each stream C{_erased_identifiers} has a Parquet file with L{IDENTIFIER_COLUMNS}: which message an erased
row was about. For each message log with transactional messages C{_erased} has one with the L{COLUMNS} of
these: what an audit of sequences needs. Nothing else of a message remains.
A writer that is killed before it has erased a row may leave its entry here; so readers take identifiers and
numbers only of messages that are not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msmq.durable import make_directory, write_durably
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.manifest import ERASED, ERASED_IDENTIFIERS, Archive, ArchiveFile, StreamManifest
from msmq.pipeline.files.directory import date_of
from msmq.pipeline.files.errors import FileUnwritable
from msmq.pipeline.files.format import EVENTS, read_file
from msmq.pipeline.message_fates import EVENT_RECORDS

COLUMNS: Final = (
    ("topic", "STRING"),
    ("offset", "BIGINT"),
    ("source_queue_manager", "STRING"),
    ("destination_queue", "STRING"),
    ("sequence_id", "BIGINT"),
    ("sequence_number", "BIGINT"),
    ("previous", "BIGINT"),
)
"""Names and types of the columns of numbers."""

IDENTIFIER_COLUMNS: Final = (
    ("stream", "STRING"),
    ("topic", "STRING"),
    ("id", "STRING"),
    ("destination_queue", "STRING"),
    ("date", "STRING"),
)
"""Names and types of the columns of identifiers.

C{stream} and C{topic} are those of the erased row, and C{date} the date of its arrival, in UTC.
An acknowledgement or a report has the C{id} of the message that it is about, and no C{destination_queue};
an event has the queue that it names.
"""

_PLAIN: Final = ("topic", "offset", "source_queue_manager", "destination_queue")
_NUMBERS: Final = ("sequence_id", "sequence_number", "previous")
_OWN: Final = ("source_journal", "dead_letter", "dead_letter_transactional")
"""The streams in which also an acknowledgement counts as a message."""
_REPORTS: Final = (0x0001, 0x0002, 0x00FF)
_NOWHERE: Final = "{00000000-0000-0000-0000-000000000000}\\0"


def record_identifiers(
    archive: Archive,
    manifest: StreamManifest,
    files: Sequence[ArchiveFile],
    mask: Callable[[Any], Any],
    more: Sequence[str],
) -> None:
    """Record durably which messages the rows of a mask are about, before they are erased.

    @param files: the files that have such rows.
    @param more: the columns that the mask reads.
    @raise FilesError: a file cannot be read, or the identifiers cannot be written.
    """
    is_events = manifest.stream == EVENTS
    plain = ("id", "event", "queue") if is_events else ("id", "class", "correlation_id", "destination_queue")
    schema = _schema(IDENTIFIER_COLUMNS)
    tables = [
        _identifiers(batch.filter(mask(batch)), manifest, schema)
        for batch in _rows(archive, files, (*plain, "timestamp", *more))
    ]
    # Those of earlier dates stay, of which there may be no other rows, until their dates expire.
    _add(archive.directory / ERASED_IDENTIFIERS / f"{manifest.name}.parquet", schema, tables, ("date", ""))


def forget_identifiers(archive: Archive, name: str, oldest: str) -> None:
    """Drop the identifiers of rows of a stream that arrived before a date.

    @param name: the name of the manifest.
    @raise FilesError: they cannot be read or written.
    """
    path = archive.directory / ERASED_IDENTIFIERS / f"{name}.parquet"
    if path.exists():
        _add(path, _schema(IDENTIFIER_COLUMNS), [], ("date", oldest))


def record_numbers(
    archive: Archive,
    manifest: StreamManifest,
    files: Sequence[ArchiveFile],
    mask: Callable[[Any], Any],
    more: Sequence[str],
) -> None:
    """Record the numbers of the rows of a mask durably, before they are erased from a log.

    Numbers from before the first row of the log, which has expired meanwhile, are dropped.

    @param files: the files that have such rows.
    @param more: the columns that the mask reads.
    @raise FilesError: a file cannot be read, or the numbers cannot be written.
    """
    schema = _schema(COLUMNS)
    tables = [
        _numbers(batch.filter(mask(batch)), schema)
        for batch in _rows(archive, files, (*_PLAIN, "transaction", *more))
    ]
    first = min(file.first for file in manifest.files)
    _add(archive.directory / ERASED / f"{manifest.name}.parquet", schema, tables, ("offset", first))


def has_identifiers(directory: Path) -> bool:
    """Whether an archive has identifiers of erased messages."""
    return next((directory / ERASED_IDENTIFIERS).glob("*.parquet"), None) is not None


def has_numbers(directory: Path) -> bool:
    """Whether an archive has numbers of erased messages."""
    return next((directory / ERASED).glob("*.parquet"), None) is not None


def _schema(columns: Sequence[tuple[str, str]]) -> Any:
    import pyarrow

    types = {"STRING": pyarrow.string(), "BIGINT": pyarrow.int64()}
    return pyarrow.schema([(name, types[kind]) for name, kind in columns])


def _add(path: Path, schema: Any, tables: Sequence[Any], first: tuple[str, object]) -> None:
    """Add rows to a file, each once, and drop former rows.

    @param first: a column, and the value below which former rows are dropped.
    """
    import pyarrow
    from pyarrow import compute, parquet

    column, least = first
    found = [table for table in tables if table.num_rows]
    try:
        if path.exists():
            before = parquet.read_table(path, schema=schema)
            kept = before.filter(compute.greater_equal(before[column], least))
            if not found and kept.num_rows == before.num_rows:
                return
            found.append(kept)
        if not found:
            return
        whole = pyarrow.concat_tables(found)
        whole = whole.group_by(schema.names).aggregate([]).select(schema.names)
        whole = whole.sort_by([(name, "ascending") for name in (column, *schema.names)])
        sink = pyarrow.BufferOutputStream()
        parquet.write_table(whole, sink, compression="zstd")
        make_directory(path.parent, 0o777)
        write_durably(path, sink.getvalue().to_pybytes(), 0o666)
    except pyarrow.ArrowException as error:
        raise ArchiveError(f"{path}: not what erased messages leave: {error}") from error
    except OSError as error:
        raise FileUnwritable(f"{path}: cannot be written: {error.strerror or error}") from error


def _rows(archive: Archive, files: Sequence[ArchiveFile], columns: Sequence[str]) -> Iterator[Any]:
    for file in files:
        yield from read_file(archive.path(file), tuple(dict.fromkeys(columns)))


def _numbers(batch: Any, schema: Any) -> Any:
    """The numbers of the transactional messages among these rows."""
    import pyarrow
    from pyarrow import compute

    rows = batch.filter(batch.column("transaction").is_valid())
    numbers = [compute.struct_field(rows.column("transaction"), name) for name in _NUMBERS]
    columns = [*(rows.column(name) for name in _PLAIN), *numbers]
    return pyarrow.table(columns, names=schema.names).cast(schema)


def _identifiers(batch: Any, manifest: StreamManifest, schema: Any) -> Any:
    """Which messages these rows are about."""
    import pyarrow

    columns = [batch.column(name).to_pylist() for name in batch.schema.names]
    rows = [dict(zip(batch.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]
    found = []
    for row in rows:
        identifier, queue = row["id"], row.get("destination_queue")
        if manifest.stream == EVENTS:
            identifier, queue = (row["id"] if row["event"] in EVENT_RECORDS else None), row["queue"]
        elif manifest.stream not in _OWN and _is_about_another(row["class"]):
            identifier, queue = row["correlation_id"], None
        if identifier and identifier != _NOWHERE:
            date = date_of(row["timestamp"].timestamp()) if row["timestamp"] else ""
            found.append((manifest.stream, manifest.topic, identifier, queue, date))
    values = zip(*found, strict=True) if found else ([] for _ in schema.names)
    return pyarrow.table([pyarrow.array(each, pyarrow.string()) for each in values], schema=schema)


def _is_about_another(message_class: int | None) -> bool:
    """Whether a message is an acknowledgement or a report."""
    return message_class is not None and (message_class in _REPORTS or bool(message_class & 0xC000))
