"""[MS-MQQB] 2.2.4 OrderAck Packet and 2.2.5 FinalAck Packet."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.order_queue import AckEnvelope
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from tests.builders import patched
from tests.vectors import ACCEPTOR as BETA
from tests.vectors import INITIATOR as ALPHA
from tests.vectors import vector

SEQUENCE = TxSequenceID(ordinal=0x11223344, timestamp=0x55667788)
BY_GUID = AckEnvelope(ALPHA, BETA, message_id=7, sent_time=1_000_000_000)
BY_ADDRESS = AckEnvelope(ALPHA, "TCP:10.0.0.5", message_id=7, sent_time=1_000_000_000)
ENVELOPES = (BY_GUID, BY_ADDRESS)
TRANSACTION = TransactionHeader(SEQUENCE, tx_sequence_number=5, previous_tx_sequence_number=2)
MESSAGE = UserHeader(source_queue_manager=BETA, message_id=2286, is_recoverable=True)

NEGATIVE = (
    MessageClass.NACK_NOT_TRANSACTIONAL_Q,
    MessageClass.NACK_BAD_DST_Q,
    MessageClass.NACK_ACCESS_DENIED,
    MessageClass.NACK_BAD_ENCRYPTION,
    MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    MessageClass.NACK_BAD_SIGNATURE,
    MessageClass.NACK_Q_EXCEED_QUOTA,
    MessageClass.NACK_Q_DELETED,
    MessageClass.NACK_Q_PURGED,
    MessageClass.NACK_RECEIVE_TIMEOUT,
    MessageClass.NACK_DELETED,
    MessageClass.NACK_REACH_QUEUE_TIMEOUT,
    MessageClass.NACK_HOP_COUNT_EXCEEDED,
    MessageClass.NACK_RECEIVE_REJECTED,
)

u32 = st.integers(0, 0xFFFFFFFF)
hosts = st.sampled_from(("TCP:10.0.0.5", "TCP:fe80::1", "SPX:00000012:00A0234F7500", "OS:beta"))
envelopes = st.builds(AckEnvelope, st.uuids(), st.uuids() | hosts, u32, u32)
sequences = st.builds(TxSequenceID, u32, u32)
numbers = st.integers(1, 0xFFFFFFFF)
acknowledgements = st.one_of(
    st.builds(OrderAck, envelopes, sequences, numbers, u32),
    st.builds(FinalAck, envelopes, st.integers(0x4000, 0xFFFF), sequences, numbers, u32, st.uuids(), u32),
)


def order_ack(envelope: AckEnvelope = BY_GUID) -> OrderAck:
    return OrderAck.for_message(envelope, TRANSACTION)


def final_ack(envelope: AckEnvelope = BY_GUID, message_class: int = MessageClass.ACK_RECEIVE) -> FinalAck:
    return FinalAck.for_message(envelope, message_class, MESSAGE, TRANSACTION)


def parts(data: bytes) -> tuple[bytes, bytes]:
    """The UserHeader and the MessagePropertiesHeader of an acknowledgement, by its sizes alone."""
    end = len(data) - (56 + 32 + 36)
    return data[16:end], data[end:]


class BothTests(SynchronousTestCase):
    """Common properties of OrderAck and FinalAck packets."""

    def both(self) -> list[bytes]:
        return [make(envelope).to_bytes() for make in (order_ack, final_ack) for envelope in ENVELOPES]

    def test_they_are_three_headers(self) -> None:
        """MQQB-2.2.4-01, MQQB-2.2.5-02: the flags announce no other header, and PacketSize ends them."""
        for data in self.both():
            user, properties = parts(data)
            self.assertEqual(len(data), int.from_bytes(data[8:12], "little"))
            self.assertEqual(int.from_bytes(user[44:48], "little") & 0x1098E000, 0)
            self.assertEqual(len(properties), 124)

    def test_their_base_flags_are_zero(self) -> None:
        """Priority 0, and nothing else is set."""
        for data in self.both():
            self.assertEqual(data[2:4], b"\0\0")

    def test_label_and_sizes_are_those_of_the_document(self) -> None:
        """MQQB-2.2.4-06, MQQB-2.2.5-08: LabelLength 0x10, the label with its NUL, BodyType 0, size 0x24."""
        for data in self.both():
            _, properties = parts(data)
            self.assertEqual(properties[:2], b"\x00\x10")
            self.assertEqual(properties[24:28], bytes(4))
            self.assertEqual(properties[32:36], b"\x24\0\0\0")
            self.assertEqual(properties[56:88], "QM Ordering Ack\0".encode("utf-16-le"))

    def test_what_the_document_leaves_open(self) -> None:
        """MQQB-2.2.4-08: nothing expires, the address is that of DQ 3 or null, MessageID is our own."""
        for envelope, address in ((BY_GUID, BETA.bytes_le), (BY_ADDRESS, bytes(16))):
            for data in (order_ack(envelope).to_bytes(), final_ack(envelope).to_bytes()):
                self.assertEqual(data[12:16], b"\xff" * 4)
                self.assertEqual(data[16:32], ALPHA.bytes_le)
                self.assertEqual(data[32:48], address)
                self.assertEqual(data[48:52], b"\xff" * 4)
                self.assertEqual(data[56:60], b"\x07\0\0\0")

    def test_open_fields_may_be_anything_on_receipt(self) -> None:
        """Times, algorithms and correlation of a peer do not matter."""
        for make, read in ((order_ack, OrderAck.from_bytes), (final_ack, FinalAck.from_bytes)):
            data = make().to_bytes()
            at = len(data) - 124
            noisy = patched(data, 12, b"\1\2\3\4")
            noisy = patched(noisy, 48, b"\5\6\7\x08")
            noisy = patched(noisy, at + 4, bytes(range(20)))
            noisy = patched(noisy, at + 36, b"\x24\0\0\1" + bytes(range(12)))
            self.assertEqual(read(noisy), read(data))

    def test_priority_is_ignored_on_receipt(self) -> None:
        """PR 3, the default of other messages, is accepted."""
        for make, read in ((order_ack, OrderAck.from_bytes), (final_ack, FinalAck.from_bytes)):
            self.assertEqual(read(patched(make().to_bytes(), 2, b"\x03")), make())

    def test_a_session_header_may_ride_along(self) -> None:
        """MQQB-2.2.4-02, MQQB-2.2.5-03: sent with flags 0, understood with SH and a SessionHeader."""
        header = SessionHeader(1, 0, 0, 1, 1, 64).to_bytes()
        for make, read in ((order_ack, OrderAck.from_bytes), (final_ack, FinalAck.from_bytes)):
            data = make().to_bytes()
            self.assertEqual(data[2:4], b"\0\0")
            self.assertEqual(read(patched(data, 2, b"\x13") + header), make())

    def test_a_direct_name_may_begin_with_its_keyword(self) -> None:
        """C{DIRECT=} and another case change nothing."""
        for make, read in ((order_ack, OrderAck.from_bytes), (final_ack, FinalAck.from_bytes)):
            shouting = AckEnvelope(ALPHA, "Direct=TCP:10.0.0.5", 7, 1_000_000_000)
            data = make(shouting).to_bytes()
            upper = "\\PRIVATE$\\order_queue$".encode("utf-16-le")
            data = data.replace(upper, "\\private$\\ORDER_QUEUE$".encode("utf-16-le"))
            self.assertEqual(read(data), make(BY_ADDRESS))

    def test_they_are_distinguished(self) -> None:
        """Neither is read as the other, and an ordinary message as neither."""
        for read, others in (
            (OrderAck.from_bytes, [final_ack().to_bytes()]),
            (FinalAck.from_bytes, [order_ack().to_bytes()]),
        ):
            for data in [*others, vector("mqqb-4.1.7-user-message"), vector("mqqb-4.1.8-session-ack")]:
                self.assertRaises(RemoteProtocolError, read, data)

    def test_other_bodies_are_none_of_them(self) -> None:
        """Another MessageSize, label, queue number or an additional header makes another message."""
        for make, read in ((order_ack, OrderAck.from_bytes), (final_ack, FinalAck.from_bytes)):
            data = make().to_bytes()
            at = len(data) - 124
            for changed in (
                patched(data, at + 32, b"\x23"),
                patched(data, at + 56, b"q"),
                patched(data, 64, b"\x05"),
                patched(data, 62, b"\x28"),
            ):
                self.assertRaises(RemoteProtocolError, read, changed)

    def test_a_packet_size_that_ends_elsewhere_is_malformed(self) -> None:
        """PacketSize has to be the end of the headers, or of the SessionHeader if there is one."""
        for make, read in ((order_ack, OrderAck.from_bytes), (final_ack, FinalAck.from_bytes)):
            data = make().to_bytes()
            size = len(data) + 4
            changed = patched(data, 8, size.to_bytes(4, "little")) + bytes(4)
            error = self.assertRaises(RemoteProtocolError, read, changed)
            self.assertEqual((error.field, error.offset), ("PacketSize", 8))
            counted = patched(data, 8, (len(data) + 16).to_bytes(4, "little"))
            header = SessionHeader(1, 0, 0, 1, 1, 64).to_bytes()
            self.assertEqual(read(patched(counted, 2, b"\x10") + header), make())

    def test_every_strict_prefix_is_malformed(self) -> None:
        """A packet that is cut anywhere is refused."""
        for make, read in ((order_ack, OrderAck.from_bytes), (final_ack, FinalAck.from_bytes)):
            for envelope in ENVELOPES:
                data = make(envelope).to_bytes()
                for length in range(len(data)):
                    self.assertRaises(RemoteProtocolError, read, data[:length])
                self.assertRaises(RemoteProtocolError, read, data + b"\0")

    @given(acknowledgements)
    def test_every_acknowledgement_round_trips(self, ack: OrderAck | FinalAck) -> None:
        """Every acknowledgement round-trips."""
        self.assertEqual(type(ack).from_bytes(ack.to_bytes()), ack)

    @given(acknowledgements, st.data())
    def test_damage_is_an_acknowledgement_or_malformed(self, ack: Any, data: st.DataObject) -> None:
        """Any changed bytes are parsed or raise the error of malformed packets."""
        packet = ack.to_bytes()
        offset = data.draw(st.integers(0, len(packet) - 1))
        damaged = patched(packet, offset, data.draw(st.binary(min_size=1, max_size=4)))
        try:
            type(ack).from_bytes(damaged)
        except RemoteProtocolError:
            pass


class OrderAckTests(SynchronousTestCase):
    def test_flags_are_mp_and_dq_alone(self) -> None:
        """MQQB-2.2.4-03: 0x00200C00 for a GUID, 0x00201C00 for an address; it is express."""
        flags = [order_ack(envelope).to_bytes()[60:64].hex() for envelope in ENVELOPES]
        self.assertEqual(flags, ["000c2000", "001c2000"])

    def test_a_guid_is_addressed_at_queue_4(self) -> None:
        """MQQB-2.2.4-04: DestinationQueue is 04 00 00 00; another number is not an OrderAck."""
        data = order_ack(BY_GUID).to_bytes()
        self.assertEqual(data[64:68].hex(), "04000000")
        self.assertRaises(RemoteProtocolError, OrderAck.from_bytes, patched(data, 64, b"\x03"))

    def test_an_address_is_a_direct_name(self) -> None:
        """MQQB-2.2.4-05: the name has no C{DIRECT=} and ends with a NUL."""
        name = "TCP:10.0.0.5\\PRIVATE$\\order_queue$\0".encode("utf-16-le")
        data = order_ack(BY_ADDRESS).to_bytes()
        self.assertEqual(data[64 : 66 + len(name)], len(name).to_bytes(2, "little") + name)

    def test_class_and_flags_are_those_of_the_document(self) -> None:
        """MQQB-2.2.4-07: MessageClass 0x00FF, Flags 0, BodyType 0 and MessageSize 0x24."""
        _, properties = parts(order_ack().to_bytes())
        self.assertEqual(properties[:4].hex(), "0010ff00")
        self.assertEqual(properties[24:28].hex(), "00000000")
        self.assertEqual(properties[32:36].hex(), "24000000")

    def test_the_body_is_spelled_field_by_field(self) -> None:
        """MQQB-2.2.4.1-01: sequence, number, previous number and 20 bytes of nothing."""
        body = order_ack().to_bytes()[-36:]
        self.assertEqual(body.hex(), "44332211887766550500000004000000" + "00" * 20)

    def test_it_states_the_sequence_of_the_message(self) -> None:
        """MQQB-2.2.4.1-02, MQQB-2.2.4.1-03: identifier and number come from the message's header."""
        ack = OrderAck.from_bytes(order_ack().to_bytes())
        self.assertEqual((ack.tx_sequence_id, ack.tx_sequence_number), (SEQUENCE, 5))

    def test_the_previous_number_is_one_less(self) -> None:
        """MQQB-2.2.4.1-04: after a gap, 5 follows 2, and 4 is stated."""
        ack = OrderAck.from_bytes(order_ack().to_bytes())
        self.assertEqual(ack.tx_previous_sequence_number, 4)

    def test_reserved_bytes_are_ignored(self) -> None:
        """MQQB-2.2.4.1-05: garbage in the last 20 bytes of the body changes nothing; they are sent as 0."""
        data = order_ack().to_bytes()
        self.assertEqual(data[-20:], bytes(20))
        self.assertEqual(OrderAck.from_bytes(data[:-20] + bytes(range(20))), order_ack())

    def test_number_0_cannot_be_acknowledged(self) -> None:
        """It is not a sequence number; nor is what does not fit 32 bits."""
        for number in (0, 1 << 32):
            self.assertRaises(LocalProtocolError, OrderAck(BY_GUID, SEQUENCE, number, 0).to_bytes)


class FinalAckTests(SynchronousTestCase):
    def test_flags_are_mp_dm_and_dq_alone(self) -> None:
        """MQQB-2.2.5-04: 0x00200C20 and 04 00 00 00 for a GUID, 0x00201C20 for an address."""
        data = [final_ack(envelope).to_bytes() for envelope in ENVELOPES]
        self.assertEqual([packet[60:64].hex() for packet in data], ["200c2000", "201c2000"])
        self.assertEqual(data[0][64:68].hex(), "04000000")

    def test_an_ipv6_address_is_a_direct_name(self) -> None:
        """MQQB-2.2.5-05: the literal has no brackets."""
        name = "TCP:fe80::1\\PRIVATE$\\order_queue$\0".encode("utf-16-le")
        data = final_ack(AckEnvelope(ALPHA, "TCP:fe80::1")).to_bytes()
        self.assertEqual(data[64 : 66 + len(name)], len(name).to_bytes(2, "little") + name)

    def test_a_message_that_was_read_is_positive(self) -> None:
        """MQQB-2.2.5-06: class 00 40."""
        data = final_ack().to_bytes()
        self.assertEqual(parts(data)[1][2:4].hex(), "0040")
        self.assertTrue(FinalAck.from_bytes(data).is_positive)

    def test_every_other_class_is_negative(self) -> None:
        """MQQB-2.2.5-07: each cause has its class, and any from 0x4001 on is understood as a failure."""
        for message_class in (*NEGATIVE, 0x4001, 0xFFFF):
            data = final_ack(message_class=message_class).to_bytes()
            self.assertEqual(parts(data)[1][2:4], int(message_class).to_bytes(2, "little"))
            ack = FinalAck.from_bytes(data)
            self.assertEqual((ack.message_class, ack.is_positive), (message_class, False))

    def test_classes_below_4000_are_none(self) -> None:
        """They can be neither sent nor understood as a FinalAck."""
        self.assertRaises(LocalProtocolError, final_ack(message_class=MessageClass.ACK_REACH_QUEUE).to_bytes)
        data = final_ack().to_bytes()
        changed = patched(data, len(data) - 124 + 2, b"\xff\x3f")
        self.assertRaises(RemoteProtocolError, FinalAck.from_bytes, changed)

    def test_the_body_is_spelled_field_by_field(self) -> None:
        """MQQB-2.2.5.1-01: sequence, number, previous number, source and message."""
        body = final_ack().to_bytes()[-36:]
        self.assertEqual(
            body.hex(), "443322118877665505000000020000000789cd434c39118f44459078909ea0fcee080000"
        )

    def test_it_repeats_what_the_message_said(self) -> None:
        """MQQB-2.2.5.1-02, MQQB-2.2.5.1-03, MQQB-2.2.5.1-04, MQQB-2.2.5.1-05, MQQB-2.2.5.1-06."""
        ack = FinalAck.from_bytes(final_ack().to_bytes())
        self.assertEqual(ack.tx_sequence_id, TRANSACTION.tx_sequence_id)
        self.assertEqual(ack.tx_sequence_number, TRANSACTION.tx_sequence_number)
        self.assertEqual(ack.tx_previous_sequence_number, TRANSACTION.previous_tx_sequence_number)
        self.assertEqual(ack.source_guid, MESSAGE.source_queue_manager)
        self.assertEqual(ack.message_id, MESSAGE.message_id)

    def test_number_0_cannot_be_acknowledged(self) -> None:
        """It is not a sequence number."""
        ack = FinalAck(BY_GUID, MessageClass.ACK_RECEIVE, SEQUENCE, 0, 0, BETA, 1)
        self.assertRaises(LocalProtocolError, ack.to_bytes)

    def test_the_packet_size_is_counted(self) -> None:
        """The BaseHeader can be read alone, as a framer does."""
        data = final_ack(BY_ADDRESS).to_bytes()
        self.assertEqual(BaseHeader.LAYOUT.unpack_from(data)[4], len(data))
