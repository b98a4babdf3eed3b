"""[MS-MQQB] 3.1.5.1: types of packets, and invalid packets."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.classification import PacketKind, classify
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.order_queue import AckEnvelope, is_for_order_queue
from msmq.wire.guid import NULL_GUID
from tests.builders import patched
from tests.vectors import ACCEPTOR as BETA
from tests.vectors import INITIATOR as ALPHA
from tests.vectors import vector

GAMMA = UUID("3C3A6AEB-F567-4143-87D3-85CF4D68CEB4")
BY_GUID = AckEnvelope(ALPHA, BETA)
BY_ADDRESS = AckEnvelope(ALPHA, "TCP:10.0.0.5")
SEQUENCE = TxSequenceID(1, 2)

ESTABLISH = vector("mqqb-4.1.3-establish-connection-request")
PARAMETERS = vector("mqqb-4.1.5-connection-parameters-request")
SESSION_ACK = vector("mqqb-4.1.8-session-ack")
USER_MESSAGE = vector("mqqb-4.1.7-user-message")


def order_ack(envelope: AckEnvelope = BY_GUID) -> bytes:
    return OrderAck(envelope, SEQUENCE, 1).to_bytes()


def final_ack(message_class: int, envelope: AckEnvelope = BY_GUID) -> bytes:
    return FinalAck(envelope, message_class, SEQUENCE, 1, 0, BETA, 9).to_bytes()


class ClassifyTests(SynchronousTestCase):
    def test_establish_connection(self) -> None:
        """MQQB-3.1.5.1.1-01, MQQB-2.2.1-01: frame 3 has IN and PT 2."""
        self.assertIs(classify(ESTABLISH), PacketKind.ESTABLISH_CONNECTION)

    def test_connection_parameters(self) -> None:
        """MQQB-3.1.5.1.1-02: frame 5 has IN and PT 3."""
        self.assertIs(classify(PARAMETERS), PacketKind.CONNECTION_PARAMETERS)

    def test_session_ack(self) -> None:
        """Frame 8 has IN, SH and PT 1; without SH it is malformed."""
        self.assertIs(classify(SESSION_ACK), PacketKind.SESSION_ACK)
        error = self.assertRaises(RemoteProtocolError, classify, patched(SESSION_ACK, 2, b"\x0b"))
        self.assertEqual((error.header, error.field, error.offset), ("BaseHeader", "Flags", 2))

    def test_packet_types_are_the_low_four_bits(self) -> None:
        """MQQB-2.2.1-03: 1, 2 and 3 are the three packets, for any bits above CS."""
        for data, kind in (
            (SESSION_ACK, PacketKind.SESSION_ACK),
            (ESTABLISH, PacketKind.ESTABLISH_CONNECTION),
            (PARAMETERS, PacketKind.CONNECTION_PARAMETERS),
        ):
            self.assertIs(classify(data), kind)
            self.assertIs(classify(patched(data, 18, bytes([data[18] | 0xE0, 0xFF]))), kind)

    def test_another_packet_type_is_malformed(self) -> None:
        """PT 0 and 4 to 15 are not defined, and the error names the field."""
        for number in (0, *range(4, 16)):
            data = patched(PARAMETERS, 18, bytes([number]))
            error = self.assertRaises(RemoteProtocolError, classify, data)
            self.assertEqual((error.header, error.field, error.offset), ("InternalHeader", "Flags", 18))

    def test_sizes_belong_to_packet_types(self) -> None:
        """An internal packet with the size of another is malformed."""
        for data in (ESTABLISH, PARAMETERS, SESSION_ACK):
            for size in {572, 32, 36} - {len(data)}:
                changed = patched(data, 8, size.to_bytes(4, "little"))
                error = self.assertRaises(RemoteProtocolError, classify, changed)
                self.assertEqual((error.header, error.field), ("BaseHeader", "PacketSize"))

    def test_order_ack(self) -> None:
        """MQQB-3.1.5.1.1-04: queue, label, size and class have to match; PR and SH do not matter."""
        for envelope in (BY_GUID, BY_ADDRESS):
            data = order_ack(envelope)
            at = len(data) - 124
            self.assertIs(classify(data), PacketKind.ORDER_ACK)
            self.assertIs(classify(patched(data, 2, b"\x17")), PacketKind.ORDER_ACK)
            for changed in (
                patched(data, at + 32, b"\x23"),
                patched(data, at + 56, b"q"),
                patched(data, at + 2, b"\xfe\x00"),
                patched(data, data.find(b"o\0r\0d\0") if envelope is BY_ADDRESS else 64, b"\x05"),
            ):
                self.assertIs(classify(changed), PacketKind.USER_MESSAGE)

    def test_final_ack(self) -> None:
        """MQQB-3.1.5.1.1-05: classes from 0x4000 on; 0x0002 to the same queue is an ordinary message."""
        for envelope in (BY_GUID, BY_ADDRESS):
            for message_class in (0x4000, 0x8000, 0xC000):
                data = final_ack(message_class, envelope)
                self.assertIs(classify(data), PacketKind.FINAL_ACK)
                self.assertIs(classify(patched(data, 2, b"\x13")), PacketKind.FINAL_ACK)
                other = patched(data, len(data) - 124 + 2, b"\x02\x00")
                self.assertIs(classify(other), PacketKind.USER_MESSAGE)

    def test_user_messages_of_every_class(self) -> None:
        """Reports, administration acknowledgements and classes of applications are user messages."""
        for message_class in (0x0000, 0x0001, 0x0002, 0x00FF, 0x4000, 0x8000, 0x0123):
            data = patched(USER_MESSAGE, 138, message_class.to_bytes(2, "little"))
            self.assertIs(classify(data), PacketKind.USER_MESSAGE)

    def test_an_acknowledgement_for_another_queue_manager_is_a_message(self) -> None:
        """A queue manager forwards what names another one; null and direct names mean itself."""
        self.assertIs(classify(order_ack(), queue_manager=BETA), PacketKind.ORDER_ACK)
        self.assertIs(classify(order_ack(), queue_manager=GAMMA), PacketKind.USER_MESSAGE)
        nameless = order_ack(AckEnvelope(ALPHA, NULL_GUID))
        self.assertIs(classify(nameless, queue_manager=GAMMA), PacketKind.ORDER_ACK)
        self.assertIs(classify(order_ack(BY_ADDRESS), queue_manager=GAMMA), PacketKind.ORDER_ACK)

    def test_a_malformed_acknowledgement_is_malformed(self) -> None:
        """A label that runs out of the packet is nothing to be stored."""
        data = order_ack()
        changed = patched(data, len(data) - 124 + 52, b"\xff\xff\xff\x7f")
        self.assertRaises(RemoteProtocolError, classify, changed)

    def test_bad_signatures_are_no_packets(self) -> None:
        """Version 0x11 and the signature read the other way round are refused, naming the field.

        MQQB-3.1.5.1.2-01.
        """
        for data in (ESTABLISH, PARAMETERS, SESSION_ACK, USER_MESSAGE, order_ack()):
            error = self.assertRaises(RemoteProtocolError, classify, b"\x11" + data[1:])
            self.assertEqual((error.field, error.offset), ("VersionNumber", 0))
            error = self.assertRaises(RemoteProtocolError, classify, patched(data, 4, b"ROIL"))
            self.assertEqual((error.field, error.offset), ("Signature", 4))

    def test_a_good_header_makes_a_packet(self) -> None:
        """MQQB-3.1.5.1.2-01: 0x10 and LIOR are all that it takes; Reserved may be anything."""
        for data in (ESTABLISH, PARAMETERS, SESSION_ACK, USER_MESSAGE):
            self.assertIs(classify(patched(data, 1, b"\xff")), classify(data))

    def test_less_than_the_smallest_message_is_malformed(self) -> None:
        """No user packet is shorter than 120 bytes."""
        for length in range(120):
            self.assertRaises(RemoteProtocolError, classify, USER_MESSAGE[:length])

    @given(
        st.sampled_from((ESTABLISH, PARAMETERS, SESSION_ACK, USER_MESSAGE, order_ack(), final_ack(0x4000))),
        st.integers(0, 180),
        st.binary(min_size=1, max_size=4),
    )
    def test_damage_is_some_packet_or_malformed(self, data: bytes, offset: int, noise: bytes) -> None:
        """Any changed bytes are parsed or raise the error of malformed packets."""
        try:
            classify(patched(data, min(offset, len(data) - 4), noise))
        except RemoteProtocolError:
            pass


class IsForOrderQueueTests(SynchronousTestCase):
    def test_both_forms_and_any_case(self) -> None:
        """Private queue 4 and the direct name are the order queue, in any case."""
        for data in (order_ack(), order_ack(BY_ADDRESS)):
            self.assertTrue(is_for_order_queue(data))
        lower = "PRIVATE$".encode("utf-16-le")
        data = order_ack(BY_ADDRESS).replace(lower, "private$".encode("utf-16-le"))
        self.assertTrue(is_for_order_queue(data))

    def test_other_queues_are_not(self) -> None:
        """The destination of frame 7, another number, and a name that only contains it are others."""
        self.assertFalse(is_for_order_queue(USER_MESSAGE))
        self.assertFalse(is_for_order_queue(patched(order_ack(), 64, b"\x04\0\x01\0")))
        self.assertFalse(is_for_order_queue(order_ack(BY_ADDRESS).replace(b"e\0$\0", b"e\0!\0")))
