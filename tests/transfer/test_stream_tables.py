"""L{OutgoingStreams}: which stream is of which queue, and what is known of a sequence."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.settings import SessionSettings
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.early_final_acks import PREFIX
from msmq.transfer.sequence_identifiers import SequenceIdentifiers
from msmq.transfer.stream_changes import AckOutcome, Disposal, SettledMessage, UnorderedMessage
from msmq.transfer.transfer_info import NO_SEQUENCE
from tests.transfer.support import (
    SETTINGS,
    START,
    Position,
    Sender,
    final_ack,
    order_ack,
    transactional_packet,
)

FIRST = START.unix_seconds << 32 | 1
RECEIVED = MessageClass.ACK_RECEIVE


class StreamTableTests(SynchronousTestCase):
    """Streams by their queues and sequences."""

    def test_found_by_queue_and_by_sequence(self) -> None:
        """A queue without a stream has none, and a sequence has a queue while it is active."""
        sender = Sender()
        streams = sender.streams
        self.assertIsNone(streams.find("invoices"))
        self.assertIs(streams.find("orders"), sender.stream)
        self.assertIsNone(streams.key_of(FIRST))
        sender.put()
        sender.send()
        self.assertEqual(streams.key_of(FIRST), "orders")
        self.assertIsNone(streams.key_of(FIRST + 1))
        streams.remove("orders")
        streams.remove("orders")
        self.assertEqual((streams.find("orders"), streams.key_of(FIRST), list(streams)), (None, None, []))

    def test_a_deleted_queue_leaves_others_alone(self) -> None:
        """A stream that sent nothing has no sequence to remove."""
        sender = Sender()
        sender.put()
        sender.send()
        sender.streams.stream("invoices")
        sender.streams.remove("invoices")
        self.assertEqual(sender.streams.key_of(FIRST), "orders")
        self.assertEqual(len(sender.order_ack(1)), 1)

    def test_a_deleted_queue_restores_nothing(self) -> None:
        """No FinalAck is kept for the messages that it had and that were not read."""
        sender = Sender()
        [position] = sender.put()
        sender.send()
        again = sender.restart()
        again.streams.remove("orders")
        self.assertIsNone(again.streams.final_acknowledged(final_ack(position, RECEIVED)))
        self.assertEqual(again.streams.take_early_changes(), [])
        self.assertEqual(again.streams.ignored, {"final acknowledgement of an unknown message": 1})

    def test_begun(self) -> None:
        """A sequence was begun if it is active, or was assigned since the start; no other one was."""
        sender = Sender()
        self.assertFalse(sender.streams.was_begun(FIRST))
        sender.put()
        self.assertTrue(sender.streams.was_begun(FIRST), "it is assigned")
        self.assertFalse(sender.streams.was_begun(FIRST + 1))
        self.assertFalse(sender.streams.was_begun(FIRST - (1 << 32)), "of an earlier start")
        again = sender.restart()
        self.assertFalse(again.streams.was_begun(FIRST))
        again.send()
        self.assertTrue(again.streams.was_begun(FIRST), "it is active again")

    def test_other_settings(self) -> None:
        """The limit applies to the next message, and the times of sending again to a new stream."""
        sender = Sender()
        sender.put(3)
        sender.streams.configure(SessionSettings(unacknowledged_messages=2, resend_short=7.0))
        transmission = sender.transmit(*sender.queue)
        self.assertEqual((len(transmission.outgoing), len(transmission.held)), (2, 1))
        self.assertEqual(sender.streams.deadline, START.monotonic + SETTINGS.resend_short)
        other = sender.streams.stream("invoices")
        assignment = other.assign(1)
        [packet] = assignment.stamp([Position(transactional_packet()).view or self.fail("no view")])
        position = Position(packet)
        other.committed(assignment, [position])
        other.connected(START)
        other.transmit([position], START)
        self.assertEqual(sender.streams.deadline, START.monotonic + 7.0)

    def test_early_final_acks_without_messages(self) -> None:
        """When all streams are restored, those that match nothing are removed, and not before."""
        sender = Sender()
        [position] = sender.put()
        sender.send()
        queue = [Position(position.stored)]
        again = Sender(state=dict(sender.state), queue=queue, now=sender.now.later(1))
        self.assertIsNone(again.streams.final_acknowledged(final_ack(position, RECEIVED)))
        changes = again.streams.take_early_changes()
        self.assertEqual([name for name, _ in changes], [f"{PREFIX}{FIRST << 32 | 1}"])
        self.assertEqual(again.streams.ignored, {}, "it is kept")
        again.streams.restored()
        self.assertEqual(again.streams.take_early_changes(), [], "its message is not read yet")
        state = dict(sender.state) | {name: value for name, value in changes if value is not None}
        empty = Sender(state=state, now=sender.now.later(1))
        empty.streams.restored()
        self.assertEqual(empty.streams.take_early_changes(), [(name, None) for name, _ in changes])

    def test_unknown_sequences_are_counted(self) -> None:
        """By the reason, and they change nothing."""
        sender = Sender()
        sender.put()
        sender.send()
        for ack in (order_ack(FIRST, 0), order_ack(FIRST + 1, 1)):
            self.assertIsNone(sender.streams.order_acknowledged(ack, START))
        self.assertEqual(sender.streams.ignored, {"order acknowledgement of an unknown sequence": 2})


class IdentifierTests(SynchronousTestCase):
    """L{SequenceIdentifiers} at the ends of their ranges."""

    def test_the_last_ordinal(self) -> None:
        """The next identifier has the next time stamp, and both belong to this start."""
        identifiers = SequenceIdentifiers(5, ordinal=0xFFFFFFFE)
        self.assertEqual(identifiers.take(), 5 << 32 | 0xFFFFFFFF)
        self.assertEqual(identifiers.next, 6 << 32 | 1)
        self.assertEqual(identifiers.take(), 6 << 32 | 1)
        self.assertEqual((identifiers.timestamp, identifiers.ordinal), (6, 1))
        self.assertTrue(identifiers.was_given(5 << 32 | 0xFFFFFFFF))
        self.assertFalse(identifiers.was_given(6 << 32 | 2))
        self.assertFalse(identifiers.is_ours((5 << 32) - 1))
        self.assertTrue(identifiers.is_ours(6 << 32 | 2))

    def test_ordinals_of_another_start(self) -> None:
        """Those before the first of this start were not assigned by it, though it has the same time stamp."""
        before = 5 << 32 | 6
        identifiers = SequenceIdentifiers(5, ordinal=6)
        self.assertFalse(identifiers.is_ours(before) or identifiers.was_given(before))
        self.assertEqual(identifiers.take(), before + 1)
        self.assertTrue(identifiers.is_ours(before + 1) and identifiers.was_given(before + 1))

    def test_the_last_of_all(self) -> None:
        """Behind it there is none, and the error names the field."""
        identifiers = SequenceIdentifiers(0xFFFFFFFF, ordinal=0xFFFFFFFE)
        self.assertEqual(identifiers.take(), 0xFFFFFFFF_FFFFFFFF)
        error = self.assertRaises(LocalProtocolError, identifiers.take)
        self.assertIn("TxSequenceID.TimeStamp: 4294967296 does not fit", str(error))

    def test_a_clock_that_stood_still(self) -> None:
        """A start in the second of the one before, or earlier, has the next time stamp."""
        for ahead, expected in ((-1, 0), (0, 1), (5, 6)):
            change = SequenceIdentifiers(START.unix_seconds + ahead).reservation()
            assert change is not None
            identifiers = SequenceIdentifiers.resume({change[0]: change[1] or b""}, START)
            self.assertEqual(identifiers.timestamp, START.unix_seconds + expected)
            self.assertEqual(identifiers.next, identifiers.timestamp << 32 | 1)

    def test_a_clock_that_did_not_advance(self) -> None:
        """Two starts from one store have other identifiers, if their fractions of a second differ."""
        change = SequenceIdentifiers(START.unix_seconds + 5).reservation()
        assert change is not None
        found = [
            SequenceIdentifiers.resume({change[0]: change[1] or b""}, Moment(0.0, START.wall + later)).next
            for later in (0.0, 0.000001, 1.5, 2.999999)
        ]
        self.assertEqual({each >> 32 for each in found}, {START.unix_seconds + 6})
        self.assertEqual(len(set(found)), 4)
        self.assertLess(max(found) & 0xFFFFFFFF, 1 << 31)

    def test_stored_once(self) -> None:
        """The time stamp is stored until that has succeeded; a change that is out of date does not count."""
        identifiers = SequenceIdentifiers(5, ordinal=0xFFFFFFFF)
        before = identifiers.reservation()
        assert before is not None
        identifiers.take()
        identifiers.stored(before)
        change = identifiers.reservation()
        assert change is not None
        self.assertNotEqual(change, before)
        identifiers.stored(change)
        self.assertIsNone(identifiers.reservation())
        self.assertEqual(
            SequenceIdentifiers.resume({change[0]: change[1] or b""}, START).timestamp, START.unix_seconds
        )


class OutcomeTests(SynchronousTestCase):
    """L{AckOutcome}."""

    def test_whether_there_is_any(self) -> None:
        """One message of any kind is an outcome."""
        position = Position(transactional_packet())
        transfer = UnorderedMessage(position, FIRST, 1, 1, 0)
        self.assertFalse(AckOutcome())
        self.assertTrue(AckOutcome(delivered=[position]))
        self.assertTrue(AckOutcome(awaiting=[transfer]))
        self.assertTrue(AckOutcome(settled=[SettledMessage(position, RECEIVED, Disposal.FORGET)]))


class LeavingTests(SynchronousTestCase):
    """Messages that leave a stream."""

    def test_nothing_is_due_without_messages(self) -> None:
        """The timer ends as soon as others have removed the last message, before that is stored."""
        sender = Sender()
        positions = sender.put(2)
        sender.send()
        sender.stream.left(positions[:1])
        self.assertIsNotNone(sender.streams.deadline)
        sender.stream.left(positions[1:])
        self.assertIsNone(sender.streams.deadline)
        sender.remove(positions)

    def test_early_final_acks_leave_with_their_messages(self) -> None:
        """One that was used leaves when the removal of its message is stored, and not before."""
        sender = Sender()
        [position] = sender.put()
        sender.send()
        again = Sender(state=dict(sender.state), queue=[Position(position.stored)], now=sender.now.later(1))
        again.streams.final_acknowledged(final_ack(position, RECEIVED))
        [(name, _)] = again.streams.take_early_changes()
        transmission = again.transmit(*again.queue)
        self.assertEqual((list(transmission.outgoing), len(transmission.outcome.settled)), ([], 1))
        self.assertEqual(again.streams.take_early_changes(), [])
        again.remove(again.queue[:])
        self.assertEqual(again.streams.take_early_changes(), [(name, None)])

    def test_early_final_acks_that_match_nothing(self) -> None:
        """They are removed when the last stored message has been read, and not while one is left."""
        sender = Sender()
        positions = sender.put(3)
        queue = [Position(each.stored) for each in positions[:2]]
        again = Sender(state=dict(sender.state), queue=queue, now=sender.now.later(1))
        again.streams.final_acknowledged(final_ack(positions[2], RECEIVED))
        [(name, _)] = again.streams.take_early_changes()
        again.send(1)
        self.assertEqual(again.streams.take_early_changes(), [])
        again.send()
        self.assertEqual(again.streams.take_early_changes(), [(name, None)])

    def test_a_sequence_that_another_queue_took_over(self) -> None:
        """Acknowledgements belong to the queue that sent last; deleting the other one changes nothing."""
        sender = Sender()
        [position] = sender.put()
        sender.send()
        other = sender.streams.stream("invoices")
        moved = Position(position.stored)
        other.restore([moved])
        other.connected(sender.now)
        self.assertEqual(len(other.transmit([moved], sender.now).outgoing), 1)
        self.assertEqual(sender.streams.key_of(FIRST), "invoices")
        sender.streams.remove("orders")
        self.assertEqual(sender.streams.key_of(FIRST), "invoices")


class AcknowledgedTests(SynchronousTestCase):
    """What acknowledgements leave behind."""

    def test_a_stream_without_a_sequence(self) -> None:
        """Nothing was sent, so an OrderAck has no effect."""
        sender = Sender()
        self.assertEqual(sender.stream.order_acknowledged(1, sender.now), AckOutcome())
        self.assertEqual(sender.streams.ignored, {})

    def test_nothing_is_left(self) -> None:
        """No message is unacknowledged, and the next one begins a sequence; the one before is over."""
        sender = Sender()
        sender.put(2)
        sender.send()
        info = sender.stream.info(7)
        self.assertEqual((info.eod_first_non_ack.seq_no, info.eod_last_non_ack.seq_no), (1, 2))
        self.assertEqual((info.eod_next_seq.seq_no, info.eod_no_ack_count, info.eod_no_read_count), (3, 2, 7))
        sender.order_ack(2)
        info = sender.stream.info()
        self.assertEqual((info.eod_first_non_ack, info.eod_last_non_ack), (NO_SEQUENCE, NO_SEQUENCE))
        self.assertEqual((info.eod_no_ack_count, info.eod_no_read_count), (0, 0))
        sender.put()
        sender.send()
        self.assertEqual([sender.streams.key_of(each) for each in (FIRST, FIRST + 1)], [None, "orders"])
        self.assertIsNone(sender.streams.order_acknowledged(order_ack(FIRST, 2), sender.now))

    def test_a_claim_without_effect_does_not_move_the_timer(self) -> None:
        """An unverified OrderAck of messages that the receiver has not stored delays nothing."""
        sender = Sender()
        sender.put(5)
        sender.send()
        sender.order_ack(2)
        before = sender.streams.deadline
        sender.now = sender.now.later(10)
        found = sender.streams.order_acknowledged(order_ack(FIRST, 5), sender.now, is_verified=False)
        self.assertEqual(found, ("orders", AckOutcome()))
        self.assertEqual(sender.stream.kept([], sender.now), AckOutcome())
        self.assertEqual(sender.streams.deadline, before)
        self.assertEqual(sender.stream.info().eod_last_ack.seq_no, 2)
