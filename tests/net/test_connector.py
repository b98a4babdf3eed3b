"""[MS-MQQB] 3.1.5.2 and 3.1.6.1: connections to a next hop, its addresses in order, and the waits in
between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.net.connector import Connector
from msmq.net.resolver import NextHopAddress
from msmq.net.session import SessionProtocol
from msmq.net.session_factory import SessionFactory
from msmq.session.descriptor_shares import DescriptorShares
from msmq.session.effects import CloseReason
from msmq.session.outgoing import OutgoingPacket
from msmq.session.state import SessionState
from msmq.settings import SessionSettings
from msmq.structures.management import next_hops_property
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from tests.builders import ALPHA, BETA, GAMMA, user_packet
from tests.shares import SHARES


class ConnectorTestCase(SynchronousTestCase):
    """ALPHA dials a name with several addresses, and takes note of every question and every call."""

    settings = SessionSettings()
    addresses: Sequence[str] = ("127.0.0.3",)

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock.reactor)
        self.here = self.network.host("127.0.0.2")
        self.resolved: list[float] = []
        self.backlog = True
        self.factory = SessionFactory(
            ALPHA, reactor=self.clock.reactor, clock=self.clock, shares=SHARES, settings=self.settings
        )
        self.factory.broker = None
        self.connector = Connector(self.factory, self.resolve, lambda: self.backlog)
        self.started = self.clock.now().monotonic

    async def resolve(self) -> Sequence[NextHopAddress]:
        self.resolved.append(self.clock.now().monotonic - self.started)
        return [
            NextHopAddress(address, 1801, self.here.client_endpoint(address, 1801))
            for address in self.addresses
        ]

    def listen(self, address: str, factory: Factory | None = None) -> SessionFactory | Factory:
        """Listen at an address, as a queue manager or another server."""
        peer = factory or SessionFactory(BETA, reactor=self.clock.reactor, clock=self.clock, shares=SHARES)
        self.successResultOf(self.network.host(address).server_endpoint(1801).listen(peer))
        return peer

    def run_for(self, seconds: float) -> None:
        """Let time pass, and do what a broker does when the retry timer expires."""
        step = 0.5
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            session = self.connector.session
            if session is not None and session.state.name == "CLOSED" and not self.connector.is_trying:
                self.connector.connect(is_retry=True)

    def reached(self) -> str | None:
        """Where a session is open."""
        session = self.connector.session
        return session.remote_address if session is not None and session.is_open else None


class _Refusing(Protocol):
    """Accepts a connection and closes it."""

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.loseConnection()


class AddressesTests(ConnectorTestCase):
    """NextHopCollection of a name with two addresses."""

    addresses: Sequence[str] = ("127.0.0.3", "127.0.0.4")

    def test_the_first_address_is_dialled_first(self) -> None:
        """RemoteQMAddress is that of the first NextHop (MQQB-3.1.5.2.1-06)."""
        self.listen("127.0.0.3")
        self.listen("127.0.0.4")
        self.connector.connect()
        self.clock.advance(1)
        self.assertEqual(self.reached(), "127.0.0.3")

    def test_next_hops_are_written_as_the_document_has_them(self) -> None:
        """MQQB-3.1.5.2.1-05: IP= or IPv6= and the address, for each that was found."""
        self.addresses = ("10.0.0.5", "2001:db8::6")
        self.connector.connect()
        self.clock.advance(1)
        hops = next_hops_property(self.connector.addresses)
        self.assertEqual(hops.value, ("IP=10.0.0.5", "IPv6=2001:db8::6"))

    def test_the_next_address_is_tried_without_asking_again(self) -> None:
        """The first one does not listen (MQQB-3.1.6.1-03)."""
        self.listen("127.0.0.4")
        self.connector.connect()
        self.clock.advance(1)
        self.assertEqual((self.reached(), self.resolved), ("127.0.0.4", [0.0]))

    def test_an_address_at_which_the_handshake_fails_is_passed_over(self) -> None:
        """The next address is dialled after the retry time, and the name is not resolved for it.

        MQQB-3.1.6.1-03.
        """
        self.listen("127.0.0.3", Factory.forProtocol(_Refusing))
        self.listen("127.0.0.4")
        self.connector.connect()
        self.run_for(1)
        self.assertIsNone(self.reached())
        self.run_for(5)
        self.assertEqual((self.reached(), self.resolved), ("127.0.0.4", [0.0]))

    def test_an_open_session_without_acknowledgements_is_passed_over(self) -> None:
        """The next address is dialled then; with none that answers, the first one in the same attempt.

        MQQB-3.1.6.1-03.
        """
        self.listen("127.0.0.3")
        self.connector.connect()
        self.run_for(1)
        self.assertEqual(self.reached(), "127.0.0.3")
        assert self.connector.session is not None
        self.connector.session.connectionLost()
        self.run_for(6)
        self.assertEqual((self.reached(), self.resolved), ("127.0.0.3", [0.0, 6.0]))
        self.listen("127.0.0.4")
        self.connector.session.connectionLost()
        self.run_for(11)
        self.assertEqual((self.reached(), self.resolved), ("127.0.0.4", [0.0, 6.0]))

    def test_when_all_have_failed_the_name_is_resolved_again(self) -> None:
        """With nothing left to try an attempt begins from its beginning (MQQB-3.1.6.1-02)."""
        self.connector.connect()
        self.run_for(6)
        self.assertEqual(self.resolved, [0.0, 5.0])
        self.addresses = ("127.0.0.9",)
        self.listen("127.0.0.9")
        self.run_for(20)
        self.assertEqual((self.reached(), self.resolved), ("127.0.0.9", [0.0, 5.0, 15.0]))

    def test_an_open_session_leaves_one_address(self) -> None:
        """NextHops is the address that is connected, and no other (MQQB-3.1.5.4.2-02)."""
        self.listen("127.0.0.4")
        self.connector.connect()
        self.assertEqual(self.connector.addresses, ("127.0.0.3", "127.0.0.4"))
        self.clock.advance(1)
        self.assertEqual(self.connector.addresses, ("127.0.0.4",))
        assert self.connector.session is not None
        self.connector.session.close()
        self.clock.advance(1)
        self.assertEqual(self.connector.addresses, ("127.0.0.3", "127.0.0.4"))

    def test_a_session_resolves_once(self) -> None:
        """Ten messages on one session ask the name service once (MQQB-3.1.5.2.1-08)."""
        self.listen("127.0.0.3")
        self.connector.connect()
        self.clock.advance(1)
        session = self.connector.session
        assert session is not None
        for _ in range(10):
            session.send([OutgoingPacket(user_packet())])
            self.connector.connect()
            self.clock.advance(1)
        self.assertEqual(session.statistics.sent, 10)
        self.assertEqual(self.resolved, [0.0])


class RetryTests(ConnectorTestCase):
    """[MS-MQQB] 3.1.2.3: the Session Retry Connect Timer."""

    def test_waits_grow(self) -> None:
        """Five seconds after the first failure, then twice as long each time, up to a minute."""
        self.connector.connect()
        self.run_for(300)
        waits = [later - earlier for earlier, later in zip(self.resolved, self.resolved[1:], strict=False)]
        self.assertEqual(waits, [5, 10, 20, 40, 60, 60, 60])

    def open_late(self) -> SessionProtocol:
        """A session that opens after several failures."""
        self.connector.connect()
        self.run_for(20)
        self.listen("127.0.0.3")
        self.run_for(40)
        self.assertEqual(self.reached(), "127.0.0.3")
        assert self.connector.session is not None
        return self.connector.session

    def lose(self, session: SessionProtocol) -> float:
        """The connection of a session breaks: the seconds until the next attempt."""
        lost = self.clock.now().monotonic - self.started
        session.connectionLost()
        due = self.connector.next_attempt
        assert due is not None
        self.run_for(61)
        self.assertEqual(self.resolved[-1], due - self.started)
        return self.resolved[-1] - lost

    def test_an_acknowledgement_ends_the_growth(self) -> None:
        """The first wait after a session that transferred a message is the short one again."""
        session = self.open_late()
        session.send([OutgoingPacket(user_packet())])
        self.run_for(20)
        self.assertEqual(session.statistics.unacknowledged, 0)
        self.assertEqual(self.lose(session), 5.0)

    def test_an_open_session_alone_does_not(self) -> None:
        """The peer accepts sessions, and no message."""
        session = self.open_late()
        session.send([OutgoingPacket(user_packet())])
        self.assertEqual(self.lose(session), 40.0)

    def test_a_session_that_this_side_closes(self) -> None:
        """The next attempt is not when its connection is aborted, which is due earlier."""
        self.open_late().close(CloseReason.OPERATOR)
        self.assertEqual(self.connector.next_attempt, self.clock.now().monotonic + 40)

    def test_a_new_message_begins_anew(self) -> None:
        """With a first message to send it dials at once, and waits five seconds at first."""
        self.connector.connect()
        self.run_for(40)
        self.backlog = False
        self.run_for(0)
        self.clock.advance(120)
        count = len(self.resolved)
        self.backlog = True
        self.connector.connect()
        self.clock.advance(0)
        self.assertEqual(len(self.resolved), count + 1)
        self.run_for(6)
        self.assertEqual(self.resolved[-1] - self.resolved[-2], 5.0)

    def test_a_peer_that_shows_itself_is_dialled_at_once(self) -> None:
        """A reachable peer is not waited for a minute."""
        self.connector.connect()
        self.run_for(100)
        self.listen("127.0.0.3")
        self.connector.peer_is_there()
        self.clock.advance(1)
        self.assertEqual(self.reached(), "127.0.0.3")

    def test_a_peer_that_shows_itself_changes_nothing_else(self) -> None:
        """Neither a session that is open, nor a pending attempt, nor one that is not wanted."""
        self.connector.peer_is_there()
        self.assertEqual(self.resolved, [])
        self.listen("127.0.0.3")
        self.connector.connect()
        self.connector.peer_is_there()
        self.clock.advance(1)
        self.connector.peer_is_there()
        self.clock.advance(1)
        self.assertEqual((self.reached(), self.resolved), ("127.0.0.3", [0.0]))


class ShortWaitsTests(ConnectorTestCase):
    """With waits of an operator's own."""

    settings = SessionSettings(session_retry=0.5, session_retry_maximum=2)

    def test_both_ends_are_configured(self) -> None:
        """The first wait and the longest."""
        self.connector.connect()
        self.run_for(10)
        self.assertEqual(self.resolved[:6], [0.0, 0.5, 1.5, 3.5, 5.5, 7.5])


class FirstIsLongestTests(ConnectorTestCase):
    """A longest wait that is shorter than the first."""

    settings = SessionSettings(session_retry=10, session_retry_maximum=2)

    def test_the_first_wait_holds(self) -> None:
        """No wait is shorter than the first."""
        self.connector.connect()
        self.run_for(31)
        self.assertEqual(self.resolved, [0.0, 10.0, 20.0, 30.0])


class DescriptorTests(ConnectorTestCase):
    """Dialled sessions have a limit by the descriptors of the process: here 2, of 8."""

    addresses = ("127.0.0.3",)

    def setUp(self) -> None:
        super().setUp()
        self.listen("127.0.0.3")
        self.factory = SessionFactory(
            ALPHA, reactor=self.clock.reactor, clock=self.clock, shares=DescriptorShares.of(8)
        )
        self.connectors = [Connector(self.factory, self.resolve, lambda: False) for _ in range(3)]
        for connector in self.connectors:
            self.addCleanup(connector.stop)

    def test_the_idlest_session_makes_way(self) -> None:
        """The third dial closes the session on which nothing has passed for longest."""
        for connector in self.connectors:
            connector.connect()
            self.clock.advance(1)
        states = [
            connector.session is not None and connector.session.is_open for connector in self.connectors
        ]
        self.assertEqual(states, [False, True, True])
        use = self.factory.descriptors
        self.assertEqual((use.outgoing, use.outgoing_limit, use.evicted), (2, 2, 1))

    def test_attempts_that_wait_keep_their_descriptors(self) -> None:
        """While two attempts are on, the third fails, and is made again after the wait of any other."""
        attempts = [self.factory.build(is_initiator=True) for _ in range(2)]
        for attempt in attempts:
            self.assertTrue(self.factory.reserve_descriptor(attempt))
        third = self.connectors[2]
        third.connect()
        self.clock.advance(1)
        self.assertIsNot(third.state, SessionState.OPEN)
        self.assertEqual(self.factory.descriptors.evicted, 0)
        self.factory.release_descriptor(attempts[0])
        self.clock.advance(10)
        third.connect(is_retry=True)
        self.clock.advance(1)
        self.assertTrue(third.session is not None and third.session.is_open)

    def test_descriptors_come_back(self) -> None:
        """Of an attempt that failed, one that was stopped, and a session whose connection has ended."""
        connector = self.connectors[0]
        connector.connect()
        self.clock.advance(1)
        assert connector.session is not None
        self.assertEqual(self.factory.descriptors.outgoing, 1)
        connector.session.cut(CloseReason.OPERATOR)
        self.clock.advance(1)
        self.assertEqual(self.factory.descriptors.outgoing, 0)
        self.network.host("127.0.0.99")
        self.addresses = ("127.0.0.99",)
        self.connectors[1].connect()
        self.clock.advance(60)
        self.assertEqual(self.factory.descriptors.outgoing, 0)
        stopped = Connector(self.factory, Silent(Deferred()).resolve, lambda: False)
        stopped.connect()
        self.assertEqual(self.factory.descriptors.outgoing, 1)
        stopped.stop()
        self.assertEqual(self.factory.descriptors.outgoing, 0)


@implementer(IStreamClientEndpoint)
class Silent:
    """An endpoint that does not answer."""

    def __init__(self, answer: Deferred[Any]) -> None:
        self._answer = answer

    async def resolve(self) -> Sequence[NextHopAddress]:
        return [NextHopAddress("127.0.0.98", 1801, self)]

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[Any]:
        return self._answer


class WrongPeerTests(ConnectorTestCase):
    """Another queue manager answers at the address of the expected one."""

    def test_another_identity_is_no_session(self) -> None:
        """It is closed, recorded, and tried again with growing waits."""
        self.connector = Connector(
            self.factory, self.resolve, lambda: self.backlog, expected_identifier=GAMMA
        )
        self.listen("127.0.0.3")
        self.connector.connect()
        self.run_for(36)
        self.assertIsNone(self.reached())
        self.assertEqual(self.resolved, [0.0, 5.0, 15.0, 35.0])
