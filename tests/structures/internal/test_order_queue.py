"""[MS-MQQB] 2.2.4, 2.2.5 and 3.1.5.1.1: acknowledgements for an order queue, and what is none."""

from __future__ import annotations

from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.classification import PacketKind, classify, classify_user_packet
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.order_queue import (
    LABEL,
    AckEnvelope,
    is_for_order_queue,
    read_acknowledgement,
)
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
    QueueNameKind,
)
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.wire.guid import NULL_GUID
from msmq.wire.reader import Reader
from tests.builders import patched, session_ack, session_header
from tests.vectors import ACCEPTOR as BETA
from tests.vectors import INITIATOR as ALPHA
from tests.vectors import vector

GAMMA = UUID("3c3a6aeb-f567-4143-87d3-85cf4d68ceb4")
SEQUENCE = TxSequenceID(1, 2)
BY_GUID = AckEnvelope(ALPHA, BETA, message_id=7, sent_time=9)
BY_NAME = AckEnvelope(ALPHA, "OS:beta", message_id=7, sent_time=9)
SOURCE_HEX = "d1587355 50919595 4997b6e6 11ea26c6"
BETA_HEX = "0789cd43 4c39118f 44459078 909ea0fc"
LABEL_HEX = (LABEL + "\0").encode("utf-16-le").hex()
NAME_HEX = "OS:beta\\PRIVATE$\\order_queue$\0".encode("utf-16-le").hex()
REST_HEX = f"{'00' * 28} 24000000 24000000 00000000 0e800000 10660000 00000000 {LABEL_HEX}"
PATH = "\\PRIVATE$\\order_queue$"
SESSION = SessionHeader(1, 0, 0, 1, 1, 64).to_bytes()
START = 100
"""Where packets begin in some of these tests, as in the middle of a larger whole."""


def order_ack(envelope: AckEnvelope = BY_GUID) -> bytes:
    return OrderAck(envelope, SEQUENCE, 5).to_bytes()


def final_ack(message_class: int, envelope: AckEnvelope = BY_GUID) -> bytes:
    return FinalAck(envelope, message_class, SEQUENCE, 5, 3, BETA, 8).to_bytes()


def user_packet(user: UserHeader, *, label: str = LABEL, body: bytes = bytes(36), flags: int = 0) -> bytes:
    """A packet with the class of an OrderAck; C{flags} are those of its BaseHeader."""
    properties = MessagePropertiesHeader(message_body=body, label=label, message_class=MessageClass.ORDER_ACK)
    rest = user.to_bytes() + properties.to_bytes()
    return patched(BaseHeader(16 + len(rest), priority=0).to_bytes(), 2, bytes((flags, 0))) + rest


def to_queue(kind: QueueNameKind, name: QueueName | None) -> UserHeader:
    return UserHeader(
        source_queue_manager=ALPHA,
        queue_manager_address=BETA,
        is_recoverable=False,
        destination_kind=kind,
        destination_queue=name,
    )


ORDER_QUEUE = to_queue(QueueNameKind.PRIVATE_ON_DESTINATION, PrivateQueueFormatNameId(4))


class BytesTests(SynchronousTestCase):
    """L{OrderAck} and L{FinalAck} on the wire."""

    def test_every_byte(self) -> None:
        """Both are written and read byte for byte, for a GUID and for an address."""
        order = "01000000 02000000 05000000 04000000" + "00" * 20
        final = f"01000000 02000000 05000000 03000000 {BETA_HEX} 08000000"
        for envelope, size, address, kind, name in (
            (BY_GUID, "c0000000", BETA_HEX, "0c2000", "04000000"),
            (BY_NAME, "fc000000", "00" * 16, "1c2000", f"3c00{NAME_HEX} 0000"),
        ):
            base = f"10000000 4c494f52 {size} ffffffff {SOURCE_HEX} {address} ffffffff 09000000 07000000"
            for data, packet, expected in (
                (
                    order_ack(envelope),
                    OrderAck(envelope, SEQUENCE, 5, 4),
                    f"{base} 00{kind} {name} 0010ff00 {REST_HEX}",
                ),
                (
                    final_ack(0x4000, envelope),
                    FinalAck(envelope, 0x4000, SEQUENCE, 5, 3, BETA, 8),
                    f"{base} 20{kind} {name} 00100040 {REST_HEX}",
                ),
            ):
                expected += order if isinstance(packet, OrderAck) else final
                self.assertEqual(data.hex(), bytes.fromhex(expected).hex())
                self.assertEqual(type(packet).from_bytes(data), packet)

    def test_an_acknowledgement_repeats_its_message(self) -> None:
        """Both have the position of the message; a FinalAck has its true predecessor and its identity too."""
        transaction = TransactionHeader(SEQUENCE, 5, 3)
        user = attrs.evolve(ORDER_QUEUE, source_queue_manager=BETA, message_id=8)
        self.assertEqual(OrderAck.for_message(BY_GUID, transaction).to_bytes(), order_ack())
        self.assertEqual(
            FinalAck.for_message(BY_GUID, 0x4001, user, transaction).to_bytes(), final_ack(0x4001)
        )

    def test_only_one_class_is_positive(self) -> None:
        """Every class but ACK_RECEIVE is a failure."""
        for message_class, expected in ((0x4000, True), (0x4001, False), (0x8000, False), (0xFFFF, False)):
            self.assertIs(FinalAck.from_bytes(final_ack(message_class)).is_positive, expected)

    def test_numbers_that_cannot_be_sent(self) -> None:
        """The error has the field and the number; the numbers next to it are sent."""
        for number in (1, 0xFFFFFFFF):
            ack = OrderAck(BY_GUID, SEQUENCE, number)
            self.assertEqual(OrderAck.from_bytes(ack.to_bytes()), ack)
        for number in (-1, 0, 1 << 32):
            for packet in (
                OrderAck(BY_GUID, SEQUENCE, number, 0),
                FinalAck(BY_GUID, 0x4000, SEQUENCE, number, 0, BETA, 8),
            ):
                error = self.assertRaises(LocalProtocolError, packet.to_bytes)
                self.assertEqual(str(error), f"TxSequenceNumber: {number} is not a sequence number")
        error = self.assertRaises(LocalProtocolError, final_ack, 0x3FFF)
        self.assertEqual(str(error), "MessageClass: 0x3fff is not the class of a FinalAck")


class ReadAcknowledgementTests(SynchronousTestCase):
    """L{read_acknowledgement}, and the errors of both packets."""

    def test_where_it_begins_does_not_matter(self) -> None:
        """A packet in the middle of a larger whole is read as one at its beginning, SessionHeader too."""
        data = patched(order_ack(), 2, b"\x10") + SESSION
        for base in (0, START):
            found = read_acknowledgement(Reader(data, base=base))
            assert found is not None
            self.assertEqual(found[0], BY_GUID)
            self.assertEqual(found[1].message_body, data[-52:-16])

    def test_destinations(self) -> None:
        """Queue 4 has the address of the header; a direct name has its own, without C{DIRECT=}."""
        direct = QueueNameKind.DIRECT
        for user, expected in (
            (ORDER_QUEUE, BETA),
            (to_queue(direct, DirectQueueFormatName(f"TCP:fe80::1{PATH}")), "TCP:fe80::1"),
            (to_queue(direct, DirectQueueFormatName(f"OS:b{PATH.swapcase()}")), "OS:b"),
            (to_queue(direct, DirectQueueFormatName(f"dirECT=OS:b{PATH}")), "OS:b"),
            (to_queue(direct, DirectQueueFormatName(f"DIRECT:OS:b{PATH}")), "DIRECT:OS:b"),
        ):
            found = read_acknowledgement(Reader(user_packet(user)))
            assert found is not None
            self.assertEqual(found[0], AckEnvelope(ALPHA, expected))

    def test_other_messages(self) -> None:
        """Another destination, label or size of the body, or one more header, makes another message."""
        direct = QueueNameKind.DIRECT
        private = QueueNameKind.PRIVATE_ON_DESTINATION
        for user in (
            to_queue(private, PrivateQueueFormatNameId(3)),
            to_queue(private, PrivateQueueFormatNameId(5)),
            to_queue(direct, DirectQueueFormatName(f"OS:b{PATH}2")),
            to_queue(direct, DirectQueueFormatName("OS:b\\order_queue$")),
            to_queue(QueueNameKind.PUBLIC, PublicQueueFormatName(GAMMA)),
            attrs.evolve(ORDER_QUEUE, has_transaction_header=True, is_recoverable=True),
            attrs.evolve(ORDER_QUEUE, has_security_header=True),
            attrs.evolve(ORDER_QUEUE, has_soap_header=True),
            attrs.evolve(ORDER_QUEUE, has_multi_queue_format_header=True),
            attrs.evolve(
                ORDER_QUEUE, admin_kind=QueueNameKind.PUBLIC, admin_queue=PublicQueueFormatName(GAMMA)
            ),
            attrs.evolve(
                ORDER_QUEUE,
                response_kind=QueueNameKind.PRIVATE,
                response_queue=PrivateQueueFormatName(GAMMA, 4),
            ),
        ):
            self.assertIsNone(read_acknowledgement(Reader(user_packet(user))), user)
        for data in (
            user_packet(ORDER_QUEUE, label=LABEL.lower()),
            user_packet(ORDER_QUEUE, body=bytes(35)),
            user_packet(ORDER_QUEUE, body=bytes(37)),
            user_packet(ORDER_QUEUE, flags=0x20),
        ):
            self.assertIsNone(read_acknowledgement(Reader(data)))

    def test_an_internal_packet_is_malformed(self) -> None:
        """The error names the flag that is not allowed."""
        data = session_ack(session_header(1, 1))
        error = self.assertRaises(RemoteProtocolError, read_acknowledgement, Reader(data, base=START))
        self.assertEqual(str(error), "[MS-MQMQ] 2.2.19.1 BaseHeader.Flags at offset 102: IN is set")

    def test_sizes(self) -> None:
        """PacketSize ends at the headers, or else behind a SessionHeader, but only if that is announced."""
        plain = order_ack()
        announced = patched(plain, 2, b"\x10")
        for data, size in ((plain, 192), (announced + SESSION, 192), (announced + SESSION, 208)):
            self.assertEqual(
                OrderAck.from_bytes(patched(data, 8, size.to_bytes(4, "little"))),
                OrderAck(BY_GUID, SEQUENCE, 5),
            )
        for data, size in (
            (plain, 188),
            (plain, 196),
            (plain + SESSION, 208),
            (announced + SESSION, 200),
            (announced + SESSION, 212),
        ):
            reader = Reader(patched(data, 8, size.to_bytes(4, "little")), base=START)
            error = self.assertRaises(RemoteProtocolError, read_acknowledgement, reader)
            self.assertEqual(
                str(error),
                f"[MS-MQMQ] 2.2.19.1 BaseHeader.PacketSize at offset 108: {size} where the headers end at"
                " 192",
            )

    def test_a_session_header_is_read_if_it_is_announced(self) -> None:
        """SH without a SessionHeader is a packet from which it was removed; bytes without SH are not one."""
        announced = patched(order_ack(), 2, b"\x10")
        self.assertEqual(OrderAck.from_bytes(announced), OrderAck(BY_GUID, SEQUENCE, 5))
        self.assertRaises(RemoteProtocolError, OrderAck.from_bytes, announced + SESSION[:-1])
        reader = Reader(order_ack() + SESSION)
        OrderAck.read(reader)
        self.assertEqual(reader.remaining, len(SESSION))

    def test_another_packet_is_named(self) -> None:
        """The error says which acknowledgement was expected."""
        other = user_packet(to_queue(QueueNameKind.PUBLIC, PublicQueueFormatName(GAMMA)))
        for data in (final_ack(0x4000), final_ack(0xFFFF), other):
            error = self.assertRaises(RemoteProtocolError, OrderAck.read, Reader(data, base=START))
            self.assertEqual(
                str(error), "[MS-MQQB] 2.2.4 OrderAck.MessageClass at offset 100: the packet is not OrderAck"
            )
        below = patched(final_ack(0x4000), 70, b"\xff\x3f")
        for data in (order_ack(), below, other):
            error = self.assertRaises(RemoteProtocolError, FinalAck.read, Reader(data, base=START))
            self.assertEqual(
                str(error), "[MS-MQQB] 2.2.5 FinalAck.MessageClass at offset 100: the packet is not FinalAck"
            )


class IsForOrderQueueTests(SynchronousTestCase):
    """L{is_for_order_queue}."""

    def test_destinations(self) -> None:
        """Private queue 4 of 32 bits, and a direct name that ends with the path, in any case."""
        direct, private = QueueNameKind.DIRECT, QueueNameKind.PRIVATE_ON_DESTINATION
        for kind, name, expected in (
            (private, PrivateQueueFormatNameId(4), True),
            (private, PrivateQueueFormatNameId(3), False),
            (private, PrivateQueueFormatNameId(5), False),
            (private, PrivateQueueFormatNameId(0x10004), False),
            (private, PrivateQueueFormatNameId(0x40000), False),
            (direct, DirectQueueFormatName(f"OS:beta{PATH}"), True),
            (direct, DirectQueueFormatName(f"OS:beta{PATH.swapcase()}"), True),
            (direct, DirectQueueFormatName(f"OS:beta{PATH}2"), False),
            (direct, DirectQueueFormatName("OS:beta\\order_queue$"), False),
            (QueueNameKind.PUBLIC, PublicQueueFormatName(UUID(int=4 << 96)), False),
            (QueueNameKind.NONE, None, False),
        ):
            self.assertIs(is_for_order_queue(user_packet(to_queue(kind, name))), expected, name)


class ClassificationTests(SynchronousTestCase):
    """L{classify} and L{classify_user_packet}."""

    def test_kinds(self) -> None:
        """The worked examples, and acknowledgements by the class that each has."""
        self.assertIs(
            classify(vector("mqqb-4.1.3-establish-connection-request")), PacketKind.ESTABLISH_CONNECTION
        )
        self.assertIs(
            classify(vector("mqqb-4.1.5-connection-parameters-request")), PacketKind.CONNECTION_PARAMETERS
        )
        self.assertIs(classify(vector("mqqb-4.1.8-session-ack")), PacketKind.SESSION_ACK)
        self.assertIs(classify(vector("mqqb-4.1.7-user-message")), PacketKind.USER_MESSAGE)
        for message_class, kind in (
            (0x0000, PacketKind.USER_MESSAGE),
            (0x00FE, PacketKind.USER_MESSAGE),
            (0x00FF, PacketKind.ORDER_ACK),
            (0x0100, PacketKind.USER_MESSAGE),
            (0x3FFF, PacketKind.USER_MESSAGE),
            (0x4000, PacketKind.FINAL_ACK),
            (0xFFFF, PacketKind.FINAL_ACK),
        ):
            data = patched(order_ack(), 70, message_class.to_bytes(2, "little"))
            self.assertIs(classify(data), kind)
            self.assertIs(classify_user_packet(data), kind)

    def test_other_messages_to_an_order_queue(self) -> None:
        """A message that only goes to the same queue is an ordinary one."""
        for data in (user_packet(ORDER_QUEUE, label="other"), user_packet(ORDER_QUEUE, body=b"")):
            self.assertIs(classify_user_packet(data), PacketKind.USER_MESSAGE)

    def test_for_whom(self) -> None:
        """What names another queue manager is forwarded; null and direct names mean the local one."""
        for destination, local, kind in (
            (BETA, None, PacketKind.ORDER_ACK),
            (BETA, BETA, PacketKind.ORDER_ACK),
            (BETA, GAMMA, PacketKind.USER_MESSAGE),
            (NULL_GUID, GAMMA, PacketKind.ORDER_ACK),
            ("OS:beta", GAMMA, PacketKind.ORDER_ACK),
        ):
            data = order_ack(AckEnvelope(ALPHA, destination))
            self.assertIs(classify(data, queue_manager=local), kind)
            self.assertIs(classify_user_packet(data, queue_manager=local), kind)

    def test_the_smallest_message(self) -> None:
        """120 bytes are a whole message without any name or text; with fewer the packet is malformed."""
        empty = user_packet(to_queue(QueueNameKind.NONE, None), label="", body=b"")
        self.assertEqual(len(empty), 120)
        self.assertIs(classify_user_packet(empty), PacketKind.USER_MESSAGE)
        for size in (0, 16, 119):
            error = self.assertRaises(RemoteProtocolError, classify_user_packet, empty[:size])
            self.assertEqual(
                str(error),
                f"[MS-MQMQ] 2.2.19.1 BaseHeader.PacketSize at offset 8: {size} bytes are not a whole packet",
            )

    def test_internal_packets_of_other_sizes(self) -> None:
        """The error has the declared size, and the name and the size of the packet."""
        for name, kind, size, other in (
            ("mqqb-4.1.3-establish-connection-request", "EstablishConnection", 572, 32),
            ("mqqb-4.1.5-connection-parameters-request", "ConnectionParameters", 32, 36),
            ("mqqb-4.1.8-session-ack", "SessionAck", 36, 572),
        ):
            data = patched(vector(name), 8, other.to_bytes(4, "little"))
            error = self.assertRaises(RemoteProtocolError, classify, data)
            self.assertEqual(
                str(error),
                f"[MS-MQMQ] 2.2.19.1 BaseHeader.PacketSize at offset 8: {other} where {kind} has {size}",
            )

    def test_a_session_ack_needs_its_flag(self) -> None:
        """Without SH it is malformed; the other two need none."""
        error = self.assertRaises(
            RemoteProtocolError, classify, patched(vector("mqqb-4.1.8-session-ack"), 2, b"\x0b")
        )
        self.assertEqual(
            str(error), "[MS-MQMQ] 2.2.19.1 BaseHeader.Flags at offset 2: a SessionAck without SH"
        )
