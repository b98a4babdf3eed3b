"""A record log that is closed while something is in progress."""

from __future__ import annotations

import os
from pathlib import Path

from msmq.persistence.changes import PutQueue
from msmq.storage.log.upkeep import QUIET_SECONDS
from msmq.storage.scrub_policy import SCRUBBING
from msmq.testing.contracts.store_contract import ORDERS, put
from tests.storage.log.running.held_workers import WRITER, HoldingSystem
from tests.storage.log.support import QUEUE, LogTestCase, is_checkpointing


class ClosingTests(LogTestCase):
    """What a store that was closed leaves."""

    segment_bytes = 16 * 1024 * 1024

    def test_checkpoint_in_progress(self) -> None:
        """No file stays open, and the next start uses the checkpoint before."""
        store = self.opened(PutQueue(QUEUE))
        self.append_log(store, 1, 20_000, 100)
        for _ in range(2):
            self.reactor.advance(QUIET_SECONDS)
        self.assertTrue(is_checkpointing(store))
        self.done(store.close())
        opened = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
        self.assertEqual([path for path in opened if str(self.home) in path], [])
        store = self.opened()
        self.assertEqual(self.done(store.log_extent(QUEUE.identifier)).last, 20_000)
        self.done(store.close())

    def test_verification_that_is_due(self) -> None:
        """A verification that would begin after the last write is dropped without an error."""
        system = HoldingSystem()
        store = self.make_store(system=system)
        self.done(store.open())
        self.commit(store, PutQueue(ORDERS))
        system.workers[WRITER].hold()
        written = store.commit([put(1, b"last")])
        closed = store.close()
        self.reactor.advance(SCRUBBING.delay)
        system.workers[WRITER].release()
        self.done(written)
        self.done(closed)
        self.assertEqual(self.flushLoggedErrors(), [])
