"""[MS-MQMQ] 2.2.20.1 to 2.2.20.3: the queues that a message was sent to at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.names.format_name import (
    DistributionListFormatName,
    PrivateFormatName,
    PublicFormatName,
    parse_format_name,
)
from msmq.structures.names.queue_names import PrivateQueueFormatName, PublicQueueFormatName
from msmq.structures.packet.multi_queue_format_header import (
    ElementName,
    FormatType,
    MQFAddressHeader,
    MQFDirectQueueFormatName,
    MQFDistributionQueueFormatName,
    MQFFormatNameElement,
    MQFSignatureHeader,
    MultiQueueFormatHeader,
)
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer
from tests.builders import ALPHA
from tests.strategies import element_lists, element_names, multi_queue_format_headers
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways, written
from tests.vectors import INITIATOR as GUID
from tests.vectors import INITIATOR_HEX as GUID_BYTES

NOTHING = "0c0000006400000000000000"
"""A list of no destinations."""


def destination(text: str) -> MQFAddressHeader:
    """Read a list of destinations that begins at offset 200 of a packet."""
    return MQFAddressHeader.read(Reader(bytes.fromhex(text), base=200), MQFAddressHeader.DESTINATION)


def encoded(header: MQFAddressHeader) -> bytes:
    """The bytes of a list."""
    writer = Writer()
    header.write(writer)
    return writer.getvalue()


def names(header: MQFAddressHeader) -> list[ElementName]:
    return [element.format_name for element in header.elements]


def listed(count: int, elements: str) -> str:
    """A list of destinations in hex, without padding."""
    size = 12 + len(bytes.fromhex(elements))
    return size.to_bytes(4, "little").hex() + "64000000" + count.to_bytes(4, "little").hex() + elements


class MQFFormatNameElementTests(SynchronousTestCase):
    """L{MQFFormatNameElement}, inside a list."""

    def test_begins_with_its_type(self) -> None:
        """MQMQ-2.2.18.1.4-01: 1, 2, 3 and 6; everything else is malformed."""
        for number in (0, 4, 5, 7, 0x0101, 0xFFFF):
            elements = number.to_bytes(2, "little").hex() + "00" * 30
            error = self.assertRaises(RemoteProtocolError, destination, listed(1, elements))
            self.assertEqual(
                (error.header, error.field, error.offset), ("MQFFormatNameElement", "FormatType", 212)
            )

    def test_the_structure_follows_the_type(self) -> None:
        """MQMQ-2.2.18.1.4-02: one element of each type round-trips, at the right position."""
        for name, format_type, data in (
            (PublicQueueFormatName(GUID), FormatType.PUBLIC, "01000000" + GUID_BYTES),
            (PrivateQueueFormatName(GUID, 10), FormatType.PRIVATE, "02000000" + GUID_BYTES + "0a000000"),
            (MQFDirectQueueFormatName("ab"), FormatType.DIRECT, "0300610062000000"),
            (MQFDistributionQueueFormatName(GUID), FormatType.DISTRIBUTION_LIST, "06000000" + GUID_BYTES),
        ):
            header = MQFAddressHeader.of(MQFAddressHeader.DESTINATION, [name])
            self.assertEqual(header.format_name_list.hex(), data)
            self.assertEqual([element.format_type for element in header.elements], [format_type])
            self.assertEqual(names(destination(listed(1, data))), [name])

    def test_direct_names_have_no_count(self) -> None:
        """MQMQ-2.2.18.1.4.1-01: odd or even, the next element begins at a multiple of two bytes."""
        for text in ("", "a", "ab", "abc", "A\u0100A"):
            both: list[ElementName] = [MQFDirectQueueFormatName(text), MQFDirectQueueFormatName("x")]
            header = MQFAddressHeader.of(MQFAddressHeader.DESTINATION, both)
            units = (text + "\0").encode("utf-16-le")
            self.assertEqual(header.format_name_list, b"\3\0" + units + b"\3\0x\0\0\0")
            self.assertEqual(names(header), both)

    def test_guids_begin_at_a_multiple_of_four(self) -> None:
        """MQMQ-2.2.18.1.4.2-01: two bytes of padding behind a FormatType at a multiple of four, else none."""
        odd = MQFDirectQueueFormatName("")
        for name in (
            MQFDistributionQueueFormatName(GUID),
            PublicQueueFormatName(GUID),
            PrivateQueueFormatName(GUID, 1),
        ):
            alone = MQFAddressHeader.of(MQFAddressHeader.DESTINATION, [name])
            self.assertEqual(alone.format_name_list.index(GUID.bytes_le), 4)
            behind = MQFAddressHeader.of(MQFAddressHeader.DESTINATION, [odd, name])
            self.assertEqual(behind.format_name_list.index(GUID.bytes_le), 8)
            shifted = MQFAddressHeader.of(MQFAddressHeader.DESTINATION, [MQFDirectQueueFormatName("a"), name])
            self.assertEqual(shifted.format_name_list.index(GUID.bytes_le), 8)
            self.assertEqual(names(shifted), [MQFDirectQueueFormatName("a"), name])

    @given(st.binary(min_size=2, max_size=2))
    def test_padding_within_an_element_is_ignored(self, padding: bytes) -> None:
        """MQMQ-2.2.18.1.4-03: any bytes between FormatType and GUID."""
        for number, rest in ((1, ""), (2, "0a000000"), (6, "")):
            elements = f"{number:02x}00{padding.hex()}{GUID_BYTES}{rest}"
            same = destination(listed(1, f"{number:02x}000000{GUID_BYTES}{rest}"))
            self.assertEqual(names(destination(listed(1, elements))), names(same))

    def test_names_resolve(self) -> None:
        """Each to the format name that it is."""
        for name, expected in (
            (PublicQueueFormatName(GUID), PublicFormatName(GUID)),
            (PrivateQueueFormatName(GUID, 10), PrivateFormatName(GUID, 10)),
            (MQFDirectQueueFormatName("OS:a\\q"), parse_format_name("DIRECT=OS:a\\q")),
            (MQFDirectQueueFormatName("DIRECT=OS:a\\q"), parse_format_name("DIRECT=OS:a\\q")),
            (MQFDistributionQueueFormatName(GUID), DistributionListFormatName(GUID)),
        ):
            self.assertEqual(MQFFormatNameElement(name).resolve(), expected)


class MQFAddressHeaderTests(SynchronousTestCase):
    """L{MQFAddressHeader}."""

    def assert_malformed(self, text: str, field: str, offset: int) -> None:
        error = self.assertRaises(RemoteProtocolError, destination, text)
        self.assertEqual(
            (error.section, error.header, error.field, error.offset),
            ("[MS-MQMQ] 2.2.20.2", "MQFAddressHeader", field, offset),
        )

    def test_every_field_is_at_its_offset(self) -> None:
        """MQMQ-2.2.20.2-01: size, identifier, reserved, count, list."""
        two: list[ElementName] = [MQFDirectQueueFormatName("q"), PublicQueueFormatName(GUID)]
        header = MQFAddressHeader.of(MQFAddressHeader.DESTINATION, two)
        expected = "2400000064000000020000000300710000000100" + GUID_BYTES
        self.assertEqual(encoded(header).hex(), expected)
        self.assertEqual(destination(expected), header)
        self.assertEqual(names(header), two)

    def test_a_list_of_nothing_has_twelve_bytes(self) -> None:
        """MQMQ-2.2.20.2-02: a HeaderSize of 0x0B is malformed, and so is one beyond the packet."""
        self.assertEqual(encoded(MQFAddressHeader(MQFAddressHeader.DESTINATION)).hex(), NOTHING)
        self.assertEqual(destination(NOTHING), MQFAddressHeader(MQFAddressHeader.DESTINATION))
        self.assert_malformed("0b" + NOTHING[2:], "HeaderSize", 200)
        self.assert_malformed("00" + NOTHING[2:], "HeaderSize", 200)
        self.assert_malformed("10" + NOTHING[2:], "FormatNameList", 212)
        self.assert_malformed("ffffffff" + NOTHING[8:], "FormatNameList", 212)

    def test_another_list_at_this_position_is_malformed(self) -> None:
        """MQMQ-2.2.20.2-03: 0x64, 0xC8, 0x12C and 0x15E have their positions."""
        for identifier in ("c800", "2c01", "5e01", "0000"):
            self.assert_malformed(NOTHING[:8] + identifier + NOTHING[12:], "HeaderID", 204)
        data = MultiQueueFormatHeader().to_bytes()
        self.assertEqual([data[4], data[16], data[28], data[36]], [0x64, 0xC8, 0x2C, 0x5E])
        for place in (4, 16, 28):
            spoilt = data[:place] + b"\x5e\x01" + data[place + 2 :]
            self.assertRaises(RemoteProtocolError, MultiQueueFormatHeader.read, Reader(spoilt))

    @given(st.binary(min_size=2, max_size=2))
    def test_reserved_is_ignored(self, reserved: bytes) -> None:
        """MQMQ-2.2.20.2-04: it is sent as 0, and may be anything on receipt."""
        self.assertEqual(encoded(MQFAddressHeader(MQFAddressHeader.DESTINATION))[6:8], b"\0\0")
        self.assertEqual(destination(NOTHING[:12] + reserved.hex() + NOTHING[16:]), destination(NOTHING))

    def test_the_count_is_that_of_the_elements(self) -> None:
        """MQMQ-2.2.20.2-05: more or fewer elements than ElementCount says are malformed."""
        one = "030071000000"
        self.assertEqual(len(destination(listed(2, one * 2)).elements), 2)
        self.assert_malformed(listed(3, one * 2), "ElementCount", 224)
        self.assert_malformed(listed(0xFFFFFFFF, one * 2), "ElementCount", 208)
        self.assert_malformed(listed(1, one * 2) + "0000", "ElementCount", 208)
        header = MQFAddressHeader(MQFAddressHeader.DESTINATION, 1, bytes.fromhex(one * 2))
        self.assertRaises(LocalProtocolError, encoded, header)
        header = MQFAddressHeader(MQFAddressHeader.DESTINATION, 3, bytes.fromhex(one * 2))
        self.assertRaises(LocalProtocolError, encoded, header)

    @given(st.binary(min_size=2, max_size=2))
    def test_the_list_is_padded(self, padding: bytes) -> None:
        """MQMQ-2.2.20.2-06: two bytes of anything follow "q", counted by HeaderSize or not."""
        one = "030071000000"
        header = MQFAddressHeader.of(MQFAddressHeader.DESTINATION, [MQFDirectQueueFormatName("q")])
        self.assertEqual(encoded(header).hex(), listed(1, one) + "0000")
        self.assertEqual(encoded(header)[:4], b"\x12\0\0\0")
        self.assertEqual(destination(listed(1, one) + padding.hex()), header)
        self.assertEqual(destination(listed(1, one + padding.hex())), header)
        self.assert_malformed(listed(1, one), "Padding", 218)

    def test_elements_end_within_the_list(self) -> None:
        """Text without a NUL, half a GUID and half a type are malformed."""
        for elements in ("0300", "030071007200", "01000000" + GUID_BYTES[:30], "02000000" + GUID_BYTES):
            error = self.assertRaises(RemoteProtocolError, destination, listed(1, elements))
            self.assertEqual((error.field, error.offset), ("FormatName", 214))
        self.assert_malformed(listed(1, "03"), "ElementCount", 212)

    def test_names_that_cannot_be_written_are_our_mistake(self) -> None:
        """A NUL within a text, a number of more than 32 bits."""
        for name in (MQFDirectQueueFormatName("a\0b"), PrivateQueueFormatName(ALPHA, 1 << 32)):
            self.assertRaises(LocalProtocolError, MQFAddressHeader.of, MQFAddressHeader.ADMIN, [name])

    @given(element_lists)
    def test_every_list_comes_back(self, wanted: list[ElementName]) -> None:
        """Name by name."""
        header = MQFAddressHeader.of(MQFAddressHeader.DESTINATION, wanted)
        self.assertEqual(names(destination(encoded(header).hex())), wanted)

    @given(st.lists(element_names, min_size=1, max_size=3), st.data())
    def test_spoilt_lists_are_read_or_malformed(self, wanted: list[ElementName], data: st.DataObject) -> None:
        """One byte is another; what is read can be looked at, name by name."""
        packet = bytearray(encoded(MQFAddressHeader.of(MQFAddressHeader.DESTINATION, wanted)))
        packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
        try:
            header = MQFAddressHeader.read(Reader(packet), MQFAddressHeader.DESTINATION)
        except RemoteProtocolError:
            return
        self.assertEqual(len(header.elements), header.element_count)


class MQFSignatureHeaderTests(SynchronousTestCase):
    """L{MQFSignatureHeader}."""

    def test_every_field_is_at_its_offset(self) -> None:
        """MQMQ-2.2.20.3-01: its identifier comes first; another one is malformed."""
        self.assertEqual(written(MQFSignatureHeader(b"abc")), b"\x5e\x01\0\0\x03\0\0\0abc\0")
        assert_read_three_ways(self, MQFSignatureHeader(b"abc"))
        error = self.assertRaises(
            RemoteProtocolError, MQFSignatureHeader.read, Reader(b"\x64\0\0\0\0\0\0\0", base=200)
        )
        self.assertEqual((error.header, error.field, error.offset), ("MQFSignatureHeader", "ID", 200))

    @given(st.binary(min_size=2, max_size=2))
    def test_reserved_is_ignored(self, reserved: bytes) -> None:
        """MQMQ-2.2.20.3-02: it is sent as 0, and may be anything on receipt."""
        data = b"\x5e\x01" + reserved + b"\x03\0\0\0abc\0"
        self.assertEqual(MQFSignatureHeader.read(Reader(data)), MQFSignatureHeader(b"abc"))
        self.assertEqual(written(MQFSignatureHeader())[2:4], b"\0\0")

    def test_there_may_be_no_signature(self) -> None:
        """MQMQ-2.2.20.3-03: Size 0 is followed by nothing; one beyond the packet is malformed."""
        self.assertEqual(written(MQFSignatureHeader()), b"\x5e\x01\0\0\0\0\0\0")
        assert_read_three_ways(self, MQFSignatureHeader())
        for size in (b"\x05\0\0\0", b"\xff\xff\xff\xff"):
            data = b"\x5e\x01\0\0" + size + b"abcd"
            self.assertRaises(RemoteProtocolError, MQFSignatureHeader.read, Reader(data))


class MultiQueueFormatHeaderTests(SynchronousTestCase):
    """L{MultiQueueFormatHeader}."""

    def test_has_four_parts(self) -> None:
        """MQMQ-2.2.20.1-01: all are there, even if the admin and response lists are empty."""
        header = MultiQueueFormatHeader.of([PublicQueueFormatName(GUID)], signature=b"sign")
        expected = (
            "20000000"
            "6400"
            "0000"
            "01000000"
            "01000000" + GUID_BYTES + "0c000000"
            "c800"
            "0000"
            "00000000" + "0c000000"
            "2c01"
            "0000"
            "00000000" + "5e01"
            "0000"
            "04000000" + b"sign".hex()
        )
        self.assertEqual(header.to_bytes().hex(), expected)
        self.assertEqual(MultiQueueFormatHeader.read(Reader(bytes.fromhex(expected))), header)

    @given(st.binary(min_size=2, max_size=2))
    def test_parts_begin_at_multiples_of_four(self, padding: bytes) -> None:
        """MQMQ-2.2.20.1-03: a direct name of odd length is padded with anything."""
        lists: list[ElementName] = [MQFDirectQueueFormatName("q")]
        header = MultiQueueFormatHeader.of(lists, lists, lists)
        data = header.to_bytes()
        starts = [data.index(part) for part in (b"\x64\0\0\0\1", b"\xc8\0\0\0\1", b"\x2c\1\0\0\1")]
        self.assertEqual([start - 4 for start in starts], [0, 20, 40])
        self.assertEqual(data.index(b"\x5e\1"), 60)
        for end in (20, 40, 60):
            data = data[: end - 2] + padding + data[end:]
        self.assertEqual(MultiQueueFormatHeader.read(Reader(data)), header)

    def test_a_list_at_another_position_is_our_mistake(self) -> None:
        """The identifier of a list belongs to its position."""
        header = MultiQueueFormatHeader(administration=MQFAddressHeader(MQFAddressHeader.RESPONSE))
        self.assertRaises(LocalProtocolError, header.to_bytes)

    @given(multi_queue_format_headers)
    def test_every_header_round_trips(self, header: MultiQueueFormatHeader) -> None:
        """It is read completely, not from any prefix, and with trailing bytes."""
        assert_read_three_ways(self, header)

    @given(st.binary(max_size=80))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(MultiQueueFormatHeader.read, data)
        assert_only_remote_errors(
            MultiQueueFormatHeader.read, bytes.fromhex(listed(2, "030071000000")) + data
        )
