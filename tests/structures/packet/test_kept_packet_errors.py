"""[MS-MQRR] 2.2.5: local headers that are malformed, and the mark for dead letters."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.structures.packet.kept_packet import (
    DEAD_LETTERS,
    dead_letter_queue_of,
    is_marked_for_dead_letters,
    kept_headers,
    marked_for_dead_letters,
    packet_of,
    without_kept_headers,
)
from tests.builders import user_packet

PACKET = user_packet(b"body")
SIZE = len(PACKET)


class ErrorTests(SynchronousTestCase):
    """Headers behind a packet that are not those of [MS-MQRR] 2.2.5."""

    def test_each_has_one_error(self) -> None:
        """Sizes, flags and the name are validated; the error names the field and where it begins."""
        extension, dead_letter = "[MS-MQRR] 2.2.5.2 ExtensionHeader", "[MS-MQRR] 2.2.5.4 DeadLetterHeader"
        neither = "[MS-MQMQ] 2.2 Packet"
        for headers, name, field, offset, rule in (
            (
                "0b000000 0c000000 01000000 0c000000 61006200 00000000",
                extension,
                "HeaderSize",
                0,
                "11 is not 12",
            ),
            (
                "10000000 0c000000 01000000 0c000000 61006200 00000000",
                extension,
                "HeaderSize",
                0,
                "16 is not 12",
            ),
            ("0c000000 0c000000 00000000 0c000000 61006200 00000000", neither, "Flags", 8, "DL is clear"),
            ("0c000000 0c000000 fe000000 0c000000 61006200 00000000", neither, "Flags", 8, "DL is clear"),
            (
                "0c000000 08000000 01000000 0c000000 61006200 00000000",
                neither,
                "RemainingHeadersSize",
                4,
                "a different structure follows",
            ),
            (
                "0c000000 0c000000 01000000 03000000 61006200 00000000",
                dead_letter,
                "HeaderSize",
                12,
                "3 is not the size of a DeadLetterHeader",
            ),
            (
                "0c000000 0c000000 01000000 00000000 61006200 00000000",
                dead_letter,
                "HeaderSize",
                12,
                "0 is not the size of a DeadLetterHeader",
            ),
            (
                "0c000000 0c000000 01000000 0b000000 61006200 00000000",
                dead_letter,
                "HeaderSize",
                12,
                "11 is not the size of a DeadLetterHeader",
            ),
            ("0c000000 04000000 01000000 04000000", dead_letter, "DeadLetterPathName", 16, "it has no NUL"),
            (
                "0c000000 08000000 01000000 08000000 61006200",
                dead_letter,
                "DeadLetterPathName",
                16,
                "it has no NUL",
            ),
            (
                "0c000000 0c000000 01000000 08000000 61000000 00000000",
                neither,
                "HeaderSize",
                20,
                "4 bytes follow the header",
            ),
        ):
            record = PACKET + bytes.fromhex(headers)
            error = self.assertRaises(RemoteProtocolError, dead_letter_queue_of, record)
            self.assertEqual(str(error), f"{name}.{field} at offset {SIZE + offset}: {rule}")
            self.assertIsNone(without_kept_headers(record))
            self.assertEqual(packet_of(record), PACKET)

    def test_reserved_flags_are_ignored(self) -> None:
        """Only DL is read."""
        record = PACKET + bytes.fromhex("0c000000 0c000000 ffffffff 0c000000 61006200 0000ffff")
        self.assertEqual(dead_letter_queue_of(record), "ab")
        self.assertEqual(without_kept_headers(record), PACKET)

    def test_packets_without_them(self) -> None:
        """There is no name, and nothing to remove; a piece of a packet has none either."""
        self.assertEqual(dead_letter_queue_of(PACKET), "")
        for record in (PACKET, PACKET[:-1], PACKET[:16], PACKET[:15], b""):
            self.assertIsNone(without_kept_headers(record))


class MarkTests(SynchronousTestCase):
    """A message in transit that becomes a dead letter of this queue manager."""

    def test_the_mark_is_a_path(self) -> None:
        """It is kept like any other dead-letter queue, and removed with it."""
        record = marked_for_dead_letters(PACKET)
        self.assertTrue(is_marked_for_dead_letters(record))
        self.assertEqual(dead_letter_queue_of(record), DEAD_LETTERS)
        self.assertEqual(without_kept_headers(record), PACKET)
        self.assertEqual(packet_of(record), PACKET)

    def test_other_messages_are_not_marked(self) -> None:
        """Neither one without a queue, nor one with another queue, nor a body that ends like a mark."""
        mark = marked_for_dead_letters(b"")
        for record in (PACKET, PACKET + kept_headers("other"), user_packet(b"body" + mark)):
            self.assertFalse(is_marked_for_dead_letters(record))
