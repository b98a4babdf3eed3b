"""The threads that read; they wait neither for the one that writes nor for each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeAlias

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.storage import StorageError
from msmq.storage.postgresql.reading import Reader

Outcome: TypeAlias = tuple[Deferred[Any], object]
"""A Deferred, and the result or the exception that it is to fire with."""

Deliver: TypeAlias = Callable[[Sequence[Outcome]], object]
"""Has these Deferreds fire in their own thread."""


@attrs.frozen(eq=False)
class Read:
    """Something to be read after every batch that came before.

    @ivar is_search: whether it may take long, and is not to hold up the reading of packets.
    """

    call: Callable[[Reader], object]
    done: Deferred[Any]
    is_search: bool


class ReadingThread:
    """Reads in the order in which it is asked."""

    def __init__(self, reader: Reader, deliver: Deliver) -> None:
        self._reader = reader
        self._deliver = deliver
        self._asked: SimpleQueue[Read | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="msmq postgresql reader", daemon=True)
        self._thread.start()

    def put(self, read: Read) -> None:
        """Read this after all that was put before."""
        self._asked.put(read)

    def try_again(self) -> None:
        """Take note that the database is back."""
        self._reader.try_again()

    def stop(self) -> None:
        """Wait until everything is read, or has failed."""
        self._reader.end()
        self._asked.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (read := self._asked.get()) is not None:
            try:
                outcome = read.call(self._reader)
            except Exception as error:
                outcome = storage_error(error)
            self._deliver([(read.done, outcome)])
        self._reader.close()


def storage_error(error: Exception) -> StorageError:
    """Any error as one of the store."""
    return error if isinstance(error, StorageError) else StorageError(f"the store failed: {error!r}")
