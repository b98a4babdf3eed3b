"""Writes message logs and the event log to SQLite, inside an open transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import TypeAlias

import attrs

from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    LoggedPacket,
    RestoreLog,
    RestoreNumbers,
    TrimLog,
)
from msmq.storage.checksums import entry_checksum
from msmq.storage.plan import EventStep, LogStep
from msmq.storage.records import stored_lookup_id
from msmq.storage.sqlite.integrity.checksum_fill import checksum_of_event
from msmq.storage.sqlite.statements import chunks, marks, pieces
from msmq.storage.sqlite.text import stored_text

_Entry: TypeAlias = tuple[int, int, AppendLog | LoggedPacket]
"""The row of a queue, the number of an entry in its message log, and the entry."""


@attrs.define
class Logs:
    """Writer of message logs and the event log.

    Trimming only moves the first valid number; older rows are deleted in steps.

    @ivar last_entry: the number of the newest entry of any message log.
    @ivar last_event: the number of the newest event.
    @ivar trimmed: rows of queues whose logs may have trimmed entries to delete.
    @ivar written: the approximate number of written bytes.
    """

    connection: sqlite3.Connection
    last_entry: int = 0
    last_event: int = 0
    trimmed: set[int] = attrs.field(factory=set)
    written: int = 0

    def find_numbers(self) -> None:
        """Continue after the last assigned numbers, and find trimmed entries.

        @raise sqlite3.Error: it cannot be read.
        """
        execute = self.connection.execute
        last = dict(execute("SELECT name, last FROM sequence").fetchall())
        (entry,) = execute("SELECT max(sequence) FROM log").fetchone()
        (event,) = execute("SELECT max(sequence) FROM event").fetchone()
        self.last_entry = max(entry or 0, last["log"])
        self.last_event = max(event or 0, last["event"])
        trimmed = execute(
            "SELECT queue FROM log_extent WHERE EXISTS (SELECT 1 FROM log"
            " WHERE log.queue = log_extent.queue AND log.sequence < log_extent.first)"
        )
        self.trimmed.update(row for (row,) in trimmed.fetchall())

    def write(self, steps: Sequence[LogStep]) -> None:
        """Write the changes to message logs, in order."""
        entries: list[_Entry] = []
        for row, change in steps:
            if isinstance(change, AppendLog):
                self.last_entry += 1
                entries.append((row, self.last_entry, change))
                continue
            if isinstance(change, RestoreLog):
                self._begin_at(row, change.first)
                entries += [(row, entry.sequence, entry) for entry in change.entries]
                self.last_entry = max(self.last_entry, *(entry.sequence for entry in change.entries), 0)
                continue
            self._append(entries)
            entries = []
            self._trim(row, change)
        self._append(entries)

    def forget(self, rows: Sequence[int]) -> None:
        """Forget the logs of removed queues; their entries are deleted with their messages."""
        for row in rows:
            self.connection.execute("DELETE FROM log_extent WHERE queue = ?", (row,))
        self._keep_last_entry()

    def write_events(self, changes: Sequence[EventStep]) -> None:
        """Write the changes to the event log, in order."""
        events: list[AppendEvent] = []
        for change in changes:
            if isinstance(change, AppendEvent):
                events.append(change)
            elif isinstance(change, RestoreNumbers):
                self._restore_numbers(change)
            else:
                self._append_events(events)
                events = []
                # The numbers have no gaps, so this is the first remaining one.
                self.connection.execute(
                    "UPDATE sequence SET first = max(first, ?), last = ? WHERE name = 'event'",
                    (self.last_event - max(0, change.keep) + 1, self.last_event),
                )
        self._append_events(events)

    def _append_events(self, events: Sequence[AppendEvent]) -> None:
        for piece in pieces(events):
            rows = (_event_row(sequence, event) for sequence, event in enumerate(piece, self.last_event + 1))
            self.connection.execute(
                f"INSERT INTO event VALUES {marks(8, len(piece))}", tuple(chain.from_iterable(rows))
            )
            self.last_event += len(piece)

    def _begin_at(self, row: int, first: int) -> None:
        self.connection.execute(
            "INSERT INTO log_extent VALUES (?, ?, 0, 0) ON CONFLICT (queue) DO UPDATE"
            " SET first = max(first, excluded.first)",
            (row, first),
        )

    def _restore_numbers(self, change: RestoreNumbers) -> None:
        self.last_entry = max(self.last_entry, change.last_entry)
        self._keep_last_entry()
        self.last_event = max(self.last_event, change.last_event)
        self.connection.execute(
            "UPDATE sequence SET first = max(first, ?), last = ? WHERE name = 'event'",
            (change.last_event + 1, self.last_event),
        )

    def _append(self, entries: Sequence[_Entry]) -> None:
        grown: dict[int, tuple[int, int]] = {}
        for piece in chunks(entries, _size_of):
            rows = (_entry_row(sequence, row, entry) for row, sequence, entry in piece)
            self.connection.execute(
                f"INSERT INTO log VALUES {marks(7, len(piece))}", tuple(chain.from_iterable(rows))
            )
        for row, _, entry in entries:
            count, size = grown.get(row, (0, 0))
            grown[row] = count + 1, size + len(entry.packet)
            self.written += len(entry.packet)
        for row, (count, size) in grown.items():
            self.connection.execute(
                "INSERT INTO log_extent VALUES (?, 1, ?, ?) ON CONFLICT (queue) DO UPDATE"
                " SET entries = entries + excluded.entries, size = size + excluded.size",
                (row, count, size),
            )

    def _trim(self, row: int, change: TrimLog) -> None:
        # By age first: what is left then counts against the size.
        if change.before is not None:
            self._cut(row, self._first_since(row, change.before))
        if change.keep_bytes is not None:
            self._cut(row, self._first_within(row, max(0, change.keep_bytes)))

    def _first_since(self, row: int, before: float) -> int:
        """The first entry that arrived at or after this time."""
        found = self.connection.execute(
            "SELECT sequence FROM log WHERE queue = ?1 AND arrived >= ?2"
            " AND sequence >= (SELECT first FROM log_extent WHERE queue = ?1) ORDER BY sequence LIMIT 1",
            (row, before),
        ).fetchone()
        return int(found[0]) if found is not None else self.last_entry + 1

    def _first_within(self, row: int, keep: int) -> int:
        """The first entry such that it and all later ones have at most this number of bytes."""
        execute = self.connection.execute
        first, entries, size = execute(
            "SELECT first, entries, size FROM log_extent WHERE queue = ?", (row,)
        ).fetchone() or (0, 0, 0)
        looked_at = 256
        while size > keep:
            looked_at *= 4
            found = execute(
                "SELECT min(sequence) FROM (SELECT sequence, sum(size) OVER (ORDER BY sequence) AS total"
                " FROM (SELECT sequence, size FROM log WHERE queue = ?1 AND sequence >= ?2"
                " ORDER BY sequence LIMIT ?3)) WHERE total >= ?4",
                (row, first, looked_at, size - keep),
            ).fetchone()[0]
            if found is not None:
                return int(found) + 1
            if looked_at >= entries:
                return self.last_entry + 1
        return int(first)

    def _cut(self, row: int, first: int) -> None:
        """Trim the entries of a log below this one.

        Valid entries directly follow the last removed one, so that a reader that continues from a number
        detects whether unread entries were removed.
        """
        self.connection.execute(
            "UPDATE log_extent SET first = coalesce(gone.last + 1, log_extent.first),"
            " entries = log_extent.entries - gone.entries, size = log_extent.size - gone.size"
            " FROM (SELECT count(*) AS entries, coalesce(sum(log.size), 0) AS size, max(log.sequence) AS last"
            " FROM log"
            " WHERE log.queue = ?1 AND log.sequence < ?2"
            " AND log.sequence >= (SELECT first FROM log_extent WHERE queue = ?1)) AS gone"
            " WHERE log_extent.queue = ?1 AND log_extent.first < ?2",
            (row, first),
        )
        self.trimmed.add(row)
        self._keep_last_entry()

    def _keep_last_entry(self) -> None:
        """Store the last assigned number before its entry is deleted, so that it is never reused."""
        self.connection.execute("UPDATE sequence SET last = ? WHERE name = 'log'", (self.last_entry,))


def _entry_row(sequence: int, row: int, entry: AppendLog | LoggedPacket) -> tuple[int | float | bytes, ...]:
    place, arrived, packet = stored_lookup_id(entry.lookup_id), entry.arrived, entry.packet
    checksum = entry_checksum(row, sequence, place, arrived, packet)
    return sequence, row, place, arrived, len(packet), packet, checksum


def _event_row(sequence: int, event: AppendEvent) -> tuple[int | float | bytes | str, ...]:
    texts = stored_text(event.event), stored_text(event.reason), stored_text(event.queue)
    name, reason, queue = texts
    values = event.time, event.identity, name, reason, event.message_class, queue
    return (sequence, *values, checksum_of_event(sequence, *values))


def _size_of(entry: _Entry) -> int:
    return len(entry[2].packet)
