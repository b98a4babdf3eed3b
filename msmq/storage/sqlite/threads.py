"""The two threads of the store: one writes, one reads, and neither waits for the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.interfaces.storage import StorageError
from msmq.queues.changes import Change
from msmq.queues.snapshot import Snapshot
from msmq.storage.sqlite.database import Database
from msmq.storage.sqlite.reading import PacketReader

TIDY_INTERVAL = 0.05
"""Seconds between two steps that give space back, while there is some."""

Outcome: TypeAlias = tuple[Deferred[Any], object]
"""A Deferred, and the result or the exception that it is to fire with."""

Deliver: TypeAlias = Callable[[Sequence[Outcome]], object]
"""Has these Deferreds fire in their own thread."""


Commit: TypeAlias = tuple[Sequence[Change], Deferred[None]]
"""A batch to be done."""


@attrs.frozen(eq=False)
class Read:
    """Something to be read after every batch that came before."""

    ask: Callable[[PacketReader], object]
    done: Deferred[Any]


@attrs.frozen(eq=False)
class Stop:
    """The end, after everything that came before."""


class ReadingThread:
    """Reads in the order in which it is asked."""

    def __init__(self, reader: PacketReader, deliver: Deliver) -> None:
        self._reader = reader
        self._deliver = deliver
        self._asked: SimpleQueue[Read | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="msmq sqlite reader", daemon=True)
        self._thread.start()

    def put(self, read: Read) -> None:
        """Read this after all that was put before."""
        self._asked.put(read)

    def stop(self) -> None:
        """Wait until everything is read."""
        self._asked.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (read := self._asked.get()) is not None:
            try:
                outcome: object = read.ask(self._reader)
            except StorageError as error:
                outcome = error
            self._deliver([(read.done, outcome)])
        self._reader.close()


class WritingThread:
    """Opens the file, then writes until it is told to stop.

    Whatever has come while the disk was busy goes to it as one transaction.

    @param open_database: opens the file; called in the thread.
    @param reading: gets each read when the batches before it are done, and ends with this thread.
    @param opened: is told, once, what the file holds, or why it cannot be used; then the thread has ended.
    @param deliver: is told what became of the batches.
    @param ended: is told that a stop was reached and the file is closed.
    """

    log = Logger()

    def __init__(
        self,
        open_database: Callable[[], Database],
        reading: ReadingThread,
        opened: Callable[[Snapshot | StorageError], object],
        deliver: Deliver,
        ended: Callable[[], object],
    ) -> None:
        self._open_database = open_database
        self._reading = reading
        self._opened = opened
        self._deliver = deliver
        self._ended = ended
        self._asked: SimpleQueue[Commit | Read | Stop] = SimpleQueue()
        # A daemon: whatever ends the process ends this too, and the file is made for that.
        Thread(target=self._run, name="msmq sqlite writer", daemon=True).start()

    def put(self, asked: Commit | Read | Stop) -> None:
        """Do this after all that was put before."""
        self._asked.put(asked)

    def _run(self) -> None:
        try:
            database = self._open_database()
        except Exception as error:
            self._reading.stop()
            self._opened(_storage_error(error))
            return
        try:
            snapshot = database.snapshot()
        except Exception as error:
            self._reading.stop()
            database.close()
            self._opened(_storage_error(error))
            return
        self._opened(snapshot)
        self._serve(database)
        self._reading.stop()
        database.close()
        self._ended()

    def _serve(self, database: Database) -> None:
        # The time of the next step that gives space back; None while there is nothing to give.
        tidy_at: float | None = time.monotonic()
        while not self._perform(database, self._take(tidy_at)):
            now = time.monotonic()
            if tidy_at is None:
                tidy_at = now + TIDY_INTERVAL
            elif tidy_at <= now:
                is_more = self._try(database.tidy)
                self._try(database.checkpoint)
                tidy_at = time.monotonic() + TIDY_INTERVAL if is_more else None

    def _take(self, until: float | None) -> list[Commit | Read | Stop]:
        """Everything that waits; if nothing does, wait for it, but not longer than that."""
        timeout = None if until is None else max(0.0, until - time.monotonic())
        group: list[Commit | Read | Stop] = []
        try:
            group.append(self._asked.get(timeout=timeout))
            while True:
                group.append(self._asked.get_nowait())
        except Empty:
            return group

    def _perform(self, database: Database, group: Sequence[Commit | Read | Stop]) -> bool:
        """Write the batches, then let the reads begin and tell how it went; whether it was the end."""
        commits = [asked for asked in group if isinstance(asked, tuple)]
        outcomes = self._write(database, commits) if commits else []
        is_end = False
        if len(commits) < len(group):
            for asked in group:
                match asked:
                    case Read():
                        self._reading.put(asked)
                    case Stop():
                        is_end = True
        if commits:
            self._deliver(outcomes)
            self._try(database.checkpoint)
        return is_end

    def _write(self, database: Database, commits: Sequence[Commit]) -> list[Outcome]:
        try:
            outcomes: Sequence[StorageError | None] = database.write([changes for changes, _ in commits])
        except Exception as error:
            # The thread must live, and whoever waits must hear of it.
            outcomes = [_storage_error(error)] * len(commits)
        return [(done, outcome) for (_, done), outcome in zip(commits, outcomes, strict=True)]

    def _try(self, step: Callable[[], bool]) -> bool:
        """Do something that nobody waits for; whether there is more of it to do."""
        try:
            return step()
        except StorageError as error:
            self.log.error("{error}", error=error)
            return False


def _storage_error(error: Exception) -> StorageError:
    return error if isinstance(error, StorageError) else StorageError(f"the store failed: {error!r}")
