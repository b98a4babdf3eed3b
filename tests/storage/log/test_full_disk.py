"""A record log on a disk that is really full: a small file system of its own for each test."""

from __future__ import annotations

from tests.storage import test_sqlite_full_disk


class LogFullDiskTests(test_sqlite_full_disk.FullDiskTests):
    """The same scenarios as for SQLite, with segments of 1 MiB."""

    store = "log"
