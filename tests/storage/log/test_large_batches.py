"""Batches that no segment of the usual size holds."""

from __future__ import annotations

from uuid import UUID

from msmq.persistence.changes import PutMessages, PutQueue
from msmq.persistence.definition import QueueDefinition
from tests.storage.log.support import SEGMENT, LogTestCase

QUEUE = QueueDefinition(identifier=UUID(int=1), path="private$\\orders", number=1)
RUN = 100


class LargeBatchTests(LogTestCase):
    """A transaction of some thousand messages, which come in runs."""

    def test_one_segment(self) -> None:
        """One segment is made for the batch, of the right size: none is too small for what was planned."""
        store = self.opened(PutQueue(QUEUE))
        runs = [
            PutMessages(QUEUE.identifier, first, [b"%060d" % number for number in range(RUN)], 1.0)
            for first in range(0, 3000, RUN)
        ]
        self.commit(store, *runs)
        large = [file.name for file in (self.home / "log").glob("segment-*") if file.stat().st_size > SEGMENT]
        self.assertEqual(len(large), 1, large)
        self.done(store.close())
        again = self.make_store()
        snapshot = self.done(again.open())
        self.assertEqual(len(snapshot.messages[QUEUE.identifier]), 3000)
        self.done(again.close())
