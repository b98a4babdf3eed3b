"""Sessions whose peer, or whose broker, fails."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IWriteDescriptor
from twisted.internet.testing import StringTransportWithDisconnection
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.net.session import SessionProtocol
from msmq.net.session_factory import SessionFactory
from msmq.session.effects import CloseReason
from msmq.session.outgoing import OutgoingPacket
from msmq.settings import SessionSettings
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
from tests.test_direct_write import Connection, PollSet

HALF_A_WINDOW = 32


@implementer(IWriteDescriptor)
class Descriptor(StringTransportWithDisconnection):
    """A transport that a reactor may write, and that has nothing to write to once it is closed."""

    flushed: int = 0

    def doWrite(self) -> None:
        self.flushed += 1
        if not self.connected:
            raise AttributeError("there is no socket any more")

    def connectionLost(self, reason: Failure) -> None:
        """The reactor closes it otherwise."""

    def fileno(self) -> int:
        return -1

    def logPrefix(self) -> str:
        return "descriptor"


class TroubleTestCase(SynchronousTestCase):
    """A queue manager BETA, and how peers see it."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.factory = SessionFactory(BETA, reactor=self.clock.reactor, clock=self.clock, shares=SHARES)

    def connect(self, protocol: SessionProtocol) -> StringTransportWithDisconnection:
        """Give a session its connection."""
        transport = Descriptor(peerAddress=IPv4Address("TCP", "127.0.0.9", 40000))
        transport.protocol = protocol
        protocol.makeConnection(transport)
        return transport

    def open(self) -> tuple[SessionProtocol, StringTransportWithDisconnection]:
        """An accepted session after its handshake."""
        protocol = self.factory.build(is_initiator=False)
        transport = self.connect(protocol)
        protocol.dataReceived(establish(ALPHA) + parameters())
        transport.clear()
        return protocol, transport

    def use(self, protocol: type[SessionProtocol]) -> None:
        """Make sessions of this class."""
        self.factory.protocol = protocol


class Slow(Connection):
    """A connection whose peer takes its bytes slowly."""

    protocol: SessionProtocol

    def getPeer(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.9", 40000)

    def abortConnection(self) -> None:
        self.connected = 0
        self.protocol.connectionLost(Failure(ConnectionAborted()))

    def stopReading(self) -> None:
        """There is no reactor."""

    startReading = stopReading

    def fileno(self) -> int:
        return -1


class FlushTests(TroubleTestCase):
    """When acknowledgements are handed to the kernel."""

    def test_acknowledgements_of_one_commit(self) -> None:
        """Several acknowledgements that one commit causes are handed over together."""
        protocol, transport = self.open()
        assert isinstance(transport, Descriptor)
        for _ in range(2):
            protocol.dataReceived(user_packet(recoverable=True) * HALF_A_WINDOW)
        before = transport.flushed
        transport.clear()
        protocol.persisted(2 * HALF_A_WINDOW)
        self.assertEqual(transport.value().count(b"LIOR"), 2)
        self.assertEqual(transport.flushed - before, 1)


class PendingEventsTests(TroubleTestCase):
    """What waits for a hook that is at work."""

    def test_acknowledgements_behind_an_event(self) -> None:
        """The peer gets its acknowledgements in time, also when the event of a wider window waits."""

        class Slow(SessionProtocol):
            widened = 0

            def messages_arriving(
                self, messages: Sequence[UserMessageView], first_recoverable: int
            ) -> Deferred[None]:
                return gate

            def room_for_messages(self) -> None:
                self.widened += 1

        gate: Deferred[None] = Deferred()
        self.use(Slow)
        protocol, transport = self.open()
        assert isinstance(protocol, Slow)
        header = session_header(sent=1, recoverable_sent=1, window_size=1)
        protocol.dataReceived(user_packet(recoverable=True, header=header))
        before = protocol.widened
        for _ in range(10):
            transport.clear()
            self.clock.advance(10)
            self.assertGreater(transport.value().count(b"LIOR"), 0)
        self.assertEqual(protocol.widened, before)
        gate.callback(None)
        self.assertGreater(protocol.widened, before)


class ClosingOverMessagesTests(TroubleTestCase):
    """A hook that does not want a message closes the session, and the peer keeps its message."""

    def test_a_message_over_which_a_session_was_closed_is_not_acknowledged(self) -> None:
        """Even if an acknowledgement was due by the number of messages."""

        class Full(SessionProtocol):
            def messages_arriving(self, messages: Sequence[UserMessageView], first_recoverable: int) -> None:
                self.close(CloseReason.NO_RESOURCES)

        self.use(Full)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet() * HALF_A_WINDOW)
        self.assertEqual(transport.value(), b"")
        self.assertFalse(transport.connected)

    def test_nothing_is_handed_on_after_the_end(self) -> None:
        """The hook that closes the session is not asked about what came behind."""
        portions: list[int] = []

        class Full(SessionProtocol):
            def messages_arriving(self, messages: Sequence[UserMessageView], first_recoverable: int) -> None:
                portions.append(len(messages))
                self.close(CloseReason.NO_RESOURCES)

        self.use(Full)
        protocol, _ = self.open()
        protocol.dataReceived(user_packet() * HALF_A_WINDOW * 3)
        self.assertEqual(len(portions), 1)

    def test_a_failing_hook_acknowledges_no_message(self) -> None:
        """Neither if it raises at once."""

        class Broken(SessionProtocol):
            def messages_arriving(self, messages: Sequence[UserMessageView], first_recoverable: int) -> None:
                raise RuntimeError("this broker has a bug")

        self.use(Broken)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet() * HALF_A_WINDOW)
        self.assertEqual(transport.value(), b"")
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_hook_that_fails_later_acknowledges_no_message(self) -> None:
        """Nor if it fails after a while."""
        gate: Deferred[None] = Deferred()

        class Broken(SessionProtocol):
            def messages_arriving(
                self, messages: Sequence[UserMessageView], first_recoverable: int
            ) -> Deferred[None]:
                return gate

        self.use(Broken)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet() * HALF_A_WINDOW)
        gate.errback(Failure(RuntimeError("later")))
        self.assertEqual(transport.value(), b"")
        self.assertFalse(transport.connected)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_a_refusal_is_sent_before_the_end(self) -> None:
        """The session's own last packet is written."""

        class Refusing(SessionProtocol):
            def may_open(self) -> bool:
                return False

        self.use(Refusing)
        protocol = self.factory.build(is_initiator=False)
        transport = self.connect(protocol)
        protocol.dataReceived(establish(ALPHA))
        self.assertEqual(transport.value(), established(ALPHA, BETA, refused=True))
        self.assertFalse(transport.connected)


class LateHookTests(TroubleTestCase):
    """A hook takes its time, and the peer does not wait."""

    def test_a_connection_that_is_gone_is_not_written(self) -> None:
        """The acknowledgement that the hook held up goes nowhere, and does no harm."""
        gate: Deferred[None] = Deferred()

        class Slow(SessionProtocol):
            def messages_arriving(
                self, messages: Sequence[UserMessageView], first_recoverable: int
            ) -> Deferred[None]:
                return gate

        self.use(Slow)
        protocol, transport = self.open()
        protocol.dataReceived(user_packet() * HALF_A_WINDOW)
        transport.loseConnection()
        gate.callback(None)
        self.assertEqual(transport.value(), b"")
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])


class LeftoverTests(TroubleTestCase):
    """State after the end of a session."""

    def test_a_lost_session_is_gone_at_once(self) -> None:
        """With what it had buffered: nothing waits for the garbage collector."""
        gc.disable()
        self.addCleanup(gc.enable)
        for handshake in (b"", establish(ALPHA), establish(ALPHA) + parameters()):
            protocol = self.factory.build(is_initiator=False)
            transport = self.connect(protocol)
            gone = weakref.ref(protocol)
            protocol.dataReceived(handshake)
            if protocol.is_open:
                protocol.dataReceived(user_packet(bytes(100000))[:-1])
            transport.loseConnection()
            # As the reactor's transports do when they are lost.
            transport.producer = None
            del protocol, transport.protocol, transport
            self.assertIsNone(gone())


class UnreadTests(TroubleTestCase):
    """A peer that writes and does not read."""

    def test_acknowledgements_do_not_pile_up(self) -> None:
        """Ten thousand messages of a peer that reads nothing leave nothing behind."""
        protocol, transport = self.open()
        protocol.pauseProducing()
        for _ in range(100):
            protocol.dataReceived(user_packet() * 100)
        self.assertEqual(transport.value(), b"")
        protocol.resumeProducing()
        self.assertEqual(transport.value(), session_ack(session_header(received=10000)))

    def test_a_peer_that_never_reads_our_messages_is_cut(self) -> None:
        """It acknowledges nothing either; the session closes, and then the connection is cut.

        MQQB-3.1.1.1.1.1-03.
        """

        class Sender(SessionProtocol):
            unacknowledged: Any = None

            def session_closed(self, reason: CloseReason, unacknowledged: Any, error: Any) -> None:
                self.unacknowledged = (reason, len(unacknowledged))

        self.use(Sender)
        protocol, transport = self.open()
        protocol.send([OutgoingPacket(user_packet(bytes(100000))) for _ in range(8)])
        protocol.pauseProducing()
        self.clock.advance(39.9)
        self.assertTrue(protocol.is_open)
        self.clock.advance(0.2)
        assert isinstance(protocol, Sender)
        self.assertEqual(protocol.unacknowledged, (CloseReason.ACK_TIMEOUT, 8))
        self.assertFalse(transport.connected)


class SlowConnectionTests(TroubleTestCase):
    """A peer whose large message takes longer than the Session Ack Wait Timer."""

    def test_a_message_that_arrives_in_pieces(self) -> None:
        """It cannot acknowledge before its end: the session stays open, and ends when nothing arrives."""
        for is_silent in (False, True):
            protocol, _ = self.open()
            protocol.send([OutgoingPacket(user_packet(b"ours"))])
            large = user_packet(bytes(1_000_000))
            for start in range(0, 900_000, 100_000):
                protocol.dataReceived(large[start : start + 100_000])
                self.clock.advance(30)
                self.assertTrue(protocol.is_open)
            if is_silent:
                self.clock.advance(60)
            else:
                acknowledges = session_ack(session_header(received=1, sent=1))
                protocol.dataReceived(large[900_000:] + acknowledges)
                self.assertEqual(protocol.statistics.unacknowledged, 0)
            self.assertEqual(protocol.is_open, not is_silent)

    def sending(self) -> tuple[SessionProtocol, Slow]:
        """A session with a message of 1 MB, of which its peer has received nothing yet."""
        protocol = self.factory.build(is_initiator=False)
        slow = Slow(PollSet(), 1_000_000)
        slow.protocol = protocol
        protocol.makeConnection(slow)
        protocol.dataReceived(establish(ALPHA) + parameters())
        slow.space = 0
        protocol.send([OutgoingPacket(user_packet(bytes(1_000_000)))])
        return protocol, slow

    def test_a_message_that_has_all_arrived_late(self) -> None:
        """The peer, which acknowledges after half of the timer, has time for that, although it has received
        everything when the timer expires.
        """
        protocol, slow = self.sending()
        self.clock.advance(35)
        slow.space = 2_000_000
        slow.doWrite()
        self.clock.advance(10)
        self.assertTrue(protocol.is_open)
        protocol.dataReceived(session_ack(session_header(received=1)))
        self.clock.advance(100)
        self.assertTrue(protocol.is_open)

    def test_a_peer_that_is_gone(self) -> None:
        """That it has received the handshake does not delay the end of a session on which nothing moves."""
        protocol, _ = self.sending()
        self.clock.advance(39.9)
        self.assertTrue(protocol.is_open)
        self.clock.advance(0.2)
        self.assertFalse(protocol.is_open)

    def test_a_message_that_arrives_is_no_idleness(self) -> None:
        """The Session Cleanup Timer closes no session while a message arrives; a part of an acknowledgement
        is none.
        """
        self.factory.settings = SessionSettings(session_cleanup=60)
        large = user_packet(bytes(1_000_000))
        protocol, _ = self.open()
        for start in range(0, 900_000, 100_000):
            protocol.dataReceived(large[start : start + 100_000])
            self.clock.advance(50)
            self.assertTrue(protocol.is_open)
        self.clock.advance(50)
        self.assertFalse(protocol.is_open)
        protocol, _ = self.open()
        protocol.dataReceived(session_ack(session_header())[:20])
        self.clock.advance(60)
        self.assertFalse(protocol.is_open)

    def test_a_message_that_leaves_in_pieces(self) -> None:
        """The peer cannot acknowledge it before it has all of it; the session ends when it takes no more, or
        has everything and is silent.
        """
        for pieces, end in ((5, False), (5, True), (11, True)):
            protocol, slow = self.sending()
            for _ in range(pieces):
                slow.space = 100_000
                slow.doWrite()
                self.clock.advance(40)
                self.assertTrue(protocol.is_open)
            if end:
                self.clock.advance(40)
                self.assertFalse(protocol.is_open)
            else:
                protocol.dataReceived(session_ack(session_header(received=1)))
                self.clock.advance(100)
                self.assertTrue(protocol.is_open)


class EarlyMessageTests(TroubleTestCase):
    """An acceptor that sends a message before it has answered."""

    def test_the_beginning_of_a_message_ends_a_handshake_on_both_sides(self) -> None:
        """It is not even buffered, whichever side dialled (MQQB-2.1.1-05)."""
        for is_initiator in (False, True):
            protocol = self.factory.build(is_initiator=is_initiator)
            transport = self.connect(protocol)
            protocol.dataReceived(user_packet(bytes(100000))[:20])
            self.assertFalse(transport.connected)

    def test_an_initiator_takes_a_message_right_behind_the_answer(self) -> None:
        """An acceptor may send as soon as it has answered the parameters."""
        arrived: list[bytes] = []

        class Taking(SessionProtocol):
            def message_arriving(self, message: UserMessageView) -> None:
                arrived.append(bytes(message.body))

        self.use(Taking)
        protocol = self.factory.build(is_initiator=True)
        self.connect(protocol)
        protocol.dataReceived(establish(BETA, ALPHA) + parameters() + user_packet(b"eager"))
        self.assertEqual(arrived, [b"eager"])
