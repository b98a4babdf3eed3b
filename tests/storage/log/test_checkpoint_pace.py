"""Checkpoints of a record log while much is written to it, and while nothing is."""

from __future__ import annotations

from uuid import UUID

from msmq.persistence.changes import AppendLog, PutQueue
from msmq.persistence.definition import QueueDefinition
from msmq.storage.log import LogMessageStore
from msmq.storage.log.checkpoint_files import find_checkpoints
from msmq.storage.log.upkeep import QUIET_SECONDS
from tests.storage.log.support import LogTestCase

QUEUE = QueueDefinition(identifier=UUID(int=1), path="private$\\orders", number=1, log=True)


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

    def append(self, store: LogMessageStore, first: int, count: int, size: int) -> None:
        self.commit(
            store, *(AppendLog(QUEUE.identifier, n, bytes(size), 1.0) for n in range(first, first + count))
        )

    def wait(self, store: LogMessageStore, seconds: float = 2 * QUIET_SECONDS) -> None:
        """Let time pass, by default that after which a log is certainly quiet, and what it begins end."""
        before = store.counters.groups
        for step in (seconds / 2, seconds / 2, *[0.0] * 20):
            self.reactor.advance(step)
            self.settle(store)
            while self.reactor.has_calls:
                self.reactor.turn()
        self.assertEqual(store.counters.groups, before)

    def test_checkpoint(self) -> None:
        """A start, or a reader, replays nothing of a log that has been quiet for ten seconds: a checkpoint
        of any size ends without another group. Before five seconds there is none.
        """
        store = self.opened(PutQueue(QUEUE))
        self.append(store, 1, 20_000, 100)
        self.wait(store, QUIET_SECONDS - 1)
        self.append(store, 20_001, 1, 100)
        self.wait(store, QUIET_SECONDS - 1)
        self.assertEqual(self.newest(), 0)
        self.wait(store)
        self.assertEqual(self.newest(), 20_001)
        self.done(store.close())

    def test_after_a_restart(self) -> None:
        """What a start replayed counts, so that the next one need not replay it again."""
        store = self.opened(PutQueue(QUEUE))
        self.append(store, 1, 20_000, 100)
        self.done(store.close())
        store = self.make_store()
        self.done(store.open())
        self.wait(store)
        self.assertEqual(self.newest(), 20_000)
        self.done(store.close())

    def test_little_is_replayed(self) -> None:
        """A log that has grown by less than a checkpoint would write gets none."""
        store = self.opened(PutQueue(QUEUE))
        self.append(store, 1, 30_000, 100)
        self.wait(store)
        self.assertEqual(self.newest(), 30_000)
        self.append(store, 30_001, 1000, 1000)
        self.wait(store)
        self.assertEqual(self.newest(), 30_000)
        self.append(store, 31_001, 1000, 1000)
        self.wait(store)
        self.assertEqual(self.newest(), 32_000)
        self.done(store.close())
