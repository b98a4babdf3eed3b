"""Read-only, paged access to the store of a running server."""

from __future__ import annotations

from pathlib import Path

from msmq.interfaces.storage import StorageError
from msmq.storage.readers.shape import RowPage, StoreReader

__all__ = ["STORE_FILE", "RowPage", "StoreReader", "open_beside"]

STORE_FILE = "msmq.sqlite"
"""The file of the store in a data directory."""
LOG_DIRECTORY = "msmq.log"
"""The directory of a record log in a data directory."""
CHECKPOINT = "checkpoint-a"
"""A file by which a record log is known."""


def open_beside(location: str) -> StoreReader:
    """The store at a place.

    @param location: a data directory, a file of SQLite, the directory of a record log, or C{postgresql://...}.
    @raise StorageError: there is none, it is damaged, or of another version.
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
        if (log / CHECKPOINT).is_file():
            if (path / STORE_FILE).exists():
                raise StorageError(
                    f"{path}: there are {STORE_FILE} and {LOG_DIRECTORY}; name the one that is meant"
                )
            return LogStoreReader(log)
    return SqliteStoreReader(path / STORE_FILE if path.is_dir() else path)
