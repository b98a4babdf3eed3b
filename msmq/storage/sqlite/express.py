"""The file for express messages: beside the other, never waited for, and of no use after its process."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from msmq.storage.sqlite.files import make_file
from msmq.storage.sqlite.schema import MESSAGE_TABLES


def express_path(path: Path) -> Path:
    """Where the express messages lie of the store in a file."""
    return path.with_name(f"{path.name}.express")


def remove_express(path: Path) -> None:
    """Remove what an earlier process left.

    @raise OSError: it cannot be removed.
    """
    place = express_path(path)
    for suffix in ("", "-wal", "-shm"):
        place.with_name(place.name + suffix).unlink(missing_ok=True)


def attach_express(connection: sqlite3.Connection, path: Path) -> None:
    """Have an empty file for express messages in the connection, as C{express}.

    @raise OSError: it cannot be made.
    @raise sqlite3.Error: it cannot be used.
    """
    remove_express(path)
    make_file(express_path(path))
    connection.execute("ATTACH ? AS express", (str(express_path(path)),))
    for pragma in (
        "auto_vacuum = INCREMENTAL",
        "journal_mode = WAL",
        "synchronous = OFF",
        "cache_size = -16384",
    ):
        connection.execute(f"PRAGMA express.{pragma}").fetchone()
    for statement in MESSAGE_TABLES:
        connection.execute(statement.format(part="express"))
