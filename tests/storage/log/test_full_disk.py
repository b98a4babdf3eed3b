"""A record log on a disk that is really full: a small file system of its own for each test."""

from __future__ import annotations

from tests.storage.sqlite import test_sqlite_full_disk


class LogFullDiskTests(test_sqlite_full_disk.FullDiskTests):
    """The same scenarios as for SQLite, with segments of 1 MiB."""

    store = "log"

    def test_beginning_on_a_full_disk(self) -> None:
        """A log that has no space to begin with says so in one line, and begins once there is some."""
        self.run_on_small_disk("begins_on_it")
