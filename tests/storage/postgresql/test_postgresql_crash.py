"""The store in PostgreSQL, its process and its database killed at any moment."""

from __future__ import annotations

import random
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.snapshot import Snapshot
from msmq.storage.postgresql.database import ServerDatabase
from msmq.storage.postgresql.reader import DatabaseReader
from msmq.testing.contracts.message_store import ORDERS
from tests.faults import IS_THOROUGH, seed_of
from tests.servers.postgresql import PostgresqlServer, shared_server
from tests.storage.crash_model import STEP, Model, batch
from tests.storage.killing import Victims
from tests.storage.policies import policy_of
from tests.storage.postgresql.postgresql_support import PostgresqlTestCase, address_of, event

KILLS = 40 if IS_THOROUGH else 4


class ServerKilledTests(PostgresqlTestCase):
    """A database that is killed again and again under load."""

    def setUp(self) -> None:
        self.server = PostgresqlServer()
        self.addCleanup(self.server.remove)
        self.schema = "msmq"

    async def test_nothing_is_lost_and_nothing_is_done_twice(self) -> None:
        """Every batch is done once and in its order, however often the database dies in the middle of it."""
        chance = random.Random(seed_of(4711))
        model = Model()
        store = await self.open_store()
        model.perform([])
        step = 0
        waiting: list[Deferred[None]] = []
        for number in range(KILLS):
            for _ in range(chance.randrange(1, 60)):
                step += 1
                waiting.append(store.commit([*batch(step, quiet=True), event(str(step))]))
                model.perform(batch(step, quiet=True))
                if chance.random() < 0.3:
                    await waiting[chance.randrange(len(waiting))]
            if number % 4 == 3:
                self.server.stop()
            else:
                self.server.kill()
            self.server.start()
        for commit in waiting:
            await commit
        self.assertEqual(self.events(), [str(number) for number in range(1, step + 1)])
        await store.close()
        again = self.store()
        assert_is_model(self, await again.open(), model)


class ProcessKilledTests(SynchronousTestCase):
    """A process that writes without end, killed again and again over the same schema."""

    def setUp(self) -> None:
        self.server = shared_server()
        self.schema = "process_killed"
        self.addCleanup(self.server.drop, self.schema)
        self.model = Model()
        self.step = 0
        self.victims = Victims()
        self.addCleanup(self.victims.close)

    def assert_kept(self, handed: int, confirmed: int) -> None:
        """Assert that the schema matches the model after one of the possible steps."""
        address = address_of(self.server, self.schema)
        policy = policy_of(self.server.directory / f"postgresql-postgres-{self.schema}")
        database = ServerDatabase(address, policy)
        snapshot = database.snapshot()
        database.close()
        found = int(snapshot.state[STEP])
        self.assertTrue(confirmed <= found <= handed, f"{confirmed} <= {found} <= {handed}")
        for step in range(self.step + 1, found + 1):
            self.model.perform(batch(step))
        self.step = found
        assert_is_model(self, snapshot, self.model)
        reader = DatabaseReader(address, Path("quarantine"))
        for queue, kept in self.model.messages.items():
            packets = reader.read(queue, list(kept))
            self.assertEqual(packets, [packet for packet, _ in kept.values()])
        reader.close()

    def test_nothing_that_was_confirmed_is_lost(self) -> None:
        """Whenever it is killed, every confirmed batch is there, and no batch is there in part."""
        chance = random.Random(seed_of(4711))
        url = self.server.url(f"schema={self.schema}")
        for _ in range(KILLS):
            handed, confirmed = self.victims.run_and_kill(url, self.step, chance.randrange(1, 200))
            self.assert_kept(handed, confirmed)
        self.assertGreater(self.step, KILLS)


def assert_is_model(test: SynchronousTestCase, snapshot: Snapshot, model: Model) -> None:
    """Assert that a start finds the content of the model."""
    queues = {queue.identifier: queue for queue in snapshot.queues if queue != ORDERS}
    test.assertEqual(queues, model.queues)
    test.assertEqual({queue: kept for queue, kept in snapshot.messages.items() if kept}, model.index())
