"""The store in SQLite over any history."""

from __future__ import annotations

import shutil
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces import IMessageStore
from msmq.storage.sqlite import SqliteMessageStore
from msmq.testing.contracts.store_history import StoreHistoryContract, TurnedReactor
from tests.faults import IS_THOROUGH
from tests.storage.policies import policy_of


class SqliteHistoryTests(StoreHistoryContract, SynchronousTestCase):
    """A file against the store in memory."""

    histories = 15 if IS_THOROUGH else 6

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.reactor = TurnedReactor()

    def make_place(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()

    def make_store(self) -> IMessageStore:
        path = self.directory / "msmq.sqlite"
        return SqliteMessageStore(path, policy_of(path), reactor=self.reactor)
