"""[MS-MQQB] 3.1.5.6 and 3.1.5.7: acknowledgements come, late, early, or of what was never sent."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.identifiers import SequenceInfo, TxSequenceID
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.stream_changes import Disposal
from msmq.transfer.transfer_info import NO_SEQUENCE
from tests.builders import BETA, GAMMA
from tests.transfer.support import (
    JN,
    JP,
    START,
    Position,
    Sender,
    final_ack,
    numbers_in,
    order_ack,
    place_in,
)

FIRST = int(START.wall) << 32 | 1
RECEIVED = MessageClass.ACK_RECEIVE
REFUSED = MessageClass.NACK_NOT_TRANSACTIONAL_Q


class OrderAckTests(SynchronousTestCase):
    def test_messages_leave_up_to_the_number(self) -> None:
        """The others stay, in their order."""
        sender = Sender()
        positions = sender.put(5)
        sender.send()
        self.assertEqual(sender.order_ack(3), positions[:3])
        self.assertEqual(sender.queue, positions[3:])

    def test_unverified_acknowledgement(self) -> None:
        """It releases messages that their receiver has stored, and the rest when that is stored,
        without a gap.

        MQQB-3.1.1.3.1.2-03.
        """
        sender = Sender()
        positions = sender.put(5)
        sender.send()

        def keep(*numbers: int) -> list[Position]:
            kept = [positions[number - 1] for number in numbers]
            return list(sender.stream.kept(kept, sender.now).delivered)

        self.assertEqual(keep(1, 3, 4), [])
        outcome = sender.stream.order_acknowledged(4, sender.now, is_verified=False)
        self.assertEqual(list(outcome.delivered), positions[:1])
        self.assertEqual(keep(5), [])
        self.assertEqual(keep(2), positions[1:4])
        self.assertEqual(sender.stream.unacknowledged, 1)
        outcome = sender.stream.order_acknowledged(5, sender.now, is_verified=False)
        self.assertEqual(list(outcome.delivered), positions[4:])

    def test_unverified_acknowledgement_after_a_restart(self) -> None:
        """Messages that were not sent again yet are sent, for any number."""
        sender = Sender()
        sender.put(3)
        sender.send()
        sender = sender.restart()
        sender.send(1)
        outcome = sender.stream.order_acknowledged(0xFFFFFFFF, sender.now, is_verified=False)
        self.assertFalse(outcome)
        self.assertEqual([number for number, _ in sender.sent()], [2, 3])
        self.assertEqual(list(sender.stream.kept(sender.queue, sender.now).delivered), sender.queue)

    def test_unverified_acknowledgement_of_the_next_sequence(self) -> None:
        """Messages of the one before, which expired in flight, release none that is not stored there."""
        sender = Sender()
        sender.put(3)
        sender = sender.restart()
        sender.put()
        sender = sender.restart()
        sender.send(3)
        sender.expire(*sender.queue[:3])
        (position,) = sender.queue
        self.assertEqual(sender.sent(), [(1, 0)])
        self.assertFalse(sender.stream.order_acknowledged(1, sender.now, is_verified=False))
        self.assertEqual(list(sender.stream.kept([position], sender.now).delivered), [position])

    def test_an_older_acknowledgement_is_ignored(self) -> None:
        """MQQB-3.1.5.6-05: 5 and then 3 leaves LastAck at 5."""
        sender = Sender()
        sender.put(6)
        sender.send()
        sender.order_ack(5)
        self.assertEqual(sender.order_ack(3), [])
        self.assertEqual(sender.stream.info().eod_last_ack, SequenceInfo(FIRST, 5, 4))

    def test_an_earlier_sequence_is_over(self) -> None:
        """MQQB-3.1.5.6-02: a late acknowledgement of it removes nothing of the next, whatever its number."""
        sender = Sender()
        sender.put(2)
        sender.send()
        sender.order_ack(2)
        sender.put(2)
        sender.send()
        for number in (1, 2, 99):
            self.assertEqual(sender.order_ack(number, FIRST), [])
        self.assertEqual(len(sender.queue), 2)
        self.assertEqual(sum(sender.streams.ignored.values()), 3)

    def test_an_unknown_sequence_is_ignored(self) -> None:
        """So is one that was assigned and never sent, and an acknowledgement of number 0."""
        sender = Sender()
        sender.put()
        self.assertEqual(sender.order_ack(1, FIRST), [])
        sender.send()
        self.assertEqual(sender.order_ack(1, FIRST + 7), [])
        self.assertIs(sender.streams.order_acknowledged(order_ack(FIRST, 0), sender.now), None)
        self.assertEqual(len(sender.queue), 1)

    def test_unsent_messages_are_not_acknowledged(self) -> None:
        """A number beyond what was sent of the sequence is ignored, and counted."""
        sender = Sender()
        sender.put(3)
        sender.sent(2)
        self.assertEqual(sender.order_ack(3), [])
        self.assertEqual(sender.streams.ignored["acknowledges messages that were not sent"], 1)
        self.assertEqual(len(sender.order_ack(2)), 2)

    def test_a_repeated_acknowledgement_begins_no_sequence(self) -> None:
        """MQQB-3.1.5.6-10: the next identifier is the same after one acknowledgement or three."""
        sender = Sender()
        sender.put()
        sender.send()
        for _ in range(3):
            sender.order_ack(1, FIRST)
        self.assertEqual(sender.stream.info().eod_next_seq, SequenceInfo(FIRST + 1, 1, 0))

    def test_messages_between_two_attempts_leave_too(self) -> None:
        """A message that is due again is not sent again once it is acknowledged."""
        sender = Sender()
        sender.put(3)
        sender.send()
        sender.advance(30)
        sender.sent(1)
        self.assertEqual(len(sender.order_ack(2)), 2)
        self.assertEqual(sender.sent(), [(3, 2)])

    def test_the_receiver_may_know_more_than_a_process_that_has_just_begun(self) -> None:
        """After a restart an acknowledgement may cover what was not sent again yet; it leaves unsent."""
        sender = Sender()
        sender.put(4)
        sender.send()
        sender = sender.restart()
        positions = list(sender.queue)
        sender.sent(1)
        sender.order_ack(3, FIRST)
        transmission = sender.transmit(*sender.stream.due(9))
        self.assertEqual(list(transmission.outcome.delivered), positions[1:3])
        self.assertEqual([place_in(message.packet) for message in transmission.outgoing], [(FIRST, 4, 3)])

    def test_queues_do_not_disturb_each_other(self) -> None:
        """An acknowledgement finds the queue by its sequence."""
        sender = Sender()
        sender.put()
        sender.send()
        other = sender.streams.stream("invoices")
        assignment = other.assign(1)
        (packet,) = assignment.stamp([view for view in [sender.queue[0].view] if view is not None])
        other.committed(assignment, [position := Position(packet)])
        other.transmit([position], sender.now)
        found = sender.streams.order_acknowledged(order_ack(FIRST + 1, 1), sender.now)
        assert found is not None
        self.assertEqual((found[0], list(found[1].delivered)), ("invoices", [position]))
        self.assertEqual(sender.stream.unacknowledged, 1)

    def test_a_deleted_queue_is_forgotten(self) -> None:
        """Neither its acknowledgements nor its timer mean anything any more."""
        sender = Sender()
        sender.put()
        sender.send()
        sender.streams.remove("orders")
        sender.streams.remove("orders")
        self.assertEqual(sender.order_ack(1), [])
        self.assertIs(sender.streams.deadline, None)
        self.assertEqual(list(sender.streams), [])


class InfoTests(SynchronousTestCase):
    def test_what_is_unacknowledged(self) -> None:
        """MQQB-3.1.1.5-02, MQQB-3.1.1.3.1.1-02: the first and the last message, by number and one less."""
        sender = Sender()
        self.assertEqual(sender.stream.info().eod_first_non_ack, NO_SEQUENCE)
        sender.put(3)
        sender.send()
        info = sender.stream.info()
        self.assertEqual(info.eod_first_non_ack, SequenceInfo(FIRST, 1, 0))
        self.assertEqual(info.eod_last_non_ack, SequenceInfo(FIRST, 3, 2))
        self.assertEqual(info.eod_no_ack_count, 3)

    def test_acknowledged_messages_leave_the_list(self) -> None:
        """MQQB-3.1.5.6-06: of 1 to 5 an acknowledgement of 3 leaves 4 and 5."""
        sender = Sender()
        sender.put(5)
        sender.send()
        sender.order_ack(3)
        info = sender.stream.info()
        self.assertEqual((info.eod_first_non_ack.seq_no, info.eod_last_non_ack.seq_no), (4, 5))
        self.assertEqual(info.eod_no_ack_count, 2)

    def test_acknowledgements_are_counted(self) -> None:
        """MQQB-3.1.5.6-03: the time of the last, and how many there were."""
        sender = Sender()
        sender.put(2)
        sender.send()
        sender.advance(3)
        sender.order_ack(1)
        sender.advance(1)
        sender.order_ack(1)
        info = sender.stream.info()
        self.assertEqual((info.eod_last_ack_count, info.eod_last_ack_time), (2, START.unix_seconds + 4))

    def test_an_exchange(self) -> None:
        """MQQB-3.1.1.3.1.1-01: sent at one moment and acknowledged a second later, by the values shown."""
        sender = Sender()
        sender.put(2)
        sender.send()
        self.assertEqual(sender.stream.info().eod_resend_time, START.unix_seconds + 30)
        sender.advance(1)
        sender.order_ack(1)
        info = sender.stream.info()
        self.assertEqual((info.eod_last_ack_time, info.eod_last_ack_count), (START.unix_seconds + 1, 1))
        self.assertEqual((info.eod_last_ack, info.eod_no_ack_count), (SequenceInfo(FIRST, 1, 0), 1))
        self.assertEqual((info.eod_resend_time, info.eod_resend_interval), (START.unix_seconds + 31, 30))

    def test_a_lost_session(self) -> None:
        """Nothing is to be sent again at a time, and the first wait is the next one again."""
        sender = Sender()
        sender.put()
        sender.send()
        sender.advance(30)
        self.assertEqual(sender.stream.info().eod_resend_count, 1)
        sender.stream.disconnected()
        info = sender.stream.info()
        self.assertEqual((info.eod_resend_count, info.eod_resend_time), (0, 0))
        self.assertEqual((info.eod_resend_interval, sender.streams.deadline), (30, None))

    def test_the_next_position(self) -> None:
        """The number after the assigned ones, or the first of the next sequence."""
        sender = Sender()
        self.assertEqual(sender.stream.info().eod_next_seq, SequenceInfo(FIRST, 1, 0))
        sender.put(3)
        self.assertEqual(sender.stream.info().eod_next_seq, SequenceInfo(FIRST, 4, 3))
        self.assertEqual(sender.stream.info(7).eod_no_read_count, 7)


class WantedTests(SynchronousTestCase):
    def test_what_is_kept_until_the_final_acknowledgement(self) -> None:
        """MQQB-3.1.5.6-09: JN, JP and FA each ask for that, and nothing else does."""
        for user_flags, transaction_flags, is_kept in ((JN, 0, 1), (JP, 0, 1), (0, 2, 1), (0, 0, 0)):
            sender = Sender()
            (position,) = sender.put(user_flags=user_flags, transaction_flags=transaction_flags)
            sender.send()
            found = sender.streams.order_acknowledged(order_ack(FIRST, 1), sender.now)
            assert found is not None
            outcome = found[1]
            self.assertEqual([len(outcome.awaiting), len(outcome.delivered)], [is_kept, 1 - is_kept])
            for transfer in outcome.awaiting:
                self.assertEqual(
                    (transfer.message, transfer.sequence, transfer.number, transfer.message_id),
                    (position, FIRST, 1, 1),
                )

    def test_the_fates(self) -> None:
        """Received and JP goes to the journal, failed and JN to the dead letters, the rest nowhere."""
        for user_flags, message_class, disposal in (
            (JP, RECEIVED, Disposal.JOURNAL),
            (JP | JN, RECEIVED, Disposal.JOURNAL),
            (JN, RECEIVED, Disposal.FORGET),
            (0, RECEIVED, Disposal.FORGET),
            (JN, REFUSED, Disposal.DEAD_LETTER),
            (JP | JN, 0x4001, Disposal.DEAD_LETTER),
            (JP, REFUSED, Disposal.FORGET),
            (0, REFUSED, Disposal.FORGET),
        ):
            sender = Sender()
            (position,) = sender.put(user_flags=user_flags)
            sender.send()
            found = sender.streams.final_acknowledged(final_ack(position, message_class))
            assert found is not None
            (settlement,) = found[1].settled
            self.assertEqual(
                (settlement.message, settlement.message_class, settlement.disposal),
                (position, message_class, disposal),
            )
            self.assertFalse(sender.stream.is_empty)
            sender.stream.removed([position])
            self.assertTrue(sender.stream.is_empty)


class EarlyFinalAckTests(SynchronousTestCase):
    """FinalAcks that come before their OrderAcks, as they do when messages are received at once."""

    def test_it_takes_one_message(self) -> None:
        """MQQB-3.1.5.7-05: it has left, a second FinalAck finds nothing, and an OrderAck does not either."""
        sender = Sender()
        first, second, third = sender.put(3)
        sender.send()
        sender.streams.final_acknowledged(final_ack(second, RECEIVED))
        self.assertIs(sender.streams.final_acknowledged(final_ack(second, RECEIVED)), None)
        self.assertEqual(sender.order_ack(3), [first, third])

    def test_what_is_sent_again_bridges_it(self) -> None:
        """A receiver that does not count refused messages takes the next one all the same."""
        sender = Sender()
        _, second, _ = sender.put(3)
        sender.send()
        sender.streams.final_acknowledged(final_ack(second, REFUSED))
        sender.advance(30)
        self.assertEqual(sender.sent(), [(1, 0), (3, 1)])

    def test_all_of_it_has_to_fit(self) -> None:
        """MQQB-3.1.5.7-02: another source, number, sequence or MessageID finds nothing."""
        sender = Sender()
        (position,) = sender.put()
        sender.send()
        ack = final_ack(position, RECEIVED)
        for wrong in (
            final_ack(position, RECEIVED, source=GAMMA),
            final_ack(position, RECEIVED, source=BETA),
            attrs.evolve(ack, tx_sequence_number=2),
            attrs.evolve(ack, message_id=2),
            attrs.evolve(ack, tx_sequence_id=TxSequenceID.from_value(FIRST + 1)),
        ):
            self.assertIs(sender.streams.final_acknowledged(wrong), None)
        self.assertEqual(sum(sender.streams.ignored.values()), 5)
        self.assertIsNot(sender.streams.final_acknowledged(ack), None)

    def test_it_may_come_before_the_message_is_read_after_a_restart(self) -> None:
        """It is remembered until then, and the message leaves unsent."""
        sender = Sender()
        sender.put(3, user_flags=JP)
        sender.send()
        sender = sender.restart()
        first, second, third = sender.queue
        self.assertIs(sender.streams.final_acknowledged(final_ack(second, RECEIVED)), None)
        transmission = sender.transmit(first, second, third)
        self.assertEqual(numbers_in(list(transmission.outgoing)), [(1, 0), (3, 2)])
        (settlement,) = transmission.outcome.settled
        self.assertEqual((settlement.message, settlement.disposal), (second, Disposal.JOURNAL))

    def test_it_is_not_remembered_for_ever(self) -> None:
        """Once everything that was stored has been read, an unknown one is ignored."""
        sender = Sender()
        sender.put()
        sender.send()
        sender = sender.restart()
        (position,) = sender.queue
        sender.send()
        ack = final_ack(position, RECEIVED)
        wrong = attrs.evolve(ack, tx_sequence_number=2)
        sender.streams.final_acknowledged(wrong)
        self.assertEqual(sender.streams.ignored["final acknowledgement of an unknown message"], 1)


class RestoreTests(SynchronousTestCase):
    """The first minutes after a restart."""

    def test_new_messages_wait_for_the_old_ones(self) -> None:
        """They are a new sequence, and a receiver that has seen it would take nothing of the old one."""
        sender = Sender()
        sender.put(2)
        sender = sender.restart()
        (new,) = sender.put()
        self.assertGreater(place_in(new.stored)[0], FIRST)
        self.assertEqual(list(sender.transmit(new).held), [new])
        self.assertEqual([place_in(message.packet)[0] for message in sender.send(2)], [FIRST, FIRST])
        self.assertEqual(list(sender.transmit(new).held), [new])
        sender.order_ack(2)
        self.assertEqual(sender.sent(), [(1, 0)])

    def test_an_old_gap_is_bridged_at_the_second_attempt(self) -> None:
        """The predecessor of an old message is known only when all were sent once."""
        sender = Sender()
        first, _, third, _ = sender.put(4)
        sender.expire(first, third)
        sender = sender.restart()
        self.assertEqual(sender.sent(), [(2, 1), (4, 3)])
        sender.advance(30)
        self.assertEqual(sender.sent(), [(2, 0), (4, 2)])

    def test_old_messages_may_be_in_a_wrong_order(self) -> None:
        """The receiver refuses those that are too early, and accepts all when they are sent again."""
        sender = Sender()
        sender.put(3)
        sender.queue.reverse()
        sender = sender.restart()
        self.assertEqual(sender.sent(), [(3, 2), (2, 1), (1, 0)])
        sender.advance(30)
        self.assertEqual(sender.sent(), [(1, 0), (2, 1), (3, 2)])
        self.assertEqual(len(sender.order_ack(3)), 3)

    def test_what_is_still_stored_holds_the_next_sequence(self) -> None:
        """A crash would bring it back, and a receiver that has seen the next sequence would never take it."""
        sender = Sender()
        sender.put()
        sender.send()
        sender = sender.restart()
        (old,) = sender.queue
        (new,) = sender.put()
        sender.send(1)
        sender.streams.order_acknowledged(order_ack(FIRST, 1), sender.now)
        self.assertEqual(list(sender.transmit(new).held), [new])
        self.assertEqual((sender.stream.capacity, sender.streams.deadline), (0, None))
        sender.remove([old])
        self.assertEqual(sender.sent(), [(1, 0)])

    def test_what_is_still_stored_keeps_its_sequence_going(self) -> None:
        """A message that comes meanwhile is one more of the same."""
        sender = Sender()
        (position,) = sender.put()
        sender.send()
        sender.streams.order_acknowledged(order_ack(FIRST, 1), sender.now)
        sender.put()
        sender.remove([position])
        self.assertEqual([place_in(message.packet) for message in sender.send()], [(FIRST, 2, 1)])

    def test_old_messages_may_leave_before_they_are_sent(self) -> None:
        """Then nothing waits for them any more."""
        sender = Sender()
        sender.put(2)
        sender = sender.restart()
        (new,) = sender.put()
        sender.expire(*sender.queue[:2])
        self.assertEqual([place_in(message.packet)[1:] for message in sender.send()], [(1, 0)])
        self.assertEqual(sender.queue, [new])

    def test_other_messages_of_the_queue_do_no_harm(self) -> None:
        """Those among the old ones that have no number of ours pass, and nothing waits for them."""
        sender = Sender()
        sender.put()
        foreign = Position(sender.queue[0].stored.replace(sender.queue[0].stored[16:32], GAMMA.bytes_le))
        sender.queue = [foreign, *sender.queue]
        sender = sender.restart()
        foreign, own = sender.queue
        transmission = sender.transmit(foreign, own)
        self.assertEqual(transmission.outgoing[0], foreign)
        self.assertEqual(len(transmission.outgoing), 2)
        sender.order_ack(1)
        self.assertTrue(sender.stream.is_empty)
