"""[MS-MQMQ] 2.2.19.2 and 2.2.20: where the optional parts of a packet end, by the fast path."""

from __future__ import annotations

from struct import pack

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.structures.packet.multi_queue_format_header import (
    MQFDirectQueueFormatName,
    MultiQueueFormatHeader,
)
from msmq.structures.packet.soap_header import SoapHeader
from msmq.structures.packet.user_message_walk import (
    Unusual,
    after_name,
    after_optional_headers,
    after_other_names,
    after_transaction_and_security,
)

CQ, TH, SH, MQ, HH, RECOVERABLE = 0x00400000, 0x00100000, 0x00080000, 0x00800000, 0x10000000, 0x20
DH, TR = 0x0020, 0x0100
BEFORE = b"\xff" * 64
"""Bytes before the part, which have no meaning."""


def direct(text: str) -> bytes:
    """A direct name without padding."""
    data = (text + "\0").encode("utf-16-le")
    return pack("<H", len(data)) + data


class NameTests(SynchronousTestCase):
    """L{after_name} and L{after_other_names}."""

    def test_sizes(self) -> None:
        """Names of a kind have one size; a direct name is padded to a multiple of four."""
        for kind, size in ((0, 0), (1, 0), (2, 4), (3, 4), (4, 4), (5, 16), (6, 20)):
            self.assertEqual(after_name(BEFORE, 64, kind), 64 + size)
        for text, size in (("", 4), ("a", 8), ("ab", 8), ("abc", 12), ("\u0100", 8)):
            packet = BEFORE + direct(text) + b"\xff" * 4
            self.assertEqual(after_name(packet, 64, 7), 64 + size, text)

    def test_unusual_direct_names(self) -> None:
        """An odd count, a NUL before the end and a text without NUL are left to the full parser."""
        for name in (
            b"\3\0a\0\0\0",
            b"\5\0a\0b\0\0\0",
            pack("<H", 6) + b"a\0\0\0\0\0",
            direct("a\u0100"),
            pack("<H", 6) + b"a\1\0\0\0\0",
            pack("<H", 6) + b"\0\0a\0\0\0",
            pack("<H", 8) + b"a\0\0\0b\0\0\0",
            pack("<H", 4) + b"a\0b\0",
            pack("<H", 4) + b"a\0\0\1",
            pack("<H", 4) + b"a\0\1\0",
        ):
            self.assertRaises(Unusual, after_name, BEFORE + name + b"\xff" * 8, 64, 7)

    def test_other_names(self) -> None:
        """AdminQueue, ResponseQueue and ConnectorType follow each other; two kinds of AdminQueue are none."""
        packet = BEFORE + direct("a") + b"\xff\xff" + direct("ab") + b"\xff" * 64
        for admin, response, size in (
            (0, 0, 0),
            (0, 1, 0),
            (2, 3, 8),
            (3, 4, 8),
            (5, 6, 36),
            (6, 5, 36),
            (7, 7, 16),
            (0, 7, 8),
        ):
            flags = admin << 13 | response << 16
            self.assertEqual(after_other_names(packet, 64, flags), 64 + size, (admin, response))
            self.assertEqual(after_other_names(packet, 64, flags | 0x1C1F), 64 + size)
            self.assertEqual(after_other_names(packet, 64, flags | CQ), 64 + size + 16)
        for admin in (1, 4):
            self.assertRaises(Unusual, after_other_names, packet, 64, admin << 13)


class TransactionAndSecurityTests(SynchronousTestCase):
    """L{after_transaction_and_security}."""

    def test_transaction(self) -> None:
        """It has 20 bytes, or 36 with a connector; an express message or a number of 0 is unusual."""
        for transaction_flags, size in ((0, 20), (2, 20), (1, 36), (0xFFFFFFFF, 36)):
            packet = BEFORE + pack("<I8xI", transaction_flags, 1) + bytes(40)
            self.assertEqual(after_transaction_and_security(packet, 64, TH | RECOVERABLE), 64 + size)
            self.assertEqual(after_transaction_and_security(packet, 64, RECOVERABLE | 0x1F), 64)
            self.assertRaises(Unusual, after_transaction_and_security, packet, 64, TH)
            self.assertRaises(Unusual, after_transaction_and_security, packet, 64, TH | 0x1F)
            packet = BEFORE + pack("<I8xI", transaction_flags, 0) + bytes(40)
            self.assertRaises(Unusual, after_transaction_and_security, packet, 64, TH | RECOVERABLE)

    def test_items(self) -> None:
        """Each of four items is padded to a multiple of four behind sixteen bytes."""
        for place in range(4):
            for size, padded in ((1, 4), (3, 4), (4, 4), (5, 8), (0x0FFF, 0x1000)):
                sizes = [0, 0, 0, 0]
                sizes[place] = size
                header = pack("<HHHHII", 1, *sizes, 0)
                self.assertEqual(after_transaction_and_security(BEFORE + header, 64, SH), 64 + 16 + padded)
                self.assertEqual(after_transaction_and_security(BEFORE + header, 64, 0x0007FFDF), 64)
        header = pack("<HHHHII", 1, 1, 5, 9, 13, 0)
        self.assertEqual(after_transaction_and_security(BEFORE + header, 64, SH), 64 + 16 + 4 + 8 + 12 + 16)
        both = pack("<I8xI4x", 0, 1) + header
        self.assertEqual(
            after_transaction_and_security(BEFORE + both, 64, SH | TH | RECOVERABLE), 64 + 20 + 16 + 40
        )

    def test_certificates(self) -> None:
        """One of up to 64 KiB is usual."""
        for size, expected in ((0xFFFF, 64 + 16 + 0x10000), (0x10000, None)):
            packet = BEFORE + pack("<HHHHII", 0, 0, 0, 0, size, 0)
            if expected is None:
                self.assertRaises(Unusual, after_transaction_and_security, packet, 64, SH)
            else:
                self.assertEqual(after_transaction_and_security(packet, 64, SH), expected)

    def test_unusual_security(self) -> None:
        """A provider, no item at all, and a sender without a type are left to the full parser."""
        for values in (
            (1, 4, 0, 0, 0, 1),
            (0, 0, 4, 0, 0, 8),
            (1, 0, 0, 0, 0, 0),
            (0, 0, 0, 0, 0, 0),
            (0, 4, 0, 0, 0, 0),
            (0xFFF0, 4, 4, 4, 4, 0),
        ):
            packet = BEFORE + pack("<HHHHII", *values) + bytes(64)
            self.assertRaises(Unusual, after_transaction_and_security, packet, 64, SH)
        for number in (1, 2, 4, 8):
            packet = BEFORE + pack("<HHHHII", number, 4, 0, 0, 0, 0)
            self.assertEqual(after_transaction_and_security(packet, 64, SH), 64 + 20)
        for values in ((0, 0, 4, 0, 0, 0), (0, 0, 0, 4, 0, 0), (0, 0, 0, 0, 4, 0)):
            packet = BEFORE + pack("<HHHHII", *values)
            self.assertEqual(after_transaction_and_security(packet, 64, SH), 64 + 20)


class OptionalHeaderTests(SynchronousTestCase):
    """L{after_optional_headers}."""

    def test_none(self) -> None:
        """Without their flags nothing follows; TR without DH is unusual."""
        self.assertEqual(after_optional_headers(BEFORE, 64, 0, 0), 64)
        self.assertEqual(after_optional_headers(BEFORE, 64, 0x001F, 0x0F7FFFFF), 64)
        self.assertRaises(Unusual, after_optional_headers, BEFORE, 64, TR, 0)

    def test_debug(self) -> None:
        """It has four bytes, or twenty with a queue; other types of queue are unusual."""
        for debug_flags, size in ((0, 4), (1, 20), (0xFFFC, 4), (0xFFFD, 20)):
            packet = BEFORE + pack("<H", debug_flags) + bytes(18)
            self.assertEqual(after_optional_headers(packet, 64, DH, 0), 64 + size)
            self.assertEqual(after_optional_headers(packet, 64, DH | TR, 0), 64 + size)
        for debug_flags in (2, 3, 0xFFFE):
            packet = BEFORE + pack("<H", debug_flags) + bytes(18)
            self.assertRaises(Unusual, after_optional_headers, packet, 64, DH, 0)

    def test_soap_and_multi_queue_format(self) -> None:
        """They follow in this order, each if its flag is set."""
        soap = SoapHeader("header", "body").to_bytes()
        lists = MultiQueueFormatHeader.of([MQFDirectQueueFormatName("OS:a\\q")]).to_bytes()
        debug = bytes(4)
        for base_flags, flags, parts in (
            (0, HH, soap),
            (0, MQ, lists),
            (0, HH | MQ, soap + lists),
            (DH, HH | MQ, debug + soap + lists),
        ):
            packet = BEFORE + parts
            self.assertEqual(after_optional_headers(packet, 64, base_flags, flags), len(packet))
            longer = packet + b"\xff" * 8
            self.assertEqual(after_optional_headers(longer, 64, base_flags, flags), len(packet))
            self.assertEqual(after_optional_headers(packet, 64, base_flags, flags | 0x0F7FFFFF), len(packet))

    def test_a_position_beyond_the_packet(self) -> None:
        """Nothing can follow there; at the very end of a packet the header is cut off."""
        for flags in (HH, MQ):
            self.assertRaises(RemoteProtocolError, after_optional_headers, BEFORE, 64, 0, flags)
            self.assertRaises(Unusual, after_optional_headers, BEFORE, 65, 0, flags)
