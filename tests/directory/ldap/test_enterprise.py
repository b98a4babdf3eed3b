"""The enterprise of the example, three sites with a gate each, in directories of real LDAP servers.

Its six queue managers are servers on sockets of loopback; the directory's server is stopped in between.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase

from msmq.directory.enterprise_file import load_enterprise
from msmq.directory.ldap.names import child
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.directory.ldap.transport.filters import ANYTHING
from msmq.directory.ldap.transport.wire import Scope
from msmq.interfaces import DirectoryError
from msmq.manager.service import QueueManagerService
from msmq.membership.attributes import DirectoryObject
from msmq.membership.objects import QueueManagerObject, RoutingLinkObject, SiteObject
from msmq.membership.queries import equals
from msmq.net.clock import SystemClock
from msmq.queues.arriving.message import Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from tests.directory.test_openldap import make_base
from tests.servers import samba, slapd
from tests.servers.own_address import own_address
from tests.servers.samba import SambaServer
from tests.servers.slapd import SlapdServer

ENTERPRISE: Final = Path(__file__).resolve().parents[3] / "examples" / "enterprise" / "enterprise.toml"
NAMES: Final = ("ANNA", "BEAR", "COLETTE", "IRIS", "LUCA", "WOLF")
ADDRESSES: Final = {name: own_address(80 + number) for number, name in enumerate(NAMES)}
HOSTS: Final = "\n".join(
    f'"{each}" = "{address}"'
    for name, address in ADDRESSES.items()
    for each in (name, f"{name.lower()}.msmq.test")
)
ORDERS: Final = "LUCA\\orders"
CONFIGURATION: Final = """
[queue_manager]
dns_name = "{dns_name}"
{more}
[listen]
session = "tcp:1801:interface={address}"
ping = "off"
discovery = "off"
control = "off"
[directory]
backend = "{settings}"
bind_dn = "{settings.bind_name}"
password_file = "{settings.password_file}"
[timers]
session_retry = 0.5
[hosts]
{hosts}
"""


class EnterpriseTestCase(TestCase):
    """ANNA in Berlin sends to LUCA in Rome; the cheapest route leads through Paris."""

    timeout = 300
    server: SlapdServer | SambaServer

    def set_up(self, server: SlapdServer | SambaServer, settings: LdapSettings, password: str) -> None:
        """Make what the tests have in common; a class that mixes this in calls it first."""
        self.place = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.place)
        secret = self.place / "secret"
        secret.write_text(password)
        self.server = server
        self.settings = attrs.evolve(settings, password_file=secret)
        connection = LdapConnection(self.settings, reactor)
        self.addCleanup(connection.close)
        self.operations = Operations(connection)
        self.directory = LdapDirectory(self.settings, SystemClock(), reactor)
        self.addCleanup(self.directory.close)

    async def publish(self) -> None:
        """Put the enterprise into the directory, which may give its objects other identifiers."""
        objects = load_enterprise(ENTERPRISE).objects
        known: dict[UUID, UUID] = {}
        for of, links in (
            (SiteObject, ()),
            (QueueManagerObject, ("site_identifier_list",)),
            (
                RoutingLinkObject,
                ("site1_identifier", "site2_identifier", "site_gate_identifier_list"),
            ),
        ):
            for each in objects:
                if isinstance(each, of):
                    renamed = self.renamed(each, links, known)
                    if isinstance(renamed, QueueManagerObject):
                        await self.prepare(renamed)
                    known[each.identifier] = await self.directory.create(renamed)

    def renamed(
        self, reported: DirectoryObject, links: Sequence[str], known: dict[UUID, UUID]
    ) -> DirectoryObject:
        changes: dict[str, Any] = {}
        for name in links:
            value = getattr(reported, name)
            changes[name] = known[value] if isinstance(value, UUID) else tuple(known[each] for each in value)
        if isinstance(reported, QueueManagerObject):
            changes["qualified_computer_name"] = f"{reported.computer_name.lower()}.msmq.test"
        return attrs.evolve(reported, **changes)

    async def prepare(self, manager: QueueManagerObject) -> None:
        """Have what a queue manager needs to be in the directory."""

    async def member(self, name: str, more: str = "") -> Server:
        file = self.place / f"{name}.toml"
        file.write_text(
            CONFIGURATION.format(
                dns_name=f"{name.lower()}.msmq.test",
                address=ADDRESSES[name],
                settings=self.settings,
                hosts=HOSTS,
                more=more,
            )
        )
        overrides = Overrides(name=name, data=os.fspath(self.place / name), storage="sqlite")
        server = Server(load(file, overrides), IReactorTime(reactor))
        self.addCleanup(server.stopService)
        server.startService()
        await server.started
        return server

    def manager(self, name: str) -> QueueManagerService:
        return self.servers[name].manager

    async def first_start(self) -> None:
        """A server without a join publishes its role, site and values; and a new site at its next start."""
        sites = {name: await self.directory.create(SiteObject(name=name)) for name in ("Berlin", "Rome")}
        anna = QueueManagerObject(computer_name="ANNA")
        await self.prepare(anna)
        more = f'routing_server = true\nsites = ["{sites["Berlin"]}"]'
        server = await self.member("ANNA", more)
        await server.stopService()
        root = await self.operations.root()
        own = child("msmq", child("ANNA", root.computers))
        asked = {
            "mSMQRoutingServices": b"TRUE",
            "mSMQServiceType": b"1",
            "mSMQOSType": b"256",
            "mSMQForeign": b"FALSE",
            "mSMQQuota": b"1048576",
            "mSMQJournalQuota": b"-1",
            "mSMQSites": sites["Berlin"].bytes_le,
        }
        entry = await self.operations.entry(own, (*asked, "mSMQEncryptKey"))
        assert entry is not None
        self.assertEqual({name: entry.first(name) for name in asked}, asked)
        self.assertIsNotNone(entry.first("mSMQEncryptKey"))
        settings = [f"CN=MSMQ Settings,CN=ANNA,CN=Servers,CN={name},{root.sites}" for name in sites]
        self.assertIsNotNone(await self.operations.entry(settings[0], ("cn",)))
        await self.operations.modify(own, {"mSMQSites": [sites["Rome"].bytes_le]})
        await (await self.member("ANNA", more)).stopService()
        there = [await self.operations.entry(name, ("cn",)) is not None for name in settings]
        self.assertEqual(there, [False, True])

    async def send(self, first: int, queue: str = ORDERS) -> None:
        messages = [Message(body=b"%d" % number, transactional=True) for number in range(first, first + 10)]
        await self.manager("ANNA").send(queue, messages)

    async def check(self, first: int, hops: int, queue: str = ORDERS) -> None:
        """Assert that the messages arrived in order, over this number of gates."""
        views = [await self.manager("LUCA").receive(queue, timeout=120) for _ in range(10)]
        expected = [(b"%d" % number, hops) for number in range(first, first + 10)]
        self.assertEqual([(bytes(view.body), view.hop_count) for view in views], expected)

    async def travel(self) -> None:
        """Messages go by three gates, and by two when one is gone, be the directory there or not."""
        started = await gatherResults([Deferred.fromCoroutine(self.member(name)) for name in NAMES])
        self.servers = dict(zip(NAMES, started, strict=True))
        await self.manager("LUCA").create_queue(ORDERS, transactional=True)
        await self.send(0)
        await self.check(0, 3)
        self.server.stop()
        await self.send(10)
        await self.check(10, 3)
        await self.servers["IRIS"].stopService()
        await self.send(20)
        await self.check(20, 2)
        self.server.start()
        await self.manager("LUCA").create_queue("LUCA\\bills", transactional=True)
        await self.send(30, "LUCA\\bills")
        await self.check(30, 2, "LUCA\\bills")
        for queue in (ORDERS, "LUCA\\bills"):
            await self.manager("LUCA").delete_queue(queue)


class OpenLdapEnterpriseTests(EnterpriseTestCase):
    """In a slapd."""

    async def test_messages_travel(self) -> None:
        """They are routed by the directory's data."""
        server = SlapdServer()
        self.addCleanup(server.remove)
        await self.furnish(server)
        await self.publish()
        await self.travel()

    async def test_first_start(self) -> None:
        """A server that starts with the rights to it is published whole."""
        await self.furnish(slapd.shared_server(), "first start")
        await self.first_start()

    async def furnish(self, server: SlapdServer, name: str = "enterprise") -> None:
        """Have a base of its own in a server, with nothing in it."""
        settings = LdapSettings(
            server.servers, slapd.SUFFIX, bind_name=slapd.ADMINISTRATOR, password_file=Path()
        )
        base = child(name, slapd.SUFFIX)
        self.set_up(server, settings, slapd.PASSWORD)
        await make_base(self.operations, base)
        self.set_up(server, attrs.evolve(settings, base=base), slapd.PASSWORD)


class ActiveDirectoryEnterpriseTests(EnterpriseTestCase):
    """In a domain that Samba serves."""

    async def test_messages_travel(self) -> None:
        """They are routed by the directory's data."""
        await self.furnish()
        await self.publish()
        await self.travel()

    async def test_first_start(self) -> None:
        """A server that starts with the rights to it is published whole."""
        await self.furnish()
        await self.first_start()

    async def furnish(self) -> None:
        """Have the domain as it was before any test."""
        server = samba.shared_server()
        settings = LdapSettings(
            (LdapServer(samba.ADDRESS, samba.PORT),), bind_name=samba.ADMINISTRATOR, password_file=Path()
        )
        self.set_up(server, settings, samba.PASSWORD)
        await self.clean()
        self.addCleanup(self.clean)
        self.addCleanup(self.be_there)

    def be_there(self) -> None:
        if not self.server.is_running:
            self.server.start()

    async def prepare(self, manager: QueueManagerObject) -> None:
        """A computer joins the domain before it is a queue manager."""
        values = {
            "sAMAccountName": [f"{manager.computer_name}$".encode()],
            "userAccountControl": [b"4096"],
        }
        await self.operations.add(await self.computer(manager.computer_name), "computer", values)

    async def computer(self, name: str) -> str:
        return child(name, (await self.operations.root()).computers)

    async def clean(self) -> None:
        """Other tests use the same domain."""
        root = await self.operations.root()
        for each in load_enterprise(ENTERPRISE).objects:
            if isinstance(each, SiteObject):
                for link in await self.links(each.name):
                    await self.directory.delete(link)
        left = [await self.computer(name) for name in NAMES]
        left += [child(site, root.sites) for site in ("Berlin", "Paris", "Rome")]
        for place in left:
            entries = await self.operations.find(place, Scope.TREE, ANYTHING, ())
            for entry in sorted(entries, key=lambda entry: -entry.name.count(",")):
                await self.operations.delete(entry.name)

    async def links(self, site: str) -> list[RoutingLinkObject]:
        """The links that lead to a site, if that is there."""
        handle = await self.directory.begin_read(SiteObject, [equals("name", site)], ("identifier",))
        try:
            identifier = (await self.directory.read_next(handle))["identifier"]
        except DirectoryError:
            return []
        finally:
            await self.directory.end_read(handle)
        found = []
        for side in ("site1_identifier", "site2_identifier"):
            handle = await self.directory.begin_read(RoutingLinkObject, [equals(side, identifier)])
            try:
                while True:
                    found.append((await self.directory.read_next(handle)).object)
            except DirectoryError:
                await self.directory.end_read(handle)
        return found
