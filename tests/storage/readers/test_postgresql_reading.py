"""A store in PostgreSQL that is read during the run of its server."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import PutMessage, PutQueue, RemoveMessages
from msmq.storage.readers import StoreReader, open_reader
from msmq.testing.contracts.store_contract import ORDERS
from tests.pipeline.stores import write_postgresql
from tests.servers.postgresql import shared_server
from tests.storage.readers.reader_contract import ReaderContract


class PostgresqlTests(ReaderContract, SynchronousTestCase):
    """The store in PostgreSQL."""

    def reader_of(self, *changes: Any) -> StoreReader:
        server = shared_server()
        server.drop("beside")
        self.addCleanup(server.drop, "beside")
        store = open_reader(write_postgresql(server, "beside", changes))
        self.addCleanup(store.close)
        return store

    def spoil(self, content: bytes) -> None:
        spoiled = content[:50] + bytes([content[50] ^ 1]) + content[51:]
        with shared_server().connect() as connection:
            for table, column in (("message", "packet"), ("log", "packet"), ("event", "reason")):
                update = f"UPDATE beside.{table} SET {column} = %s WHERE {column} = %s"
                connection.execute(update.encode(), (spoiled, content))

    def test_held(self) -> None:
        """A held reader shows the moment at which it was held last, and after it was closed the present."""
        store = self.reader_of(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 1, b"m", 1.0))
        store.hold()
        write_postgresql(shared_server(), "beside", [PutMessage(ORDERS.identifier, 2, b"m", 1.0)])
        self.assertEqual(len(store.message_rows(ORDERS.identifier, 0).rows), 1)
        store.hold()
        self.assertEqual(len(store.message_rows(ORDERS.identifier, 0).rows), 2)
        write_postgresql(shared_server(), "beside", [RemoveMessages(ORDERS.identifier, (1,))])
        self.assertEqual(len(store.message_rows(ORDERS.identifier, 0).rows), 2)
        store.close()
        self.assertEqual(len(store.message_rows(ORDERS.identifier, 0).rows), 1)

    def test_ended_connection(self) -> None:
        """A reader whose connection the server has ended is not kept, and connects anew once it is closed."""
        store = self.reader_of(PutQueue(ORDERS))
        self.assertEqual(store.queues(), [ORDERS])
        with shared_server().connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
                " WHERE application_name = 'msmq reader'"
            )
        self.assertFalse(store.is_reusable())
        store.close()
        self.assertEqual(store.queues(), [ORDERS])
