"""Next hops of routing: each in its order, and no other queue manager instead."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.session import RoutedHop
from msmq.net.connector import Connector
from msmq.net.dialling_session_factory import DiallingSessionFactory
from msmq.net.resolver import HostNotFound, NextHopAddress
from msmq.net.session_factory import SessionFactory
from msmq.settings import SessionSettings
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from tests.builders import ALPHA, BETA, GAMMA
from tests.shares import SHARES

ADDRESSES = {
    "beta.example.com": ("127.0.0.3", "127.0.0.4"),
    "gamma.example.com": ("127.0.0.5", "127.0.0.6"),
    "delta": (),
}
TO_BETA = RoutedHop(BETA, "beta.example.com")
TO_GAMMA = RoutedHop(GAMMA, "gamma.example.com")


class _Listening(Protocol):
    """Reads what it is sent, and hangs up."""

    data = b""

    def dataReceived(self, data: bytes) -> None:
        self.data += data
        assert self.transport is not None
        self.transport.loseConnection()


class RoutedConnectorTests(SynchronousTestCase):
    """ALPHA dials what routing names."""

    settings = SessionSettings()

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock.reactor)
        self.here = self.network.host("127.0.0.2")
        self.lookups: list[str] = []
        self.hops: tuple[RoutedHop, ...] = (TO_BETA, TO_GAMMA)
        self.factory = DiallingSessionFactory(
            ALPHA,
            reactor=self.clock.reactor,
            clock=self.clock,
            shares=SHARES,
            lookup=self.look_up,
            settings=self.settings,
        )
        self.factory.broker = None
        self.connector: Connector = self.factory.routed_connector(lambda: self.hops, lambda: True)
        self.addCleanup(self.connector.stop)

    async def look_up(self, name: str) -> Sequence[NextHopAddress]:
        self.lookups.append(name)
        found = ADDRESSES[name]
        if not found:
            raise HostNotFound(f"{name}: unknown computer")
        return [NextHopAddress(each, 1801, self.here.client_endpoint(each, 1801)) for each in found]

    def listen(self, address: str, identifier: UUID) -> SessionFactory:
        """A queue manager at an address."""
        peer = SessionFactory(identifier, reactor=self.clock.reactor, clock=self.clock, shares=SHARES)
        self.successResultOf(self.network.host(address).server_endpoint(1801).listen(peer))
        return peer

    def connect(self, *, is_retry: bool = False) -> None:
        self.connector.connect(is_retry=is_retry)
        self.clock.advance(0.5)

    def reached(self) -> tuple[str, UUID | None] | None:
        """The address and the queue manager of an open session."""
        session = self.connector.session
        if session is None or not session.is_open:
            return None
        return session.remote_address, session.remote_identifier

    def test_one_entry_for_each_address(self) -> None:
        """MQQB-3.1.5.2.1-04: of each hop in its order; a new attempt begins anew."""
        self.connect()
        everywhere = ("127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6")
        self.assertEqual(self.connector.addresses, everywhere)
        self.assertEqual(self.lookups, ["beta.example.com", "gamma.example.com"])
        self.clock.advance(10)
        self.connect(is_retry=True)
        self.assertEqual(self.connector.addresses, everywhere)
        self.assertEqual(len(self.lookups), 4)

    def test_first_that_is_there(self) -> None:
        """MQQB-3.1.6.1-03 MQQB-3.1.5.4.2-02: the second address of the second hop, without asking again."""
        self.listen("127.0.0.6", GAMMA)
        self.connect()
        self.assertEqual(self.reached(), ("127.0.0.6", GAMMA))
        self.assertEqual(self.connector.addresses, ("127.0.0.6",))
        self.assertEqual(len(self.lookups), 2)

    def test_both_are_there(self) -> None:
        """MQQB-3.1.5.2.1-06: the first hop is chosen, whichever others are reachable."""
        self.listen("127.0.0.5", GAMMA)
        self.listen("127.0.0.3", BETA)
        self.connect()
        self.assertEqual(self.reached(), ("127.0.0.3", BETA))

    def test_another_answers(self) -> None:
        """MQQB-3.1.6.1-03: another queue manager at the address of BETA is refused; the next is tried."""
        self.listen("127.0.0.3", GAMMA)
        self.listen("127.0.0.4", BETA)
        self.connect()
        self.assertIsNone(self.reached())
        self.clock.advance(10)
        self.connect(is_retry=True)
        self.assertEqual(self.reached(), ("127.0.0.4", BETA))

    def test_whom_it_asks_for(self) -> None:
        """MQQB-3.1.5.2.1-06: the first packet to each address names the queue manager that belongs there."""
        heard: dict[str, _Listening] = {}
        for address in ("127.0.0.4", "127.0.0.5"):
            heard[address] = _Listening()
            endpoint = self.network.host(address).server_endpoint(1801)
            self.successResultOf(endpoint.listen(Factory.forProtocol(partial(heard.__getitem__, address))))
        for _ in range(2):
            self.connect(is_retry=True)
            self.clock.advance(10)
        for address, wanted, other in (("127.0.0.4", BETA, GAMMA), ("127.0.0.5", GAMMA, BETA)):
            self.assertIn(wanted.bytes_le, heard[address].data)
            self.assertNotIn(other.bytes_le, heard[address].data)

    def test_direct_name(self) -> None:
        """MQQB-3.1.5.2.1-07: any queue manager at its address is accepted, and none is looked up."""
        listening = _Listening()
        endpoint = self.network.host("127.0.0.9").server_endpoint(1801)
        self.successResultOf(endpoint.listen(Factory.forProtocol(lambda: listening)))
        ADDRESSES["127.0.0.9"] = ("127.0.0.9",)
        self.addCleanup(ADDRESSES.pop, "127.0.0.9")
        connector = self.factory.connector("127.0.0.9", lambda: True)
        self.addCleanup(connector.stop)
        connector.connect()
        self.clock.advance(0.5)
        server_guid = slice(36, 52)
        self.assertEqual(listening.data[server_guid], bytes(16))
        self.assertEqual(self.lookups, ["127.0.0.9"])

    def test_unknown_host(self) -> None:
        """A hop that cannot be resolved is passed over."""
        self.hops = (RoutedHop(UUID(int=0xD), "delta"), TO_BETA)
        self.listen("127.0.0.3", BETA)
        self.connect()
        self.assertEqual(self.reached(), ("127.0.0.3", BETA))

    def test_no_hop_is_found(self) -> None:
        """MQQB-3.1.6.1-02: it is tried again, with the hops that routing has by then."""
        self.hops = (RoutedHop(UUID(int=0xD), "delta"),)
        self.listen("127.0.0.3", BETA)
        self.connect()
        self.assertEqual((self.reached(), self.connector.addresses), (None, ()))
        self.clock.advance(10)
        self.hops = (TO_BETA,)
        self.clock.advance(10)
        self.assertEqual(self.reached(), ("127.0.0.3", BETA))

    def test_no_hops(self) -> None:
        """An empty list of hops is a failed attempt."""
        self.hops = ()
        self.connect()
        self.assertEqual((self.reached(), self.lookups), (None, []))
