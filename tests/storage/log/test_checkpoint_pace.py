"""Checkpoints of a record log while much is written to it, and while nothing is."""

from __future__ import annotations

from msmq.persistence.changes import AppendLog, PutQueue
from msmq.storage.log.checkpoint_files import find_checkpoints
from msmq.storage.log.upkeep import QUIET_SECONDS
from tests.storage.log.support import QUEUE, LogTestCase


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
