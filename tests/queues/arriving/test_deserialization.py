"""[MS-MQDMPR] 3.1.7.1.31: the contents of packets, parsed and built."""

from __future__ import annotations

import struct
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.names.format_name import (
    FormatName,
    PrivateFormatName,
    PublicFormatName,
    parse_format_name,
)
from msmq.structures.names.queue_names import QueueNameKind
from msmq.structures.packet.message_class import MessageClass, class_name
from msmq.structures.packet.security_header import SecurityHeader, SenderIdType
from msmq.structures.packet.user_message_patches import patch_sequence
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.reader import Reader
from tests.builders import ALPHA, BETA, GAMMA, base_header, user_packet
from tests.queues.arriving.test_packet_builder import messages

CONNECTOR = UUID(int=0xC0)
TRACE = UUID(int=0x7A)
SID = bytes.fromhex("0102000000000005200000002002 0000".replace(" ", ""))
PROVIDER = "Some Provider"


def padded(data: bytes) -> bytes:
    """With zeros up to a multiple of four bytes."""
    return data + bytes(-len(data) % 4)


def text(value: str) -> bytes:
    """UTF-16 with its NUL."""
    return (value + "\0").encode("utf-16-le")


def names(header_id: int, *elements: bytes) -> bytes:
    """An MQFAddressHeader of elements that begin at multiples of four bytes."""
    listed = b"".join(elements)
    return padded(struct.pack("<IHHI", 12 + len(listed), header_id, 0, len(elements)) + listed)


def golden() -> bytes:
    """A packet in which every header stands, and every field has a value of its own."""
    user = ALPHA.bytes_le + BETA.bytes_le
    # JN, JP, DM 1, DQ 5, AQ 6, RQ 4, SH, TH, MP, CQ, MQ.
    flags = 0x20 | 0x100 | 0x200 | 5 << 10 | 6 << 13 | 4 << 16 | 0x80000 | 0x100000 | 0x200000 | 0xC00000
    user += struct.pack("<IIII", 0x11, 0x22, 0x33, flags)
    user += GAMMA.bytes_le + BETA.bytes_le + struct.pack("<II", 0x44, 0x55) + CONNECTOR.bytes_le
    # CG, FA, FM; ID 0x12345.
    transaction = struct.pack("<IIIII", 0x01 | 0x02 | 0x04 | 0x12345 << 4, 0x66, 0x77, 0x88, 0x99)
    transaction += CONNECTOR.bytes_le
    provider = struct.pack("<I", 0xAA) + text(PROVIDER)
    items = (SID, b"key", b"signature", b"certificate", provider)
    # ST 1, EB; AU and AS as a peer should not send them.
    security = struct.pack("<HHHHII", 0x0001 | 0x0010 | 0x0020 | 0x0080 | 0x0300, *map(len, items))
    security += b"".join(map(padded, items))
    properties = struct.pack("<BBH", 0x0A, 6, 0x8003) + bytes(range(20))
    properties += struct.pack("<IIIIIIII", 8, 0xBB, 4, 5, 1, 0x8004, 0x6801, 3)
    properties = padded(properties + text("label") + b"ext" + b"body")
    debug = struct.pack("<HH", 1, 0) + TRACE.bytes_le
    several = names(0x64, struct.pack("<HH", 1, 0) + GAMMA.bytes_le)
    several += names(0xC8, struct.pack("<HH", 2, 0) + BETA.bytes_le + struct.pack("<I", 7))
    several += names(0x12C, struct.pack("<H", 3) + text("OS:gamma\\q"))
    several += struct.pack("<HHI", 0x15E, 0, 4) + b"sign"
    rest = user + transaction + security + properties + debug + several
    # PR 6, DH, TR.
    return base_header(0x0006 | 0x0020 | 0x0100, 16 + len(rest), 0xCC) + rest


class GoldenTests(SynchronousTestCase):
    """A packet that was made by hand."""

    def setUp(self) -> None:
        self.view = UserMessageView(golden())

    def test_base_header(self) -> None:
        """MQDMPR-3.1.7.1.31-02: Priority, TracingRequested and TimeToReachQueue."""
        view = self.view
        self.assertEqual((view.priority, view.is_traced, view.time_to_reach_queue), (6, True, 0xCC))
        packet = bytearray(golden())
        packet[3] &= ~0x01
        self.assertFalse(UserMessageView(bytes(packet)).is_traced)

    def test_user_header(self) -> None:
        """MQDMPR-3.1.7.1.31-07: source, destination, times, delivery, and the names of three queues."""
        view = self.view
        self.assertEqual(view.source_queue_manager, ALPHA.bytes_le)
        self.assertEqual(view.queue_manager_address, BETA.bytes_le)
        self.assertEqual((view.time_to_be_received, view.sent_time, view.message_id), (0x11, 0x22, 0x33))
        self.assertEqual((view.is_recoverable, view.journal, view.dead_letter), (True, True, True))
        user = view.user_header
        self.assertEqual(
            (user.destination_kind, user.admin_kind, user.response_kind),
            (QueueNameKind.PUBLIC, QueueNameKind.PRIVATE, QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST),
        )
        self.assertEqual(view.destination_format_name(), PublicFormatName(GAMMA))
        self.assertEqual(view.admin_format_name(), PrivateFormatName(BETA, 0x44))
        self.assertEqual(view.response_format_name(), PrivateFormatName(BETA, 0x55))
        self.assertEqual(view.connector_type, CONNECTOR)

    def test_transaction_header(self) -> None:
        """MQDMPR-3.1.7.1.31-06: flags, identifier, position in a sequence and the connector."""
        header = self.view.transaction
        assert header is not None
        self.assertEqual((header.is_final_ack_wanted, header.transaction_id), (True, 0x12345))
        self.assertEqual((header.is_first, header.is_last), (True, False))
        self.assertEqual(header.tx_sequence_id, TxSequenceID(0x66, 0x77))
        self.assertEqual((header.tx_sequence_number, header.previous_tx_sequence_number), (0x88, 0x99))
        self.assertEqual(header.connector_qm_guid, CONNECTOR)

    def test_security_header(self) -> None:
        """MQDMPR-3.1.7.1.31-05: the sender, and what its signature and its cipher need (reading 62)."""
        header = self.view.security
        assert header is not None and header.provider_info is not None
        self.assertEqual((header.sender_id_type, header.security_id), (SenderIdType.SID, SID))
        self.assertEqual((header.encryption_key, header.signature), (b"key", b"signature"))
        self.assertEqual(header.sender_cert, b"certificate")
        info = header.provider_info
        self.assertEqual((info.provider_type, info.provider_name), (0xAA, PROVIDER))
        self.assertTrue(header.is_body_encrypted)

    def test_properties(self) -> None:
        """MQDMPR-3.1.7.1.31-03 MQDMPR-3.1.7.1.31-04: what the application said, and about what."""
        view = self.view
        self.assertEqual((view.body_type, view.application_tag), (8, 0xBB))
        self.assertEqual((view.privacy_level, view.hash_algorithm), (1, 0x8004))
        self.assertEqual((view.encryption_algorithm, view.allocation_body_size), (0x6801, 5))
        self.assertEqual((view.correlation_id, view.message_class), (bytes(range(20)), 0x8003))
        self.assertEqual(view.acknowledge, Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_RECEIVE)
        self.assertEqual((view.label, view.extension, bytes(view.body)), ("label", b"ext", b"body"))

    def test_other_headers(self) -> None:
        """MQDMPR-3.1.7.1.31-08: where reports go, and all the queues that it was sent to."""
        debug, several = self.view.debug, self.view.multi_queue_format
        assert debug is not None and several is not None
        self.assertEqual(debug.queue_identifier, TRACE)
        lists = (several.destination, several.administration, several.response)
        self.assertEqual(
            [[element.resolve() for element in each.elements] for each in lists],
            [
                [PublicFormatName(GAMMA)],
                [PrivateFormatName(BETA, 7)],
                [parse_format_name("DIRECT=OS:gamma\\q")],
            ],
        )
        self.assertEqual(several.signature.signature, b"sign")

    def test_signature_flags_of_a_peer_are_ignored(self) -> None:
        """MQDMPR-3.1.7.1.31-09 (reading 60): AU and AS mean nothing on the wire, and are sent as 0.

        MQDMPR-3.1.7.1.32-06
        """
        header = self.view.security
        assert header is not None
        written = header.to_bytes()
        (flags,) = struct.unpack_from("<H", written)
        self.assertEqual(flags & 0x0F10, 0)
        self.assertEqual(SecurityHeader.read(Reader(written)), header)

    def test_sizes_in_the_security_header(self) -> None:
        """MQDMPR-3.1.7.1.32-08 (reading 65): those of the whole certificate, and of number and name with NUL.

        MQDMPR-3.1.7.1.32-10
        """
        header = self.view.security
        assert header is not None
        written = header.to_bytes()
        certificate_size, provider_size = struct.unpack_from("<II", written, 8)
        self.assertEqual(certificate_size, len(b"certificate"))
        self.assertEqual(provider_size, 4 + 2 * (len(PROVIDER) + 1))
        expected = b"".join(map(padded, (SID, b"key", b"signature", b"certificate")))
        self.assertEqual(written[16 : 16 + len(expected)], expected)
        self.assertEqual(written[16 + len(expected) :], padded(struct.pack("<I", 0xAA) + text(PROVIDER)))

    def test_headers_that_are_not_there(self) -> None:
        """MQDMPR-3.1.7.1.31-01: what no header says stays unset."""
        packet = bytearray(user_packet(b"body"))
        # The acknowledgements are where the flags of a TransactionHeader would be.
        packet[UserMessageView(bytes(packet)).properties_offset] = 0x0F
        view = UserMessageView(bytes(packet))
        self.assertEqual((view.transaction, view.security, view.debug), (None,) * 3)
        self.assertEqual((view.soap, view.multi_queue_format, view.connector_type), (None,) * 3)
        self.assertEqual((view.admin_format_name(), view.response_format_name()), (None, None))
        self.assertEqual((view.sender_id, view.tx_sequence_id, view.tx_sequence_number), (None, None, 0))
        self.assertFalse(view.is_transactional or view.is_first or view.is_last or view.is_traced)


CLASSES = {
    0x0000: "NORMAL",
    0x0001: "REPORT",
    0x0002: "ACK_REACH_QUEUE",
    0x00FF: "ORDER_ACK",
    0x4000: "ACK_RECEIVE",
    0x8000: "NACK_BAD_DST_Q",
    0x8001: "NACK_DELETED",
    0x8002: "NACK_REACH_QUEUE_TIMEOUT",
    0x8003: "NACK_Q_EXCEED_QUOTA",
    0x8004: "NACK_ACCESS_DENIED",
    0x8005: "NACK_HOP_COUNT_EXCEEDED",
    0x8006: "NACK_BAD_SIGNATURE",
    0x8007: "NACK_BAD_ENCRYPTION",
    0x8008: "NACK_COULD_NOT_ENCRYPT",
    0x8009: "NACK_NOT_TRANSACTIONAL_Q",
    0x800A: "NACK_NOT_TRANSACTIONAL_MSG",
    0x800B: "NACK_UNSUPPORTED_CRYPTO_PROVIDER",
    0xC000: "NACK_Q_DELETED",
    0xC001: "NACK_Q_PURGED",
    0xC002: "NACK_RECEIVE_TIMEOUT",
    0xC004: "NACK_RECEIVE_REJECTED",
}


def with_class(number: int) -> UserMessageView:
    """A message of this class."""
    packet = bytearray(user_packet(b"body"))
    properties = UserMessageView(bytes(packet)).properties_offset
    struct.pack_into("<H", packet, properties + 2, number)
    return UserMessageView(bytes(packet))


class CodeTests(SynchronousTestCase):
    """Numbers that mean something."""

    def test_classes(self) -> None:
        """Each class is known by its number, and no other is (reading 63).

        MQDMPR-3.1.7.1.31-10 MQDMPR-3.1.7.1.31-11 MQDMPR-3.1.7.1.31-12
        """
        for number, name in CLASSES.items():
            with self.subTest(number=number):
                self.assertEqual(MessageClass(with_class(number).message_class).name, name)
                self.assertEqual(class_name(number), f"MQMSG_CLASS_{name}")
        self.assertEqual({int(member) for member in MessageClass}, set(CLASSES))

    def test_classes_without_a_name(self) -> None:
        """Unknown classes pass, including those that only other documents define."""
        for number in (0x800C, 0xC003, 0x0100):
            self.assertEqual(with_class(number).message_class, number)

    def test_copies_and_senders(self) -> None:
        """MQDMPR-3.1.7.1.31-16: JP and JN by themselves, and the three kinds of sender."""
        for flags in (0, 0x100, 0x200, 0x300):
            view = UserMessageView(user_packet(user_flags=flags))
            self.assertEqual((view.dead_letter, view.journal), (bool(flags & 0x100), bool(flags & 0x200)))
        kinds = [
            (SenderIdType.NONE, b""),
            (SenderIdType.SID, SID),
            (SenderIdType.QUEUE_MANAGER, ALPHA.bytes_le),
        ]
        for number, (kind, identifier) in enumerate(kinds):
            header = SecurityHeader(sender_id_type=kind, security_id=identifier, signature=b"s")
            self.assertEqual(int(kind), number)
            self.assertEqual(SecurityHeader.read(Reader(header.to_bytes())), header)
            self.assertEqual(header.to_bytes()[0] & 0x0F, number)

    def built(self, destination: FormatName, **values: object) -> UserMessageView:
        """A message from ALPHA."""
        message = Message(**values)  # type: ignore[arg-type]
        return UserMessageView(
            build_packet(
                message,
                destination,
                source=ALPHA,
                destination_queue_manager=BETA,
                message_id=1,
                sent_time=1,
            )
        )

    def test_kinds_of_names(self) -> None:
        """Each kind of queue name has its code, for each of the three queues that a message names.

        MQDMPR-3.1.7.1.31-17 MQDMPR-3.1.7.1.31-18 MQDMPR-3.1.1.12-46 MQDMPR-3.1.1.12-47 MQDMPR-3.1.1.12-48
        """
        direct = parse_format_name("DIRECT=OS:beta\\private$\\q")
        at_beta = PrivateFormatName(BETA, 1)
        for name, code in ((at_beta, 3), (PublicFormatName(GAMMA), 5), (direct, 7)):
            self.assertEqual(int(self.built(name).user_header.destination_kind), code)
        elsewhere = PrivateFormatName(GAMMA, 9)
        codes: tuple[tuple[FormatName | None, int], ...] = (
            (None, 0),
            (PrivateFormatName(ALPHA, 1), 2),
            (PrivateFormatName(BETA, 2), 3),
            (PublicFormatName(GAMMA), 5),
            (elsewhere, 6),
            (direct, 7),
        )
        for queue, code in codes:
            acknowledge = Acknowledge.POSITIVE_ARRIVAL if queue is not None else Acknowledge.NONE
            view = self.built(at_beta, admin_queue=queue, acknowledge=acknowledge)
            self.assertEqual(int(view.user_header.admin_kind), code)
            self.assertEqual(view.admin_format_name(), queue)
            view = self.built(at_beta, response_queue=queue)
            self.assertEqual(int(view.user_header.response_kind), code)
            self.assertEqual(view.response_format_name(), queue)
        for response, code in ((elsewhere, 1), (PrivateFormatName(GAMMA, 10), 4)):
            view = self.built(
                at_beta,
                admin_queue=elsewhere,
                acknowledge=Acknowledge.POSITIVE_ARRIVAL,
                response_queue=response,
            )
            self.assertEqual(int(view.user_header.response_kind), code)
            self.assertEqual(view.response_format_name(), response)


class RoundTripTests(SynchronousTestCase):
    """Values of a packet round-trip."""

    @given(messages(), st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF))
    def test_any_message(self, message: Message, message_id: int, sent_time: int) -> None:
        """Every property of a message is what its sender said, and every size is that of what it counts.

        MQDMPR-3.1.7.1.30-01 MQDMPR-3.1.7.1.30-04 MQDMPR-3.1.7.1.32-02 MQDMPR-3.1.7.1.32-05
        MQDMPR-3.1.7.1.32-12 MQDMPR-3.1.7.1.32-14
        """
        packet = build_packet(
            message, PrivateFormatName(BETA, 5), source=ALPHA, message_id=message_id, sent_time=sent_time
        )
        view = UserMessageView(packet)
        (size,) = struct.unpack_from("<I", packet, 8)
        self.assertEqual(size, len(packet))
        self.assertTrue(view.flags & 0x00200000, "MP")
        self.assertEqual((view.message_id, view.sent_time), (message_id, sent_time))
        self.assertEqual(
            view.source_queue_manager + view.queue_manager_address, ALPHA.bytes_le + BETA.bytes_le
        )
        self.assertEqual(view.priority, 0 if message.transactional else message.priority)
        self.assertEqual(view.is_transactional, message.transactional)
        self.assertEqual(
            view.is_recoverable, message.transactional or message.delivery is Delivery.RECOVERABLE
        )
        seconds = 0x54600 if message.time_to_reach_queue is None else message.time_to_reach_queue
        self.assertEqual(view.time_to_reach_queue, seconds)
        self.assertEqual(view.time_to_be_received, message.time_to_be_received)
        self.assertEqual((view.journal, view.dead_letter), (message.journal, message.dead_letter))
        self.assertEqual(view.acknowledge, message.acknowledge)
        self.assertEqual(view.response_format_name(), message.response_queue)
        self.assertEqual(view.admin_format_name(), message.admin_queue if message.acknowledge else None)
        self.assertEqual(view.connector_type, message.connector_type)
        self.assertEqual(bool(view.flags & 0x00400000), message.connector_type is not None)
        self.assertEqual(view.message_class, message.message_class)
        self.assertEqual(view.correlation_id, message.correlation_id)
        self.assertEqual(
            (view.privacy_level, view.hash_algorithm), (message.privacy_level, message.hash_algorithm)
        )
        self.assertEqual((view.body_type, view.application_tag), (message.body_type, message.application_tag))
        self.assertEqual((view.label, view.extension), (message.label, message.extension))
        self.assertEqual(bytes(view.body), message.body)
        fixed = packet[view.properties_offset :]
        label_length, body_size, extension_size = fixed[1], *struct.unpack_from("<I16xI", fixed, 32)
        units = len(message.label.encode("utf-16-le")) // 2
        self.assertEqual(label_length, units + 1 if message.label else 0)
        self.assertEqual((body_size, extension_size), (len(message.body), len(message.extension)))

    def test_labels(self) -> None:
        """LabelLength counts the NUL, up to 250 (reading 65)."""
        for length, expected in ((0, 0), (1, 2), (249, 250)):
            packet = build_packet(
                Message(label="x" * length),
                PrivateFormatName(BETA, 5),
                source=ALPHA,
                message_id=1,
                sent_time=1,
            )
            self.assertEqual(packet[UserMessageView(packet).properties_offset + 1], expected)

    @given(st.integers(1, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF))
    def test_positions_in_a_sequence(self, number: int, previous: int) -> None:
        """MQDMPR-3.1.7.1.32-11: a transactional message carries its position and the one before it."""
        packet = build_packet(
            Message(transactional=True),
            PrivateFormatName(BETA, 5),
            source=ALPHA,
            message_id=1,
            sent_time=1,
        )
        view = UserMessageView(patch_sequence(packet, TxSequenceID(1, 2), number, previous))
        self.assertEqual((view.tx_sequence_number, view.previous_tx_sequence_number), (number, previous))
        self.assertEqual(view.tx_sequence_id, TxSequenceID(1, 2))
