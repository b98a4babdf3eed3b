"""Peers scripted packet by packet, some of which follow the document where it is faulty."""

from __future__ import annotations

import struct

from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.acknowledgements import final_ack, order_ack, order_queue, read_acknowledgement
from msmq.transfer.awaiting_final_acks import AwaitingFinalAcks
from msmq.transfer.incoming_stream import Verdict
from msmq.transfer.stream_changes import Disposal
from tests.builders import ALPHA, BETA, GAMMA, base_header, session_header
from tests.transfer.support import JP, START, Receiver, Sender, transactional_packet

X = int(START.wall) << 32 | 1
ACCEPTED, DUPLICATE, OUT_OF_ORDER, _ = Verdict


def acknowledgement(message_class: int, body: bytes, *, flags: int = 0, header: bytes = b"") -> bytes:
    """[MS-MQQB] 2.2.4 and 2.2.5 an acknowledgement from BETA to ALPHA, from the byte layouts alone.

    @param flags: BaseHeader.Flags, which the document wants to be 0.
    """
    recoverable = 0x20 if message_class != MessageClass.ORDER_ACK else 0
    user = BETA.bytes_le + ALPHA.bytes_le + struct.pack("<IIII", 5, 6, 7, 0x00200C00 | recoverable)
    user += struct.pack("<I", 4)
    label = "QM Ordering Ack\0".encode("utf-16-le")
    properties = struct.pack("<BBH", 0, 16, message_class) + bytes(20)
    properties += struct.pack("<IIIIIIII", 0, 0, 36, 36, 0, 0, 0, 0) + label + body
    return base_header(flags, 16 + len(user) + len(properties)) + user + properties + header


def order_body(sequence: int, number: int, tail: bytes = bytes(20)) -> bytes:
    return struct.pack("<QII", sequence, number, number - 1) + tail


def hear(packet: bytes) -> OrderAck | FinalAck:
    """The packets that ALPHA has received, parsed."""
    ack = read_acknowledgement(packet, ALPHA)
    assert ack is not None
    return ack


class ReceivingPeerTests(SynchronousTestCase):
    """The peer receives; what it says comes as bytes."""

    def test_two_journaled_messages(self) -> None:
        """MQQB-3.1.1.6.2-08: figure 14: each is order-acknowledged, kept, received, and then journaled."""
        sender = Sender()
        table = AwaitingFinalAcks(ALPHA, 10)
        sender.put(2, user_flags=JP)
        self.assertEqual(sender.sent(), [(1, 0), (2, 1)])
        for number in (1, 2):
            ack = hear(acknowledgement(MessageClass.ORDER_ACK, order_body(X, number)))
            assert isinstance(ack, OrderAck)
            found = sender.streams.order_acknowledged(ack, sender.now)
            assert found is not None
            self.assertEqual(len(found[1].delivered), 0)
            table.stored(table.add(found[1].awaiting, [number]))
        self.assertEqual(table.in_sequence(X), 2)
        for number in (1, 2):
            body = struct.pack("<QII", X, number, number - 1) + ALPHA.bytes_le + struct.pack("<I", number)
            ack = hear(acknowledgement(MessageClass.ACK_RECEIVE, body))
            assert isinstance(ack, FinalAck)
            (settlement,) = table.final_acknowledged(ack) or []
            self.assertEqual((settlement.message, settlement.disposal), (number, Disposal.JOURNAL))

    def test_garbage_around_the_body(self) -> None:
        """A default priority, a SessionHeader and garbage in the reserved bytes change nothing."""
        sender = Sender()
        sender.put()
        sender.send()
        header = session_header(1, 1)
        packet = acknowledgement(
            MessageClass.ORDER_ACK, order_body(X, 1, bytes(range(20))), flags=0x13, header=header
        )
        ack = hear(packet)
        assert isinstance(ack, OrderAck)
        found = sender.streams.order_acknowledged(ack, sender.now)
        assert found is not None
        self.assertEqual(list(found[1].delivered), sender.queue)

    def test_a_peer_that_counts_no_refused_message(self) -> None:
        """It refuses the first, then everything behind it; its FinalAck lets the rest through."""
        sender = Sender()
        sender.put(3)
        self.assertEqual(sender.sent(), [(1, 0), (2, 1), (3, 2)])
        body = struct.pack("<QII", X, 1, 0) + ALPHA.bytes_le + struct.pack("<I", 1)
        ack = hear(acknowledgement(MessageClass.NACK_ACCESS_DENIED, body))
        assert isinstance(ack, FinalAck)
        sender.streams.final_acknowledged(ack)
        sender.advance(30)
        self.assertEqual(sender.sent(), [(2, 0), (3, 2)])

    def test_acknowledgements_of_unsent_messages(self) -> None:
        """Acknowledgements of number 0, of other sequences and of unsent messages release none."""
        sender = Sender()
        sender.put(2)
        sender.sent(1)
        for sequence, number in ((X, 0), (X + 1, 1), (X, 2), (X, 0xFFFFFFFF), (0, 1)):
            body = struct.pack("<QII", sequence, number, 0) + bytes(20)
            ack = hear(acknowledgement(MessageClass.ORDER_ACK, body))
            assert isinstance(ack, OrderAck)
            found = sender.streams.order_acknowledged(ack, sender.now)
            self.assertFalse(found is not None and found[1])
        self.assertEqual(sender.stream.unacknowledged, 1)


class SendingPeerTests(SynchronousTestCase):
    """The peer sends; what is said to it leaves as bytes."""

    def message(self, number: int, previous: int, sequence: int = X) -> bytes:
        return transactional_packet(b"%d" % number, place=(sequence, number, previous), source=GAMMA)

    def test_a_peer_that_bridges_gaps_at_the_second_attempt(self) -> None:
        """Its second message expired; the third says at first that it follows it, and later the first."""
        receiver = Receiver()
        self.assertEqual(receiver.take(self.message(1, 0), self.message(3, 2)), [ACCEPTED, OUT_OF_ORDER])
        self.assertEqual([owed.tx_sequence_number for owed in receiver.advance(1)], [1])
        self.assertEqual(receiver.take(self.message(1, 0), self.message(3, 1)), [DUPLICATE, ACCEPTED])
        self.assertEqual([owed.tx_sequence_number for owed in receiver.advance(1)], [3])

    def test_a_peer_that_sends_everything_again(self) -> None:
        """After a reconnect all messages come again; the OrderAck says at once how far it was."""
        receiver = Receiver()
        packets = [self.message(number, number - 1) for number in range(1, 65)]
        receiver.take(*packets, address="TCP:10.0.0.1")
        receiver.streams.disconnected("TCP:10.0.0.1")
        self.assertEqual(set(receiver.take(*packets, address="TCP:10.0.0.2")), {DUPLICATE})
        (owed,) = receiver.advance(1)
        self.assertEqual((owed.answer_to, owed.tx_sequence_number), ("TCP:10.0.0.2", 64))
        self.assertEqual(len(receiver.queue), 64)

    def test_a_peer_whose_message_is_refused(self) -> None:
        """It is passed, order-acknowledged, and its FinalAck says why; the next one is taken."""
        receiver = Receiver()
        refused = UserMessageView(self.message(1, 0))
        self.assertEqual(receiver.take(refused.packet), [ACCEPTED])
        answer_to = receiver.streams.answer_to(refused)
        assert answer_to is not None
        ack = final_ack(
            refused,
            MessageClass.NACK_BAD_DST_Q,
            answer_to=answer_to,
            source=BETA,
            message_id=1,
            sent_time=2,
        )
        self.assertEqual(str(order_queue(answer_to)), "DIRECT=TCP:10.0.0.9\\private$\\order_queue$")
        self.assertEqual((ack.source_guid, ack.message_class), (GAMMA, 0x8000))
        self.assertEqual(receiver.take(self.message(2, 1)), [ACCEPTED])
        (owed,) = receiver.advance(1)
        packet = order_ack(owed, source=BETA, message_id=3, sent_time=4).to_bytes()
        self.assertEqual(packet[-36:], order_body(X, 2))

    def test_a_peer_that_begins_a_sequence_for_each_message(self) -> None:
        """As a sender does whose messages are all acknowledged before the next; each is the first of
        its own.
        """
        receiver = Receiver()
        for ordinal in range(20):
            self.assertEqual(receiver.take(self.message(1, 0, X + ordinal)), [ACCEPTED])
            (owed,) = receiver.advance(1)
            self.assertEqual((owed.tx_sequence_id.value, owed.tx_sequence_number), (X + ordinal, 1))
        self.assertEqual((len(receiver.streams), len(receiver.state)), (1, 1))
