"""[MS-MQMQ] 2.2.18.1.6: what kinds of messages there are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.packet.message_class import MessageClass, class_name, is_application_class
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.wire.reader import Reader

TABLE = {
    "MQMSG_CLASS_NORMAL": 0x0000,
    "MQMSG_CLASS_REPORT": 0x0001,
    "MQMSG_CLASS_ACK_REACH_QUEUE": 0x0002,
    "MQMSG_CLASS_ORDER_ACK": 0x00FF,
    "MQMSG_CLASS_ACK_RECEIVE": 0x4000,
    "MQMSG_CLASS_NACK_BAD_DST_Q": 0x8000,
    "MQMSG_CLASS_NACK_DELETED": 0x8001,
    "MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT": 0x8002,
    "MQMSG_CLASS_NACK_Q_EXCEED_QUOTA": 0x8003,
    "MQMSG_CLASS_NACK_ACCESS_DENIED": 0x8004,
    "MQMSG_CLASS_NACK_HOP_COUNT_EXCEEDED": 0x8005,
    "MQMSG_CLASS_NACK_BAD_SIGNATURE": 0x8006,
    "MQMSG_CLASS_NACK_BAD_ENCRYPTION": 0x8007,
    "MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q": 0x8009,
    "MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG": 0x800A,
    "MQMSG_CLASS_NACK_UNSUPPORTED_CRYPTO_PROVIDER": 0x800B,
    "MQMSG_CLASS_NACK_Q_DELETED": 0xC000,
    "MQMSG_CLASS_NACK_Q_PURGED": 0xC001,
    "MQMSG_CLASS_NACK_RECEIVE_TIMEOUT": 0xC002,
    "MQMSG_CLASS_NACK_RECEIVE_REJECTED": 0xC004,
}
"""The table of the document."""

ELSEWHERE = {"MQMSG_CLASS_NACK_COULD_NOT_ENCRYPT": 0x8008}
"""What has its number from [MC-MQAC] 2.2.2.9 (reading 63 of [MS-MQDMPR])."""


class MessageClassTests(SynchronousTestCase):
    """L{MessageClass}, L{class_name} and L{is_application_class}."""

    def test_the_classes_are_those_of_the_document(self) -> None:
        """Each has its name and its number, and there are no others but one that we make.

        MQMQ-2.2.18.1.6-01, MQMQ-2.2.18.1.6-02, MQMQ-2.2.18.1.6-03, MQMQ-2.2.18.1.6-04,
        MQMQ-2.2.18.1.6-05, MQMQ-2.2.18.1.6-06, MQMQ-2.2.18.1.6-07, MQMQ-2.2.18.1.6-08,
        MQMQ-2.2.18.1.6-09, MQMQ-2.2.18.1.6-10, MQMQ-2.2.18.1.6-11, MQMQ-2.2.18.1.6-12,
        MQMQ-2.2.18.1.6-13, MQMQ-2.2.18.1.6-14, MQMQ-2.2.18.1.6-15, MQMQ-2.2.18.1.6-16,
        MQMQ-2.2.18.1.6-17, MQMQ-2.2.18.1.6-18, MQMQ-2.2.18.1.6-19, MQMQ-2.2.18.1.6-20
        """
        self.assertEqual(
            {f"MQMSG_CLASS_{name}": member.value for name, member in MessageClass.__members__.items()},
            TABLE | ELSEWHERE,
        )
        self.assertEqual({class_name(number): number for number in TABLE.values()}, TABLE)

    def test_every_class_crosses_the_wire(self) -> None:
        """The two bytes of MessageClass hold it, little-endian."""
        for number in TABLE.values():
            data = MessagePropertiesHeader(message_class=number).to_bytes()
            self.assertEqual(data[2:4], number.to_bytes(2, "little"))
            self.assertEqual(MessagePropertiesHeader.read(Reader(data)).message_class, number)

    def test_another_class_is_named_by_its_number(self) -> None:
        """Four hex digits."""
        self.assertEqual(class_name(0x0123), "0x0123")
        self.assertEqual(class_name(0xA), "0x000A")

    def test_classes_that_no_packet_carries(self) -> None:
        """[MC-MQAC] 2.2.2.9: two classes that a queue manager gives to its own messages have names too."""
        self.assertEqual(class_name(0x800C), "MQMSG_CLASS_NACK_SOURCE_COMPUTER_GUID_CHANGED")
        self.assertEqual(class_name(0xC003), "MQMSG_CLASS_NACK_RECEIVE_TIMEOUT_AT_SENDER")

    def test_applications_make_up_classes_of_certain_bits(self) -> None:
        """MQMQ-2.2.18.1.6-21: 0x0123 is theirs to use, 0x0200 and 0x1E00 are not."""
        self.assertTrue(is_application_class(0x0123))
        self.assertTrue(is_application_class(0xE1FE))
        self.assertFalse(is_application_class(0x0200))
        self.assertFalse(is_application_class(0x1E00))
        self.assertFalse(is_application_class(0x10123))

    @given(st.sampled_from(list(MessageClass)))
    def test_applications_do_not_make_up_what_is_defined(self, member: MessageClass) -> None:
        """ORDER_ACK has no bit beyond the mask, and is still not theirs."""
        self.assertFalse(is_application_class(member))
