"""Exclusive ownership of a schema for the life of a connection; blocking."""

from __future__ import annotations

import time
from typing import Final
from uuid import UUID

import attrs
import psycopg

from msmq.interfaces.storage import StorageError
from msmq.persistence.owner_mark import OWNER
from msmq.storage.loss_check import LossCheck
from msmq.storage.postgresql.address import Address
from msmq.storage.postgresql.connection import PostgresqlConnection, connect
from msmq.storage.postgresql.failures import StatementRefused, failure
from msmq.storage.postgresql.schema import NOT_A_QUEUE, SCHEMA, ServerSchema

_APPLICATION: Final = 0x4D534D51
"""C{MSMQ}: the upper half of the numbers of our advisory locks; the lower half is the schema's OID."""

LOCK_SECONDS: Final = 2.0
"""Seconds that the server may take to end the connection of a dead process."""

_LOCK_INTERVAL: Final = 0.05
_TRUNCATE_MILLISECONDS: Final = 1000


@attrs.frozen
class Backend:
    """The server's identification of a connection."""

    pid: int
    started: str | None


@attrs.frozen
class LockHolder:
    """The connection that has an advisory lock.

    @ivar last: when it last executed a statement; C{None} if the server does not show it.
    @ivar is_working: whether the server executes a statement of it now, or shows nothing of it: no sign that
        its client is silent.
    @ivar text: for operators.
    """

    backend: Backend
    last: str | None
    is_working: bool
    text: str


@attrs.frozen
class CommitProgress:
    """The row of C{progress}."""

    number: int
    session: UUID | None
    last_entry: int
    last_event: int
    first_event: int


def probe(address: Address, schema: ServerSchema = SCHEMA) -> None:
    """Check, without changes, whether a store can be opened there.

    @raise ValueError: it cannot; the text is the reason.
    """
    try:
        link = connect(address, reads_only=True)
        try:
            version = _version(link, address)
            _check_version(address, version, schema)
            if version is None:
                _check_rights(link, address)
        except psycopg.Error as error:
            raise failure(address, "read", error) from None
        finally:
            link.close()
    except StorageError as error:
        raise ValueError(str(error)) from None


def prepare(link: PostgresqlConnection, address: Address, schema: ServerSchema, loss: LossCheck) -> None:
    """Create the schema and tables, or check and upgrade existing ones; then lock them.

    A schema of another program is not changed.

    @param loss: is notified if the tables are missing although they existed.
    @raise StorageError: the schema is of another program, of a newer version, missing, or in use.
    @raise psycopg.Error: the database refuses.
    """
    with link.transaction():
        # Two concurrent first starts create one schema.
        link.rows("SELECT pg_advisory_xact_lock($1)", [_APPLICATION << 32])
        version = _version(link, address)
        _check_version(address, version, schema)
        if version is None:
            loss.check_empty()
            _make(link, address, schema)
    lock(link, address)
    if version is not None and version < schema.version:
        with link.transaction():
            for step in range(version, schema.version):
                for statement in schema.migrations[step]:
                    link.execute(statement.encode())
            link.execute(b"UPDATE msmq_version SET number = $1", [schema.version])


def lock(link: PostgresqlConnection, address: Address, ended: Backend | None = None) -> None:
    """Lock the schema against other queue managers until this connection ends.

    @param ended: a previous connection of this store, whose end the server may not have detected yet.
    @raise Refused: another queue manager has the lock.
    @raise psycopg.Error: the database refuses.
    """
    key = schema_key(link, address)
    assert key is not None
    give_up = time.monotonic() + LOCK_SECONDS
    while not link.row("SELECT pg_try_advisory_lock($1)", [key])[0]:
        if ended is not None and ended in _holders(link, key):
            link.rows("SELECT pg_terminate_backend($1)", [ended.pid])
        if time.monotonic() > give_up:
            raise StatementRefused(f"{address.text} is in use by another queue manager")
        time.sleep(_LOCK_INTERVAL)


def take_over(link: PostgresqlConnection, session: UUID) -> CommitProgress:
    """Record the owner of the schema, and empty the tables that need not survive.

    @raise psycopg.Error: the database refuses.
    """
    _empty_express(link)
    mark_express(link)
    return _progress(
        link.row(
            "UPDATE progress SET session = $1 RETURNING number, session, last_entry, last_event, first_event",
            [session],
        )
    )


def progress(link: PostgresqlConnection) -> CommitProgress:
    """Read the progress of the written groups.

    @raise psycopg.Error: the database refuses.
    """
    return _progress(
        link.row("SELECT number, session, last_entry, last_event, first_event FROM progress", [])
    )


def backend(link: PostgresqlConnection) -> Backend:
    """The server's identification of this connection."""
    pid = link.info.backend_pid
    rows = link.rows("SELECT backend_start::text FROM pg_stat_activity WHERE pid = $1", [pid])
    return Backend(pid, rows[0][0] if rows else None)


def is_at_work(address: Address, pid: int) -> bool:
    """Whether the server is executing a statement of this connection."""
    try:
        link = connect(address, reads_only=True)
    except StorageError:
        return False
    try:
        return link.rows("SELECT state FROM pg_stat_activity WHERE pid = $1", [pid]) == [("active",)]
    except psycopg.Error:
        return False
    finally:
        link.close()


def mark_express(link: PostgresqlConnection) -> bool:
    """Insert the marker that is lost when the database empties the express messages; whether it was lost."""
    found = link.execute(
        b"INSERT INTO express VALUES ($1, 0, 0, 0, NULL, 0, 0, '', '') ON CONFLICT DO NOTHING", [NOT_A_QUEUE]
    )
    return found.rowcount > 0


def _progress(row: tuple[int, UUID | None, int, int, int]) -> CommitProgress:
    return CommitProgress(*row)


def _version(link: PostgresqlConnection, address: Address) -> int | None:
    """The version of the tables; C{None} where there are none.

    @raise StorageError: the schema is of another program.
    """
    tables = _tables(link, address)
    if not tables:
        return None
    if "msmq_version" not in tables:
        raise StorageError(f"{address.text}: the schema {address.schema} is of another program")
    (version,) = link.row("SELECT number FROM msmq_version")
    return int(version)


def _tables(link: PostgresqlConnection, address: Address) -> set[str]:
    rows = link.rows(
        "SELECT relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace"
        " WHERE nspname = $1 AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')",
        [address.schema],
    )
    return {name for (name,) in rows}


def _check_version(address: Address, version: int | None, schema: ServerSchema) -> None:
    if version is not None and version > schema.version:
        raise StorageError(
            f"{address.text}: written by a newer version of msmq"
            f" (schema {version}, this one knows {schema.version})"
        )


def _check_rights(link: PostgresqlConnection, address: Address) -> None:
    """Check the right to create the tables."""
    (may,) = link.row(
        "SELECT coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_catalog.pg_namespace"
        " WHERE nspname = $1), has_database_privilege(current_database(), 'CREATE'))",
        [address.schema],
    )
    if not may:
        raise StorageError(
            f"{address.text}: the user {link.info.user} may not create the schema {address.schema},"
            " or tables in it"
        )


def _make(link: PostgresqlConnection, address: Address, schema: ServerSchema) -> None:
    if not link.rows("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", [address.schema]):
        link.execute(f'CREATE SCHEMA "{address.schema}"'.encode())
    for statement in schema.tables:
        link.execute(statement.encode())
    link.execute(b"INSERT INTO msmq_version VALUES ($1)", [schema.version])


def schema_key(link: PostgresqlConnection, address: Address) -> int | None:
    """The number of the schema's advisory lock; C{None} if there is no schema."""
    rows = link.rows("SELECT oid::bigint FROM pg_catalog.pg_namespace WHERE nspname = $1", [address.schema])
    return (_APPLICATION << 32) | int(rows[0][0]) if rows else None


def holder_of(link: PostgresqlConnection, key: int) -> LockHolder | None:
    """The connection that has an advisory lock."""
    rows = link.rows(f"SELECT {_HOLDER} {_OF_LOCK}", [key >> 32, key & 0xFFFFFFFF])
    if not rows:
        return None
    pid, started, last, is_working, client = rows[0]
    return LockHolder(Backend(pid, started), last, bool(is_working), f"{client} (PostgreSQL process {pid})")


def fence(link: PostgresqlConnection, address: Address) -> None:
    """Have every transaction of an earlier owner fail; call it with the schema's lock.

    @raise psycopg.Error: the database refuses.
    """
    if "progress" in _tables(link, address):
        link.execute(b"UPDATE progress SET session = gen_random_uuid()")


def stored_owner(link: PostgresqlConnection, address: Address) -> bytes | None:
    """QueueManager.Identifier of the store's owner; C{None} if it was never opened.

    [MS-MQDMPR] 3.1.1.1.

    @raise psycopg.Error: the database refuses.
    """
    if "state" not in _tables(link, address):
        return None
    rows = link.rows("SELECT value FROM state WHERE name = $1", [OWNER.encode()])
    return bytes(rows[0][0]) if rows and len(rows[0][0]) == 16 else None


def _holders(link: PostgresqlConnection, key: int) -> list[Backend]:
    rows = link.rows(f"SELECT a.pid, a.backend_start::text {_OF_LOCK}", [key >> 32, key & 0xFFFFFFFF])
    return [Backend(*row) for row in rows]


_HOLDER: Final = (
    "a.pid, a.backend_start::text, a.query_start::text,"
    # A server that waits for its client is not at work, whatever it calls its state.
    " a.query_start IS NULL OR (a.state = 'active' AND a.wait_event_type IS DISTINCT FROM 'Client'),"
    " coalesce(host(a.client_addr), 'a local client')"
)
_OF_LOCK: Final = (
    "FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
    " AND l.classid::bigint = $1 AND l.objid::bigint = $2"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def _empty_express(link: PostgresqlConnection) -> None:
    """Fails at once if another client reads the table, a backup for example."""
    try:
        with link.transaction():
            link.execute(f"SET LOCAL lock_timeout TO {_TRUNCATE_MILLISECONDS}".encode())
            link.execute(b"TRUNCATE express")
    except psycopg.errors.LockNotAvailable:
        link.execute(b"DELETE FROM express")
