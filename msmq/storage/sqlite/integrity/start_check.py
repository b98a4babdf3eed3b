"""Verification of a SQLite store when it is opened."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final
from uuid import UUID

from msmq.interfaces.storage import StorageError
from msmq.quoting import quoted
from msmq.storage.checksums import queue_checksum, record_checksum
from msmq.storage.damage import DamagedRow, RowKind, keep
from msmq.storage.records import lookup_id_of, read_definition
from msmq.storage.sqlite.integrity.sums import IS_SOUND_OR_OLDER
from msmq.storage.sqlite.integrity.verification import quarantine_path
from msmq.storage.sqlite.schema import Schema

MOST: Final = 1000
"""Limit on damaged messages at a start; with more, the file has to be repaired."""

REMEDY: Final = "run msmq store repair, or restore the store from a backup"


def check_small_tables(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Verify queues and values.

    @raise StorageError: a row is damaged.
    @raise sqlite3.Error: they cannot be read.
    """
    for problem in small_problems(connection, schema):
        raise StorageError(f"{path}: {problem}; {REMEDY}")


def small_problems(connection: sqlite3.Connection, schema: Schema) -> list[str]:
    """Damaged table definitions, queues and values: location and problem.

    @raise sqlite3.Error: they cannot be read.
    """
    problems = schema_problems(connection, schema)
    if problems:
        # Statements on such tables may have other effects.
        return problems
    for row, identifier, definition, checksum in connection.execute(
        "SELECT id, identifier, definition, checksum FROM queue"
    ):
        if not _is_queue(row, identifier, definition, checksum):
            problems.append(f"table queue, row {row}: the checksum does not match")
    for name, value, checksum in connection.execute("SELECT name, value, checksum FROM state"):
        is_typed = isinstance(name, str) and isinstance(value, bytes)
        if not is_typed or record_checksum(_bytes(name), value) != checksum:
            shown = quoted(name if isinstance(name, str) else _bytes(name).decode("utf-8", "replace"))
            problems.append(f"table state, row {shown}: the checksum does not match")
    for (row,) in connection.execute("SELECT id FROM removed_queue WHERE id IN (SELECT id FROM queue)"):
        problems.append(f"table removed_queue, row {row}: there is a queue with this number")
    return problems


def schema_problems(connection: sqlite3.Connection, schema: Schema) -> list[str]:
    """Tables, indexes and triggers whose definition differs from that of this version.

    @raise sqlite3.Error: they cannot be read.
    """
    with closing(sqlite3.connect(":memory:")) as memory:
        for statement in schema.tables:
            memory.execute(statement)
        expected = _definitions(memory)
    found = _definitions(connection)
    return [
        f"table sqlite_schema: the definition of {quoted(name)} is damaged"
        for name in sorted({*expected, *found})
        if expected.get(name) != found.get(name)
    ]


def _definitions(connection: sqlite3.Connection) -> dict[str, object]:
    """Definitions by name: the SQL of an index or a trigger, and the columns of a table.

    The text of a table differs after a migration.
    """
    found: dict[str, object] = {}
    # As bytes, since a damaged text may not be decodable.
    select = "SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(sql AS BLOB) FROM sqlite_schema"
    for kind, name, text in connection.execute(select).fetchall():
        shown = (name or b"").decode("utf-8", "replace")
        found[shown] = kind, text
        if kind == b"table":
            columns = connection.execute(
                'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (shown,)
            )
            found[shown] = kind, sorted(columns.fetchall())
    return found


def take_damaged_messages(connection: sqlite3.Connection, path: Path) -> list[DamagedRow]:
    """Remove messages with damaged rows from the file, in an open transaction, and quarantine their bytes.

    @raise StorageError: there are too many, or one cannot be removed.
    @raise sqlite3.Error: they cannot be read.
    """
    found = connection.execute(
        f"SELECT queue, lookup_id FROM message WHERE NOT {IS_SOUND_OR_OLDER} LIMIT {MOST + 1}"
    ).fetchall()
    if len(found) > MOST:
        raise StorageError(f"{path}: more than {MOST} messages are damaged; {REMEDY}")
    damaged = [_take(connection, path, *place) for place in found]
    if found and connection.execute(f"SELECT 1 FROM message WHERE NOT {IS_SOUND_OR_OLDER}").fetchone():
        raise StorageError(f"{path}: table message: the rows are out of order; {REMEDY}")
    return damaged


def _take(connection: sqlite3.Connection, path: Path, row: int, lookup_id: int) -> DamagedRow:
    facts = connection.execute(
        "SELECT quote(size), quote(arrived), quote(packet), quote(due), quote(aborts), quote(moves),"
        " quote(identity) FROM message WHERE queue = ? AND lookup_id = ?",
        (row, lookup_id),
    ).fetchone()
    content = "; ".join(("?",) if facts is None else facts).encode() + b"\n"
    packet = connection.execute(
        "SELECT content FROM packet WHERE id ="
        " (SELECT packet FROM message WHERE queue = ? AND lookup_id = ?)",
        (row, lookup_id),
    ).fetchone()
    if packet is not None and isinstance(packet[0], bytes):
        content += packet[0]
    key = lookup_id_of(lookup_id)
    keep(quarantine_path(path) / f"row-{row}-{key}", content)
    queue = connection.execute("SELECT identifier, definition FROM queue WHERE id = ?", (row,)).fetchone()
    connection.execute("DELETE FROM message WHERE queue = ? AND lookup_id = ?", (row, lookup_id))
    problem = f"{path}, table message, queue {row}: the checksum of the row does not match"
    if queue is None:
        return DamagedRow(RowKind.MESSAGE, None, "", key, b"", problem)
    return DamagedRow(
        RowKind.MESSAGE, UUID(bytes=queue[0]), read_definition(queue[1]).path, key, b"", problem
    )


def _is_queue(row: int, identifier: object, definition: object, checksum: object) -> bool:
    if not isinstance(identifier, bytes) or not isinstance(definition, bytes):
        return False
    return queue_checksum(row, identifier, definition) == checksum


def _bytes(name: object) -> bytes:
    return name if isinstance(name, bytes) else str(name).encode("utf-8", "surrogatepass")
