"""The tables, their version, and the steps from an older version to this one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs

from msmq.storage.sqlite.version_one import fill_in_from_packets

Step: TypeAlias = str | Callable[[sqlite3.Connection], None]


@attrs.frozen
class Schema:
    """One version of the tables.

    @ivar version: from 1; it stands in the header of the file as C{user_version}.
    @ivar tables: the statements that make them in an empty file.
    @ivar migrations: the steps that lead from a version to the next one, each a statement or a call.
    """

    version: int
    tables: Sequence[str]
    migrations: Mapping[int, Sequence[Step]] = attrs.field(factory=dict)


MESSAGE_TABLES = (
    # All that a start reads of a message; the packets lie elsewhere and stay unread.
    "CREATE TABLE message (queue INTEGER NOT NULL, lookup_id INTEGER NOT NULL, size INTEGER NOT NULL,"
    " arrived REAL NOT NULL, packet INTEGER NOT NULL, due INTEGER, aborts INTEGER NOT NULL DEFAULT 0,"
    " moves INTEGER NOT NULL DEFAULT 0, identity BLOB NOT NULL DEFAULT x'',"
    " PRIMARY KEY (queue, lookup_id)) WITHOUT ROWID",
    "CREATE TABLE packet (id INTEGER PRIMARY KEY, content BLOB NOT NULL)",
    "CREATE TRIGGER message_removed AFTER DELETE ON message"
    " BEGIN DELETE FROM packet WHERE id = OLD.packet; END",
    "CREATE TRIGGER message_replaced AFTER UPDATE OF packet ON message"
    " BEGIN DELETE FROM packet WHERE id = OLD.packet; END",
)
"""The tables of messages, which the file and the file for express messages both have."""

LOG_TABLES = (
    # Entries below the first of their queue are gone, and are deleted little by little.
    "CREATE TABLE log (sequence INTEGER PRIMARY KEY, queue INTEGER NOT NULL, lookup_id INTEGER NOT NULL,"
    " arrived REAL NOT NULL, size INTEGER NOT NULL, packet BLOB NOT NULL)",
    "CREATE INDEX log_of_queue ON log (queue, sequence, arrived, size)",
    "CREATE TABLE log_extent (queue INTEGER PRIMARY KEY, first INTEGER NOT NULL, entries INTEGER NOT NULL,"
    " size INTEGER NOT NULL)",
    "CREATE TABLE event (sequence INTEGER PRIMARY KEY, time REAL NOT NULL, identity BLOB NOT NULL,"
    " event TEXT NOT NULL, reason TEXT NOT NULL, message_class INTEGER NOT NULL, queue TEXT NOT NULL)",
    "CREATE INDEX event_of_message ON event (identity)",
    # The first number of the events that is not gone, and numbers that were given out before.
    "CREATE TABLE sequence (name TEXT PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL)"
    " WITHOUT ROWID",
    "INSERT INTO sequence VALUES ('log', 1, 0), ('event', 1, 0)",
)
"""The logs."""

SCHEMA = Schema(
    version=2,
    tables=(
        "CREATE TABLE queue (id INTEGER PRIMARY KEY, identifier BLOB NOT NULL UNIQUE,"
        " definition BLOB NOT NULL)",
        *MESSAGE_TABLES,
        # Queues that are gone, whose messages are deleted little by little.
        "CREATE TABLE removed_queue (id INTEGER PRIMARY KEY)",
        "CREATE TABLE state (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        *LOG_TABLES,
    ),
    migrations={
        1: (
            "ALTER TABLE message ADD COLUMN due INTEGER",
            "ALTER TABLE message ADD COLUMN aborts INTEGER NOT NULL DEFAULT 0",
            "ALTER TABLE message ADD COLUMN moves INTEGER NOT NULL DEFAULT 0",
            "ALTER TABLE message ADD COLUMN identity BLOB NOT NULL DEFAULT x''",
            fill_in_from_packets,
            *LOG_TABLES,
        )
    },
)
"""The version that this one writes."""
