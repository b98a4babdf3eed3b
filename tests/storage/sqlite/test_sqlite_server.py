"""A whole server over the store in SQLite."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase

from msmq.interfaces import StorageError
from msmq.queues.arriving.message import Delivery, Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.structures.status import MQError, Status

CLOSED = '[listen]\nsession = "tcp:0:interface=127.0.0.1"\nping = "off"\n'
QUEUE = ".\\private$\\orders"


class SqliteServerTests(TestCase):
    """C{--storage sqlite} as an operator sees it."""

    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.data = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.data)

    def server(self, storage: str = "sqlite") -> Server:
        path = Path(self.mktemp())
        path.write_text(CLOSED)
        overrides = Overrides(name="ALPHA", data=os.fspath(self.data), storage=storage)
        server = Server(load(path, overrides), IReactorTime(reactor))
        self.addCleanup(server.stopService)
        return server

    async def started(self, storage: str = "sqlite") -> Server:
        server = self.server(storage)
        server.startService()
        await server.started
        return server

    async def test_keeps_recoverable_messages(self) -> None:
        """Recoverable messages are there after a restart, in their order; express ones are not."""
        server = await self.started()
        manager = server.manager
        status = manager.inspection.status()
        self.assertEqual((status.storage, status.durable), ("sqlite", True))
        await manager.create_queue(QUEUE, label="kept")
        kept = [Message(body=b"%d" % number, delivery=Delivery.RECOVERABLE) for number in range(20)]
        identifiers = await manager.send(QUEUE, [*kept, Message(body=b"express")])
        await server.stopService()
        again = await self.started()
        manager = again.manager
        self.assertEqual(manager.inspection.queue(QUEUE).label, "kept")
        self.assertEqual(manager.inspection.status().messages, 20)
        reservation = await manager.reserve(QUEUE, count=100)
        self.assertEqual(
            [bytes(message.view.body) for message in reservation.messages], [b"%d" % n for n in range(20)]
        )
        await reservation.confirm()
        [new] = await manager.send(QUEUE, [kept[0]])
        self.assertNotIn(new, identifiers)
        await again.stopService()
        last = await self.started()
        self.assertEqual(last.manager.inspection.status().messages, 1)

    async def test_lets_go_of_its_files(self) -> None:
        """After a stop the database is one file; next to it are only locks and the space that is set
        aside.
        """
        server = await self.started()
        await server.stopService()
        self.assertEqual(
            sorted(path.name for path in self.data.iterdir()),
            [
                "host.json",
                "identity.json",
                "lock",
                "msmq.sqlite",
                "msmq.sqlite-mark",
                "msmq.sqlite.lock",
                "msmq.sqlite.reserve",
            ],
        )

    async def test_does_not_start_on_a_foreign_file(self) -> None:
        """The reason says which file it is, and everything that was begun is undone."""
        (self.data / "msmq.sqlite").write_text("Dear diary")
        server = self.server()
        server.startService()
        try:
            await server.started
        except StorageError as error:
            self.assertIn("msmq.sqlite: cannot open: the file is not a SQLite database", str(error))
        else:
            self.fail("it started")
        await server.stopService()
        await (await self.started("memory")).stopService()

    async def test_two_servers_never_share_a_file(self) -> None:
        """Two servers with directories of their own, but one file, are detected."""
        path = self.data / "shared.sqlite"
        await self.started(f"sqlite:{path}")
        self.data = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.data)
        server = self.server(f"sqlite:{path}")
        server.startService()
        try:
            await server.started
        except StorageError as error:
            self.assertEqual(str(error), f"{path} is in use by another queue manager; stop it first")
        else:
            self.fail("it started")

    async def test_refuses_what_it_cannot_store(self) -> None:
        """A sender gets the error of the store, and nothing of the message is left."""
        server = await self.started()
        manager = server.manager
        await manager.create_queue(QUEUE)
        await manager.store.close()
        try:
            await manager.send(QUEUE, [Message(body=b"1", delivery=Delivery.RECOVERABLE)])
        except MQError as error:
            self.assertIs(error.status, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        else:
            self.fail("it was taken")
        self.assertEqual(manager.inspection.status().messages, 0)
