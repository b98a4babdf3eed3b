"""[MS-MQMQ] 2.2.19.3: what an application said."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.algorithms import HashAlgorithm
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.order_queue import AckEnvelope
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_patches import (
    patch_hop_count,
    patch_session_header,
    patch_time_to_reach_queue,
)
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.reader import Reader
from tests.builders import ALPHA, BETA
from tests.strategies import message_properties_headers, packet_of, user_messages
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways
from tests.vectors import vector

FRAME_7 = MessagePropertiesHeader(
    message_body=b"a\0" * 1000,
    label="mqsender label",
    flags=0x0F,
    body_type=8,
    hash_algorithm=0x8004,
    encryption_algorithm=0x6801,
)


def read(data: bytes) -> MessagePropertiesHeader:
    return MessagePropertiesHeader.read(Reader(data, base=136))


def sized(label_length: int, message_size: int, extension_size: int, tail: bytes) -> bytes:
    """A header of zeros but for its sizes, with C{tail} behind it."""
    fixed = bytes([0, label_length]) + bytes(30) + message_size.to_bytes(4, "little") + bytes(16)
    return fixed + extension_size.to_bytes(4, "little") + tail


class MessagePropertiesHeaderTests(SynchronousTestCase):
    """L{MessagePropertiesHeader}."""

    def assert_malformed(self, data: bytes, field: str, offset: int) -> None:
        error = self.assertRaises(RemoteProtocolError, read, data)
        self.assertEqual(
            (error.section, error.header, error.field, error.offset),
            ("[MS-MQMQ] 2.2.19.3", "MessagePropertiesHeader", field, offset),
        )

    def test_is_read_from_the_message_of_the_document(self) -> None:
        """Frame 7 has a label, 2000 bytes and class 0."""
        data = vector("mqqb-4.1.7-user-message")[136:]
        header = read(data)
        self.assertEqual(header, FRAME_7)
        self.assertEqual(header.allocation_body_size, 2000)
        self.assertEqual(header.to_bytes(), data)

    def test_every_field_is_at_its_offset(self) -> None:
        """Little-endian, in the order of the document: MQMQ-2.2.19.3-01, MQMQ-2.2.19.3-02."""
        header = MessagePropertiesHeader(
            message_body=b"body!",
            label="L",
            extension_data=b"ext",
            flags=0x05,
            message_class=0x0102,
            correlation_id=b"correlation id 20 b.",
            body_type=0x03040506,
            application_tag=0x0708090A,
            allocation_body_size=0x0B0C0D0E,
            privacy_level=0x0F101112,
            hash_algorithm=0x13141516,
            encryption_algorithm=0x1718191A,
        )
        expected = (
            bytes.fromhex("05020201")
            + b"correlation id 20 b."
            + bytes.fromhex("060504030a090807050000000e0d0c0b1211100f161514131a19181703000000")
            + b"L\0\0\0extbody!"
        )
        self.assertEqual(header.to_bytes(), expected)
        self.assertEqual(read(expected), header)

    def test_extension_and_body_are_not_aligned(self) -> None:
        """MQMQ-2.2.19.3-26, MQMQ-2.2.19.3-27: the body begins right behind an extension of one byte."""
        header = MessagePropertiesHeader(b"body", "A", b"X")
        self.assertEqual(header.to_bytes()[56:], b"A\0\0\0Xbody\0\0\0")
        self.assertEqual(header.to_bytes()[52:56], b"\1\0\0\0")
        self.assertEqual(read(header.to_bytes()), header)
        without = MessagePropertiesHeader(b"body", "A")
        self.assertEqual(without.to_bytes()[52:], b"\0\0\0\0A\0\0\0body")

    @given(st.binary(min_size=2, max_size=2))
    def test_the_end_is_padded(self, padding: bytes) -> None:
        """MQMQ-2.2.19.3-28: frame 7 takes 2086 bytes, and two more that may be anything."""
        data = vector("mqqb-4.1.7-user-message")[136:]
        self.assertEqual(len(data), 2088)
        self.assertEqual(read(data[:2086] + padding), FRAME_7)
        self.assert_malformed(data[:2087], "Padding", 136 + 2086)
        self.assertEqual(FRAME_7.to_bytes()[2086:], b"\0\0")

    @given(message_properties_headers(), st.integers(0, 0xFF))
    def test_meaningless_bits_ask_for_nothing(self, header: MessagePropertiesHeader, junk: int) -> None:
        """MQMQ-2.2.19.3-07: 0xF0 is sent as 0, and nothing is acknowledged because of it."""
        data = header.to_bytes()
        self.assertEqual(data[0] & 0xF0, 0)
        self.assertEqual(read(bytes([data[0] | junk & 0xF0]) + data[1:]), header)
        packet = vector("mqqb-4.1.7-user-message")
        self.assertEqual(UserMessageView(packet[:136] + b"\xf0" + packet[137:]).acknowledge, 0)

    def test_the_label_counts_its_nul(self) -> None:
        """MQMQ-2.2.19.3-08: the label of an OrderAck is 16 units long; LabelLength 0 is not a label."""
        packet = OrderAck(AckEnvelope(ALPHA, BETA), TxSequenceID(1, 2), 3).to_bytes()
        properties = UserMessage.from_bytes(packet).properties
        self.assertEqual(properties.label, "QM Ordering Ack")
        self.assertEqual(properties.to_bytes()[1], 16)
        self.assertEqual(MessagePropertiesHeader().to_bytes()[1], 0)
        self.assertEqual(len(MessagePropertiesHeader().to_bytes()), 56)
        self.assertEqual(read(sized(1, 0, 0, b"\0\0\0\0")).label, "")

    def test_the_label_ends_with_its_only_nul(self) -> None:
        """MQMQ-2.2.19.3-09: 500 bytes of UTF-16 at most; 251 units and a NUL within are malformed."""
        longest = MessagePropertiesHeader(label="x" * 249)
        self.assertEqual(longest.to_bytes()[1], 0xFA)
        self.assertEqual(longest.to_bytes()[56:556], b"x\0" * 249 + b"\0\0")
        self.assertEqual(read(longest.to_bytes()), longest)
        self.assert_malformed(sized(251, 0, 0, b"x\0" * 250 + b"\0\0" * 2), "LabelLength", 137)
        self.assert_malformed(sized(4, 0, 0, b"x\0\0\0x\0\0\0"), "Label", 192)
        self.assert_malformed(sized(2, 0, 0, b"x\0x\0"), "Label", 192)
        for label in ("x" * 250, "🙂" * 125, "a\0b"):
            self.assertRaises(LocalProtocolError, MessagePropertiesHeader(label=label).to_bytes)

    def test_the_label_may_hold_anything_else(self) -> None:
        """Zeros of two characters side by side are no NUL, and half a surrogate pair is kept."""
        for label in ("A\u0100B", "\ud800", "🙂" * 124):
            header = MessagePropertiesHeader(label=label)
            self.assertEqual(read(header.to_bytes()), header)

    def test_any_body_type_is_read(self) -> None:
        """MQMQ-2.2.19.3-13: VT_LPWSTR is 31; the 8 of frame 7 and numbers without a meaning are kept."""
        for body_type in (0, 8, 31, 0x1011, 0xFFFFFFFF):
            data = MessagePropertiesHeader(body_type=body_type).to_bytes()
            self.assertEqual(data[24:28], body_type.to_bytes(4, "little"))
            self.assertEqual(read(data).body_type, body_type)

    def test_hash_algorithms_have_their_numbers(self) -> None:
        """MQMQ-2.2.19.3-18: there are six, and each is written as it is numbered."""
        numbers = {"MD2": 0x8001, "MD4": 0x8002, "MD5": 0x8003}
        numbers |= {"SHA_1": 0x8004, "SHA_256": 0x800C, "SHA_512": 0x800E}
        self.assertEqual({name: int(each) for name, each in HashAlgorithm.__members__.items()}, numbers)
        for number in HashAlgorithm:
            data = MessagePropertiesHeader(hash_algorithm=number).to_bytes()
            self.assertEqual(int.from_bytes(data[44:48], "little"), number)

    def test_any_class_is_read(self) -> None:
        """Each class of the document, one of applications, and an unknown one: MQMQ-2.2.19.3-10."""
        for message_class in (*MessageClass, 0x0123, 0xFFFF):
            data = MessagePropertiesHeader(message_class=message_class).to_bytes()
            self.assertEqual(int.from_bytes(data[2:4], "little"), message_class)
            self.assertEqual(read(data).message_class, message_class)

    def test_sizes_end_within_the_packet(self) -> None:
        """MQMQ-2.2.19.3-15: a body or an extension of more bytes than follow is malformed; 0 has none."""
        self.assert_malformed(sized(0, 5, 0, b"body"), "MessageBody", 192)
        self.assert_malformed(sized(0, 0xFFFFFFFF, 0, b"body"), "MessageBody", 192)
        self.assert_malformed(sized(0, 4, 1, b"body"), "MessageBody", 193)
        self.assert_malformed(sized(0, 0, 0xFFFFFFFF, b"body"), "ExtensionData", 192)
        self.assert_malformed(sized(4, 0, 0, b"L\0\0\0"), "Label", 192)
        self.assertEqual(read(sized(0, 0, 0, b"")), read(sized(0, 0, 0, b"body")))

    def test_a_body_may_need_more_room_than_it_takes(self) -> None:
        """MQMQ-2.2.19.3-16: AllocationBodySize is that of the body, or more, as for a cipher's text."""
        self.assertEqual(MessagePropertiesHeader(b"12345").allocation_body_size, 5)
        encrypted = MessagePropertiesHeader(b"12345", allocation_body_size=16)
        self.assertEqual(encrypted.to_bytes()[32:40], b"\x05\0\0\0\x10\0\0\0")
        self.assertEqual(read(encrypted.to_bytes()), encrypted)
        self.assertRaises(
            LocalProtocolError, MessagePropertiesHeader(b"12345", allocation_body_size=4).to_bytes
        )

    @given(
        user_messages(has_session_header=False),
        st.binary(min_size=20, max_size=20),
        st.integers(0, 0xFFFFFFFF),
    )
    def test_what_is_opaque_passes_unchanged(
        self, message: UserMessage, correlation_id: bytes, tag: int
    ) -> None:
        """CorrelationID and ApplicationTag of an application's message survive every change of a hop.

        MQMQ-2.2.19.3-12, MQMQ-2.2.19.3-14.
        """
        properties = attrs.evolve(
            message.properties,
            message_class=MessageClass.NORMAL,
            correlation_id=correlation_id,
            application_tag=tag,
        )
        packet = packet_of(attrs.evolve(message, properties=properties))
        packet = patch_time_to_reach_queue(patch_hop_count(packet, 5), 60)
        packet = patch_session_header(packet, SessionHeader(1, 0, 0, 1, 0, 64))
        arrived = UserMessage.from_bytes(packet).properties
        self.assertEqual((arrived.correlation_id, arrived.application_tag), (correlation_id, tag))

    def test_defaults_are_those_of_today(self) -> None:
        """Signatures are made with SHA-512, and ciphers with AES-256."""
        data = MessagePropertiesHeader().to_bytes()
        self.assertEqual(data[40:52].hex(), "000000000e80000010660000")

    def test_values_beyond_their_fields_are_our_mistake(self) -> None:
        """They are refused instead of being cut."""
        for header in (
            MessagePropertiesHeader(flags=0x10),
            MessagePropertiesHeader(flags=-1),
            MessagePropertiesHeader(message_class=0x10000),
            MessagePropertiesHeader(correlation_id=bytes(19)),
            MessagePropertiesHeader(body_type=1 << 32),
            MessagePropertiesHeader(application_tag=-1),
        ):
            self.assertRaises(LocalProtocolError, header.to_bytes)

    def test_a_body_is_not_printed(self) -> None:
        """A value shows up in logs; what applications say does not."""
        self.assertNotIn("secret", repr(MessagePropertiesHeader(b"secret")))

    @given(message_properties_headers())
    def test_every_header_round_trips(self, header: MessagePropertiesHeader) -> None:
        """It is read completely, not from any prefix, and with trailing bytes."""
        assert_read_three_ways(self, header)

    @given(st.binary(max_size=80), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
    def test_any_bytes_are_read_or_malformed(
        self, data: bytes, label: int, body: int, extension: int
    ) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(MessagePropertiesHeader.read, data)
        assert_only_remote_errors(MessagePropertiesHeader.read, sized(label, body, extension, data))
