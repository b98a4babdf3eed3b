"""Verification of a PostgreSQL store when it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from uuid import UUID

from msmq.interfaces.storage import StorageError
from msmq.quoting import quoted
from msmq.storage.checksums import queue_checksum, record_checksum
from msmq.storage.damage import DamagedRow, RowKind, keep
from msmq.storage.postgresql.address import Address
from msmq.storage.postgresql.connection import PostgresqlConnection
from msmq.storage.postgresql.sums import IS_OLDER, IS_SOUND
from msmq.storage.records import lookup_id_of, read_definition

MOST: Final = 1000
"""Limit on damaged messages at a start; with more, the schema has to be repaired."""

REMEDY: Final = "run msmq store repair, or restore the database from a backup"


def check_small_tables(link: PostgresqlConnection, address: Address) -> None:
    """Verify queues and values.

    @raise StorageError: a row is damaged.
    @raise psycopg.Error: they cannot be read.
    """
    for problem in small_problems(link):
        raise StorageError(f"{address.text}: {problem}; {REMEDY}")


def small_problems(link: PostgresqlConnection) -> list[str]:
    """Damaged queues and values: table, row and problem.

    @raise psycopg.Error: they cannot be read.
    """
    problems = []
    queues: list[tuple[int, UUID, bytes, int]] = link.rows(
        "SELECT id, identifier, definition, checksum FROM queue"
    )
    for row, identifier, definition, checksum in queues:
        if queue_checksum(row, identifier.bytes, definition) != checksum:
            problems.append(f"table queue, row {row}: the checksum does not match")
    for name, value, checksum in link.rows("SELECT name, value, checksum FROM state"):
        if record_checksum(name, value) != checksum:
            shown = quoted(name.decode("utf-8", "replace"))
            problems.append(f"table state, row {shown}: the checksum does not match")
    for (row,) in link.rows("SELECT id FROM removed_queue WHERE id IN (SELECT id FROM queue)"):
        problems.append(f"table removed_queue, row {row}: there is a queue with this number")
    return problems


def take_damaged_messages(link: PostgresqlConnection, address: Address, quarantine: Path) -> list[DamagedRow]:
    """Remove messages with damaged rows from the schema, and quarantine their bytes.

    @raise StorageError: there are too many.
    @raise psycopg.Error: they cannot be read.
    @raise OSError: the quarantine cannot be written.
    """
    with link.transaction():
        link.execute(b"SET LOCAL enable_seqscan TO on")
        found = link.rows(
            f"SELECT queue, lookup_id FROM message WHERE NOT ({IS_SOUND} OR {IS_OLDER}) LIMIT {MOST + 1}"
        )
        if len(found) > MOST:
            raise StorageError(f"{address.text}: more than {MOST} messages are damaged; {REMEDY}")
        return [_take(link, address, quarantine, *place) for place in found]


def _take(
    link: PostgresqlConnection, address: Address, quarantine: Path, row: int, lookup_id: int
) -> DamagedRow:
    place = [row, lookup_id]
    where = "WHERE queue = $1::integer AND lookup_id = $2::bigint"
    packet, *facts = link.row(
        f"SELECT packet, size::text, arrived::text, due::text, aborts::text, moves::text FROM message {where}"
        " LIMIT 1",
        place,
    )
    key = lookup_id_of(lookup_id)
    keep(quarantine / f"row-{row}-{key}", "; ".join(map(str, facts)).encode() + b"\n" + packet)
    queue = link.rows("SELECT identifier, definition FROM queue WHERE id = $1::integer", [row])
    link.rows(f"DELETE FROM message {where} RETURNING 1", place)
    problem = f"{address.text}, table message, queue {row}: the checksum of the row does not match"
    if not queue:
        return DamagedRow(RowKind.MESSAGE, None, "", key, b"", problem)
    [(identifier, definition)] = queue
    path = read_definition(definition).path
    return DamagedRow(RowKind.MESSAGE, identifier, path, key, b"", problem)
