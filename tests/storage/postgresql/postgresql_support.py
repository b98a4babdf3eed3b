"""Common fixtures of the tests of the store in PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from msmq.interfaces import StorageError
from msmq.persistence.changes import AppendEvent, PutQueue
from msmq.storage.damage import DamagePolicy
from msmq.storage.postgresql.address import Address, parse_address
from msmq.storage.postgresql.store import PostgresqlMessageStore
from msmq.testing.contracts.message_store import ORDERS
from tests.servers.postgresql import USER, PostgresqlServer, Proxy
from tests.storage.policies import policy_of

Error = TypeVar("Error", bound=StorageError)

INTERVAL = 0.01
TRIES = 10000


def address_of(server: PostgresqlServer | Proxy, schema: str, *options: str, user: str = USER) -> Address:
    """A schema of that server, as a configuration says it."""
    return parse_address(server.url(f"schema={schema}", *options, user=user).removeprefix("postgresql:"))


def event(name: str) -> AppendEvent:
    """A change that is there twice if it is done twice."""
    return AppendEvent(1.0, b"", name)


class PostgresqlTestCase(TestCase):
    """Stores in one schema of a server, which is dropped at the end.

    @cvar server: to be set before L{setUp}.
    """

    server: PostgresqlServer
    _schemas = itertools.count()

    def setUp(self) -> None:
        self.schema = f"msmq_{next(self._schemas)}"
        self.addCleanup(self.server.drop, self.schema)

    @property
    def policy(self) -> DamagePolicy:
        """The policy of all stores of a test."""
        return policy_of(Path(f"{self.id()}-{self.schema}").absolute())

    def store(
        self, *options: str, through: Proxy | None = None, user: str = USER, **settings: Any
    ) -> PostgresqlMessageStore:
        """A store that is not open."""
        address = address_of(through or self.server, self.schema, *options, user=user)
        store = PostgresqlMessageStore(address, self.policy, **settings)
        self.addCleanup(store.close)
        return store

    async def open_store(
        self, *options: str, through: Proxy | None = None, **settings: Any
    ) -> PostgresqlMessageStore:
        """A store that is open, with one queue."""
        store = self.store(*options, through=through, **settings)
        await store.open()
        await store.commit([PutQueue(ORDERS)])
        return store

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of the schema that another client reads."""
        with self.server.connect() as connection:
            connection.execute(f"SET search_path TO {self.schema}".encode())
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def messages(self) -> list[int]:
        """The LookupIdentifiers of all messages that are stored."""
        return [stored + (1 << 63) for (stored,) in self.rows("SELECT lookup_id FROM message ORDER BY 1")]

    def events(self) -> list[str]:
        """All events, in the order in which they were done."""
        return [bytes(name).decode() for (name,) in self.rows("SELECT event FROM event ORDER BY sequence")]

    async def until(self, condition: Callable[[], object]) -> None:
        """Look again and again until it is so."""
        for _ in range(TRIES):
            if condition():
                return
            await deferLater(IReactorTime(reactor), INTERVAL)
        self.fail("it does not come about")

    async def until_back(self, store: PostgresqlMessageStore) -> None:
        """Commit nothing of weight until the store does it again."""
        for _ in range(TRIES):
            try:
                await store.commit([PutQueue(ORDERS)])
                return
            except StorageError:
                await deferLater(IReactorTime(reactor), INTERVAL)
        self.fail("it does not come back")

    async def refused(self, asked: Deferred[Any], kind: type[Error]) -> Error:
        """How what was asked failed."""
        try:
            await asked
        except kind as error:
            return error
        raise AssertionError(f"{kind.__name__} was expected")

    def outcome_of(self, asked: Deferred[Any]) -> list[object]:
        """Gets the result, or the exception, once there is one."""
        outcomes: list[object] = []

        def keep(result: object) -> None:
            outcomes.append(result.value if isinstance(result, Failure) else result)

        asked.addBoth(keep)
        return outcomes
