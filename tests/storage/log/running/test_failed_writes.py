"""Writes of a record log that fail, and what a start finds after them."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import PutQueue, PutState
from msmq.storage.log.checkpoint_files import find_checkpoints
from msmq.storage.log.core.checkpoint import BODY
from msmq.storage.log.core.format import GROUP_MAGIC
from msmq.storage.log.system import LocalSystem
from msmq.testing.contracts.store_contract import ORDERS, put, remove
from tests.storage.log.support import SEGMENT, LogTestCase, running_log


class FailingSystem(LocalSystem):
    """A disk that fails after it has written.

    @ivar groups: how many writes of groups fail.
    @ivar checkpoints: how many headers of checkpoints fail.
    """

    groups = 0
    checkpoints = 0

    def __init__(self) -> None:
        self._checkpoints: set[int] = set()

    def open(self, path: Path, flags: int) -> int:
        """See L{LocalSystem.open}."""
        descriptor = super().open(path, flags)
        self._checkpoints.discard(descriptor)
        if path.name.startswith("checkpoint-") and flags & os.O_RDWR:
            self._checkpoints.add(descriptor)
        return descriptor

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int, flags: int = 0) -> int:
        """See L{LocalSystem.write}."""
        written = super().write(descriptor, buffers, offset, flags)
        if self.groups and buffers[0].startswith(GROUP_MAGIC):
            self.groups -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self.checkpoints and descriptor in self._checkpoints and not offset and any(buffers[0]):
            self.checkpoints -= 1
            # It is not whole.
            super().write(descriptor, [bytes(32)], 0)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return written


class FailedWriteTests(LogTestCase):
    """The disk fails for some time."""

    def setUp(self) -> None:
        super().setUp()
        self.system = FailingSystem()
        self.store = self.make_store(system=self.system)
        self.done(self.store.open())
        self.commit(self.store, PutQueue(ORDERS))

    def kept(self, home: Path) -> list[int]:
        store = self.make_store(home)
        snapshot = self.done(store.open())
        self.done(store.close())
        return [entry[0] for entry in snapshot.messages.get(ORDERS.identifier, [])]

    def test_refused_batch(self) -> None:
        """A batch that was refused is not there after a kill, although all of it was written."""
        self.commit(self.store, put(1))
        self.system.groups = 1
        self.refused(self.store.commit([put(2)]), StorageError)
        self.assertEqual(self.kept(self.copied(self.store)), [1])
        self.done(self.store.close())

    def test_together_again(self) -> None:
        """After a group that failed its batches are written alone, and later ones together again."""
        self.system.groups = 1
        first = [self.store.commit([put(number)]) for number in range(3)]
        for each in first:
            self.done(each)
        before = self.store.counters.groups
        for _ in range(3):
            for each in [self.store.commit([PutState("name", b"%d" % number)]) for number in range(9)]:
                self.done(each)
        self.assertLess(self.store.counters.groups - before, 9)
        self.done(self.store.close())

    def test_failed_checkpoints(self) -> None:
        """Checkpoints that fail again and again leave the last one that did not."""
        self.system.checkpoints = 3
        number = 0
        while self.system.checkpoints and number < 500:
            number += 1
            self.commit(self.store, put(number, bytes(SEGMENT // 4)), remove(number - 1))
            self.settle(self.store)
            while self.reactor.has_calls:
                self.reactor.turn()
        self.assertEqual((self.system.checkpoints, self.store.counters.checkpoints), (0, 0))
        self.assertEqual(self.kept(self.copied(self.store)), [number])
        self.flushLoggedErrors()
        self.done(self.store.close())


class OlderCheckpointTests(LogTestCase):
    """The segments that a start from either checkpoint needs."""

    def fill(self, first: int, last: int) -> None:
        """Have messages pass through the log, of which only the last one stays."""
        for number in range(first, last):
            self.commit(self.store, put(number, bytes(SEGMENT // 4)), remove(number - 1))
            self.settle(self.store)
            while self.reactor.has_calls:
                self.reactor.turn()

    def test_damaged_checkpoint(self) -> None:
        """The one before is used, also where the log has reused segments since."""
        self.store = self.opened(PutQueue(ORDERS))
        for number in range(1, 201, 20):
            self.fill(number, number + 20)
            copy = self.copied(self.store)
            checkpoints = find_checkpoints(copy / "log")
            positions = [one.header.position.generation for one in checkpoints if one.header is not None]
            self.assertIn(min(positions), running_log(self.store).engine.segments.used)
            if len(checkpoints) == 2:
                with checkpoints[0].path.open("r+b") as file:
                    file.seek(BODY + 4)
                    file.write(b"damaged")
            store = self.make_store(copy)
            snapshot = self.done(store.open())
            self.assertEqual([entry[0] for entry in snapshot.messages[ORDERS.identifier]], [number + 19])
            self.done(store.close())
        self.assertGreater(self.store.counters.reclaimed, 20)
        self.done(self.store.close())

    def test_empty_segments_after_the_checkpoint(self) -> None:
        """A start that finds them does not reuse them, since the next start reads them too."""
        self.store = self.opened(PutQueue(ORDERS))
        self.fill(1, 8)
        self.assertEqual(self.store.counters.checkpoints, 0)
        self.assertGreater(self.store.counters.segments, 0)
        self.done(self.store.close())
        for number in range(8, 20, 4):
            self.store = self.opened()
            self.fill(number, number + 4)
            store = self.make_store(self.copied(self.store))
            snapshot = self.done(store.open())
            self.assertEqual([entry[0] for entry in snapshot.messages[ORDERS.identifier]], [number + 3])
            self.done(store.close())
            self.done(self.store.close())
