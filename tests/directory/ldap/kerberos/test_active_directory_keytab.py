"""A bind with a keytab in a real Active Directory domain, which Samba serves."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import DatagramProtocol
from twisted.trial.unittest import SkipTest, TestCase

from msmq.directory.ldap.enrollment.enrollment import Enrollment
from msmq.directory.ldap.enrollment.plan import MemberRequest
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.directory.ldap.transport.certificates import LdapConfigurationError
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.directory.ldap.transport.filters import ANYTHING
from msmq.directory.ldap.transport.kerberos.tickets import KerberosAccount
from msmq.directory.ldap.transport.wire import Scope
from msmq.interfaces.directory import DirectoryError
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.queries import equals
from msmq.net.clock import SystemClock
from msmq.service.configuration import check
from tests.directory.ldap.kerberos.keytabs import keytab, keytab_entry
from tests.servers import samba

ACCOUNT = "msmq-kate"
PRINCIPAL = f"{ACCOUNT}@{samba.REALM}"
PLACE = f"CN={ACCOUNT},CN=Users,{samba.DOMAIN}"
ADMINISTRATORS = f"CN=Domain Admins,CN=Users,{samba.DOMAIN}"
CONTROLLER = f"CN=DC,OU=Domain Controllers,{samba.DOMAIN}"
COMPUTER = f"CN=KATE,CN=Computers,{samba.DOMAIN}"


class KeytabBindTests(TestCase):
    """KATE's queue manager has a user of the domain and its keytab, and no password."""

    timeout = 300

    async def setUp(self) -> None:  # type: ignore[override]
        try:
            import gssapi  # noqa: F401
        except ImportError as error:
            raise SkipTest(f"gssapi is not installed (msmq[kerberos]): {error}") from error
        self.server = samba.shared_server()
        self.files = Path(self.mktemp()).absolute()
        self.files.mkdir()
        secret = self.written("secret", samba.PASSWORD.encode())
        address = LdapServer(samba.ADDRESS, samba.PORT)
        administrator = LdapSettings((address,), bind_name=samba.ADMINISTRATOR, password_file=secret)
        connection = LdapConnection(administrator, reactor)
        self.addCleanup(connection.close)
        self.administrator = Operations(connection)
        await self.clean()
        self.addCleanup(self.clean)
        values = {
            "sAMAccountName": [ACCOUNT.encode()],
            "unicodePwd": ['"Pa55-of-kate"'.encode("utf-16-le")],
            "userAccountControl": [b"512"],
        }
        await self.administrator.add(PLACE, "user", values)
        await self.add_value(ADMINISTRATORS, "member", PLACE.encode())
        self.service = f"ldap/{samba.ADDRESS}".encode()
        await self.add_value(CONTROLLER, "servicePrincipalName", self.service)
        self.server.tool("domain", "exportkeytab", str(self.files / "keytab"), f"--principal={ACCOUNT}")
        self.kerberos(samba.ADDRESS)
        self.plain = LdapSettings((address,), keytab=self.files / "keytab", principal=ACCOUNT)
        self.tls = attrs.evolve(
            self.plain,
            servers=(LdapServer(samba.ADDRESS, samba.TLS_PORT),),
            is_tls=True,
            ca_file=self.server.authority,
        )

    async def clean(self) -> None:
        """Other tests use the same domain."""
        for place in (PLACE, COMPUTER):
            entries = await self.administrator.find(place, Scope.TREE, ANYTHING, ())
            for entry in sorted(entries, key=lambda entry: -entry.name.count(",")):
                await self.administrator.delete(entry.name)

    async def add_value(self, name: str, attribute: str, value: bytes) -> None:
        """Give an attribute of the domain one value more."""
        entry = await self.administrator.entry(name, (attribute,))
        assert entry is not None
        await self.administrator.modify(name, {attribute: [*{*entry.all(attribute), value}]})

    def written(self, name: str, contents: bytes) -> Path:
        path = self.files / name
        path.write_bytes(contents)
        return path

    def kerberos(self, kdc: str, lifetime: str = "10h") -> None:
        """Let the process find the domain controller there, independent of the system's krb5.conf."""
        text = f"[libdefaults]\ndns_lookup_kdc = false\nticket_lifetime = {lifetime}\n"
        text += f"[realms]\n{samba.REALM} = {{\n kdc = {kdc}\n}}\n"
        path = self.written("krb5.conf", text.encode())
        before = os.environ.get("KRB5_CONFIG")
        os.environ["KRB5_CONFIG"] = str(path)
        self.addCleanup(self.restore, before)

    def restore(self, before: str | None) -> None:
        if before is None:
            os.environ.pop("KRB5_CONFIG", None)
        else:
            os.environ["KRB5_CONFIG"] = before

    def connection(self, settings: LdapSettings) -> LdapConnection:
        connection = LdapConnection(settings, reactor)
        self.addCleanup(connection.close)
        return connection

    async def fault_of(self, settings: LdapSettings) -> tuple[str, bool]:
        """Why no server is reached, and whether the configuration is at fault."""
        connection = self.connection(settings)
        try:
            await connection.root()
        except DirectoryError as error:
            return error.detail, connection.is_refused
        raise AssertionError("a DirectoryError was expected")

    async def test_publishes(self) -> None:
        """Over both kinds of TLS, and on this computer without it, a queue is published and read again."""
        await self.administrator.add(COMPUTER, "computer", {"sAMAccountName": [b"KATE$"]})
        await Enrollment(self.administrator, uuid4).join("KATE", MemberRequest())
        starts = attrs.evolve(self.plain, starts_tls=True, ca_file=self.server.authority)
        for settings in (self.tls, starts, self.plain):
            directory = LdapDirectory(settings, SystemClock(), reactor)
            self.addCleanup(directory.close)
            await directory.open()
            queue = QueueObject(pathname="KATE\\orders", label="orders")
            identifier = await directory.create(queue)
            read = await directory.read(QueueObject, [equals("pathname", "KATE\\orders")], ("label",))
            self.assertEqual(read["label"], "orders")
            manager = await directory.read(QueueManagerObject, [equals("computer_name", "KATE")])
            self.assertEqual(manager["computer_name"], "KATE")
            await directory.delete(QueueObject(identifier=identifier))

    async def test_refused(self) -> None:
        """An outdated key, an unknown account and a disabled account are refused in words."""
        for principal, reported in (
            (PRINCIPAL, f"the key of {PRINCIPAL} in the keytab is not the account's current one"),
            (f"nobody@{samba.REALM}", f"has no account nobody@{samba.REALM}"),
        ):
            other = self.written("other", keytab(keytab_entry(principal)))
            fault, is_refused = await self.fault_of(attrs.evolve(self.tls, keytab=other, principal=""))
            self.assertIn(reported, fault)
            self.assertTrue(is_refused)
        await self.administrator.modify(PLACE, {"userAccountControl": [b"514"]})
        fault, is_refused = await self.fault_of(self.tls)
        self.assertIn(f"the account {PRINCIPAL} is disabled", fault)
        self.assertTrue(is_refused)

    async def test_renewed(self) -> None:
        """Tickets that the domain no longer takes are left behind; the next request has others."""
        account = KerberosAccount(self.files / "keytab", ACCOUNT, reactor)
        connection = LdapConnection(self.tls, reactor, account=account)
        self.addCleanup(connection.close)
        before = account.cache_name
        self.kerberos(samba.ADDRESS, "1s")
        try:
            await connection.root()
        except DirectoryError as error:
            self.assertIn(f"the tickets of {PRINCIPAL} have expired", error.detail)
        else:
            self.fail("a DirectoryError was expected")
        self.assertFalse(connection.is_refused)
        self.assertNotEqual(account.cache_name, before)
        self.kerberos(samba.ADDRESS)
        await connection.root()

    async def test_missing(self) -> None:
        """Without gssapi the directory is not opened, and what to install is named."""
        self.addCleanup(sys.modules.__setitem__, "gssapi", sys.modules["gssapi"])
        sys.modules["gssapi"] = None  # type: ignore[assignment]
        with self.assertRaises(LdapConfigurationError) as refused:
            await self.connection(self.tls).check()
        self.assertIn("a keytab needs gssapi; install msmq[kerberos]", str(refused.exception))
        self.assertIn("libkrb5-dev", str(refused.exception))

    def test_configuration(self) -> None:
        """C{msmq config check} binds with the keytab, and finds one without its principal."""
        for principal, reported in (
            (ACCOUNT, []),
            ("nobody", [f"keytab {self.tls.keytab} has no key of the principal nobody; it has {PRINCIPAL}"]),
        ):
            problems = self.problems(principal)
            self.assertEqual(len(problems), len(reported), problems)
            for problem, part in zip(problems, reported, strict=True):
                self.assertTrue(problem.endswith(part), problem)

    def problems(self, principal: str) -> list[str]:
        """The problems of the table of the directory."""
        text = f"""
[directory]
backend = "ldaps://{samba.ADDRESS}/{samba.DOMAIN}"
keytab = "{self.tls.keytab}"
principal = "{principal}"
ca_file = "{self.tls.ca_file}"
"""
        found = check(self.written("server.toml", text.encode()))
        return [each.problem for each in found if each.key.startswith("directory")]

    async def test_service(self) -> None:
        """A server whose name the domain does not know is refused, with what to name it."""
        entry = await self.administrator.entry(CONTROLLER, ("servicePrincipalName",))
        assert entry is not None
        others = [value for value in entry.all("servicePrincipalName") if value != self.service]
        await self.administrator.modify(CONTROLLER, {"servicePrincipalName": others})
        fault, is_refused = await self.fault_of(self.tls)
        self.assertIn(f"no service ldap/{samba.ADDRESS}@{samba.REALM}", fault)
        self.assertTrue(is_refused)

    async def test_unreachable_domain_controller(self) -> None:
        """A domain controller that is away is a directory that is away; it is asked again when it is back."""
        closed = socket.socket()
        closed.bind((samba.ADDRESS, 0))
        self.kerberos(f"{samba.ADDRESS}:{closed.getsockname()[1]}")
        connection = self.connection(self.tls)
        try:
            await connection.root()
        except DirectoryError as error:
            self.assertIn(f"no domain controller of the realm {samba.REALM} answers", error.detail)
        else:
            self.fail("a DirectoryError was expected")
        self.assertFalse(connection.is_refused)
        closed.close()
        self.kerberos(samba.ADDRESS)
        await connection.root()

    async def test_silent(self) -> None:
        """A domain controller that does not answer ends the attempt in time, and blocks nothing else."""
        silent = socket.socket(type=socket.SOCK_DGRAM)
        self.addCleanup(silent.close)
        silent.bind((samba.ADDRESS, 0))
        self.kerberos(f"{samba.ADDRESS}:{silent.getsockname()[1]}")
        fault, is_refused = await self.fault_of(attrs.evolve(self.tls, connect_timeout=0.3))
        self.assertIn(f"no domain controller of the realm {samba.REALM} has answered", fault)
        self.assertFalse(is_refused)

    async def test_closed_meanwhile(self) -> None:
        """A connection that is closed while a domain controller is silent tries no other server."""
        requested: Deferred[None] = Deferred()

        class Silent(DatagramProtocol):
            def datagramReceived(self, datagram: bytes, address: object) -> None:
                if not requested.called:
                    requested.callback(None)

        net: Any = reactor
        silent = net.listenUDP(0, Silent(), interface=samba.ADDRESS)
        self.addCleanup(silent.stopListening)
        self.kerberos(f"{samba.ADDRESS}:{silent.getHost().port}")
        [server] = self.tls.servers
        connection = self.connection(attrs.evolve(self.tls, servers=(server, LdapServer("localhost", 1))))
        asked = Deferred.fromCoroutine(connection.root())
        await requested
        connection.close()
        error = self.failureResultOf(asked, DirectoryError).value
        self.assertIn("the directory was closed", error.detail)
