"""Numbers of erased transactional messages, so that a gap that an erasure has left is not taken for a loss.

For each message log with such messages C{_erased} has a Parquet file with the L{COLUMNS} of these: what an
audit of sequences needs, and nothing else of a message.
A writer that is killed before it has erased a message may leave its numbers here; so readers take the numbers
only of messages that the log lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msmq.durable import make_directory, write_durably
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.manifest import ERASED, ERASURES, Archive, ArchiveFile, StreamManifest
from msmq.pipeline.files.errors import FileUnwritable
from msmq.pipeline.files.format import read_file

LOG: Final = "log"
"""The stream whose erased messages have numbers here."""

COLUMNS: Final = (
    ("topic", "STRING"),
    ("offset", "BIGINT"),
    ("source_queue_manager", "STRING"),
    ("destination_queue", "STRING"),
    ("sequence_id", "BIGINT"),
    ("sequence_number", "BIGINT"),
    ("previous", "BIGINT"),
)
"""Names and types of the columns."""

KEPT_KEY: Final = "numbers"
"""Key of an entry of C{_erasures.jsonl} whose numbers were recorded; earlier versions recorded none."""

_PLAIN: Final = ("topic", "offset", "source_queue_manager", "destination_queue")
_NUMBERS: Final = ("sequence_id", "sequence_number", "previous")
_LONGEST_RECORD: Final = 1024 * 1024


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
    import pyarrow
    from pyarrow import compute, parquet

    schema = _schema()
    path = archive.directory / ERASED / f"{manifest.name}.parquet"
    tables = [_numbers(batch.filter(mask(batch)), schema) for batch in _rows(archive, files, more)]
    if not any(table.num_rows for table in tables):
        return
    first = min(file.first for file in manifest.files)
    try:
        if path.exists():
            before = parquet.read_table(path, schema=schema)
            tables.append(before.filter(compute.greater_equal(before["offset"], first)))
        whole = pyarrow.concat_tables(tables)
        whole = whole.group_by(schema.names).aggregate([]).select(schema.names).sort_by("offset")
        sink = pyarrow.BufferOutputStream()
        parquet.write_table(whole, sink, compression="zstd")
        make_directory(path.parent, 0o777)
        write_durably(path, sink.getvalue().to_pybytes(), 0o666)
    except pyarrow.ArrowException as error:
        raise ArchiveError(f"{path}: not the numbers of erased messages: {error}") from error
    except OSError as error:
        raise FileUnwritable(f"{path}: cannot be written: {error.strerror or error}") from error


def has_numbers(directory: Path) -> bool:
    """Whether an archive has numbers of erased messages."""
    return next((directory / ERASED).glob("*.parquet"), None) is not None


def unnumbered(archive: Archive) -> int:
    """The number of erased rows of message logs whose numbers no version has recorded.

    @raise ArchiveError: the record of erasures cannot be read.
    """
    import json

    path, count = archive.directory / ERASURES, 0
    try:
        with path.open("rb") as file:
            while line := file.readline(_LONGEST_RECORD):
                record = json.loads(line)
                if KEPT_KEY not in record:
                    rows = record["rows"].items()
                    count += sum(number for name, number in rows if name.endswith(f" {LOG}"))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{path}: not the record of erasures: {error}") from error
    return count


def _schema() -> Any:
    import pyarrow

    types = {"STRING": pyarrow.string(), "BIGINT": pyarrow.int64()}
    return pyarrow.schema([(name, types[kind]) for name, kind in COLUMNS])


def _rows(archive: Archive, files: Sequence[ArchiveFile], more: Sequence[str]) -> Any:
    columns = tuple(dict.fromkeys((*_PLAIN, "transaction", *more)))
    for file in files:
        yield from read_file(archive.path(file), columns)


def _numbers(batch: Any, schema: Any) -> Any:
    """The numbers of the transactional messages among these rows."""
    import pyarrow
    from pyarrow import compute

    rows = batch.filter(batch.column("transaction").is_valid())
    numbers = [compute.struct_field(rows.column("transaction"), name) for name in _NUMBERS]
    columns = [*(rows.column(name) for name in _PLAIN), *numbers]
    return pyarrow.table(columns, names=schema.names).cast(schema)
