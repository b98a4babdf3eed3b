"""Reads one state value of a SQLite file of any version without opening it as a store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from msmq.storage.sqlite.failures import failure
from msmq.storage.sqlite.file_ownership import APPLICATION_ID, BUSY_SECONDS, pragma


def stored_value(path: Path, name: str) -> bytes | None:
    """The state value of a name; C{None} if there is none, or the file is not a store.

    @raise StorageError: the file cannot be read.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(
            sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        ) as connection:
            if pragma(connection, "application_id") != APPLICATION_ID:
                return None
            found = connection.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
    except sqlite3.Error as error:
        raise failure(path, "read", error) from error
    return None if found is None else bytes(found[0])
