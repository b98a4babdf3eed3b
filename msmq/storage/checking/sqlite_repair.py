"""Repair of a damaged SQLite store: copies its readable rows to a new file."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from msmq.durable import sync
from msmq.interfaces.storage import StorageError
from msmq.storage.checksums import queue_checksum, record_checksum
from msmq.storage.damage import keep
from msmq.storage.generation_mark import GenerationMark
from msmq.storage.records import read_definition
from msmq.storage.sqlite.file_ownership import APPLICATION_ID
from msmq.storage.sqlite.files import create_file
from msmq.storage.sqlite.integrity.verification import quarantine_path
from msmq.storage.sqlite.schema import SCHEMA

PAGE: Final = 100
"""Keys per query."""

_HEADER: Final = b"SQLite format 3\0"
"""The first bytes of a file of SQLite."""

_TABLES: Final = {
    "queue": ("id",),
    "packet": ("id",),
    "message": ("queue", "lookup_id"),
    "removed_queue": ("id",),
    "state": ("name",),
    "log": ("sequence",),
    "log_extent": ("queue",),
    "event": ("sequence",),
    "sequence": ("name",),
}
"""Key columns of each table."""


def rebuild(path: Path, mark: Path) -> list[str]:
    """Copy every readable row to a new file, which replaces the damaged one.

    The damaged file stays as C{NAME.damaged}, its log as C{NAME.damaged-wal}.
    Rows with a checksum that does not match are copied, for the start to quarantine them, except queues and
    values: a queue is kept as read, a value is quarantined.

    @return: losses and warnings, one line each.
    @raise StorageError: it is not a file of SQLite, or nothing in it can be read; nothing was changed.
    """
    check_header(path)
    target = path.with_name(f"{path.name}.rebuilt")
    for suffix in ("", "-wal", "-shm"):
        target.with_name(f"{target.name}{suffix}").unlink(missing_ok=True)
    create_file(target)
    lines: list[str] = []
    log = path.with_name(f"{path.name}-wal")
    kept_log = path.with_name(f"{path.name}.damaged-wal")
    try:
        if log.exists() and log.stat().st_size:
            # The valid part of the WAL is checkpointed, then the WAL is removed.
            shutil.copy2(log, kept_log)
        with closing(sqlite3.connect(path, isolation_level=None)) as source:
            # An unparsable definition does not prevent reading the others.
            source.execute("PRAGMA writable_schema = ON")
            with closing(sqlite3.connect(target, isolation_level=None)) as copy:
                _build(source, copy, path, mark, lines)
    except (sqlite3.Error, OSError, StorageError) as error:
        target.unlink(missing_ok=True)
        if log.exists():
            # Otherwise SQLite has taken over what it could read, and the copy has the rest.
            kept_log.unlink(missing_ok=True)
        raise StorageError(f"{path}: cannot repair: {error}; restore the store from a backup") from error
    sync(target)
    log.unlink(missing_ok=True)
    os.replace(path, path.with_name(f"{path.name}.damaged"))
    os.replace(target, path)
    sync(path.parent)
    return lines


def check_header(path: Path) -> None:
    """Check the first bytes of a file.

    @raise StorageError: it is not a file of SQLite, so that SQLite reads nothing in it.
    """
    try:
        with path.open("rb") as file:
            found = file.read(len(_HEADER))
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from error
    if found != _HEADER:
        raise StorageError(
            f"{path}: is not a store: it does not begin like a file of SQLite; select another one with "
            "--store, or restore the store from a backup"
        )


def _build(
    source: sqlite3.Connection, copy: sqlite3.Connection, path: Path, mark: Path, lines: list[str]
) -> None:
    copy.execute("PRAGMA auto_vacuum = INCREMENTAL")
    copy.execute("PRAGMA journal_mode = DELETE").fetchone()
    copy.execute("BEGIN")
    for statement in SCHEMA.tables:
        copy.execute(statement)
    copy.execute("DELETE FROM sequence")
    for table, key in _TABLES.items():
        _copy(source, copy, table, key, path, lines)
    if lines and not any(copy.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in _TABLES):
        raise StorageError("no row can be read")
    for name in ("log", "event"):
        (last,) = copy.execute(f"SELECT coalesce(max(sequence), 0) FROM {name}").fetchone()
        copy.execute("INSERT OR IGNORE INTO sequence VALUES (?, 1, ?)", (name, last))
    _keep_number(source, copy, mark)
    _repair_small_tables(copy, path, lines)
    _take_orphans(copy, path, lines)
    copy.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    copy.execute(f"PRAGMA user_version = {SCHEMA.version}")
    copy.execute("COMMIT")


def _copy(
    source: sqlite3.Connection,
    copy: sqlite3.Connection,
    table: str,
    key: Sequence[str],
    path: Path,
    lines: list[str],
) -> None:
    columns = [row[1] for row in copy.execute(f"PRAGMA table_info({table})").fetchall()]
    marks = ", ".join("?" * len(columns))
    where = " AND ".join(f"{column} = ?" for column in key)
    seen: set[tuple[Any, ...]] = set()
    for is_descending in (False, True):
        for found in _keys(source, table, key, is_descending=is_descending):
            if found is None:
                lines.append(f"{path}: table {table}: rows beyond a damaged page cannot be read")
                break
            if found in seen:
                return
            seen.add(found)
            try:
                row = source.execute(
                    f"SELECT {', '.join(columns)} FROM {table} WHERE {where}", found
                ).fetchone()
                if row is None:
                    raise sqlite3.DatabaseError("the row is not found by its key")
                copy.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                lines.append(f"{path}: table {table}, row {'/'.join(map(str, found))}: {error}")
        else:
            return


def _keys(
    source: sqlite3.Connection, table: str, key: Sequence[str], *, is_descending: bool
) -> Iterator[tuple[Any, ...] | None]:
    """The keys of a table in order; C{None} where the table is unreadable."""
    names = ", ".join(key)
    order = ", ".join(f"{column} {'DESC' if is_descending else 'ASC'}" for column in key)
    beyond = f"WHERE ({names}) {'<' if is_descending else '>'} ({', '.join('?' * len(key))})"
    after: tuple[Any, ...] = ()
    size = PAGE
    while True:
        select = f"SELECT {names} FROM {table} {beyond if after else ''} ORDER BY {order} LIMIT {size}"
        try:
            rows = source.execute(select, after).fetchall()
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            if size == 1:
                yield None
                return
            size = max(1, size // 4)
            continue
        if not rows:
            return
        yield from rows
        after = rows[-1]


def _keep_number(source: sqlite3.Connection, copy: sqlite3.Connection, mark: Path) -> None:
    try:
        row = source.execute("SELECT store, number, is_checked FROM generation").fetchone()
    except sqlite3.DatabaseError:
        row = None
    if row is None:
        found = GenerationMark.read(mark)
        row = (os.urandom(16), 1, 1) if found is None else (found.store, found.number, 1)
    copy.execute("UPDATE generation SET store = ?, number = ?, is_checked = ?", row)


def _repair_small_tables(copy: sqlite3.Connection, path: Path, lines: list[str]) -> None:
    for row, identifier, definition, checksum in copy.execute("SELECT * FROM queue").fetchall():
        try:
            right = queue_checksum(row, identifier, definition)
            kept = read_definition(definition)
        except (ValueError, TypeError):
            kept_bytes = [one for one in (identifier, definition) if isinstance(one, bytes)]
            keep(quarantine_path(path) / f"queue-{row}", b"\n".join(kept_bytes))
            copy.execute("DELETE FROM queue WHERE id = ?", (row,))
            lines.append(f"{path}: table queue, row {row}: removed with its messages; see quarantine")
            continue
        if right != checksum:
            copy.execute("UPDATE queue SET checksum = ? WHERE id = ?", (right, row))
            where = f"{path}: table queue, row {row}"
            lines.append(f"{where}: kept, but the properties of {kept.path} may have changed")
    for name, value, checksum in copy.execute("SELECT * FROM state").fetchall():
        if not isinstance(value, bytes) or record_checksum(name.encode(), value) != checksum:
            keep(quarantine_path(path) / f"state-{name.encode().hex()[:100]}", bytes(value or b""))
            copy.execute("DELETE FROM state WHERE name = ?", (name,))
            lines.append(f"{path}: table state, row {name}: removed; its bytes are in quarantine")
    copy.execute("DELETE FROM removed_queue WHERE id IN (SELECT id FROM queue)")


def _take_orphans(copy: sqlite3.Connection, path: Path, lines: list[str]) -> None:
    """Quarantine packets without a message."""
    orphans = copy.execute(
        "SELECT id, content FROM packet WHERE id NOT IN (SELECT packet FROM message WHERE queue IN"
        " (SELECT id FROM queue UNION SELECT id FROM removed_queue))"
    ).fetchall()
    for number, content in orphans:
        keep(quarantine_path(path) / f"packet-{number}", content if isinstance(content, bytes) else b"")
        lines.append(
            f"{path}: table packet, row {number}: no message refers to it; its bytes are in quarantine"
        )
    copy.execute(
        "DELETE FROM message WHERE queue NOT IN (SELECT id FROM queue UNION SELECT id FROM removed_queue)"
    )
    copy.executemany("DELETE FROM packet WHERE id = ?", [(number,) for number, _ in orphans])
