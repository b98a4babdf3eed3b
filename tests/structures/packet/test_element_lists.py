"""[MS-MQMQ] 2.2.18.1.4 and 2.2.20.1 to 2.2.20.3: where names of a list end, and what is wrong with a list."""

from __future__ import annotations

from itertools import product

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.packet.multi_queue_format_header import (
    MAXIMUM_ELEMENTS,
    MQFAddressHeader,
    MQFSignatureHeader,
    MultiQueueFormatHeader,
    end_of_elements,
    end_of_text,
)
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer
from tests.vectors import INITIATOR_HEX as GUID_HEX

START = 100
"""Where lists begin in these tests, as in a packet."""
EMPTY_TEXT = bytes.fromhex("03000000")


def plain_end(data: bytes, position: int, stop: int) -> int:
    """The end of a text, looked for unit by unit."""
    for at in range(position, stop - 1, 2):
        if data[at : at + 2] == b"\0\0":
            return at + 2
    return -1


def listed(count: int, elements: bytes, *, size: int | None = None, header_id: int = 0x64) -> bytes:
    """A list whose size is by default that of its elements."""
    declared = 12 + len(elements) if size is None else size
    return b"".join(
        (
            declared.to_bytes(4, "little"),
            header_id.to_bytes(4, "little"),
            count.to_bytes(4, "little"),
            elements,
            bytes(-len(elements) % 4),
        )
    )


class EndOfTextTests(SynchronousTestCase):
    """L{end_of_text} compared with a search unit by unit."""

    def test_every_short_text(self) -> None:
        """Zeros of two neighbours are no NUL, nor is one before the beginning or across the end."""
        for pattern in product(b"\0\1", repeat=7):
            data = bytes(pattern)
            for position in range(4):
                for stop in range(position, 8):
                    self.assertEqual(
                        end_of_text(data, position, stop),
                        plain_end(data, position, stop),
                        (data, position, stop),
                    )

    def test_long_texts_of_such_pairs(self) -> None:
        """The end is found in the first piece that is searched, at its border, and far behind it."""
        pair = b"A\0\0\1"
        for count in (1, 31, 63, 64, 65, 127, 128, 129, 191, 192, 193, 500):
            for before in (0, 1, 2):
                for tail in (b"\0\0", b"x\0\0\0", b"\0\0xx", b"\0", b"", b"x"):
                    data = b"\0" * before + pair * count + tail
                    for stop in (len(data) - 1, len(data)):
                        self.assertEqual(
                            end_of_text(data, before, stop),
                            plain_end(data, before, stop),
                            (count, before, tail),
                        )


class EndOfElementsTests(SynchronousTestCase):
    """L{end_of_elements}."""

    def test_ends(self) -> None:
        """Each kind of name, its padding included, has to end within the list, and may end with it."""
        guid = bytes.fromhex(GUID_HEX)
        for element in (
            b"\1\0\0\0" + guid,
            b"\2\0\0\0" + guid + bytes(4),
            b"\6\0\0\0" + guid,
            b"\3\0a\0\0\0",
            EMPTY_TEXT,
        ):
            size = len(element)
            self.assertEqual(end_of_elements(element, 0, size, 1), size)
            self.assertEqual(end_of_elements(element, 0, size, 0), 0)
            self.assertEqual(end_of_elements(element + element[:2], 0, size, 1), size)
            error = self.assertRaises(RemoteProtocolError, end_of_elements, element, 0, size - 1, 1)
            self.assertEqual(
                str(error),
                "[MS-MQMQ] 2.2.18.1.4 MQFFormatNameElement.FormatName at offset 2: does not end before"
                f" {size - 1}",
            )
        shifted = EMPTY_TEXT + b"\3\0a\0\0\0" + b"\1\0" + guid
        self.assertEqual(end_of_elements(shifted, 0, len(shifted), 3), len(shifted))

    def test_more_than_there_are(self) -> None:
        """The error has the position at which the missing element would begin."""
        for rest in (b"", b"\3"):
            data = EMPTY_TEXT * 2 + rest
            error = self.assertRaises(RemoteProtocolError, end_of_elements, data, 0, len(data), 3)
            self.assertEqual(
                str(error),
                "[MS-MQMQ] 2.2.20.2 MQFAddressHeader.ElementCount at offset 8: more than the list contains",
            )

    def test_unknown_types(self) -> None:
        """The error has the type, and the position of the element."""
        data = EMPTY_TEXT + b"\4\0" + bytes(30)
        error = self.assertRaises(RemoteProtocolError, end_of_elements, data, 0, len(data), 2)
        self.assertEqual(
            str(error),
            "[MS-MQMQ] 2.2.18.1.4 MQFFormatNameElement.FormatType at offset 4: 4 is not a type of format"
            " name",
        )


class AddressHeaderTests(SynchronousTestCase):
    """L{MQFAddressHeader}."""

    def read(self, data: bytes) -> MQFAddressHeader:
        return MQFAddressHeader.read(Reader(data, base=START), MQFAddressHeader.DESTINATION)

    def test_errors(self) -> None:
        """Each has the field, its offset in the packet, and what is wrong."""
        for data, field, offset, rule in (
            (listed(0, b"", header_id=0xC8), "HeaderID", 104, "0x00c8 is not 0x0064"),
            (listed(0, b"", size=11), "HeaderSize", 100, "11 is less than 12"),
            (
                listed(MAXIMUM_ELEMENTS + 1, b""),
                "ElementCount",
                108,
                f"{MAXIMUM_ELEMENTS + 1} are more than {MAXIMUM_ELEMENTS}",
            ),
            (listed(2, EMPTY_TEXT), "ElementCount", 116, "more than the list contains"),
            (listed(1, EMPTY_TEXT * 2), "ElementCount", 108, "1 elements leave 4 bytes"),
            (listed(0, b"", size=16), "FormatNameList", 112, "needs 4 bytes where 0 remain"),
        ):
            error = self.assertRaises(RemoteProtocolError, self.read, data)
            self.assertEqual(
                str(error), f"[MS-MQMQ] 2.2.20.2 MQFAddressHeader.{field} at offset {offset}: {rule}"
            )

    def test_up_to_three_bytes_of_padding_may_be_counted(self) -> None:
        """They are no part of the list."""
        for padding in range(4):
            reader = Reader(listed(1, EMPTY_TEXT + bytes(padding)), base=START)
            found = MQFAddressHeader.read(reader, MQFAddressHeader.DESTINATION)
            self.assertEqual(found, MQFAddressHeader(0x64, 1, EMPTY_TEXT))
            self.assertEqual(reader.remaining, 0)

    def test_the_largest_list(self) -> None:
        """It has ten thousand names; with one more it is neither read nor written."""
        largest = MQFAddressHeader(0x64, MAXIMUM_ELEMENTS, EMPTY_TEXT * MAXIMUM_ELEMENTS)
        writer = Writer()
        largest.write(writer)
        self.assertEqual(self.read(writer.getvalue()), largest)
        larger = MQFAddressHeader(0x64, MAXIMUM_ELEMENTS + 1, EMPTY_TEXT * (MAXIMUM_ELEMENTS + 1))
        error = self.assertRaises(LocalProtocolError, larger.write, Writer())
        self.assertEqual(str(error), "ElementCount: 10001 are more than 10000")

    def test_lists_that_cannot_be_written(self) -> None:
        """A list holds exactly the elements that it counts."""
        for header, rule in (
            (MQFAddressHeader(0x64, 1, EMPTY_TEXT * 2), "FormatNameList: more than 1 elements"),
            (
                MQFAddressHeader(0x64, 3, EMPTY_TEXT * 2),
                "FormatNameList: [MS-MQMQ] 2.2.20.2 MQFAddressHeader.ElementCount at offset 8: more than the"
                " list contains",
            ),
        ):
            error = self.assertRaises(LocalProtocolError, header.write, Writer())
            self.assertEqual(str(error), rule)

    def test_parts_have_their_places(self) -> None:
        """A list in the place of another is named with both identifiers; a signature has its own."""
        for header, rule in (
            (
                MultiQueueFormatHeader(destination=MQFAddressHeader(0xC8)),
                "HeaderID: 0x00c8 is where 0x0064 is expected",
            ),
            (
                MultiQueueFormatHeader(administration=MQFAddressHeader(0x64)),
                "HeaderID: 0x0064 is where 0x00c8 is expected",
            ),
            (
                MultiQueueFormatHeader(response=MQFAddressHeader(0xC8)),
                "HeaderID: 0x00c8 is where 0x012c is expected",
            ),
        ):
            error = self.assertRaises(LocalProtocolError, header.to_bytes)
            self.assertEqual(str(error), rule)
        data = bytes.fromhex("2c01 0000 00000000")
        error = self.assertRaises(RemoteProtocolError, MQFSignatureHeader.read, Reader(data, base=START))
        self.assertEqual(
            str(error), "[MS-MQMQ] 2.2.20.3 MQFSignatureHeader.ID at offset 100: 0x012c is not 0x015e"
        )
