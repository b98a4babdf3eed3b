"""A whole queue manager sends to a plain peer, which answers in bytes."""

from __future__ import annotations

from msmq.queues.machine_quota import QuotaKind
from msmq.settings import SessionSettings
from msmq.structures.identifiers import MessageIdentifier, SequenceInfo
from msmq.transfer.early_final_acks import PREFIX as EARLY
from msmq.transfer.transfer_info import OutgoingTransferInfo
from tests.builders import ALPHA, BETA, session_ack, session_header
from tests.nodes.outgoing.senders import TO_GAMMA, SenderTestCase
from tests.nodes.scripted import (
    DEADXACT,
    JOURNAL,
    ORDER_ACK,
    Heard,
    acknowledgement,
    final_ack,
    order_ack,
    transactional,
)


class NumberTests(SenderTestCase):
    """Messages have numbers, and keep them."""

    def test_message_identifiers_rise(self) -> None:
        """Each is one more, none is 0, and a restart goes on above; what is sent again keeps its own.

        The first is one that no earlier life can have had, so that a store that lost its state does no harm.
        MQQB-3.1.1.3-10, MQQB-3.1.1.3-12, MQQB-3.1.7.1.1-01.
        """
        self.put_others(b"1", b"2")
        self.put(b"3")
        first = self.peer.messages[0].message_id
        self.assertGreater(first, 0)
        before = [message.message_id for message in self.peer.messages]
        self.assertEqual(before, [first, first + 1, first + 2])
        self.alpha = self.restart(self.alpha)
        self.clock.advance(10)
        self.assertEqual([message.message_id for message in self.peer.messages], before)
        self.put_others(b"4")
        self.assertGreater(self.peer.messages[-1].message_id, first + 2)

    def test_a_number_is_never_used_for_another_message(self) -> None:
        """A sequence begins at 1; after a restart messages keep their positions, and new ones get new ones.

        MQQB-3.1.1.3.1-08.
        """
        self.put(b"1", b"2")
        before = {message.place[:2]: message.body for message in self.peer.messages}
        self.assertEqual(self.numbers(), [(1, 0), (2, 1)])
        self.alpha = self.restart(self.alpha)
        self.clock.advance(10)
        self.put(b"3")
        self.tell(order_ack(self.sequence(), 2))
        self.clock.advance(1)
        after = {message.place[:2]: message.body for message in self.peer.messages}
        self.assertEqual(sorted(after.values()), [b"1", b"2", b"3"])
        self.assertEqual({place: after[place] for place in before}, before)
        [new] = after.keys() - before.keys()
        self.assertGreater(new, max(before))

    def test_each_session_counts_from_the_beginning(self) -> None:
        """Recoverable messages, transactional included, count by themselves as well.

        MQQB-3.1.1.3.1.2-01, MQQB-3.1.1.4-02.
        """
        self.put_others(b"e", recoverable=False)
        self.put_others(b"r")
        self.put(b"t")
        peer = self.peer
        # Acknowledge three, and store only the first recoverable one.
        peer.say(session_ack(session_header(3, 0, recoverable_base=1, recoverable_flags=1)))
        self.clock.advance(0.1)
        self.assertFalse(peer.is_lost)
        self.assertEqual(self.remaining(), 1)

    def test_what_was_queued_before_a_restart_has_the_same_destination(self) -> None:
        """Recoverable and transactional messages are sent there in their order; express ones are gone.

        MQQB-3.1.1.3.1-12, MQQB-3.1.1.3.1-19, MQQB-3.1.3.2-05, MQQB-3.1.4.1-02.
        """
        self.deafen()
        self.put_others(b"E", recoverable=False)
        self.put_others(b"R1", b"R2")
        self.put(b"T3", b"T4")
        self.alpha = self.restart(self.alpha)
        self.listen()
        self.clock.advance(20)
        self.assertEqual(self.peer.bodies, [b"R1", b"R2", b"T3", b"T4"])
        expected = "TCP:127.0.0.4\\private$\\orders"
        self.assertEqual({message.destination for message in self.peer.messages}, {expected})

    def test_a_message_that_another_sent_first(self) -> None:
        """It passes untouched, has no part in a sequence, and leaves when the session acknowledges it.

        MQQB-3.1.1.3.1-22, MQQB-3.1.1.5-05, MQQB-3.1.1.6.2-01.
        """
        packet = transactional(b"theirs", (77, 5, 3), source=BETA, destination=TO_GAMMA[7:])
        self.put_packet(self.alpha, TO_GAMMA, packet)
        self.put(b"ours")
        theirs, ours = self.peer.messages
        self.assertEqual(theirs.packet, packet)
        self.assertEqual(ours.numbers, (1, 0))
        self.peer.acknowledge()
        self.clock.advance(0.1)
        self.assertEqual(self.remaining(), 1)


class AcknowledgementTests(SenderTestCase):
    """Acknowledgements that remove a message."""

    def test_each_kind_leaves_by_its_own_acknowledgement(self) -> None:
        """Express and recoverable ones with that of the session, transactional ones with the OrderAck.

        MQQB-3.1.1.6.1-03, MQQB-3.1.5.5.3-03.
        """
        self.put_others(b"e", recoverable=False)
        self.put_others(b"r")
        self.put(b"t")
        self.peer.acknowledge()
        self.clock.advance(0.1)
        self.assertEqual(self.remaining(), 1)
        self.tell(order_ack(self.sequence(), 1))
        self.assertEqual(self.remaining(), 0)

    def test_a_recoverable_message_needs_its_bit(self) -> None:
        """The count releases nothing that has to be stored; a bit releases what it names.

        MQQB-3.1.5.5.3-01, MQQB-3.1.5.5.3-02, MQQB-3.1.1.1.1.5-01.
        """
        self.put_others(b"1", b"2", b"3", b"4", b"5")
        self.peer.say(session_ack(session_header(5, 0)))
        self.clock.advance(0.1)
        self.assertEqual(self.remaining(), 5)
        self.peer.say(session_ack(session_header(5, 0, recoverable_base=3, recoverable_flags=0b101)))
        self.clock.advance(0.1)
        # The third and the fifth were named; the others are sent again in the next session.
        self.peer.hang_up()
        self.clock.advance(30)
        self.assertEqual(self.peer.bodies, [b"1", b"2", b"4"])

    def test_an_acknowledgement_ends_what_was_sent(self) -> None:
        """A count ends the wait of messages that were sent, and of none that is still to be sent.

        MQQB-3.1.5.5.1-01.
        """
        self.deafen()
        self.listen(window=2)
        self.put_others(b"1", b"2", b"3", b"4", b"5", recoverable=False)
        self.assertEqual(self.peer.bodies, [b"1", b"2"])
        for count, left in ((1, 4), (2, 3)):
            self.peer.say(session_ack(session_header(count, 0, window_size=1)))
            self.clock.advance(0.1)
            self.assertEqual(self.remaining(), left)

    def test_a_session_acknowledgement_alone_keeps_it(self) -> None:
        """It is pending until its OrderAck comes, also over a restart.

        MQQB-3.1.1.6.2-07, MQQB-3.1.1.3.1.2-03, MQQB-3.1.1.1.1.7-01.
        """
        self.put(b"t")
        self.peer.acknowledge()
        self.clock.advance(25)
        self.assertFalse(self.peer.is_lost)
        [outgoing] = self.alpha.service.inspection.outgoing()
        self.assertEqual((outgoing.messages, outgoing.unacknowledged), (1, 1))
        self.assertEqual(len(self.peer.messages), 1)
        first = self.peer
        self.alpha = self.restart(self.alpha)
        self.clock.advance(10)
        self.assertIsNot(self.peer, first)
        [message] = self.peer.messages
        self.assertEqual(message.place, first.messages[0].place)
        self.assertEqual(message.message_id, first.messages[0].message_id)
        self.tell(order_ack(self.sequence(), 1))
        self.assertEqual(self.remaining(), 0)

    def test_the_order_acknowledgement_may_come_first(self) -> None:
        """It stands for that of the session too, which changes nothing when it comes (MQQB-3.1.5.6-08)."""
        self.put(b"1", b"2", b"3")
        self.tell(order_ack(self.sequence(), 2))
        self.assertEqual(self.remaining(), 1)
        self.peer.acknowledge()
        self.clock.advance(0.1)
        self.assertEqual(self.remaining(), 1)
        self.assertFalse(self.peer.is_lost)
        self.tell(order_ack(self.sequence(), 3))
        self.assertEqual(self.remaining(), 0)

    def test_what_is_sent_again_is_a_new_message_of_the_session(self) -> None:
        """It counts once more, has the same position and MessageID, and waits for an acknowledgement again.

        MQQB-3.1.6.5-02, MQQB-3.1.1.6-01.
        """
        self.put(b"1", b"2")
        self.peer.acknowledge()
        self.clock.advance(31)
        self.assertEqual(self.peer.bodies, [b"1", b"2", b"1", b"2"])
        self.assertEqual(self.numbers(), [(1, 0), (2, 1)] * 2)
        self.assertEqual(len({message.message_id for message in self.peer.messages}), 2)
        self.peer.acknowledge()
        # If ALPHA did not count four, four would be more than it has sent.
        self.clock.advance(1)
        self.assertFalse(self.peer.is_lost)
        self.tell(order_ack(self.sequence(), 2))
        self.assertEqual(self.remaining(), 0)

    def test_acknowledgements_are_messages_of_the_session(self) -> None:
        """OrderAcks and FinalAcks are counted, the FinalAcks as recoverable, and acknowledged.

        MQQB-3.1.1.7.3-01.
        """
        self.put(b"1", b"2", journal=True)
        self.tell(order_ack(self.sequence(), 2), *map(final_ack, self.peer.messages))
        self.clock.advance(25)
        received, base, flags, *_ = self.peer.acks[-1]
        self.assertEqual((received, base, flags), (3, 1, 0b11))
        self.peer.say(session_ack(self.peer.header()))
        self.clock.advance(1)
        self.assertFalse(self.peer.is_lost)

    def test_other_messages_to_the_order_queue_acknowledge_nothing(self) -> None:
        """With another class, label or size than an OrderAck has they are refused as messages to no queue.

        MQQB-3.1.5.1.1-07.
        """
        self.put(b"1")
        packet = order_ack(self.sequence(), 1)
        label, other = (text.encode("utf-16-le") for text in ("QM Ordering Ack", "QM ordering ack"))
        assert label in packet
        body = Heard(packet).body
        self.tell(
            acknowledgement(0, body),
            packet.replace(label, other),
            acknowledgement(ORDER_ACK, body + bytes(4)),
        )
        self.clock.advance(1)
        self.assertEqual(self.remaining(), 1)
        self.assertFalse(self.peer.is_lost)
        self.assertEqual(self.alpha.service.inspection.status().refused, {"NACK_BAD_DST_Q": 3})
        self.tell(packet)
        self.assertEqual(self.remaining(), 0)

    def test_final_acknowledgements_decide(self) -> None:
        """Received and wanted in the journal, or failed and wanted as a dead letter, with the reason in it.

        MQQB-3.1.5.7-03, MQQB-3.1.5.7-04.
        """
        self.put(b"j-ok", b"j-no", journal=True)
        self.put(b"d-ok", b"d-no", dead_letter=True)
        messages = self.peer.messages
        self.peer.acknowledge()
        self.tell(order_ack(self.sequence(), 4))
        self.assertEqual(self.remaining(), 0)
        self.assertEqual(self.there(self.alpha, JOURNAL), [])
        self.tell(
            final_ack(messages[0]),
            final_ack(messages[1], 0x8009),
            final_ack(messages[2]),
            final_ack(messages[3], 0x8009),
        )
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.alpha, JOURNAL), [b"j-ok"])
        [dead_letter] = self.take(self.alpha, DEADXACT)
        self.assertEqual((bytes(dead_letter.body), dead_letter.message_class), (b"d-no", 0x8009))
        self.assertEqual(self.alpha.service.inspection.status().messages, 0)

    def test_final_acknowledgements_and_a_full_dead_letter_queue(self) -> None:
        """A dead letter replaces the message that waits for its FinalAck, and counts against the same quota;
        the event log says which ones are not kept.
        """
        for quota, kept in ((1, [bytes(600)]), (0, [])):
            self.put(bytes(600), dead_letter=True)
            message = self.peer.messages[-1]
            self.peer.acknowledge()
            self.tell(order_ack(self.sequence(), message.place[1]))
            self.run_to_end(self.alpha.service.set_quotas({QuotaKind.JOURNALS: quota}))
            self.tell(final_ack(message, 0x8009))
            self.clock.advance(1)
            self.assertEqual(
                [bytes(dead_letter.body) for dead_letter in self.take(self.alpha, DEADXACT)], kept
            )
            identifier = MessageIdentifier(ALPHA, message.message_id)
            explained = self.run_to_end(self.alpha.service.inspection.explain(identifier))
            [reason] = [event.reason for event in explained.events if event.event == "failed"]
            expected = "kept as a dead letter" if kept else "the dead letter was not kept, for lack of space"
            self.assertEqual(reason.partition("; ")[2], expected)

    def test_before_the_session_is_open(self) -> None:
        """An OrderAck or a FinalAck in the middle of the handshake ends it.

        MQQB-3.1.5.6-01, MQQB-3.1.5.7-01, MQQB-3.1.5.8-01.
        """
        self.put(b"1", journal=True)
        message = self.peer.messages[0]
        early = (order_ack(self.sequence(), 1), final_ack(message))
        for packet in early:
            peer = self.dial("ALPHA", is_opened=False)
            peer.say(packet)
            self.clock.advance(1)
            self.assertTrue(peer.is_lost)
        self.assertEqual(self.remaining(), 1)


class ConnectionTests(SenderTestCase):
    """When a queue dials, and what it does with a session."""

    def test_the_waits_outlive_a_restart(self) -> None:
        """ResendTimeouts are configured, so that every life has the same (MQQB-3.1.1.3-17)."""
        settings = SessionSettings(resend_short=5, resend_medium=7)
        self.alpha = self.reconfigured(self.alpha, session=settings)
        self.put(b"1")
        self.alpha = self.reconfigured(self.alpha, session=settings)
        self.clock.advance(1)
        self.peer.is_prompt = True
        self.peer.acknowledge()
        times = []
        for _ in range(30):
            self.clock.advance(1)
            times.append(len(self.peer.messages))
        # At 0, 5, 10, 15, 22 and 29 seconds.
        self.assertEqual(times[-1], 6)
        self.assertEqual([times.count(count) for count in (2, 3, 4, 5)], [5, 5, 7, 7])

    def test_what_is_known_of_a_sequence(self) -> None:
        """How far it is, what waits for which acknowledgement, and when it is sent again.

        MQQB-3.1.5.6-11, MQQB-3.1.1.2-01.
        """
        self.put(b"1", b"2", b"3", journal=True)
        sequence = self.sequence()
        [queue] = self.alpha.model.outgoing_queues()

        def info() -> OutgoingTransferInfo:
            return self.alpha.outgoing_transfer(queue)

        before = info()
        self.assertEqual(before.eod_first_non_ack, SequenceInfo(sequence, 1, 0))
        self.assertEqual(before.eod_last_non_ack, SequenceInfo(sequence, 3, 2))
        self.assertEqual(before.eod_next_seq, SequenceInfo(sequence, 4, 3))
        self.assertEqual((before.eod_no_ack_count, before.eod_no_read_count), (3, 0))
        self.tell(order_ack(sequence, 2))
        after = info()
        self.assertEqual(after.eod_last_ack, SequenceInfo(sequence, 2, 1))
        self.assertEqual(after.eod_first_non_ack, SequenceInfo(sequence, 3, 2))
        self.assertEqual((after.eod_no_ack_count, after.eod_no_read_count), (1, 2))
        self.assertEqual((after.eod_last_ack_count, after.eod_resend_interval), (1, 30.0))
        self.assertEqual(after.eod_resend_time, int(self.clock.now().wall) + 30)

    def test_an_idle_close_does_not_end_it(self) -> None:
        """A message sent after a session has closed causes a new connection (MQQB-3.1.7.12-04,
        MQQB-3.1.7.3-01).
        """
        self.put(b"1")
        self.tell(order_ack(self.sequence(), 1))
        self.peer.hang_up()
        self.clock.advance(60)
        self.assertEqual(len(self.peers), 1)
        self.assertEqual(self.alpha.service.inspection.outgoing()[0].state, "DISCONNECTED")
        self.put(b"2")
        self.assertEqual(self.peer.bodies, [b"2"])
        self.assertEqual(len(self.peers), 2)

    def test_pause_and_resume(self) -> None:
        """A queue on hold dials for nothing; resumed, it dials and sends in the order in which they came.

        MQQB-3.1.7.12-03, MQQB-3.1.7.14-01, MQQB-3.1.7.14-02.
        """
        self.put(b"1")
        self.tell(order_ack(self.sequence(), 1))
        self.alpha.service.pause_outgoing(TO_GAMMA)
        self.peer.hang_up()
        self.clock.advance(1)
        self.put(b"2")
        self.put(b"3", b"4")
        self.clock.advance(60)
        self.put(b"5")
        self.clock.advance(1)
        self.assertEqual(len(self.peers), 1)
        self.alpha.service.resume_outgoing(TO_GAMMA)
        self.clock.advance(1)
        self.assertEqual(self.peer.bodies, [b"2", b"3", b"4", b"5"])

    def test_a_stop_closes_all_sessions(self) -> None:
        """Incoming and outgoing connections end, without a packet before it (MQQB-3.1.4.2-01)."""
        self.put(b"1")
        dialled, accepted = self.peer, self.dial("ALPHA")
        self.alpha.service.stopService()
        self.clock.advance(10)
        self.assertEqual((dialled.is_lost, accepted.is_lost), (True, True))
        self.assertEqual((len(dialled.heard), dialled.acks), (1, []))
        self.assertEqual((accepted.heard, accepted.acks), ([], []))


class EarlyFinalAckTests(SenderTestCase):
    """A FinalAck comes after a restart, when its message has not been read from the store."""

    def test_it_is_stored_until_its_message_is_read(self) -> None:
        """The queue is paused then, and another restart comes before it goes on: the message is in the
        journal once, and is not sent again.
        """
        self.put(b"1", journal=True)
        self.put(b"2")
        wanted, other = self.peer.messages
        self.successResultOf(self.alpha.service.pause_outgoing(TO_GAMMA))
        self.alpha = self.restart(self.alpha)
        again = self.dial("ALPHA")
        again.send(final_ack(wanted))
        self.clock.advance(1)
        self.assertEqual(again.acks[-1][1:3], (1, 1))
        self.alpha = self.restart(self.alpha)
        self.successResultOf(self.alpha.service.resume_outgoing(TO_GAMMA))
        self.clock.advance(10)
        self.assertEqual(self.peer.bodies, [b"2"])
        self.assertEqual(self.bodies(self.alpha, JOURNAL), [b"1"])
        self.tell(order_ack(self.sequence(), 2), final_ack(other))
        self.assertEqual(self.remaining(), 0)
        self.alpha.deaf()
        self.successResultOf(self.alpha.service.stopService())
        state = self.successResultOf(self.alpha.store.open()).state
        self.assertEqual([name for name in state if name.startswith(EARLY)], [])
