"""Upgrade from version 2: computes missing row checksums, a few rows per step."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from zlib import crc32

import attrs

from msmq.storage.checksums import entry_checksum, event_checksum, queue_checksum, record_checksum
from msmq.storage.sqlite.integrity.sums import SUM
from msmq.storage.sqlite.text import stored_bytes

STEP_ROWS: Final = 256
"""Rows per step."""
STEP_BYTES: Final = 1024 * 1024
"""Bytes of packets after which a step ends."""


def fill_in_small_tables(connection: sqlite3.Connection) -> None:
    """Compute the checksums of all queues and state values."""
    for row, identifier, definition in connection.execute("SELECT id, identifier, definition FROM queue"):
        connection.execute(
            "UPDATE queue SET checksum = ? WHERE id = ?", (queue_checksum(row, identifier, definition), row)
        )
    for name, value in connection.execute("SELECT name, value FROM state").fetchall():
        connection.execute(
            "UPDATE state SET checksum = ? WHERE name = ?", (record_checksum(name.encode(), value), name)
        )


@attrs.define
class FileChecksumFill:
    """Computes the checksums of messages, message log entries and events.

    Unreadable rows get no checksum, and count as damaged as soon as all other rows have theirs.

    @ivar is_done: whether every row has its checksums.
    """

    connection: sqlite3.Connection
    is_done: bool
    _after: tuple[int, int] = (-(1 << 63), -(1 << 63))
    _tables: list[str] = attrs.field(factory=lambda: ["message", "log", "event"])

    @classmethod
    def found(cls, connection: sqlite3.Connection) -> FileChecksumFill:
        """The remaining work in a file.

        @raise sqlite3.Error: it cannot be read.
        """
        (is_checked,) = connection.execute("SELECT is_checked FROM generation").fetchone()
        return cls(connection, bool(is_checked))

    def step(self) -> bool:
        """Do one step in its own transaction; returns whether more work is pending.

        @raise sqlite3.Error: it failed, and nothing was changed.
        """
        if self.is_done:
            return False
        following = self._after
        self.connection.execute("BEGIN")
        try:
            if not self._tables:
                self.connection.execute("UPDATE generation SET is_checked = 1")
            elif self._tables[0] == "message":
                following = self._messages()
            else:
                following = self._entries(self._tables[0])
            self.connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            raise
        # Only now: rows that a failed step leaves without a checksum would count as damaged in the end.
        self._after = following
        if not self._tables:
            self.is_done = True
        elif self._after == _END:
            self._tables.pop(0)
            self._after = (-(1 << 63), -(1 << 63))
        return True

    def _messages(self) -> tuple[int, int]:
        found = self.connection.execute(
            "SELECT queue, lookup_id, size, packet, checksum IS NULL FROM message"
            " WHERE (queue, lookup_id) > (?, ?) ORDER BY queue, lookup_id LIMIT ?",
            (*self._after, STEP_ROWS),
        ).fetchall()
        rows = _some(found, size_at=2)
        for queue, lookup_id, size, packet, is_missing in rows:
            content = self._content("SELECT content FROM packet WHERE id = ?", packet) if is_missing else None
            if content is not None and len(content) == size:
                self.connection.execute(
                    f"UPDATE message SET checksum = ?1, row_checksum = {SUM.replace('checksum', '?1')}"
                    " WHERE queue = ?2 AND lookup_id = ?3",
                    (crc32(content), queue, lookup_id),
                )
        return (rows[-1][0], rows[-1][1]) if rows else _END

    def _entries(self, table: str) -> tuple[int, int]:
        size = "size" if table == "log" else "0"
        found = self.connection.execute(
            f"SELECT sequence, {size}, checksum IS NULL FROM {table} WHERE sequence > ?"
            " ORDER BY sequence LIMIT ?",
            (self._after[1], STEP_ROWS),
        ).fetchall()
        rows = _some(found, size_at=1)
        for sequence, _, is_missing in rows:
            checksum = self._entry(table, sequence) if is_missing else None
            if checksum is not None:
                self.connection.execute(
                    f"UPDATE {table} SET checksum = ? WHERE sequence = ?", (checksum, sequence)
                )
        return (0, rows[-1][0]) if rows else _END

    def _entry(self, table: str, sequence: int) -> int | None:
        columns = "queue, lookup_id, arrived, packet" if table == "log" else EVENT_COLUMNS
        try:
            row = self.connection.execute(
                f"SELECT {columns} FROM {table} WHERE sequence = ?", (sequence,)
            ).fetchone()
            if table == "event":
                return checksum_of_event(sequence, *row)
            queue, *others = row
            return entry_checksum(queue, sequence, *others)
        except (sqlite3.DatabaseError, TypeError, ValueError):
            return None

    def _content(self, statement: str, number: int) -> bytes | None:
        try:
            row = self.connection.execute(statement, (number,)).fetchone()
        except sqlite3.DatabaseError:
            return None
        return row[0] if row is not None and isinstance(row[0], bytes) else None


EVENT_COLUMNS: Final = (
    "time, identity, CAST(event AS BLOB), CAST(reason AS BLOB), message_class, CAST(queue AS BLOB)"
)
"""The values of an event; texts as bytes, since a damaged one need not be UTF-8."""
_END: Final = ((1 << 63) - 1, (1 << 63) - 1)


def checksum_of_event(
    sequence: int,
    time: float,
    identity: bytes,
    event: str | bytes,
    reason: str | bytes,
    message_class: int,
    queue: str | bytes,
) -> int:
    """The checksum of an event row, with its texts in stored form."""
    texts = (stored_bytes(event), stored_bytes(reason), stored_bytes(queue))
    return event_checksum(sequence, time, message_class, identity, *texts)


def is_event_sound(checksum: object, sequence: int, row: Sequence[Any]) -> bool:
    """Whether the values of L{EVENT_COLUMNS} match the checksum of their row."""
    try:
        time, identity, event, reason, message_class, queue = row
        return checksum_of_event(sequence, time, identity, event, reason, message_class, queue) == checksum
    except (TypeError, ValueError, AttributeError, OverflowError, struct.error):
        # A value has another type than the one that was written.
        return False


def _some(rows: Sequence[Any], size_at: int) -> Sequence[Any]:
    """The rows of one step, at least one."""
    total = 0
    for count, row in enumerate(rows):
        total += row[size_at]
        if count and total > STEP_BYTES:
            return rows[:count]
    return rows
