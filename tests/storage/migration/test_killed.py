"""A migration that is killed at any moment loses nothing, and leaves no two stores to start on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Final

from twisted.trial.unittest import TestCase

from msmq.persistence.migration_mark import MARK
from msmq.storage.migration.store_locations import StoreLocation, store_location_of
from tests.patience import DEADLINE
from tests.storage.killing import PROJECT
from tests.storage.migration.support import digest, everything, filled, snapshot_of

IS_LONG: Final = "MSMQ_CRASH" in os.environ
"""Whether all is tried (C{make crash}), or a sample."""
SECTIONS: Final = ("queues", "messages", "log entries", "values")


class KilledMigrationTests(TestCase):
    """Processes that move a store, and die."""

    # A sample is a dozen starts of stores and processes, each of which may take a while.
    timeout = 3600.0 if IS_LONG else 4 * DEADLINE

    def setUp(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.storage.migration.killed_child"],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.process.communicate, timeout=DEADLINE)
        self.home = Path(self.mktemp()).absolute()

    def run_child(self, source: str, target: str, step: int = 0, seconds: float = 0) -> int:
        """How one process ended."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(self.home, source, target, step, seconds, file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    async def is_usable(self, place: StoreLocation) -> bool:
        if not place.exists():
            return False
        snapshot = await snapshot_of(place)
        return bool(snapshot.queues) and MARK not in snapshot.state

    async def check_kills(self, source: str, target: str, kills: list[tuple[int, float]]) -> int:
        """Kill one process after the other, then let one end; how many were killed."""
        self.home = Path(self.mktemp()).absolute()
        self.home.mkdir()
        places = store_location_of(source, self.home), store_location_of(target, self.home)
        await filled(places[0], everything(1000 if IS_LONG else 300))
        before = digest(places[0])
        killed = 0
        for step, seconds in kills:
            ended = self.run_child(source, target, step, seconds)
            usable = [await self.is_usable(place) for place in places]
            self.assertNotEqual(usable, [True, True])
            self.assertEqual(digest(places[0]), before, "the source is what it was")
            killed += ended < 0
            if ended == 0:
                break
        self.assertEqual(self.run_child(source, target), 0)
        self.assertEqual([await self.is_usable(place) for place in places], [False, True])
        after = digest(places[1])
        self.assertEqual([after[name] for name in SECTIONS], [before[name] for name in SECTIONS])
        self.assertEqual(after["events"].rows, before["events"].rows + 1, "it is reported once")
        return killed

    async def check_steps(self, source: str, target: str) -> None:
        """Kill processes after one step each, for all steps that there are."""
        for step in range(2, 100, 1 if IS_LONG else 11):
            if not await self.check_kills(source, target, [(step, 0.0), (2, 0.0)]):
                self.assertGreater(step, 10)
                return

    async def test_killed_after_each_step(self) -> None:
        """A process ends after any step, and the one that goes on soon after it."""
        await self.check_steps("sqlite", "log")

    async def test_killed_after_each_step_on_the_way_back(self) -> None:
        """The same from a log to SQLite."""
        await self.check_steps("log", "sqlite")

    async def test_killed_at_any_moment(self) -> None:
        """Steps have no part in when a process ends."""
        seed = int(os.environ.get("MSMQ_CRASH_SEED", str(random.randrange(1 << 32))))
        self.addCleanup(self.note, seed)
        chance = random.Random(seed)
        for _ in range(40 if IS_LONG else 1):
            kills = [(0, chance.uniform(0.01, 0.4)) for _ in range(5 if IS_LONG else 3)]
            await self.check_kills("sqlite", "log", kills)

    def note(self, seed: int) -> None:
        """Leave the seed where a failure can be repeated from."""
        Path(self.mktemp()).with_name("seed").write_text(f"{seed}\n")
