"""The checks of C{msmq config check} on a directory, and the discovery of servers by domain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, fail, succeed
from twisted.names import client, dns, server
from twisted.names.common import ResolverBase
from twisted.names.error import DomainError
from twisted.trial.unittest import SynchronousTestCase, TestCase

from msmq.directory.ldap.transport.domain_controllers import DomainControllers, domain_of, name_servers
from msmq.service.configuration import check
from tests.directory.ldap.test_connection import ALPHA, tls_server
from tests.servers.certificates import make_credentials
from tests.servers.slapd import SUFFIX

FILE = """
[directory]
backend = "{backend}"
bind_dn = "{name}"
password_file = "{password}"
"""


class ConfigurationTests(SynchronousTestCase):
    """A real server is asked for what only it can tell."""

    def setUp(self) -> None:
        self.server = tls_server()
        self.place = Path(self.mktemp())
        self.place.mkdir()
        self.password = self.written("password", "alpha's password\n")

    def written(self, name: str, text: str) -> Path:
        path = self.place / name
        path.write_text(text)
        return path

    def problems(self, backend: str, *more: str, name: str = ALPHA) -> list[str]:
        text = FILE.format(backend=backend, name=name, password=self.password)
        file = self.written("server.toml", text + "\n".join(more))
        found = check(file)
        return [
            f"{'warning ' if each.is_warning else ''}{each.line} {each.key} {each.problem}"
            for each in found
            if each.key.startswith("directory")
        ]

    def test_usable_directory(self) -> None:
        """A directory that can be used has no problem, over TLS too."""
        self.assertEqual(self.problems(f"ldap://127.0.0.1:{self.server.port}/{SUFFIX}"), [])
        authority = self.place / "ca.pem"
        authority.write_bytes(make_credentials().authority)
        tls = f"ldaps://127.0.0.1:{self.server.tls_port}/{SUFFIX}"
        self.assertEqual(self.problems(tls, f'ca_file = "{authority}"'), [])
        self.assertIn("which the system does not trust; name the authority's", self.problems(tls)[0])

    def test_wrong(self) -> None:
        """A missing base, a wrong account or password, and a password without TLS are reported."""
        here = f"ldap://127.0.0.1:{self.server.port}"
        for backend, name, reported in (
            (f"{here}/dc=elsewhere,dc=com", ALPHA, "there is no CN=Configuration,dc=elsewhere,dc=com"),
            (f"{here}/elsewhere", ALPHA, "the base 'elsewhere' is not a distinguished name"),
            (f"{here}/{SUFFIX}", "cn=nobody,dc=example,dc=com", "LDAP result 49, invalidCredentials"),
            ("ldap://dc.example.com", ALPHA, "the password would be sent to dc.example.com unencrypted"),
        ):
            [problem] = self.problems(backend, name=name)
            self.assertIn(reported, problem)
            self.assertTrue(problem.startswith("3 directory.backend"), problem)
        self.password = self.place / "missing"
        self.assertIn("missing: No such file", self.problems(f"{here}/{SUFFIX}")[0])

    def test_unreachable_directory(self) -> None:
        """A directory that is away is a warning, since the configuration may be right."""
        [problem] = self.problems("ldap://127.0.0.1:1/dc=example,dc=com")
        self.assertTrue(problem.startswith("warning 3 directory.backend could not be checked"), problem)


class Zone(ResolverBase):
    """The records of a name server."""

    def __init__(self, records: dict[bytes, list[Any]]) -> None:
        super().__init__()
        self.records = records

    def _lookup(self, name: bytes, cls: int, type: int, timeout: object) -> Deferred[Any]:
        held = self.records.get(name.lower())
        if type != dns.SRV or not held:
            return fail(DomainError(name))
        return succeed(([dns.RRHeader(name, dns.SRV, payload=each, ttl=60) for each in held], [], []))


class DomainControllerTests(TestCase):
    """Servers are found by the SRV records of their domain."""

    async def setUp(self) -> None:  # type: ignore[override]
        self.records: dict[bytes, list[Any]] = {}
        self.factory = server.DNSServerFactory(authorities=[Zone(self.records)])
        protocol = dns.DNSDatagramProtocol(controller=self.factory)
        running: Any = reactor
        port = running.listenUDP(0, protocol, interface="127.26.0.53")
        self.addCleanup(port.stopListening)
        self.resolver = client.Resolver(servers=[("127.26.0.53", port.getHost().port)], reactor=reactor)
        self.asked = 0

    async def broadcast(self) -> Sequence[str]:
        self.asked += 1
        return ["by.broadcast"]

    async def found(self, domain: str = "example.com") -> Sequence[str]:
        return await DomainControllers(
            domain, reactor, self.broadcast, resolver=self.resolver, draw=lambda: 0.5
        ).find()

    async def test_records(self) -> None:
        """The domain controllers are tried by priority and weight; without any, broadcast is asked."""
        self.records[b"_ldap._tcp.dc._msdcs.example.com"] = [
            dns.Record_SRV(10, 100, 389, b"far.example.com", ttl=60),
            dns.Record_SRV(0, 10, 389, b"light.example.com", ttl=60),
            dns.Record_SRV(0, 90, 389, b"Heavy.example.com", ttl=60),
        ]
        self.assertEqual(await self.found(), ["heavy.example.com", "light.example.com", "far.example.com"])
        self.assertEqual(self.asked, 0)
        self.assertEqual(await self.found(""), ["by.broadcast"])

    async def test_other_directories(self) -> None:
        """A domain without Active Directory has its servers under another name, or none."""
        self.assertEqual(await self.found(), ["by.broadcast"])
        self.records[b"_ldap._tcp.example.com"] = [dns.Record_SRV(0, 0, 389, b"ldap.example.com", ttl=60)]
        self.assertEqual(await self.found(), ["ldap.example.com"])

    def test_name_servers(self) -> None:
        """The name servers are those of the file; without any nothing is asked."""
        file = Path(self.mktemp())
        file.write_text("# none\nsearch x\nnameserver 10.0.0.1\nnameserver\nnameserver ::1 x\n")
        self.assertEqual(name_servers(file), ["10.0.0.1", "::1"])

    def test_domain(self) -> None:
        """The domain is that of the base."""
        self.assertEqual(domain_of("dc=example,dc=com"), "example.com")
        self.assertEqual(domain_of("ou=x,DC=a, DC=b"), "a.b")
        self.assertEqual(domain_of(""), "")
