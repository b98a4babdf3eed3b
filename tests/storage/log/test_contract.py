"""The store in a record log keeps the contract."""

from __future__ import annotations

import time
from pathlib import Path

from twisted.trial.unittest import TestCase

from msmq.interfaces import IMessageStore
from msmq.storage.log import LogMessageStore
from msmq.testing.contracts.message_store import MessageStoreContract
from tests.storage.policies import policy_at

SEGMENT = 256 * 1024


class LogMessageStoreTests(MessageStoreContract, TestCase):
    """The contract of stores, on real files with small segments."""

    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.home.mkdir()

    def make_store(self) -> IMessageStore:
        store = LogMessageStore(
            self.home / "log",
            policy_at(self.home / "mark"),
            clock=time.perf_counter,
            segment_bytes=SEGMENT,
        )
        self.addCleanup(store.close)
        return store
