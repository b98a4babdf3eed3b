"""The store in PostgreSQL keeps the contract, and writes what waits together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from twisted.internet.defer import CancelledError, Deferred

from msmq.interfaces import IMessageStore, StorageError, UnknownQueue
from msmq.persistence.changes import (
    AppendLog,
    Change,
    MoveMessage,
    PutMessage,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    TrimEvents,
    TrimLog,
)
from msmq.persistence.definition import QueueDefinition
from msmq.storage.postgresql import schema_ownership as opening
from msmq.storage.postgresql.schema import SCHEMA, ServerSchema
from msmq.testing.contracts.message_store import HIGHEST, ORDERS, MessageStoreContract, put
from tests.servers.postgresql import GUARDED, PASSWORD, shared_server
from tests.storage.postgresql.postgresql_support import PostgresqlTestCase, event


class PostgresqlContractTests(MessageStoreContract, PostgresqlTestCase):
    """The contract of stores, on a real server."""

    def setUp(self) -> None:
        self.server = shared_server()
        super().setUp()

    def make_store(self) -> IMessageStore:
        return self.store()


class PostgresqlMessageStoreTests(PostgresqlTestCase):
    """Properties of this store beyond the contract."""

    def setUp(self) -> None:
        self.server = shared_server()
        super().setUp()

    def transactions(self) -> int:
        [(number,)] = self.rows("SELECT number FROM progress")
        return int(number)

    async def test_is_durable(self) -> None:
        """Recoverable messages may be entrusted to it; the setting of a user does not change that."""
        store = self.store("options=-c%20synchronous_commit%3Doff")
        self.assertEqual((store.name, store.durable), ("postgresql", True))
        await store.open()
        await store.commit([PutQueue(ORDERS)])

    async def test_batches_that_wait_go_together(self) -> None:
        """While one transaction is pending batches collect, and the next one takes all of them."""
        store = await self.open_store()
        before = self.transactions()
        commits = [store.commit([put(number)]) for number in range(100)]
        for commit in commits:
            await commit
        self.assertLessEqual(self.transactions() - before, 4)
        self.assertEqual(self.messages(), list(range(100)))

    async def test_one_bad_batch_takes_no_other_along(self) -> None:
        """A value that the database cannot store fails its batch, and no other of its group."""
        store = await self.open_store()
        batches: Sequence[Sequence[Change]] = (
            [put(10), put(1 << 64)],
            [put(11), put(-1)],
            [put(12), RemoveMessages(ORDERS.identifier, (1 << 64,))],
            [put(13), PutState("\ud800", b"")],
            [put(14), PutMessage(ORDERS.identifier, 1, b"", float("nan"))],
            [put(15), PutMessage(ORDERS.identifier, 1, b"", 0.0, due=1 << 63)],
            [put(16), PutMessage(ORDERS.identifier, 1, b"", 0.0, aborts=1 << 63)],
            [put(17), AppendLog(ORDERS.identifier, 1, b"", float("nan"))],
            [put(18), TrimLog(ORDERS.identifier, before=float("nan"))],
        )
        first = store.commit([put(1)])
        commits = [store.commit(batch) for batch in batches]
        good = store.commit([put(2)])
        await first
        for commit in commits:
            await self.refused(commit, StorageError)
        await good
        self.assertEqual(self.messages(), [1, 2])

    async def test_cancelling_does_not_undo(self) -> None:
        """A batch whose caller cancels is committed all the same."""
        store = await self.open_store()
        commit = store.commit([put(1, b"one")])
        commit.cancel()
        await self.assert_cancelled(commit)
        self.assertEqual(list(await store.read(ORDERS.identifier, [1])), [b"one"])

    async def test_stopping_while_it_opens(self) -> None:
        """A store that is closed before it has opened releases the schema."""
        store = self.store()
        opening = store.open()
        opening.cancel()
        closing = store.close()
        await self.assert_cancelled(opening)
        await closing
        self.assertEqual(list((await self.store().open()).queues), [])

    async def assert_cancelled(self, asked: Deferred[Any]) -> None:
        try:
            await asked
        except CancelledError:
            return
        self.fail("it was not cancelled")

    async def test_handed_over_is_handed_over(self) -> None:
        """Later changes of a submitted list have no effect."""
        store = await self.open_store()
        batch: list[Change] = [put(1)]
        wanted = [1]
        commit = store.commit(batch)
        reading = store.read(ORDERS.identifier, wanted)
        batch.clear()
        wanted.clear()
        await commit
        self.assertEqual(list(await reading), [b"packet"])

    async def test_order_over_all_64_bits(self) -> None:
        """A start finds the messages in the unsigned order of their LookupIdentifiers."""
        numbers = [0, 1, HIGHEST, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
        store = await self.open_store()
        await store.commit([put(number) for number in reversed(numbers)])
        await store.close()
        snapshot = await self.store().open()
        self.assertEqual([entry[0] for entry in snapshot.messages[ORDERS.identifier]], numbers)

    async def test_many_messages(self) -> None:
        """Fifty thousand messages are in the index of the next start, and each can be read."""
        store = await self.open_store()
        numbers = range(50_000)
        commits = [
            store.commit([put(number, b"%01024d" % number) for number in numbers[start : start + 500]])
            for start in numbers[::500]
        ]
        for commit in commits:
            await commit
        await store.close()
        again = self.store()
        index = (await again.open()).messages[ORDERS.identifier]
        self.assertEqual([entry[0] for entry in index], list(numbers))
        self.assertEqual({entry[1] for entry in index}, {1024})
        self.assertEqual(
            list(await again.read(ORDERS.identifier, [49_999, 0])), [b"%01024d" % 49_999, b"%01024d" % 0]
        )

    async def test_batch_of_many_megabytes(self) -> None:
        """A batch that is too large for one statement is committed as one transaction."""
        store = await self.open_store()
        packet = bytes(4 * 1024 * 1024)
        changes: list[Change] = [put(number, packet) for number in range(10)]
        changes += [AppendLog(ORDERS.identifier, number, packet, 0.0) for number in range(10)]
        await store.commit(changes)
        self.assertEqual(self.messages(), list(range(10)))
        self.assertEqual((await store.log_extent(ORDERS.identifier)).size, 10 * len(packet))
        await self.refused(store.commit([*changes, put(0, queue=NOWHERE)]), UnknownQueue)

    async def test_packets_are_not_compressed(self) -> None:
        """A compressible packet is stored uncompressed, apart from the index."""
        store = await self.open_store()
        await store.commit([put(1, bytes(100_000))])
        [(size,)] = self.rows("SELECT pg_column_size(packet) FROM message")
        self.assertGreaterEqual(size, 100_000)

    async def test_express_messages_are_not_written_ahead(self) -> None:
        """Their table is one that the database neither writes ahead nor keeps over a crash."""
        store = await self.open_store()
        await store.commit([PutMessage(ORDERS.identifier, 1, b"1", 0.0, is_express=True)])
        self.assertEqual(
            self.rows("SELECT relpersistence FROM pg_class WHERE oid = 'express'::regclass"), [("u",)]
        )
        self.assertEqual(self.messages(), [])

    async def test_express_table_with_a_reader(self) -> None:
        """A backup that reads the express messages does not keep a queue manager from starting."""
        store = await self.open_store()
        await store.commit([PutMessage(ORDERS.identifier, 1, b"1", 0.0, is_express=True)])
        await store.close()
        with self.server.connect() as connection:
            connection.execute("BEGIN")
            connection.execute(f"SELECT count(*) FROM {self.schema}.express".encode())
            again = self.store()
            await again.open()
        self.assertEqual(self.rows("SELECT count(*) FROM express WHERE queue >= 0"), [(0,)])

    async def test_removed_rows_are_deleted(self) -> None:
        """Messages and logs of a removed queue, and what is trimmed, do not stay in the database."""
        store = await self.open_store()
        identifier = ORDERS.identifier
        await store.commit([put(number) for number in range(2500)])
        await store.commit([AppendLog(identifier, number, b"12345", 0.0) for number in range(2500)])
        await store.commit([event(str(number)) for number in range(2500)])
        await store.commit([TrimLog(identifier, keep_bytes=10), TrimEvents(3)])
        self.assertEqual((await store.log_extent(identifier)).entries, 2)
        await self.until(lambda: self.rows("SELECT count(*) FROM log") == [(2,)])
        await self.until(lambda: self.rows("SELECT count(*) FROM event") == [(3,)])
        await store.commit([RemoveQueue(identifier), PutQueue(ORDERS), put(1, b"new")])
        self.assertEqual(list(await store.read(identifier, [1])), [b"new"])
        await self.until(lambda: self.rows("SELECT count(*) FROM message") == [(1,)])
        await self.until(lambda: self.rows("SELECT count(*) FROM log") == [(0,)])
        await self.until(lambda: self.rows("SELECT count(*) FROM removed_queue") == [(0,)])

    async def test_what_a_stop_left_is_deleted(self) -> None:
        """Pending deletions of a closed store are done after the next start."""
        store = await self.open_store()
        await store.commit([put(number) for number in range(5000)])
        await store.commit([RemoveQueue(ORDERS.identifier)])
        await store.close()
        await self.store().open()
        await self.until(lambda: self.rows("SELECT count(*) FROM message") == [(0,)])

    async def test_trims_between_appends(self) -> None:
        """A trim that waits together with what is appended after it does not touch that."""
        store = await self.open_store()

        def append(number: int) -> AppendLog:
            return AppendLog(ORDERS.identifier, number, b"12345", float(number))

        trim = TrimLog(ORDERS.identifier, keep_bytes=5)
        await store.commit([append(1), append(2), trim, append(3), append(4), trim, append(5), append(6)])
        found = await store.read_log(ORDERS.identifier, 0, 10)
        self.assertEqual([entry.lookup_id for entry in found], [4, 5, 6])
        await store.commit([append(7), TrimLog(ORDERS.identifier, before=6.0), append(2), trim, append(8)])
        found = await store.read_log(ORDERS.identifier, 0, 10)
        self.assertEqual([entry.lookup_id for entry in found], [2, 8])
        self.assertEqual((await store.log_extent(ORDERS.identifier)).size, 10)

    async def test_trims_of_both_kinds(self) -> None:
        """Entries removed by a trim by size do not keep entries from a later trim by age."""
        store = await self.open_store()
        identifier = ORDERS.identifier
        await store.commit(
            [
                *(AppendLog(identifier, number, b"12345", float(10 - number)) for number in range(3)),
                TrimLog(identifier, keep_bytes=5),
                TrimLog(identifier, before=9.0, keep_bytes=5),
            ]
        )
        self.assertEqual(list(await store.read_log(identifier, 0, 10)), [])

    async def test_moves_that_meet(self) -> None:
        """Messages that exchange their positions, in one batch, do so in its order."""
        store = await self.open_store()
        identifier = ORDERS.identifier
        await store.commit([put(1, b"one"), put(2, b"two"), put(3, b"three")])

        def move(source: int, target: int) -> MoveMessage:
            return MoveMessage(identifier, source, identifier, target)

        # By way of an empty place two are exchanged; what is not there moves onto nothing.
        await store.commit([move(1, 9), move(2, 1), move(9, 2), move(77, 3), move(3, 3)])
        self.assertEqual(list(await store.read(identifier, [1, 2, 3])), [b"two", b"one", b"three"])
        await store.commit([move(1, 5), move(2, 5)])
        self.assertEqual(list(await store.read(identifier, [5])), [b"one"])
        self.assertEqual(self.messages(), [3, 5])


NOWHERE = QueueDefinition(UUID(int=0xE), "nowhere")


class OpeningTests(PostgresqlTestCase):
    """Which schemas are opened, and which are refused."""

    def setUp(self) -> None:
        self.server = shared_server()
        super().setUp()
        # No session here has to wait for the connection of a process that was killed.
        self.patch(opening, "LOCK_SECONDS", 0.3)

    async def reason(self, *options: str, **settings: Any) -> str:
        """Why a store does not open."""
        return str(await self.refused(self.store(*options, **settings).open(), StorageError))

    async def test_second_store_on_the_schema(self) -> None:
        """Two queue managers never write one schema, and the first does not notice the attempt."""
        store = await self.open_store()
        self.assertIn("is in use by another queue manager", await self.reason())
        await store.commit([put(1)])

    async def test_opens_after_a_refusal(self) -> None:
        """A store that could not open can be opened once the reason is gone."""
        first = await self.open_store()
        second = self.store()
        await self.refused(second.open(), StorageError)
        await second.close()
        await first.close()
        self.assertEqual(list((await second.open()).queues), [ORDERS])

    async def test_two_schemas_of_one_database(self) -> None:
        """Queue managers with schemas of their own do not meet."""
        await (await self.open_store()).commit([put(1)])
        self.schema, other = f"{self.schema}_b", self.schema
        self.addCleanup(self.server.drop, self.schema)
        await (await self.open_store()).commit([put(2)])
        self.assertEqual(self.messages(), [2])
        self.schema = other
        self.assertEqual(self.messages(), [1])

    async def test_two_start_at_once(self) -> None:
        """One of two concurrent first starts creates the tables and keeps them."""
        stores = [self.store() for _ in range(4)]
        outcomes = [self.outcome_of(store.open()) for store in stores]
        await self.until(lambda: all(outcomes))
        errors = [str(outcome) for [outcome] in outcomes if isinstance(outcome, Exception)]
        self.assertEqual(len(errors), 3, errors)
        self.assertEqual([error for error in errors if "is in use by another" not in error], [])

    async def test_newer_schema(self) -> None:
        """A schema of a newer version is refused, and not changed."""
        await (await self.open_store()).close()
        self.rows("UPDATE msmq_version SET number = 7")
        reported = f"written by a newer version of msmq (schema 7, this one knows {SCHEMA.version})"
        self.assertIn(reported, await self.reason())
        self.assertEqual(self.rows("SELECT number FROM msmq_version"), [(7,)])

    async def test_schema_of_another_program(self) -> None:
        """A schema in which there is something else is refused, and not changed."""
        with self.server.connect() as connection:
            connection.execute(f"CREATE SCHEMA {self.schema}".encode())
        self.rows("CREATE TABLE diary (day date)")
        self.assertIn(f"the schema {self.schema} is of another program", await self.reason())
        self.assertEqual(
            self.rows(f"SELECT tablename::text FROM pg_tables WHERE schemaname = '{self.schema}'"),
            [("diary",)],
        )

    async def test_empty_schema(self) -> None:
        """A schema that an administrator has made, without rights to make others, is enough."""
        with self.server.connect() as connection:
            connection.execute(f"CREATE SCHEMA {self.schema} AUTHORIZATION {GUARDED}".encode())
        store = self.store(f"password={PASSWORD}", user=GUARDED)
        await store.open()
        await store.commit([PutQueue(ORDERS), put(1)])

    async def test_without_rights(self) -> None:
        """A user without the right to create a schema gets that error."""
        reason = await self.reason(f"password={PASSWORD}", user=GUARDED)
        self.assertIn("permission denied for database postgres", reason)

    async def test_wrong_password(self) -> None:
        """A wrong password is not shown."""
        reason = await self.reason("password=swordfish", user=GUARDED)
        self.assertIn(f'password authentication failed for user "{GUARDED}"', reason)
        self.assertNotIn("swordfish", reason)

    async def test_older_schema_is_brought_up_to_date(self) -> None:
        """A version with new tables takes over what an older one has written, in one transaction."""
        store = await self.open_store()
        await store.commit([put(1, b"one")])
        await store.close()
        newer = ServerSchema(
            SCHEMA.version + 1,
            tables=(),
            migrations={SCHEMA.version: ["ALTER TABLE message ADD COLUMN colour integer NOT NULL DEFAULT 7"]},
        )
        broken = ServerSchema(
            SCHEMA.version + 1,
            tables=(),
            migrations={SCHEMA.version: [*newer.migrations[SCHEMA.version], "ALTER TABLE none ADD x int"]},
        )
        self.assertIn("cannot open", await self.reason(schema=broken))
        self.assertEqual(self.rows("SELECT number FROM msmq_version"), [(SCHEMA.version,)])
        again = self.store(schema=newer)
        snapshot = await again.open()
        self.assertEqual([entry[0] for entry in snapshot.messages[ORDERS.identifier]], [1])
        self.assertEqual(self.rows("SELECT colour FROM message"), [(7,)])
        self.assertEqual(self.rows("SELECT number FROM msmq_version"), [(SCHEMA.version + 1,)])
        await again.close()
        self.assertIn("written by a newer version", await self.reason())

    async def test_user_whose_statements_are_cut_short(self) -> None:
        """Limits that were set for people do not end a queue manager's work."""
        store = self.store("options=-c%20statement_timeout%3D1%20-c%20search_path%3Dpublic")
        await store.open()
        await store.commit([PutQueue(ORDERS)])
        await store.commit([put(number, bytes(1000)) for number in range(5000)])
        self.assertEqual(len(self.messages()), 5000)


class RefusingDatabaseTests(PostgresqlTestCase):
    """A database that is there, and does not do what it is asked."""

    def setUp(self) -> None:
        self.server = shared_server()
        super().setUp()

    def refuse(self, table: str, sqlstate: str, message: str) -> None:
        """Have every row that is put in a table refused as the system would."""
        self.rows(
            f"CREATE OR REPLACE FUNCTION refuse_{table}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION '{message}' USING ERRCODE = '{sqlstate}'; END $$"
        )
        self.rows(
            f"CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse_{table}()"
        )

    async def test_full_disk(self) -> None:
        """When there is no space, what is to be kept is refused as such, and removing still works."""
        store = await self.open_store()
        await store.commit([put(1), put(2)])
        self.refuse("message", "53100", "could not extend file: No space left on device")
        first = store.commit([event("first")])
        keeping = store.commit([put(3)])
        removing = store.commit([RemoveMessages(ORDERS.identifier, (1,))])
        await first
        error = await self.refused(keeping, StorageError)
        self.assertEqual(type(error).__name__, "StorageFull")
        self.assertIn("No space left on device", str(error))
        await removing
        self.assertEqual(self.messages(), [2])
        self.rows("DROP TRIGGER refuse ON message")
        await store.commit([put(4)])
        self.assertEqual(self.messages(), [2, 4])

    async def test_other_refusals(self) -> None:
        """Any other error fails the batch with what the database says, and the store goes on."""
        store = await self.open_store()
        self.refuse("state", "58030", "input/output error")
        error = await self.refused(store.commit([PutState("a", b"1"), put(1)]), StorageError)
        self.assertIn("cannot write: input/output error [58030]", str(error))
        await store.commit([put(2)])
        self.assertEqual(self.messages(), [2])

    async def test_locked_table(self) -> None:
        """A lock on a table does not count as an unreachable database."""
        store = await self.open_store("wait=0.3")
        with self.server.connect() as connection:
            connection.execute("BEGIN")
            connection.execute(f"LOCK TABLE {self.schema}.message".encode())
            error = await self.refused(store.commit([put(1)]), StorageError)
            self.assertIn("lock timeout", str(error))
            connection.execute("ROLLBACK")
        await store.commit([put(2)])
        self.assertEqual(self.messages(), [2])

    async def test_many_batches_and_a_lock(self) -> None:
        """All pending batches wait for a lock together, and not one after the other."""
        store = await self.open_store("wait=0.5")
        with self.server.connect() as connection:
            connection.execute("BEGIN")
            connection.execute(f"LOCK TABLE {self.schema}.message".encode())
            commits = [store.commit([put(number)]) for number in range(20)]
            errors = [await self.refused(commit, StorageError) for commit in commits]
            connection.execute("ROLLBACK")
        # Each wait for the lock ends with an error of its own.
        self.assertLessEqual(len({id(error) for error in errors}), 3)
        self.assertTrue(all("lock timeout" in str(error) for error in errors))
        await store.commit([put(1000)])
        self.assertEqual(self.messages(), [1000])

    async def test_long_work_is_no_absence(self) -> None:
        """A statement that takes longer than the database may be away is waited for."""
        store = await self.open_store("wait=0.2")
        self.rows(
            "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$"
        )
        self.rows("CREATE TRIGGER dawdle BEFORE INSERT ON state FOR EACH ROW EXECUTE FUNCTION dawdle()")
        await store.commit([PutState("a", b"1"), event("once")])
        self.assertEqual(self.events(), ["once"])
