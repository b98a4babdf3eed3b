"""Incremental vacuum: returns free pages in small steps between transactions."""

from __future__ import annotations

import sqlite3
from typing import Final

import attrs

from msmq.storage.sqlite.failures import kind_of
from msmq.storage.sqlite.file_ownership import empty_log, pragma
from msmq.storage.sqlite.log_writer import Logs

SLACK_PAGES: Final = 1024
"""Free pages that a file retains for reuse."""
STEP_PAGES: Final = 256
"""Pages released per step."""
STEP_BYTES: Final = 1024 * 1024
"""Estimated bytes written by one step."""
STEP_ROWS: Final = 1000
"""Messages of a removed queue, or log entries, deleted per step."""

_MESSAGES_OF_REMOVED_QUEUE: Final = (
    "DELETE FROM message WHERE queue = ?1 AND lookup_id IN"
    " (SELECT lookup_id FROM message WHERE queue = ?1 LIMIT ?2)"
)

_LOG_OF_REMOVED_QUEUE: Final = (
    "DELETE FROM log WHERE sequence IN (SELECT sequence FROM log WHERE queue = ?1 LIMIT ?2)"
)

_OF_TRIMMED_LOG: Final = (
    "DELETE FROM log WHERE sequence IN (SELECT sequence FROM log WHERE queue = ?1 AND sequence <"
    " (SELECT first FROM log_extent WHERE queue = ?1) LIMIT ?2)"
)

_OF_TRIMMED_EVENTS: Final = (
    "DELETE FROM event WHERE sequence IN (SELECT sequence FROM event WHERE sequence <"
    " (SELECT first FROM sequence WHERE name = 'event') LIMIT ?)"
)


@attrs.define
class Space:
    """Free pages to release in the file and in the file for express messages.

    @ivar written: the approximate number of written bytes.
    @ivar has_checkpointed: whether it has checkpointed the WAL.
    @ivar damaged: what SQLite could not delete since the file is damaged there: rows of queues, events, free
        pages.
    """

    connection: sqlite3.Connection
    express: sqlite3.Connection
    logs: Logs
    written: int = 0
    has_checkpointed: bool = False
    damaged: set[int | str] = attrs.field(factory=set)
    _current: int | str = 0

    def reclaim(self, *, is_urgent: bool = False) -> bool:
        """Do one step; returns whether more work is pending.

        @param is_urgent: release all free pages, and truncate the WAL, since the disk is full.
        @raise sqlite3.Error: it failed, and nothing was changed.
        """
        try:
            if self._delete():
                self.written += STEP_BYTES
                return True
            slack = 0 if is_urgent else SLACK_PAGES
            is_more = self._shrink_both(slack)
        except sqlite3.DatabaseError as error:
            if kind_of(error) == "SQLITE_CORRUPT":
                # The next step goes on with what is intact; a repair removes the rest.
                self.damaged.add(self._current)
            raise
        if is_urgent and not is_more:
            empty_log(self.connection)
            self.has_checkpointed = True
            empty_log(self.express)
        return is_more

    def _delete(self) -> bool:
        """Delete some rows that are already invisible; returns whether there were any."""
        execute = self.connection.execute
        removed = execute("SELECT id FROM removed_queue LIMIT ?", (len(self.damaged) + 1,)).fetchall()
        for left in removed:
            if left[0] in self.damaged:
                continue
            [self._current] = left
            for connection, statement in (
                (self.connection, _MESSAGES_OF_REMOVED_QUEUE),
                (self.express, _MESSAGES_OF_REMOVED_QUEUE),
                (self.connection, _LOG_OF_REMOVED_QUEUE),
            ):
                if connection.execute(statement, (*left, STEP_ROWS)).rowcount == STEP_ROWS:
                    return True
            execute("DELETE FROM removed_queue WHERE id = ?", left)
            return True
        for row in self.logs.trimmed:
            if row in self.damaged:
                continue
            self._current = row
            if execute(_OF_TRIMMED_LOG, (row, STEP_ROWS)).rowcount < STEP_ROWS:
                self.logs.trimmed.discard(row)
            return True
        self._current = "event"
        return "event" not in self.damaged and execute(_OF_TRIMMED_EVENTS, (STEP_ROWS,)).rowcount > 0

    def _shrink_both(self, slack: int) -> bool:
        self._current = "free pages"
        if self._current in self.damaged:
            return False
        return any([self._shrink(connection, slack) for connection in (self.connection, self.express)])

    def _shrink(self, connection: sqlite3.Connection, slack: int) -> bool:
        """Release free pages, if there are many; returns whether there are more."""
        excess = pragma(connection, "freelist_count") - slack
        if excess <= 0 or (slack and 4 * (excess + slack) < pragma(connection, "page_count")):
            return False
        # The pragma returns a row without columns for each page; only a script continues after the first.
        connection.executescript(f"PRAGMA incremental_vacuum({min(excess, STEP_PAGES)})")
        self.written += STEP_BYTES
        if excess <= STEP_PAGES:
            # The file is truncated only by a checkpoint.
            self.has_checkpointed = True
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return excess > STEP_PAGES
