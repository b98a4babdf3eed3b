"""The database becomes unreachable, in every possible manner, and comes back."""

from __future__ import annotations

from msmq.interfaces import MessageNotStored, StorageError
from msmq.persistence.changes import AppendEvent, Change, PutMessage, PutQueue, PutState, RemoveMessages
from msmq.testing.contracts.message_store import BILLS, ORDERS, put
from tests.servers.postgresql import PostgresqlServer, Proxy, shared_server
from tests.storage.postgresql.postgresql_support import PostgresqlTestCase, event

SHORT = "wait=0.3"


class ServerAwayTests(PostgresqlTestCase):
    """A server that is stopped, killed, or stands still."""

    def setUp(self) -> None:
        self.server = PostgresqlServer()
        self.addCleanup(self.server.remove)
        self.schema = "msmq"

    async def test_restart_is_not_noticed(self) -> None:
        """After a restart of the database, batches are done and packets are read as before."""
        store = await self.open_store()
        await store.commit([put(1, b"one")])
        await store.read(ORDERS.identifier, [1])
        self.server.stop()
        self.server.start()
        await store.commit([put(2, b"two")])
        self.assertEqual(list(await store.read(ORDERS.identifier, [1, 2])), [b"one", b"two"])

    async def test_batches_wait(self) -> None:
        """Requests made while the database is unavailable are performed when it is back, in order."""
        store = await self.open_store()
        self.server.stop()
        commits = [store.commit([put(number), event(str(number))]) for number in range(20)]
        reading = store.read(ORDERS.identifier, [0, 19])
        self.server.start()
        for commit in commits:
            await commit
        self.assertEqual(list(await reading), [b"packet"] * 2)
        self.assertEqual(self.events(), [str(number) for number in range(20)])

    async def test_close_with_a_batch(self) -> None:
        """A store that is closed in the moment of a batch, which then comes into doubt, does not wait for a
        database that says nothing.
        """
        store = await self.open_store(SHORT, "connect_timeout=2")
        self.server.freeze()
        committing, closing = store.commit([put(1)]), store.close()
        await self.refused(committing, StorageError)
        await closing

    async def test_waiting_has_an_end(self) -> None:
        """When it has been away for too long, batches and reads fail, and say which database it is."""
        store = await self.open_store(SHORT)
        self.server.stop()
        error = await self.refused(store.commit([put(1)]), StorageError)
        self.assertIn(f"postgresql://msmq@/postgres?host={self.server.directory}", str(error))
        await self.refused(store.commit([put(2)]), StorageError)
        await self.refused(store.read(ORDERS.identifier, [1]), StorageError)
        self.server.start()
        await self.until_back(store)
        await store.commit([put(3)])
        self.assertEqual(self.messages(), [3])
        self.assertEqual(list(await store.read(ORDERS.identifier, [3])), [b"packet"])

    async def test_what_waits_is_bounded(self) -> None:
        """While the database is away, batches that are too many to be kept in memory fail at once."""
        store = await self.open_store(waiting_bytes=100_000)
        self.server.stop()
        kept = [store.commit([put(number, bytes(40_000))]) for number in range(2)]
        error = await self.refused(store.commit([put(2, bytes(40_000))]), StorageError)
        self.assertIn("too many changes are pending for the database", str(error))
        self.server.start()
        for commit in kept:
            await commit
        await store.commit([put(2, bytes(40_000))])
        self.assertEqual(self.messages(), [0, 1, 2])

    async def test_pending_batches_without_messages(self) -> None:
        """Values, removals and events count against the limit as messages do."""
        batches: list[Change] = [
            PutState("stream", bytes(40_000)),
            RemoveMessages(ORDERS.identifier, tuple(range(1000))),
            AppendEvent(1.0, b"", "refused", "r" * 40_000),
        ]
        for change in batches:
            with self.subTest(kind=type(change).__name__):
                store = await self.open_store(waiting_bytes=100_000)
                self.server.stop()
                kept = [store.commit([change]) for _ in range(2)]
                error = await self.refused(store.commit([change]), StorageError)
                self.assertIn("too many changes are pending for the database", str(error))
                self.server.start()
                for commit in kept:
                    await commit
                await store.close()

    async def test_closing_while_it_is_away(self) -> None:
        """A store can be closed without its database; what waits fails."""
        store = await self.open_store(SHORT)
        self.server.stop()
        commit = store.commit([put(1)])
        reading = store.read(ORDERS.identifier, [1])
        closing = store.close()
        await self.refused(commit, StorageError)
        await self.refused(reading, StorageError)
        await closing

    async def test_crash_empties_the_express_messages(self) -> None:
        """After a crash of the database its express messages are gone, and the event log says so, once."""
        store = await self.open_store()
        await store.commit([PutMessage(ORDERS.identifier, 7, b"express", 0.0, is_express=True)])
        self.server.kill()
        self.server.start()
        await store.commit([put(1)])
        await self.refused(store.read(ORDERS.identifier, [7]), MessageNotStored)
        await store.commit([put(2), event("next")])
        self.assertEqual(self.events(), ["express_lost", "next"])
        found = await store.read_events(0, 10)
        self.assertEqual([entry.sequence for entry in found], [1, 2])
        self.assertIn("crashed", found[0].event.reason)

    async def test_crash_after_a_commit_in_doubt(self) -> None:
        """The loss of the first express messages is reported too if their commit was not answered."""
        proxy = Proxy(self.server)
        self.addCleanup(proxy.close)
        store = await self.open_store(through=proxy)
        proxy.hold_answers_to(b"fleeting")
        express = PutMessage(ORDERS.identifier, 7, b"fleeting", 0.0, is_express=True)
        committing = store.commit([express, put(1)])
        await self.until(lambda: self.messages() == [1])
        self.server.kill()
        proxy.cut()
        self.server.start()
        proxy.mend()
        await committing
        await store.commit([put(2)])
        self.assertEqual((self.messages(), self.events()), ([1, 2], ["express_lost"]))

    async def test_restart_keeps_the_express_messages(self) -> None:
        """A database that was stopped and started still has them."""
        store = await self.open_store()
        await store.commit([PutMessage(ORDERS.identifier, 7, b"express", 0.0, is_express=True)])
        self.server.stop()
        self.server.start()
        await store.commit([put(1)])
        self.assertEqual(list(await store.read(ORDERS.identifier, [7])), [b"express"])
        self.assertEqual(self.events(), [])

    async def test_a_stopped_server(self) -> None:
        """A database that no longer answers is one that is away, and what it does later is found out."""
        store = await self.open_store("wait=0.5", "connect_timeout=2")
        self.server.freeze()
        outcomes: list[list[object]] = []

        def has_one_failed() -> bool:
            outcomes.append(self.outcome_of(store.commit([put(1), event("there")])))
            return any(outcomes)

        await self.until(has_one_failed)
        self.server.thaw()
        await self.until(lambda: all(outcomes))
        await self.until_back(store)
        # It may have got the first of them before, and done them, or not; and just that was reported.
        done = [outcome for outcome in outcomes if outcome == [None]]
        self.assertEqual(len(self.events()), len(done))


class ConnectionLostTests(PostgresqlTestCase):
    """The network ends a connection at the worst moment."""

    def setUp(self) -> None:
        self.server = shared_server()
        super().setUp()
        self.proxy = Proxy(self.server)
        self.addCleanup(self.proxy.close)

    async def test_committed_without_an_answer(self) -> None:
        """A group whose answer was lost is not done again."""
        store = await self.open_store(through=self.proxy)
        await store.commit([put(9), event("9")])
        self.proxy.hold_answers_to(b"number 0")
        commits = [store.commit([put(number), event(f"number {number}")]) for number in range(3)]
        await self.until(lambda: len(self.events()) > 1)
        self.proxy.cut()
        self.proxy.mend()
        for commit in commits:
            await commit
        self.assertEqual(self.events(), ["9", "number 0", "number 1", "number 2"])
        await store.commit([put(3), event("3")])
        self.assertEqual(self.events(), ["9", "number 0", "number 1", "number 2", "3"])

    async def test_committed_and_shut_down(self) -> None:
        """A group is not done again if the server ends the connection between its commit and the answer."""
        store = await self.open_store(through=self.proxy)
        await store.commit([put(9), event("9")])
        self.proxy.end_after_commit()
        commits = [
            store.commit([put(number), PutQueue(BILLS), PutState("n", b"%d" % number), event(str(number))])
            for number in range(3)
        ]
        for commit in commits:
            await commit
        self.assertEqual(self.proxy.held, 1)
        self.assertEqual(self.events(), ["9", "0", "1", "2"])

    async def test_never_arrived(self) -> None:
        """A group that did not reach the database is done when it is there again."""
        store = await self.open_store(through=self.proxy)
        self.proxy.hold("requests")
        commit = store.commit([put(1), event("1")])
        await self.until(lambda: self.proxy.held)
        self.proxy.cut()
        self.proxy.mend()
        await commit
        self.assertEqual(self.events(), ["1"])
        self.assertEqual(self.messages(), [1])

    async def test_failed_batch_of_a_group_that_was_committed(self) -> None:
        """A batch that could not be done fails, though its group's answer was lost; the others are done."""
        store = await self.open_store(through=self.proxy)
        await store.commit([event("first")])
        self.proxy.hold_answers_to(b"good")
        bad = store.commit([PutMessage(ORDERS.identifier, 1 << 64, b"", 0.0), event("bad")])
        good = store.commit([event("good")])
        await self.until(lambda: len(self.events()) > 1)
        self.proxy.cut()
        self.proxy.mend()
        await self.refused(bad, StorageError)
        await good
        self.assertEqual(self.events(), ["first", "good"])

    async def test_doubt_outlasts_the_waiting(self) -> None:
        """A group that may have been committed never fails as if it had not been; later ones do."""
        store = await self.open_store(SHORT, through=self.proxy)
        await store.commit([put(0), event("first")])
        self.proxy.hold_answers_to(b"doubtful")
        doubtful = self.outcome_of(store.commit([put(1), event("doubtful")]))
        await self.until(lambda: len(self.events()) > 1)
        self.proxy.cut()
        await self.refused(store.commit([put(2), event("late")]), StorageError)
        await self.refused(store.read(ORDERS.identifier, [1]), StorageError)
        self.assertEqual(doubtful, [])
        self.proxy.mend()
        await self.until(lambda: doubtful)
        self.assertEqual(doubtful, [None])
        await self.until_back(store)
        self.assertEqual((self.events(), self.messages()), (["first", "doubtful"], [0, 1]))

    async def test_doubt_when_it_is_closed(self) -> None:
        """A store that is closed before it can find out says that it does not know."""
        store = await self.open_store(SHORT, through=self.proxy)
        await store.commit([put(0), event("first")])
        self.proxy.hold_answers_to(b"doubtful")
        doubtful = store.commit([put(1), event("doubtful")])
        await self.until(lambda: len(self.events()) > 1)
        self.proxy.cut()
        closing = store.close()
        error = await self.refused(doubtful, StorageError)
        self.assertIn("whether the last changes were done is not known", str(error))
        await closing

    async def test_cut_while_idle(self) -> None:
        """A connection that is lost while nothing is asked for is made anew before it is needed."""
        store = await self.open_store(through=self.proxy)
        before = self.rows("SELECT pid FROM pg_stat_activity WHERE application_name = 'msmq'")
        self.proxy.cut()
        self.proxy.mend()
        await self.until(
            lambda: (
                self.rows("SELECT pid FROM pg_stat_activity WHERE application_name = 'msmq'")
                not in ([], before)
            )
        )
        await store.commit([event("1")])
        self.assertEqual(self.events(), ["1"])

    async def test_ended_by_an_administrator(self) -> None:
        """A connection that the server ends is made anew."""
        store = await self.open_store()
        await store.read(ORDERS.identifier, [])
        self.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'msmq%'"
        )
        commits = [store.commit([event(str(number))]) for number in range(5)]
        for commit in commits:
            await commit
        self.assertEqual(self.events(), ["0", "1", "2", "3", "4"])
        self.assertEqual(list(await store.read(ORDERS.identifier, [])), [])

    async def test_taken_over(self) -> None:
        """A store that lost its schema to another queue manager writes nothing more into it."""
        store = await self.open_store(through=self.proxy)
        self.proxy.cut()
        other = await self.open_store()
        await other.commit([put(1)])
        self.proxy.mend()
        error = await self.refused(store.commit([RemoveMessages(ORDERS.identifier, (1,))]), StorageError)
        self.assertIn("another queue manager has taken it over", str(error))
        await other.commit([put(2)])
        self.assertEqual(self.messages(), [1, 2])

    async def test_database_of_yesterday(self) -> None:
        """A database that has lost what it had committed is not written to: what is kept differs from it."""
        store = await self.open_store()
        await store.commit([put(1)])
        self.rows("UPDATE progress SET number = number - 1")
        self.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'msmq%'"
        )
        error = await self.refused(store.commit([put(2)]), StorageError)
        self.assertIn("has lost what it had committed", str(error))
        self.assertEqual(self.messages(), [1])
