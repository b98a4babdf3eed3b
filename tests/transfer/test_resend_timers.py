"""[MS-MQQB] 3.1.6.5: acknowledgements do not come, and messages are sent again."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.settings import SessionSettings
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.transfer_info import NO_SEQUENCE
from msmq.transfer.transfer_sequence import OutgoingTransferSequence
from tests.transfer.support import (
    START,
    Sender,
    final_ack,
)

FIRST = int(START.wall) << 32 | 1
REFUSED = MessageClass.NACK_NOT_TRANSACTIONAL_Q


class ResendTests(SynchronousTestCase):
    def attempts(self, sender: Sender, count: int) -> list[float]:
        """When the next messages are sent again, in seconds from the first attempt."""
        times = []
        for _ in range(count):
            deadline = sender.streams.deadline
            assert deadline is not None
            self.assertEqual(sender.advance(deadline - sender.now.monotonic - 0.001), [])
            self.assertNotEqual(sender.advance(0.002), [])
            times.append(float(round(deadline - START.monotonic)))
            sender.send()
        return times

    def test_the_waits_grow(self) -> None:
        """MQQB-3.1.1.3-06, MQQB-3.1.6.5-03: three short, three medium, three long waits, then the last."""
        sender = Sender()
        sender.put()
        sender.send()
        expected = [30, 60, 90, 390, 690, 990, 2790, 4590, 6390, 27990, 49590]
        self.assertEqual(self.attempts(sender, 11), expected)

    def test_the_table_comes_from_the_settings(self) -> None:
        """MQQB-3.1.3.1-01, MQQB-3.1.1.3-16: other values, and the times follow them."""
        settings = SessionSettings(resend_short=5, resend_medium=6, resend_long=7, resend_final=8)
        sender = Sender(settings=settings)
        sender.put()
        sender.send()
        expected = [5, 10, 15, 21, 27, 33, 40, 47, 54, 62, 70]
        self.assertEqual(self.attempts(sender, 11), expected)

    def test_everything_unacknowledged_is_sent_again(self) -> None:
        """MQQB-3.1.6.5-01: in order, with the same positions in the sequence."""
        sender = Sender()
        sender.put(3)
        first = [message.packet for message in sender.send()]
        positions = list(sender.queue)
        self.assertEqual(sender.advance(30), positions)
        self.assertEqual([message.packet for message in sender.send()], first)

    def test_the_next_wait_begins_at_once(self) -> None:
        """Even if what is due is not sent: the session may have no room for it."""
        sender = Sender()
        sender.put()
        sender.send()
        sender.advance(30)
        self.assertEqual(sender.streams.deadline, START.monotonic + 60)
        self.assertEqual(sender.stream.info().eod_resend_time, START.unix_seconds + 60)

    def test_the_wait_begins_with_the_first_message(self) -> None:
        """MQQB-3.1.2.6-01: later messages do not put it off."""
        sender = Sender()
        sender.put()
        sender.send()
        self.assertEqual(sender.stream.info().eod_resend_time, START.unix_seconds + 30)
        sender.advance(20)
        sender.put()
        sender.send()
        self.assertEqual(len(sender.advance(10)), 2)

    def test_progress_begins_with_the_shortest_wait(self) -> None:
        """MQQB-3.1.5.6-04: after four time-outs an OrderAck comes, and the next wait is 30 seconds."""
        sender = Sender()
        sender.put(2)
        sender.send()
        self.attempts(sender, 4)
        self.assertEqual(sender.stream.info().eod_resend_count, 4)
        sender.order_ack(1)
        self.assertEqual(sender.stream.info().eod_resend_count, 0)
        self.assertEqual(sender.streams.deadline, sender.now.monotonic + 30)

    def test_an_acknowledgement_without_progress_changes_no_wait(self) -> None:
        """Reading 55: only one that covers more than before does."""
        sender = Sender()
        sender.put(2)
        sender.send()
        sender.order_ack(1)
        sender.advance(10)
        sender.order_ack(1)
        self.assertEqual(sender.streams.deadline, sender.now.monotonic + 20)

    def test_nothing_is_waited_for_when_all_is_acknowledged(self) -> None:
        """MQQB-3.1.5.6-07: the index is back at the first entry, and no timer runs.

        The same is true once the last messages that wait have expired.
        """
        for is_acknowledged in (True, False):
            sender = Sender()
            positions = sender.put(2)
            sender.send()
            self.attempts(sender, 4)
            if is_acknowledged:
                sender.order_ack(2)
            else:
                sender.expire(*positions)
            self.assertIs(sender.streams.deadline, None)
            info = sender.stream.info()
            self.assertEqual((info.eod_resend_count, info.eod_resend_time), (0, 0))

    def test_a_new_connection_begins_anew(self) -> None:
        """MQQB-3.1.3.2-06: nothing of the waits and counts of the last connection is left."""
        sender = Sender()
        sender.put(2)
        sender.send()
        self.attempts(sender, 4)
        sender.order_ack(1)
        sender.stream.disconnected()
        self.assertIs(sender.streams.deadline, None)
        sender.advance(5)
        sender.stream.connected(sender.now)
        info = sender.stream.info()
        self.assertEqual((info.eod_last_ack, info.eod_last_ack_count), (NO_SEQUENCE, 0))
        self.assertEqual((info.eod_last_ack_time, info.eod_resend_time), (sender.now.unix_seconds, 0))
        self.assertEqual((info.eod_resend_count, info.eod_resend_interval), (0, 30))
        sender.send()
        self.assertEqual(sender.streams.deadline, sender.now.monotonic + 30)

    def test_nothing_is_sent_again_while_there_is_no_connection(self) -> None:
        """Messages that expire meanwhile are not sent at all."""
        sender = Sender()
        first, _ = sender.put(2)
        sender.send()
        sender.stream.disconnected()
        self.assertEqual(sender.advance(100_000), [])
        sender.expire(first)
        sender.stream.connected(sender.now)
        self.assertEqual(sender.sent(), [(2, 0)])

    def test_the_last_message_that_leaves_ends_the_wait(self) -> None:
        """Whether it expired or its FinalAck came."""
        sender = Sender()
        first, second = sender.put(2)
        sender.send()
        sender.expire(first)
        sender.streams.final_acknowledged(final_ack(second, REFUSED))
        self.assertIs(sender.streams.deadline, None)


class TransferSequenceTests(SynchronousTestCase):
    """L{OutgoingTransferSequence} alone."""

    def test_state(self) -> None:
        """Each event of a connection changes what it should, and a new connection begins anew."""
        sequence = OutgoingTransferSequence((30.0, 300.0))
        self.assertEqual(sequence.wait(START), START.monotonic + 30)
        self.assertEqual(sequence.resend_time, START.unix_seconds + 30)
        for expected in (300, 300):
            sequence.grow()
            self.assertEqual(sequence.resend_interval, expected)
            self.assertEqual(sequence.wait(START), START.monotonic + expected)
        sequence.order_ack_received(START.later(5))
        self.assertEqual((sequence.last_ack_count, sequence.time_of_last_ack), (1, START.unix_seconds + 5))
        sequence.progress(7, 3)
        self.assertEqual((sequence.last_ack.seq_no, sequence.last_ack.prev_no), (3, 2))
        self.assertEqual((sequence.resend_interval, sequence.resend_time), (30, START.unix_seconds + 300))
        sequence.grow()
        sequence.connected(START.later(9))
        fresh = OutgoingTransferSequence((30.0, 300.0), time_of_last_ack=START.unix_seconds + 9)
        self.assertEqual(sequence, fresh)
