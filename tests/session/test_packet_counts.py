"""[MS-MQMQ] 2.2.20.4 SessionHeader: what is counted, and what the counts acknowledge."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.session.effects import Closed, CloseReason, Deliver
from msmq.session.packet_counts import KindCounts
from msmq.session.state import SessionState
from tests.session.support import (
    Driven,
    acks,
    open_acceptor,
    open_initiator,
    session_ack,
    session_header,
    user_packet,
)
from tests.session.test_session_acknowledgements import acknowledged


class CountTests(SynchronousTestCase):
    """Messages of a session have numbers from 1, and recoverable ones have numbers of their own."""

    def test_numbers_of_what_is_sent(self) -> None:
        """The third of all is number 3 and the fifth recoverable one is number 5, between express ones.

        MQMQ-2.2.20.4-03, MQMQ-2.2.20.4-04.
        """
        driven = open_initiator()
        packets = [user_packet(b"%d" % number, recoverable=number % 2 == 1) for number in range(10)]
        driven.send(*packets)
        driven.receive(session_ack(session_header(received=3)))
        self.assertEqual(acknowledged(driven), [packets[0], packets[2]])
        driven.receive(session_ack(session_header(received=10, recoverable_base=5, recoverable_flags=1)))
        self.assertEqual(
            acknowledged(driven),
            [packets[4], packets[6], packets[8], packets[9]],
            "express ones, and the fifth",
        )

    def test_sent_messages(self) -> None:
        """The counts of a header are those of all messages, and of recoverable ones; 0 if there were none.

        MQMQ-2.2.20.4-03, MQMQ-2.2.20.4-09.
        """
        driven = open_acceptor()
        driven.send(user_packet())
        driven.receive(user_packet())
        driven.take_written()
        driven.advance(10)
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 1, 0, 64)])
        driven.send(user_packet(recoverable=True), user_packet(recoverable=True))
        driven.take_written()
        driven.receive(user_packet())
        driven.advance(10)
        self.assertEqual(acks(driven.take_written()), [(2, 0, 0, 3, 2, 64)])

    def test_acknowledged_messages(self) -> None:
        """All received messages are counted, and stored recoverable ones acknowledged once each.

        MQMQ-2.2.20.4-05, MQMQ-2.2.20.4-06.
        """
        driven = open_acceptor()
        driven.receive(b"".join(user_packet(recoverable=True) for _ in range(3)))
        driven.perform(driven.session.persisted(3, driven.now))
        driven.advance(0.5)
        self.assertEqual(acks(driven.take_written()), [(3, 1, 0b111, 0, 0, 64)])
        driven.receive(user_packet())
        driven.advance(10)
        self.assertEqual(acks(driven.take_written()), [(4, 0, 0, 0, 0, 64)])
        driven.receive(b"".join(user_packet(recoverable=True) for _ in range(2)))
        driven.perform(driven.session.persisted(5, driven.now))
        driven.advance(0.5)
        self.assertEqual(acks(driven.take_written()), [(6, 4, 0b11, 0, 0, 64)])

    def test_flags(self) -> None:
        """Base 4 and the flags 101 stand for 4 and 6, and not for 5.

        MQMQ-2.2.20.4-07.
        """
        driven = open_initiator()
        packets = [user_packet(b"%d" % number, recoverable=True) for number in range(1, 7)]
        driven.send(*packets)
        header = session_header(received=6, recoverable_base=4, recoverable_flags=0b101)
        driven.receive(session_ack(header))
        self.assertEqual(acknowledged(driven), [packets[3], packets[5]])


class SentPacketTests(SynchronousTestCase):
    """L{TrafficCounts}: what a session has sent, by kind."""

    def test_session_acknowledgements(self) -> None:
        """Each SessionAck counts as one, and an acknowledgement that a message carries is none."""
        driven = open_acceptor(window_size=4)
        sent = driven.counts.sent
        for received in (1, 2, 3, 4, 5):
            driven.receive(user_packet())
            self.assertEqual(sent.session_ack, received // 2)
        driven.advance(9.9)
        driven.send(user_packet())
        driven.advance(30)
        self.assertEqual((sent.session_ack, sent.user_message), (2, 1))
        driven.receive(session_ack(session_header(received=1, sent=5)) + user_packet())
        driven.advance(9)
        self.assertEqual(sent.session_ack, 2)
        driven.advance(1)
        self.assertEqual(sent.session_ack, 3)

    def test_handshake(self) -> None:
        """Each side sends one packet of either kind and receives one, and none of another."""
        sides = Driven(is_initiator=True), Driven(is_initiator=False)
        initiator, acceptor = sides
        acceptor.perform(acceptor.session.accepted(acceptor.now))
        initiator.perform(initiator.session.connected(initiator.now))
        self.assertEqual(initiator.counts.sent, KindCounts(establish_connection=1))
        acceptor.receive(initiator.take_written())
        initiator.receive(acceptor.take_written())
        self.assertEqual(initiator.counts.sent, KindCounts(establish_connection=1, connection_parameters=1))
        acceptor.receive(initiator.take_written())
        initiator.receive(acceptor.take_written())
        for each in sides:
            self.assertIs(each.session.state, SessionState.OPEN)
            self.assertEqual(each.counts.sent, KindCounts(establish_connection=1, connection_parameters=1))
            self.assertEqual(each.counts.received, each.counts.sent)

    def test_received_acknowledgements(self) -> None:
        """Each counts once, one with the bit CS too, which means nothing in it."""
        driven = open_initiator()
        driven.send(user_packet(), user_packet(), user_packet())
        for number in (1, 2, 3):
            packet = bytearray(session_ack(session_header(received=number)))
            packet[18] |= 0x10 if number == 2 else 0
            driven.receive(bytes(packet))
            self.assertEqual(driven.counts.received, KindCounts(1, 1, number, 0))
            self.assertEqual(driven.session.statistics.unacknowledged, 3 - number)
        self.assertFalse(closures(driven))

    def test_user_messages(self) -> None:
        """Those of both directions are counted, and recoverable ones once more, whether they come together or
        one by one, all alike or not, with a SessionHeader or without.
        """
        express, recoverable = user_packet(b"express"), user_packet(b"kept", recoverable=True)
        with_header = user_packet(recoverable=True, header=session_header(sent=4, recoverable_sent=2))
        for chunks, total, kept in (
            ([express + recoverable + express], 3, 1),
            ([recoverable, recoverable + express], 3, 2),
            ([express + recoverable + express + with_header + recoverable], 5, 3),
            ([recoverable * 4], 4, 4),
        ):
            driven = open_acceptor()
            for chunk in chunks:
                driven.receive(chunk)
            self.assertIsNone(driven.close_reason)
            statistics = driven.session.statistics
            self.assertEqual((statistics.received, statistics.recoverable_received), (total, kept))
            self.assertEqual(driven.counts.received.user_message, total)
            self.assertEqual(driven.counts.recoverable_received, kept)
            first = [each.first_recoverable for each in driven.effects if isinstance(each, Deliver)]
            self.assertEqual(first[0], 1)
            driven.send(express, recoverable, recoverable, express)
            driven.send(recoverable)
            self.assertEqual(driven.counts.sent.user_message, 5)
            self.assertEqual(driven.counts.recoverable_sent, 3)

    def test_numbers_go_on_behind_a_header(self) -> None:
        """A message that carries a SessionHeader ends a delivery; the next begins with the next number."""
        driven = open_acceptor()
        carrier = user_packet(recoverable=True, header=session_header(sent=1, recoverable_sent=1))
        driven.receive(carrier + user_packet() + user_packet(recoverable=True) * 2)
        deliveries = [each for each in driven.effects if isinstance(each, Deliver)]
        self.assertEqual(
            [(len(each.messages), each.first_recoverable) for each in deliveries], [(1, 1), (3, 2)]
        )


class RewrittenStreamTests(SynchronousTestCase):
    """What the counts show of a stream in which another party removes and doubles whole packets."""

    def setUp(self) -> None:
        self.sender, self.receiver = open_initiator(), open_acceptor()
        self.packets = [user_packet(b"%d" % number, recoverable=True) for number in range(3)]
        self.sender.send(*self.packets)
        self.sender.take_written()

    def deliver(self, *packets: bytes) -> None:
        """Have the receiver get and store these, and the sender get its acknowledgement."""
        self.receiver.receive(b"".join(packets))
        self.receiver.perform(self.receiver.session.persisted(len(packets), self.receiver.now))
        self.receiver.advance(0.5)
        self.sender.receive(self.receiver.take_written())

    def header(self) -> None:
        """Have the sender send its counts, with the acknowledgement of a message of the receiver."""
        self.receiver.send(user_packet())
        self.sender.receive(self.receiver.take_written())
        self.sender.advance(10)
        self.receiver.receive(self.sender.take_written())

    def test_removed_packet(self) -> None:
        """The next counts of the sender close the session; the acknowledgement before named positions."""
        self.deliver(self.packets[0], self.packets[2])
        self.assertEqual(acknowledged(self.sender), self.packets[:2], "the second was never received")
        self.assertFalse(closures(self.receiver))
        self.header()
        [closed] = closures(self.receiver)
        self.assertIs(closed.reason, CloseReason.COUNT_MISMATCH)

    def test_doubled_packet(self) -> None:
        """A packet more closes the session in the same manner."""
        self.deliver(self.packets[0], *self.packets)
        self.assertTrue(closures(self.sender), "it acknowledged more than was sent")

    def test_replaced_packet(self) -> None:
        """A packet replaced by a copy of another leaves all counts equal, so that nothing shows it."""
        self.deliver(self.packets[0], self.packets[0], self.packets[2])
        self.assertEqual(acknowledged(self.sender), self.packets)
        self.header()
        self.assertFalse(closures(self.sender))
        self.assertFalse(closures(self.receiver))


def closures(driven: Driven) -> list[Closed]:
    """Why and whether a session was closed."""
    return [effect for effect in driven.effects if isinstance(effect, Closed)]
