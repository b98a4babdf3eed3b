"""Reader threads of stores, independent of the writing thread and of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeAlias
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.storage import LogEntry, LogExtent, StorageError, StoredEvent, storage_error
from msmq.storage.damage import VerifiedRows
from msmq.storage.scrub_step import ScrubPosition, ScrubStep

Outcome: TypeAlias = tuple[Deferred[Any], object]
"""A Deferred, and its result or exception."""

Deliver: TypeAlias = Callable[[Sequence[Outcome]], object]
"""Fires these Deferreds in their own thread."""


class ReaderThread(Protocol):
    """Reads for L{msmq.interfaces.IMessageStore}; blocking, in one thread."""

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> list[bytes]:
        """The packets of these messages, in this order."""

    def find(self, identity: bytes) -> list[tuple[UUID, int]]:
        """The locations of all messages with this identity."""

    def read_log(self, queue: UUID, after: int, limit: int) -> VerifiedRows[LogEntry]:
        """Entries of a message log with larger numbers."""

    def log_extent(self, queue: UUID) -> LogExtent:
        """The extent of a message log."""

    def read_events(self, after: int, limit: int, identity: bytes | None) -> VerifiedRows[StoredEvent]:
        """Events with larger numbers."""

    def scrub(self, position: ScrubPosition | None, size: int) -> ScrubStep:
        """Verify about this many bytes of packets after a position; C{None} for the beginning."""

    def close(self) -> None:
        """Release its resources."""


@attrs.frozen(eq=False)
class Read:
    """A read that sees all earlier batches.

    @ivar thread: the one that reads it.
    """

    ask: Callable[[ReaderThread], object]
    done: Deferred[Any]
    thread: ReadingThread

    def begin(self) -> None:
        """Start the read."""
        self.thread.put(self)


class ReadingThread:
    """Thread that serves reads in order.

    @param name: for listings of the threads of the process.
    @param deliver: called with the results.
    """

    def __init__(self, name: str, reader: ReaderThread, deliver: Deliver) -> None:
        self._reader = reader
        self._deliver = deliver
        self._asked: SimpleQueue[Read | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to serve reads.

        @raise RuntimeError: the system starts no further thread.
        """
        self._thread.start()

    def put(self, read: Read) -> None:
        """Submit a read, after all earlier ones."""
        self._asked.put(read)

    def stop(self) -> None:
        """Wait until all reads have completed or failed."""
        self._asked.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (read := self._asked.get()) is not None:
            try:
                outcome = read.ask(self._reader)
            except Exception as error:
                outcome = storage_error(error)
            self._deliver([(read.done, outcome)])
        self._reader.close()


def no_thread(location: str, doing: str, error: RuntimeError) -> StorageError:
    """The error of a store whose threads cannot be started.

    @param doing: what needs them, such as C{"open"}.
    """
    return StorageError(
        f"{location}: cannot {doing}: {error}; raise the limit on the threads of the server's user"
    )
