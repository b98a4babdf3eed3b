"""The store in PostgreSQL keeps the contract, and writes what waits together."""

from __future__ import annotations

import itertools

from twisted.trial.unittest import TestCase

from msmq.interfaces import IMessageStore
from msmq.storage.postgresql.address import Address, parse_address
from msmq.storage.postgresql.store import PostgresqlMessageStore
from tests.contracts.message_store import MessageStoreContract
from tests.servers.postgresql import PostgresqlServer, shared_server

_schemas = itertools.count()


def address_of(server: PostgresqlServer, schema: str, *options: str) -> Address:
    """A schema of that server, as a configuration says it."""
    return parse_address(server.url(f"schema={schema}", *options).removeprefix("postgresql:"))


class PostgresqlMessageStoreTests(MessageStoreContract, TestCase):
    """What every store promises, on a real server."""

    def setUp(self) -> None:
        self.server = shared_server()
        self.schema = f"msmq_{next(_schemas)}"
        self.addCleanup(self.server.drop, self.schema)

    def make_store(self) -> IMessageStore:
        store = PostgresqlMessageStore(address_of(self.server, self.schema))
        self.addCleanup(store.close)
        return store
