"""Servers that take no writes, servers that limit their answers, and what results mean."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase, TestCase

from msmq.directory.ldap.entries.values import pack_guid
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.directory.ldap.transport.decoder import decode
from msmq.directory.ldap.transport.referrals import writable_servers
from msmq.directory.ldap.transport.results import describe
from msmq.directory.ldap.transport.wire import LdapWireError, Result
from msmq.interfaces import DirectoryError
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.queries import equals
from msmq.net.clock import SystemClock
from tests.servers.emulated_ldap import SUFFIX, EmulatedDirectory

ALPHA = UUID(int=0xA)


class ReadOnlyServerTests(TestCase):
    """The first server is a read-only replica; the master is another one."""

    def setUp(self) -> None:
        # Neither makes identifiers, so that a new entry has the one that it is given.
        self.replica = EmulatedDirectory(capabilities=())
        self.master = EmulatedDirectory(capabilities=())
        port, self.replica_address = self.replica.listen(reactor, "127.26.0.1")
        self.addCleanup(port.stopListening)
        self.master_port, self.master_address = self.master.listen(reactor, "127.26.0.2")
        self.addCleanup(lambda: self.master_port.stopListening())
        for server in (self.replica, self.master):
            computer = f"CN=ALPHA,CN=Computers,{SUFFIX}"
            server.add(computer, objectClass=[b"computer"])
            server.add(
                f"CN=msmq,{computer}",
                objectClass=[b"mSMQConfiguration"],
                objectGUID=[pack_guid(ALPHA)],
            )
        self.refer(f"ldap://{self.master_address}/{SUFFIX}??sub")

    def refer(self, *urls: str) -> None:
        self.replica.write_result = (10, "", urls)

    def directory(self, *servers: LdapServer) -> LdapDirectory:
        settings = LdapSettings(servers or (self.replica_address,), SUFFIX)
        directory = LdapDirectory(settings, SystemClock(), reactor)
        self.addCleanup(directory.close)
        return directory

    def name_of(self, queue: str) -> str:
        return f"cn={queue},cn=msmq,cn=alpha,cn=computers,{SUFFIX.lower()}"

    async def fault(self, asked: Deferred[Any]) -> str:
        with self.assertRaises(DirectoryError) as refused:
            await asked
        self.assertIs(refused.exception.result, DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)
        return str(refused.exception.detail)

    async def test_write_goes_to_the_master(self) -> None:
        """A write goes to the server that the replica names, and later reads go there too."""
        directory = self.directory()
        await directory.create(QueueObject(pathname="ALPHA\\orders"))
        self.assertIn(self.name_of("orders"), self.master.records)
        self.assertNotIn(self.name_of("orders"), self.replica.records)
        self.assertTrue(await directory.read(QueueObject, [equals("pathname", "ALPHA\\orders")]))
        before = len(self.replica.requests)
        await directory.delete(QueueObject(pathname="ALPHA\\orders"))
        self.assertNotIn(self.name_of("orders"), self.master.records)
        self.assertEqual(len(self.replica.requests), before)

    async def test_replica_without_a_referral(self) -> None:
        """A replica that only refuses leaves a write to the other servers of the configuration."""
        self.replica.write_result = (53, "shadow context; no update referral", ())
        directory = self.directory(self.replica_address, self.master_address)
        await directory.create(QueueObject(pathname="ALPHA\\orders"))
        self.assertIn(self.name_of("orders"), self.master.records)

    async def test_master_is_lost(self) -> None:
        """Without its master a replica is still read, and a write fails with a reason until it is back."""
        directory = self.directory()
        await directory.create(QueueObject(pathname="ALPHA\\orders"))
        await self.master_port.stopListening()
        for connection in list(self.master.connections):
            transport: Any = connection.transport
            transport.abortConnection()
        read = await directory.read(QueueManagerObject, [equals("identifier", ALPHA)], ("computer_name",))
        self.assertEqual(read["computer_name"], "ALPHA")
        fault = await self.fault(directory.create(QueueObject(pathname="ALPHA\\bills")))
        self.assertIn(f"{self.replica_address} is read-only, and no server accepts the write", fault)
        self.master_port, _ = self.master.listen(reactor, "127.26.0.2", self.master_address.port)
        await directory.create(QueueObject(pathname="ALPHA\\bills"))
        self.assertIn(self.name_of("bills"), self.master.records)

    async def test_useless_referrals(self) -> None:
        """A referral to nowhere, to itself, or in a circle is an error that names it, and ends."""
        circle = (10, "", [f"ldap://{self.replica_address}"])
        for urls, reported in (
            (["http://elsewhere"], "it refers to http://elsewhere"),
            (["ldap://[", "ldap://", "ldap://x:0", "\0"], "it refers to ldap://["),
            ([f"ldap://{self.replica_address}"], "it refers to"),
            (["ldap://127.26.0.3:1"], "127.26.0.3:1: ldap://127.26.0.3:1/"),
            ([f"ldap://{self.master_address}"], "LDAP result 10, referral"),
        ):
            self.refer(*urls)
            self.master.write_result = circle
            directory = self.directory()
            self.assertIn(reported, await self.fault(directory.create(QueueObject(pathname="ALPHA\\orders"))))
            await directory.close()

    async def test_size_limit(self) -> None:
        """A server that answers too few entries is an error that names the limit, not half an answer."""
        for number in range(12):
            self.replica.add(
                f"CN=q{number},CN=msmq,CN=ALPHA,CN=Computers,{SUFFIX}",
                objectClass=[b"mSMQQueue"],
                objectGUID=[pack_guid(UUID(int=100 + number))],
            )
        self.replica.page_limit = 5
        directory = self.directory()
        handle = await directory.begin_read(QueueObject, (), ("identifier",))
        for _ in range(12):
            await directory.read_next(handle)
        self.replica.size_limit = 10
        with self.assertRaises(DirectoryError) as refused:
            await directory.begin_read(QueueObject, (), ("identifier",))
        self.assertIn("the server's size limit allows 10 entries", refused.exception.detail)
        self.assertIn("LDAP result 4, sizeLimitExceeded", refused.exception.detail)


class ResultTests(SynchronousTestCase):
    """Texts of results, and parsed referrals."""

    def test_words(self) -> None:
        """A result has its number, its name and, for credentials that a domain refuses, the reason."""
        said = "80090308: LdapErr: DSID-0C09042A, comment: AcceptSecurityContext error, data 532, v4563"
        self.assertIn("invalidCredentials: the password has expired (8009", describe(Result(49, said)))
        self.assertEqual(describe(Result(50)), "LDAP result 50, insufficientAccessRights")
        self.assertEqual(describe(Result(49)), "LDAP result 49, invalidCredentials: wrong name or password")
        self.assertIn("LDAP result 4096, a code that RFC 4511 does not define", describe(Result(4096)))

    def test_password_stays_under_tls(self) -> None:
        """A referral to an unprotected port is asked over TLS where the configuration has TLS."""
        server = LdapServer("dc1.example.com", 636)
        settings = LdapSettings((server,), is_tls=True)
        for url, found in (
            ("ldap://dc2.example.com", LdapServer("dc2.example.com", 636)),
            ("ldap://dc2.example.com:389/DC=x", LdapServer("dc2.example.com", 636)),
            ("ldaps://DC2.example.com:3636", LdapServer("dc2.example.com", 3636)),
        ):
            result = Result(10, "", b"", (url,))
            self.assertEqual(writable_servers(result, settings, [server], server), [found])
        own = LdapSettings((LdapServer("127.0.0.1", 389),), bind_name="cn=x", password_file="/x")  # type: ignore[arg-type]
        self.assertRaises(ValueError, attrs.evolve, own, servers=(LdapServer("dc2.example.com", 389),))

    def test_damaged_referral(self) -> None:
        """A referral that ends behind its message is refused as any other damage."""
        whole = bytes.fromhex("301b02010165160a010a04000400a30d040b6c6461703a2f2f782f613d")
        self.assertEqual(decode(whole)[1], Result(10, "", b"", ("ldap://x/a=",)))
        for place in range(8, len(whole)):
            damaged = bytearray(whole)
            damaged[place] = 0xFF
            try:
                decode(bytes(damaged))
            except LdapWireError:
                continue
