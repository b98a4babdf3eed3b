"""Backups of data directories, and what is restored from them."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import attrs
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SkipTest, TestCase

from msmq.interfaces.storage import IMessageStore, StorageError
from msmq.manager.applications.send_keys import SendKeys
from msmq.manager.applications.send_keys import digest_of as digest_of_key
from msmq.manager.drains.drain_record import DrainRecord, stored_drains
from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    Change,
    PutMessage,
    PutQueue,
    PutState,
    RemoveMessages,
)
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.service.data_directory.backup import backup, renew_identity, restore
from msmq.service.data_directory.data_lock import DataDirectoryError, DataLock
from msmq.service.data_directory.identity import IdentityError, check_renewal, load_identity
from msmq.storage.backup.backup import back_up, check_backup
from msmq.storage.backup.backup_file import FILE_NAME, BackupFacts, BackupFile
from msmq.storage.migration.digest import digest_of
from msmq.storage.migration.store_locations import store_location_of
from msmq.storage.readers.log import LogStoreReader
from msmq.storage.readers.shape import MomentGone, RowPage
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_patches import patch_queue_manager_address
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.clock import ManualClock
from msmq.wire.guid import NULL_GUID
from tests.builders import ALPHA, BETA, GAMMA
from tests.queues.builders import arriving
from tests.storage.limited_files import files_of_at_most

ORDERS = UUID(int=1)
TO_BETA = UUID(int=2)
DEADLETTER = "system$;deadletter"


def message(number: int, queue: UUID = ORDERS, body: bytes = b"body", **properties: Any) -> PutMessage:
    """A message as a store keeps it."""
    view = arriving(body, recoverable=True, **properties)
    return PutMessage(queue, number, view.packet, 1000.0 + number, None)


def at_beta(messages: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """The same messages, for a private queue of BETA."""
    return [(number, patch_queue_manager_address(packet, BETA.bytes_le)) for number, packet in messages]


def contents(owner: UUID = ALPHA) -> list[Change]:
    """Some of everything."""
    deadletter = uuid5(owner, DEADLETTER)
    return [
        PutState("queue_manager", owner.bytes),
        PutState("tx/awaiting/1", b"old"),
        PutState("results/1", b"old"),
        PutState("service/bridge.replies/in/1", b"old"),
        PutState("reserved", b"7"),
        PutQueue(QueueDefinition(ORDERS, "private$\\orders", number=1, log=True)),
        PutQueue(QueueDefinition(TO_BETA, "DIRECT=OS:BETA\\private$\\x", type=QueueType.OUTGOING)),
        PutQueue(QueueDefinition(deadletter, DEADLETTER, type=QueueType.SYSTEM)),
        *(message(number, body=b"b" * number) for number in range(1, 6)),
        message(8, deadletter),
        message(9, TO_BETA),
        message(10, TO_BETA, transactional=True),
        AppendLog(ORDERS, 1, b"logged packet", 1.0),
        AppendEvent(5.0, b"", "refused", "r\udc80", 3, "q"),
    ]


class OvertakenReader(LogStoreReader):
    """A reader that is once overtaken by its server, after the first queue."""

    is_overtaken = False

    def message_rows(self, queue: UUID, begin: int) -> RowPage:
        if queue != ORDERS and not self.is_overtaken:
            self.is_overtaken = True
            raise MomentGone("the server is faster")
        return super().message_rows(queue, begin)


FACTS = BackupFacts("{}", 0.0, "1", "store", "log", "/data", "", {})


class BackupTestCase(TestCase):
    """A data directory with a store, whose server may be running."""

    kind = "log"

    def setUp(self) -> None:
        self.base = Path(self.mktemp())
        self.base.mkdir()
        self.data = self.base / "data"
        self.data.mkdir()
        load_identity(self.data, lambda: ALPHA)
        (self.data / "keys").mkdir()
        (self.data / "keys" / "encryption.pem").write_bytes(b"a key")
        self.directory = self.base / "backup"
        self.target = self.base / "restored"

    async def opened(self) -> IMessageStore:
        """The store of a server that runs."""
        store = store_location_of(self.kind, self.data).make_store()
        await store.open()
        self.addCleanup(store.close)
        return store

    async def stopped(self, *more: Change) -> None:
        store = store_location_of(self.kind, self.data).make_store()
        await store.open()
        await store.commit([*contents(), *more])
        await store.close()

    def back_up(self) -> int:
        """How many messages were new."""
        return backup(self.data, None, self.directory, lambda rows: None).new_messages

    async def restored(self, **options: Any) -> Any:
        given: dict[str, Any] = {"kind": None, "new_identity": False, **options}
        return await restore(self.directory, self.target, report=lambda rows: None, **given)

    def digest(self, data: Path, kind: str | None = None) -> Any:
        reader = store_location_of(kind or self.kind, data).make_reader()
        try:
            return digest_of(reader, lambda rows: None)
        finally:
            reader.close()

    def messages(self, data: Path, queue: UUID, kind: str | None = None) -> list[tuple[int, bytes]]:
        reader = store_location_of(kind or self.kind, data).make_reader()
        try:
            page = reader.messages(queue, 0, 1 << 64, since=None, until=None, bodies=True)
            return [(row[0], bytes(row[-1])) for row in page.rows]
        finally:
            reader.close()

    def deferred(self, coroutine: Any) -> Any:
        return Deferred.fromCoroutine(coroutine)

    def assert_fails(self, words: str, result: Any) -> None:
        failure = self.failureResultOf(result, StorageError, DataDirectoryError)
        self.assertIn(words, str(failure.value))
        self.assertNotIn("\n", str(failure.value))


class LogBackupTests(BackupTestCase):
    """A record log."""

    async def test_running_server(self) -> None:
        """The backup of a store in use has all of it, and what is restored from it is the same."""
        store = await self.opened()
        await store.commit(contents())
        self.assertEqual(self.back_up(), 8)
        before = self.digest(self.data)
        summary = await self.restored()
        self.assertEqual((summary.identifier, load_identity(self.target)), (ALPHA, ALPHA))
        self.assertEqual((self.target / "keys" / "encryption.pem").read_bytes(), b"a key")
        after = self.digest(self.target)
        # The restore itself is an event.
        self.assertEqual({**after, "events": None}, {**before, "events": None})
        self.assertEqual(after["events"].rows, before["events"].rows + 1)

    async def test_next_backup(self) -> None:
        """It writes only what is new, and has nothing of what is gone."""
        store = await self.opened()
        await store.commit(contents())
        self.back_up()
        self.assertEqual(self.back_up(), 0)
        await store.commit([RemoveMessages(ORDERS, (1, 2)), message(11)])
        self.assertLess(0, self.back_up())
        self.assertEqual(check_backup(self.directory, lambda rows: None).sections, self.digest(self.data))
        with sqlite3.connect(self.directory / FILE_NAME) as file:
            [(count,)] = file.execute("SELECT count(*) FROM packet WHERE kind = 0").fetchall()
        file.close()
        self.assertEqual(count, 7)

    async def test_overtaken_backup(self) -> None:
        """If the server reuses space before it was read, the backup begins anew, with what it has."""
        store = await self.opened()
        await store.commit(contents())
        summary = back_up(
            OvertakenReader(self.data / "msmq.log"),
            Path(self.mktemp()).absolute().parent,
            lambda identifier, sections: attrs.evolve(FACTS, sections=sections),
            list,
            lambda rows: None,
        )
        self.assertEqual((summary.facts.sections, summary.new_messages), (self.digest(self.data), 3))


class DirectoryTests(BackupTestCase):
    """Everything around the store, which is the quickest to make."""

    kind = "sqlite"

    async def test_interrupted_backup(self) -> None:
        """A backup that does not end leaves the one before, and a second one at the same time is refused."""
        store = await self.opened()
        await store.commit(contents())
        self.back_up()
        before = check_backup(self.directory, lambda rows: None)
        file = BackupFile.begin(self.directory)
        file.restart()
        error = self.assertRaises(StorageError, BackupFile.begin, self.directory)
        self.assertIn("another backup is writing it", str(error))
        file.close()
        self.assertEqual(check_backup(self.directory, lambda rows: None), before)

    async def test_full_disk(self) -> None:
        """A backup for which there is no space fails with its reason, and leaves the one before."""
        store = await self.opened()
        await store.commit(contents())
        self.back_up()
        before = check_backup(self.directory, lambda rows: None)
        for number in range(20, 40):
            await store.commit([message(number, body=bytes(400_000))])
        with files_of_at_most(1_000_000):
            error = self.assertRaises(StorageError, self.back_up)
        self.assertIn(f"{self.directory / FILE_NAME}: cannot write: ", str(error))
        self.assertEqual(check_backup(self.directory, lambda rows: None), before)
        self.assertGreaterEqual(self.back_up(), 20)

    async def test_killed_backup(self) -> None:
        """What a backup that was killed has left is undone, and the one before restored."""
        await self.stopped()
        self.back_up()
        before = check_backup(self.directory, lambda rows: None)
        file = BackupFile.begin(self.directory)
        file.restart()
        rows = [(number, 1.0, 0, 0, None, bytes(500_000)) for number in range(10)]
        file.put_messages(ORDERS, rows, has_packets=False)
        killed = self.base / "killed"
        shutil.copytree(self.directory, killed)
        file.close()
        self.assertIn(f"{FILE_NAME}-journal", [path.name for path in killed.iterdir()])
        kept, self.directory = self.directory, killed
        self.assertEqual(check_backup(killed, lambda rows: None), before)
        self.assertEqual(self.back_up(), 0)
        await self.restored()
        # The very first backup may be killed too.
        shutil.rmtree(kept)
        shutil.rmtree(killed)
        kept.mkdir()
        file = BackupFile.begin(kept)
        file.put_messages(ORDERS, rows, has_packets=False)
        shutil.copytree(kept, killed)
        file.close()
        self.target = self.base / "more"
        self.assert_fails("the first backup has not ended", self.deferred(self.restored()))
        self.assertEqual(self.back_up(), 8)

    async def test_existing_directory(self) -> None:
        """An empty data directory stays itself: its parent may belong to another user, or be another file
        system; a directory that a killed restore has left in it does not matter.
        """
        await self.stopped()
        self.back_up()
        self.target.mkdir(mode=0o750)
        (self.target / ".restore-killed").mkdir()
        (self.target / "lost+found").mkdir()
        before = self.target.stat()
        renames = os.rename

        def rename(old: Path, new: Path) -> None:
            # The system refuses it for a mount point, and in a parent that belongs to another user.
            if self.target in (old, new):
                raise OSError(errno.EBUSY, "Device or resource busy")
            renames(old, new)

        self.patch(os, "rename", rename)
        await self.restored()
        after = self.target.stat()
        self.assertEqual((before.st_ino, before.st_mode), (after.st_ino, after.st_mode))
        self.assertEqual(load_identity(self.target), ALPHA)
        self.assertEqual(self.messages(self.target, ORDERS), self.messages(self.data, ORDERS))
        names = {path.name for path in self.target.iterdir() if not path.name.startswith("msmq.")}
        self.assertEqual(names, {".restore-killed", "lost+found", "identity.json", "keys"})
        self.assert_fails("is not empty", self.deferred(self.restored()))

    async def test_working_directory(self) -> None:
        """A data directory that is the working directory is renewed and restored like any other."""
        await self.stopped()
        self.back_up()
        self.directory = self.directory.absolute()
        self.target.mkdir()
        target, self.target = self.target.absolute(), Path()
        former = os.getcwd()
        self.addCleanup(os.chdir, former)
        os.chdir(target)
        await self.restored()
        self.assertEqual(load_identity(target), ALPHA)
        await renew_identity(Path(), None, report=lambda rows: None, make_identifier=lambda: BETA)
        os.chdir(former)
        self.assertEqual(load_identity(target), BETA)

    async def test_owner(self) -> None:
        """What root restores or renews belongs to the owner of the data directory."""
        if os.geteuid() != 0:
            raise SkipTest("only root can give files to another user")
        await self.stopped()
        self.back_up()
        self.target.mkdir()
        os.chown(self.target, 4711, 4712)
        await self.restored()
        for _ in range(2):
            owners = {(path.stat().st_uid, path.stat().st_gid) for path in self.target.rglob("*")}
            self.assertEqual(owners, {(4711, 4712)})
            await renew_identity(self.target, None, report=lambda rows: None)
        self.assertEqual(self.target.stat().st_uid, 4711)

    async def test_refused_targets(self) -> None:
        """A data directory that is used, or is not empty, and a second queue manager beside the original."""
        await self.stopped()
        self.back_up()
        lock = DataLock(self.data)
        lock.acquire()
        self.addCleanup(lock.release)
        self.assert_fails("the original is running", self.deferred(self.restored()))
        elsewhere, self.target = self.target, self.data
        self.assert_fails("in use by another server", self.deferred(self.restored()))
        lock.release()
        self.assert_fails("is not empty", self.deferred(self.restored()))
        self.target = elsewhere
        self.assertEqual((await self.restored()).identifier, ALPHA)

    async def test_refused_backups(self) -> None:
        """Over the backup of another queue manager, inside the data directory, and of no data directory."""
        await self.stopped()
        self.back_up()
        (self.data / "identity.json").unlink()
        error = self.assertRaises(StorageError, self.back_up)
        self.assertIn("identity.json is missing", str(error))
        load_identity(self.data, lambda: BETA)
        self.assertIn("another queue manager", str(self.assertRaises(StorageError, self.back_up)))
        self.directory = self.data / "backup"
        self.assertIn("inside", str(self.assertRaises(StorageError, self.back_up)))
        self.directory = Path("/proc/backup")
        error = self.assertRaises(StorageError, self.back_up)
        self.assertIn("/proc/backup: the directory cannot be created", str(error))

    async def test_new_identity(self) -> None:
        """Local messages stay, also dead letters; those to others become dead letters of the clone."""
        await self.stopped()
        self.back_up()
        summary = await self.restored(new_identity=True, make_identifier=lambda: BETA)
        self.assertEqual((load_identity(self.target), summary.moved), (BETA, 2))
        self.assertEqual(self.messages(self.target, ORDERS), at_beta(self.messages(self.data, ORDERS)))
        dead_letters = self.messages(self.target, uuid5(BETA, DEADLETTER))
        self.assertEqual([number for number, _ in dead_letters], [8, 9])
        self.assertEqual(UserMessageView(dead_letters[1][1]).message_class, MessageClass.NACK_DELETED)
        self.assertEqual(
            [number for number, _ in self.messages(self.target, uuid5(BETA, "system$;deadxact"))], [10]
        )
        self.assertEqual(self.messages(self.target, TO_BETA), [])
        reader = store_location_of(self.kind, self.target).make_reader()
        values = reader.values()
        reader.close()
        self.assertEqual(values["queue_manager"], BETA.bytes)
        gone = ("tx/awaiting/1", "results/1", "service/bridge.replies/in/1")
        self.assertEqual([values.get(name) for name in gone], [None, None, None])
        self.assertEqual(values["reserved"], b"7")

    async def test_drain_of_the_original(self) -> None:
        """A queue manager with a new identifier does not go on with a drain: the original moves the messages,
        and they would arrive twice.
        """
        drain = DrainRecord(
            queue=ORDERS,
            destination="DIRECT=OS:GAMMA\\private$\\orders",
            owner=NULL_GUID,
            in_clear=False,
            acknowledge_to="",
            began=1000.0,
        )
        await self.stopped(drain.created(), *drain.after([bytes(20)], 100)[1])
        self.back_up()
        await self.restored()
        self.assertEqual([each.queue for each in stored_drains(self.values())[0]], [ORDERS])
        shutil.rmtree(self.target)
        await self.restored(new_identity=True, make_identifier=lambda: BETA)
        values = self.values()
        self.assertEqual([name for name in values if name.startswith("drain")], [])
        self.assertEqual(self.messages(self.target, ORDERS), at_beta(self.messages(self.data, ORDERS)))

    async def test_keys_of_a_new_identity(self) -> None:
        """What the original has sent under a key is not sent again, and keeps the identifier that it has
        there, also after a second change of the identifier.
        """
        keys, clock = SendKeys(), ManualClock()
        digest = digest_of_key("order-7", [str(ORDERS)])
        page = keys.page({digest: 7}, clock.now())
        await self.stopped(*(PutState(name, value) for name, value in page.changes() if value is not None))
        self.back_up()
        await self.restored(new_identity=True, make_identifier=lambda: BETA)
        await renew_identity(self.target, None, report=lambda rows: None, make_identifier=lambda: GAMMA)
        again = SendKeys()
        again.load(self.values(), clock.now())
        self.assertEqual((again.find(digest, clock.now()), again.source(digest)), (7, ALPHA))

    def values(self) -> Mapping[str, bytes]:
        reader = store_location_of(self.kind, self.target).make_reader()
        try:
            return reader.values()
        finally:
            reader.close()

    async def test_counts_of_a_new_identity(self) -> None:
        """The parts that a restore names are those of the new store; what is left out has its counts."""
        in_transit = "system$;awaiting_final_ack"
        sent = uuid5(ALPHA, in_transit)
        await self.stopped(
            PutQueue(QueueDefinition(sent, in_transit, type=QueueType.SYSTEM)),
            *(message(number, sent, transactional=True) for number in (11, 12, 13)),
        )
        self.back_up()
        before = self.digest(self.data)
        summary = await self.restored(new_identity=True, make_identifier=lambda: BETA)
        after = self.digest(self.target)
        self.assertEqual(summary.sections, after)
        left_out = summary.left_out
        self.assertEqual((left_out.queues, left_out.messages, left_out.values), (2, 3, 3))
        self.assertEqual(after["messages"].rows + left_out.messages, before["messages"].rows)
        self.assertEqual(after["values"].rows + left_out.values, before["values"].rows)
        # The queue of transactional dead letters is new.
        self.assertEqual(after["queues"].rows + left_out.queues, before["queues"].rows + 1)

    async def test_renewed_identity(self) -> None:
        """A clone gets an identifier of its own; its former directory is kept, a running server refused."""
        await self.stopped()
        before = self.messages(self.data, ORDERS)
        (self.data / "msmq.toml").write_text("# mine")
        lock = DataLock(self.data)
        lock.acquire()
        renewing = self.deferred(renew_identity(self.data, None, report=lambda rows: None))
        self.assert_fails("in use by another server", renewing)
        lock.release()
        summary = await renew_identity(
            self.data, None, report=lambda rows: None, make_identifier=lambda: BETA
        )
        self.assertEqual((load_identity(self.data), summary.moved), (BETA, 2))
        self.assertEqual((summary.left_out.queues, summary.sections), (1, self.digest(self.data)))
        self.assertEqual(self.messages(self.data, ORDERS), at_beta(before))
        self.assertEqual((self.data / "msmq.toml").read_text(), "# mine")
        assert summary.former is not None
        self.assertEqual(load_identity(summary.former), ALPHA)

    async def test_renewed_link(self) -> None:
        """The clone stays on the volume that a symbolic link leads to, with its former directory."""
        await self.stopped()
        (self.base / "volume").mkdir()
        real = self.data.rename(self.base / "volume" / "real").absolute()
        self.data.symlink_to(real)
        summary = await renew_identity(
            self.data, None, report=lambda rows: None, make_identifier=lambda: BETA
        )
        assert summary.former is not None
        self.assertTrue(self.data.is_symlink())
        self.assertEqual(summary.former.parent, real.parent)
        self.assertEqual((load_identity(real), load_identity(summary.former)), (BETA, ALPHA))
        # After a kill between the two renames the link leads to nothing.
        real.rename(real.with_name(".real.new-killed"))
        self.assertRaises(IdentityError, check_renewal, self.data)


class SqliteBackupTests(BackupTestCase):
    """A store of SQLite."""

    kind = "sqlite"

    async def test_running_server(self) -> None:
        """One moment of a store in use is backed up, and restored into a store of another kind."""
        store = await self.opened()
        await store.commit(contents())
        self.assertEqual(self.back_up(), 8)
        self.assertEqual(self.back_up(), 0)
        await self.restored(kind="log")
        before, after = self.digest(self.data), self.digest(self.target, "log")
        self.assertEqual({**after, "events": None}, {**before, "events": None})

    async def test_interrupted_renewal(self) -> None:
        """After a kill between the two renames no new queue manager takes the name of the former one."""
        await self.stopped()
        check_renewal(self.data)
        summary = await renew_identity(self.data, None, report=lambda rows: None)
        assert summary.former is not None
        unfinished = self.base / ".data.new-killed"
        self.data.rename(unfinished)
        for is_created_again in (False, True):
            if is_created_again:
                self.data.mkdir()
            refused = self.assertRaises(IdentityError, check_renewal, self.data)
            self.assertIn(str(summary.former.name), str(refused))
            renewing = self.deferred(renew_identity(self.data, None, report=lambda rows: None))
            self.assert_fails("identity renew was interrupted", renewing)
        self.data.rmdir()
        summary.former.rename(self.data)
        check_renewal(self.data)
        self.assertEqual((await renew_identity(self.data, None, report=lambda rows: None)).moved, 2)
        # A data directory that was removed on purpose is no interrupted renewal.
        shutil.rmtree(unfinished)
        shutil.rmtree(self.data)
        check_renewal(self.data)
