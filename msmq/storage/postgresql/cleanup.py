"""Background deletion of obsolete rows, in small steps, so that no commit waits for it."""

from __future__ import annotations

from typing import Final

import attrs
import psycopg

from msmq.storage.postgresql.arrays import integers
from msmq.storage.postgresql.connection import PostgresqlConnection
from msmq.storage.postgresql.verification import is_damage

STEP: Final = 1000
"""Rows of one table deleted per step."""


@attrs.define
class PendingCleanup:
    """Pending deletions: rows of removed queues, and trimmed log entries.

    @ivar trimmed: rows of queues whose message logs may have trimmed entries.
    @ivar has_removed: whether removed queues may have rows left.
    @ivar has_events: whether there may be trimmed events.
    @ivar damaged: rows of queues of which the database cannot delete something, since its files are damaged.
    """

    trimmed: set[int]
    has_removed: bool = True
    has_events: bool = True
    damaged: set[int] = attrs.field(factory=set)
    _current: int | None = None

    @classmethod
    def found(cls, link: PostgresqlConnection) -> PendingCleanup:
        """All possible deletions in a newly opened schema."""
        return cls({row for (row,) in link.rows("SELECT queue FROM log_extent WHERE first > 1")})

    def step(self, link: PostgresqlConnection) -> bool:
        """Delete one step's rows; returns whether more work is pending.

        @raise psycopg.Error: it failed, and nothing was changed.
        """
        self._current = None
        try:
            self._step(link)
        except psycopg.Error as error:
            if is_damage(error):
                # The next step goes on with what is intact.
                if self._current is None:
                    self.has_events = False
                else:
                    self.damaged.add(self._current)
                    self.trimmed.discard(self._current)
            raise
        return bool(self.has_removed or self.trimmed or self.has_events)

    def _step(self, link: PostgresqlConnection) -> None:
        if self.has_removed:
            rows = link.rows(
                "SELECT id FROM removed_queue WHERE NOT id = ANY($1) ORDER BY id LIMIT 1",
                [integers(sorted(self.damaged))],
            )
            self.has_removed = bool(rows)
            for (self._current,) in rows:
                _delete_of_removed(link, self._current)
        elif self.trimmed:
            self._current = next(iter(self.trimmed))
            if _delete(link, _BELOW_FIRST, self._current) < STEP:
                self.trimmed.discard(self._current)
        elif self.has_events:
            self.has_events = _delete(link, _OLD_EVENTS) == STEP


def _delete_of_removed(link: PostgresqlConnection, row: int) -> None:
    if max([_delete(link, statement, row) for statement in _OF_QUEUE]) < STEP:
        link.execute(b"DELETE FROM removed_queue WHERE id = $1", [row])


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
