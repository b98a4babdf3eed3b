"""Hex text as people paste it."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.hex_text import looks_like_hex, parse_hex
from msmq.errors import RemoteProtocolError

XXD = """\
00000000: 1000 0300 4c49 4f52 b008 0000 0046 0500  ....LIOR.....F..
00000010: d158 7355 50                             .XsUP
"""
HEXDUMP = """\
00000000  10 00 03 00 4c 49 4f 52  b0 08 00 00 00 46 05 00  |....LIOR.....F..|
00000010  d1 58 73 55 50                                    |.XsUP|
00000015
"""
DUMPED = bytes.fromhex("100003004c494f52b008000000460500d158735550")


class ParseHexTests(SynchronousTestCase):
    def test_digits_may_be_grouped(self) -> None:
        """White space, line breaks, colons, commas, hyphens, 0x and \\x are ignored."""
        for text in (
            "10000b00",
            "10 00 0B 00\n",
            "10:00:0b:00",
            "10-00-0b-00",
            "0x10, 0x00, 0x0b, 0x00",
            "0x10000b00",
            "\\x10\\x00\\x0b\\x00",
            "1000\r\n\t0b\n\n00",
            "1 0 0 0 0 b 0 0",
        ):
            self.assertEqual(parse_hex(text), b"\x10\x00\x0b\x00", text)

    def test_a_dump_is_read_without_its_offsets_and_characters(self) -> None:
        """The output of xxd and of hexdump -C gives the bytes that were dumped."""
        self.assertEqual(parse_hex(XXD), DUMPED)
        self.assertEqual(parse_hex(HEXDUMP), DUMPED)

    def test_equal_lines_of_a_dump(self) -> None:
        """A line with an asterisk stands for lines that are equal to the one before."""
        text = (
            "00000000  5a 5a 5a 5a 5a 5a 5a 5a  5a 5a 5a 5a 5a 5a 5a 5a  |ZZZZZZZZZZZZZZZZ|\n*\n"
            "00000200  10 00                                             |..|\n00000202\n"
        )
        self.assertEqual(parse_hex(text), b"\x5a" * 512 + b"\x10\0")
        for wrong in (
            "*\n" + text,
            text.replace("00000200", "00000008"),
            text.replace("00000200", "ffffffff"),
        ):
            self.assertRaises(RemoteProtocolError, parse_hex, wrong)

    def test_characters_that_look_like_digits_are_no_bytes(self) -> None:
        """Next to 61 62 63 64 stands abcd, in whole lines and in the last one."""
        text = "00000000: 6162 6364 3132 3334  abcd1234\n00000008: 6566                 ef\n"
        self.assertEqual(parse_hex(text), b"abcd1234ef")

    def test_bytes_may_stand_in_two_columns(self) -> None:
        """Capture tools leave a wider space after eight bytes, and three before the characters."""
        text = (
            "0000   10 00 0b 00 4c 49 4f 52  20 00 00 00 ff ff ff ff   ....LIOR .......\n"
            "0010   00 00 03 00 d8 05 00 00  c0 d4   ..........\n"
        )
        expected = "10000b004c494f5220000000ffffffff00000300d8050000c0d4"
        self.assertEqual(parse_hex(text).hex(), expected)

    def test_lines_that_count_nothing_are_no_dump(self) -> None:
        """A first group of digits that is not the offset of its line belongs to the bytes."""
        self.assertEqual(parse_hex("1000 0b00\n1000 0b00\n"), bytes.fromhex("10000b0010000b00"))
        self.assertEqual(parse_hex("0000 0b00"), bytes.fromhex("00000b00"))

    def test_what_only_begins_like_a_dump_is_none(self) -> None:
        """An offset without bytes is read as digits; one without digits is an error."""
        self.assertEqual(parse_hex("00000000\n00000000: 1000\n"), bytes(8) + b"\x10\0")
        for text in (
            "00000000: zz\n",
            "00000000: 10 |zz|\n00000003: 10\n",
            "00000000: 1x |zz|\n00000001: 10",
        ):
            error = self.assertRaises(RemoteProtocolError, parse_hex, text)
            self.assertEqual(error.header, "HexText")

    def test_comments_are_left_out(self) -> None:
        """A line that begins with # says nothing."""
        self.assertEqual(parse_hex("# frame 3\n10 00\n# more: xyz\n0b\n"), b"\x10\x00\x0b")

    def test_empty_text(self) -> None:
        """Empty text has no bytes."""
        self.assertEqual(parse_hex(" \n"), b"")

    def test_other_characters_have_their_position(self) -> None:
        """The error names the line, and the offset of the character in the text."""
        error = self.assertRaises(RemoteProtocolError, parse_hex, "10 00\n0b zz\n")
        self.assertEqual((error.header, error.field, error.offset), ("HexText", "digits", 9))
        self.assertIn("line 2", error.rule)

    def test_half_a_byte_is_an_error(self) -> None:
        """An odd number of digits is not a number of bytes."""
        self.assertRaises(RemoteProtocolError, parse_hex, "10 0")

    def test_what_only_unicode_calls_white_space_is_an_error(self) -> None:
        """Whether it stands in a dump with its characters, or in one without."""
        for text in (HEXDUMP, HEXDUMP.replace("|", " ")):
            digits = text.index("  ") + 4
            spoilt = text[:digits] + "\x1f" + text[digits + 1 :]
            self.assertRaises(RemoteProtocolError, parse_hex, spoilt)

    def test_long_lines_are_read_in_one_go(self) -> None:
        """Whether they are full of blanks or of columns."""
        self.assertFalse(looks_like_hex(b"0000 x" + b" " * 1_000_000 + b"y\n0001 22\n"))
        columns = "41  " * 200_000
        self.assertEqual(parse_hex(f"0000  {columns}\n30d40  42\n"), b"A" * 200_000 + b"B")

    @given(st.binary(max_size=80), st.sampled_from(["", " ", ":", "\n"]))
    def test_every_byte_string_comes_back(self, data: bytes, separator: str) -> None:
        """Bytes written as hex are read as the same bytes."""
        self.assertEqual(parse_hex(separator.join(f"{byte:02x}" for byte in data)), data)

    @given(st.text(st.sampled_from("0123456789abcdefx: \n|#-.zé\x1f\xa0\u2028"), max_size=60))
    def test_any_text_is_hex_or_an_error(self, text: str) -> None:
        """Any text is decoded or raises the error of malformed input."""
        try:
            parse_hex(text)
        except RemoteProtocolError:
            pass


class LooksLikeHexTests(SynchronousTestCase):
    def test_hex_text_does(self) -> None:
        """Text of digits and a dump are recognised."""
        self.assertTrue(looks_like_hex(b"10 00 0b 00\n"))
        self.assertTrue(looks_like_hex(HEXDUMP.encode()))

    def test_packets_do_not(self) -> None:
        """Neither raw bytes, nor other text, nor nothing is hex text."""
        for data in (DUMPED, b"", b"hello", b"\xff\xfe"):
            self.assertFalse(looks_like_hex(data))
