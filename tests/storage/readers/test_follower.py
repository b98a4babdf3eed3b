"""A follower of a log notices whether the directory still has what it has replayed."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from msmq.persistence.changes import PutQueue, PutState
from msmq.storage.log.checkpoint_files import NAMES, newest_header
from msmq.storage.log.core.checkpoint import BODY
from msmq.storage.log.files import find_segments
from msmq.storage.log.follower import Follower, SegmentGone
from msmq.storage.log.system import LocalSystem
from tests.storage.log.support import QUEUE, LogTestCase


class OvertakenSystem(LocalSystem):
    """A system on which something happens before the content of a checkpoint is read for the first time."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens: Callable[[], object] | None = happens

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        """See L{LocalSystem.read}."""
        if offset >= BODY and (happens := self._happens) is not None:
            self._happens = None
            happens()
        return super().read(descriptor, size, offset)


class CurrentLogTests(LogTestCase):
    """The log of a server that goes on, or that something else takes the place of."""

    segment_bytes = 16 * 1024 * 1024

    def setUp(self) -> None:
        super().setUp()
        self.store = self.opened(PutQueue(QUEUE))
        self.append_log(self.store, 1, 20_000, 100)

    def follow(self) -> Follower:
        follower = Follower(self.home / "log")
        self.addCleanup(follower.close)
        follower.follow()
        return follower

    def checkpoint(self) -> int:
        newest = newest_header(self.home / "log")
        assert newest is not None
        return newest.number

    def test_goes_on(self) -> None:
        """It is current while its server writes groups and checkpoints."""
        follower = self.follow()
        self.append_log(self.store, 20_001, 1, 100)
        self.assertTrue(follower.is_current())
        self.let_be_quiet(self.store)
        self.assertEqual(self.checkpoint(), 2)
        self.assertTrue(follower.is_current())
        follower.follow()
        self.assertEqual(follower.state.last_entry, 20_001)
        self.done(self.store.close())

    def test_group_that_is_being_written(self) -> None:
        """The last group is seen when all of its packets are there."""
        copy = self.copied(self.store)
        self.append_log(self.store, 20_001, 1, 4096)
        after = self.copied(self.store, "after")
        name = next(
            path.name for path in (copy / "log").glob("segment-*") if path.read_bytes()[:8].strip(b"\0")
        )
        whole = (after / "log" / name).read_bytes()
        before = (copy / "log" / name).read_bytes()
        first = next(at for at in range(len(whole)) if whole[at] != before[at])
        # One sector of the packet has not been written yet.
        torn = bytearray(whole)
        torn[first + 1024 : first + 1536] = b"\1" * 512
        for content, last in ((bytes(torn), 20_000), (whole, 20_001)):
            (after / "log" / name).write_bytes(content)
            follower = Follower(after / "log")
            self.addCleanup(follower.close)
            follower.follow()
            self.assertEqual(follower.state.last_entry, last)
        self.done(self.store.close())

    def test_checkpoints_that_are_overtaken(self) -> None:
        """A reader that is slower than two checkpoints begins again: neither of them is damaged."""
        system = OvertakenSystem(self.write_checkpoints)
        with self.assertRaises(SegmentGone):
            Follower(self.home / "log", system=system)
        self.assertEqual(self.checkpoint(), 3)
        follower = Follower(self.home / "log", system=system)
        self.addCleanup(follower.close)
        self.done(self.store.close())

    def write_checkpoints(self) -> None:
        self.let_be_quiet(self.store)
        self.append_log(self.store, 20_001, 20_000, 100)
        self.let_be_quiet(self.store)

    def test_older_checkpoint(self) -> None:
        """It is not where the checkpoints are older than one that was seen, whatever segments are there."""
        copy = self.copied(self.store)
        follower = self.follow()
        self.let_be_quiet(self.store)
        self.assertEqual(self.checkpoint(), 2)
        self.assertTrue(follower.is_current())
        self.done(self.store.close())
        for name in NAMES:
            (self.home / "log" / name).unlink(missing_ok=True)
        for file in (copy / "log").glob("checkpoint-*"):
            shutil.copy(file, self.home / "log")
        self.assertFalse(follower.is_current())

    def test_nothing_was_replayed(self) -> None:
        """Where nothing was written after the checkpoint, another with its number is noticed."""
        self.let_be_quiet(self.store)
        self.done(self.store.close())
        follower = self.follow()
        self.assertTrue(follower.is_current())
        other = self.home.with_name("other")
        other.mkdir()
        store = self.opened(PutQueue(QUEUE), home=other)
        self.append_log(store, 1, 20_000, 50)
        self.let_be_quiet(store)
        self.done(store.close())
        shutil.rmtree(self.home / "log")
        shutil.copytree(other / "log", self.home / "log")
        self.assertEqual(self.checkpoint(), 2)
        self.assertFalse(follower.is_current())

    def test_older_copy_with_the_same_checkpoint(self) -> None:
        """It is not where a copy has taken its place that lacks the last groups, such as a backup."""
        copy = self.copied(self.store)
        self.append_log(self.store, 20_001, 1, 100)
        follower = self.follow()
        self.assertEqual(follower.state.last_entry, 20_001)
        self.assertTrue(follower.is_current())
        self.done(self.store.close())
        shutil.rmtree(self.home / "log")
        shutil.copytree(copy / "log", self.home / "log")
        self.assertFalse(follower.is_current())

    def test_nothing_is_there(self) -> None:
        """A directory without checkpoints has no log."""
        follower = self.follow()
        self.done(self.store.close())
        for name in NAMES:
            (self.home / "log" / name).unlink(missing_ok=True)
        self.assertFalse(follower.is_current())


class RemovedSegmentTests(LogTestCase):
    """A log with small segments, whose oldest ones are reused or deleted."""

    def setUp(self) -> None:
        super().setUp()
        self.store = self.opened(PutQueue(QUEUE))
        self.follower = Follower(self.home / "log")
        self.addCleanup(self.follower.close)
        self.follower.follow()
        self.assertTrue(self.follower.is_current())

    def put(self, *numbers: int) -> None:
        for number in numbers:
            self.commit(self.store, PutState("large", bytes([number]) * 30_000))

    def test_reused(self) -> None:
        """A follower that comes too late finds neither the next group nor its last one."""
        for number in range(20):
            self.put(*[number] * 4)
            self.let_be_quiet(self.store)
        self.assertRaises(SegmentGone, self.follower.follow)
        self.assertFalse(self.follower.is_current())
        self.done(self.store.close())

    def test_deleted(self) -> None:
        """It reads the end of a segment that was deleted while it was open, and is not current then."""
        self.put(1, 2, 3, 4, 5, 6)
        self.done(self.store.close())
        for segment in find_segments(self.home / "log"):
            if segment.header is not None and segment.header.generation <= 2:
                segment.path.unlink()
        self.assertRaises(SegmentGone, self.follower.follow)
        self.assertFalse(self.follower.is_current())
