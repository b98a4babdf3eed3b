"""The store in SQLite, killed at any moment."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import LogEntry
from msmq.storage.sqlite.database import FileDatabase
from msmq.storage.sqlite.packet_reader import PacketReader
from tests.faults import IS_THOROUGH, seed_of, tell
from tests.storage.crash_model import STEP, Model, batch
from tests.storage.killing import Victims
from tests.storage.policies import policy_of

KILLS = 300 if IS_THOROUGH else 8


class KilledTests(SynchronousTestCase):
    """A process that writes without end, killed again and again over the same file."""

    def setUp(self) -> None:
        directory = Path(self.mktemp())
        directory.mkdir()
        self.path = directory.resolve() / "msmq.sqlite"
        self.model = Model()
        self.step = 0
        self.victims = Victims()
        self.addCleanup(self.victims.close)

    def assert_kept(self, handed: int, confirmed: int) -> None:
        """Assert that the file matches the model after one of the possible steps."""
        database = FileDatabase(self.path, policy_of(self.path))
        snapshot = database.snapshot()
        database.close()
        found = int(snapshot.state[STEP])
        self.assertTrue(confirmed <= found <= handed, f"{confirmed} <= {found} <= {handed}")
        for step in range(self.step + 1, found + 1):
            self.model.perform(batch(step))
        self.step = found
        self.assertEqual({queue.identifier: queue for queue in snapshot.queues}, self.model.queues)
        self.assertEqual(
            {queue: kept for queue, kept in snapshot.messages.items() if kept}, self.model.index()
        )
        self.assertEqual(dict(snapshot.state), self.model.state)
        reader = PacketReader(self.path)
        for queue, kept in self.model.messages.items():
            packets = reader.read(queue, list(kept))
            self.assertEqual(packets, [packet for packet, _ in kept.values()])
        for queue, log in self.model.logs.items():
            self.assertEqual(self.logged(reader, queue), log)
        events = [stored.event for stored in reader.read_events(0, 1 << 30, None).rows]
        self.assertEqual(events, self.model.events)
        reader.close()

    def logged(self, reader: PacketReader, queue: UUID) -> list[tuple[int, float, bytes]]:
        """All that is in the message log of a queue."""
        entries: list[LogEntry] = []
        while page := reader.read_log(queue, entries[-1].sequence if entries else 0, 1 << 30).rows:
            entries += page
        return [(entry.lookup_id, entry.arrived, entry.packet) for entry in entries]

    def test_nothing_that_was_confirmed_is_lost(self) -> None:
        """Whenever it is killed, every confirmed batch is there, and no batch is there in part."""
        chance = random.Random(seed_of(4711))
        for _ in range(KILLS):
            handed, confirmed = self.victims.run_and_kill(
                f"sqlite:{self.path}", self.step, chance.randrange(1, 200)
            )
            self.assert_kept(handed, confirmed)
        self.assertGreater(self.step, KILLS)
        tell(f"the bare store: {KILLS} kills, {self.step} batches")
