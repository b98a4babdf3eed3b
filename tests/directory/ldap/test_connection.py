"""How a real server is reached: TLS, credentials, silence, and what a configuration can get wrong."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import attrs
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase

from msmq.directory.ldap.enrollment.enrollment import Enrollment
from msmq.directory.ldap.enrollment.plan import MemberRequest
from msmq.directory.ldap.identity import identify
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import Dialect, LdapServer, LdapSettings
from msmq.directory.ldap.transport.certificates import LdapConfigurationError
from msmq.directory.ldap.transport.connection import ATTEMPTS_APART, LdapConnection
from msmq.interfaces import DirectoryError
from msmq.interfaces.plugins import DirectoryContext
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import (
    EnterpriseObject,
    QueueManagerObject,
    QueueObject,
    RoutingLinkObject,
    SiteObject,
)
from msmq.membership.queries import equals
from msmq.net.clock import SystemClock
from tests.servers.certificates import make_credentials
from tests.servers.emulated_ldap import EmulatedDirectory
from tests.servers.slapd import ADMINISTRATOR, PASSWORD, SUFFIX, SlapdServer

CLOSED_PORT: Final = LdapServer("127.0.0.1", 1)
"""A port on which no server listens."""

ALPHA = f"cn=alpha,cn=Accounts,{SUFFIX}"
"""The account of a queue manager in the estate that is shipped."""


@cache
def tls_server() -> SlapdServer:
    """A server that speaks TLS, for all tests of the process."""
    ours = make_credentials()
    return SlapdServer(certificate=(ours.authority, ours.certificate, ours.key))


class ConfiguredTestCase(TestCase):
    """A directory as the configuration of a queue manager describes it."""

    def setUp(self) -> None:
        self.server = tls_server()
        self.password = self.written("password", b"alpha's password\n")
        self.authority = self.written("ca.pem", b"Ours:\n" + make_credentials().authority)
        self.settings = LdapSettings(
            self.server.servers, SUFFIX, bind_name=ALPHA, password_file=self.password
        )
        self.tls = attrs.evolve(
            self.settings, servers=self.server.tls_servers, is_tls=True, ca_file=self.authority
        )

    def administrator(self) -> LdapSettings:
        """The settings of the account that may do everything."""
        secret = self.written("admin", PASSWORD.encode())
        return attrs.evolve(self.settings, bind_name=ADMINISTRATOR, password_file=secret)

    def written(self, name: str, contents: bytes) -> Path:
        path = Path(self.mktemp()).with_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents)
        return path

    def directory(self, settings: LdapSettings) -> LdapDirectory:
        directory = LdapDirectory(settings, SystemClock(), reactor)
        self.addCleanup(directory.close)
        return directory


class LdapConnectionTests(ConfiguredTestCase):
    """How it is reached, and why not."""

    async def sites(self, settings: LdapSettings) -> str:
        """The name of London, as this directory has it."""
        directory = self.directory(settings)
        await directory.open()
        name = (await directory.read(SiteObject, [equals("name", "london")], ("name",)))["name"]
        assert isinstance(name, str)
        return name

    async def fault_of(self, asked: Deferred[Any]) -> str:
        try:
            await asked
        except DirectoryError as error:
            self.assertIs(error.result, DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)
            return error.detail
        raise AssertionError("a DirectoryError was expected")

    async def test_estate(self) -> None:
        """The account of the shipped estate publishes what its queue manager is, and changes no site."""
        directory = self.directory(self.settings)
        await directory.open()
        london = await directory.read(SiteObject, [equals("name", "london")])
        link = await directory.read(RoutingLinkObject, [equals("site1_identifier", london["identifier"])])
        self.assertEqual(link["actual_cost"], 1)
        enterprise = await directory.read(EnterpriseObject)
        self.assertIs(enterprise["non_ldap_capable_queue_manager_notification"], False)
        manager = QueueManagerObject(
            computer_name="ALPHA", site_identifier_list=(london["identifier"],), routing_server=True
        )
        try:
            await directory.create(manager)
        except DirectoryError as error:
            self.assertIn("msmq enterprise join ALPHA", error.detail)
        else:
            self.fail("a DirectoryError was expected")
        connection = LdapConnection(self.administrator(), reactor)
        self.addCleanup(connection.close)
        enrollment = Enrollment(Operations(connection), uuid4)
        await enrollment.join("ALPHA", MemberRequest(("London",), routing=True))
        manager = (await directory.read(QueueManagerObject, [equals("computer_name", "ALPHA")])).object
        await directory.create(QueueObject(pathname="ALPHA\\orders"))
        await directory.write(attrs.evolve(manager, queue_manager_quota=5), ("queue_manager_quota",))
        for asked in (
            directory.write(attrs.evolve(london.object, foreign_site=True), ("foreign_site",)),
            directory.create(SiteObject(name="rome")),
        ):
            try:
                await asked
            except DirectoryError as error:
                self.assertIs(error.result, DirectoryOperationResult.GENERIC_ERROR)
                self.assertIn("LDAP result 50, insufficientAccessRights", error.detail)
            else:
                self.fail("a DirectoryError was expected")
        await directory.delete(QueueObject(pathname="ALPHA\\orders"))
        await enrollment.leave("ALPHA")

    async def test_tls(self) -> None:
        """Both kinds of TLS reach a server with a trusted certificate."""
        starts = attrs.evolve(self.settings, starts_tls=True, ca_file=self.authority)
        for settings in (
            self.tls,
            starts,
            attrs.evolve(self.tls, servers=(LdapServer("localhost", self.server.tls_port),)),
        ):
            self.assertEqual(await self.sites(settings), "London")

    async def test_untrusted_certificate(self) -> None:
        """No password goes to a server without a trusted certificate."""
        other_authority = self.written("other.pem", make_credentials("Another authority").authority)
        starts = attrs.evolve(self.settings, starts_tls=True, ca_file=other_authority)
        for settings in (
            attrs.evolve(self.tls, ca_file=other_authority),
            attrs.evolve(self.tls, ca_file=None),
            starts,
        ):
            fault = await self.fault_of(self.directory(settings).read(SiteObject))
            self.assertIn("is issued by CN=An authority, which", fault)

    async def test_tls_where_there_is_none(self) -> None:
        """A client configured for TLS does without the directory, and not without TLS."""
        settings = attrs.evolve(self.tls, servers=self.server.servers, connect_timeout=2.0)
        self.assertTrue(await self.fault_of(self.directory(settings).read(SiteObject)))

    async def test_wrong_password(self) -> None:
        """A refused password is reported, and read anew for the next request."""
        self.password.write_bytes(b"guessed")
        directory = self.directory(self.settings)
        await directory.open()
        self.assertIn(
            f"{ALPHA} is refused: LDAP result 49, invalidCredentials: wrong name or password",
            await self.fault_of(directory.read(SiteObject)),
        )
        self.password.write_bytes(b"alpha's password")
        self.assertTrue((await directory.read(SiteObject))["name"])

    async def test_wrong_base(self) -> None:
        """A missing base is reported."""
        settings = attrs.evolve(self.settings, base="dc=elsewhere,dc=com")
        fault = await self.fault_of(self.directory(settings).read(SiteObject))
        self.assertIn("there is no CN=Configuration,dc=elsewhere,dc=com", fault)

    async def test_base_of_the_server(self) -> None:
        """Without a base, it is the one that the server has, and without a dialect that of the server."""
        self.assertEqual(await self.sites(attrs.evolve(self.settings, base="")), "London")
        settings = attrs.evolve(self.settings, base="", dialect=Dialect.OPENLDAP)
        self.assertEqual(await self.sites(settings), "London")

    async def test_silent_server(self) -> None:
        """A server that says nothing, before it was reached or afterwards, is away after a while."""
        settings = attrs.evolve(self.settings, connect_timeout=0.3, answer_timeout=0.3)
        directory = self.directory(settings)
        self.addCleanup(self.server.thaw)
        self.server.freeze()
        self.assertTrue(await self.fault_of(directory.read(SiteObject)))
        self.server.thaw()
        await directory.read(SiteObject)
        self.server.freeze()
        self.assertIn("no answer within 0.3 seconds", await self.fault_of(directory.read(SiteObject)))
        self.server.thaw()
        await directory.read(SiteObject)

    async def test_files(self) -> None:
        """An unusable file is reported when the directory is opened."""
        empty, missing = self.written("empty", b"\n"), Path(self.mktemp())
        damaged = self.written("damaged", make_credentials().authority.replace(b"MII", b"XXX"))
        for settings, reported in (
            (attrs.evolve(self.settings, password_file=missing), "password_file"),
            (attrs.evolve(self.settings, password_file=empty), "is empty"),
            (attrs.evolve(self.settings, password_file=self.written("long", b"x" * 2000)), "more than 1024"),
            (attrs.evolve(self.tls, ca_file=missing), "ca_file"),
            (attrs.evolve(self.tls, ca_file=empty), "holds no certificate"),
            (attrs.evolve(self.tls, ca_file=damaged), "damaged"),
        ):
            try:
                await self.directory(settings).open()
            except LdapConfigurationError as error:
                self.assertIn(reported, str(error))
            else:
                self.fail(f"{reported} was expected")

    async def test_bounded_rate(self) -> None:
        """A server that ends each connection is asked four times a second, and at once when it is back."""
        server = EmulatedDirectory(bind_result=(52, "shutting down"))
        port, address = server.listen(reactor)
        self.addCleanup(port.stopListening)
        directory = self.directory(LdapSettings((address,)))
        time = IReactorTime(reactor)
        began = time.seconds()
        for _ in range(3):
            self.assertIn("shutting down", await self.fault_of(directory.read(EnterpriseObject)))
        self.assertGreaterEqual(time.seconds() - began, 2 * ATTEMPTS_APART)
        server.bind_result = (0, "")
        with self.assertRaises(DirectoryError) as refused:
            await directory.read(EnterpriseObject)
        self.assertIs(refused.exception.result, DirectoryOperationResult.OBJECT_NOT_FOUND)

    async def test_close_while_it_is_reached(self) -> None:
        """A caller that closes it while it is being reached gets an answer."""
        directory = self.directory(self.settings)
        asked = directory.read(SiteObject)
        await directory.close()
        self.assertIn("was closed", await self.fault_of(asked))


class IdentifyTests(ConfiguredTestCase):
    """The identity of a queue manager, looked up before it runs."""

    async def identity(self, settings: LdapSettings, name: str) -> UUID | None:
        return await identify(
            settings, name, DirectoryContext(SystemClock(), IReactorTime(reactor), Path("data"))
        )

    async def fault(self, settings: LdapSettings) -> str:
        with self.assertRaises(ValueError) as refused:
            await self.identity(settings, "ALPHA")
        return str(refused.exception)

    async def test_identity(self) -> None:
        """It is that of the directory, over TLS or not; a computer that is not there may choose its own."""
        starts = attrs.evolve(self.settings, starts_tls=True, ca_file=self.authority)
        directory = self.directory(self.administrator())
        identifier = await directory.create(QueueManagerObject(computer_name="GAMMA"))
        for settings in (self.settings, self.tls, starts):
            self.assertEqual(await self.identity(settings, "gamma"), identifier)
            self.assertIsNone(await self.identity(settings, "NOBODY"))
        await directory.delete(QueueManagerObject(computer_name="GAMMA"))
        self.assertIsNone(await self.identity(self.settings, "GAMMA"))

    async def test_no_identity(self) -> None:
        """Why the directory does not answer is reported."""
        guessed = attrs.evolve(self.settings, password_file=self.written("guessed", b"guessed"))
        other_authority = self.written("other.pem", make_credentials("Another authority").authority)
        for settings, reported in (
            (guessed, "is refused: LDAP result 49, invalidCredentials: wrong name or password"),
            (
                attrs.evolve(self.tls, ca_file=other_authority),
                "is issued by CN=An authority, which ca_file does not trust",
            ),
            (attrs.evolve(self.settings, servers=(CLOSED_PORT,)), "refused"),
            (attrs.evolve(self.settings, password_file=Path(self.mktemp())), "password_file"),
        ):
            self.assertIn(reported, await self.fault(settings))
        self.addCleanup(self.server.thaw)
        self.server.freeze()
        settings = attrs.evolve(self.settings, connect_timeout=0.3)
        self.assertIn("not reached within 0.3 seconds", await self.fault(settings))
