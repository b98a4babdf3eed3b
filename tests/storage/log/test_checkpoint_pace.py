"""Checkpoints of a record log while much is written to it."""

from __future__ import annotations

from uuid import UUID

from msmq.persistence.changes import AppendLog, PutQueue
from msmq.persistence.definition import QueueDefinition
from msmq.storage.log.checkpoint_files import find_checkpoints
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
