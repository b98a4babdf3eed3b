"""Backups that are damaged."""

from __future__ import annotations

import sqlite3

from msmq.service.data_directory.identity import load_identity
from msmq.storage.backup.backup_file import FILE_NAME
from tests.storage.backup.data_directory import BackupTestCase


class DamagedBackupTests(BackupTestCase):
    """What a restore says of a backup whose bytes have changed."""

    async def test_damaged_backup(self) -> None:
        """A restore detects a change of any byte of the contents, and creates nothing."""
        await self.stopped()
        self.back_up()
        kept = (self.directory / FILE_NAME).read_bytes()
        for change, words in (
            ("UPDATE packet SET packet = zeroblob(length(packet)) WHERE number < 0", "checksum of a packet"),
            ("UPDATE message SET aborts = 7", "checksum of messages"),
            ("UPDATE value SET value = x'00' WHERE name = CAST('reserved' AS BLOB)", "checksum of values"),
            ("UPDATE file SET content = x'00'", "checksum of"),
            ("UPDATE message SET aborts = 1.5", "the backup is damaged: required argument is not an integer"),
            ("UPDATE value SET name = 1 WHERE name = CAST('reserved' AS BLOB)", "the backup is damaged: "),
            ("UPDATE file SET name = x'69' WHERE mode = 384", "the names of its files"),
            ("UPDATE file SET mode = 511", "the names of its files"),
            ("DELETE FROM file", "the names of its files"),
            (
                "UPDATE meta SET value = CAST(replace(CAST(value AS TEXT), '2', '3') AS BLOB)"
                " WHERE name = 'facts'",
                "checksum of its facts",
            ),
            ("DELETE FROM meta WHERE name = 'facts'", "facts is missing"),
            ("PRAGMA user_version = 99", "a newer version (format 99, this one reads 1)"),
            ("PRAGMA application_id = 5", "not a backup"),
        ):
            with sqlite3.connect(self.directory / FILE_NAME) as file:
                file.execute(change)
            file.close()
            self.assert_fails(words, self.deferred(self.restored()))
            self.assertFalse(self.target.exists())
            (self.directory / FILE_NAME).write_bytes(kept)
        (self.directory / FILE_NAME).write_bytes(
            kept.replace(b"CREATE TABLE queue", b"CREATE T\xc1BLE queue")
        )
        self.assert_fails(
            r'damaged: malformed database schema (queue) - near "T\xc1BLE"', self.deferred(self.restored())
        )
        (self.directory / FILE_NAME).write_bytes(kept.replace(b"CREATE TABLE queue", b'CREATE "ABLE queue'))
        self.assert_fails("first INTEGER NOT NULL, definition BLOB", self.deferred(self.restored()))
        (self.directory / FILE_NAME).write_bytes(b"rubbish" * 1000)
        self.assert_fails("not a SQLite database", self.deferred(self.restored()))
        (self.directory / FILE_NAME).unlink()
        self.assert_fails("there is no backup", self.deferred(self.restored()))
        self.assertEqual([path.name for path in self.base.iterdir() if path.name.startswith(".")], [])

    async def test_backup_of_an_earlier_version(self) -> None:
        """It has no checksum of its facts, and is restored."""
        await self.stopped()
        self.back_up()
        with sqlite3.connect(self.directory / FILE_NAME) as file:
            file.execute("DELETE FROM meta WHERE name = 'checksum'")
        file.close()
        self.assertEqual((await self.restored()).identifier, load_identity(self.data))
