"""Election of the active server among those that share a schema, and the fence against earlier ones."""

from __future__ import annotations

from threading import Thread
from typing import cast

import psycopg
from twisted.internet import reactor
from twisted.internet.interfaces import IReactorFromThreads
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.standby import Elected, StandbyReport, StandbyState
from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import PutState
from msmq.persistence.owner_mark import OWNER
from msmq.storage.postgresql.election import POLL_SECONDS, SchemaElection, Silence
from msmq.storage.postgresql.schema_ownership import Backend, LockHolder
from msmq.testing.contracts.message_store import ORDERS
from msmq.testing.contracts.store_contract import put
from tests.servers.postgresql import PostgresqlServer, Proxy, shared_server
from tests.storage.postgresql.postgresql_support import PostgresqlTestCase, address_of

_KEY = "(1297304913::bigint << 32) | (SELECT oid::bigint FROM pg_namespace WHERE nspname = %s)"


class ElectionTestCase(PostgresqlTestCase):
    """Elections for one schema of the shared server."""

    def setUp(self) -> None:
        self.server = shared_server()
        super().setUp()

    def election(
        self, lease: float = 3600.0, *options: str
    ) -> tuple[SchemaElection, list[object], list[StandbyReport]]:
        """An election that has begun, its results and its reports."""
        reports: list[StandbyReport] = []
        address = address_of(self.server, self.schema, *options)
        election = SchemaElection(address, lease, reports.append, cast(IReactorFromThreads, reactor))
        self.addCleanup(election.close)
        return election, self.outcome_of(election.elected()), reports


class FenceTests(ElectionTestCase):
    """What an earlier owner of a schema can still do."""

    async def test_transaction_after_a_takeover(self) -> None:
        """A transaction on an older connection changes nothing after a takeover, and the loss is reported."""
        store = await self.open_store()
        await store.commit([put(1)])
        lost = self.outcome_of(store.ownership_lost())
        # The connection and its lock stay: only the owner's mark in the transaction is left to refuse it.
        self.rows("UPDATE progress SET session = gen_random_uuid()")
        error = await self.refused(store.commit([put(2)]), StorageError)
        self.assertIn("another queue manager has taken it over", str(error))
        error = await self.refused(store.commit([put(3)]), StorageError)
        self.assertEqual(self.messages(), [1])
        await self.until(lambda: lost)
        self.assertIn("another queue manager has taken it over", str(lost[0]))

    async def test_elected(self) -> None:
        """From the election on, an earlier owner that has its connection again writes nothing."""
        proxy = Proxy(self.server)
        self.addCleanup(proxy.close)
        store = await self.open_store(through=proxy)
        proxy.cut()
        _, results, _ = self.election()
        await self.until(lambda: results)
        proxy.mend()
        error = await self.refused(store.commit([put(1)]), StorageError)
        self.assertIn("another queue manager has taken it over", str(error))
        self.assertEqual(self.messages(), [])


class ElectionTests(ElectionTestCase):
    """When a standby is elected."""

    async def test_waits_for_the_active_server(self) -> None:
        """A standby waits as long as the store is open elsewhere, and then knows whose store it is."""
        store = await self.open_store()
        await store.commit([PutState(OWNER, ORDERS.identifier.bytes)])
        _, results, reports = self.election()
        await self.until(lambda: reports)
        self.assertEqual(reports[0].state, StandbyState.ACTIVE_ELSEWHERE)
        self.assertIn("PostgreSQL process", reports[0].holder)
        self.assertEqual(results, [])
        await store.close()
        await self.until(lambda: results)
        assert isinstance(results[0], Elected)
        self.assertEqual(results[0].owner, ORDERS.identifier)

    async def test_new_schema(self) -> None:
        """The first server of all is elected without a schema."""
        _, results, _ = self.election()
        await self.until(lambda: results)
        self.assertEqual(results, [Elected(None, "the schema does not exist yet")])

    async def test_one_at_a_time(self) -> None:
        """A second standby waits behind the first until that one's store is open, or it ends."""
        first, results, _ = self.election()
        await self.until(lambda: results)
        _, later, reports = self.election()
        await self.until(lambda: reports)
        self.assertEqual(reports[0].state, StandbyState.BEHIND_STANDBY)
        self.assertEqual(later, [])
        first.settled()
        await self.until(lambda: later)

    async def test_silent_holder_is_disconnected(self) -> None:
        """A holder that shows no sign of life for the lease loses the lock with its connection."""
        await (await self.open_store()).close()
        with self.server.connect() as holder:
            holder.execute(f"SELECT pg_advisory_lock({_KEY})", [self.schema])
            _, results, _ = self.election(lease=0.1)
            await self.until(lambda: results)
            self.assertIsInstance(results[0], Elected)
            self.assertRaises(psycopg.OperationalError, holder.execute, "SELECT 1")

    async def test_unreachable_database(self) -> None:
        """A standby goes on waiting while the database is unreachable, and says why it is."""
        server = PostgresqlServer()
        self.addCleanup(server.remove)
        reports: list[StandbyReport] = []
        server.stop()
        address = address_of(server, self.schema)
        election = SchemaElection(address, 1.0, reports.append, cast(IReactorFromThreads, reactor))
        self.addCleanup(election.close)
        results = self.outcome_of(election.elected())
        await self.until(lambda: reports)
        self.assertEqual(reports[0].state, StandbyState.UNREACHABLE)
        self.assertIn("no connection", reports[0].problem)
        server.start()
        await self.until(lambda: results)

    async def test_no_thread(self) -> None:
        """A standby that the system gives no thread has the reason, and can be stopped."""

        def start(thread: Thread) -> None:
            raise RuntimeError("can't start new thread")

        self.patch(Thread, "start", start)
        election, results, _ = self.election()
        self.assertIsInstance(results[0], StorageError)
        self.assertIn("wait for the schema: can't start new thread; raise the limit on", str(results[0]))
        await election.close()

    async def test_locked_tables(self) -> None:
        """A standby goes on waiting while another client has a lock on the tables, and says so."""
        await (await self.open_store()).close()
        with self.server.connect() as other:
            other.autocommit = False
            other.execute(f"LOCK TABLE {self.schema}.progress IN ACCESS EXCLUSIVE MODE".encode())
            _, results, reports = self.election(3600.0, "wait=0.05")
            await self.until(lambda: reports or results)
            self.assertEqual(results, [])
            self.assertEqual(reports[0].state, StandbyState.UNREACHABLE)
            self.assertIn(self.schema, reports[0].problem)
        await self.until(lambda: results)
        self.assertIsInstance(results[0], Elected)


class SilenceTests(SynchronousTestCase):
    """For how long a holder is silent."""

    def observed(self, *holders: LockHolder | None, step: float = POLL_SECONDS) -> list[float]:
        silence = Silence()
        return [silence.observe(holder, 100 + number * step) for number, holder in enumerate(holders)]

    def holder(self, last: str | None, *, is_working: bool = False, pid: int = 1) -> LockHolder:
        return LockHolder(Backend(pid, "monday"), last, is_working, "host")

    def test_without_a_statement(self) -> None:
        """The time since the last change of its last statement."""
        old, new = self.holder("1"), self.holder("2")
        self.assertEqual(self.observed(old, old, old, new, new), [0.0, 0.5, 1.0, 0.0, 0.5])

    def test_long_statement(self) -> None:
        """A holder for which the database is at work is not silent, however long that takes."""
        busy = self.holder("1", is_working=True)
        self.assertEqual(self.observed(busy, busy, busy), [0.0, 0.0, 0.0])

    def test_another_holder(self) -> None:
        """The silence of one holder does not count for the next."""
        one, two = self.holder("1"), self.holder("1", pid=2)
        self.assertEqual(self.observed(one, one, two, None, two), [0.0, 0.5, 0.0, 0.0, 0.0])

    def test_observer_that_stood_still(self) -> None:
        """A standby that stood still itself for a minute has not seen a minute of silence."""
        one = self.holder("1")
        self.assertEqual(self.observed(one, one, step=60.0), [0.0, 2 * POLL_SECONDS])
