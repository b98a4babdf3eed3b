"""[MS-MQQB] 3.1.5.5: what a sender does by the acknowledgements of its session."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.session.effects import Acknowledged, CloseReason, WindowOpened
from msmq.session.outgoing import OutgoingPacket
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
from tests.session.test_session_acknowledgements import acknowledged


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
        """The window admits exactly as many as were acknowledged (MQQB-3.1.5.5.1-04)."""
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

    def test_acknowledgements_in_one_chunk_are_one_effect(self) -> None:
        """What is forgotten by two of them comes together, before one notice of the open window."""
        driven = open_initiator()
        driven.send(*(user_packet(b"%d" % number) for number in range(3)))
        driven.receive(session_ack(session_header(received=1)) + session_ack(session_header(received=2)))
        forgotten, opened = driven.effects
        assert isinstance(forgotten, Acknowledged)
        self.assertEqual(
            [message.packet for message in forgotten.messages], [user_packet(b"0"), user_packet(b"1")]
        )
        self.assertEqual(opened, WindowOpened())

    def test_names_in_one_chunk_are_one_effect(self) -> None:
        """Messages that were counted before, and are named by two acknowledgements, leave together."""
        driven = open_initiator()
        packets = [user_packet(b"%d" % number, recoverable=True) for number in range(3)]
        driven.send(*packets)
        driven.receive(session_ack(session_header(received=3)))
        driven.effects.clear()
        driven.receive(
            session_ack(session_header(received=3, recoverable_base=1, recoverable_flags=1))
            + session_ack(session_header(received=3, recoverable_base=2, recoverable_flags=0b11))
        )
        [forgotten] = driven.effects
        assert isinstance(forgotten, Acknowledged)
        self.assertEqual([message.packet for message in forgotten.messages], packets)

    def test_an_old_acknowledgement_changes_nothing(self) -> None:
        """A count below the last one, by as much as half of the range, acknowledges nothing; one above what
        was sent closes the session, by up to the other half.
        """
        for received in (1, 0, 2 + 0x8000):
            driven = open_initiator()
            driven.send(*(user_packet(b"%d" % number) for number in range(4)))
            driven.receive(session_ack(session_header(received=2)))
            driven.effects.clear()
            driven.receive(session_ack(session_header(received=received)))
            self.assertEqual(driven.effects, [], received)
            self.assertEqual(driven.session.statistics.unacknowledged, 2)
        for received in (5, 2 + 0x7FFF):
            driven = open_initiator()
            driven.send(*(user_packet(b"%d" % number) for number in range(4)))
            driven.receive(session_ack(session_header(received=2)))
            driven.receive(session_ack(session_header(received=received)))
            self.assertEqual(driven.close_reason, CloseReason.BAD_ACKNOWLEDGEMENT, received)

    def test_a_wider_window_is_said_once_it_helps(self) -> None:
        """Without a count, the window is said to be open if there was no room before and there is now."""
        for before, after, is_said in ((1, 4, True), (1, 1, False), (2, 2, False), (2, 64, False)):
            driven = open_initiator(window_size=before)
            driven.send(user_packet())
            driven.receive(session_ack(session_header(window_size=after)))
            self.assertEqual(driven.take(WindowOpened), [WindowOpened()] if is_said else [], (before, after))
            self.assertEqual(driven.session.capacity, after - 1)

    def test_a_window_grows_by_itself_only_from_one(self) -> None:
        """Each doubling opens it; when it is whole, or the peer says another one, that ends."""
        driven = open_initiator()
        driven.receive(session_ack(session_header(window_size=1)))
        driven.advance(29.9)
        self.assertEqual(driven.take(WindowOpened), [])
        driven.advance(299)
        self.assertEqual(driven.take(WindowOpened), [WindowOpened()] * 6)
        driven = open_initiator()
        driven.receive(session_ack(session_header(window_size=1)))
        driven.advance(20)
        driven.receive(session_ack(session_header(window_size=10)))
        driven.advance(100)
        self.assertEqual((driven.session.capacity, driven.take(WindowOpened)), (10, []))

    def test_a_whole_window_ends_its_recovery(self) -> None:
        """No timer runs but that of an idle session, the first expiry of which is not reached yet."""
        driven = open_initiator(settings=SessionSettings(session_cleanup=1000))
        driven.receive(session_ack(session_header(window_size=1)))
        driven.advance(180)
        self.assertEqual(driven.session.capacity, 64)
        self.assertEqual(driven.session.deadline, driven.now.monotonic - 180 + 1000)

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

    def test_each_step_of_our_window_opens_it(self) -> None:
        """After the last one no timer runs but that of an idle session."""
        driven = open_acceptor(settings=SessionSettings(session_cleanup=1000))
        driven.perform(driven.session.narrow(driven.now))
        driven.advance(500)
        self.assertEqual(driven.take(WindowOpened), [WindowOpened()] * 6)
        self.assertEqual(driven.session.deadline, driven.now.monotonic + 500)

    def test_a_window_that_has_grown_is_stated_with_the_next_message(self) -> None:
        """The peer knows only of the window of 1, and waits for the acknowledgement of its one message."""
        driven = open_acceptor(settings=SessionSettings(session_cleanup=1000))
        driven.perform(driven.session.narrow(driven.now))
        driven.advance(500)
        driven.take_written()
        driven.receive(user_packet())
        self.assertEqual(acks(driven.take_written()), [(1, 0, 0, 0, 0, 64)])

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
        """A closed session sends nothing."""
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
        driven.advance(30)
        self.assertEqual(driven.session.capacity, 2)

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
        """Any packet of the peer proves that it lives, for one period.

        MQQB-3.1.6.3-03, MQQB-3.1.5.1-01, MQQB-3.1.1.1.1.1-03.
        """
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

    def test_a_partial_acknowledgement_restarts_the_timer(self) -> None:
        """Two are sent, one is acknowledged after 15 s: the peer has 20 s from then on, and 20 s more for it.

        The timer of the first message would expire at 20 s, and close the session at 40 s.
        MQQB-3.1.5.5.5-03.
        """
        driven = open_initiator(direct=False)
        driven.send(user_packet(), user_packet())
        driven.advance(15)
        driven.receive(session_ack(session_header(received=1)))
        driven.advance(39.999)
        self.assertIsNone(driven.close_reason)
        driven.advance(0.001)
        self.assertEqual(driven.close_reason, CloseReason.ACK_TIMEOUT)

    def test_a_complete_acknowledgement_ends_the_wait(self) -> None:
        """Without unacknowledged messages, silence does not close the session."""
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

    def test_a_complete_acknowledgement_does_not_restart_the_timer(self) -> None:
        """The period in which it came ends as it would have, and a later message gives one more."""
        driven = open_initiator(direct=False)
        driven.send(user_packet())
        driven.advance(15)
        driven.receive(session_ack(session_header(received=1)))
        driven.send(user_packet())
        driven.advance(24.9)
        self.assertIsNone(driven.close_reason)
        driven.advance(0.1)
        self.assertEqual(driven.close_reason, CloseReason.ACK_TIMEOUT)

    def test_only_the_first_message_arms_the_timer(self) -> None:
        """A later message does not move the deadline of an earlier one (MQQB-3.1.7.1.3-09)."""
        driven = open_initiator(direct=False)
        driven.send(user_packet())
        driven.advance(10)
        driven.send(user_packet())
        driven.advance(10)
        self.assertEqual(driven.close_reason, CloseReason.ACK_TIMEOUT)
