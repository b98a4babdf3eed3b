"""A directory without a server in the configuration: one is searched, by broadcast on the real loopback.

Behind the names in the answers are two real slapd.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from twisted.internet import reactor as installed_reactor
from twisted.trial.unittest import TestCase

from msmq.directory.factory import DirectoryDescriptionError
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapSettings
from msmq.discovery import client as client_module
from msmq.discovery.client import DiscoveryClient
from msmq.discovery.server import DiscoveryServer
from msmq.manager.service import QueueManagerService
from msmq.membership.objects import QueueManagerObject, QueueObject, SiteObject
from msmq.membership.queries import equals
from msmq.net.clock import SystemClock
from msmq.net.discovery import Discovery, DiscoveryServerProtocol
from msmq.net.networks import attached_networks
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.service.settings import Configuration
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID
from tests.patience import DEADLINE
from tests.servers.own_address import own_address
from tests.servers.slapd import SUFFIX, SlapdServer

reactor = cast(Any, installed_reactor)

NETWORK = UUID("e6eaba62-d1c6-11db-baac-0003ff4e2d22")
ELSEWHERE = UUID("c51bf6dd-d4ad-4543-8739-71568e8f9128")
CONFIGURATION = """
[queue_manager]
sites = ["{site}"]
connected_networks = ["{network}"]
[listen]
session = "tcp:0:interface={address}"
ping = "off"
control = "off"
discovery = "udp:{port}:interface={address}"
[directory]
backend = "ldap://:{ldap}/{suffix}"
[storage]
backend = "sqlite"
"""


class DirectorySearchTests(TestCase):
    """Two old servers answer; they name the servers that the test sets."""

    timeout = DEADLINE

    async def setUp(self) -> None:  # type: ignore[override]
        self.first = SlapdServer(is_open=True, address=own_address(73))
        self.addCleanup(self.first.remove)
        self.second = SlapdServer(is_open=True, address=own_address(74), port=self.first.port)
        self.addCleanup(self.second.remove)
        self.place = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.place)
        self.old = DiscoveryServer(NULL_GUID, ELSEWHERE, "OLD", connected_networks=[NETWORK])
        self.answering: list[DiscoveryServerProtocol] = []
        self.port = 0
        self.serve()
        site = await self.directory(self.first).read(SiteObject, [equals("name", "London")])
        self.site: UUID = site["identifier"]

    def serve(self) -> None:
        """With two answers no further one has to be waited for."""
        for number in (75, 76):
            protocol = DiscoveryServerProtocol(self.old, reactor)
            host: Any = protocol.listen(self.port, own_address(number)).getHost()
            self.port = host.port
            self.answering.append(protocol)
            self.addCleanup(protocol.stop)

    async def be_silent(self) -> None:
        for protocol in self.answering:
            await protocol.stop()
        self.answering.clear()

    def directory(self, server: SlapdServer) -> LdapDirectory:
        directory = LdapDirectory(LdapSettings(server.servers, SUFFIX), SystemClock(), reactor)
        self.addCleanup(directory.close)
        return directory

    def configuration(self) -> Configuration:
        file = self.place / "msmq.toml"
        file.write_text(
            CONFIGURATION.format(
                site=self.site,
                network=NETWORK,
                address=own_address(77),
                port=self.port,
                ldap=self.first.port,
                suffix=SUFFIX,
            )
        )
        return load(file, Overrides(name="ALPHA", data=os.fspath(self.place / "alpha")))

    async def start(self) -> Server:
        server = Server(self.configuration(), reactor)
        self.addCleanup(server.stopService)
        server.startService()
        await server.started
        return server

    def manager(self, server: Server) -> QueueManagerService:
        return server.manager

    async def created(self, server: Server, path: str) -> bool:
        """Whether a public queue could be made."""
        try:
            await self.manager(server).create_queue(path)
        except MQError as error:
            self.assertIs(error.status, Status.MQ_ERROR_NO_DS)
            return False
        return True

    async def test_found(self) -> None:
        """It is published at the server of the answer, and at the next when that one is gone.

        After a restart it remembers both, without an answer.
        """
        self.old.directory_servers = (self.first.servers[0].host,)
        server = await self.start()
        own = self.manager(server).inspection.status().identifier
        held = await self.directory(self.first).read(QueueManagerObject, [equals("identifier", own)])
        self.assertEqual(held["computer_name"], "ALPHA")
        # The second server is a copy of the first, as far as the queue manager is concerned.
        second = self.directory(self.second)
        await second.create(QueueManagerObject(computer_name="ALPHA", identifier=own))
        self.old.directory_servers = (self.second.servers[0].host,)
        self.first.stop()
        assert server._parts is not None
        while not await self.created(server, "ALPHA\\orders"):
            await server._parts.search.find()
        queue = await second.read(QueueObject, [equals("pathname", "alpha\\orders")])
        self.assertEqual(queue["pathname"].upper(), "ALPHA\\ORDERS")
        await server.stopService()
        await self.be_silent()
        server = await self.start()
        self.assertEqual(self.manager(server).inspection.status().identifier, own)
        await self.manager(server).create_queue("ALPHA\\bills")
        await second.read(QueueObject, [equals("pathname", "alpha\\bills")])

    async def test_no_answer(self) -> None:
        """A first start needs an answer; it reports that none came, and leaves no identity."""
        await self.be_silent()
        self.patch(client_module, "RESPONSE_TIME", 0.2)
        server = Server(self.configuration(), reactor)
        self.addCleanup(server.stopService)
        server.startService()
        with self.assertRaises(DirectoryDescriptionError) as refused:
            await server.started
        self.assertIn("no directory server is known, and none was found", str(refused.exception))
        self.assertIn("the first start needs the directory, which has or assigns", str(refused.exception))
        self.assertFalse((self.place / "alpha" / "identity.json").exists())

    async def test_answers_to_others(self) -> None:
        """MQSD-2.3-01: this server answers with the site and the servers that its directory has."""
        self.old.directory_servers = (self.first.servers[0].host,)
        await self.start()
        await self.be_silent()
        client = DiscoveryClient(NULL_GUID, NULL_GUID)
        network = attached_networks(own_address(78))
        asked = Discovery(
            client, reactor=reactor, clock=SystemClock(), port=self.port, networks=lambda: network
        )
        self.patch(client_module, "RESPONSE_TIME", 0.5)
        self.assertTrue(await asked.get_directory_server_list())
        self.assertEqual(client.directory_servers, (self.first.servers[0].host,))
        self.assertEqual(client.connected_networks, (NETWORK,))
        local = DiscoveryClient(NULL_GUID, self.site)
        asked = Discovery(
            local, reactor=reactor, clock=SystemClock(), port=self.port, networks=lambda: network
        )
        self.assertTrue(await asked.get_directory_server_list())
        self.assertEqual(local.directory_servers, ())
