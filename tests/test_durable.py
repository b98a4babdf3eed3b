"""Files and directories that survive a power cut."""

from __future__ import annotations

import stat
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.durable import make_directory, sync, write_durably


class WriteDurablyTests(SynchronousTestCase):
    """The content under the name, and what is left next to it."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp())
        self.directory.mkdir()
        self.path = self.directory / "key.pem"

    def test_content_and_permissions(self) -> None:
        """Only its owner can read it unless more was asked for, and no other file is left."""
        write_durably(self.path, b"secret")
        self.assertEqual(self.path.read_bytes(), b"secret")
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)
        write_durably(self.path, b"public", 0o400)
        self.assertEqual(self.path.read_bytes(), b"public")
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o400)
        self.assertEqual(list(self.directory.iterdir()), [self.path])

    def test_a_leftover_beginning(self) -> None:
        """It is neither added to, nor does the file get its permissions, nor is a link followed."""
        elsewhere = self.directory / "elsewhere"
        elsewhere.write_bytes(b"mine")
        beginning = self.directory / "key.pem.new"
        beginning.symlink_to(elsewhere)
        write_durably(self.path, b"secret")
        self.assertEqual(elsewhere.read_bytes(), b"mine")
        beginning.write_bytes(b"a longer beginning")
        beginning.chmod(0o666)
        write_durably(self.path, b"other")
        self.assertEqual(self.path.read_bytes(), b"other")
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)

    def test_what_cannot_be_written_leaves_what_was_there(self) -> None:
        """A directory of that name cannot be replaced; in a missing one, nothing can be created."""
        self.path.mkdir()
        self.assertRaises(OSError, write_durably, self.path, b"secret")
        self.assertTrue(self.path.is_dir())
        self.assertRaises(FileNotFoundError, write_durably, self.directory / "none" / "key.pem", b"")

    def test_syncing(self) -> None:
        """A file or a directory; what is not there is an error."""
        write_durably(self.path, b"secret")
        sync(self.path)
        sync(self.directory)
        self.assertRaises(FileNotFoundError, sync, self.directory / "none")


class MakeDirectoryTests(SynchronousTestCase):
    """Directories; that their names are synchronised is what the tests of power cuts show."""

    def test_directories(self) -> None:
        """Only the owner can read it, and those above it are created on request."""
        top = Path(self.mktemp())
        make_directory(top / "data" / "log")
        self.assertEqual(stat.S_IMODE((top / "data" / "log").stat().st_mode), 0o700)
        make_directory(top / "data" / "log")
        self.assertRaises(FileNotFoundError, make_directory, top / "other" / "log", parents=False)

    def test_paths_that_are_taken(self) -> None:
        """A file of that name, or above it, is an error."""
        path = Path(self.mktemp())
        path.write_bytes(b"")
        self.assertRaises(FileExistsError, make_directory, path)
        self.assertRaises(NotADirectoryError, make_directory, path / "log")
