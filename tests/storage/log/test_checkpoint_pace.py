"""Checkpoints of a record log while much is written to it, and while nothing is."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from twisted.python.failure import Failure

from msmq.persistence.changes import AppendLog, PutAborts, PutQueue
from msmq.storage.log import LogMessageStore
from msmq.storage.log.checkpoint_files import find_checkpoints
from msmq.storage.log.core.checkpoint import BODY
from msmq.storage.log.system import LocalSystem
from msmq.storage.log.upkeep import QUIET_SECONDS
from msmq.testing.contracts.store_contract import ORDERS, put, remove
from tests.storage.log.support import QUEUE, SEGMENT, LogTestCase


class LargeGroupTests(LogTestCase):
    """Each group has more rows than a checkpoint has in its smallest step."""

    def test_checkpoints_keep_up(self) -> None:
        """A start, or a reader, has to replay no more than three quarters of the log."""
        store = self.opened(PutQueue(QUEUE))
        for group in range(12):
            numbers = range(4000 * group, 4000 * group + 4000)
            self.commit(store, *(AppendLog(QUEUE.identifier, n, b"packet", 1.0) for n in numbers))
        [newest, *_] = find_checkpoints(self.home / "log", is_complete=False)
        assert newest.header is not None, newest
        self.assertGreater(newest.header.last_entry, 12_000)
        self.done(store.close())


class QuietLogTests(LogTestCase):
    """A log that is not written to, with far fewer bytes than a checkpoint under load needs."""

    segment_bytes = 16 * 1024 * 1024

    def newest(self) -> int:
        """The last log entry that the newest checkpoint includes."""
        [newest, *_] = find_checkpoints(self.home / "log", is_complete=False)
        assert newest.header is not None, newest
        return newest.header.last_entry

    def test_checkpoint(self) -> None:
        """A start, or a reader, replays nothing of a log that has been quiet for ten seconds: a checkpoint
        of any size ends without another group. Before five seconds there is none.
        """
        store = self.opened(PutQueue(QUEUE))
        self.append_log(store, 1, 20_000, 100)
        self.let_be_quiet(store, QUIET_SECONDS - 1)
        self.append_log(store, 20_001, 1, 100)
        self.let_be_quiet(store, QUIET_SECONDS - 1)
        self.assertEqual(self.newest(), 0)
        self.let_be_quiet(store)
        self.assertEqual(self.newest(), 20_001)
        self.done(store.close())

    def test_after_a_restart(self) -> None:
        """What a start replayed counts, so that the next one need not replay it again."""
        store = self.opened(PutQueue(QUEUE))
        self.append_log(store, 1, 20_000, 100)
        self.done(store.close())
        store = self.make_store()
        self.done(store.open())
        self.let_be_quiet(store)
        self.assertEqual(self.newest(), 20_000)
        self.done(store.close())

    def test_little_is_replayed(self) -> None:
        """A log that has grown by less than a checkpoint would write gets none."""
        store = self.opened(PutQueue(QUEUE))
        self.append_log(store, 1, 30_000, 100)
        self.let_be_quiet(store)
        self.assertEqual(self.newest(), 30_000)
        self.append_log(store, 30_001, 1000, 1000)
        self.let_be_quiet(store)
        self.assertEqual(self.newest(), 30_000)
        self.append_log(store, 31_001, 1000, 1000)
        self.let_be_quiet(store)
        self.assertEqual(self.newest(), 32_000)
        self.done(store.close())


class FilledDisk(LocalSystem):
    """A disk on which no file can be created, or grow, while C{is_full}."""

    is_full = False

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int, flags: int = 0) -> int:
        """See L{LogSystem.write}."""
        if self.is_full and offset + sum(map(len, buffers)) > self.size(descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(descriptor, buffers, offset, flags)

    def allocate(self, descriptor: int, size: int) -> None:
        """See L{LogSystem.allocate}."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(descriptor, size)


class FullDiskTests(LogTestCase):
    """A disk that was full for a while."""

    def test_full_from_the_beginning(self) -> None:
        """What removes or counts goes on for ever, also if the disk is full before the first checkpoint."""
        disk = FilledDisk()
        store = self.make_store(system=disk)
        self.done(store.open())
        self.commit(store, PutQueue(ORDERS), put(1, b"one"))
        self.assert_goes_on(store, disk)

    def test_full_after_a_repair(self) -> None:
        """So it does in a log that has one checkpoint, which is what a repair leaves."""
        self.done(self.opened(PutQueue(ORDERS), put(1, b"one")).close())
        (self.home / "log" / "checkpoint-b").unlink()
        disk = FilledDisk()
        store = self.make_store(system=disk)
        self.done(store.open())
        self.assert_goes_on(store, disk)

    def assert_goes_on(self, store: LogMessageStore, disk: FilledDisk) -> None:
        """On a disk that is full from now on, batches that remove or count are not refused."""
        self.settle_all(store)
        disk.is_full = True
        for number in range(2000):
            self.commit(store, PutAborts(ORDERS.identifier, 1, number))
            if number % 10 == 0:
                self.settle_all(store)
        self.assertGreater(store.counters.reclaimed, 5)
        self.done(store.close())

    def test_full_at_a_start_after_a_repair(self) -> None:
        """A start reserves the space that an earlier one could not, because the disk was full then."""
        self.done(self.opened(PutQueue(ORDERS), put(1, b"one")).close())
        (self.home / "log" / "checkpoint-b").unlink()
        disk = FilledDisk()
        disk.is_full = True
        store = self.make_store(system=disk)
        self.done(store.open())
        self.done(store.close())
        disk.is_full = False
        self.done(store.open())
        self.assert_goes_on(store, disk)

    def test_space_for_a_part(self) -> None:
        """So it does if the disk had space for a part of it, which ext4 keeps."""
        self.done(self.opened(PutQueue(ORDERS), put(1, b"one")).close())
        (self.home / "log" / "checkpoint-b").write_bytes(bytes(BODY + 1))
        disk = FilledDisk()
        store = self.make_store(system=disk)
        self.done(store.open())
        self.assert_goes_on(store, disk)

    def test_space_again(self) -> None:
        """After removals have freed segments, checkpoints are as rare as before the disk was full."""
        disk = FilledDisk()
        store = self.make_store(system=disk)
        self.done(store.open())
        self.commit(store, PutQueue(ORDERS))
        stored = 20
        for number in range(stored):
            self.commit(store, put(number, bytes(30_000)))
        disk.is_full = True
        outcome: Failure | None = None
        while outcome is None:
            outcome = self.reactor.outcome(store.commit([put(stored, bytes(30_000))]))
            stored += outcome is None
        for number in range(stored):
            self.commit(store, remove(number))
            self.settle_all(store)
        disk.is_full = False
        before = store.counters.checkpoints, store.counters.segments
        for number in range(80):
            self.commit(store, put(number, bytes(SEGMENT // 2)))
            self.commit(store, remove(number))
            self.settle_all(store)
        checkpoints = store.counters.checkpoints - before[0]
        self.assertGreater(store.counters.segments - before[1], 70)
        self.assertLessEqual(checkpoints, 30)
        self.done(store.close())
