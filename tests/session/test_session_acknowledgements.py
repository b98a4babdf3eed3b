"""Tests of session acknowledgements and windows ([MS-MQQB] 3.1.5.5, 3.1.6.3, 3.1.6.4)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.session.effects import Acknowledged, Closed, CloseReason, Deliver, WindowOpened
from msmq.session.outgoing import OutgoingPacket
from msmq.session.state import MOST_UNNAMED_BYTES
from msmq.settings import SessionSettings
from tests.session.support import (
    ALPHA,
    BETA,
    Driven,
    acks,
    establish,
    open_acceptor,
    open_initiator,
    parameters,
    session_ack,
    session_header,
    user_packet,
)


def acknowledged(driven: Driven) -> list[bytes]:
    """The packets that may be forgotten, in the order in which the session said so."""
    return [
        message.packet
        for effect in driven.take(Acknowledged)
        if isinstance(effect, Acknowledged)
        for message in effect.messages
    ]


class AcknowledgingTests(SynchronousTestCase):
    """What the receiver of messages says, and when."""

    def test_acknowledges_one_message_when_the_timer_expires(self) -> None:
        """A single express message is acknowledged at half the AckTimeout, once.

        MQQB-3.1.6.4-01, MQQB-3.1.5.8.2-06, MQQB-3.1.6.4-06, MQQB-3.1.2.5-02.
        """
        driven = open_acceptor()
        driven.receive(user_packet())
        driven.advance(9.999)
        self.assertEqual(driven.written, b"")
        driven.advance(0.001)
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 0, 0, 64)])
        driven.advance(100)
        self.assertEqual(driven.written, b"")

    def test_the_second_message_does_not_move_the_timer(self) -> None:
        """The timer runs from the first unacknowledged message (MQQB-3.1.2.5-01).

        MQQB-3.1.6.4-02.
        """
        driven = open_acceptor()
        driven.receive(user_packet())
        driven.advance(9)
        driven.receive(user_packet())
        driven.advance(1)
        self.assertEqual(acks(driven.take_written()), [(2, 0, 0, 0, 0, 64)])

    def test_nothing_received_is_nothing_acknowledged(self) -> None:
        """An open session without messages writes nothing (MQQB-3.1.6.4-01)."""
        driven = open_acceptor()
        driven.advance(299)
        self.assertEqual(driven.written, b"")

    def test_acknowledges_at_half_the_window(self) -> None:
        """With a window of 4 the second message is acknowledged at once (MQQB-3.1.1.6.1-05)."""
        driven = open_acceptor(window_size=4)
        driven.receive(user_packet())
        self.assertEqual(driven.written, b"")
        driven.receive(user_packet())
        self.assertEqual(acks(driven.take_written()), [(2, 0, 0, 0, 0, 64)])

    def test_acknowledges_a_batch_once(self) -> None:
        """Thirty-two messages in one chunk get one acknowledgement, after their delivery.

        MQQB-3.1.1.6.1-04.
        """
        driven = open_acceptor()
        driven.receive(b"".join(user_packet(b"%d" % number) for number in range(32)))
        self.assertEqual(driven.bodies, [b"%d" % number for number in range(32)])
        self.assertEqual(acks(driven.take_written()), [(32, 0, 0, 0, 0, 64)])

    def test_recoverable_messages_are_named_once_they_are_stored(self) -> None:
        """The base is the lowest stored number, the flags run from it.

        MQQB-3.1.6.4-03, MQQB-3.1.6.4-05, MQQB-3.1.3.2-02, MQQB-3.1.5.8.7-06.
        """
        driven = open_acceptor()
        driven.receive(b"".join(user_packet(recoverable=True) for _ in range(3)))
        [deliver] = driven.take(Deliver)
        assert isinstance(deliver, Deliver)
        self.assertEqual(deliver.first_recoverable, 1)
        driven.perform(driven.session.persisted(2, driven.now))
        driven.advance(0.5)
        self.assertEqual(acks(driven.take_written()), [(3, 1, 0b11, 0, 0, 64)])
        driven.advance(5)
        self.assertEqual(acks(driven.take_written()), [])
        driven.perform(driven.session.persisted(3, driven.now))
        driven.advance(0.5)
        self.assertEqual(acks(driven.take_written()), [(3, 3, 0b1, 0, 0, 64)])

    def test_a_recoverable_message_shortens_the_timer(self) -> None:
        """The negotiated time of recoverable messages takes over (MQQB-3.1.5.8.7-05)."""
        driven = open_acceptor()
        driven.receive(user_packet())
        driven.receive(user_packet(recoverable=True))
        driven.perform(driven.session.persisted(1, driven.now))
        driven.advance(0.5)
        self.assertEqual(acks(driven.take_written()), [(2, 1, 1, 0, 0, 64)])

    def test_thirty_two_recoverables_are_acknowledged_at_once(self) -> None:
        """The flags name no more than 32 (MQQB-3.1.5.8.7-01, MQQB-3.1.5.8.7-02)."""
        driven = open_acceptor(settings=SessionSettings(window_size=200), window_size=200)
        driven.receive(b"".join(user_packet(recoverable=True) for _ in range(40)))
        driven.perform(driven.session.persisted(40, driven.now))
        self.assertEqual(acks(driven.take_written()), [(40, 1, 0xFFFFFFFF, 0, 0, 200)])
        driven.advance(0.5)
        self.assertEqual(acks(driven.take_written()), [(40, 33, 0xFF, 0, 0, 200)])

    def test_all_that_one_commit_stored_is_named_at_once(self) -> None:
        """As many acknowledgements as that takes; only what is less than 32 waits for the timer."""
        driven = open_acceptor(settings=SessionSettings(window_size=500), window_size=500)
        driven.receive(b"".join(user_packet(recoverable=True) for _ in range(200)))
        driven.perform(driven.session.persisted(100, driven.now))
        named = [(base, flags) for _, base, flags, *_ in acks(driven.take_written())]
        self.assertEqual(named, [(base, 0xFFFFFFFF) for base in (1, 33, 65)])
        driven.advance(0.5)
        self.assertEqual(acks(driven.take_written()), [(200, 97, 0xF, 0, 0, 500)])

    def test_the_rest_is_named_when_nothing_follows(self) -> None:
        """What is less than 32 waits for ten milliseconds without another commit, not for half a second."""
        driven = open_acceptor(settings=SessionSettings(window_size=256), window_size=256)
        driven.receive(b"".join(user_packet(recoverable=True) for _ in range(40)))
        driven.perform(driven.session.persisted(40, driven.now))
        driven.take_written()
        driven.advance(0.005)
        self.assertEqual(driven.written, b"")
        driven.advance(0.005)
        self.assertEqual(acks(driven.take_written()), [(40, 33, 0xFF, 0, 0, 256)])

    def test_a_steady_sender_is_acknowledged_together(self) -> None:
        """Messages that are stored one by one, two milliseconds apart, get an acknowledgement for 32."""
        driven = open_acceptor(settings=SessionSettings(window_size=256), window_size=256)
        for number in range(1, 65):
            driven.receive(user_packet(recoverable=True))
            driven.perform(driven.session.persisted(number, driven.now))
            driven.advance(0.002)
        self.assertEqual([ack[1] for ack in acks(driven.take_written())], [1, 33])

    def test_what_is_being_stored_is_waited_for(self) -> None:
        """While a commit takes long there is no acknowledgement of a part."""
        driven = open_acceptor()
        driven.receive(b"".join(user_packet(recoverable=True) for _ in range(3)))
        driven.perform(driven.session.persisted(2, driven.now))
        driven.advance(0.1)
        self.assertEqual(driven.written, b"")
        driven.perform(driven.session.persisted(3, driven.now))
        driven.advance(0.1)
        self.assertEqual(acks(driven.take_written()), [(3, 1, 0b111, 0, 0, 64)])

    def test_what_was_sent_is_counted_in_the_acknowledgement(self) -> None:
        """A SessionAck carries both sent counts and the window (MQQB-3.1.6.4-04).

        MQQB-3.1.1.3.1-03, MQQB-3.1.7.1.3-06.
        """
        driven = open_acceptor()
        driven.send(user_packet(), user_packet(recoverable=True), user_packet())
        driven.take_written()
        driven.receive(user_packet())
        driven.advance(10)
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 3, 1, 64)])

    def test_counts_wrap_at_65536(self) -> None:
        """The 65537th message is acknowledged as number 1."""
        driven = open_acceptor()
        batch = user_packet() * 4096
        for _ in range(16):
            driven.receive(batch)
        driven.take_written()
        driven.receive(user_packet())
        driven.advance(10)
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 0, 0, 64)])

    def test_a_message_carries_the_acknowledgement_late_in_the_timer(self) -> None:
        """After three quarters of the timer a message takes the acknowledgement along.

        MQQB-2.2.6-08, MQQB-3.1.7.11-02, MQQB-3.1.7.11-03, MQQB-3.1.7.1.3-07, MQQB-3.1.7.1.3-08.
        """
        driven = open_acceptor()
        driven.receive(user_packet())
        driven.advance(7.4)
        driven.send(user_packet(b"early"))
        self.assertEqual(driven.take_written(), user_packet(b"early"))
        driven.advance(0.2)
        driven.send(user_packet(b"late"), user_packet(b"later"))
        header = session_header(received=1, sent=2)
        expected = user_packet(b"late", header=header) + user_packet(b"later")
        self.assertEqual(driven.take_written(), expected)
        driven.advance(30)
        self.assertEqual(driven.written, b"")


class SendingTests(SynchronousTestCase):
    """The sender's reaction to acknowledgements."""

    def test_an_acknowledgement_forgets_express_messages(self) -> None:
        """Two of three are gone, the third stays, and telling twice changes nothing.

        MQQB-3.1.5.5.2-01, MQQB-3.1.5.5.1-03, MQQB-3.1.1.6.1-01, MQQB-3.1.1.3.1-18.
        """
        driven = open_initiator()
        driven.send(user_packet(b"1"), user_packet(b"2"), user_packet(b"3"))
        driven.receive(session_ack(session_header(received=2)))
        self.assertEqual(acknowledged(driven), [user_packet(b"1"), user_packet(b"2")])
        self.assertEqual(driven.session.statistics.unacknowledged, 1)
        driven.receive(session_ack(session_header(received=2)))
        self.assertEqual(acknowledged(driven), [])
        self.assertEqual(driven.session.statistics.unacknowledged, 1)

    def test_an_acknowledgement_may_ride_on_a_message(self) -> None:
        """A SessionHeader does the same in a user message as in a SessionAck (MQQB-3.1.5.5-02)."""
        driven = open_initiator()
        driven.send(user_packet(b"1"), user_packet(b"2"))
        driven.receive(user_packet(b"reply", header=session_header(received=2, sent=1)))
        self.assertEqual(acknowledged(driven), [user_packet(b"1"), user_packet(b"2")])
        self.assertEqual(driven.bodies, [b"reply"])
        self.assertIsNone(driven.close_reason)

    def test_recoverable_messages_stay_until_they_are_named(self) -> None:
        """Bit k of the flags names number base + k, and nothing else (MQQB-2.2.6-04).

        MQQB-3.1.1.6.1-02.
        """
        driven = open_initiator()
        packets = [user_packet(b"%d" % number, recoverable=True) for number in range(1, 4)]
        driven.send(*packets)
        driven.receive(session_ack(session_header(received=3)))
        self.assertEqual(acknowledged(driven), [])
        driven.receive(session_ack(session_header(received=3, recoverable_base=1, recoverable_flags=0b101)))
        self.assertEqual(acknowledged(driven), [packets[0], packets[2]])
        driven.perform(driven.session.connection_lost(driven.now))
        [closed] = [effect for effect in driven.effects if hasattr(effect, "unacknowledged")]
        self.assertEqual([message.packet for message in closed.unacknowledged], [packets[1]])

    def test_acknowledgements_that_come_together_are_one_removal(self) -> None:
        """A count and four times 32 names in one chunk: 128 messages are forgotten at once, in order."""
        driven = open_initiator(settings=SessionSettings(window_size=256), window_size=256)
        packets = [user_packet(b"%d" % number, recoverable=True) for number in range(128)]
        driven.send(*packets)
        driven.receive(
            session_ack(session_header(received=128, window_size=256))
            + b"".join(
                session_ack(
                    session_header(
                        received=128, recoverable_base=base, recoverable_flags=0xFFFFFFFF, window_size=256
                    )
                )
                for base in (1, 33, 65, 97)
            )
        )
        [effect] = driven.take(Acknowledged)
        assert isinstance(effect, Acknowledged)
        self.assertEqual([message.packet for message in effect.messages], packets)
        self.assertEqual(driven.take(WindowOpened), [WindowOpened()])

    def test_acknowledging_what_was_never_sent_closes(self) -> None:
        """AckSequenceNumber beyond the last number is a lie, and nothing is forgotten.

        MQQB-3.1.5.5.1-02.
        """
        driven = open_initiator()
        driven.send(user_packet(), user_packet())
        driven.receive(session_ack(session_header(received=3)))
        self.assertEqual(acknowledged(driven), [])
        self.assertEqual(driven.close_reason, CloseReason.BAD_ACKNOWLEDGEMENT)

    def test_the_smaller_window_limits_what_is_in_flight(self) -> None:
        """Neither our window nor the peer's is ever exceeded.

        MQQB-3.1.1.3.1-13, MQQB-3.1.1.3.1-15, MQQB-3.1.7.1-02, MQQB-3.1.1.3.1-14.
        """
        driven = open_initiator(window_size=2)
        driven.send(user_packet())
        self.assertEqual(driven.session.capacity, 1)
        driven.send(user_packet())
        self.assertEqual(driven.session.capacity, 0)
        driven = open_initiator(settings=SessionSettings(window_size=4))
        self.assertEqual(driven.session.capacity, 4)
        driven = open_initiator()
        self.assertEqual(driven.session.capacity, 64)

    def test_an_acknowledgement_opens_the_window(self) -> None:
        """Room for exactly as many as were acknowledged (MQQB-3.1.5.5.1-04)."""
        driven = open_initiator(window_size=2)
        driven.send(user_packet(), user_packet())
        driven.receive(session_ack(session_header(received=1, window_size=2)))
        self.assertEqual(driven.take(WindowOpened), [WindowOpened()])
        self.assertEqual(driven.session.capacity, 1)

    def test_the_peers_latest_window_counts(self) -> None:
        """A window of 1 throttles, and doubles back every thirty seconds (MQQB-3.1.5.5-03)."""
        driven = open_initiator()
        driven.receive(session_ack(session_header(window_size=1)))
        self.assertEqual(driven.session.capacity, 1)
        for expected in (2, 4, 8, 16, 32, 64, 64):
            driven.advance(30)
            self.assertEqual(driven.session.capacity, expected)
        driven.receive(session_ack(session_header(window_size=10)))
        self.assertEqual(driven.session.capacity, 10)
        driven.advance(60)
        self.assertEqual(driven.session.capacity, 10)

    def test_our_window_when_memory_is_short(self) -> None:
        """It is 1 at once, and doubles every thirty seconds up to the one that was configured.

        MQMQ-2.2.20.4-11
        """
        for window in (64, 5):
            driven = open_acceptor(settings=SessionSettings(window_size=window))
            driven.perform(driven.session.narrow(driven.now))
            self.assertEqual([ack[-1] for ack in acks(driven.take_written())], [1])
            said = []
            for _ in range(8):
                driven.receive(user_packet())
                driven.advance(10)
                said += [ack[-1] for ack in acks(driven.take_written())]
                driven.advance(20)
            self.assertEqual(said[0], 1)
            self.assertEqual(said, [min(1 << step, window) for step in range(8)])

    def test_memory_is_short_again(self) -> None:
        """The window is 1 again, and the thirty seconds begin anew; a window of 1 is not sent twice."""
        driven = open_acceptor()
        for _ in range(2):
            driven.perform(driven.session.narrow(driven.now))
            driven.advance(29)
        driven.perform(driven.session.narrow(driven.now))
        self.assertEqual([ack[-1] for ack in acks(driven.take_written())], [1])
        driven.advance(30)
        self.assertEqual(driven.session.statistics.window, 2)
        driven.perform(driven.session.narrow(driven.now))
        self.assertEqual([ack[-1] for ack in acks(driven.take_written())], [1])

    def test_memory_is_short_after_the_end(self) -> None:
        """A session that is over says nothing."""
        driven = open_acceptor()
        driven.perform(driven.session.close(CloseReason.STOPPED, driven.now))
        driven.take_written()
        driven.perform(driven.session.narrow(driven.now))
        driven.advance(60)
        self.assertEqual(driven.written, b"")

    def test_window_zero_in_a_session_header_is_one(self) -> None:
        """A peer that advertises 0 still gets one message at a time."""
        driven = open_initiator()
        driven.receive(session_ack(session_header(window_size=0)))
        self.assertEqual(driven.session.capacity, 1)

    def test_wrong_message_count_closes_after_delivery(self) -> None:
        """The message that carries a wrong count is delivered, then the session closes.

        MQQB-3.1.5.5.5-01, MQMQ-2.2.20.4-08.
        """
        driven = open_acceptor()
        driven.receive(user_packet(b"kept", header=session_header(sent=2)))
        self.assertEqual(driven.bodies, [b"kept"])
        self.assertEqual(driven.close_reason, CloseReason.COUNT_MISMATCH)

    def test_right_counts_include_the_carrier(self) -> None:
        """A recoverable message counts itself in both counts (MQQB-3.1.5.5.5-02)."""
        driven = open_acceptor()
        driven.receive(user_packet())
        driven.receive(user_packet(recoverable=True, header=session_header(sent=2, recoverable_sent=1)))
        self.assertIsNone(driven.close_reason)
        driven.receive(user_packet(header=session_header(sent=3, recoverable_sent=2)))
        self.assertEqual(driven.close_reason, CloseReason.COUNT_MISMATCH)

    def test_wrong_counts_in_an_acknowledgement_still_acknowledge(self) -> None:
        """First the acknowledged messages are forgotten, then the session closes (MQQB-3.1.5.5-04)."""
        driven = open_initiator()
        driven.send(user_packet(b"1"))
        driven.receive(session_ack(session_header(received=1, sent=9)))
        self.assertEqual(acknowledged(driven), [user_packet(b"1")])
        self.assertEqual(driven.close_reason, CloseReason.COUNT_MISMATCH)

    def test_counts_of_the_sender_wrap(self) -> None:
        """More than 65536 messages go out and are forgotten one by one."""
        driven = open_initiator(settings=SessionSettings(window_size=32767), window_size=65535)
        self.assertEqual(driven.session.capacity, 32767)
        total = 0
        for _ in range(5):
            driven.send(*[user_packet()] * 16000)
            total += 16000
            driven.receive(session_ack(session_header(received=total & 0xFFFF, window_size=65535)))
            self.assertEqual(len(acknowledged(driven)), 16000)
        self.assertIsNone(driven.close_reason)
        self.assertEqual(driven.session.statistics.unacknowledged, 0)

    def test_counts_of_recoverable_messages_wrap(self) -> None:
        """More than 65536 go from one side to the other, are stored and named; 0 is a number as any other.

        MQQB-3.1.1.4-04.
        """
        sender = open_initiator()
        receiver = open_acceptor()
        packet = user_packet(recoverable=True)
        total = forgotten = 0
        while total < 65536 + 96:
            sender.send(*[packet] * 32)
            total += 32
            receiver.receive(sender.take_written())
            receiver.perform(receiver.session.persisted(total, receiver.now))
            receiver.advance(0.5)
            sender.receive(receiver.take_written())
            forgotten += len(acknowledged(sender))
            self.assertEqual(forgotten, total)
        self.assertEqual(len(receiver.bodies), total)
        self.assertIsNone(sender.close_reason)
        self.assertIsNone(receiver.close_reason)

    def test_a_message_is_not_sent_twice_to_one_object(self) -> None:
        """The very objects that were sent come back, so that a broker knows them."""
        driven = open_initiator()
        messages = [OutgoingPacket(user_packet(b"1")), OutgoingPacket(user_packet(b"2"))]
        driven.perform(driven.session.send(messages, driven.now))
        driven.receive(session_ack(session_header(received=1)))
        [effect] = driven.take(Acknowledged)
        assert isinstance(effect, Acknowledged)
        self.assertIs(effect.messages[0], messages[0])


class AckWaitTests(SynchronousTestCase):
    """[MS-MQQB] 3.1.6.3: a peer that does not acknowledge."""

    def test_silence_closes(self) -> None:
        """An unacknowledged message and no packet at all: closed after AckWaitTimeout.

        MQQB-3.1.2.4-01, MQQB-3.1.6.3-02, MQQB-2.2.2.1-03.
        """
        driven = open_initiator(direct=False)
        driven.send(user_packet())
        driven.advance(19.999)
        self.assertIsNone(driven.close_reason)
        driven.advance(0.001)
        self.assertEqual(driven.close_reason, CloseReason.ACK_TIMEOUT)

    def test_direct_sessions_wait_twice_as_long(self) -> None:
        """The factor is 2 toward a direct format name (MQQB-3.1.2.4-02)."""
        driven = open_initiator()
        driven.advance(30)
        driven.send(user_packet())
        driven.advance(39.999)
        self.assertIsNone(driven.close_reason)
        driven.advance(0.001)
        self.assertEqual(driven.close_reason, CloseReason.ACK_TIMEOUT)

    def test_the_acceptor_uses_the_received_timeout(self) -> None:
        """AckTimeout of the parameters rules the acceptor's wait (MQQB-3.1.5.4.1-02)."""
        driven = Driven(is_initiator=False)
        driven.perform(driven.session.accepted(driven.now))
        driven.receive(establish(ALPHA, BETA) + parameters(500, 30000))
        driven.send(user_packet())
        driven.advance(29.999)
        self.assertIsNone(driven.close_reason)
        driven.advance(0.001)
        self.assertEqual(driven.close_reason, CloseReason.ACK_TIMEOUT)

    def test_any_packet_buys_one_more_period(self) -> None:
        """What the peer sends proves that it lives, for one period (MQQB-3.1.6.3-03, MQQB-3.1.5.1-01)."""
        driven = open_initiator(direct=False)
        driven.send(user_packet())
        driven.advance(10)
        driven.receive(user_packet())
        driven.advance(10)
        self.assertIsNone(driven.close_reason)
        driven.advance(19.999)
        self.assertIsNone(driven.close_reason)
        driven.advance(0.001)
        self.assertEqual(driven.close_reason, CloseReason.ACK_TIMEOUT)

    def test_a_partial_acknowledgement_renews_the_deadline(self) -> None:
        """While something is unacknowledged each acknowledgement restarts the timer.

        MQQB-3.1.5.5.5-03.
        """
        driven = open_initiator(direct=False)
        driven.send(user_packet(), user_packet())
        driven.advance(15)
        driven.receive(session_ack(session_header(received=1)))
        driven.advance(19)
        self.assertIsNone(driven.close_reason)
        driven.receive(session_ack(session_header(received=2)))
        driven.advance(200)
        self.assertIsNone(driven.close_reason)

    def test_all_acknowledged_stops_the_timer(self) -> None:
        """With nothing to wait for, the expiry changes nothing (MQQB-3.1.6.3-01)."""
        driven = open_initiator(direct=False)
        driven.send(user_packet())
        driven.take_written()
        driven.receive(session_ack(session_header(received=1)))
        driven.advance(250)
        self.assertIsNone(driven.close_reason)
        self.assertEqual(driven.written, b"")

    def test_only_the_first_message_arms_the_timer(self) -> None:
        """A later message does not move the deadline of an earlier one (MQQB-3.1.7.1.3-09)."""
        driven = open_initiator(direct=False)
        driven.send(user_packet())
        driven.advance(10)
        driven.send(user_packet())
        driven.advance(10)
        self.assertEqual(driven.close_reason, CloseReason.ACK_TIMEOUT)


class UnnamedTests(SynchronousTestCase):
    """A peer that counts recoverable messages, and does not say that it has stored them."""

    def setUp(self) -> None:
        self.driven = open_initiator()
        self.packet = user_packet(recoverable=True)
        self.sent = 0

    def send(self, packet: bytes | None = None) -> int:
        """Send as many as may go."""
        count = self.driven.session.capacity
        self.driven.send(*(packet or self.packet for _ in range(count)))
        self.sent += count
        return count

    def count(self, base: int = 0, flags: int = 0) -> None:
        """The peer counts what was sent, and names some."""
        header = session_header(self.sent & 0xFFFF, recoverable_base=base, recoverable_flags=flags)
        self.driven.receive(session_ack(header))

    def test_none_is_taken_for_another(self) -> None:
        """Their numbers have 16 bits, so nothing more is sent before half of them are acknowledged."""
        while self.send():
            self.count()
        self.assertEqual(self.sent, 0x7FFF)
        self.assertEqual(acknowledged(self.driven), [])
        self.driven.take(WindowOpened)
        # All but the first are named.
        for base in range(2, 0x8000, 32):
            self.count(base, 0xFFFFFFFF)
        self.assertEqual((len(acknowledged(self.driven)), self.driven.session.capacity), (0x7FFE, 0))
        self.assertEqual(self.driven.take(WindowOpened), [])
        self.count(1, 1)
        self.assertEqual(len(self.driven.take(WindowOpened)), 1)
        self.assertEqual(self.send(), 64)

    def test_all_come_back(self) -> None:
        """When nothing happens any more the session closes, and none of them is forgotten."""
        while self.send():
            self.count()
        self.driven.advance(700)
        self.assertIs(self.driven.close_reason, CloseReason.IDLE)
        [closed] = self.driven.take(Closed)
        assert isinstance(closed, Closed)
        self.assertEqual(len(closed.unacknowledged), self.sent)

    def test_large_ones(self) -> None:
        """They are kept in memory, so there is a bound to what they have together."""
        self.send(user_packet(b"x" * (MOST_UNNAMED_BYTES // 32), recoverable=True))
        self.count()
        self.driven.take(WindowOpened)
        self.assertEqual((self.sent, self.driven.session.capacity), (64, 0))
        self.count(1, 0xFFFFFFFF)
        self.assertEqual(self.driven.session.capacity, 0)
        self.count(33, 1)
        self.assertEqual(self.driven.session.capacity, 64)
        self.assertEqual(len(self.driven.take(WindowOpened)), 1)
