r"""[MS-MQQB] 3.1.7.17, 3.1.7.2.2 and 3.1.5.1.1: acknowledgements as packets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.queue_names import DirectQueueFormatName
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.transfer.acknowledgements import (
    final_ack,
    final_ack_addressee,
    is_order_queue,
    order_ack,
    order_queue,
    read_acknowledgement,
    requester_of,
    wants_final_ack,
)
from msmq.transfer.incoming_streams import OwedOrderAck
from tests.builders import ALPHA, BETA, GAMMA, user_packet
from tests.transfer.support import JN, JP, Receiver, transactional_packet

X = TxSequenceID(ordinal=5, timestamp=1_700_000_000)


def received(*, number: int = 7, previous: int = 4, user_flags: int = 0, transaction_flags: int = 0) -> bytes:
    return transactional_packet(
        place=(X.value, number, previous),
        message_id=2286,
        source=GAMMA,
        user_flags=user_flags,
        transaction_flags=transaction_flags,
    )


class OrderQueueTests(SynchronousTestCase):
    def test_a_queue_manager(self) -> None:
        """Its private queue 4."""
        self.assertEqual(str(order_queue(ALPHA)), "PRIVATE=A1FA0000-0000-4000-8000-000000000001\\00000004")

    def test_an_address(self) -> None:
        """Its C{order_queue$} by a direct name."""
        self.assertEqual(str(order_queue("TCP:10.0.0.9")), "DIRECT=TCP:10.0.0.9\\private$\\order_queue$")
        self.assertEqual(str(order_queue("TCP:fe80::1")), "DIRECT=TCP:fe80::1\\private$\\order_queue$")

    def test_no_address(self) -> None:
        """No acknowledgement is created."""
        self.assertRaises(MQError, order_queue, "nonsense")


class OrderAckTests(SynchronousTestCase):
    def owed(self, *packets: bytes) -> bytes:
        """The OrderAck that messages draw."""
        receiver = Receiver()
        receiver.take(*packets)
        (owed,) = receiver.advance(1)
        return order_ack(owed, source=BETA, message_id=9, sent_time=77).to_bytes()

    def test_it_states_the_stream(self) -> None:
        """MQQB-3.1.7.17-03, MQQB-2.2.4.1-02, MQQB-2.2.4.1-04: sequence, last number, and one less."""
        packets = [
            transactional_packet(place=(X.value, number, previous)) for number, previous in ((2, 0), (5, 2))
        ]
        body = self.owed(*packets)[-36:]
        self.assertEqual(body[:8], X.value.to_bytes(8, "little"))
        self.assertEqual(body[8:16].hex(), "0500000004000000")
        self.assertEqual(body[16:], bytes(20))

    def test_a_direct_message_is_answered_to_its_address(self) -> None:
        """MQQB-3.1.7.17-06, MQQB-2.2.4-05: the name has the peer's address and no GUID."""
        packet = self.owed(transactional_packet(place=(X.value, 1, 0)))
        view = UserMessageView(packet)
        name = DirectQueueFormatName("TCP:10.0.0.9\\PRIVATE$\\order_queue$")
        self.assertEqual(view.destination, name)
        self.assertEqual(view.queue_manager_address, bytes(16))

    def test_another_message_is_answered_to_its_first_sender(self) -> None:
        """MQQB-3.1.7.17-07: not to the peer that handed it over."""
        packet = self.owed(
            transactional_packet(place=(X.value, 1, 0), source=GAMMA, private_number=7, queue_manager=BETA)
        )
        view = UserMessageView(packet)
        self.assertEqual(str(view.destination_format_name()), f"PRIVATE={str(GAMMA).upper()}\\00000004")
        self.assertEqual(view.queue_manager_address, GAMMA.bytes_le)

    def test_it_is_plain(self) -> None:
        """MQQB-3.1.7.17-01: priority 0, no tracing, the label, and no queue to answer to."""
        for packet in (
            self.owed(transactional_packet(place=(X.value, 1, 0))),
            refusal(MessageClass.NACK_BAD_DST_Q).to_bytes(),
        ):
            message = UserMessageView(packet).parse()
            self.assertEqual((message.base.priority, message.base.is_traced), (0, False))
            self.assertEqual((message.user.admin_queue, message.user.response_queue), (None, None))
            self.assertEqual((message.properties.label, message.properties.body_type), ("QM Ordering Ack", 0))
            self.assertEqual((message.properties.privacy_level, message.security), (0, None))

    def test_one_is_express_and_the_other_recoverable(self) -> None:
        """MQQB-3.1.7.17-02: DM of an OrderAck is 0, of a FinalAck 1."""
        packet = self.owed(transactional_packet(place=(X.value, 1, 0)))
        self.assertFalse(UserMessageView(packet).is_recoverable)
        self.assertTrue(UserMessageView(refusal(MessageClass.NACK_BAD_DST_Q).to_bytes()).is_recoverable)


def refusal(message_class: int) -> FinalAck:
    return final_ack(
        UserMessageView(received()),
        message_class,
        answer_to="TCP:10.0.0.9",
        source=BETA,
        message_id=9,
        sent_time=77,
    )


class FinalAckTests(SynchronousTestCase):
    def test_it_states_the_message(self) -> None:
        """MQQB-3.1.7.17-04, MQQB-3.1.7.17-05: all fields are those of the packet, stored or refused."""
        body = refusal(MessageClass.ACK_RECEIVE).to_bytes()[-36:]
        expected = X.value.to_bytes(8, "little") + bytes.fromhex("0700000004000000")
        self.assertEqual(body, expected + GAMMA.bytes_le + bytes.fromhex("ee080000"))

    def test_flags_that_request_one(self) -> None:
        """JP, JN and FA each ask for it; the other flags do not."""
        for user_flags, transaction_flags, is_wanted in (
            (JP, 0, True),
            (JN, 0, True),
            (0, 0x2, True),
            (0, 0, False),
            (0, 0xC, False),
        ):
            view = UserMessageView(received(user_flags=user_flags, transaction_flags=transaction_flags))
            self.assertEqual(wants_final_ack(view), is_wanted)

    def test_others_never_do(self) -> None:
        """A message without a TransactionHeader draws none, journaled or not."""
        self.assertFalse(wants_final_ack(UserMessageView(user_packet(recoverable=True, user_flags=JP | JN))))


class RecognitionTests(SynchronousTestCase):
    def test_both_are_recognised(self) -> None:
        """By their destination: a direct name, or this queue manager's own identifier."""
        owed = OwedOrderAck(ALPHA, X, 3, ALPHA)
        for ack in (
            order_ack(owed, source=BETA, message_id=1, sent_time=2),
            order_ack(OwedOrderAck("TCP:10.0.0.1", X, 3, ALPHA), source=BETA, message_id=1, sent_time=2),
            refusal(MessageClass.NACK_ACCESS_DENIED),
        ):
            self.assertEqual(read_acknowledgement(ack.to_bytes(), ALPHA), ack)

    def test_those_of_others_are_forwarded(self) -> None:
        """For a router they are messages like any other."""
        ack = order_ack(OwedOrderAck(GAMMA, X, 3, ALPHA), source=BETA, message_id=1, sent_time=2)
        self.assertIs(read_acknowledgement(ack.to_bytes(), ALPHA), None)

    def test_other_messages_are_none(self) -> None:
        """Transactional ones, and those to the order queue that look otherwise."""
        for packet in (
            received(),
            user_packet(destination="OS:alpha\\private$\\order_queue$", body=bytes(36)),
        ):
            self.assertIs(read_acknowledgement(packet, ALPHA), None)

    @given(st.data())
    def test_damage_is_read_or_refused(self, data: st.DataObject) -> None:
        """Any packet to the order queue is parsed or raises the one error."""
        packet = bytearray(
            order_ack(OwedOrderAck(ALPHA, X, 3, ALPHA), source=BETA, message_id=1, sent_time=2).to_bytes()
        )
        for _ in range(data.draw(st.integers(1, 3))):
            packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
        try:
            ack = read_acknowledgement(bytes(packet), ALPHA)
        except RemoteProtocolError:
            return
        self.assertTrue(ack is None or isinstance(ack, OrderAck | FinalAck))


class AddresseeTests(SynchronousTestCase):
    """The queue manager that an acknowledgement is for."""

    def test_administration_acknowledgements(self) -> None:
        """That of the message in the correlation identifier, for the classes of acknowledgements only."""
        for message_class, expected in (
            (MessageClass.NORMAL, None),
            (MessageClass.REPORT, None),
            (MessageClass.ACK_REACH_QUEUE, GAMMA),
            (MessageClass.ACK_RECEIVE, GAMMA),
            (MessageClass.NACK_Q_DELETED, GAMMA),
        ):
            message = Message(message_class=message_class, correlation_id=GAMMA.bytes_le + bytes(4))
            name = parse_format_name("DIRECT=OS:beta\\private$\\admin")
            view = UserMessageView(build_packet(message, name, source=ALPHA, message_id=1, sent_time=2))
            self.assertEqual(requester_of(view), expected)

    def test_order_queue(self) -> None:
        """A FinalAck has its addressee in its body; an OrderAck, and anything else, has none."""
        view = UserMessageView(received())
        answer = final_ack(
            view, MessageClass.ACK_RECEIVE, answer_to=GAMMA, source=ALPHA, message_id=1, sent_time=2
        )
        assert answer is not None
        self.assertEqual(final_ack_addressee(UserMessageView(answer.to_bytes())), GAMMA)
        receiver = Receiver()
        receiver.take(transactional_packet(place=(X.value, 1, 0)))
        [owed] = receiver.advance(1)
        ack = order_ack(owed, source=ALPHA, message_id=1, sent_time=2)
        self.assertIsNone(final_ack_addressee(UserMessageView(ack.to_bytes())))
        self.assertIsNone(final_ack_addressee(view))


class OrderQueueNameTests(SynchronousTestCase):
    """L{is_order_queue}."""

    def test_names(self) -> None:
        """Private queue 4, or its path at any address in any spelling; no public queue is one."""
        for name, expected in (
            (f"PRIVATE={BETA}\\00000004", True),
            (f"PRIVATE={BETA}\\00000005", False),
            ("DIRECT=TCP:10.0.0.9\\PRIVATE$\\Order_Queue$", True),
            ("DIRECT=OS:beta\\private$\\order_queue$", True),
            ("DIRECT=OS:beta\\private$\\orders", False),
            (f"PUBLIC={BETA}", False),
        ):
            self.assertIs(is_order_queue(parse_format_name(name)), expected, name)
