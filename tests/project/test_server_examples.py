"""Examples that contain a server, on real sockets of loopback."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet import reactor as installed_reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase
from twisted.web.test.requesthelper import DummyRequest

import twisted.plugins
from msmq import Delivery, Message, MQError, Overrides, Server, connect, load
from msmq.interfaces import DirectoryContext, DirectoryError
from msmq.net.clock import SystemClock
from msmq.net.discovery import DiscoveryServerProtocol
from msmq.net.ping import Pinger
from tests.builders import ALPHA, BETA
from tests.project.example_files import EXAMPLES, example
from tests.servers.own_address import own_address

MAINTAINED, SHOP, DIRECTORY, INVENTORY = 114, 115, 116, 118

NETWORK = "e6eaba62-d1c6-11db-baac-0003ff4e2d22"


class ServerExampleTestCase(TestCase):
    """A directory for data, whose path is short enough for a control socket."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)

    async def started(self, server: Server) -> Server:
        """The server, until the end of the test."""
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return server


class MaintenancePingTests(ServerExampleTestCase):
    """C{maintenance_ping}."""

    async def test_maintenance(self) -> None:
        """During maintenance a ping and a session are refused, afterwards neither."""
        file, address = self.directory / "maintenance", own_address(MAINTAINED)
        module = example("maintenance_ping", EXAMPLES / "maintenance_ping")
        server = module.make_server(str(self.directory / "data"), address, file, installed_reactor)
        await self.started(server)
        await server.manager.create_queue(".\\private$\\orders")
        pinger = Pinger(ALPHA, reactor=installed_reactor, clock=SystemClock())  # type: ignore[arg-type]
        self.addCleanup(pinger.stop)
        file.touch()
        self.assertTrue((await pinger.ask(address)).refused)
        message = Message(body=b"1", delivery=Delivery.RECOVERABLE)
        async with connect(address, reactor=IReactorTime(installed_reactor)) as peer:
            await self.assertFailure(self.sent(peer, message, 2), MQError)
        file.unlink()
        self.assertFalse((await pinger.ask(address)).refused)
        async with connect(address, reactor=IReactorTime(installed_reactor)) as peer:
            await self.sent(peer, message, 60)
        [queue] = server.manager.inspection.queues()
        self.assertEqual(queue.messages, 1)

    def sent(self, peer: Any, message: Message, timeout: float) -> Any:
        """A send under way."""
        return Deferred.fromCoroutine(peer.send("private$\\orders", message, timeout=timeout))


class WebShopTests(ServerExampleTestCase):
    """C{web_shop}."""

    async def test_orders(self) -> None:
        """A form sends an order, which is stored when the browser is answered; the page counts it."""
        overrides = Overrides(name="SHOP", data=str(self.directory), address=own_address(SHOP))
        server = await self.started(Server(load(None, overrides), IReactorTime(installed_reactor)))
        site = await example("web_shop", EXAMPLES / "web_shop").make_shop(server)
        shop: Any = site.resource
        self.assertIn(b"<p>0 orders wait.</p>", shop.render_GET(DummyRequest([b""])))
        request = DummyRequest([b""])
        request.args = {b"order": [b"two <b>boxes</b>"]}
        answered = request.notifyFinish()
        shop.render_POST(request)
        await answered
        self.assertEqual(request.responseCode, 302)
        self.assertIn(b"<p>1 orders wait.</p>", shop.render_GET(DummyRequest([b""])))
        message = await server.manager.receive(".\\private$\\orders", timeout=1)
        self.assertEqual(bytes(message.body), b"two <b>boxes</b>")


class DirectorySearchTests(ServerExampleTestCase):
    """C{directory_search}."""

    async def test_search(self) -> None:
        """Servers that answer broadcasts are named with their networks; a foreign address is not searched."""
        address = own_address(DIRECTORY)
        file = self.directory / "msmq.toml"
        file.write_text(
            f'[queue_manager]\nconnected_networks = ["{NETWORK}"]\n[storage]\nbackend = "memory"\n'
            f'[listen]\nsession = "off"\nping = "off"\ncontrol = "off"\n'
            f'discovery = "udp:0:interface={address}"\n'
        )
        configuration = load(file, Overrides(name="GAMMA", data=str(self.directory / "data")))
        server = await self.started(Server(configuration, IReactorTime(installed_reactor)))
        port = int(server.addresses[0].rpartition(":")[2])
        assert server._parts is not None and server._parts.discovery is not None
        # The second answer ends the search: one alone would be waited for 15 seconds more.
        other = DiscoveryServerProtocol(server._parts.discovery.server, installed_reactor)  # type: ignore[arg-type]
        other.listen(port, own_address(DIRECTORY + 1))
        self.addCleanup(other.stop)
        report = example("directory_search", EXAMPLES / "directory_search").report
        self.assertEqual(
            await report(address, port=port, reactor=installed_reactor),
            f"answered on the network of {address}\ndirectory server: GAMMA\nconnected network: {NETWORK}",
        )
        self.assertIn("203.0.113.9 is not an address of this host", await report("203.0.113.9"))


class InventoryDirectoryTests(ServerExampleTestCase):
    """C{inventory_directory}."""

    def setUp(self) -> None:
        super().setUp()
        self.file = self.directory / "inventory.csv"
        self.addresses = {"ALPHA": own_address(INVENTORY), "BETA": own_address(INVENTORY + 1)}
        self.file.write_text(
            "name,identifier,address\n"
            f"ALPHA,{ALPHA},{self.addresses['ALPHA']}\nBETA,{BETA},{self.addresses['BETA']}\n"
        )

        plugins = EXAMPLES / "inventory_directory" / "twisted" / "plugins"
        twisted.plugins.__path__.append(str(plugins))
        self.addCleanup(twisted.plugins.__path__.remove, str(plugins))
        self.module = example("inventory_directory", EXAMPLES / "inventory_directory")

    async def server(self, name: str) -> Any:
        """The queue manager of a server of the inventory."""
        configuration = self.directory / "msmq.toml"
        configuration.write_text(f'[directory]\nbackend = "inventory:{self.file}"\n')
        overrides = Overrides(name=name, data=str(self.directory / name), address=self.addresses[name])
        server = Server(load(configuration, overrides), IReactorTime(installed_reactor))
        await self.started(server)
        return server.manager

    async def test_names(self) -> None:
        """Servers have the identifiers of the inventory, and find each other's addresses there."""
        alpha, beta = await self.server("ALPHA"), await self.server("BETA")
        identifiers = [manager.inspection.status().identifier for manager in (alpha, beta)]
        self.assertEqual(identifiers, [ALPHA, BETA])
        await beta.create_queue(".\\private$\\orders")
        await alpha.send(
            "DIRECT=OS:BETA\\private$\\orders", [Message(body=b"1", delivery=Delivery.RECOVERABLE)]
        )
        message = await beta.receive(".\\private$\\orders", timeout=60)
        self.assertEqual(bytes(message.body), b"1")
        public = Deferred.fromCoroutine(beta.create_queue("BETA\\more"))
        self.assertIn("the inventory is read only", str(await self.assertFailure(public, MQError)))

    async def test_faulty_files(self) -> None:
        """What cannot be used is named with the file."""
        context = DirectoryContext(
            clock=SystemClock(), reactor=IReactorTime(installed_reactor), data=self.directory
        )
        for content, expected in (
            (None, "No such file or directory"),
            ("name\n", "the first line is not name,identifier,address"),
            ("name,identifier,address\nALPHA,x,\n", "badly formed hexadecimal UUID string"),
            (f"name,identifier,address\nALPHA,{ALPHA},\nALPHA,{BETA},\n", "ALPHA exists already"),
        ):
            if content is None:
                self.file.unlink()
            else:
                self.file.write_text(content)
            directory = self.module.InventoryFactory().make_directory(str(self.file), context)
            error = await self.assertFailure(directory.open(), DirectoryError)
            self.assertIn(f"{self.file} cannot be used: ", str(error))
            self.assertIn(expected, str(error))
            # So does msmq config check.
            probed = Deferred.fromCoroutine(self.module.InventoryFactory().probe(str(self.file), context))
            self.assertIn(expected, str(await self.assertFailure(probed, ValueError)))
