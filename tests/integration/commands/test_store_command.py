"""C{msmq store}: the store of a server is moved to another one, and the old one is discarded."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase

from msmq.interfaces import StorageError
from msmq.queues.arriving.message import Delivery, Message
from msmq.service.configuration import Overrides, load
from msmq.service.data_directory.store_check import check, described
from msmq.service.server import Server
from msmq.storage.readers import open_reader
from tests.integration.test_control_socket import Ended, spawn

VERSION_ONE = Path(__file__).resolve().parent.parent.parent / "storage" / "version-1.sqlite.gz"
CLOSED = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'
ORDERS = ".\\private$\\orders"


class StoreCommandTests(TestCase):
    """The command, on the data directory of a server that is stopped, or is not."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="msmq"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.data = self.directory / "data"

    def server(self, storage: str) -> Server:
        path = self.directory / "msmq.toml"
        path.write_text(CLOSED)
        overrides = Overrides(name="ALPHA", data=os.fspath(self.data), storage=storage)
        server = Server(load(path, overrides), cast(IReactorTime, reactor))
        self.addCleanup(server.stopService)
        return server

    async def started(self, storage: str) -> Any:
        """The queue manager of a server, and the server."""
        server = self.server(storage)
        server.startService()
        await server.started
        return server, server.manager

    async def store(self, *arguments: str) -> Ended:
        return await spawn(["store", *arguments, "--data", str(self.data)], {}, self.directory).ended

    async def refused(self, *arguments: str) -> str:
        """The error line of a refused command."""
        ended = await self.store(*arguments)
        self.assertEqual((ended.status, ended.output, ended.errors.count("\n")), (1, b"", 1), ended)
        return ended.errors

    async def test_moves(self) -> None:
        """Messages are received from the new store; the old one refuses servers until it is discarded."""
        server, manager = await self.started("sqlite")
        await manager.create_queue(ORDERS)
        messages = [Message(body=b"%d" % n, delivery=Delivery.RECOVERABLE) for n in range(5)]
        await manager.send(ORDERS, messages)
        self.assertIn("in use by another server", await self.refused("migrate", "--to", "log"))
        await server.stopService()
        ended = await self.store("migrate", "--to", "log", "--json")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        [summary] = ended.objects
        self.assertEqual(summary["target"], str(self.data / "msmq.log"))
        self.assertEqual(summary["sections"]["messages"]["rows"], 5)
        error = await self.assertFailure(self.started_again("sqlite"), StorageError)
        self.assertIn(f"was moved to {self.data / 'msmq.log'}", str(error))
        self.assertIn("was moved to", await self.refused("migrate", "--to", "log"))
        self.assertIn("was not moved", await self.refused("discard", "log"))
        server, manager = await self.started("log")
        reservation = await manager.reserve(ORDERS, count=9)
        self.assertEqual(
            [bytes(one.view.body) for one in reservation.messages], [b"%d" % n for n in range(5)]
        )
        await reservation.confirm()
        ended = await self.store("discard", "sqlite")
        self.assertEqual(ended.status, 0)
        self.assertEqual([path.name for path in self.data.iterdir() if "sqlite" in path.name], [])

    async def test_both_are_there(self) -> None:
        """Until the old store is discarded, all that reads a data directory reads the new one."""
        for number, (old, new) in enumerate((("sqlite", "log"), ("log", "sqlite"))):
            with self.subTest(old=old):
                self.data = self.directory / f"data-{number}"
                server, manager = await self.started(old)
                await manager.create_queue(ORDERS)
                await manager.send(ORDERS, [Message(body=b"old", delivery=Delivery.RECOVERABLE)])
                await server.stopService()
                await self.store("migrate", "--to", new)
                server, manager = await self.started(new)
                await manager.send(ORDERS, [Message(body=b"new", delivery=Delivery.RECOVERABLE)])
                await server.stopService()
                reader = open_reader(str(self.data))
                self.addCleanup(reader.close)
                [orders] = [queue for queue in reader.queues() if queue.path.endswith("orders")]
                self.assertEqual(len(reader.message_rows(orders.identifier, 0).rows), 2)
                self.assertIn(f"msmq.{new}", reader.text)
                self.assertEqual(check(self.data, None).problems, [])
                self.assertEqual(described(self.data, None), new)

    async def test_moved_elsewhere(self) -> None:
        """A store that was moved to another place is not read in place of that one."""
        for kind in ("log", "sqlite"):
            self.data = self.directory / kind
            server, _ = await self.started(kind)
            await server.stopService()
            await self.store("migrate", "--to", "log:other")
            error = self.assertRaises(StorageError, lambda: open_reader(str(self.data)).queues())
            self.assertIn(f"was moved to {self.data / 'other'}", str(error))
            named = open_reader(str(self.data / f"msmq.{kind}"))
            self.assertTrue(named.identifier())
            named.close()

    async def test_older_version(self) -> None:
        """A file that the first version of the tables wrote is moved too."""
        self.data.mkdir()
        (self.data / "msmq.sqlite").write_bytes(gzip.decompress(VERSION_ONE.read_bytes()))
        ended = await self.store("migrate", "--to", "log")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        lines = ended.output.decode().splitlines()
        self.assertRegex(lines[0], "part +rows +bytes +sha256")
        self.assertRegex(lines[1], "queues +2 ")

    async def test_refusals(self) -> None:
        """The reason of a refusal is one line."""
        self.assertIn("there is no such data directory", await self.refused("migrate", "--to", "log"))
        self.data.mkdir()
        self.assertIn("there is no other store", await self.refused("migrate", "--to", "log"))
        self.assertIn(
            "storage 'memory': this command does not know its files; it knows log, sqlite",
            await self.refused("migrate", "--to", "memory"),
        )
        self.assertIn("postgresql://", await self.refused("migrate", "--to", "postgresql:nonsense"))
        error = await self.refused("migrate", "--to", "log", "--from", "sqlite:gone")
        self.assertIn(f"{self.data / 'gone'}: there is no such store", error)
        self.assertIn("there is no such store", await self.refused("discard", "sqlite"))

    def started_again(self, storage: str) -> Any:
        server = self.server(storage)
        server.startService()
        return server.started
