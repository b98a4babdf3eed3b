"""Private keys in what is restored from a backup, and in a data directory with a new identifier."""

from __future__ import annotations

import shutil
from pathlib import Path

from msmq.security.keys import KeyRing, make_key
from msmq.service.data_directory.backup import renew_identity
from tests.storage.backup.data_directory import BackupTestCase


def contents_of(directory: Path) -> dict[str, bytes]:
    """The files of a directory by their names."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


class CopiedKeysTests(BackupTestCase):
    """A queue manager with keys for encrypted bodies, and a user with a certificate."""

    def setUp(self) -> None:
        super().setUp()
        made = make_key(1024)
        KeyRing(self.data / "keys", weak=True, make=lambda bits: made).open()
        (self.data / "certificates").mkdir()
        (self.data / "certificates" / "000001-a.json").write_bytes(b"{}")

    async def test_restored(self) -> None:
        """The same queue manager goes on with its keys."""
        await self.stopped()
        self.back_up()
        await self.restored()
        self.assertEqual(contents_of(self.target / "keys"), contents_of(self.data / "keys"))

    async def test_new_identity(self) -> None:
        """Another queue manager generates its own keys: with those of the original it could read bodies for
        that. It has the certificates of users, and files of an operator next to the keys.
        """
        await self.stopped()
        self.back_up()
        await self.restored(new_identity=True)
        keys = contents_of(self.data / "keys")
        summary = await renew_identity(self.data, None, report=lambda rows: None)
        for data in (self.target, self.data):
            self.assertEqual(contents_of(data / "keys"), {"encryption.pem": b"a key"})
            self.assertEqual(contents_of(data / "certificates"), {"000001-a.json": b"{}"})
        assert summary.former is not None
        self.assertEqual(contents_of(summary.former / "keys"), keys)
        shutil.rmtree(self.data / "keys")
        await renew_identity(self.data, None, report=lambda rows: None)
        self.assertFalse((self.data / "keys").exists())
