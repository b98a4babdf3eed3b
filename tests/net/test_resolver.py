"""Tests of finding where a computer is: [hosts] first, then the name service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IHostnameResolver, IHostResolution, IResolutionReceiver
from twisted.internet.protocol import ClientFactory
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.interfaces.session import RoutedHop
from msmq.net.dialling_session_factory import DiallingSessionFactory
from msmq.net.hosts import HostTable
from msmq.net.resolver import HostNotFound, HostResolver, NextHopAddress
from msmq.structures.status import Status
from msmq.testing.clock import ManualClock
from tests.builders import ALPHA, BETA, GAMMA
from tests.security.tls_files import TlsFiles
from tests.shares import SHARES


@implementer(IHostResolution)
@attrs.frozen
class Resolution:
    name: str

    def cancel(self) -> None:
        raise NotImplementedError


@implementer(IHostnameResolver)
@attrs.define
class NameService:
    """A name service that knows some names, is silent on C{silent}, and dislikes C{bad..name}."""

    names: Mapping[str, Sequence[str]]
    asked: list[str] = attrs.field(factory=list)
    waiting: list[IResolutionReceiver] = attrs.field(factory=list)

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[type[IAddress]] | None = None,
        transportSemantics: str = "TCP",
    ) -> IHostResolution:
        self.asked.append(hostName)
        hostName.encode("idna")
        resolution = Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)
        if hostName == "silent":
            self.waiting.append(resolutionReceiver)
            return resolution
        for address in self.names.get(hostName, ()):
            host, _, scope = address.partition("%")
            kind = IPv6Address if ":" in host else IPv4Address
            extra = (0, int(scope)) if scope else ()
            resolutionReceiver.addressResolved(kind("TCP", host, portNumber, *extra))
        resolutionReceiver.resolutionComplete()
        return resolution


class HostResolverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = MemoryReactorClock()
        self.names = NameService(
            {
                "beta": ["10.0.0.2"],
                "both": ["fd00::3", "10.0.0.3", "fd00::4", "10.0.0.4", "10.0.0.3"],
                "local": ["fe80::5%2"],
                "many": [f"10.0.1.{n}" for n in range(200)],
            }
        )

    def resolver(self, hosts: Mapping[str, str] | None = None, bind: str | None = None) -> HostResolver:
        return HostResolver(
            self.reactor, self.names, HostTable.of(hosts or {}), bind_address=bind, address_limit=4
        )

    def resolve(self, resolver: HostResolver, name: str, port: int | None = None) -> list[str]:
        hops = self.successResultOf(Deferred.fromCoroutine(resolver.resolve(name, port)))
        return [str(hop) for hop in hops]

    def connected(self, hop: NextHopAddress) -> tuple[str, int, object]:
        """Where a connection through the endpoint goes, and where it leaves from."""
        del self.reactor.tcpClients[:]
        hop.endpoint.connect(ClientFactory())
        [(host, port, _, _, bind)] = self.reactor.tcpClients
        return host, port, bind

    def hops(self, resolver: HostResolver, name: str) -> Sequence[NextHopAddress]:
        return self.successResultOf(Deferred.fromCoroutine(resolver.resolve(name)))

    def failure(self, name: str) -> HostNotFound:
        failed = self.failureResultOf(Deferred.fromCoroutine(self.resolver().resolve(name)), HostNotFound)
        assert isinstance(failed.value, HostNotFound)
        return failed.value

    def test_an_address_needs_no_name_service(self) -> None:
        """C{DIRECT=TCP:} names an address: port 1801 there, unless the name says another."""
        self.assertEqual(self.resolve(self.resolver(), "127.0.0.2"), ["127.0.0.2:1801"])
        self.assertEqual(self.resolve(self.resolver(), "::1"), ["[::1]:1801"])
        self.assertEqual(self.resolve(self.resolver(), "127.0.0.2", 1802), ["127.0.0.2:1802"])
        self.assertEqual(self.names.asked, [])

    def test_hosts_come_before_the_name_service(self) -> None:
        """A C{[hosts]} entry settles a name or an address, without case."""
        resolver = self.resolver({"Beta": "127.0.0.3:1802", "127.0.0.2": "127.0.0.4"})
        self.assertEqual(self.resolve(resolver, "BETA"), ["127.0.0.3:1802"])
        self.assertEqual(self.resolve(resolver, "127.0.0.2"), ["127.0.0.4:1801"])
        self.assertEqual(self.names.asked, [])

    def test_directory_comes_between_them(self) -> None:
        """The directory is queried after C{[hosts]} and before the name service."""
        known = {"beta": "10.0.0.9", "gamma": "[fd00::9]:1802"}
        resolver = attrs.evolve(self.resolver({"gamma": "127.0.0.3"}), address_of=known.get)
        self.assertEqual(self.resolve(resolver, "beta"), ["10.0.0.9:1801"])
        self.assertEqual(self.resolve(resolver, "gamma"), ["127.0.0.3:1801"])
        self.assertEqual(self.names.asked, [])
        self.assertEqual(self.resolve(resolver, "local"), ["[fe80::5%2]:1801"])
        resolver = attrs.evolve(resolver, hosts=HostTable.of({}))
        self.assertEqual(self.resolve(resolver, "gamma"), ["[fd00::9]:1802"])

    def test_what_a_next_hop_has(self) -> None:
        """MQQB-3.1.1.3.1.3-01: its name, its address as text, and, if routing has it, its identifier."""
        factory = DiallingSessionFactory(
            ALPHA, reactor=self.reactor, clock=ManualClock(), shares=SHARES, lookup=self.resolver().resolve
        )
        hops = [RoutedHop(BETA, "beta"), RoutedHop(GAMMA, "local")]
        found = self.successResultOf(Deferred.fromCoroutine(factory.next_hops(hops)))
        self.assertEqual(
            [(hop.identifier, hop.host_name, hop.address) for hop in found],
            [(BETA, "beta", "10.0.0.2"), (GAMMA, "local", "fe80::5%2")],
        )

    def test_directory_with_a_wrong_address(self) -> None:
        """An address of the directory that cannot be connected to is reported, and no other source is
        asked.
        """
        resolver = attrs.evolve(self.resolver(), address_of={"beta": "10.0.0.9:0"}.get)
        failed = self.failureResultOf(Deferred.fromCoroutine(resolver.resolve("beta")), HostNotFound)
        self.assertIn("beta: the address that the directory has", str(failed.value))
        self.assertEqual(self.names.asked, [])

    def test_a_name_has_an_address_or_several(self) -> None:
        """[MS-MQQB] 3.1.5.2.1: one next hop for each address of the name, each once."""
        self.assertEqual(self.resolve(self.resolver(), "beta"), ["10.0.0.2:1801"])
        self.assertEqual(
            self.resolve(self.resolver(), "both"),
            ["[fd00::3]:1801", "10.0.0.3:1801", "[fd00::4]:1801", "10.0.0.4:1801"],
        )
        self.assertEqual(self.resolve(self.resolver(), "local"), ["[fe80::5%2]:1801"])

    def test_the_family_of_our_own_address_comes_first(self) -> None:
        """A peer that listens on both families is reached on ours."""
        self.assertEqual(
            self.resolve(self.resolver(bind="10.0.0.1"), "both"),
            ["10.0.0.3:1801", "10.0.0.4:1801", "[fd00::3]:1801", "[fd00::4]:1801"],
        )

    def test_connects_from_the_address_of_the_session_endpoint(self) -> None:
        """Outgoing sessions leave from the address that the session endpoint is bound to."""
        [hop] = self.hops(self.resolver(bind="127.0.0.9"), "127.0.0.2")
        self.assertEqual(hop.bind_address, "127.0.0.9")
        self.assertEqual(self.connected(hop), ("127.0.0.2", 1801, ("127.0.0.9", 0)))

    def test_a_wildcard_binds_no_address(self) -> None:
        """Without an own address, or with one of the other family, the system chooses."""
        [hop] = self.hops(self.resolver(), "127.0.0.2")
        self.assertEqual(self.connected(hop), ("127.0.0.2", 1801, None))
        [hop] = self.hops(self.resolver(bind="127.0.0.9"), "::1")
        self.assertEqual(self.connected(hop), ("::1", 1801, None))

    def test_a_described_endpoint_is_used_as_it_is(self) -> None:
        """A Twisted client endpoint description says all, where it leaves from too."""
        resolver = self.resolver({"gamma": "tcp:127.0.0.7:1807:bindAddress=127.0.0.8"}, bind="127.0.0.9")
        [hop] = self.hops(resolver, "GAMMA")
        self.assertEqual(hop.address, "tcp:127.0.0.7:1807:bindAddress=127.0.0.8")
        self.assertEqual(self.connected(hop), ("127.0.0.7", 1807, ("127.0.0.8", 0)))

    def test_files_of_a_described_endpoint(self) -> None:
        """A next hop whose files cannot be used is reported, and others are tried; a key with a passphrase is
        never loaded, since OpenSSL would wait for input at the terminal.
        """
        directory = Path(self.mktemp())
        directory.mkdir()
        locked = TlsFiles.make(directory, "locked", passphrase=b"secret")
        wrong = directory / "wrong.pem"
        wrong.write_text("none")
        resolver = self.resolver(
            {
                "locked": f"tls:127.0.0.2:1801:{locked.arguments}",
                "older": f"ssl:127.0.0.2:1801:certKey={locked.certificate}:privateKey={locked.private_key}",
                "wrong": f"ssl:127.0.0.2:1801:certKey={wrong}",
            }
        )
        factory = DiallingSessionFactory(
            ALPHA, reactor=self.reactor, clock=ManualClock(), shares=SHARES, lookup=resolver.resolve
        )
        for name, reason in (("wrong", "which fails"), ("older", "passphrase"), ("locked", "passphrase")):
            failed = self.failureResultOf(Deferred.fromCoroutine(resolver.resolve(name)), HostNotFound)
            self.assertIn(reason, str(failed.value))
            hops = [RoutedHop(BETA, name), RoutedHop(GAMMA, "beta")]
            [found] = self.successResultOf(Deferred.fromCoroutine(factory.next_hops(hops)))
            self.assertEqual(found.address, "10.0.0.2")

    def test_an_unknown_name_is_reported(self) -> None:
        """An unknown name is MQ_ERROR_MACHINE_NOT_FOUND and says which."""
        error = self.failure("nowhere")
        self.assertIs(error.status, Status.MQ_ERROR_MACHINE_NOT_FOUND)
        self.assertIn("nowhere", error.detail)

    def test_an_invalid_name_is_reported(self) -> None:
        """A name that cannot be looked up at all is refused alike."""
        self.assertIn("bad..name", self.failure("bad..name").detail)

    def test_gives_up_after_a_while(self) -> None:
        """A silent name service delays a caller by ten seconds at most; a late answer is ignored."""
        answer = Deferred.fromCoroutine(self.resolver().resolve("silent"))
        self.reactor.advance(9.9)
        self.assertNoResult(answer)
        self.reactor.advance(0.2)
        self.assertIn("10 s", str(self.failureResultOf(answer, HostNotFound).value))
        self.names.waiting[0].resolutionComplete()

    def test_takes_what_came_in_time(self) -> None:
        """Addresses that came before the service fell silent are used."""
        answer = Deferred.fromCoroutine(self.resolver().resolve("silent"))
        self.names.waiting[0].addressResolved(IPv4Address("TCP", "10.0.0.9", 0))
        self.reactor.advance(10)
        self.assertEqual([str(hop) for hop in self.successResultOf(answer)], ["10.0.0.9:1801"])

    def test_takes_a_bounded_number_of_addresses(self) -> None:
        """A name with very many addresses costs no more than one with a few."""
        self.assertEqual(len(self.resolve(self.resolver(), "many")), 4)

    def test_a_question_can_be_cancelled(self) -> None:
        """A caller that cancels leaves nothing behind."""
        answer = Deferred.fromCoroutine(self.resolver().resolve("silent"))
        answer.cancel()
        self.failureResultOf(answer)
        self.assertEqual(self.reactor.getDelayedCalls(), [])
