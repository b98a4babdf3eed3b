"""The store in a record log over any history."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces import IMessageStore
from msmq.storage.log import LogMessageStore
from msmq.testing.contracts.store_history import StoreHistoryContract, TurnedReactor
from tests.faults import IS_THOROUGH
from tests.storage.policies import policy_at


class LogHistoryTests(StoreHistoryContract, SynchronousTestCase):
    """A log against the store in memory."""

    histories = 15 if IS_THOROUGH else 6

    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.reactor = TurnedReactor()

    def make_place(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()

    def make_store(self) -> IMessageStore:
        return LogMessageStore(
            self.home / "log",
            policy_at(self.home / "mark"),
            clock=time.perf_counter,
            segment_bytes=64 * 1024,
            reactor=self.reactor,
        )
