"""Repair of a damaged SQLite store: copies its readable rows to a new file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from msmq.durable import sync
from msmq.interfaces.storage import StorageError
from msmq.quoting import shown
from msmq.storage.checking.sqlite_log_repair import append_repairs, repair_events, repair_message_logs
from msmq.storage.checksums import queue_checksum, record_checksum
from msmq.storage.damage import keep
from msmq.storage.generation_mark import GenerationMark
from msmq.storage.records import read_definition
from msmq.storage.sqlite.file_ownership import APPLICATION_ID
from msmq.storage.sqlite.files import create_file, lock_file
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


def rebuild(path: Path, mark: Path, now: Callable[[], float] = time.time) -> list[str]:
    """Copy every readable row to a new file, which replaces the damaged one.

    The damaged file stays as C{NAME.damaged}, or C{NAME.damaged-2} and so on after an earlier repair; its log
    has the same name with C{-wal}.
    Messages with a checksum that does not match are copied, for the start to quarantine them; a queue is kept
    as read; a value and an entry of a message log are quarantined, and an event is replaced.

    @param now: seconds since 1970-01-01 UTC, for the events.
    @return: losses and warnings, one line each.
    @raise StorageError: it is not a file of SQLite, a queue manager uses it, or nothing in it can be read;
        nothing was changed.
    """
    check_header(path)
    lock = lock_file(path)
    try:
        return _rebuild(path, mark, now)
    finally:
        os.close(lock)


def _rebuild(path: Path, mark: Path, now: Callable[[], float]) -> list[str]:
    target = path.with_name(f"{path.name}.rebuilt")
    for suffix in ("", "-wal", "-shm"):
        target.with_name(f"{target.name}{suffix}").unlink(missing_ok=True)
    create_file(target)
    lines: list[str] = []
    log = path.with_name(f"{path.name}-wal")
    kept = _unused(path.with_name(f"{path.name}.damaged"))
    kept_log = kept.with_name(f"{kept.name}-wal")
    try:
        if log.exists() and log.stat().st_size:
            # The valid part of the WAL is checkpointed, then the WAL is removed.
            shutil.copy2(log, kept_log)
        with closing(sqlite3.connect(path, isolation_level=None)) as source:
            # An unparsable definition does not prevent reading the others.
            source.execute("PRAGMA writable_schema = ON")
            with closing(sqlite3.connect(target, isolation_level=None)) as copy:
                _build(source, copy, path, mark, lines, now)
    except (sqlite3.Error, OSError, StorageError) as error:
        target.unlink(missing_ok=True)
        if log.exists():
            # Otherwise SQLite has taken over what it could read, and the copy has the rest.
            kept_log.unlink(missing_ok=True)
        raise StorageError(f"{path}: cannot repair: {error}; restore the store from a backup") from error
    sync(target)
    log.unlink(missing_ok=True)
    try:
        # So that there is a file under the name of the store at any moment.
        os.link(path, kept)
    except OSError:
        # The file system has no links.
        os.replace(path, kept)
    os.replace(target, path)
    sync(path.parent)
    return lines


def _unused(path: Path) -> Path:
    """A name that no earlier repair has used."""
    found, number = path, 1
    while found.exists() or found.with_name(f"{found.name}-wal").exists():
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


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
    source: sqlite3.Connection,
    copy: sqlite3.Connection,
    path: Path,
    mark: Path,
    lines: list[str],
    now: Callable[[], float],
) -> None:
    copy.execute("PRAGMA auto_vacuum = INCREMENTAL")
    copy.execute("PRAGMA journal_mode = DELETE").fetchone()
    copy.execute("BEGIN")
    for statement in SCHEMA.tables:
        copy.execute(statement)
    copy.execute("DELETE FROM sequence")
    found = {table: _copy(source, copy, table, key, path, lines) for table, key in _TABLES.items()}
    if lines and not any(copy.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in _TABLES):
        raise StorageError("no row can be read")
    for name in ("log", "event"):
        first, last = copy.execute(
            f"SELECT coalesce(min(sequence), 1), coalesce(max(sequence), 0) FROM {name}"
        ).fetchone()
        copy.execute("INSERT OR IGNORE INTO sequence VALUES (?, ?, ?)", (name, first, last))
        # Also the number of a row that cannot be read is not assigned again.
        copy.execute("UPDATE sequence SET last = max(last, ?) WHERE name = ?", (_highest(found[name]), name))
    is_checked = _keep_number(source, copy, mark)
    _repair_small_tables(copy, path, lines)
    _take_orphans(copy, path, lines)
    repair_message_logs(copy, path, lines, is_checked=is_checked)
    repair_events(copy, path, lines, is_checked=is_checked)
    append_repairs(copy, lines, now())
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
) -> set[tuple[Any, ...]]:
    """Copy the readable rows of a table; returns the keys that were found."""
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
                return seen
            seen.add(found)
            try:
                row = _row(source, f"FROM {table} WHERE {where}", columns, found)
                copy.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                lines.append(f"{path}: table {table}, row {'/'.join(map(str, found))}: {error}")
        else:
            return seen
    return seen


def _row(
    source: sqlite3.Connection, where: str, columns: Sequence[str], key: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The row with a key; texts that are not valid Unicode any more as bytes.

    @raise sqlite3.DatabaseError: it cannot be read.
    """
    try:
        row = source.execute(f"SELECT {', '.join(columns)} {where}", key).fetchone()
    except sqlite3.OperationalError:
        plain = (
            f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END" for name in columns
        )
        row = source.execute(f"SELECT {', '.join(plain)} {where}", key).fetchone()
    if row is None:
        raise sqlite3.DatabaseError("the row is not found by its key")
    return tuple(row)


def _highest(keys: set[tuple[Any, ...]]) -> int:
    return max((key[0] for key in keys if isinstance(key[0], int)), default=0)


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


def _keep_number(source: sqlite3.Connection, copy: sqlite3.Connection, mark: Path) -> bool:
    """Keep the identifier and the generation; returns whether every row has its checksums."""
    try:
        row = source.execute("SELECT store, number, is_checked FROM generation").fetchone()
    except sqlite3.DatabaseError:
        row = None
    if row is None:
        found = GenerationMark.read(mark)
        row = (os.urandom(16), 1, 1) if found is None else (found.store, found.number, 1)
    copy.execute("UPDATE generation SET store = ?, number = ?, is_checked = ?", row)
    return bool(row[2])


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
        title, content = _content(name), _content(value)
        where = f"{path}: table state, row {shown(title.decode('utf-8', 'replace'))}"
        if record_checksum(title, content) != checksum:
            keep(quarantine_path(path) / f"state-{title.hex()[:100]}", content)
            copy.execute("DELETE FROM state WHERE name = ?", (name,))
            lines.append(f"{where}: removed; its bytes are in quarantine")
        elif not isinstance(name, str) or not isinstance(value, bytes):
            # One bit of the header of the row: the bytes are those that were written.
            copy.execute("DELETE FROM state WHERE name = ?", (name,))
            copy.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", (title.decode(), content, checksum))
            lines.append(f"{where}: its type was wrong, and is corrected")
    copy.execute("DELETE FROM removed_queue WHERE id IN (SELECT id FROM queue)")


def _content(value: object) -> bytes:
    """The bytes of a value, whose type may be damaged."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else b"" if value is None else str(value).encode()


def _take_orphans(copy: sqlite3.Connection, path: Path, lines: list[str]) -> None:
    """Quarantine packets without a message."""
    orphans = copy.execute(
        "SELECT id FROM packet WHERE id NOT IN (SELECT packet FROM message WHERE queue IN"
        " (SELECT id FROM queue UNION SELECT id FROM removed_queue))"
    ).fetchall()
    for (number,) in orphans:
        # One at a time: if the table of messages is lost, these are all packets of the store.
        (content,) = copy.execute("SELECT content FROM packet WHERE id = ?", (number,)).fetchone()
        keep(quarantine_path(path) / f"packet-{number}", content if isinstance(content, bytes) else b"")
        lines.append(
            f"{path}: table packet, row {number}: no message refers to it; its bytes are in quarantine"
        )
    copy.execute(
        "DELETE FROM message WHERE queue NOT IN (SELECT id FROM queue UNION SELECT id FROM removed_queue)"
    )
    copy.executemany("DELETE FROM packet WHERE id = ?", orphans)
