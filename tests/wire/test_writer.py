"""L{Writer}: nothing is written that does not fit."""

from __future__ import annotations

from struct import Struct
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer


class WriterTests(SynchronousTestCase):
    """L{Writer}."""

    def test_numbers_are_little_endian(self) -> None:
        """Numbers of every size, signed and unsigned."""
        writer = Writer()
        writer.u8(0x81, "n")
        writer.u16(0x8201, "n")
        writer.u32(0x84030201, "n")
        writer.u64(0x8807060504030201, "n")
        writer.i64(-2, "n")
        self.assertEqual(writer.getvalue().hex(), "810182010203840102030405060788feffffffffffffff")
        self.assertEqual(writer.position, 23)

    def test_a_number_beyond_its_field_is_our_mistake(self) -> None:
        """The error names the field, and nothing is written."""
        writer = Writer()
        for write, bits in ((writer.u8, 8), (writer.u16, 16), (writer.u32, 32), (writer.u64, 64)):
            for number in (-1, 1 << bits):
                error = self.assertRaises(LocalProtocolError, write, number, "MessageID")
                self.assertEqual(str(error), f"MessageID: {number} does not fit {bits} bits")
        for number in (-(1 << 63) - 1, 1 << 63):
            error = self.assertRaises(LocalProtocolError, writer.i64, number, "SeqID")
            self.assertEqual(str(error), f"SeqID: {number} does not fit 64 signed bits")
        self.assertEqual((writer.getvalue(), writer.position), (b"", 0))

    def test_the_smallest_and_the_largest_numbers(self) -> None:
        """Every number that a field has room for is written."""
        for bits in (8, 16, 32, 64):
            writer = Writer()
            write = {8: writer.u8, 16: writer.u16, 32: writer.u32, 64: writer.u64}[bits]
            for number in (0, 1, (1 << bits) - 1):
                write(number, "n")
            size = bits // 8
            zeros = bytes(size - 1)
            self.assertEqual(writer.getvalue(), b"\0" + zeros + b"\1" + zeros + b"\xff" * size)
        writer = Writer()
        for number in (-(1 << 63), -1, 0, (1 << 63) - 1):
            writer.i64(number, "n")
        wanted = "0000000000000080" + "ff" * 8 + "00" * 8 + "ffffffffffffff7f"
        self.assertEqual(writer.getvalue().hex(), wanted)

    def test_several_numbers(self) -> None:
        """Several numbers at once: the error names the one that does not fit."""
        writer = Writer()
        layout = Struct("<BHIQ")
        fields = ("Priority", "Size", "MessageID", "Sequence")
        writer.numbers(layout, fields, 1, 2, 3, 4)
        self.assertEqual(writer.getvalue().hex(), "010200030000000400000000000000")
        for place, field in enumerate(fields):
            numbers = [1, 2, 3, 4]
            numbers[place] = 1 << 64
            error = self.assertRaises(LocalProtocolError, Writer().numbers, layout, fields, *numbers)
            self.assertEqual(str(error), f"{field}: {1 << 64} does not fit {(8, 16, 32, 64)[place]} bits")
        for numbers in ([1, 2, 3], [1, 2, 3, 4, 5]):
            self.assertRaises(ValueError, Writer().numbers, layout, fields, *numbers)

    def test_a_guid_is_written_as_the_documents_have_it(self) -> None:
        """MQDMPR-2-01: three fields little-endian, eight bytes as they are."""
        writer = Writer()
        writer.guid(UUID("557358D1-9150-9595-4997-B6E611EA26C6"))
        self.assertEqual(writer.getvalue().hex(), "d1587355509195954997b6e611ea26c6")

    def test_text_gets_its_nul(self) -> None:
        """And holds no other."""
        writer = Writer()
        writer.utf16("a🙂", "t")
        self.assertEqual(writer.getvalue(), b"a\0\x3d\xd8\x42\xde\0\0")
        for text in ("a\0b", "\0", "a\0"):
            error = self.assertRaises(LocalProtocolError, writer.utf16, text, "Label")
            self.assertEqual(str(error), "Label: the text contains a NUL")
        self.assertEqual(writer.position, 8)

    def test_padding_is_zeros(self) -> None:
        """Up to the next multiple, and none where it is one."""
        writer = Writer()
        writer.align(4)
        writer.bytes(b"abc")
        writer.align(4)
        writer.align(4)
        self.assertEqual(writer.getvalue(), b"abc\0")
        for multiple in (2, 4, 8):
            for size in range(10):
                writer = Writer()
                writer.bytes(b"\xff" * size)
                writer.align(multiple)
                self.assertEqual(
                    writer.getvalue(), (b"\xff" * size).ljust(-(-size // multiple) * multiple, b"\0")
                )

    @given(st.text(st.characters(exclude_characters="\0")))
    def test_text_round_trips(self, text: str) -> None:
        """Any text without NUL round-trips."""
        writer = Writer()
        writer.utf16(text, "t")
        self.assertEqual(Reader(writer.getvalue()).utf16(writer.position, "t"), text)
