"""Writing thread of the PostgreSQL store: group commit, waiting for an unavailable database."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty
from typing import Final, TypeAlias

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.storage import StorageError, storage_error
from msmq.persistence.changes import Change
from msmq.storage.postgresql.database import Outcomes, ServerDatabase
from msmq.storage.postgresql.failures import DatabaseUnreachable, StatementRefused, TablesLocked
from msmq.storage.postgresql.reader import DatabaseReader
from msmq.storage.reading_thread import Outcome, Read, ReadingThread
from msmq.storage.writing_thread import Listener, Stop, WritingThread

GROUP_BYTES: Final = 64 * 1024 * 1024
"""Approximate limit on the bytes of one transaction, unless a single batch is larger."""

CLEANUP_SECONDS: Final = 0.05
"""Seconds between cleanup steps."""

CHECK_SECONDS: Final = 1.0
"""Seconds between checks of an idle connection."""


@attrs.frozen(eq=False)
class Commit:
    """A batch to commit.

    @ivar weight: its approximate memory, in bytes.
    """

    changes: Sequence[Change]
    done: Deferred[None]
    weight: int


Asked: TypeAlias = Commit | Read


class PostgresqlWritingThread(WritingThread[ServerDatabase, Asked]):
    """Opens the schema, then writes until it is stopped.

    Batches that arrive during a commit are committed as one transaction.
    While the database is unavailable, batches wait for C{wait} seconds, then fail; later ones fail at once,
    until it is back.
    Only a group in doubt waits until its result is known.

    @param open_database: opens the schema; called in the thread.
    @param wait: seconds.
    @param readers: the readers of the other threads, each with a connection of its own.
    @param reading: the reading threads, which end with this one.
    @param lost: called once, in this thread, when the schema has another owner or was replaced.
    """

    def __init__(
        self,
        open_database: Callable[[], ServerDatabase],
        wait: float,
        readers: Sequence[DatabaseReader],
        reading: Sequence[ReadingThread],
        listener: Listener,
        lost: Callable[[StorageError], object],
    ) -> None:
        super().__init__("msmq postgresql writer", open_database, reading, listener)
        self._lost = lost
        self._is_lost = False
        self._wait = wait
        self._readers = readers
        self._is_end = False
        # When the database was first found unavailable since its last success; None while it is available.
        self._away_since: float | None = None

    def _stop_reading(self) -> None:
        for reader in self._readers:
            reader.end()
        super()._stop_reading()

    def _serve(self, database: ServerDatabase) -> None:
        # The time of the next cleanup step; None without pending cleanup.
        cleanup_at: float | None = time.monotonic()
        while not self._is_end:
            is_away = self._away_since is not None
            has_written = self._perform(database, self._take(None if is_away else cleanup_at))
            if database.refusal is not None and not self._is_lost:
                self._is_lost = True
                self._lost(database.refusal)
            now = time.monotonic()
            if cleanup_at is None:
                cleanup_at = now + CLEANUP_SECONDS if has_written else None
            elif cleanup_at <= now and self._away_since is None:
                cleanup_at = time.monotonic() + CLEANUP_SECONDS if self._cleanup(database) else None

    def _take(self, until: float | None) -> list[Asked | Stop]:
        """Take pending batches, as many as fit into one group; without any, wait for one, with a time-out."""
        timeout = CHECK_SECONDS if until is None else max(0.0, min(CHECK_SECONDS, until - time.monotonic()))
        group: list[Asked | Stop] = []
        weight = 0
        try:
            asked = self._asked.get(timeout=timeout)
            while True:
                group.append(asked)
                if isinstance(asked, Commit):
                    weight += asked.weight
                if weight >= GROUP_BYTES:
                    return group
                asked = self._asked.get_nowait()
        except Empty:
            return group

    def _perform(self, database: ServerDatabase, group: Sequence[Asked | Stop]) -> bool:
        """Write the batches, report the results and start the reads; returns whether there were batches."""
        commits = [asked for asked in group if isinstance(asked, Commit)]
        # Known before the write, which may have to wait for the database.
        self._is_end |= any(isinstance(asked, Stop) for asked in group)
        if commits:
            self._write(database, commits)
        else:
            self._check_connection(database)
        for asked in group:
            if isinstance(asked, Read):
                asked.begin()
        return bool(commits)

    def _write(self, database: ServerDatabase, commits: list[Commit]) -> None:
        """Write a group; if that fails, each batch singly, so that a faulty one fails alone."""
        groups = deque([commits])
        outcomes: list[Outcome] = []
        while groups:
            group = groups[0]
            try:
                found = self._write_or_wait(database, group, groups, outcomes)
            except (DatabaseUnreachable, StatementRefused, TablesLocked) as error:
                # Each batch alone would wait as long for the lock as all of them have.
                for lost in groups:
                    outcomes += _all_failed(lost, error)
                break
            except Exception as error:
                groups.popleft()
                if len(group) > 1:
                    groups.extendleft([commit] for commit in reversed(group))
                else:
                    # The thread must survive, and the waiting caller must get the error.
                    outcomes += _all_failed(group, storage_error(error))
            else:
                groups.popleft()
                outcomes += [(commit.done, outcome) for commit, outcome in zip(group, found, strict=True)]
        self._listener.deliver(outcomes)

    def _write_or_wait(
        self,
        database: ServerDatabase,
        group: list[Commit],
        groups: deque[list[Commit]],
        outcomes: list[Outcome],
    ) -> Outcomes:
        """Write a group, waiting for the database if necessary.

        @raise DatabaseUnreachable: the wait has expired, and nothing was written.
        @raise Refused: the database is back but unusable.
        """
        is_last = False
        while True:
            try:
                found = database.write([commit.changes for commit in group])
            except DatabaseUnreachable as error:
                self._connection_lost(error)
                settled = self._wait_for(database, error, groups, outcomes)
                if settled is None:
                    if is_last:
                        # The group itself may be what crashes the database.
                        raise
                    is_last = self._is_over()
                    continue
                found = settled
            self._connection_restored(database)
            return found

    def _wait_for(
        self,
        database: ServerDatabase,
        error: DatabaseUnreachable,
        groups: deque[list[Commit]],
        outcomes: list[Outcome],
    ) -> Outcomes | None:
        """Wait for the database; return the result of the group in doubt, or C{None} to write it again."""
        while True:
            try:
                database.reconnect()
            except DatabaseUnreachable as again:
                error = again
            except StatementRefused as refused:
                raise _with_doubt(database, refused) from None
            else:
                return database.settle()
            if not self._is_over():
                time.sleep(min(0.1, self._wait))
            elif not database.is_doubtful:
                raise error
            else:
                while len(groups) > 1:
                    outcomes += _all_failed(groups.pop(), error)
                if outcomes:
                    self._listener.deliver(list(outcomes))
                    outcomes.clear()
                if not self._refuse_pending(error):
                    raise _with_doubt(database, error)

    def _refuse_pending(self, error: DatabaseUnreachable) -> bool:
        """Fail further requests for some time, except at the end."""
        for asked in self._take(None):
            match asked:
                case Commit(done=done) | Read(done=done):
                    self._listener.deliver([(done, error)])
                case Stop():
                    self._is_end = True
        return not self._is_end

    def _check_connection(self, database: ServerDatabase) -> None:
        """Check the connection; if it is lost, reconnect before another process takes the schema."""
        try:
            database.check()
        except DatabaseUnreachable as error:
            self._connection_lost(error)
            try:
                database.reconnect()
            except StorageError:
                return
        except StorageError:
            return
        self._connection_restored(database)

    def _connection_lost(self, error: DatabaseUnreachable) -> None:
        if self._away_since is None:
            self._away_since = time.monotonic()
            self.log.warn("{error}", error=error)

    def _connection_restored(self, database: ServerDatabase) -> None:
        if self._away_since is not None:
            self._away_since = None
            for reader in self._readers:
                reader.try_again()
            self.log.info("{place}: the database is back", place=database.address.text)

    def _is_over(self) -> bool:
        """Whether the wait for the database has expired."""
        return self._away_since is not None and time.monotonic() >= self._away_since + self._wait

    def _cleanup(self, database: ServerDatabase) -> bool:
        """Do a cleanup step; returns whether more work is pending."""
        try:
            return database.cleanup()
        except DatabaseUnreachable as error:
            self._connection_lost(error)
        except StatementRefused:
            # The committer gets the error.
            pass
        except Exception as error:
            self.log.error("{error}", error=storage_error(error))
        return False


def _all_failed(commits: Sequence[Commit], error: StorageError) -> list[Outcome]:
    return [(commit.done, error) for commit in commits]


def _with_doubt(database: ServerDatabase, error: StorageError) -> StatementRefused:
    if database.is_doubtful:
        return StatementRefused(f"{error}; whether the last changes were done is not known")
    return StatementRefused(str(error))
