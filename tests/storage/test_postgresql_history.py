"""The store in PostgreSQL against the one in memory, over any sequence of batches, reads and restarts."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, rule
from twisted.trial.unittest import SynchronousTestCase

from msmq.storage.memory import MemoryMessageStore
from msmq.storage.postgresql.store import PostgresqlMessageStore
from tests.servers.postgresql import shared_server
from tests.storage.test_postgresql import address_of
from tests.storage.test_sqlite_history import BEGINNING, StoreHistory, TurnedReactor

_schemas = itertools.count()


class PostgresqlHistory(StoreHistory):
    """The same histories, in a schema of their own."""

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        self.schema = f"history_{next(_schemas)}"
        self.reactor = TurnedReactor()
        self.twin = MemoryMessageStore(durable=True)
        self.open_another()
        self.reactor.outcome(self.store.commit(BEGINNING))
        self.reactor.outcome(self.twin.commit(BEGINNING))

    def teardown(self) -> None:
        self.restart()
        assert self.reactor.outcome(self.store.close()) is None
        shared_server().drop(self.schema)

    @rule()
    def restart(self) -> None:
        """Close with nothing under way, and begin again with another object."""
        assert self.reactor.outcome(self.store.close()) is None
        assert self.reactor.outcome(self.twin.close()) is None
        self.open_another()

    def open_another(self) -> None:
        address = address_of(shared_server(), self.schema)
        self.store = PostgresqlMessageStore(address, reactor=self.reactor)  # type: ignore[assignment]
        self.open()


class AnyHistoryTests(SynchronousTestCase):
    """No history makes the schema differ from dictionaries."""

    def test_store(self) -> None:
        """It answers as plain dictionaries do, over any sequence of batches, reads and restarts."""
        shared_server()
        PostgresqlHistory.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
        case = PostgresqlHistory.TestCase("runTest")
        case.runTest()
