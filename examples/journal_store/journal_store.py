"""A durable message store in one file, as a third-party package would add it.

Every batch of changes becomes one entry at the end of the file, which is synced before the commit completes.
A start reads all entries again; an incomplete last entry was never acknowledged, and is cut off.

It is an example: everything is kept in memory too, the file only grows, and disk writes block the reactor.
"""

from __future__ import annotations

import errno
import os
import pickle
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import BinaryIO
from uuid import UUID

from twisted.internet.defer import Deferred, fail
from zope.interface import implementer

from msmq.interfaces import (
    Change,
    IMessageStore,
    IStorageFactory,
    LogEntry,
    LogExtent,
    Snapshot,
    StorageError,
    StorageFull,
    StoredEvent,
    StoreNotOpen,
)
from msmq.testing import MemoryMessageStore

_ENTRY = Struct("<II")  # The size of an entry and its checksum; behind it, a pickled list of changes.


@implementer(IMessageStore)
class JournalMessageStore:
    """Message store that keeps its state in memory, and the changes in a file.

    @param path: the file; other users must not be able to write to it, since pickles are programs.
    """

    name = "journal"
    durable = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._memory = MemoryMessageStore()
        self._file: BinaryIO | None = None
        self._end = 0

    def open(self) -> Deferred[Snapshot]:
        """See L{IMessageStore.open}."""
        if self._file is not None:
            return fail(StorageError("the journal is open already"))
        self._memory = MemoryMessageStore(durable=True)
        self._memory.open()
        try:
            self._file = self._path.open("ab", buffering=0)
            self._end = 0
            for end, changes in _entries(self._path.read_bytes()):
                # A batch that was refused when it was written is refused again.
                self._memory.commit(changes).addErrback(lambda failure: failure.trap(StorageError) and None)
                self._end = end
            self._file.truncate(self._end)
        except OSError as error:
            return fail(self._failure(error))
        self._memory.close()  # It reports its state when it opens again.
        return self._memory.open()

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""
        if self._file is None:
            return fail(StoreNotOpen("the journal is not open"))
        content = pickle.dumps(list(changes))
        rest = memoryview(_ENTRY.pack(len(content), zlib.crc32(content)) + content)
        end = self._end + len(rest)
        try:
            # Over the remains of a failed write.
            self._file.truncate(self._end)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            return fail(self._failure(error))
        self._end = end
        return self._memory.commit(changes)

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        """See L{IMessageStore.read}."""
        return self._memory.read(queue, lookup_ids)

    def find(self, identity: bytes) -> Deferred[Sequence[tuple[UUID, int]]]:
        """See L{IMessageStore.find}."""
        return self._memory.find(identity)

    def read_log(self, queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        """See L{IMessageStore.read_log}."""
        return self._memory.read_log(queue, after, limit)

    def log_extent(self, queue: UUID) -> Deferred[LogExtent]:
        """See L{IMessageStore.log_extent}."""
        return self._memory.log_extent(queue)

    def read_events(
        self, after: int, limit: int, identity: bytes | None = None
    ) -> Deferred[Sequence[StoredEvent]]:
        """See L{IMessageStore.read_events}."""
        return self._memory.read_events(after, limit, identity)

    def close(self) -> Deferred[None]:
        """See L{IMessageStore.close}."""
        if self._file is not None:
            self._file.close()
            self._file = None
        return self._memory.close()

    def _failure(self, error: OSError) -> StorageError:
        kind = StorageFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StorageError
        return kind(f"{self._path}: {error.strerror}")


def _entries(content: bytes) -> Iterator[tuple[int, list[Change]]]:
    """The complete entries of the file, each with its end offset."""
    data = memoryview(content)
    position = 0
    while len(data) - position >= _ENTRY.size:
        size, checksum = _ENTRY.unpack_from(data, position)
        changes = data[position + _ENTRY.size :][:size]
        if len(changes) < size or zlib.crc32(changes) != checksum:
            return
        position += _ENTRY.size + size
        yield position, pickle.loads(changes)


@implementer(IStorageFactory)
class JournalStorageFactory:
    """Factory for C{journal}, a file in the data directory, and C{journal:FILE}, another one."""

    name = "journal"
    description = "one file that only grows, forced to disk with every batch"

    def open_store(self, argument: str, data: Path) -> IMessageStore:
        """See L{IStorageFactory.open_store}."""
        return JournalMessageStore(data / (argument or "journal"))
