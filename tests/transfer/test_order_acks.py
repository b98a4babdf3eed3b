"""[MS-MQQB] 3.1.1.6.2, 3.1.2.7 and 3.1.6.9: when OrderAcks are sent, and what they say."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.settings import SessionSettings
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.incoming_streams import OwedOrderAck
from tests.builders import ALPHA, BETA, GAMMA
from tests.transfer.support import Receiver, transactional_packet

X = TxSequenceID(ordinal=1, timestamp=1_700_000_000)
PEER = "TCP:10.0.0.9"


def message(number: int, previous: int | None = None) -> bytes:
    return transactional_packet(place=(X.value, number, number - 1 if previous is None else previous))


def private_message(number: int, source: UUID = ALPHA) -> bytes:
    place = X.value, number, number - 1
    return transactional_packet(place=place, source=source, private_number=7, queue_manager=BETA)


class TimerTests(SynchronousTestCase):
    def numbers(self, owed: list[OwedOrderAck]) -> list[int]:
        return [ack.tx_sequence_number for ack in owed]

    def test_half_a_second_after_a_message(self) -> None:
        """MQQB-3.1.2.7-01: not at 499 milliseconds, and at 500."""
        receiver = Receiver()
        receiver.take(message(1))
        self.assertEqual(receiver.advance(0.499), [])
        self.assertEqual(receiver.advance(0.001), [OwedOrderAck(PEER, X, 1, ALPHA)])
        self.assertEqual(receiver.advance(100), [])

    def test_messages_that_follow_put_it_off(self) -> None:
        """MQQB-3.1.1.6.2-04: one every 400 milliseconds, and one OrderAck 500 after the last."""
        receiver = Receiver()
        for number in range(1, 6):
            receiver.take(message(number))
            self.assertEqual(receiver.advance(0.4), [])
        self.assertEqual(self.numbers(receiver.advance(0.1)), [5])

    def test_they_do_not_put_it_off_for_ever(self) -> None:
        """MQQB-3.1.1.6.2-05, MQQB-3.1.1.3.1-21, MQQB-3.1.3.2-13: beyond ten seconds within half a second."""
        receiver = Receiver()
        times = []
        for number in range(1, 101):
            receiver.take(message(number))
            start = receiver.now.monotonic
            if receiver.advance(0.4):
                times.append(start - 1000 + 0.4)
        self.assertEqual(len(times), 3)
        for before, after in zip([0.0, *times], times, strict=False):
            self.assertTrue(10 <= after - before <= 11, times)

    def test_many_messages(self) -> None:
        """As many as the setting says are acknowledged at once, counted from the last OrderAck."""
        receiver = Receiver(settings=SessionSettings(order_ack_messages=3))
        for number in range(1, 7):
            receiver.take(message(number))
            owed = receiver.streams.expire(receiver.now)
            self.assertEqual(len(owed), number % 3 == 0)

    def test_many_bytes(self) -> None:
        """So are messages with as many bytes as the setting says, which their sender keeps until then."""
        size = len(message(1))
        receiver = Receiver(settings=SessionSettings(order_ack_bytes=2 * size + 1))
        for number in range(1, 7):
            receiver.take(message(number))
            owed = receiver.streams.expire(receiver.now)
            self.assertEqual(len(owed), number % 3 == 0)

    def test_bytes_that_were_not_stored_do_not_count(self) -> None:
        """A commit that fails, or a decision that is taken back, leaves the count of bytes as it was."""
        size = len(message(1))
        receiver = Receiver(settings=SessionSettings(order_ack_bytes=3 * size))
        receiver.take(message(1))
        receiver.classify(message(2))
        receiver.begin()
        receiver.classify(message(3))
        receiver.failed()
        receiver.classify(message(2))
        receiver.streams.take_back()
        receiver.take(message(2))
        self.assertEqual(receiver.streams.expire(receiver.now), [])
        receiver.take(message(3))
        self.assertEqual(self.numbers(receiver.streams.expire(receiver.now)), [3])

    def test_the_longest_delay(self) -> None:
        """A message within ten seconds puts the OrderAck off, and one after just these does not."""
        for seconds, numbers in ((9.75, []), (10.0, [2])):
            receiver = Receiver()
            receiver.take(message(1))
            receiver.now = receiver.now.later(seconds)
            receiver.take(message(2))
            receiver.now = receiver.now.later(0.25)
            found = receiver.streams.expire(receiver.now)
            self.assertEqual([each.tx_sequence_number for each in found], numbers)

    def test_the_last_acknowledgement_is_what_counts(self) -> None:
        """MQQB-3.1.6.9-02: from each OrderAck on there are ten more seconds to put the next one off."""
        receiver = Receiver()
        receiver.take(message(1))
        self.assertEqual(self.numbers(receiver.advance(7.5)), [1])
        receiver.take(message(2))
        self.assertEqual(self.numbers(receiver.advance(0.5)), [2])
        number = 3
        while not receiver.take(message(number)) or not receiver.advance(0.4):
            number += 1
        self.assertTrue(26 <= number - 2 <= 28, number)

    def test_one_stands_for_many(self) -> None:
        """MQQB-3.1.1.6.2-06, MQQB-2.2.4.1-03: after 6, 7 and 8 there is one, which says 8."""
        receiver = Receiver()
        receiver.take(*map(message, range(1, 6)))
        self.assertEqual(self.numbers(receiver.advance(1)), [5])
        receiver.take(message(6), message(7), message(8))
        self.assertEqual(self.numbers(receiver.advance(1)), [8])

    def test_a_gap_is_not_acknowledged(self) -> None:
        """MQQB-3.1.1.6.2-03: of 1, 2 and 4 after 3 only 2 is."""
        receiver = Receiver()
        receiver.take(message(1), message(2), message(4))
        self.assertEqual(self.numbers(receiver.advance(1)), [2])

    def test_a_duplicate_draws_another(self) -> None:
        """MQQB-3.1.5.8.6-01: an old message makes it be said again."""
        receiver = Receiver()
        receiver.take(message(1), message(2))
        receiver.advance(1)
        receiver.classify(message(1))
        self.assertEqual(self.numbers(receiver.advance(1)), [2])

    def test_no_acknowledgement_without_a_message(self) -> None:
        """MQQB-3.1.6.9-01: while nothing of a stream was accepted there is no OrderAck.

        Nor while its first message is being stored, if a copy of that comes meanwhile.
        """
        receiver = Receiver()
        receiver.take(message(3))
        self.assertEqual((receiver.advance(20), receiver.streams.deadline), ([], None))
        receiver.classify(message(1))
        receiver.begin()
        receiver.classify(message(1))
        self.assertEqual(receiver.advance(20), [])
        receiver.stored()
        self.assertEqual(self.numbers(receiver.advance(1)), [1])

    def test_only_what_is_stored_is_acknowledged(self) -> None:
        """MQQB-3.1.1.6.2-02: while the disk is at work the OrderAck waits, or says what was before."""
        receiver = Receiver()
        receiver.classify(message(1))
        receiver.begin()
        self.assertEqual(receiver.advance(20), [])
        receiver.stored()
        self.assertEqual(receiver.advance(0.499), [])
        self.assertEqual(self.numbers(receiver.advance(0.001)), [1])
        receiver.classify(message(2), message(1))
        receiver.begin()
        self.assertEqual(self.numbers(receiver.advance(1)), [1])

    def test_what_the_store_refused_is_not_acknowledged(self) -> None:
        """It draws the OrderAck of what was there before."""
        receiver = Receiver()
        receiver.take(message(1))
        receiver.advance(1)
        receiver.classify(message(2))
        receiver.begin()
        receiver.failed()
        self.assertEqual(receiver.advance(1), [])

    def test_no_acknowledgement_is_owed_after_a_restart(self) -> None:
        """The sender sends again what was not acknowledged, and draws it."""
        receiver = Receiver()
        receiver.take(message(1))
        receiver = receiver.restart()
        self.assertIs(receiver.streams.deadline, None)
        receiver.classify(message(1))
        self.assertEqual(self.numbers(receiver.advance(1)), [1])

    def test_each_stream_has_its_own(self) -> None:
        """Reading 62: two streams of one connection owe two OrderAcks."""
        receiver = Receiver()
        receiver.take(message(1), private_message(1))
        owed = receiver.advance(1)
        self.assertEqual({ack.answer_to for ack in owed}, {PEER, ALPHA})

    def test_a_thousand_messages_are_enough(self) -> None:
        """A sender that streams need not keep ten seconds of it."""
        receiver = Receiver(settings=SessionSettings(order_ack_messages=3))
        receiver.take(message(1), message(2))
        self.assertEqual(receiver.streams.expire(receiver.now), [])
        receiver.take(message(3))
        self.assertEqual(self.numbers(receiver.streams.expire(receiver.now)), [3])
        receiver.take(message(4))
        self.assertEqual(receiver.streams.expire(receiver.now), [])

    def test_the_times_come_from_the_settings(self) -> None:
        """Another OrderAckTimeout, and another moment."""
        receiver = Receiver(settings=SessionSettings(order_ack_timeout=2))
        receiver.take(message(1))
        self.assertEqual(receiver.advance(1.999), [])
        self.assertEqual(len(receiver.advance(0.001)), 1)


class DestinationTests(SynchronousTestCase):
    def test_direct_messages_are_answered_where_they_came_from(self) -> None:
        """The address of the connection counts, and the latest of several."""
        receiver = Receiver()
        receiver.take(message(1), address="TCP:10.0.0.1")
        receiver.take(message(2), address="TCP:fe80::1")
        self.assertEqual([ack.answer_to for ack in receiver.advance(1)], ["TCP:fe80::1"])

    def test_other_messages_are_answered_to_their_first_sender(self) -> None:
        """Not to the router that brought them."""
        receiver = Receiver()
        receiver.take(private_message(1, source=GAMMA))
        self.assertEqual([ack.answer_to for ack in receiver.advance(1)], [GAMMA])

    def test_each_message_decides(self) -> None:
        """MQQB-3.1.5.8.2-03: a direct message before it on the session changes nothing for another."""
        receiver = Receiver()
        receiver.take(message(1))
        self.assertEqual([ack.answer_to for ack in receiver.advance(1)], [PEER])
        receiver.take(private_message(1))
        self.assertEqual([ack.answer_to for ack in receiver.advance(1)], [ALPHA])

    def test_the_address_is_known_after_a_restart(self) -> None:
        """FinalAcks are due when messages are received, whenever that is."""
        receiver = Receiver()
        receiver.take(message(1), private_message(1))
        receiver = receiver.restart()
        direct, private = UserMessageView(message(1)), UserMessageView(private_message(1))
        self.assertEqual(receiver.streams.answer_to(direct), PEER)
        self.assertEqual(receiver.streams.answer_to(private), ALPHA)
        unknown = UserMessageView(transactional_packet(source=GAMMA))
        self.assertIs(receiver.streams.answer_to(unknown), None)

    def test_no_acknowledgement_for_a_lost_connection(self) -> None:
        """MQQB-3.1.6.9-01: what came over it is not answered, until it comes again over another."""
        receiver = Receiver()
        receiver.take(message(1), address=PEER)
        receiver.take(private_message(1), address="TCP:10.0.0.8")
        receiver.classify(message(2), address=PEER)
        receiver.begin()
        receiver.streams.disconnected(PEER)
        receiver.stored()
        self.assertEqual([ack.answer_to for ack in receiver.advance(1)], [ALPHA])
        receiver.classify(message(2), address="TCP:10.0.0.7")
        self.assertEqual(receiver.advance(1), [OwedOrderAck("TCP:10.0.0.7", X, 2, ALPHA)])
