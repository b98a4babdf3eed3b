"""The store in SQLite on a disk that is really full: a small file system of its own for each test."""

from __future__ import annotations

import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.storage.mounts import SMALL, run_mounted


class FullDiskTests(SynchronousTestCase):
    """Each runs one of the scenarios of C{full_disk_child}.

    @cvar store: the store that is tried.
    """

    store = "sqlite"

    def run_on_small_disk(self, scenario: str) -> None:
        directory = Path(self.mktemp()).absolute()
        directory.mkdir()
        done = run_mounted(
            SMALL,
            directory,
            sys.executable,
            "-m",
            "tests.storage.full_disk_child",
            str(directory),
            scenario,
            self.store,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_store_that_fills_it(self) -> None:
        """Messages are kept until it is full, then removed, then kept again, without a restart."""
        self.run_on_small_disk("fills_it")

    def test_a_disk_filled_by_another(self) -> None:
        """While there is no space messages can be removed and moved, with their events; then it goes on."""
        self.run_on_small_disk("another_process_fills_it")

    def test_start_on_a_full_disk(self) -> None:
        """A store opens on a full disk, has everything, and lets messages go."""
        self.run_on_small_disk("starts_on_it")

    def test_express_messages_that_fill_it(self) -> None:
        """A batch of express and other messages is kept whole or not at all, also when the disk is full."""
        self.run_on_small_disk("express_fills_it")

    def test_messages_that_are_removed_one_by_one(self) -> None:
        """Thousands of messages are removed from a full disk, each alone and in any order, with events."""
        self.run_on_small_disk("removed_one_by_one")
