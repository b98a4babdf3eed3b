"""Which files the store in SQLite opens, and how it brings old ones up to date."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from twisted.trial.unittest import TestCase

from msmq.interfaces import StorageError
from msmq.interfaces.storage import MessageNotStored
from msmq.persistence.changes import Change, PutQueue, PutState
from msmq.persistence.snapshot import Snapshot
from msmq.storage.checksums import queue_checksum
from msmq.storage.sqlite import SqliteMessageStore
from msmq.storage.sqlite.schema import SCHEMA, Schema, Step
from msmq.testing.contracts.message_store import BILLS, ORDERS, put
from tests.storage.policies import policy_of

NEXT = Schema(
    version=5,
    tables=(*SCHEMA.tables, "CREATE TABLE note (lookup_id INTEGER, text TEXT)"),
    migrations={
        3: ("CREATE TABLE note (lookup_id INTEGER)", "INSERT INTO note SELECT lookup_id FROM message"),
        4: ("ALTER TABLE note ADD COLUMN text TEXT",),
    },
)
"""A schema as a later version might have it, two steps from this one."""


class _FileTests(TestCase):
    """Tests that have a file of their own."""

    def setUp(self) -> None:
        directory = Path(self.mktemp()).absolute()
        directory.mkdir()
        self.path = directory / "msmq.sqlite"

    async def filled(self, *changes: Change) -> None:
        """A file that holds these changes, closed."""
        store = SqliteMessageStore(self.path, policy_of(self.path))
        await store.open()
        await store.commit([PutQueue(ORDERS), *changes])
        await store.close()

    async def found(self, schema: Schema = SCHEMA, path: Path | None = None) -> tuple[Snapshot, list[bytes]]:
        """The content that a start finds: the index, and the packets of one queue."""
        store = SqliteMessageStore(path or self.path, policy_of(path or self.path), schema=schema)
        snapshot = await store.open()
        index = snapshot.messages.get(ORDERS.identifier, ())
        packets = await store.read(ORDERS.identifier, [entry[0] for entry in index])
        await store.close()
        return snapshot, list(packets)

    async def refusal(self, schema: Schema = SCHEMA) -> str:
        """Why the file is not opened."""
        store = SqliteMessageStore(self.path, policy_of(self.path), schema=schema)
        try:
            await store.open()
        except StorageError as error:
            return str(error)
        finally:
            await store.close()
        raise self.failureException("it was opened")

    def sql(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    def overwrite(self, position: int, content: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(position)
            file.write(content)


class OpeningTests(_FileTests):
    """Files that are no store of ours, or no longer a sound one."""

    async def test_symbolic_link(self) -> None:
        """A start on a link to a file is refused, with the file, and leaves it as it is."""
        await self.filled()
        target = self.path.with_name("other.sqlite")
        self.path.rename(target)
        self.path.symlink_to(target)
        before = target.read_bytes()
        line = await self.refusal()
        self.assertTrue(line.startswith(f"{self.path}: a symbolic link to {target}; set [storage] "), line)
        self.assertEqual(target.read_bytes(), before)

    async def test_no_directory(self) -> None:
        """A directory that is not there is named."""
        self.path = self.path.parent / "none" / "msmq.sqlite"
        self.assertIn("none/msmq.sqlite.lock: cannot open: No such file", await self.refusal())

    async def test_file_system_without_locks(self) -> None:
        """A lock that the system refuses is not taken for that of another server."""

        def refuse(descriptor: int, how: int) -> None:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        self.patch(fcntl, "flock", refuse)
        self.assertIn("msmq.sqlite.lock: cannot lock: No locks available", await self.refusal())

    async def test_empty_file(self) -> None:
        """A file of no bytes, which a power cut may leave of a new store, is a new store."""
        self.path.touch()
        self.assertEqual(list((await self.found())[0].queues), [])

    async def test_no_database(self) -> None:
        """A file of something else is refused, and stays as it is."""
        self.path.write_bytes(b"Dear diary, " * 1000)
        self.assertIn("the file is not a SQLite database", await self.refusal())
        self.assertEqual(self.path.read_bytes(), b"Dear diary, " * 1000)

    async def test_database_of_another_program(self) -> None:
        """So is a database with tables of another program."""
        for statement in ("CREATE TABLE message (text TEXT)", "PRAGMA application_id = 99"):
            self.sql(statement)
            content = self.path.read_bytes()
            self.assertEqual(
                await self.refusal(), f"{self.path}: this is the database of another program", statement
            )
            self.assertEqual(self.path.read_bytes(), content)

    async def test_newer_version(self) -> None:
        """A file of a newer version is not changed, and both versions are named."""
        await self.filled(put(1))
        self.sql("PRAGMA user_version = 7")
        content = self.path.read_bytes()
        self.assertEqual(
            await self.refusal(),
            f"{self.path}: written by a newer version of msmq (schema 7, this one knows 3)",
        )
        self.assertEqual(self.path.read_bytes(), content)

    async def test_cut_short(self) -> None:
        """A file that lost its end is refused before a message is missed."""
        await self.filled(*(put(number, bytes(3000)) for number in range(100)))
        os.truncate(self.path, self.path.stat().st_size // 4096 // 2 * 4096)
        self.assertIn("the file is damaged", await self.refusal())

    async def test_concurrent_reader_at_the_start(self) -> None:
        """A program that reads the file while the server starts does not make it look damaged."""
        store = SqliteMessageStore(self.path, policy_of(self.path))
        await store.open()
        await store.commit([PutQueue(ORDERS), *(put(number, bytes(3000)) for number in range(100))])
        copy = self.path.with_name("copy.sqlite")
        # As a kill leaves it: a short file, and a log that holds the rest.
        for suffix in ("", "-wal"):
            shutil.copy(f"{self.path}{suffix}", f"{copy}{suffix}")
        await store.close()
        with closing(sqlite3.connect(copy, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            self.assertEqual(reader.execute("SELECT count(*) FROM message").fetchone(), (100,))
            _, packets = await self.found(path=copy)
        self.assertEqual(len(packets), 100)

    async def test_overwritten(self) -> None:
        """A file with random bytes in any of its pages but a packet's own bytes is refused."""
        await self.filled(put(1))
        sound = self.path.read_bytes()
        for page in range(len(sound) // 4096):
            self.path.write_bytes(sound)
            self.overwrite(page * 4096, b"\xa5" * 4096)
            self.assertIn("the file is", await self.refusal(), page)

    async def test_damaged_definition(self) -> None:
        """A queue whose properties are not as they were written is not passed over."""
        await self.filled()
        self.sql("UPDATE queue SET definition = x'7b7d'")
        self.assertIn("table queue, row 1: the checksum does not match", await self.refusal())
        self.define("x'7b7d'")
        self.assertIn("not the definition of a queue", await self.refusal())

    def define(self, definition: str) -> None:
        """Change the definitions of queues, with their checksums."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.create_function("queue_checksum", 3, queue_checksum)
            connection.execute(f"UPDATE queue SET definition = {definition}")
            connection.execute("UPDATE queue SET checksum = queue_checksum(id, identifier, definition)")

    async def test_unknown_property(self) -> None:
        """A property of a queue that this version does not know is not lost in silence."""
        await self.filled()
        self.define("CAST('{\"colour\": 1}' AS BLOB)")
        self.assertIn("colour", await self.refusal())

    async def test_missing_property(self) -> None:
        """A property that an older version did not know has its default."""
        await self.filled(PutQueue(BILLS))
        self.define("CAST(json_remove(CAST(definition AS TEXT), '$.label', '$.privacy') AS BLOB)")
        _, bills = (await self.found())[0].queues
        self.assertEqual((bills.path, bills.label), (BILLS.path, ""))

    async def test_packet_that_cannot_be_read(self) -> None:
        """A packet that cannot be read takes only its message out of the queue."""
        await self.filled(put(1, b"one"), put(2, b"two" * 30_000), put(3, b"three"))
        store = SqliteMessageStore(self.path, policy_of(self.path))
        await store.open()
        self.addCleanup(store.close)
        position = self.path.read_bytes().index(b"two" * 1000)
        # The page of a long packet begins with the number of the next.
        for page in range(position // 4096 + 1, self.path.stat().st_size // 4096):
            self.overwrite(page * 4096, b"\x7f" * 4)
        with self.assertRaises(MessageNotStored) as caught:
            await store.read(ORDERS.identifier, [1, 2, 3])
        self.assertEqual(caught.exception.lookup_id, 2)
        [event] = await store.read_events(0, 10)
        self.assertEqual((event.event.event, event.event.queue), ("damaged", ORDERS.path))
        self.assertEqual(
            event.event.reason,
            f"lookup id 0x0000000000000002; {self.path}, table message, queue 1: the packet cannot be read",
        )
        self.assertEqual(list(await store.read(ORDERS.identifier, [1, 3])), [b"one", b"three"])


class MigrationTests(_FileTests):
    """A file of an older version."""

    async def test_brought_up_to_date(self) -> None:
        """All steps are done, in order, and everything is still there."""
        await self.filled(put(1, b"one"), PutState("n", b"5"))
        for _ in range(2):
            snapshot, packets = await self.found(NEXT)
            self.assertEqual((list(snapshot.queues), packets), ([ORDERS], [b"one"]))
            self.assertEqual(dict(snapshot.state), {"n": b"5"})
        with closing(sqlite3.connect(self.path)) as connection:
            self.assertEqual(
                connection.execute("SELECT count(*), max(text) FROM note").fetchall(), [(1, None)]
            )

    async def test_backup_comes_first(self) -> None:
        """A copy of the older version stays next to it, for its owner alone, and can be opened."""
        await self.filled(put(1, b"one"))
        await self.found(NEXT)
        backup = self.path.with_name("msmq.sqlite.schema-3")
        self.assertEqual(stat.S_IMODE(backup.stat().st_mode), 0o600)
        snapshot, packets = await self.found(path=backup)
        self.assertEqual((list(snapshot.queues), packets), ([ORDERS], [b"one"]))

    async def test_older_version_refuses_it_afterwards(self) -> None:
        """Only the backup can be opened by the older version."""
        await self.filled()
        await self.found(NEXT)
        self.assertIn("written by a newer version", await self.refusal())

    async def test_step_that_fails(self) -> None:
        """A migration that fails at its end has changed nothing."""
        await self.filled(put(1, b"one"))
        steps: dict[int, Sequence[Step]] = {**NEXT.migrations, 4: ("DROP TABLE message", "DROP TABLE none")}
        broken = Schema(version=5, tables=(), migrations=steps)
        self.assertIn("no such table: none", await self.refusal(broken))
        _, packets = await self.found()
        self.assertEqual(packets, [b"one"])

    async def test_backup_that_fails(self) -> None:
        """Without a backup nothing is migrated."""
        await self.filled(put(1, b"one"))
        self.path.with_name("msmq.sqlite.schema-3.partial").mkdir()
        self.assertIn("cannot open", await self.refusal(NEXT))
        _, packets = await self.found()
        self.assertEqual(packets, [b"one"])

    async def test_new_file_needs_none(self) -> None:
        """A file that is made anew is of the last version, without a backup."""
        await self.found(NEXT)
        await self.found(NEXT)
        self.assertEqual(
            sorted(path.name for path in self.path.parent.iterdir()),
            ["msmq.sqlite", "msmq.sqlite-mark", "msmq.sqlite.lock", "msmq.sqlite.reserve"],
        )
