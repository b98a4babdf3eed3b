"""The store in SQLite keeps the contract, and everything else that it promises."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import TestCase

from msmq.interfaces import IMessageStore
from msmq.storage.sqlite import SqliteMessageStore
from tests.contracts.message_store import MessageStoreContract


class SqliteMessageStoreTests(MessageStoreContract, TestCase):
    """What every store promises, on a real file."""

    def setUp(self) -> None:
        directory = Path(self.mktemp())
        directory.mkdir()
        self.path = directory / "msmq.sqlite"

    def make_store(self) -> IMessageStore:
        store = SqliteMessageStore(self.path)
        self.addCleanup(store.close)
        return store
