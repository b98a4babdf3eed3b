"""The store in a record log, killed at any moment."""

from __future__ import annotations

import random

from tests.faults import IS_THOROUGH, seed_of, tell
from tests.storage.crash_model import STEP, Model, batch
from tests.storage.killing import Victims
from tests.storage.log.support import LogTestCase

KILLS = 300 if IS_THOROUGH else 8


class KilledTests(LogTestCase):
    """A process that writes without end, killed again and again over the same log."""

    segment_bytes = 512 * 1024

    def setUp(self) -> None:
        super().setUp()
        self.model = Model()
        self.step = 0
        self.victims = Victims()
        self.addCleanup(self.victims.close)

    def assert_kept(self, handed: int, confirmed: int) -> None:
        """Assert that the log matches the model after one of the possible steps."""
        store = self.make_store()
        snapshot = self.done(store.open())
        found = int(snapshot.state[STEP])
        self.assertTrue(confirmed <= found <= handed, f"{confirmed} <= {found} <= {handed}")
        for step in range(self.step + 1, found + 1):
            self.model.perform(batch(step, takes_runs=True))
        self.step = found
        self.assert_holds(store, snapshot, self.model)
        self.done(store.close())

    def test_nothing_that_was_confirmed_is_lost(self) -> None:
        """Whenever it is killed, every confirmed batch is there, and no batch is there in part."""
        chance = random.Random(seed_of(4711))
        for _ in range(KILLS):
            handed, confirmed = self.victims.run_and_kill(
                f"small-log:{self.home / 'log'}", self.step, chance.randrange(1, 200)
            )
            self.assert_kept(handed, confirmed)
        self.assertGreater(self.step, KILLS)
        self.assertGreater(len(list((self.home / "log").glob("segment-*"))), 4)
        tell(f"the record log: {KILLS} kills, {self.step} batches")
