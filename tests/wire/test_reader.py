"""L{Reader}: nothing is read that is not there."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.wire.reader import Reader

GUID_BYTES = bytes.fromhex("d1587355509195954997b6e611ea26c6")


class Color(IntEnum):
    """An enumeration with few valid numbers."""

    RED = 1
    GREEN = 2


class ReaderTests(SynchronousTestCase):
    """L{Reader}."""

    def test_numbers_are_little_endian(self) -> None:
        """Numbers of every size, signed and unsigned."""
        self.assertEqual(Reader(b"\x81").u8("n"), 0x81)
        self.assertEqual(Reader(b"\x01\x82").u16("n"), 0x8201)
        self.assertEqual(Reader(b"\x01\x02\x03\x84").u32("n"), 0x84030201)
        self.assertEqual(Reader(b"\x01\x02\x03\x04\x05\x06\x07\x88").u64("n"), 0x8807060504030201)
        self.assertEqual(Reader(b"\xfe" + b"\xff" * 7).i64("n"), -2)
        self.assertEqual(Reader(b"\x01\x00\x02").unpack(Struct("<HB"), "n"), (1, 2))

    def test_reads_one_after_the_other(self) -> None:
        """Position and remaining bytes move along."""
        reader = Reader(b"\x01\x02\x00rest")
        self.assertEqual((reader.u8("a"), reader.u16("b")), (1, 2))
        self.assertEqual((reader.position, reader.remaining), (3, 4))
        reader.skip(1, "c")
        self.assertEqual(bytes(reader.view(2, "d")), b"es")
        self.assertEqual(reader.bytes(1, "e"), b"t")
        self.assertEqual(reader.remaining, 0)

    def test_a_guid_is_read_as_the_documents_print_it(self) -> None:
        """Three fields little-endian, eight bytes as they are."""
        guid = Reader(GUID_BYTES).guid("QMGuid")
        self.assertEqual(guid, UUID("557358D1-9150-9595-4997-B6E611EA26C6"))

    def test_the_end_is_the_end(self) -> None:
        """Every read names its field and where it begins when too few bytes are left."""
        for read in (
            lambda reader: reader.u8("f"),
            lambda reader: reader.u16("f"),
            lambda reader: reader.u32("f"),
            lambda reader: reader.u64("f"),
            lambda reader: reader.i64("f"),
            lambda reader: reader.guid("f"),
            lambda reader: reader.bytes(1, "f"),
            lambda reader: reader.view(1, "f"),
            lambda reader: reader.skip(1, "f"),
            lambda reader: reader.utf16(2, "f"),
            lambda reader: reader.unpack(Struct("<H"), "f"),
        ):
            reader = Reader(b"ab", base=100)
            reader.skip(2, "start")
            error = self.assertRaises(RemoteProtocolError, read, reader)
            self.assertEqual((error.field, error.offset), ("f", 102))
            self.assertEqual((error.section, error.header), ("[MS-MQMQ] 2.2", "Packet"))
            self.assertRegex(error.rule, "^needs [0-9]+ bytes where 0 remain$")

    def test_one_byte_is_missing(self) -> None:
        """All that is left can be read; with a byte less the error says how many bytes are needed."""
        for size, read in (
            (1, lambda reader: reader.u8("f")),
            (2, lambda reader: reader.u16("f")),
            (4, lambda reader: reader.u32("f")),
            (8, lambda reader: reader.u64("f")),
            (8, lambda reader: reader.i64("f")),
            (16, lambda reader: reader.guid("f")),
            (5, lambda reader: reader.bytes(5, "f")),
            (5, lambda reader: reader.view(5, "f")),
            (5, lambda reader: reader.skip(5, "f")),
            (4, lambda reader: reader.utf16(4, "f")),
            (3, lambda reader: reader.unpack(Struct("<HB"), "f")),
        ):
            data = b"\1" * 7 + "a\0".encode("utf-16-le") * 4
            reader = Reader(data[: 7 + size])
            reader.skip(7, "start")
            read(reader)
            self.assertEqual((reader.position, reader.remaining), (7 + size, 0))
            reader = Reader(data[: 7 + size - 1])
            reader.skip(7, "start")
            error = self.assertRaises(RemoteProtocolError, read, reader)
            self.assertEqual(error.rule, f"needs {size} bytes where {size - 1} remain")
            self.assertEqual((error.offset, reader.position), (7, 7))

    def test_what_fails_is_not_consumed(self) -> None:
        """The position stays."""
        reader = Reader(b"abc")
        self.assertRaises(RemoteProtocolError, reader.u32, "f")
        self.assertEqual(reader.bytes(3, "f"), b"abc")

    def test_errors_name_the_innermost_structure(self) -> None:
        """And the outer one again behind it."""
        reader = Reader(b"")
        with reader.header("Outer", "[MS-X] 1"):
            with reader.header("Inner", "[MS-X] 1.1"):
                inner = reader.malformed("F", "is wrong")
            outer = reader.malformed("G", "is wrong", offset=7)
        self.assertEqual(
            (inner.section, inner.header, inner.field, inner.offset), ("[MS-X] 1.1", "Inner", "F", 0)
        )
        self.assertEqual((outer.section, outer.header, outer.offset), ("[MS-X] 1", "Outer", 7))
        self.assertEqual(str(outer), "[MS-X] 1 Outer.G at offset 7: is wrong")

    def test_the_name_is_restored_behind_an_error(self) -> None:
        """A reader can go on where one structure failed."""
        reader = Reader(b"")
        with reader.header("Outer", "[MS-X] 1"):
            with self.assertRaises(RemoteProtocolError), reader.header("Inner", "[MS-X] 1.1"):
                reader.u8("F")
            self.assertEqual(reader.malformed("G", "").header, "Outer")

    def test_a_number_stands_for_a_member(self) -> None:
        """Or for none, which is said of the field that holds it."""
        reader = Reader(b"")
        self.assertIs(reader.member(Color, 2, "Color", "is not a color", offset=3), Color.GREEN)
        with reader.header("Header", "[MS-X] 1"):
            error = self.assertRaises(
                RemoteProtocolError, reader.member, Color, 5, "Color", "5 is not a color", offset=3
            )
        self.assertEqual(str(error), "[MS-X] 1 Header.Color at offset 3: 5 is not a color")

    def test_a_part_ends_where_its_length_says(self) -> None:
        """No read exceeds the part, although bytes follow."""
        reader = Reader(b"abcdef")
        with reader.confined(2, "Size"):
            self.assertEqual(reader.remaining, 2)
            self.assertRaises(RemoteProtocolError, reader.bytes, 3, "f")
            reader.skip(2, "f")
        self.assertEqual(reader.bytes(4, "rest"), b"cdef")

    def test_a_part_is_used_up(self) -> None:
        """Unread bytes are malformed, except the allowed padding."""
        reader = Reader(b"abcdef")
        with self.assertRaises(RemoteProtocolError) as caught, reader.confined(4, "Size"):
            reader.skip(3, "f")
        self.assertEqual(caught.exception.field, "Size")
        reader = Reader(b"abcdef")
        with reader.confined(4, "Size", slack=3):
            reader.skip(1, "f")
        self.assertEqual(reader.bytes(2, "rest"), b"ef")

    def test_a_part_is_no_longer_than_what_is_left(self) -> None:
        """Also within another part."""
        reader = Reader(b"abcdef")
        with reader.confined(3, "Outer", slack=3):
            with self.assertRaises(RemoteProtocolError) as caught, reader.confined(4, "Inner"):
                self.fail("entered")
            self.assertEqual(caught.exception.field, "Inner")

    def test_what_is_wrong_with_a_part(self) -> None:
        """The error says how long the part is declared to be, and where; the reader goes on behind it."""
        reader = Reader(b"abcdef", base=10)
        reader.skip(1, "f")
        with self.assertRaises(RemoteProtocolError) as caught, reader.confined(6, "Size"):
            self.fail("entered")
        self.assertEqual(caught.exception.rule, "declares 6 bytes where 5 remain")
        self.assertEqual((caught.exception.field, caught.exception.offset), ("Size", 11))
        for slack, left in ((0, 1), (1, 2), (3, 4)):
            reader = Reader(b"abcdef")
            with self.assertRaises(RemoteProtocolError) as caught, reader.confined(4, "Size", slack=slack):
                reader.skip(4 - left, "f")
            self.assertEqual(caught.exception.rule, f"declares 4 bytes, of which {left} are unused")
            self.assertEqual(reader.remaining, 6 - (4 - left))
        for size in (0, 4, 6):
            reader = Reader(b"abcdef")
            with reader.confined(size, "Size"):
                self.assertEqual(reader.remaining, size)
                reader.skip(size, "f")
            self.assertEqual((reader.position, reader.remaining), (size, 6 - size))

    def test_an_error_within_a_part(self) -> None:
        """It is not covered by the bytes that are left unread, and what follows can be read."""
        reader = Reader(b"abcdef")
        with self.assertRaises(RemoteProtocolError) as caught, reader.confined(4, "Size"):
            reader.bytes(5, "f")
        self.assertEqual((caught.exception.field, caught.exception.offset), ("f", 0))
        self.assertEqual((reader.position, reader.remaining), (0, 6))

    def test_where_a_structure_begins(self) -> None:
        """A named block has its offset in the packet."""
        reader = Reader(b"abcdef", base=100)
        reader.skip(3, "f")
        with reader.header("Header", "[MS-X] 1") as start:
            self.assertEqual(start, 103)
            error = reader.malformed("F", "is wrong")
        self.assertEqual((error.section, error.header, error.offset), ("[MS-X] 1", "Header", 103))
        self.assertEqual(reader.malformed("F", "is wrong", offset=0).offset, 0)

    def test_text_ends_with_its_only_nul(self) -> None:
        """Which is not part of it."""
        self.assertEqual(Reader("aĀ🙂\0".encode("utf-16-le")).utf16(10, "t"), "aĀ🙂")
        self.assertEqual(Reader(b"\0\0").utf16(2, "t"), "")
        for data in (b"", b"a", b"a\0", b"\0\0a\0", b"\0\0\0\0", b"a\0\0"):
            error = self.assertRaises(RemoteProtocolError, Reader(data, base=5).utf16, len(data), "t")
            self.assertEqual((error.field, error.offset), ("t", 5))
            is_cut = len(data) < 2 or len(data) % 2
            rule = (
                f"{len(data)} bytes are not NUL-terminated UTF-16 text"
                if is_cut
                else "has a NUL before its end"
            )
            self.assertEqual(error.rule, rule)

    def test_half_a_pair_is_kept(self) -> None:
        """Windows does not forbid it."""
        self.assertEqual(Reader(b"\x00\xd8\0\0").utf16(4, "t"), "\ud800")

    def test_padding_may_be_anything(self) -> None:
        """It is counted from the beginning of the packet, not of the reader."""
        reader = Reader(b"a\xff\xff\xffbcde")
        reader.skip(1, "f")
        reader.align(4)
        reader.align(4)
        self.assertEqual(reader.position, 4)
        shifted = Reader(b"\xff\xffab", base=6)
        shifted.align(4)
        self.assertEqual(shifted.bytes(2, "f"), b"ab")

    def test_padding_is_there(self) -> None:
        """A packet ends behind it, not before."""
        reader = Reader(b"abc")
        reader.skip(1, "f")
        error = self.assertRaises(RemoteProtocolError, reader.align, 4)
        self.assertEqual((error.field, error.offset), ("Padding", 1))

    @given(st.binary(max_size=12), st.integers(0, 14))
    def test_bytes_are_read_or_missing(self, data: bytes, size: int) -> None:
        """As many as asked for, or none."""
        reader = Reader(data)
        if size <= len(data):
            self.assertEqual(reader.bytes(size, "f"), data[:size])
        else:
            self.assertRaises(RemoteProtocolError, reader.bytes, size, "f")

    @given(st.binary(max_size=12))
    def test_any_bytes_are_text_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        try:
            text = Reader(data).utf16(len(data), "t")
        except RemoteProtocolError:
            return
        self.assertEqual((text + "\0").encode("utf-16-le", "surrogatepass"), data)
