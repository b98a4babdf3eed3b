"""Read-only, paged access to the store of a running server."""

from __future__ import annotations

from pathlib import Path

from msmq.interfaces.storage import StorageError
from msmq.persistence.migration_mark import MARK, MigrationRole, read_mark
from msmq.storage.readers.shape import RowPage, StoreReader

__all__ = ["RowPage", "StoreReader", "has_store", "open_reader"]

STORE_FILE = "msmq.sqlite"
"""The file of the store in a data directory."""
LOG_DIRECTORY = "msmq.log"
"""The directory of a record log in a data directory."""
CHECKPOINTS = ("checkpoint-a", "checkpoint-b")
"""The files that identify the directory of a record log."""


def open_reader(location: str) -> StoreReader:
    """Open the store at a path or URL.

    @param location: a data directory, a file of SQLite, the directory of a record log, or
        C{postgresql://...}.
    @raise StorageError: there is no store, or it is damaged or of another version.
    """
    if location.startswith(("postgresql:", "postgres:")):
        # psycopg belongs to an extra.
        try:
            from msmq.storage.readers.postgresql import PostgresqlStoreReader
        except ImportError as error:
            raise StorageError(f"PostgreSQL needs msmq[postgresql]: {error}") from None
        return PostgresqlStoreReader(location.partition(":")[2])
    from msmq.storage.readers.log import LogStoreReader
    from msmq.storage.readers.sqlite import SqliteStoreReader

    path = Path(location)
    for log in (path, path / LOG_DIRECTORY):
        if is_log(log) and _is_in_log(path / STORE_FILE, log):
            return LogStoreReader(log)
    if not path.is_dir():
        return SqliteStoreReader(path)
    if not (path / STORE_FILE).exists():
        raise StorageError(
            f"{path}: there is no store in this directory; one that is elsewhere is named by its file, its"
            " directory, or postgresql://..."
        )
    return SqliteStoreReader(path / STORE_FILE)


def has_store(directory: Path) -> bool:
    """Whether a directory is a data directory with a store in files, or that of a record log."""
    return (directory / STORE_FILE).exists() or is_log(directory) or is_log(directory / LOG_DIRECTORY)


def is_log(directory: Path) -> bool:
    """Whether a directory is that of a record log."""
    return any((directory / name).is_file() for name in CHECKPOINTS)


def _is_in_log(file: Path, log: Path) -> bool:
    """Whether a record log is in use rather than the file of SQLite next to it, by the marks of a migration.

    @raise StorageError: both seem to be in use.
    """
    if not file.exists():
        return True
    from msmq.storage.readers.log import LogStoreReader
    from msmq.storage.sqlite.peek import stored_value

    try:
        moved = read_mark(stored_value(file, MARK))
        if moved is not None and moved.role is MigrationRole.MOVED:
            return True
        reader = LogStoreReader(log)
        try:
            filled = read_mark(reader.values().get(MARK))
        finally:
            reader.close()
    except ValueError as error:
        raise StorageError(f"{file.parent}: {error}") from error
    if filled is None:
        raise StorageError(f"{file.parent}: there are {file.name} and {log.name}; select one")
    return filled.role is not MigrationRole.TARGET
