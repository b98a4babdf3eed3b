"""[MS-MQQB] 3.1.1.5 and 3.1.7.1.3: messages get their positions in a sequence, and keep them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.persistence.state_records import StateError
from msmq.settings import SessionSettings
from msmq.structures.identifiers import SequenceInfo
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.outgoing_streams import OutgoingStreams
from msmq.transfer.sequence_identifiers import NAME, SequenceIdentifiers
from tests.builders import ALPHA, GAMMA, user_packet
from tests.transfer.support import (
    SETTINGS,
    START,
    Position,
    Sender,
    numbers_in,
    place_in,
    transactional_packet,
)

FIRST = int(START.wall) << 32 | 1


class NumberTests(SynchronousTestCase):
    def test_positions_are_consecutive(self) -> None:
        """MQQB-3.1.7.1.3-01: the first message is 1 after 0 of the sequence, the second 2 after 1."""
        sender = Sender()
        sender.put()
        sender.put()
        self.assertEqual(
            [place_in(message.packet) for message in sender.send()], [(FIRST, 1, 0), (FIRST, 2, 1)]
        )

    def test_sent_packets_equal_stored_ones(self) -> None:
        """The numbers are in the stored packet before anything is sent."""
        sender = Sender()
        stored = [position.stored for position in sender.put(3)]
        self.assertEqual([message.packet for message in sender.send()], stored)

    def test_a_gap_before_the_first_attempt_is_bridged(self) -> None:
        """MQQB-3.1.7.1.3-01: number 2 expires unsent, and 3 says that it follows 1."""
        sender = Sender()
        _, second, _ = sender.put(3)
        sender.expire(second)
        self.assertEqual(sender.sent(), [(1, 0), (3, 1)])

    def test_a_gap_is_bridged_when_a_message_is_sent_again(self) -> None:
        """MQQB-3.1.7.1.3-03: 1, 2 and 3 were sent and 2 expires: 3 is sent again after 1."""
        sender = Sender()
        _, second, _ = sender.put(3)
        self.assertEqual(sender.sent(), [(1, 0), (2, 1), (3, 2)])
        sender.expire(second)
        sender.advance(30)
        self.assertEqual(sender.sent(), [(1, 0), (3, 1)])

    def test_a_gap_behind_what_was_acknowledged_is_bridged(self) -> None:
        """MQQB-3.1.7.1.3-03: 1 is acknowledged and 2 expires: 3 is sent again after 1."""
        sender = Sender()
        _, second, _ = sender.put(3)
        sender.send()
        sender.order_ack(1)
        sender.expire(second)
        sender.advance(30)
        self.assertEqual(sender.sent(), [(3, 1)])

    def test_another_receiver_has_no_earlier_message(self) -> None:
        """What goes on at another queue manager follows none that was acknowledged (reading 56)."""
        sender = Sender()
        sender.put(3)
        sender.send()
        sender.order_ack(1)
        sender.stream.is_moved = True
        sender.advance(30)
        self.assertEqual(sender.sent(), [(2, 0), (3, 2)])
        sender.order_ack(3)
        sender.put(2)
        sender.send()
        sender.order_ack(1)
        sender.advance(30)
        self.assertEqual(sender.sent(), [(2, 1)])

    def test_numbers_stay_over_a_reconnect(self) -> None:
        """MQQB-3.1.3.2-07: what was not acknowledged is sent again with the numbers that it has."""
        sender = Sender()
        sender.put(3)
        first = [message.packet for message in sender.send()]
        self.assertEqual(len(sender.stream.disconnected()), 3)
        sender.stream.connected(sender.now)
        self.assertEqual([message.packet for message in sender.send()], first)

    def test_numbers_stay_over_a_restart(self) -> None:
        """MQQB-3.1.7.1.3-02: a crash right after sending, and the messages come again with their numbers."""
        sender = Sender()
        sender.put(2)
        sender.put()
        first = sender.send()
        self.assertEqual(numbers_in(first), [(1, 0), (2, 1), (3, 2)])
        again = sender.restart().send()
        self.assertEqual([message.packet for message in again], [message.packet for message in first])

    def test_numbers_that_were_not_sent_stay_too(self) -> None:
        """MQQB-3.1.1.3.1.2-02: a message that was stored with its number is sent with it after a restart."""
        sender = Sender()
        sender.put(2)
        sender.sent(1)
        self.assertEqual(sender.restart().sent(), [(1, 0), (2, 1)])
        sender = Sender()
        sender.put(3)
        sender.sent(1)
        sender.order_ack(1)
        self.assertEqual(sender.restart().sent(), [(2, 1), (3, 2)])

    def test_a_new_sequence_begins_when_all_is_acknowledged(self) -> None:
        """MQQB-3.1.1.5-03, MQQB-3.1.5.6-10: the next message is number 1 of the next identifier."""
        sender = Sender()
        sender.put(2)
        sender.send()
        sender.order_ack(2)
        sender.order_ack(2, FIRST)
        sender.put(2)
        self.assertEqual(
            [place_in(message.packet) for message in sender.send()], [(FIRST + 1, 1, 0), (FIRST + 1, 2, 1)]
        )

    def test_a_sequence_goes_on_while_anything_is_left_of_it(self) -> None:
        """MQQB-3.1.1.5-04: one sequence at a time, and it ends when its last message has left."""
        sender = Sender()
        sender.put(2)
        sender.send()
        sender.order_ack(1)
        sender.put()
        self.assertEqual(sender.sent(), [(3, 2)])
        sender.order_ack(3)
        sender.put()
        self.assertEqual([place_in(message.packet) for message in sender.send()], [(FIRST + 1, 1, 0)])

    def test_a_sequence_ends_when_its_messages_have_expired(self) -> None:
        """The sequence ends when its last message is removed, for any reason."""
        sender = Sender()
        sender.expire(*sender.put(2))
        self.assertTrue(sender.stream.is_empty)
        sender.put()
        self.assertEqual([place_in(message.packet) for message in sender.send()], [(FIRST + 1, 1, 0)])

    def test_queues_have_sequences_of_their_own(self) -> None:
        """Reading 49: identifiers are unique over the queue manager."""
        sender = Sender()
        other = sender.streams.stream("invoices")
        self.assertIs(sender.streams.stream("invoices"), other)
        self.assertIs(sender.streams.find("nothing"), None)
        sender.put()
        self.assertEqual(other.assign(1).sequence, FIRST + 1)

    def test_messages_of_others_pass_untouched(self) -> None:
        """MQQB-3.1.7.1.3-04: a forwarded TransactionHeader stays as it is."""
        sender = Sender()
        forwarded = Position(transactional_packet(source=GAMMA, place=(7, 5, 3)))
        plain = Position(user_packet(b"plain", recoverable=True))
        sender.put()
        own = sender.stream.due(9)
        transmission = sender.transmit(forwarded, *own, plain)
        self.assertEqual(transmission.outgoing[0], forwarded)
        self.assertEqual(transmission.outgoing[2], plain)
        self.assertEqual(place_in(forwarded.packet), (7, 5, 3))
        self.assertEqual(sender.stream.unacknowledged, 1)

    def test_a_number_is_never_given_twice(self) -> None:
        """A message that could not be stored leaves a gap, and later ones are sent across it."""
        sender = Sender()
        sender.put()
        failed = sender.stream.assign(2)
        sender.put()
        self.assertEqual(sender.stream.due(9), sender.queue[:1])
        sender.stream.withdrawn(failed)
        self.assertEqual(sender.sent(), [(1, 0), (4, 1)])

    def test_nothing_overtakes_a_batch_that_is_being_stored(self) -> None:
        """A later batch that is stored already waits for the earlier one."""
        sender = Sender()
        early = sender.stream.assign(1)
        packets = early.stamp([UserMessageView(transactional_packet())])
        (late,) = sender.put()
        self.assertEqual(sender.stream.due(9), [])
        self.assertEqual(sender.transmit(late).held, [late])
        position = Position(packets[0])
        sender.stream.committed(early, [position])
        self.assertEqual(sender.sent(), [(1, 0), (2, 1)])

    def test_messages_are_sent_in_the_order_of_their_numbers(self) -> None:
        """A message that is handed over in another order is held until its predecessors are sent."""
        sender = Sender()
        first, second, third = sender.put(3)
        self.assertEqual(list(sender.transmit(second, third).held), [second, third])
        transmission = sender.transmit(first, third, second)
        self.assertEqual(numbers_in(list(transmission.outgoing)), [(1, 0), (2, 1)])
        self.assertEqual(list(transmission.held), [third])

    def test_what_is_sent_again_goes_first(self) -> None:
        """A later message is held until those before it were sent again."""
        sender = Sender()
        sender.put(2)
        sender.send()
        (third,) = sender.put()
        again = sender.stream.disconnected()
        self.assertEqual(list(sender.transmit(third, again[1]).held), [third, again[1]])
        self.assertEqual(sender.sent(2), [(1, 0), (2, 1)])
        self.assertEqual(sender.sent(), [(3, 2)])

    def test_unknown_messages_are_refused(self) -> None:
        """A message that was never committed, or never read, is a mistake of the caller."""
        sender = Sender()
        unknown = Position(transactional_packet())
        self.assertRaises(LocalProtocolError, sender.transmit, unknown)
        (position,) = sender.put()
        position.view = None
        self.assertRaises(LocalProtocolError, sender.transmit, position)

    def test_the_positions_have_to_be_used(self) -> None:
        """As many messages are stamped and committed as positions were requested, all transactional."""
        stream = Sender().stream
        assignment = stream.assign(1)
        self.assertEqual(assignment.tx_sequence_id.value, FIRST)
        self.assertRaises(LocalProtocolError, assignment.stamp, [])
        self.assertRaises(LocalProtocolError, assignment.stamp, [UserMessageView(user_packet())])
        self.assertRaises(LocalProtocolError, stream.committed, assignment, [])
        self.assertRaises(LocalProtocolError, stream.assign, 0)
        self.assertRaises(LocalProtocolError, stream.assign, 1 << 32)

    def test_no_more_are_sent_than_may_be_unacknowledged(self) -> None:
        """The rest waits until an OrderAck makes room; what is sent again needs none."""
        settings = SessionSettings(unacknowledged_messages=2)
        sender = Sender(settings=settings)
        positions = sender.put(4)
        self.assertEqual(sender.stream.due(9), positions[:2])
        transmission = sender.transmit(*positions)
        self.assertEqual((len(transmission.outgoing), list(transmission.held)), (2, positions[2:]))
        self.assertEqual((sender.stream.capacity, sender.send()), (0, []))
        sender.advance(30)
        self.assertEqual(sender.sent(), [(1, 0), (2, 1)])
        sender.order_ack(1)
        self.assertEqual(sender.sent(), [(3, 2)])


class TombstoneTests(SynchronousTestCase):
    """Messages that leave from the middle of a long queue whose front does not move."""

    def test_what_waits(self) -> None:
        """Messages that expire unsent leave nothing behind."""
        sender = Sender()
        for _ in range(30):
            positions = sender.put(50)
            sender.expire(*positions[1:])
        self.assertLess(len(sender.stream._waiting), 200)
        expected = [(50 * n + 1, 50 * n - 49 if n else 0) for n in range(30)]
        self.assertEqual(sender.sent(100), expected)

    def test_sent_messages(self) -> None:
        """Nor do those that expire after they were sent, or whose FinalAcks arrive."""
        sender = Sender()
        (first,) = sender.put()
        for _ in range(30):
            positions = sender.put(50)
            sender.send()
            sender.expire(*positions)
        self.assertLess(len(sender.stream._flying), 200)
        sender.advance(30)
        self.assertEqual((sender.sent(), sender.queue), ([(1, 0)], [first]))


class LargeNumberTests(SynchronousTestCase):
    def test_the_last_number_of_a_sequence(self) -> None:
        """0xFFFFFFFF is assigned; the next sequence is held until this one has ended."""
        sender = Sender()
        sender.put()
        sender.send()
        skipped = sender.stream.assign(0xFFFFFFFD)
        sender.stream.withdrawn(skipped)
        sender.put()
        (last,) = sender.put()
        self.assertEqual(place_in(last.stored), (FIRST + 1, 1, 0))
        self.assertEqual(sender.sent(1), [(0xFFFFFFFF, 1)])
        self.assertEqual(list(sender.transmit(last).held), [last])
        self.assertEqual((sender.stream.capacity, sender.stream.due(9)), (0, []))
        sender.order_ack(0xFFFFFFFF)
        self.assertEqual([place_in(message.packet) for message in sender.send()], [(FIRST + 1, 1, 0)])

    def test_a_batch_is_never_cut(self) -> None:
        """One that does not fit what is left of a sequence begins the next."""
        stream = Sender().stream
        self.assertEqual(stream.assign(0xFFFFFFFE).first, 1)
        batch = stream.assign(2)
        self.assertEqual((batch.sequence, batch.first), (FIRST + 1, 1))

    def test_the_last_ordinal_of_a_time_stamp(self) -> None:
        """The time stamp grows, and is to be stored again; the identifiers stay ours."""
        identifiers = SequenceIdentifiers(7, 0xFFFFFFFE)
        change = identifiers.reservation()
        assert change is not None
        identifiers.stored(change)
        self.assertEqual([identifiers.take(), identifiers.next], [7 << 32 | 0xFFFFFFFF, 8 << 32 | 1])
        self.assertIs(identifiers.reservation(), None)
        self.assertEqual(identifiers.take(), 8 << 32 | 1)
        self.assertIsNot(identifiers.reservation(), None)
        self.assertTrue(identifiers.is_ours(7 << 32 | 0xFFFFFFFF))
        self.assertFalse(identifiers.is_ours(6 << 32 | 0xFFFFFFFF))

    def test_the_last_identifier_of_all(self) -> None:
        """After the last identifier the caller gets an error."""
        identifiers = SequenceIdentifiers(0xFFFFFFFF, 0xFFFFFFFE)
        self.assertEqual(identifiers.take(), 0xFFFFFFFFFFFFFFFF)
        self.assertRaises(LocalProtocolError, identifiers.take)

    def test_a_large_identifier_is_negative_for_management(self) -> None:
        """SEQUENCE_INFO has a signed identifier, and shows the same 64 bits."""
        sender = Sender(now=Moment(0.0, float(0x80000000)))
        sender.put()
        sender.send()
        self.assertEqual(sender.stream.info().eod_first_non_ack, SequenceInfo(-(1 << 63) + 1, 1, 0))


class IdentifierTests(SynchronousTestCase):
    def test_a_fresh_store_begins_with_the_time(self) -> None:
        """MQQB-3.1.1.3.1-07: ordinal 1 and the seconds since 1970 as the time stamp."""
        identifiers = SequenceIdentifiers.resume({}, Moment(5.0, 1.7e9))
        self.assertEqual(identifiers.take(), 1_700_000_000 << 32 | 1)

    def test_identifiers_grow_over_restarts(self) -> None:
        """MQQB-3.1.1.3.1-06: also if the clock was set back or stands still, or else the store was lost."""
        state: dict[str, bytes] = {}
        last = SequenceIdentifiers.resume({}, Moment(0.0, 1.65e9)).take()
        for wall in (1.7e9, 1.7e9, 1.6e9, 1.8e9):
            identifiers = SequenceIdentifiers.resume(state, Moment(0.0, wall))
            name, value = identifiers.reservation() or ("", None)
            assert value is not None
            state[name] = value
            for _ in range(3):
                self.assertGreater(identifiers.take(), last)
                last = identifiers.next - 1

    def test_the_time_stamp_is_asked_for_until_it_is_stored(self) -> None:
        """Every commit carries it until one has succeeded; after that none does."""
        sender = Sender()
        change = sender.streams.reservation()
        assert change is not None
        self.assertEqual(sender.streams.reservation(), change)
        sender.streams.reserved(("other", b""))
        self.assertEqual(sender.streams.reservation(), change)
        sender.streams.reserved(change)
        self.assertIs(sender.streams.reservation(), None)

    def test_a_damaged_time_stamp_stops_the_start(self) -> None:
        """The error names the value; nothing goes on with a guess."""
        for value in (b"", b"\2\0\0\0\0", b"\1\0\0\0", b"\1\0\0\0\0\0"):
            error = self.assertRaises(
                StateError, OutgoingStreams[Position], ALPHA, SETTINGS, {NAME: value}, START
            )
            self.assertEqual(error.name, NAME)
