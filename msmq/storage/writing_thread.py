"""Base of the writing threads of stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import ClassVar, Generic, Protocol, TypeVar

import attrs
from twisted.logger import Logger

from msmq.interfaces.storage import StorageError, storage_error
from msmq.persistence.snapshot import Snapshot
from msmq.storage.reading_thread import Deliver, ReadingThread


class OpenWriter(Protocol):
    """An open store for writing; blocking, used by one thread."""

    def snapshot(self) -> Snapshot:
        """The contents of the store.

        @raise StorageError: it cannot be read.
        """

    def close(self) -> None:
        """Release it."""


Database = TypeVar("Database", bound=OpenWriter)
Asked = TypeVar("Asked")


@attrs.frozen(eq=False)
class Stop:
    """Request to stop, after all earlier requests."""


@attrs.frozen
class Listener:
    """Callbacks of a writing thread, called in that thread.

    @ivar opened: called once with the contents, or with the error, after which the thread has ended.
    @ivar deliver: called with the results of batches.
    @ivar ended: called when a stop was reached and everything was released.
    """

    opened: Callable[[Snapshot | StorageError], object]
    deliver: Deliver
    ended: Callable[[], object]


class WritingThread(ABC, Generic[Database, Asked]):
    """Opens the store, then writes until it is stopped.

    Batches that arrive during a write are written as one transaction.

    @param name: for listings of the threads of the process.
    @param open_database: called in the thread.
    @param reading: the reading threads, which end with this one.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        name: str,
        open_database: Callable[[], Database],
        reading: Sequence[ReadingThread],
        listener: Listener,
    ) -> None:
        self._open_database = open_database
        self._reading = reading
        self._listener = listener
        self._asked: SimpleQueue[Asked | Stop] = SimpleQueue()
        # A daemon thread: it ends with the process, which the store's crash recovery allows for.
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to open, with the reading threads started.

        @raise RuntimeError: the system starts no further thread; those that were started have ended.
        """
        started: list[ReadingThread] = []
        try:
            for reading in self._reading:
                reading.start()
                started.append(reading)
            self._thread.start()
        except RuntimeError:
            for reading in started:
                reading.stop()
            raise

    def put(self, asked: Asked | Stop) -> None:
        """Submit a request, after all earlier ones."""
        self._asked.put(asked)

    @abstractmethod
    def _serve(self, database: Database) -> None:
        """Serve requests until a stop."""

    def _run(self) -> None:
        try:
            database = self._open_database()
        except Exception as error:
            self._stop_reading()
            self._listener.opened(storage_error(error))
            return
        try:
            snapshot = database.snapshot()
        except Exception as error:
            self._stop_reading()
            database.close()
            self._listener.opened(storage_error(error))
            return
        self._listener.opened(snapshot)
        self._serve(database)
        self._stop_reading()
        try:
            database.close()
        except Exception as error:
            # Those that wait for the end must get it.
            self.log.error("{error}", error=storage_error(error))
        self._listener.ended()

    def _stop_reading(self) -> None:
        for reading in self._reading:
            reading.stop()
