"""Backups of data directories, and what is restored from them."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from pathlib import Path
from uuid import UUID

import attrs
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import (
    RemoveMessages,
)
from msmq.service.data_directory.backup import backup, renew_identity
from msmq.service.data_directory.data_lock import DataLock
from msmq.service.data_directory.identity import load_identity
from msmq.service.data_directory.store_check import described
from msmq.storage.backup.backup import back_up, check_backup
from msmq.storage.backup.backup_file import FILE_NAME, BackupFacts, BackupFile
from msmq.storage.readers import open_reader
from msmq.storage.readers.log import LogStoreReader
from msmq.storage.readers.shape import MomentGone, RowPage
from tests.builders import ALPHA, BETA
from tests.storage.backup.data_directory import ORDERS, BackupTestCase, contents, message
from tests.storage.limited_files import files_of_at_most


class OvertakenReader(LogStoreReader):
    """A reader that is once overtaken by its server, after the first queue."""

    is_overtaken = False

    def message_rows(self, queue: UUID, begin: int) -> RowPage:
        if queue != ORDERS and not self.is_overtaken:
            self.is_overtaken = True
            raise MomentGone("the server is faster")
        return super().message_rows(queue, begin)


FACTS = BackupFacts("{}", 0.0, "1", "store", "log", "/data", "", {})


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


class UnreadableDirectoryTests(SynchronousTestCase):
    """A data directory that cannot be entered; here a symbolic link to itself, since root may enter all."""

    def test_is_named(self) -> None:
        """The reason is its own, and not that a file in it, or its store, is missing."""
        data = Path(self.mktemp()).absolute()
        data.symlink_to(data)
        output = data.with_name("output")
        for command in (
            lambda: backup(data, None, output, lambda _: None),
            lambda: described(data, None),
            lambda: open_reader(str(data)),
        ):
            error = self.assertRaises(StorageError, command)
            self.assertRegex(str(error), f"^{data}(/identity.json)?: Too many levels of symbolic links")
