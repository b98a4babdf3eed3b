"""Tests of the end of a session and of what follows ([MS-MQQB] 3.1.5.9, 3.1.6.1, 3.1.6.2)."""

from __future__ import annotations

import struct
from weakref import ref

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.session.effects import (
    Abort,
    Closed,
    CloseReason,
    ConnectionProgress,
    Disconnect,
    Progress,
    Reconnect,
)
from msmq.session.outgoing import OutgoingPacket
from msmq.session.session import Session
from msmq.session.state import SessionState
from msmq.settings import SessionSettings
from tests.session.support import (
    ALPHA,
    BETA,
    START,
    Driven,
    establish,
    open_acceptor,
    open_initiator,
    parameters,
    session_ack,
    session_header,
    user_packet,
)


class WeaklyKnown(OutgoingPacket):
    """A message that can be referred to weakly."""


def returned(driven: Driven) -> list[bytes]:
    """The packets that went back to their outgoing queues."""
    [closed] = driven.take(Closed)
    assert isinstance(closed, Closed)
    return [message.packet for message in closed.unacknowledged]


class ClosingTests(SynchronousTestCase):
    """A session ends without a packet and loses nothing."""

    def test_closing_sends_no_packet(self) -> None:
        """The connection is simply closed (MQQB-3.1.5.9-01, MQQB-3.1.5.9-04)."""
        driven = open_acceptor()
        driven.perform(driven.session.close(CloseReason.STOPPED, driven.now))
        self.assertEqual(driven.written, b"")
        self.assertEqual(driven.effects, [Closed(CloseReason.STOPPED, ()), Disconnect()])
        self.assertEqual(driven.session.state, SessionState.CLOSED)

    def test_bytes_after_packets_that_wait(self) -> None:
        """Bytes that are no packet close the session once the packets before them are processed."""
        error = RemoteProtocolError("2.2.19.1", "BaseHeader", "PacketSize", 8, "too small")
        for packets, bodies in (
            ((user_packet(b"1"), user_packet(b"2")), [b"1", b"2"]),
            ((session_ack(session_header()),), []),
        ):
            driven = open_acceptor()
            driven.session.arrive([(packet, None) for packet in packets])
            driven.perform(driven.session.malformed(error, driven.now))
            self.assertIsNone(driven.close_reason)
            driven.perform(driven.session.take_portion(driven.now))
            self.assertEqual(driven.bodies, bodies)
            self.assertEqual(driven.close_reason, CloseReason.MALFORMED_PACKET)

    def test_closing_stops_every_timer(self) -> None:
        """No acknowledgement is written after the end (MQQB-3.1.5.9-03, MQQB-3.1.3.2-03)."""
        driven = open_acceptor()
        driven.receive(user_packet())
        driven.perform(driven.session.connection_lost(driven.now))
        self.assertIsNone(driven.session.deadline)
        driven.advance(1000)
        self.assertEqual(driven.written, b"")

    def test_unacknowledged_messages_come_back_in_order(self) -> None:
        """Unacknowledged messages are sent again, in the original order."""
        driven = open_initiator()
        driven.send(user_packet(b"1"), user_packet(b"2", recoverable=True), user_packet(b"3"))
        driven.receive(session_ack(session_header(received=2)))
        driven.perform(driven.session.connection_lost(driven.now))
        self.assertEqual(returned(driven), [user_packet(b"2", recoverable=True), user_packet(b"3")])

    def test_a_message_that_was_named_early_does_not_come_back(self) -> None:
        """Of messages that the peer has not counted, those that it has named as stored are not sent again."""
        driven = open_initiator()
        packets = [user_packet(b"%d" % number, recoverable=True) for number in (1, 2)]
        driven.send(*packets, user_packet(b"3"))
        driven.receive(session_ack(session_header(received=0, recoverable_base=2, recoverable_flags=1)))
        driven.perform(driven.session.connection_lost(driven.now))
        self.assertEqual(returned(driven), [packets[0], user_packet(b"3")])

    def test_an_ended_session_keeps_nothing(self) -> None:
        """Its messages and the callback of its owner are free, and none of them counts as unacknowledged."""

        class Owner:
            """Accepts sessions."""

            def accepts(self) -> bool:
                """Whether a session may open."""
                return True

        owner, message = Owner(), WeaklyKnown(user_packet(recoverable=True))
        session = Session(BETA, SessionSettings(), is_initiator=False, accepts=owner.accepts)
        session.accepted(START)
        session.receive([(establish(ALPHA), None), (parameters(), None)], START)
        session.send([message], START)
        self.assertEqual(session.statistics.unacknowledged, 1)
        session.close(CloseReason.STOPPED, START)
        self.assertEqual(session.statistics.unacknowledged, 0)
        known = ref(owner), ref(message)
        del owner, message
        self.assertEqual([each() for each in known], [None, None])

    def test_unacknowledged_messages_alone_are_reason_to_dial(self) -> None:
        """They return to their queues, which have no others, while the session closes."""
        driven = open_initiator()
        driven.send(user_packet())
        driven.perform(driven.session.connection_lost(driven.now))
        self.assertEqual(driven.session.state, SessionState.WAITING_RECONNECT)

    def test_an_initiator_with_messages_dials_again(self) -> None:
        """With messages left it waits five seconds and asks for a new connection.

        MQQB-3.1.5.9-05, MQQB-3.1.2.3-02.
        """
        driven = open_initiator()
        driven.send(user_packet())
        driven.backlog = True
        driven.perform(driven.session.connection_lost(driven.now))
        self.assertEqual(driven.session.state, SessionState.WAITING_RECONNECT)
        driven.advance(4.999)
        self.assertEqual(driven.take(Reconnect), [])
        driven.advance(0.001)
        self.assertEqual(driven.take(Reconnect), [Reconnect()])
        self.assertEqual(driven.session.state, SessionState.CLOSED)

    def test_the_retry_time_is_configured(self) -> None:
        """Two seconds if the settings say so (MQQB-3.1.2.3-01)."""
        driven = open_initiator(settings=SessionSettings(session_retry=2.0), backlog=True)
        driven.perform(driven.session.connection_lost(driven.now))
        driven.advance(2)
        self.assertEqual(driven.take(Reconnect), [Reconnect()])

    def test_an_initiator_without_messages_stays_closed(self) -> None:
        """Without pending messages there is no new connection (MQQB-3.1.5.9-05)."""
        driven = open_initiator()
        driven.perform(driven.session.connection_lost(driven.now))
        self.assertEqual(driven.session.state, SessionState.CLOSED)
        self.assertIsNone(driven.session.deadline)

    def test_no_dial_if_the_messages_are_gone_meanwhile(self) -> None:
        """The retry timer acts only while messages wait (MQQB-3.1.6.1-01)."""
        driven = open_initiator(backlog=True)
        driven.perform(driven.session.connection_lost(driven.now))
        driven.backlog = False
        driven.advance(5)
        self.assertEqual(driven.take(Reconnect), [])
        self.assertEqual(driven.session.state, SessionState.CLOSED)

    def test_an_acceptor_never_dials(self) -> None:
        """An accepted session has no address to dial; its messages go back (MQQB-3.1.5.9-05)."""
        driven = open_acceptor(backlog=True)
        driven.send(user_packet(b"1"))
        driven.perform(driven.session.connection_lost(driven.now))
        self.assertEqual(driven.session.state, SessionState.CLOSED)
        self.assertEqual(returned(driven), [user_packet(b"1")])

    def test_a_failed_attempt_is_recorded_and_tried_again(self) -> None:
        """The history gets the cause, and the retry timer runs while messages wait.

        MQQB-3.1.5.2-02, MQQB-3.1.5.2.2-03.
        """
        for progress in (ConnectionProgress.SOCKET_CONNECT_FAILURE, ConnectionProgress.PING_FAILURE):
            driven = Driven(is_initiator=True, backlog=True)
            driven.perform(driven.session.connect_failed(progress, driven.now))
            self.assertEqual(driven.take(Progress), [Progress(progress)])
            self.assertEqual(driven.close_reason, CloseReason.CONNECT_FAILED)
            self.assertEqual(driven.session.state, SessionState.WAITING_RECONNECT)
            driven.advance(5)
            self.assertEqual(driven.take(Reconnect), [Reconnect()])

    def test_stopping_ends_the_wait_for_a_new_connection(self) -> None:
        """A queue manager that stops does not dial any more."""
        driven = open_initiator(backlog=True)
        driven.perform(driven.session.connection_lost(driven.now))
        driven.perform(driven.session.close(CloseReason.STOPPED, driven.now))
        self.assertEqual(driven.session.state, SessionState.CLOSED)
        self.assertIsNone(driven.session.deadline)
        driven.advance(60)
        self.assertEqual(driven.take(Reconnect), [])

    def test_ended_session_is_closed_again(self) -> None:
        """A later failure of what the session has brought does not end the wait for a new connection
        (MQQB-3.1.6.1-01).
        """
        driven = open_initiator(backlog=True)
        for _ in range(3):
            driven.perform(driven.session.close(CloseReason.NO_RESOURCES, driven.now))
        self.assertEqual(driven.session.state, SessionState.WAITING_RECONNECT)
        driven.advance(5)
        self.assertEqual(driven.take(Reconnect), [Reconnect()])

    def test_a_peer_that_does_not_read_is_cut(self) -> None:
        """A closing connection has five seconds to write its last bytes."""
        driven = open_acceptor()
        driven.perform(driven.session.close(CloseReason.STOPPED, driven.now))
        driven.advance(5)
        self.assertEqual(driven.take(Abort), [Abort()])

    def test_a_connection_that_closes_in_time_is_not_cut(self) -> None:
        """Once it is gone there is nothing to cut."""
        driven = open_acceptor()
        driven.perform(driven.session.close(CloseReason.STOPPED, driven.now))
        driven.perform(driven.session.connection_lost(driven.now))
        driven.advance(60)
        self.assertEqual(driven.take(Abort), [])
        self.assertEqual(len(driven.take(Closed)), 1)

    def test_data_after_the_end_is_ignored(self) -> None:
        """Packets that were already in transit change nothing."""
        driven = open_acceptor()
        driven.perform(driven.session.close(CloseReason.STOPPED, driven.now))
        driven.effects.clear()
        driven.receive(user_packet() + session_ack(session_header(received=9)))
        self.assertEqual((driven.effects, driven.written), ([], b""))

    def test_a_closed_session_cannot_send(self) -> None:
        """Sending without an open session is the caller's mistake."""
        driven = open_initiator()
        driven.perform(driven.session.connection_lost(driven.now))
        with self.assertRaises(LocalProtocolError):
            driven.session.send([OutgoingPacket(user_packet())], driven.now)

    def test_malformed_messages_close_after_the_good_ones_are_delivered(self) -> None:
        """A broken message is dropped and closes; the whole ones before it are delivered.

        MQQB-3.1.5.1-02, MQQB-3.1.5.1.3-01.
        """
        bad = bytearray(user_packet(b"body"))
        bad[60] = 0x60
        driven = open_acceptor()
        driven.receive(user_packet(b"good") + bytes(bad) + user_packet(b"late"))
        self.assertEqual(driven.bodies, [b"good"])
        self.assertEqual(driven.close_reason, CloseReason.MALFORMED_PACKET)

    def test_undefined_queue_kinds_close(self) -> None:
        """DQ 1, 2, 4, 6 and AQ 1, 4 close the session, though names of their sizes are in the packet.

        MQMQ-2.2.19.2-19, MQMQ-2.2.19.2-21, MQQB-3.1.5.1.3-02.
        """
        packet = user_packet(b"body", private_number=7)
        changed = [(kind << 10, 64, size) for kind, size in ((1, 0), (2, 4), (4, 4), (6, 20))]
        changed += [(3 << 10 | kind << 13, 68, size) for kind, size in ((1, 0), (4, 4))]
        for flags, start, size in changed:
            fields = packet[:60] + struct.pack("<I", 0x00200000 | flags) + packet[64:start]
            odd = fields + bytes(size) + packet[68:]
            driven = open_acceptor()
            driven.receive(odd[:8] + struct.pack("<I", len(odd)) + odd[12:])
            self.assertEqual(driven.close_reason, CloseReason.MALFORMED_PACKET, hex(flags))
            self.assertEqual(driven.bodies, [])


class CleanupTests(SynchronousTestCase):
    """[MS-MQQB] 3.1.6.2: idle sessions close."""

    def test_an_idle_session_closes_after_five_minutes(self) -> None:
        """Without any packet the session is closed at the first expiry.

        MQQB-3.1.2.2-02, MQQB-3.1.6.2-01, MQQB-3.1.3.2-04, MQQB-3.1.3.2-10.
        """
        driven = open_acceptor()
        driven.advance(299.999)
        self.assertIsNone(driven.close_reason)
        driven.advance(0.001)
        self.assertEqual(driven.close_reason, CloseReason.IDLE)

    def test_a_routing_server_waits_two_minutes(self) -> None:
        """The interval is configured (MQQB-3.1.2.2-02)."""
        driven = open_acceptor(settings=SessionSettings(session_cleanup=120.0))
        driven.advance(120)
        self.assertEqual(driven.close_reason, CloseReason.IDLE)

    def test_a_message_in_either_direction_keeps_it_open(self) -> None:
        """One message in the interval, received or sent, and it lives one more.

        MQQB-3.1.2.2-01, MQQB-3.1.6.2-02, MQQB-3.1.7.1.3-05.
        """

        def receive(driven: Driven) -> None:
            driven.receive(user_packet())

        def send(driven: Driven) -> None:
            driven.send(user_packet())
            driven.receive(session_ack(session_header(received=1)))

        for act in (receive, send):
            driven = open_acceptor()
            driven.advance(100)
            act(driven)
            driven.advance(200)
            self.assertIsNone(driven.close_reason)
            driven.advance(299)
            self.assertIsNone(driven.close_reason)
            driven.advance(1)
            self.assertEqual(driven.close_reason, CloseReason.IDLE)

    def test_acknowledgements_are_no_activity(self) -> None:
        """Only user messages keep a session open (MQQB-3.1.2.2-01)."""
        driven = open_acceptor()
        driven.advance(200)
        driven.receive(session_ack(session_header()))
        driven.advance(100)
        self.assertEqual(driven.close_reason, CloseReason.IDLE)

    def test_an_unacknowledged_message_is_no_idleness(self) -> None:
        """The Session Ack Wait Timer decides about a peer that has not acknowledged a message: a shorter
        interval would have the message sent again on the next session, and so on.
        """
        driven = open_acceptor(settings=SessionSettings(session_cleanup=3))
        driven.send(user_packet())
        driven.advance(39)
        self.assertIsNone(driven.close_reason)
        driven.advance(1)
        self.assertEqual(driven.close_reason, CloseReason.ACK_TIMEOUT)

    def test_idle_once_it_is_acknowledged(self) -> None:
        """After the acknowledgement the session closes at the next expiry."""
        driven = open_acceptor(settings=SessionSettings(session_cleanup=3))
        driven.send(user_packet())
        driven.advance(10)
        driven.receive(session_ack(session_header(received=1)))
        driven.advance(1.9)
        self.assertIsNone(driven.close_reason)
        driven.advance(0.1)
        self.assertEqual(driven.close_reason, CloseReason.IDLE)

    def test_an_owed_acknowledgement_is_no_idleness(self) -> None:
        """A session does not close before it has acknowledged what it received, which its Session Ack Send
        Timer decides.
        """
        driven = open_acceptor(settings=SessionSettings(session_cleanup=3))
        driven.receive(user_packet())
        driven.advance(9.9)
        self.assertEqual((driven.close_reason, driven.take_written()), (None, b""))
        driven.advance(0.1)
        self.assertNotEqual(driven.take_written(), b"")
        driven.advance(2)
        self.assertEqual(driven.close_reason, CloseReason.IDLE)
