"""Two servers whose enterprise is in a real directory server, which is stopped and started in between."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

import attrs
from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase

from msmq.directory.ldap.names import child
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.directory.ldap.transport.filters import ANYTHING
from msmq.directory.ldap.transport.wire import Scope
from msmq.manager.service import QueueManagerService
from msmq.membership.objects import QueueManagerObject, QueueObject, SiteObject
from msmq.membership.queries import equals
from msmq.net.clock import SystemClock
from msmq.queues.arriving.message import Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.structures.status import MQError, Status
from tests.manager.directory_status import directory_status
from tests.patience import DEADLINE
from tests.servers import samba, slapd
from tests.servers.own_address import own_address
from tests.servers.samba import SambaServer
from tests.servers.slapd import SlapdServer

ADDRESSES: Final = {"ALPHA": own_address(127), "BETA": own_address(128)}
CONFIGURATION = """
[listen]
session = "tcp:1801:interface={address}"
ping = "off"
discovery = "off"
[directory]
backend = "{settings}"
bind_dn = "{settings.bind_name}"
password_file = "{settings.password_file}"
{trust}
[hosts]
{other} = "{other_address}"
"""


class Members(TestCase):
    """ALPHA sends to a public queue of BETA."""

    timeout = 300
    server: SlapdServer | SambaServer

    def set_up(self, server: SlapdServer | SambaServer, settings: LdapSettings, password: str) -> None:
        self.server = server
        self.addCleanup(lambda: server.is_running or server.start())
        self.place = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.place)
        secret = self.place / "secret"
        secret.write_text(password)
        self.settings = attrs.evolve(settings, password_file=secret)
        self.reached_at = str(settings.servers[0])
        self.directory = LdapDirectory(self.settings, SystemClock(), reactor)
        self.addCleanup(self.directory.close)

    async def member(self, name: str, other: str) -> QueueManagerService:
        file = self.place / f"{name}.toml"
        file.write_text(
            CONFIGURATION.format(
                address=ADDRESSES[name],
                other=other,
                other_address=ADDRESSES[other],
                settings=self.settings,
                trust=f'ca_file = "{self.settings.ca_file}"' if self.settings.ca_file else "",
            )
        )
        overrides = Overrides(name=name, data=os.fspath(self.place / name), storage="memory")
        server = Server(load(file, overrides), IReactorTime(reactor))
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return server.manager

    async def take(self, manager: QueueManagerService, queue: str) -> bytes:
        return bytes((await manager.receive(queue, timeout=DEADLINE)).body)

    async def refused(self, asked: Any) -> Status:
        try:
            await asked
        except MQError as error:
            return error.status
        raise AssertionError("an MQError was expected")

    async def public_queue(self, site: str) -> None:
        """It is published, found and reached; what needs the directory is refused while that is away."""
        directory = self.directory
        site_identifier = (await directory.read(SiteObject, [equals("name", site)]))["identifier"]
        for name in ("ALPHA", "BETA"):
            member = QueueManagerObject(computer_name=name, site_identifier_list=(site_identifier,))
            await directory.create(member)
        alpha = await self.member("ALPHA", "BETA")
        beta = await self.member("BETA", "ALPHA")
        queue = await beta.create_queue("BETA\\orders", label="Bücher")
        held = await directory.read(QueueObject, [equals("pathname", "beta\\orders")])
        self.assertEqual(
            (queue.format_name.lower(), held["label"]), (f"public={held['identifier']}", "Bücher")
        )
        own = await directory.read(QueueManagerObject, [equals("computer_name", "alpha")])
        self.assertEqual(own["identifier"], alpha.inspection.status().identifier)
        await alpha.send("BETA\\orders", [Message(body=b"first")])
        self.assertEqual(await self.take(beta, "BETA\\orders"), b"first")
        [row] = await alpha.inspection.public_queues(label="B*", path="beta\\*")
        self.assertEqual(row.format_name, queue.format_name)
        reported = directory_status(alpha)
        self.assertEqual((reported.reached, reported.source, reported.problem), (True, self.reached_at, ""))
        for name in ("a=b", "*)(objectClass=*", "Bücher", "注文", "#1/<x>"):
            path = f"BETA\\{name}"
            await beta.create_queue(path)
            for destination in (path, f"DIRECT=OS:{path}"):
                await alpha.send(destination, [Message(body=name.encode())])
                self.assertEqual(await self.take(beta, path), name.encode())
            await beta.delete_queue(path)
        self.server.stop()
        # What was found out holds; what would have to be is reported at once.
        await alpha.send("BETA\\orders", [Message(body=b"second")])
        self.assertEqual(await self.take(beta, "BETA\\orders"), b"second")
        self.assertIs(await self.refused(alpha.send("BETA\\bills", [Message()])), Status.MQ_ERROR_NO_DS)
        self.assertIs(await self.refused(beta.create_queue("BETA\\bills")), Status.MQ_ERROR_NO_DS)
        reported = directory_status(beta)
        self.assertFalse(reported.reached)
        self.assertTrue(reported.since and reported.problem)
        self.server.start()
        await beta.create_queue("BETA\\bills")
        self.assertTrue(directory_status(beta).reached)
        # The next request that needs the directory asks it, which the member knew to be away.
        await alpha.send("BETA\\bills", [Message(body=b"third")])
        self.assertEqual(await self.take(beta, "BETA\\bills"), b"third")
        await beta.delete_queue("BETA\\orders")
        self.assertEqual((await directory.read(QueueObject))["pathname"], "beta\\bills")


class OpenLdapMembersTests(Members):
    """The estate that is shipped."""

    def setUp(self) -> None:
        server = SlapdServer()
        self.addCleanup(server.remove)
        settings = LdapSettings(
            server.servers, slapd.SUFFIX, bind_name=slapd.ADMINISTRATOR, password_file=Path()
        )
        self.set_up(server, settings, slapd.PASSWORD)

    async def test_public_queue(self) -> None:
        """It is published, found and reached; what needs the directory is refused while that is away."""
        await self.public_queue("London")


class ActiveDirectoryMembersTests(Members):
    """A domain that Samba serves."""

    def setUp(self) -> None:
        server = samba.shared_server()
        settings = LdapSettings(
            (LdapServer(samba.ADDRESS, samba.PORT),), bind_name=samba.ADMINISTRATOR, password_file=Path()
        )
        self.set_up(server, settings, samba.PASSWORD)

    async def test_public_queue(self) -> None:
        """It is published, found and reached; what needs the directory is refused while that is away."""
        connection = LdapConnection(self.settings, reactor)
        self.addCleanup(connection.close)
        operations = Operations(connection)
        for name in ("ALPHA", "BETA"):
            computer = child(name, f"CN=Computers,{samba.DOMAIN}")
            values = {"sAMAccountName": [f"{name}$".encode()], "userAccountControl": [b"4096"]}
            # What other tests of the same domain have left goes first.
            left = await operations.find(computer, Scope.TREE, ANYTHING, ())
            for entry in sorted(left, key=lambda entry: -len(entry.name)):
                await operations.delete(entry.name)
            await operations.add(computer, "computer", values)
        await self.public_queue("Default-First-Site-Name")
        await self.directory.delete(QueueObject(pathname="BETA\\bills"))
        for name in ("ALPHA", "BETA"):
            await self.directory.delete(QueueManagerObject(computer_name=name))
            await operations.delete(child(name, f"CN=Computers,{samba.DOMAIN}"))
