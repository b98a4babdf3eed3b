"""[MS-MQQB] 3.1.5.2.2: an attempt to open a session, with and without a Ping Request before it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.net.connector import Connector
from msmq.net.dialling_session_factory import DiallingSessionFactory
from msmq.net.ping import Pinger, PingResponderProtocol
from msmq.net.resolver import NextHopAddress
from msmq.net.session_factory import SessionFactory
from msmq.session.state import SessionState
from msmq.settings import SessionSettings
from msmq.structures.internal.establish_connection import EstablishConnection
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from msmq.testing.streams import Conditions
from tests.shares import SHARES

OURS = UUID("557358d1-9150-9595-4997-b6e611ea26c6")
THEIRS = UUID("43cd8907-394c-8f11-4445-9078909ea0fc")
ALPHA, BETA = "10.0.0.1", "10.0.0.2"


class PingBeforeSessionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock.reactor, conditions=Conditions(delay=0.01))
        self.alpha, self.beta = self.network.host(ALPHA), self.network.host(BETA)
        self.accepting = SessionFactory(THEIRS, reactor=self.clock.reactor, clock=self.clock, shares=SHARES)
        self.beta.server_endpoint(1801).listen(self.accepting)

    def respond(self, settings: SessionSettings | None = None) -> None:
        responder = PingResponderProtocol(THEIRS, clock=self.clock, settings=settings)
        self.beta.listenUDP(3527, responder)

    def attempt(self, *, pings: bool, is_retry: bool = False) -> Connector:
        settings = SessionSettings(ping_before_session=pings)
        self.pinger = Pinger(OURS, reactor=self.alpha, clock=self.clock, settings=settings)

        async def lookup(host: str) -> Sequence[NextHopAddress]:
            return [NextHopAddress(host, 1801, self.alpha.client_endpoint(host, 1801))]

        factory = DiallingSessionFactory(
            OURS,
            reactor=self.clock.reactor,
            clock=self.clock,
            shares=SHARES,
            lookup=lookup,
            probe=self.pinger.would_accept,
            settings=settings,
        )
        connector = factory.connector(BETA, lambda: True)
        connector.connect(is_retry=is_retry)
        return connector

    def first_packet(self) -> EstablishConnection:
        """The first packet on the connection, which has to be an EstablishConnection."""
        [link] = self.network.links
        return EstablishConnection.from_bytes(link.initiator.data[:572])

    def test_session_opens_with_and_without_a_ping(self) -> None:
        """MQQB-2.1-01: off, an EstablishConnection is the first thing; on, a datagram to UDP 3527 is."""
        self.respond()
        connector = self.attempt(pings=False)
        self.clock.advance(1.0)
        self.assertEqual((connector.state, self.network.datagrams), (SessionState.OPEN, []))
        self.assertTrue(self.first_packet().is_without_ping)
        self.setUp()
        self.respond()
        connector = self.attempt(pings=True)
        [request] = self.network.datagrams
        self.assertEqual((request.destination, self.network.links), ((BETA, 3527), []))
        self.clock.advance(1.0)
        self.assertEqual(connector.state, SessionState.OPEN)
        self.assertFalse(self.first_packet().is_without_ping)

    def test_acceptor_without_a_responder(self) -> None:
        """MQQB-2.1.2-04: the request is not answered; a session opens all the same."""
        silent = self.attempt(pings=True)
        self.clock.advance(1.0)
        self.assertEqual((silent.state, self.network.links), (SessionState.WAITING_RECONNECT, []))
        connector = self.attempt(pings=False)
        self.clock.advance(1.0)
        self.assertEqual(connector.state, SessionState.OPEN)

    def test_retry_sends_no_ping(self) -> None:
        """An acceptor that never answers pings is reached by the attempt that follows the failed one."""
        connector = self.attempt(pings=True, is_retry=True)
        self.clock.advance(1.0)
        self.assertEqual((connector.state, self.network.datagrams), (SessionState.OPEN, []))

    def test_refusal_saves_the_connection(self) -> None:
        """An acceptor that says in its response that it is full is not dialled."""
        self.respond(SessionSettings(max_sessions=0))
        connector = self.attempt(pings=True)
        self.clock.advance(0.1)
        self.assertEqual((connector.state, self.network.links), (SessionState.WAITING_RECONNECT, []))
