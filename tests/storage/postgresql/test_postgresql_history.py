"""The store in PostgreSQL over any history."""

from __future__ import annotations

import itertools
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces import IMessageStore
from msmq.storage.postgresql.store import PostgresqlMessageStore
from msmq.testing.contracts.store_history import StoreHistoryContract, TurnedReactor
from tests.faults import IS_THOROUGH
from tests.servers.postgresql import shared_server
from tests.storage.policies import policy_of
from tests.storage.postgresql.postgresql_support import address_of

_schemas = itertools.count()


class PostgresqlHistoryTests(StoreHistoryContract, SynchronousTestCase):
    """A schema against the store in memory.

    What a plan comes to is tried with SQLite already; here each commit is a journey to a server.
    """

    histories = 15 if IS_THOROUGH else 2

    def setUp(self) -> None:
        shared_server()
        self.reactor = TurnedReactor()

    def make_place(self) -> None:
        self.schema = f"history_{next(_schemas)}"
        self.addCleanup(shared_server().drop, self.schema)

    def make_store(self) -> IMessageStore:
        address = address_of(shared_server(), self.schema)
        return PostgresqlMessageStore(address, policy_of(Path(self.schema)), reactor=self.reactor)
