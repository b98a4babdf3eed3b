"""Generation number of the SQLite file, for the detection of lost commits."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import ClassVar, Final

from twisted.logger import Logger

from msmq.storage.generation_mark import GenerationMark

MARK_SECONDS: Final = 5.0
"""Seconds between two marks, while the store is written to."""


class FileGeneration:
    """Raises the number in the first transaction after each checkpoint of the WAL, and regularly.

    Such a transaction is confirmed only after its number is in the mark, so if a later WAL is lost, the file
    is behind its mark.

    @param connection: to the file; it belongs to one thread.
    @param mark: the path of the mark.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, connection: sqlite3.Connection, mark: Path) -> None:
        self._connection = connection
        self._mark = mark
        self.store, self.number = connection.execute("SELECT store, number FROM generation").fetchone()
        self._is_due = True
        self._has_written = False
        self._marked_at = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether the next transaction has to raise the number."""
        return self._is_due or time.monotonic() - self._marked_at >= MARK_SECONDS

    def request(self) -> None:
        """Let the next transaction raise the number."""
        self._is_due = True

    def advance(self) -> None:
        """Raise the number, in an open transaction.

        @raise sqlite3.Error: it failed.
        """
        self._connection.execute("UPDATE generation SET number = ?", (self.number + 1,))

    def confirm(self) -> None:
        """Write the mark, after the transaction with L{advance} was committed; a failure is logged."""
        self.number += 1
        self._is_due = self._has_written = False
        self._marked_at = time.monotonic()
        try:
            GenerationMark(self.store, self.number).write(self._mark)
        except OSError as error:
            self.log.error("{path}: cannot write: {error}", path=self._mark, error=error.strerror or error)

    def has_written(self) -> None:
        """Record a transaction without L{advance}."""
        self._has_written = True

    def advance_alone(self) -> None:
        """Raise the number in a transaction of its own, at the beginning or the end; a failure is logged."""
        try:
            self._connection.execute("BEGIN")
            self.advance()
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self.log.error("the generation of the store cannot be raised: {error}", error=error)
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        else:
            self.confirm()

    def end(self) -> None:
        """Raise the number at the end, if anything was written since."""
        if self._has_written:
            self.advance_alone()
