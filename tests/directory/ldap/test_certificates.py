"""The certificate of a directory server, and what is said of one that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
from twisted.internet import reactor
from twisted.internet.ssl import Certificate, KeyPair, PrivateCertificate
from twisted.trial.unittest import TestCase

from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.interfaces import DirectoryError
from tests.servers.certificates import Credentials, make_credentials
from tests.servers.emulated_ldap import EmulatedDirectory

ADDRESS = "127.13.0.1"


class CertificateTests(TestCase):
    """A server over TLS at 127.13.0.1, whose authority is the one of ca_file."""

    def settings(self, credentials: Credentials, authority: bytes | None = None) -> LdapSettings:
        """Those of a server with this certificate."""
        self.server = EmulatedDirectory()
        certificate = PrivateCertificate.fromCertificateAndKeyPair(
            Certificate.loadPEM(credentials.certificate), KeyPair.load(credentials.key, 1)
        )
        listening: Any = reactor
        port = listening.listenSSL(0, self.server.factory(), certificate.options(), interface=ADDRESS)
        self.addCleanup(port.stopListening)
        authorities = Path(self.mktemp())
        authorities.write_bytes(credentials.authority if authority is None else authority)
        server = LdapServer(ADDRESS, port.getHost().port)
        return LdapSettings((server,), is_tls=True, ca_file=authorities)

    async def fault(self, settings: LdapSettings) -> str:
        """Why the server is refused, to which nothing has been sent."""
        connection = LdapConnection(settings, reactor)
        self.addCleanup(connection.close)
        with self.assertRaises(DirectoryError) as refused:
            await connection.root()
        self.assertTrue(connection.is_refused)
        self.assertEqual(self.server.requests, [])
        return str(refused.exception.detail).partition("cannot be reached: ")[2]

    async def test_valid(self) -> None:
        """A certificate of a trusted authority, for the address of the server, is accepted."""
        connection = LdapConnection(self.settings(make_credentials(address=ADDRESS)), reactor)
        self.addCleanup(connection.close)
        self.assertEqual((await connection.root()).domain, "DC=example,DC=com")

    async def test_expired(self) -> None:
        """The error about an expired certificate has the host and the time of the expiry."""
        self.assertEqual(
            await self.fault(self.settings(make_credentials(address=ADDRESS, is_expired=True))),
            f"the certificate of {ADDRESS} expired on 2020-12-31 00:00:00 UTC; renew it",
        )

    async def test_early(self) -> None:
        """So is the time from which a certificate is valid."""
        self.assertEqual(
            await self.fault(self.settings(make_credentials(address=ADDRESS, is_early=True))),
            f"the certificate of {ADDRESS} is not valid before 2119-12-07 00:00:00 UTC; check the clock of"
            " this computer",
        )

    async def test_other_host(self) -> None:
        """A certificate for other hosts is refused, and they are named."""
        fault = await self.fault(self.settings(make_credentials(address="127.13.0.2")))
        self.assertIn(f"the certificate of {ADDRESS} is for localhost, 127.13.0.2;", fault)

    async def test_unknown_authority(self) -> None:
        """A certificate of an authority that is not in ca_file, or not one of the system, is refused."""
        other = make_credentials("Another").authority
        settings = self.settings(make_credentials(address=ADDRESS), other)
        for tried, store in ((settings, "ca_file"), (attrs.evolve(settings, ca_file=None), "the system")):
            self.assertEqual(
                await self.fault(tried),
                f"the certificate of {ADDRESS} is issued by CN=An authority, which {store} does not trust;"
                " name the authority's certificate in ca_file",
            )
