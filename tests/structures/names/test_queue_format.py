"""[MS-MQMQ] 2.2.7: QUEUE_FORMAT carries every kind of format name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.structures.identifiers import ObjectIdentifier
from msmq.structures.names.format_name import (
    ConnectorFormatName,
    DistributionListFormatName,
    FormatName,
    MulticastFormatName,
    PrivateFormatName,
    PublicFormatName,
    parse_format_name,
)
from tests.strategies_names import format_names
from tests.structures.names.queue_format import QueueFormat, QueueFormatType
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways
from tests.vectors import INITIATOR as GUID

NAMES = {
    1: (f"PUBLIC={GUID}", f"PUBLIC={GUID};JOURNAL"),
    2: (f"PRIVATE={GUID}\\0000000F", f"PRIVATE={GUID}\\0000000F;JOURNAL"),
    3: (
        "DIRECT=OS:h\\q",
        "DIRECT=OS:h\\q;JOURNAL",
        "DIRECT=OS:h\\system$;DEADLETTER",
        "DIRECT=OS:h\\system$;DEADXACT",
    ),
    4: (f"MACHINE={GUID};JOURNAL", f"MACHINE={GUID};DEADLETTER", f"MACHINE={GUID};DEADXACT"),
    5: (f"CONNECTOR={GUID}", f"CONNECTOR={GUID};XACTONLY"),
    6: (f"DL={GUID}", f"DL={GUID}@dom.example"),
    7: ("MULTICAST=234.1.2.3:8001",),
    8: ("DIRECT=OS:h\\private$\\q;sub",),
}
"""Names by the m_qft that they are carried with."""


def encoded(text: str) -> bytes:
    """The structure that carries one name."""
    return QueueFormat(parse_format_name(text)).to_bytes()


class QueueFormatTests(SynchronousTestCase):
    """L{QueueFormat}."""

    def refused(self, number: int, suffix_and_flags: int) -> None:
        """Assert that these two values are incompatible, for any name."""
        for text in NAMES.get(number, NAMES[1]):
            data = bytearray(encoded(text))
            data[0] = data[4] = number
            data[1] = suffix_and_flags
            error = self.assertRaises(RemoteProtocolError, QueueFormat.from_bytes, bytes(data))
            self.assertEqual((error.section, error.header), ("[MS-MQMQ] 2.2.7", "QUEUE_FORMAT"))

    def accepted(self, number: int, suffix_and_flags: int) -> None:
        """Assert that some name is carried with these two values, and read back from them."""
        expected = bytes((number, suffix_and_flags))
        found = [text for text in NAMES[number] if encoded(text)[:2] == expected]
        self.assertNotEqual(found, [])
        for text in found:
            self.assertEqual(QueueFormat.from_bytes(encoded(text)), QueueFormat(parse_format_name(text)))

    @given(format_names(lenient=True))
    def test_any_name_is_read_back(self, name: FormatName) -> None:
        """The encoded name is the intended one."""
        self.assertEqual(QueueFormat.from_bytes(QueueFormat(name).to_bytes()), QueueFormat(name))

    @given(st.binary(max_size=80))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(QueueFormat.read, data)

    @given(st.sampled_from([encoded(text) for texts in NAMES.values() for text in texts]), st.data())
    def test_a_damaged_structure_is_read_or_malformed(self, whole: bytes, data: st.DataObject) -> None:
        """Nor by changing a byte of a good one."""
        damaged = bytearray(whole)
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        assert_only_remote_errors(QueueFormat.read, bytes(damaged))

    def test_has_two_bytes_a_reserved_word_and_a_union(self) -> None:
        """MQMQ-2.2.7-01: m_qft selects the arm, and stands once more before it as the tag."""
        data = encoded(f"PUBLIC={GUID}")
        self.assertEqual(data.hex(" "), "01 00 00 00 01 00 00 00 " + GUID.bytes_le.hex(" "))
        for texts in NAMES.values():
            for text in texts:
                assert_read_three_ways(self, QueueFormat(parse_format_name(text)))

    def test_there_are_nine_types(self) -> None:
        """MQMQ-2.2.7-02: 0 to 8; 9 is malformed."""
        self.assertEqual([int(each) for each in QueueFormatType], list(range(9)))
        for number, texts in NAMES.items():
            for text in texts:
                self.assertEqual(encoded(text)[0], number)
        self.refused(9, 0)

    def test_the_suffix_is_the_low_nibble(self) -> None:
        """MQMQ-2.2.7-03: 0x81 is the suffix of a journal and the flag of a system queue."""
        self.assertEqual(encoded(f"PUBLIC={GUID};JOURNAL")[1], 0x81)
        data = bytearray(encoded(f"PUBLIC={GUID}"))
        data[1] = 0x81
        self.assertEqual(str(QueueFormat.from_bytes(bytes(data)).name), f"PUBLIC={str(GUID).upper()};JOURNAL")
        self.refused(1, 0x91)

    def test_no_suffix(self) -> None:
        """MQMQ-2.2.7-04: has no flag, and is not for a machine."""
        for number in (1, 2, 3, 5, 6, 7):
            self.accepted(number, 0x00)
        self.refused(4, 0x00)
        for number in range(1, 9):
            self.refused(number, 0x80)

    def test_the_journal_suffix(self) -> None:
        """MQMQ-2.2.7-05: needs the flag, and is not for connectors, lists and multicast."""
        for number in (1, 2, 3, 4):
            self.accepted(number, 0x81)
            self.refused(number, 0x01)
        for number in (5, 6, 7):
            self.refused(number, 0x81)

    def test_the_dead_letter_suffix(self) -> None:
        """MQMQ-2.2.7-06: needs the flag, and is for direct names and machines."""
        for number in (3, 4):
            self.accepted(number, 0x82)
            self.refused(number, 0x02)
        for number in (1, 2, 5, 6, 7):
            self.refused(number, 0x82)

    def test_the_transactional_dead_letter_suffix(self) -> None:
        """MQMQ-2.2.7-07: needs the flag, and is for direct names and machines."""
        for number in (3, 4):
            self.accepted(number, 0x83)
            self.refused(number, 0x03)
        for number in (1, 2, 5, 6, 7, 8):
            self.refused(number, 0x83)

    def test_the_transactional_suffix(self) -> None:
        """MQMQ-2.2.7-08: is for connectors, with the flag of a system queue or without."""
        self.accepted(5, 0x04)
        for number in (1, 2, 3, 4, 6, 7, 8):
            self.refused(number, 0x04)
        data = bytearray(encoded(f"CONNECTOR={GUID}"))
        data[1] = 0x84
        expected = QueueFormat(ConnectorFormatName(GUID, is_transactional=True))
        self.assertEqual(QueueFormat.from_bytes(bytes(data)), expected)

    def test_the_subqueue_suffix(self) -> None:
        """MQMQ-2.2.7-09: has no flag, and is for subqueues."""
        self.accepted(8, 0x05)
        self.refused(8, 0x85)
        for number in range(1, 8):
            self.refused(number, 0x05)

    def test_the_reserved_word_is_zero(self) -> None:
        """MQMQ-2.2.7-10: in every written value."""
        for texts in NAMES.values():
            for text in texts:
                self.assertEqual(encoded(text)[2:4], b"\0\0")

    @given(st.binary(min_size=2, max_size=2))
    def test_the_reserved_word_means_nothing(self, reserved: bytes) -> None:
        """MQMQ-2.2.7-11: in any input."""
        data = encoded("DIRECT=OS:h\\q")
        expected = QueueFormat.from_bytes(data)
        self.assertEqual(QueueFormat.from_bytes(data[:2] + reserved + data[4:]), expected)

    def test_a_direct_name_has_no_prefix(self) -> None:
        r"""MQMQ-2.2.7-12: DIRECT=OS:h\q is carried as OS:h\q."""
        data = encoded("DIRECT=OS:h\\q")
        self.assertEqual(data[12:24], b"\x07\0\0\0" + b"\0\0\0\0" + b"\x07\0\0\0")
        self.assertEqual(data[24:], "OS:h\\q\0".encode("utf-16-le"))

    def test_each_arm_is_read_back(self) -> None:
        """MQMQ-2.2.7-13: GUIDs, OBJECTID, text, DL_ID and MULTICAST_ID; nothing for an unknown name."""
        self.assertEqual(encoded(f"MACHINE={GUID};JOURNAL")[8:], GUID.bytes_le)
        self.assertEqual(encoded(f"CONNECTOR={GUID}")[8:], GUID.bytes_le)
        self.assertEqual(encoded("MULTICAST=234.1.2.3:8001")[8:].hex(" "), "ea 01 02 03 41 1f 00 00")
        self.assertEqual(encoded(f"DL={GUID}@dom")[8:24], GUID.bytes_le)
        self.assertEqual(encoded(f"DL={GUID}@dom")[-8:], "dom\0".encode("utf-16-le"))
        unknown = QueueFormat()
        self.assertEqual(unknown.to_bytes(), bytes(5))
        assert_read_three_ways(self, unknown)
        for texts in NAMES.values():
            for text in texts:
                self.assertEqual(QueueFormat.from_bytes(encoded(text)).name, parse_format_name(text))

    def test_a_subqueue_is_part_of_the_text(self) -> None:
        """MQMQ-2.2.7-14: with m_qft 8 the text must have one, with m_qft 3 it must not."""
        data = bytearray(encoded("DIRECT=OS:h\\q"))
        data[0] = data[4] = 8
        data[1] = 5
        self.assertRaises(RemoteProtocolError, QueueFormat.from_bytes, bytes(data))
        data = bytearray(encoded("DIRECT=OS:h\\q;sub"))
        data[0] = data[4] = 3
        data[1] = 0
        self.assertRaises(RemoteProtocolError, QueueFormat.from_bytes, bytes(data))

    def test_a_private_queue_is_its_machine_and_its_number(self) -> None:
        r"""MQMQ-2.2.8-02: of PRIVATE=g\0F, Lineage is g and Uniquifier 15."""
        data = encoded(f"PRIVATE={GUID}\\0F")
        self.assertEqual(data[8:], ObjectIdentifier(GUID, 15).to_bytes())
        self.assertEqual(QueueFormat.from_bytes(data).name, PrivateFormatName(GUID, 15))

    def test_a_text_that_is_no_direct_name_is_malformed(self) -> None:
        """The error says what is wrong with the text."""
        data = encoded("DIRECT=OS:h\\q").replace("OS".encode("utf-16-le"), "AB".encode("utf-16-le"))
        error = self.assertRaises(RemoteProtocolError, QueueFormat.from_bytes, data)
        self.assertIn("expected TCP:, OS:, HTTP:, HTTPS: or IPX:", error.rule)

    def test_an_address_that_is_not_multicast_is_malformed(self) -> None:
        """Nor is a port of more than sixteen bits possible."""
        data = bytearray(QueueFormat(MulticastFormatName("234.1.2.3", 1)).to_bytes())
        for offset, number in ((8, 10), (14, 1)):
            damaged = bytearray(data)
            damaged[offset] = number
            self.assertRaises(RemoteProtocolError, QueueFormat.from_bytes, bytes(damaged))

    def test_a_tag_that_differs_is_malformed(self) -> None:
        """The type and the tag of the union say the same."""
        data = bytearray(QueueFormat(PublicFormatName(GUID)).to_bytes())
        data[4] = 5
        self.assertRaises(RemoteProtocolError, QueueFormat.from_bytes, bytes(data))

    def test_a_null_text_is_malformed(self) -> None:
        """A direct name must be there."""
        data = bytearray(encoded("DIRECT=OS:h\\q"))
        data[8:12] = bytes(4)
        self.assertRaises(RemoteProtocolError, QueueFormat.from_bytes, bytes(data))

    def test_a_distribution_list_is_its_guid_and_its_domain(self) -> None:
        """MQMQ-2.2.9-01: the domain is UTF-16 text with a NUL, which a pointer behind the GUID announces."""
        data = encoded(f"DL={GUID}@dom")
        domain = b"\x04\0\0\0" + b"\0\0\0\0" + b"\x04\0\0\0" + "dom\0".encode("utf-16-le")
        self.assertEqual(data[8:], GUID.bytes_le + b"\0\0\x02\0" + domain)
        self.assertEqual(QueueFormat.from_bytes(data).name, DistributionListFormatName(GUID, "dom"))

    def test_an_empty_domain_is_none(self) -> None:
        """A list without a domain is carried with empty text."""
        name = DistributionListFormatName(GUID)
        self.assertEqual(QueueFormat.from_bytes(QueueFormat(name).to_bytes()).name, name)
