"""Tests of the lock on the data directory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.service.data_directory.data_lock import DataDirectoryError, DataDirectoryInUse, DataLock


class DataLockTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = Path(self.mktemp()).absolute() / "deep" / "data"

    def acquire(self) -> DataLock:
        lock = DataLock(self.data)
        lock.acquire()
        self.addCleanup(lock.release)
        return lock

    def test_makes_a_private_directory(self) -> None:
        """The data directory that the server makes is for its user only."""
        self.acquire()
        self.assertEqual(stat.S_IMODE(self.data.stat().st_mode), 0o700)
        self.assertEqual(stat.S_IMODE((self.data / "lock").stat().st_mode), 0o600)

    def test_leaves_the_mode_of_a_directory_that_is_there(self) -> None:
        """A mounted volume keeps the mode that its owner gave it."""
        self.data.mkdir(parents=True, mode=0o755)
        self.data.chmod(0o755)
        self.acquire()
        self.assertEqual(stat.S_IMODE(self.data.stat().st_mode), 0o755)

    def test_refuses_a_second_holder_by_name(self) -> None:
        """A second server on the same directory is refused; the message names directory and process."""
        self.acquire()
        error = self.assertRaises(DataDirectoryInUse, DataLock(self.data).acquire)
        self.assertEqual(
            str(error), f"data directory {self.data} is in use by another server (process {os.getpid()})"
        )

    def test_can_be_taken_again_after_release(self) -> None:
        """A clean stop gives the directory free."""
        self.acquire().release()
        self.acquire()

    def test_a_file_instead_of_the_directory_is_refused(self) -> None:
        """A data directory that is a file is refused by name."""
        self.data.parent.mkdir(parents=True)
        self.data.write_text("")
        error = self.assertRaises(DataDirectoryError, DataLock(self.data).acquire)
        self.assertEqual(str(error), f"data directory {self.data}: there is a file of that name")

    def test_a_file_above_the_directory_is_refused(self) -> None:
        """A data directory below a file is refused by name."""
        self.data.parent.parent.mkdir(parents=True)
        self.data.parent.write_text("")
        error = self.assertRaises(DataDirectoryError, DataLock(self.data).acquire)
        self.assertEqual(str(error), f"data directory {self.data}: Not a directory")

    def test_a_directory_instead_of_the_lock_is_refused(self) -> None:
        """A lock file that cannot be opened is refused."""
        (self.data / "lock").mkdir(parents=True)
        error = self.assertRaises(DataDirectoryError, DataLock(self.data).acquire)
        self.assertIn(str(self.data), str(error))
