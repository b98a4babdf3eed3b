"""What other programs read of a store beside its server: in pages, and without a word to the server."""

from __future__ import annotations

from pathlib import Path

from msmq.interfaces.storage import StorageError
from msmq.storage.beside.shape import RowPage, StoreBeside

__all__ = ["STORE_FILE", "RowPage", "StoreBeside", "open_beside"]

STORE_FILE = "msmq.sqlite"
"""The file of the store in a data directory."""


def open_beside(location: str) -> StoreBeside:
    """The store at a place.

    @param location: a data directory, a file of SQLite, or C{postgresql://...}.
    @raise StorageError: there is none, it is damaged, or of another version.
    """
    if location.startswith(("postgresql:", "postgres:")):
        # psycopg belongs to an extra.
        try:
            from msmq.storage.beside.postgresql import PostgresqlBeside
        except ImportError as error:
            raise StorageError(f"PostgreSQL needs msmq[postgresql]: {error}") from None
        return PostgresqlBeside(location.partition(":")[2])
    from msmq.storage.beside.sqlite import SqliteBeside

    path = Path(location)
    return SqliteBeside(path / STORE_FILE if path.is_dir() else path)
