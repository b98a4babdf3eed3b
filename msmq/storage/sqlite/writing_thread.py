"""Writing thread of the SQLite store."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from queue import Empty
from typing import Final, TypeAlias

from twisted.internet.defer import Deferred

from msmq.interfaces.storage import StorageError, storage_error
from msmq.persistence.changes import Change
from msmq.storage.reading_thread import Outcome, Read
from msmq.storage.sqlite.database import FileDatabase
from msmq.storage.writing_thread import Stop, WritingThread

TIDY_INTERVAL: Final = 0.05
"""Seconds between cleanup steps, while free space is left to release."""

Commit: TypeAlias = tuple[Sequence[Change], Deferred[None]]
"""A batch to commit, with its Deferred."""

Asked: TypeAlias = Commit | Read


class SqliteWritingThread(WritingThread[FileDatabase, Asked]):
    """Group commit: batches that arrive during a write are written as one transaction."""

    def _serve(self, database: FileDatabase) -> None:
        # The time of the next cleanup step; None without pending cleanup.
        tidy_at: float | None = time.monotonic()
        while not self._perform(database, self._take(tidy_at)):
            now = time.monotonic()
            if tidy_at is None:
                tidy_at = now + TIDY_INTERVAL
            elif tidy_at <= now:
                is_more = self._try(database.cleanup)
                self._try(database.checkpoint)
                tidy_at = time.monotonic() + TIDY_INTERVAL if is_more else None

    def _take(self, until: float | None) -> list[Asked | Stop]:
        """Take all pending requests; without any, wait for one, with this time-out."""
        timeout = None if until is None else max(0.0, until - time.monotonic())
        group: list[Asked | Stop] = []
        try:
            group.append(self._asked.get(timeout=timeout))
            while True:
                group.append(self._asked.get_nowait())
        except Empty:
            return group

    def _perform(self, database: FileDatabase, group: Sequence[Asked | Stop]) -> bool:
        """Write the batches, then start the reads and report the results; returns whether it was the last."""
        commits = [asked for asked in group if isinstance(asked, tuple)]
        outcomes = self._write(database, commits) if commits else []
        is_end = False
        if len(commits) < len(group):
            for asked in group:
                match asked:
                    case Read():
                        asked.begin()
                    case Stop():
                        is_end = True
        if commits:
            self._listener.deliver(outcomes)
            self._try(database.checkpoint)
        return is_end

    def _write(self, database: FileDatabase, commits: Sequence[Commit]) -> list[Outcome]:
        try:
            outcomes: Sequence[StorageError | None] = database.write([changes for changes, _ in commits])
        except Exception as error:
            # The thread must survive, and the waiting caller must get the error.
            outcomes = [storage_error(error)] * len(commits)
        return [(done, outcome) for (_, done), outcome in zip(commits, outcomes, strict=True)]

    def _try(self, step: Callable[[], bool]) -> bool:
        """Do a background step; returns whether more work is pending."""
        try:
            return step()
        except Exception as error:
            # The thread must survive: it is tried again after the next batch.
            self.log.error("{error}", error=storage_error(error))
            return False
