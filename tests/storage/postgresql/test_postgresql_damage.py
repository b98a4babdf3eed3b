"""A schema of PostgreSQL whose stored bytes change, that is older than its mark, or of version 1."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import attrs

from msmq.interfaces.storage import MessageNotStored, StorageError, StoreIncomplete
from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    Change,
    PutQueue,
    PutState,
    RemoveQueue,
    TrimEvents,
    TrimLog,
)
from msmq.storage.checking.postgresql_check import check_schema
from msmq.storage.checking.postgresql_repair import repair_logs
from msmq.storage.migration.digest import digest_of
from msmq.storage.postgresql.database import ServerDatabase
from msmq.storage.postgresql.schema import SCHEMA
from msmq.storage.postgresql.store import PostgresqlMessageStore
from msmq.storage.readers.postgresql import PostgresqlStoreReader
from msmq.testing.contracts.message_store import BILLS, ORDERS, put
from msmq.testing.contracts.store_contract import remove
from tests.faults import IS_THOROUGH, tell
from tests.servers.postgresql import shared_server
from tests.storage.postgresql.postgresql_support import PostgresqlTestCase, address_of

FLIPS: Final = 10_000 if IS_THOROUGH else 12
SEED: Final = 20261123
BYTES: Final = {
    "message": ("packet", "identity"),
    "log": ("packet",),
    "event": ("identity", "event", "reason", "queue"),
    "queue": ("definition",),
    "state": ("name", "value"),
}
"""By table, the columns of bytes."""
NUMBERS: Final = {
    "message": ("size", "aborts", "moves", "checksum", "row_checksum"),
    "log": ("size", "checksum"),
    "event": ("message_class", "checksum"),
    "queue": ("checksum",),
    "state": ("checksum",),
}
"""By table, the columns of numbers."""


class DamagedSchemaTests(PostgresqlTestCase):
    """No altered byte is delivered, and no queue is blocked."""

    timeout = 6 * 3600 if IS_THOROUGH else 120

    def setUp(self) -> None:
        self.server = shared_server()
        super().setUp()
        self.chance = random.Random(SEED)

    async def filled(self) -> dict[int, bytes]:
        """A schema with messages of all sizes, closed; large packets are stored outside of their rows."""
        sizes = (0, 10, 300, 3000, 30_000)
        packets = {number: self.chance.randbytes(sizes[number % 5]) for number in range(1, 21)}
        store = self.store()
        await store.open()
        await store.commit([PutQueue(ORDERS), PutQueue(BILLS), PutState("last", b"20")])
        changes: list[Change] = [put(number, packet) for number, packet in packets.items()]
        changes += [AppendLog(ORDERS.identifier, number, packet, 1.0) for number, packet in packets.items()]
        changes += [AppendEvent(1.0, bytes(20), "expired", f"reason {number}", 7, "q") for number in range(5)]
        await store.commit(changes)
        await store.close()
        return packets

    def flip_any(self) -> str:
        """Change a bit of a stored value; gives where."""
        table = self.chance.choice(list(BYTES))
        column = self.chance.choice([*BYTES[table], *NUMBERS[table]])
        (place,) = self.chance.choice(self.rows(f"SELECT ctid::text FROM {table} ORDER BY ctid"))
        if column in NUMBERS[table]:
            bit = 1 << self.chance.randrange(15)
            self.rows(f"UPDATE {table} SET {column} = {column} # {bit} WHERE ctid = '{place}'")
            return f"{table}.{column}"
        [(size,)] = self.rows(f"SELECT length({column}) FROM {table} WHERE ctid = '{place}'")
        if size:
            bit = self.chance.randrange(8 * size)
            self.rows(
                f"UPDATE {table} SET {column} = set_bit({column}, {bit}, 1 - get_bit({column}, {bit}))"
                f" WHERE ctid = '{place}'"
            )
        return f"{table}.{column}, {size} bytes"

    async def check(self, store: PostgresqlMessageStore, packets: dict[int, bytes], where: str) -> int:
        """Every message is as it was put, or not delivered; gives how many are not."""
        gone = 0
        for number, packet in packets.items():
            try:
                found: Sequence[bytes] = await store.read(ORDERS.identifier, [number])
            except MessageNotStored:
                gone += 1
            else:
                self.assertEqual(list(found), [packet], where)
        for entry in await store.read_log(ORDERS.identifier, 0, 100):
            self.assertEqual(entry.packet, packets[entry.lookup_id], where)
        for stored in await store.read_events(0, 100):
            if stored.event.event == "expired":
                self.assertEqual(stored.event.reason, f"reason {stored.sequence - 1}", where)
        await store.commit([put(2000, b"new")])
        self.assertEqual(list(await store.read(ORDERS.identifier, [2000])), [b"new"])
        await store.commit([remove(*range(1, 2001))])
        return gone

    async def test_flips(self) -> None:
        """Any bit of a stored value changes while the server does not run, or while it does."""
        outcomes = {"refused": 0, "quarantined": 0, "intact": 0}
        packets = await self.filled()
        for table in BYTES:
            self.rows(f"CREATE TABLE public.{self.schema}_{table} AS TABLE {table}")
        for number in range(FLIPS):
            for table in BYTES:
                self.rows(f"TRUNCATE {table}")
                self.rows(f"INSERT INTO {table} SELECT * FROM public.{self.schema}_{table}")
            self.rows("UPDATE progress SET last_event = 5")
            store = self.store()
            is_live = number % 2
            if is_live:
                await store.open()
            where = f"{number}: {self.flip_any()}"
            try:
                if not is_live:
                    await store.open()
                gone = await self.check(store, packets, where)
                outcomes["quarantined" if gone else "intact"] += 1
            except StorageError as error:
                self.assertIn("checksum", str(error), where)
                self.assertNotIn("\n", str(error), where)
                outcomes["refused"] += 1
            await store.close()
        for table in BYTES:
            self.rows(f"DROP TABLE public.{self.schema}_{table}")
        tell(f"PostgreSQL: {FLIPS} flipped bits: {outcomes}")
        self.assertGreater(min(outcomes.values()), 0, outcomes)

    async def test_older_copy(self) -> None:
        """A database that was restored from before the mark is refused; C{--accept-loss} uses it."""
        await self.filled()
        self.rows("UPDATE progress SET number = number - 2")
        error = await self.refused(self.store().open(), StoreIncomplete)
        self.assertIn("an older copy, or incomplete: it ends with generation ", str(error))
        policy = attrs.evolve(self.policy, accepts_loss=True)
        store = PostgresqlMessageStore(address_of(self.server, self.schema), policy)
        await store.open()
        events = [stored.event.event for stored in await store.read_events(0, 100)]
        self.assertIn("loss_accepted", events)
        await store.close()
        store = self.store()
        await store.open()
        await store.close()

    async def test_emptied(self) -> None:
        """A schema that was dropped is not taken for a new one where there was a store."""
        await self.filled()
        self.server.drop(self.schema)
        error = await self.refused(self.store().open(), StoreIncomplete)
        self.assertIn("the store that was used last is missing or empty", str(error))

    async def test_another_store(self) -> None:
        """The schema of another store is not the one that was used last."""
        await self.filled()
        self.rows("UPDATE progress SET store = gen_random_uuid()")
        error = await self.refused(self.store().open(), StoreIncomplete)
        self.assertIn("not the store that was used last", str(error))

    def refuse(self, event: str, table: str, condition: str) -> None:
        """Have the database report damage when it changes some rows."""
        self.rows(
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'invalid page in block 7' USING ERRCODE = 'XX001'; END $$"
        )
        self.rows(
            f"CREATE TRIGGER refuse BEFORE {event} ON {table} FOR EACH ROW WHEN ({condition})"
            " EXECUTE FUNCTION refuse()"
        )

    def database(self) -> ServerDatabase:
        """The writer of the schema."""
        database = ServerDatabase(address_of(self.server, self.schema), self.policy)
        self.addCleanup(database.close)
        return database

    def test_removed_queue_that_cannot_be_deleted(self) -> None:
        """What the database cannot delete is reported once, and keeps nothing else from being deleted."""
        database = self.database()
        logged = [AppendLog(BILLS.identifier, number, b"logged", float(number)) for number in range(10)]
        events = [AppendEvent(1.0, b"", "expired") for _ in range(10)]
        database.write([[PutQueue(ORDERS), PutQueue(BILLS), put(1), put(2), *logged, *events]])
        while database.cleanup():
            pass
        self.refuse("DELETE", "message", "OLD.queue = 1")
        trims: list[Change] = [TrimLog(BILLS.identifier, before=7.0), TrimEvents(4)]
        database.write([[RemoveQueue(ORDERS.identifier), *trims]])
        error = self.assertRaises(StorageError, database.cleanup)
        self.assertIn("invalid page in block 7 [XX001]", str(error))
        while database.cleanup():
            pass
        counts = self.rows("SELECT (SELECT count(*) FROM log), (SELECT count(*) FROM event)")
        self.assertEqual(counts, [(3, 4)])

    async def test_removed_message_that_cannot_be_deleted(self) -> None:
        """A removed message whose row the database keeps is nowhere to be seen, nor scrubbed."""
        packets = await self.filled()
        store = self.store()
        await store.open()
        self.refuse("DELETE", "message", f"OLD.lookup_id = {2 - (1 << 63)}")
        await store.commit([remove(2)])
        self.rows("UPDATE message SET packet = set_byte(packet, 5, 1 - get_byte(packet, 5)) WHERE size = 300")
        self.assertIn(2, self.messages())
        reader = PostgresqlStoreReader(self.server.url(f"schema={self.schema}").partition(":")[2])
        self.addCleanup(reader.close)
        left = [number for number in packets if number not in (2, 7, 12, 17)]
        queue, end = ORDERS.identifier, 1 << 64
        rows = reader.message_rows(queue, 0).rows
        self.assertEqual([row[0] for row in rows], sorted([*left, 7, 12, 17]))
        self.assertEqual(reader.message_cuts(queue, 0, end, 100), ([], 19))
        page = reader.messages(queue, 0, 7, since=None, until=None, bodies=True)
        self.assertEqual([row[0] for row in page.rows], [1, 3, 4, 5, 6])
        report = check_schema(address_of(self.server, self.schema), self.policy.mark)
        self.assertEqual(len(report.problems), 3, report.problems)
        await store.commit([RemoveQueue(queue)])
        await store.close()
        store = self.store()
        await store.open()
        await store.commit([PutQueue(attrs.evolve(ORDERS, path="private$\\new"))])
        await store.close()
        snapshot = await self.store().open()
        self.assertEqual(len(snapshot.queues), 2)

    async def test_pages_of_damaged_entries(self) -> None:
        """A page of damaged entries alone is not taken for the end of a log."""
        await self.filled()
        self.rows("UPDATE log SET packet = 'rotten' WHERE sequence IN (2, 3)")
        self.rows("UPDATE event SET reason = 'other' WHERE sequence IN (2, 3)")
        store = self.store()
        await store.open()
        [entry] = await store.read_log(ORDERS.identifier, 1, 1)
        [stored] = await store.read_events(1, 1)
        self.assertEqual((entry.sequence, stored.sequence), (4, 4))
        self.assertEqual(list(await store.read_log(ORDERS.identifier, 20, 1)), [])
        await store.close()

    async def test_damaged_logs(self) -> None:
        """A damaged entry and a damaged event do not prevent backups and migrations after a repair."""
        await self.filled()
        address = address_of(self.server, self.schema)
        self.rows("UPDATE log SET packet = 'rotten' WHERE sequence = 2")
        self.rows("UPDATE event SET reason = 'other' WHERE sequence = 3")
        reader = PostgresqlStoreReader(self.server.url(f"schema={self.schema}").partition(":")[2])
        self.addCleanup(reader.close)
        with self.assertRaisesRegex(StorageError, "does not match"):
            digest_of(reader, lambda rows: None)
        quarantine = self.policy.quarantine
        quarantine.touch()
        self.assertEqual(repair_logs(address, quarantine), [])
        quarantine.unlink()
        self.assertEqual(
            repair_logs(address, quarantine),
            [
                f"{address.text}: entry 2 of the message log is lost",
                f"{address.text}: event 3 is lost",
            ],
        )
        self.assertEqual((quarantine / "log_entry-1-2").read_bytes(), b"rotten")
        self.assertEqual(check_schema(address, self.policy.mark).problems, [])
        self.assertEqual(digest_of(reader, lambda rows: None)["log entries"].rows, 19)
        store = self.store()
        await store.open()
        extent = await store.log_extent(ORDERS.identifier)
        entries = await store.read_log(ORDERS.identifier, 0, 100)
        self.assertEqual((extent.entries, extent.size), (19, sum(len(one.packet) for one in entries)))
        reasons = [one.event.reason for one in await store.read_events(0, 100)]
        self.assertEqual(reasons[1:4], ["reason 1", "the event that was here is lost", "reason 3"])
        await store.close()

    async def test_last_step_of_the_upgrade(self) -> None:
        """If the database refuses the end of the upgrade, it is tried again."""
        await self.filled()
        self.rows("UPDATE progress SET is_checked = false")
        self.refuse("UPDATE", "progress", "NEW.is_checked AND NOT OLD.is_checked")
        database = self.database()
        for _ in range(2):
            with self.assertRaisesRegex(StorageError, "invalid page in block 7"):
                while database.cleanup():
                    pass
        self.rows("DROP TRIGGER refuse ON progress")
        while database.cleanup():
            pass
        self.assertEqual(self.rows("SELECT is_checked FROM progress"), [(True,)])

    async def test_version_one(self) -> None:
        """A schema without checksums gets them, and is protected by them then."""
        packets = await self.filled()
        self.policy.mark.unlink()
        for table in ("message", "express"):
            self.rows(f"ALTER TABLE {table} DROP COLUMN checksum, DROP COLUMN row_checksum")
        for table in ("log", "event", "queue", "state"):
            self.rows(f"ALTER TABLE {table} DROP COLUMN checksum")
        self.rows("ALTER TABLE progress DROP COLUMN store, DROP COLUMN is_checked")
        self.rows("DROP TABLE unreachable")
        self.rows("UPDATE msmq_version SET number = 1")
        store = self.store()
        snapshot = await store.open()
        self.assertEqual(dict(snapshot.state), {"last": b"20"})
        self.assertEqual(list(await store.read(ORDERS.identifier, list(packets))), list(packets.values()))
        await self.until(lambda: self.rows("SELECT is_checked FROM progress") == [(True,)])
        self.assertEqual(self.rows("SELECT number FROM msmq_version"), [(SCHEMA.version,)])
        for table in ("message", "log", "event", "queue", "state"):
            self.assertEqual(self.rows(f"SELECT count(*) FROM {table} WHERE checksum IS NULL"), [(0,)])
        self.rows("UPDATE message SET packet = set_byte(packet, 5, 1 - get_byte(packet, 5)) WHERE size = 300")
        with self.assertRaises(MessageNotStored):
            await store.read(ORDERS.identifier, [2])
        await store.close()
