"""The lock of a store: servers that open it, and checks that look whether there is one."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import PutQueue
from msmq.storage import exclusive_lock
from msmq.storage.checking import log_check
from msmq.storage.checking.log_check import check_log
from msmq.storage.checking.report import is_locked
from msmq.storage.sqlite import SqliteMessageStore
from msmq.testing.contracts.store_contract import ORDERS
from tests.storage.log.support import LogTestCase
from tests.storage.policies import policy_of


class StoreLockTests(LogTestCase):
    """A check never keeps a server from starting, and never takes one that starts for damage."""

    def locked(self, path: Path, operation: int) -> int:
        """The descriptor of a file that is locked."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        self.addCleanup(os.close, descriptor)
        fcntl.flock(descriptor, operation)
        return descriptor

    def hold_for_an_instant(self, path: Path) -> None:
        """Have a check hold the lock until the server has tried once."""
        descriptor = self.locked(path, fcntl.LOCK_SH)
        self.patch(exclusive_lock, "sleep", lambda _: fcntl.flock(descriptor, fcntl.LOCK_UN))

    def test_log(self) -> None:
        """A record log opens, though a check holds its lock at first."""
        self.done(self.opened(PutQueue(ORDERS)).close())
        self.hold_for_an_instant(self.home / "log" / "lock")
        self.done(self.opened().close())

    def test_sqlite(self) -> None:
        """So does a file of SQLite."""
        path = self.home / "msmq.sqlite"
        self.hold_for_an_instant(path.with_name("msmq.sqlite.lock"))
        store = SqliteMessageStore(path, policy_of(path), reactor=self.reactor)
        self.done(store.open())
        self.done(store.close())

    def test_two_checks(self) -> None:
        """Two checks do not take each other for a server."""
        path = self.home / "lock"
        self.locked(path, fcntl.LOCK_SH)
        self.assertFalse(is_locked(path))
        self.locked(self.home / "other", fcntl.LOCK_EX)
        self.assertTrue(is_locked(self.home / "other"))

    def test_server_that_starts_during_a_check(self) -> None:
        """What a check has found of a log at rest is not reported if a server has opened it meanwhile."""
        self.done(self.opened(PutQueue(ORDERS)).close())
        store = self.make_store()

        def check_start(*_: object) -> None:
            self.done(store.open())
            raise StorageError("group 5 is damaged, and group 6 is behind it")

        self.patch(log_check, "check_start", check_start)
        self.assertEqual(check_log(self.home / "log", self.home / "mark").problems, [])
        self.done(store.close())
