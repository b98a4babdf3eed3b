"""Background deletion of obsolete rows, in small steps, so that no commit waits for it."""

from __future__ import annotations

from typing import Final

import attrs

from msmq.storage.postgresql.connection import PostgresqlConnection

STEP: Final = 1000
"""Rows of one table deleted per step."""


@attrs.define
class PendingCleanup:
    """Pending deletions: rows of removed queues, and trimmed log entries.

    @ivar trimmed: rows of queues whose message logs may have trimmed entries.
    @ivar has_removed: whether removed queues may have rows left.
    @ivar has_events: whether there may be trimmed events.
    """

    trimmed: set[int]
    has_removed: bool = True
    has_events: bool = True

    @classmethod
    def found(cls, link: PostgresqlConnection) -> PendingCleanup:
        """All possible deletions in a newly opened schema."""
        return cls({row for (row,) in link.rows("SELECT queue FROM log_extent WHERE first > 1")})

    def step(self, link: PostgresqlConnection) -> bool:
        """Delete one step's rows; returns whether more work is pending.

        @raise psycopg.Error: it failed, and nothing was changed.
        """
        if self.has_removed:
            self.has_removed = _delete_of_removed(link)
        elif self.trimmed:
            row = next(iter(self.trimmed))
            if _delete(link, _BELOW_FIRST, row) < STEP:
                self.trimmed.discard(row)
        elif self.has_events:
            self.has_events = _delete(link, _OLD_EVENTS) == STEP
        return bool(self.has_removed or self.trimmed or self.has_events)


def _delete_of_removed(link: PostgresqlConnection) -> bool:
    rows = link.rows("SELECT id FROM removed_queue ORDER BY id LIMIT 1")
    if not rows:
        return False
    [(row,)] = rows
    if max([_delete(link, statement, row) for statement in _OF_QUEUE]) < STEP:
        link.execute(b"DELETE FROM removed_queue WHERE id = $1", [row])
    return True


def _delete(link: PostgresqlConnection, statement: str, *parameters: object) -> int:
    return link.execute(statement.encode(), parameters).rowcount


_OF_QUEUE: Final = (
    *(
        f"DELETE FROM {table} WHERE queue = $1 AND lookup_id IN"
        f" (SELECT lookup_id FROM {table} WHERE queue = $1 ORDER BY lookup_id LIMIT {STEP})"
        for table in ("message", "express")
    ),
    "DELETE FROM log WHERE queue = $1 AND sequence IN"
    f" (SELECT sequence FROM log WHERE queue = $1 ORDER BY sequence LIMIT {STEP})",
)
_BELOW_FIRST: Final = (
    "DELETE FROM log WHERE queue = $1 AND sequence IN (SELECT sequence FROM log WHERE queue = $1 AND"
    f" sequence < (SELECT first FROM log_extent WHERE queue = $1) ORDER BY sequence LIMIT {STEP})"
)
_OLD_EVENTS: Final = (
    "DELETE FROM event WHERE sequence IN (SELECT sequence FROM event WHERE"
    f" sequence < (SELECT first_event FROM progress) ORDER BY sequence LIMIT {STEP})"
)
