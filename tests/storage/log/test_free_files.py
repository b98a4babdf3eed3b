"""Files that a record log creates before they are needed."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from msmq.interfaces.storage import StorageError, StorageFull
from msmq.persistence.changes import AppendLog, PutQueue
from msmq.persistence.definition import QueueDefinition
from msmq.storage.log import LogMessageStore
from msmq.storage.log.core.format import SEGMENT_MAGIC
from msmq.storage.log.core.segments import AHEAD, KEPT, RESERVED
from msmq.storage.log.supply import SPACE
from msmq.storage.log.system import LocalSystem
from msmq.storage.log.upkeep import QUIET_SECONDS
from tests.storage.log.support import SEGMENT, LogTestCase

QUEUE = QueueDefinition(identifier=UUID(int=1), path="private$\\orders", number=1, log=True)


class SmallDisk(LocalSystem):
    """A file system with this much space, whatever is written."""

    def __init__(self, space: int) -> None:
        self._space = space

    def free_space(self, directory: Path) -> int:
        """See L{LogSystem.free_space}."""
        return self._space


class FailingDisk(LocalSystem):
    """A disk that takes the zeros of a new file, and then neither its name nor its header."""

    takes_names = True
    takes_headers = True

    def sync(self, path: Path) -> None:
        """See L{LogSystem.sync}."""
        if not self.takes_names:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(path)

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int, flags: int = 0) -> int:
        """See L{LogSystem.write}."""
        if not self.takes_headers and buffers[0].startswith(SEGMENT_MAGIC):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(descriptor, buffers, offset, flags)


class FreeFilesTests(LogTestCase):
    """Segments that no message is in yet."""

    def opened_with(self, space: int) -> LogMessageStore:
        """A store on a disk with so much space."""
        store = self.make_store(system=SmallDisk(space))
        self.done(store.open())
        self.commit(store, PutQueue(QUEUE))
        return store

    def wait(self, store: LogMessageStore, seconds: float) -> None:
        """Let time pass, and what it begins end."""
        for step in (seconds, *[0.0] * 20):
            self.reactor.advance(step)
            self.settle(store)
            while self.reactor.has_calls:
                self.reactor.turn()

    def files(self) -> set[str]:
        """The segments on the disk."""
        return {path.name for path in (self.home / "log").glob("segment-*")}

    def test_quiet_log(self) -> None:
        """After five quiet seconds a log has the free files that a log in use keeps, and the load that comes
        then creates none until only the usual number is left.
        """
        store = self.opened_with(SPACE * SEGMENT)
        self.wait(store, QUIET_SECONDS - 1)
        self.assertLess(len(self.files()), 1 + KEPT)
        for _ in range(2):
            self.wait(store, QUIET_SECONDS)
        quiet = self.files()
        self.assertEqual(len(quiet), 1 + KEPT)
        # The first message has space in the segment in use.
        for number in range(KEPT - RESERVED - AHEAD + 1):
            self.commit(store, AppendLog(QUEUE.identifier, number, bytes(SEGMENT * 3 // 4), 1.0))
            self.wait(store, 0)
            self.assertEqual(self.files(), quiet)
        self.commit(store, AppendLog(QUEUE.identifier, 9, bytes(SEGMENT * 3 // 4), 1.0))
        self.wait(store, 0)
        self.assertEqual(len(self.files() - quiet), 1)
        self.done(store.close())

    def test_little_space(self) -> None:
        """On a disk with less space than that of 64 segments only the usual number is created."""
        store = self.opened_with(SPACE * SEGMENT - 1)
        self.wait(store, 0)
        usual = self.files()
        for _ in range(3):
            self.wait(store, QUIET_SECONDS)
        self.assertEqual(self.files(), usual)
        self.done(store.close())

    def test_disk_that_fails_late(self) -> None:
        """A batch that is refused leaves no file, whichever step of the file's creation has failed."""
        disk = FailingDisk()
        store = self.make_store(system=disk)
        self.done(store.open())
        self.commit(store, PutQueue(QUEUE))
        self.wait(store, 0)
        large = AppendLog(QUEUE.identifier, 1, bytes(2 * SEGMENT), 1.0)
        before = self.files()
        disk.takes_names = False
        for _ in range(3):
            self.refused(store.commit([large]), StorageError)
        disk.takes_names, disk.takes_headers = True, False
        for _ in range(3):
            self.refused(store.commit([large]), StorageError)
        self.assertEqual(self.files(), before)
        disk.takes_headers = True
        self.commit(store, large)
        self.done(store.close())

    def test_a_new_log_on_a_small_disk(self) -> None:
        """It is refused before a file is filled, unless there is space for what it needs to take messages."""
        needed = (AHEAD + RESERVED + 2) * SEGMENT
        store = self.make_store(system=SmallDisk(needed - 1))
        error = self.refused(store.open(), StorageFull)
        self.assertIn("a new store needs 1 MiB, and its file system has 0 MiB free", str(error))
        self.assertEqual(self.files(), set())
        store = self.opened_with(needed)
        self.done(store.close())
        # A log that exists is opened on any disk.
        self.done(self.opened_with(1).close())

    def test_a_disk_of_unknown_size(self) -> None:
        """Some file systems report no free space and have it."""
        self.done(self.opened_with(0).close())
