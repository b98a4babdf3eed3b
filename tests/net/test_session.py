"""Tests of the Twisted session protocol and factory, over in-memory transports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport, StringTransportWithDisconnection
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.net.session import SessionProtocol
from msmq.net.session_factory import SessionFactory
from msmq.session.descriptor_shares import DescriptorShares
from msmq.session.effects import CloseReason
from msmq.session.outgoing import OutgoingPacket
from msmq.session.state import SessionState
from msmq.settings import SessionSettings
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.clock import ManualClock
from tests.builders import (
    ALPHA,
    BETA,
    establish,
    established,
    parameters,
    session_ack,
    session_header,
    user_packet,
)
from tests.shares import SHARES


class Recording(SessionProtocol):
    """A session that writes down every hook."""

    def __init__(self, factory: SessionFactory, session: object) -> None:
        super().__init__(factory, session)  # type: ignore[arg-type]
        self.events: list[object] = []
        self.gate: Deferred[None] | None = None
        self.breaks_on = b""

    def connection_accepted(self) -> None:
        self.events.append("accepted")

    def session_opened(self) -> None:
        self.events.append("opened")

    def message_arriving(self, message: UserMessageView) -> None:
        if self.breaks_on and bytes(message.body) == self.breaks_on:
            raise RuntimeError("this broker has a bug")
        self.events.append(("arriving", bytes(message.body)))

    def messages_arriving(
        self, messages: Sequence[UserMessageView], first_recoverable: int
    ) -> Deferred[None] | None:
        self.events.append(("batch", len(messages)))
        return self.gate

    def message_sent(self, message: OutgoingMessage) -> None:
        self.events.append(("sent", message.packet))

    def message_acknowledged(self, message: OutgoingMessage) -> None:
        self.events.append(("acknowledged", message.packet))

    def session_closed(
        self,
        reason: CloseReason,
        unacknowledged: Sequence[OutgoingMessage],
        error: RemoteProtocolError | None,
    ) -> None:
        self.events.append(("closed", reason, len(unacknowledged)))


class Side:
    """One accepted connection at BETA, over a transport in memory."""

    def __init__(self, factory: SessionFactory, host: str = "127.0.0.9", port: int = 40000) -> None:
        kind: Any = IPv6Address if ":" in host else IPv4Address
        built = factory.buildProtocol(kind("TCP", host, port))
        assert isinstance(built, SessionProtocol)
        self.protocol = built
        self.transport = StringTransportWithDisconnection(
            hostAddress=IPv4Address("TCP", "127.0.0.1", 1801),
            peerAddress=kind("TCP", host, port),
        )
        self.transport.protocol = built
        built.makeConnection(self.transport)

    def shake_hands(self) -> None:
        """Finish the handshake as ALPHA, and forget what was written."""
        self.protocol.dataReceived(establish(ALPHA))
        self.protocol.dataReceived(parameters())
        self.transport.clear()


class SessionProtocolTests(SynchronousTestCase):
    """Behaviour of a session towards peers and brokers."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.factory = self.make_factory()

    def make_factory(self, settings: SessionSettings | None = None) -> SessionFactory:
        factory = SessionFactory(
            BETA, reactor=self.clock.reactor, clock=self.clock, shares=SHARES, settings=settings
        )
        factory.protocol = Recording
        return factory

    def opened(self) -> tuple[Side, Recording]:
        side = Side(self.factory)
        side.shake_hands()
        assert isinstance(side.protocol, Recording)
        side.protocol.events.clear()
        return side, side.protocol

    def test_answers_the_handshake(self) -> None:
        """An initiator on a plain socket gets the responses of the documents."""
        side = Side(self.factory)
        self.assertEqual(side.transport.value(), b"")
        side.protocol.dataReceived(establish(ALPHA, time_stamp=77))
        self.assertEqual(side.transport.value(), established(ALPHA, BETA, time_stamp=77))
        side.transport.clear()
        side.protocol.dataReceived(parameters(1496, 120000, 64))
        self.assertEqual(side.transport.value(), parameters(1496, 120000, 64))
        assert isinstance(side.protocol, Recording)
        self.assertEqual(side.protocol.events, ["accepted", "opened"])
        self.assertEqual(side.protocol.remote_address, "127.0.0.9")

    def test_a_hook_refuses_a_connection(self) -> None:
        """A connection that the first hook closes, or that it fails for, is not answered."""

        class Closing(Recording):
            def connection_accepted(self) -> None:
                self.close(CloseReason.REFUSED)

        class Failing(Recording):
            def connection_accepted(self) -> None:
                raise KeyError("who is this")

        for kind, reason in ((Closing, CloseReason.REFUSED), (Failing, CloseReason.INTERNAL_ERROR)):
            self.factory.protocol = kind
            side = Side(self.factory)
            side.protocol.dataReceived(establish(ALPHA) + parameters() + user_packet(b"1"))
            self.assertEqual((side.transport.value(), side.transport.connected), (b"", False))
            assert isinstance(side.protocol, Recording)
            self.assertEqual(side.protocol.events, [("closed", reason, 0)])
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_acknowledges_within_half_the_ack_timeout(self) -> None:
        """A single message is acknowledged after 60 of 120 seconds."""
        side = Side(self.factory)
        side.protocol.dataReceived(establish(ALPHA))
        side.protocol.dataReceived(parameters(1496, 120000, 64))
        side.transport.clear()
        side.protocol.dataReceived(user_packet(b"body"))
        self.clock.advance(59.9)
        self.assertEqual(side.transport.value(), b"")
        self.clock.advance(0.1)
        self.assertEqual(side.transport.value(), session_ack(session_header(received=1)))

    def test_reports_every_message(self) -> None:
        """The hooks see each arrival and the batch that it came in."""
        side, protocol = self.opened()
        side.protocol.dataReceived(user_packet(b"1") + user_packet(b"2"))
        self.assertEqual(protocol.events, [("arriving", b"1"), ("arriving", b"2"), ("batch", 2)])

    def test_reports_what_it_sends(self) -> None:
        """A sent message is reported when it is written, and again when the peer has it."""
        side, protocol = self.opened()
        protocol.send([OutgoingPacket(user_packet(b"1"))])
        self.assertEqual(side.transport.value(), user_packet(b"1"))
        side.protocol.dataReceived(session_ack(session_header(received=1)))
        expected = [("sent", user_packet(b"1")), ("acknowledged", user_packet(b"1"))]
        self.assertEqual(protocol.events, expected)

    def test_a_deferred_suspends_the_session(self) -> None:
        """Until a hook is done nothing is read and nothing acknowledged; then all goes on in order."""
        side, protocol = self.opened()
        gate: Deferred[None] = Deferred()
        protocol.gate = gate
        side.protocol.dataReceived(user_packet(b"x") * 32)
        self.assertEqual(side.transport.value(), b"")
        self.assertEqual(side.transport.producerState, "paused")
        protocol.gate = None
        side.protocol.dataReceived(user_packet(b"y"))
        self.assertNotIn(("arriving", b"y"), protocol.events)
        gate.callback(None)
        self.assertEqual(side.transport.producerState, "producing")
        self.assertEqual(side.transport.value(), session_ack(session_header(received=32)))
        self.assertIn(("arriving", b"y"), protocol.events)

    def test_a_failing_hook_closes_only_its_session(self) -> None:
        """An exception of a broker is logged and ends the session it happened on."""
        other, _ = self.opened()
        side, protocol = self.opened()
        protocol.breaks_on = b"bad"
        side.protocol.dataReceived(user_packet(b"bad"))
        self.assertEqual(protocol.events[-1], ("closed", CloseReason.INTERNAL_ERROR, 0))
        self.assertFalse(side.transport.connected)
        self.assertTrue(other.transport.connected)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_failing_deferred_closes_the_session(self) -> None:
        """A hook that fails later is not a different."""
        side, protocol = self.opened()
        gate: Deferred[None] = Deferred()
        protocol.gate = gate
        side.protocol.dataReceived(user_packet(b"1"))
        gate.errback(Failure(RuntimeError("later")))
        self.assertEqual(protocol.events[-1], ("closed", CloseReason.INTERNAL_ERROR, 0))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_closes_on_garbage(self) -> None:
        """Data that is not a packet ends the connection, without an answer."""
        side, protocol = self.opened()
        side.protocol.dataReceived(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        self.assertEqual(protocol.events, [("closed", CloseReason.MALFORMED_PACKET, 0)])
        self.assertEqual(side.transport.value(), b"")
        self.assertFalse(side.transport.connected)

    def test_closes_on_a_message_before_the_handshake(self) -> None:
        """The beginning of a user message is enough; it is not even buffered (MQQB-2.1.1-05)."""
        side = Side(self.factory)
        side.protocol.dataReceived(user_packet(bytes(100000))[:20])
        self.assertFalse(side.transport.connected)

    def test_takes_a_message_right_behind_the_parameters(self) -> None:
        """An initiator need not wait for our answer to be read."""
        side = Side(self.factory)
        side.protocol.dataReceived(establish(ALPHA) + parameters() + user_packet(b"eager"))
        assert isinstance(side.protocol, Recording)
        self.assertIn(("arriving", b"eager"), side.protocol.events)

    def test_closes_a_silent_connection(self) -> None:
        """Sixty seconds without a word (MQQB-3.1.2-01)."""
        side = Side(self.factory)
        self.clock.advance(59.9)
        self.assertTrue(side.transport.connected)
        self.clock.advance(0.2)
        self.assertFalse(side.transport.connected)

    def test_a_lost_connection_gives_messages_back(self) -> None:
        """Unacknowledged messages are reported when the session closes."""
        _, protocol = self.opened()
        protocol.send([OutgoingPacket(user_packet(b"1"))])
        protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(protocol.events[-1], ("closed", CloseReason.CONNECTION_LOST, 1))
        self.assertEqual(self.factory.connections, ())

    def test_leaves_no_timer_behind(self) -> None:
        """A closed session has no delayed call."""
        side, protocol = self.opened()
        side.transport.loseConnection()
        protocol.connectionLost(Failure(ConnectionDone()))
        self.clock.advance(0)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])

    def test_takes_initiators_from_any_port(self) -> None:
        """A privileged source port is as good as an ephemeral one (MQQB-2.1.1-03, MQQB-2.1.1-10)."""
        for port in (1023, 50000):
            side = Side(self.factory, port=port)
            side.shake_hands()
            self.assertTrue(side.protocol.is_open)

    def test_a_connection_without_an_address(self) -> None:
        """One to a unix socket is shown by its path, which its peer chooses, so it is not taken for a host,
        nor for a line of the log.
        """
        for name, text in (
            (b"/run/beta", "/run/beta"),
            (b"10.0.0.5", "unix:10.0.0.5"),
            (b"::1", "unix:::1"),
            (b"/run/a\nb\xff", "/run/a\\nb\\udcff"),
            (b"\0abstract", "unix:\\x00abstract"),
        ):
            protocol = self.factory.build(is_initiator=True)
            protocol.makeConnection(StringTransport(peerAddress=UNIXAddress(name)))
            self.assertEqual(protocol.remote_address, text)

    def test_a_slow_peer_gets_no_more(self) -> None:
        """While the transport is full there is no capacity."""
        _, protocol = self.opened()
        self.assertEqual(protocol.capacity, 64)
        protocol.pauseProducing()
        self.assertEqual(protocol.capacity, 0)
        protocol.resumeProducing()
        self.assertEqual(protocol.capacity, 64)

    def test_sending_from_within_a_hook_keeps_the_order(self) -> None:
        """A reply that a hook sends follows what was already to be written."""

        class Echo(Recording):
            def message_arriving(self, message: UserMessageView) -> None:
                self.send([OutgoingPacket(message.packet)])

        self.factory.protocol = Echo
        side = Side(self.factory)
        side.protocol.dataReceived(establish(ALPHA) + parameters(window_size=2))
        side.transport.clear()
        side.protocol.dataReceived(user_packet(b"1"))
        acknowledged = session_ack(session_header(received=1))
        self.assertEqual(side.transport.value(), acknowledged + user_packet(b"1"))


class SessionFactoryTests(SynchronousTestCase):
    """Limits on what peers may open."""

    def make(self, settings: SessionSettings) -> SessionFactory:
        self.clock = ManualClock()
        return SessionFactory(
            BETA, reactor=self.clock.reactor, clock=self.clock, shares=SHARES, settings=settings
        )

    def test_refuses_sessions_beyond_the_limit(self) -> None:
        """With a limit of two, the third initiator is refused.

        MQQB-2.2.1-08, MQQB-2.2.1-09.
        """
        factory = self.make(SessionSettings(max_sessions=2))
        for _ in range(2):
            Side(factory).shake_hands()
        third = Side(factory)
        third.protocol.dataReceived(establish(ALPHA))
        self.assertEqual(third.transport.value(), established(ALPHA, BETA, refused=True))
        self.assertFalse(third.transport.connected)

    def test_takes_a_thousand_sessions_by_default(self) -> None:
        """The default sets no limit that a site would meet (MQQB-2.2.1-09)."""
        factory = self.make(SessionSettings())
        sides = [Side(factory, f"127.0.{number // 200}.{number % 200}") for number in range(1000)]
        for side in sides:
            side.shake_hands()
        open_sessions = [side for side in sides if side.protocol.session.state is SessionState.OPEN]
        self.assertEqual(len(open_sessions), 1000)

    def test_bounds_handshakes(self) -> None:
        """Silent connections cannot pile up; the oldest is closed for the newest."""
        factory = self.make(SessionSettings(max_handshakes=3))
        sides = [Side(factory) for _ in range(5)]
        self.assertEqual([side.transport.connected for side in sides], [False, False, True, True, True])
        self.assertEqual(len(factory.connections), 3)

    def test_bounds_handshakes_of_connections_that_linger(self) -> None:
        """One that is being closed, and whose connection has not ended yet, is not closed a second time."""
        factory = self.make(SessionSettings(max_handshakes=2))
        transports = []
        for number in range(4):
            built = factory.buildProtocol(IPv4Address("TCP", f"127.0.1.{number}", 40000))
            assert built is not None
            # It says that it is to be closed, and goes on.
            transports.append(StringTransport(peerAddress=IPv4Address("TCP", f"127.0.1.{number}", 40000)))
            built.makeConnection(transports[-1])
        self.assertEqual([each.disconnecting for each in transports], [True, True, False, False])

    def test_silent_connections_do_not_lock_out_others(self) -> None:
        """However many are silent, a peer that sends is served, and stays."""
        factory = self.make(SessionSettings(max_handshakes=3))
        for _ in range(3):
            Side(factory)
        speaking = Side(factory)
        speaking.shake_hands()
        for _ in range(10):
            Side(factory)
        self.assertTrue(speaking.protocol.is_open)
        self.assertTrue(speaking.transport.connected)

    def test_a_finished_handshake_makes_room(self) -> None:
        """Open sessions do not count as handshakes."""
        factory = self.make(SessionSettings(max_handshakes=1))
        Side(factory).shake_hands()
        Side(factory).shake_hands()

    def test_bounds_connections_of_one_host(self) -> None:
        """One address cannot take all; others still get in, and closing makes room."""
        factory = self.make(SessionSettings(max_connections_per_host=2))
        first, _ = Side(factory), Side(factory)
        self.assertIsNone(factory.buildProtocol(IPv4Address("TCP", "127.0.0.9", 1)))
        self.assertIsNotNone(factory.buildProtocol(IPv4Address("TCP", "127.0.0.10", 1)))
        first.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertIsNotNone(factory.buildProtocol(IPv4Address("TCP", "127.0.0.9", 1)))

    def test_a_unix_socket_is_one_host(self) -> None:
        """Its peers choose their paths, which give none of them more connections, or memory, than a host."""
        factory = self.make(SessionSettings(max_connections_per_host=3))
        for path in (b"/run/a", b"10.0.0.5", None):
            connecting = UNIXAddress(path)
            protocol = factory.buildProtocol(connecting)
            assert protocol is not None, "the limit is not reached"
            protocol.makeConnection(StringTransport(peerAddress=connecting))
        self.assertIsNone(factory.buildProtocol(UNIXAddress(b"/run/b")))
        self.assertEqual(factory.refused, {"max_connections_per_host": 1})
        self.assertIsNotNone(factory.buildProtocol(IPv4Address("TCP", "10.0.0.5", 1)))

    def limited(self, descriptors: int) -> SessionFactory:
        """A factory of a process with this limit of descriptors."""
        self.clock = ManualClock()
        return SessionFactory(
            BETA, reactor=self.clock.reactor, clock=self.clock, shares=DescriptorShares.of(descriptors)
        )

    def test_two_hosts_do_not_lock_out_the_others(self) -> None:
        """All descriptors for sessions are in use: a new host gets the idlest of the host with most.

        With 64 descriptors, 32 are for accepted sessions; two hosts have 20 and 12 of them.
        """
        factory = self.limited(64)
        most = [Side(factory, "192.0.2.1") for _ in range(20)]
        less = [Side(factory, "192.0.2.2") for _ in range(12)]
        for side in most + less:
            self.clock.advance(1)
            side.shake_hands()
        self.clock.advance(1)
        most[0].protocol.dataReceived(user_packet(b"1"))
        newcomer = Side(factory, "192.0.2.3")
        newcomer.shake_hands()
        self.assertTrue(newcomer.protocol.is_open)
        self.assertEqual([side.transport.connected for side in most], [True, False] + [True] * 18)
        self.assertTrue(all(side.transport.connected for side in less))
        use = factory.descriptors
        self.assertEqual((use.incoming, use.incoming_limit, use.evicted), (32, 32, 1))

    def test_what_is_idlest_goes_where_hosts_have_as_many(self) -> None:
        """Thirty-two hosts with a session each: the one that has said nothing for longest is closed."""
        factory = self.limited(64)
        sides = [Side(factory, f"192.0.2.{number}") for number in range(32)]
        for side in reversed(sides):
            self.clock.advance(1)
            side.shake_hands()
        Side(factory, "198.51.100.1")
        self.assertEqual([side.transport.connected for side in sides], [True] * 31 + [False])

    def test_refused_addressees_are_counted(self) -> None:
        """A handshake for another queue manager counts among the refused connections, with its host."""
        factory = self.make(SessionSettings())
        side = Side(factory, "192.0.2.1")
        side.protocol.dataReceived(establish(ALPHA, ALPHA))
        self.assertFalse(side.transport.connected)
        self.assertEqual(factory.refused, {"wrong_queue_manager": 1})
        self.assertEqual(factory.refused_peers[0].address, "192.0.2.1")

    def test_refusals_by_the_peer_are_counted(self) -> None:
        """A session that the peer refuses, by CS in its answer, counts among the refused connections."""
        factory = self.make(SessionSettings())
        protocol = factory.build(is_initiator=True)
        transport = StringTransportWithDisconnection(peerAddress=IPv4Address("TCP", "192.0.2.7", 1801))
        transport.protocol = protocol
        protocol.makeConnection(transport)
        protocol.dataReceived(establish(factory.identifier, ALPHA, refused=True))
        self.assertEqual(factory.refused, {"refused_by_peer": 1})
        self.assertEqual(factory.refused_peers[0].address, "192.0.2.7")

    def test_a_session_that_ends_frees_its_descriptor(self) -> None:
        """Opening and closing, in any order, evicts none."""
        factory = self.limited(64)
        for _ in range(100):
            side = Side(factory, "192.0.2.1")
            side.shake_hands()
            side.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual((factory.descriptors.incoming, factory.descriptors.evicted), (0, 0))

    def test_a_network_of_ipv6_is_one_host(self) -> None:
        """All addresses of a /64 network count as one host; a connection that ends frees a slot for another
        of them.
        """
        factory = self.make(SessionSettings(max_connections_per_host=2))
        near = [Side(factory, f"2001:db8::{number}") for number in (1, 2)]
        self.assertIsNone(factory.buildProtocol(IPv6Address("TCP", "2001:db8::3", 1)))
        self.assertIsNotNone(factory.buildProtocol(IPv6Address("TCP", "2001:db8:0:1::3", 1)))
        near[0].protocol.connectionLost(Failure(ConnectionDone()))
        self.assertIsNotNone(factory.buildProtocol(IPv6Address("TCP", "2001:db8::3", 1)))

    def test_bounds_how_often_a_host_comes(self) -> None:
        """200 new sessions a second from one host, by default; others and this machine do not count."""
        factory = self.make(SessionSettings())

        def let_in(host: str) -> int:
            address = IPv4Address("TCP", host, 1)
            return sum(factory.buildProtocol(address) is not None for _ in range(300))

        self.assertEqual(let_in("192.0.2.7"), 200)
        self.assertEqual(let_in("192.0.2.8"), 200)
        self.assertEqual(let_in("127.0.0.1"), 300)
        self.assertEqual(factory.refused, {"sessions_per_second": 200})
        self.clock.advance(0.25)
        self.assertEqual(let_in("192.0.2.7"), 50)
        latest = factory.refused_peers[0]
        self.assertEqual((latest.address, latest.reasons), ("192.0.2.7", {"sessions_per_second": 350}))

    def test_counts_whom_it_refuses(self) -> None:
        """Each limit and setting counts by itself, whether the peer is notified or not."""
        factory = self.make(SessionSettings(max_sessions=1, max_handshakes=2, max_connections_per_host=3))
        first = Side(factory)
        first.shake_hands()
        Side(factory).protocol.dataReceived(establish(ALPHA))
        self.assertEqual(factory.refused, {"max_sessions": 1})
        for number in range(3):
            Side(factory, f"127.0.1.{number}")
        self.assertEqual(factory.refused, {"max_sessions": 1, "max_handshakes": 1})
        for _ in range(4):
            factory.buildProtocol(IPv4Address("TCP", "127.0.2.1", 1))
        self.assertEqual(factory.refused["max_handshakes"], 1)
        factory.is_offline = True
        self.assertIsNone(factory.buildProtocol(IPv4Address("TCP", "127.0.0.9", 1)))
        self.assertEqual(factory.refused["offline"], 1)
        self.assertTrue(first.protocol.is_open)
