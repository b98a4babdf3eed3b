"""Incremental vacuum: returns free pages in small steps between transactions."""

from __future__ import annotations

import sqlite3
from typing import Final

import attrs

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
    """

    connection: sqlite3.Connection
    express: sqlite3.Connection
    logs: Logs
    written: int = 0
    has_checkpointed: bool = False

    def reclaim(self, *, is_urgent: bool = False) -> bool:
        """Do one step; returns whether more work is pending.

        @param is_urgent: release all free pages, and truncate the WAL, since the disk is full.
        @raise sqlite3.Error: it failed, and nothing was changed.
        """
        if self._delete():
            self.written += STEP_BYTES
            return True
        slack = 0 if is_urgent else SLACK_PAGES
        is_more = any([self._shrink(connection, slack) for connection in (self.connection, self.express)])
        if is_urgent and not is_more:
            empty_log(self.connection)
            self.has_checkpointed = True
            empty_log(self.express)
        return is_more

    def _delete(self) -> bool:
        """Delete some rows that are already invisible; returns whether there were any."""
        execute = self.connection.execute
        left = execute("SELECT id FROM removed_queue LIMIT 1").fetchone()
        if left is not None:
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
            if execute(_OF_TRIMMED_LOG, (row, STEP_ROWS)).rowcount < STEP_ROWS:
                self.logs.trimmed.discard(row)
            return True
        return execute(_OF_TRIMMED_EVENTS, (STEP_ROWS,)).rowcount > 0

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
