"""Identity and version of a SQLite file: checks an existing store, or creates a new one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from msmq.durable import sync
from msmq.interfaces.storage import StorageError
from msmq.quoting import quoted
from msmq.storage.sqlite.files import create_file
from msmq.storage.sqlite.schema import Schema, Step

APPLICATION_ID = 0x4D534D51
"""C{MSMQ}, the application ID in the header of the file, by which C{file} and others recognize it."""

CHECKED_WHOLE = 64 * 1024 * 1024
"""Size up to which a file is checked completely when it is opened; of a larger one packets are not."""

CHECKED_TABLES = ("queue", "state", "removed_queue", "log_extent", "sequence", "generation", "message")
"""The tables that are checked in a large file; those with packets would have to be read completely."""

STATEMENTS = 512
"""Number of cached prepared statements: one of each length (L{msmq.storage.sqlite.statements})."""

BUSY_SECONDS = 5
"""Seconds to wait for another program that has locked the file, such as a backup."""


def connect(path: Path) -> sqlite3.Connection:
    """Connect without implicit transactions; a missing file is not created.

    @raise sqlite3.Error: it cannot be opened.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        cached_statements=STATEMENTS,
    )
    for pragma in (
        "synchronous = FULL",
        "temp_store = MEMORY",
        "cache_size = -16384",
        # Some builds overwrite deleted data with zeros, which doubles the work and is not needed.
        "secure_delete = OFF",
        "trusted_schema = OFF",
    ):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def prepare(connection: sqlite3.Connection, path: Path, schema: Schema, if_empty: Callable[[], None]) -> None:
    """Create the tables, or check that they are of msmq, of this version and intact.

    A file of another program is not changed.

    @param if_empty: called before tables are created in a file without any.
    @raise StorageError: the file is of another program, of a newer version, or damaged.
    @raise sqlite3.Error: it is too damaged to be read.
    @raise OSError: the backup before a migration cannot be written.
    """
    application_id = pragma(connection, "application_id")
    version = pragma(connection, "user_version")
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    is_new = application_id == version == objects == 0
    if not is_new and application_id != APPLICATION_ID:
        raise StorageError(f"{path}: this is the database of another program")
    if version > schema.version:
        raise StorageError(
            f"{path}: written by a newer version of msmq (schema {version}, this one knows {schema.version})"
        )
    if is_new:
        if_empty()
        # Takes effect only before there is a table.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StorageError(f"{path}: its file system allows no write-ahead log (journal mode {quoted(mode)})")
    # This starts with an empty WAL, and truncates the file to the size in its header.
    is_whole = empty_log(connection)
    if is_new:
        _perform(connection, schema.tables, schema.version)
        return
    check(connection, path, is_whole=is_whole)
    if version < schema.version:
        _migrate(connection, path, version, schema)


def check(connection: sqlite3.Connection, path: Path, *, is_whole: bool) -> None:
    """Check for damage: all of a small file, the small tables of a large one.

    A truncated large file is detected too; its index of messages is read completely at a start anyway.

    @param is_whole: whether the WAL is empty; a concurrent reader may have prevented its checkpoint.
    @raise StorageError: the file is damaged.
    """
    expected = pragma(connection, "page_count") * pragma(connection, "page_size")
    size = path.stat().st_size
    if is_whole and size < expected:
        raise StorageError(f"{path}: the file is damaged: it has {size} of {expected} bytes")
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    what = ["1"] if size <= CHECKED_WHOLE else [name for name in tables if name in CHECKED_TABLES]
    for argument in what:
        [(found,), *_] = connection.execute(f"PRAGMA quick_check({argument})").fetchall()
        if found != "ok":
            raise StorageError(f"{path}: the file is damaged: {one_line(found)}; run msmq store repair")


def one_line(found: str) -> str:
    """SQLite's report of damage in one line, without its heading."""
    return "; ".join(found.removeprefix("*** in database main ***\n").split("\n"))


def empty_log(connection: sqlite3.Connection) -> bool:
    """Checkpoint and truncate the WAL; whether that was possible.

    It does not wait for readers of the file.

    @raise sqlite3.Error: it failed; the WAL still has all data.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    return not busy


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """The number that a pragma returns."""
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def backup_path(path: Path, version: int) -> Path:
    """Path of the copy of the file before a migration from a version."""
    return path.with_name(f"{path.name}.schema-{version}")


def _migrate(connection: sqlite3.Connection, path: Path, version: int, schema: Schema) -> None:
    if not schema.additive.issuperset(range(version, schema.version)):
        _back_up(connection, backup_path(path, version))
    steps = [step for older in range(version, schema.version) for step in schema.migrations[older]]
    _perform(connection, steps, schema.version)


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    """Copy the database; the copy appears atomically under its name."""
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    create_file(partial)
    with closing(sqlite3.connect(partial)) as copy:
        connection.backup(copy)
        # The copy is one file, without a WAL.
        copy.execute("PRAGMA journal_mode = DELETE").fetchone()
    sync(partial)
    os.replace(partial, target)
    sync(target.parent)


def _perform(connection: sqlite3.Connection, steps: Sequence[Step], version: int) -> None:
    """Perform these steps and set the version, atomically."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in steps:
            if isinstance(step, str):
                connection.execute(step)
            else:
                step(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
