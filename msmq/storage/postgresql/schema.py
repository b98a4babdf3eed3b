"""Schema of the PostgreSQL store: tables, version, and upgrades from older versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

_MESSAGES: Final = (
    "(queue integer NOT NULL, lookup_id bigint NOT NULL, size integer NOT NULL,"
    " arrived double precision NOT NULL, due bigint, aborts bigint NOT NULL, moves bigint NOT NULL,"
    " identity bytea NOT NULL, packet bytea NOT NULL, checksum bigint, row_checksum bigint,"
    " PRIMARY KEY (queue, lookup_id))"
    # Space of removed rows is reused early, before much of it has accumulated.
    " WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2)"
)

NOT_A_QUEUE: Final = -1
"""Row number of no queue, for the marker in C{express} that exists until the table is emptied."""


@attrs.frozen
class ServerSchema:
    """One version of the tables.

    @ivar version: from 1; stored in the table C{msmq_version}.
    @ivar tables: the statements that create them in an empty schema.
    @ivar migrations: for each version, the statements that upgrade it to the next.
    """

    version: int
    tables: Sequence[str]
    migrations: Mapping[int, Sequence[str]] = attrs.field(factory=dict)


_UNREACHABLE: Final = (
    # Messages that were removed although the database could not reach their rows.
    "CREATE TABLE unreachable (queue integer NOT NULL, lookup_id bigint NOT NULL,"
    " PRIMARY KEY (queue, lookup_id))"
)

SCHEMA: Final = ServerSchema(
    version=2,
    tables=(
        "CREATE TABLE msmq_version (number integer NOT NULL)",
        # One row: the last group that was written, its writer, and the last numbers that were assigned.
        "CREATE TABLE progress (number bigint NOT NULL, session uuid, last_entry bigint NOT NULL,"
        " last_event bigint NOT NULL, first_event bigint NOT NULL, store uuid NOT NULL,"
        " is_checked boolean NOT NULL)",
        "INSERT INTO progress VALUES (0, NULL, 0, 0, 1, gen_random_uuid(), true)",
        "CREATE TABLE queue (id integer PRIMARY KEY, identifier uuid NOT NULL UNIQUE,"
        " definition bytea NOT NULL, checksum bigint)",
        # Removed queues whose messages are deleted in steps.
        "CREATE TABLE removed_queue (id integer PRIMARY KEY)",
        f"CREATE TABLE message {_MESSAGES}",
        # UNLOGGED: a crash of the database empties it.
        f"CREATE UNLOGGED TABLE express {_MESSAGES}",
        "CREATE TABLE state (name bytea PRIMARY KEY, value bytea NOT NULL, checksum bigint)",
        "CREATE TABLE log (queue integer NOT NULL, sequence bigint NOT NULL, lookup_id bigint NOT NULL,"
        " arrived double precision NOT NULL, size integer NOT NULL, packet bytea NOT NULL,"
        " checksum bigint, PRIMARY KEY (queue, sequence))",
        # Entries below the first one no longer count, and are deleted in steps.
        "CREATE TABLE log_extent (queue integer PRIMARY KEY, first bigint NOT NULL, entries bigint NOT NULL,"
        " size bigint NOT NULL)",
        "CREATE TABLE event (sequence bigint PRIMARY KEY, time double precision NOT NULL,"
        " identity bytea NOT NULL, event bytea NOT NULL, reason bytea NOT NULL,"
        " message_class integer NOT NULL, queue bytea NOT NULL, checksum bigint)",
        _UNREACHABLE,
        # Compression of packets would not be worth its cost.
        "ALTER TABLE message ALTER COLUMN packet SET STORAGE EXTERNAL",
        "ALTER TABLE express ALTER COLUMN packet SET STORAGE EXTERNAL",
        "ALTER TABLE log ALTER COLUMN packet SET STORAGE EXTERNAL",
    ),
    migrations={
        1: (
            "ALTER TABLE message ADD COLUMN checksum bigint, ADD COLUMN row_checksum bigint",
            "ALTER TABLE express ADD COLUMN checksum bigint, ADD COLUMN row_checksum bigint",
            "ALTER TABLE log ADD COLUMN checksum bigint",
            "ALTER TABLE event ADD COLUMN checksum bigint",
            "ALTER TABLE queue ADD COLUMN checksum bigint",
            "ALTER TABLE state ADD COLUMN checksum bigint",
            "ALTER TABLE progress ADD COLUMN store uuid NOT NULL DEFAULT gen_random_uuid(),"
            " ADD COLUMN is_checked boolean NOT NULL DEFAULT false",
            "ALTER TABLE progress ALTER COLUMN store DROP DEFAULT, ALTER COLUMN is_checked DROP DEFAULT",
            _UNREACHABLE,
        ),
    },
)
"""The current version of the tables; older rows get their checksums in steps."""
