"""The tables, their version, and the steps from an older version to this one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from msmq.storage.sqlite.integrity.checksum_fill import fill_in_small_tables
from msmq.storage.sqlite.version_one import fill_in_from_packets

Step: TypeAlias = str | Callable[[sqlite3.Connection], None]


@attrs.frozen
class Schema:
    """One version of the tables.

    @ivar version: from 1; stored in the header of the file as C{user_version}.
    @ivar tables: the statements that create them in an empty file.
    @ivar migrations: for each version, the steps to the next one, each a statement or a call.
    @ivar additive: the versions whose migration only adds columns and tables, so that no copy is made.
    """

    version: int
    tables: Sequence[str]
    migrations: Mapping[int, Sequence[Step]] = attrs.field(factory=dict)
    additive: frozenset[int] = frozenset()


REMOVAL_TRIGGER: Final = (
    "CREATE TRIGGER message_removed AFTER DELETE ON message"
    " BEGIN DELETE FROM packet WHERE id = OLD.packet; END"
)
"""Removes the packet with its message."""
DROP_TRIGGER: Final = "DROP TRIGGER message_removed"

MESSAGE_TABLES: Final = (
    # The part of a message that a start reads; packets are in another table.
    "CREATE TABLE message (queue INTEGER NOT NULL, lookup_id INTEGER NOT NULL, size INTEGER NOT NULL,"
    " arrived REAL NOT NULL, packet INTEGER NOT NULL, due INTEGER, aborts INTEGER NOT NULL DEFAULT 0,"
    " moves INTEGER NOT NULL DEFAULT 0, identity BLOB NOT NULL DEFAULT x'', checksum INTEGER,"
    " row_checksum INTEGER, PRIMARY KEY (queue, lookup_id)) WITHOUT ROWID",
    "CREATE TABLE packet (id INTEGER PRIMARY KEY, content BLOB NOT NULL)",
    REMOVAL_TRIGGER,
    "CREATE TRIGGER message_replaced AFTER UPDATE OF packet ON message"
    " BEGIN DELETE FROM packet WHERE id = OLD.packet; END",
)
"""The tables of messages, in the main file and in the express file."""

_LOGS: Final = (
    # Entries below the first of their queue are trimmed, and are deleted in steps.
    "CREATE TABLE log (sequence INTEGER PRIMARY KEY, queue INTEGER NOT NULL, lookup_id INTEGER NOT NULL,"
    " arrived REAL NOT NULL, size INTEGER NOT NULL, packet BLOB NOT NULL{checksum})",
    "CREATE INDEX log_of_queue ON log (queue, sequence, arrived, size)",
    "CREATE TABLE log_extent (queue INTEGER PRIMARY KEY, first INTEGER NOT NULL, entries INTEGER NOT NULL,"
    " size INTEGER NOT NULL)",
    "CREATE TABLE event (sequence INTEGER PRIMARY KEY, time REAL NOT NULL, identity BLOB NOT NULL,"
    " event TEXT NOT NULL, reason TEXT NOT NULL, message_class INTEGER NOT NULL, queue TEXT NOT NULL"
    "{checksum})",
    "CREATE INDEX event_of_message ON event (identity)",
    # The first valid event, and the last assigned numbers.
    "CREATE TABLE sequence (name TEXT PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL)"
    " WITHOUT ROWID",
    "INSERT INTO sequence VALUES ('log', 1, 0), ('event', 1, 0)",
)


def _logs(checksum: str) -> Sequence[str]:
    return [statement.replace("{checksum}", checksum) for statement in _LOGS]


_GENERATION: Final = (
    # One row: the identifier of the store, the generation, and whether every row has its checksums.
    "CREATE TABLE generation (store BLOB NOT NULL, number INTEGER NOT NULL, is_checked INTEGER NOT NULL)"
)

SCHEMA: Final = Schema(
    version=3,
    tables=(
        "CREATE TABLE queue (id INTEGER PRIMARY KEY, identifier BLOB NOT NULL UNIQUE,"
        " definition BLOB NOT NULL, checksum INTEGER)",
        *MESSAGE_TABLES,
        # Removed queues whose messages are deleted in steps.
        "CREATE TABLE removed_queue (id INTEGER PRIMARY KEY)",
        "CREATE TABLE state (name TEXT PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER) WITHOUT ROWID",
        *_logs(", checksum INTEGER"),
        _GENERATION,
        "INSERT INTO generation VALUES (randomblob(16), 1, 1)",
    ),
    migrations={
        1: (
            "ALTER TABLE message ADD COLUMN due INTEGER",
            "ALTER TABLE message ADD COLUMN aborts INTEGER NOT NULL DEFAULT 0",
            "ALTER TABLE message ADD COLUMN moves INTEGER NOT NULL DEFAULT 0",
            "ALTER TABLE message ADD COLUMN identity BLOB NOT NULL DEFAULT x''",
            fill_in_from_packets,
            *_logs(""),
        ),
        2: (
            "ALTER TABLE message ADD COLUMN checksum INTEGER",
            "ALTER TABLE message ADD COLUMN row_checksum INTEGER",
            "ALTER TABLE log ADD COLUMN checksum INTEGER",
            "ALTER TABLE event ADD COLUMN checksum INTEGER",
            "ALTER TABLE queue ADD COLUMN checksum INTEGER",
            "ALTER TABLE state ADD COLUMN checksum INTEGER",
            _GENERATION,
            "INSERT INTO generation VALUES (randomblob(16), 1, 0)",
            fill_in_small_tables,
        ),
    },
    additive=frozenset({2}),
)
"""The current version of the tables; older rows get their checksums in steps."""
