"""[MS-DTYP] 2.4.2: SIDs as bytes and as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.wire.sid import format_sid, parse_sid
from tests.vectors import vector


class SidTests(SynchronousTestCase):
    """L{format_sid} and L{parse_sid}."""

    def test_the_sender_of_the_document(self) -> None:
        """The SID of frame 7."""
        data = vector("mqqb-4.1.7-user-message")[108:136]
        text = "S-1-5-21-3181267629-1039849782-3663111779-1000"
        self.assertEqual(format_sid(data), text)
        self.assertEqual(parse_sid(text), data)

    def test_well_known_accounts(self) -> None:
        """The authority is big-endian, what follows is little-endian."""
        for text, data in (
            ("S-1-0-0", "010100000000000000000000"),
            ("S-1-5-18", "010100000000000512000000"),
            ("S-1-5-32-544", "01020000000000052000000020020000"),
            ("S-1-5", "0100000000000005"),
        ):
            self.assertEqual(format_sid(bytes.fromhex(data)), text)
            self.assertEqual(parse_sid(text).hex(), data)

    def test_a_large_authority_is_hexadecimal(self) -> None:
        """From 2**32 on, twelve digits."""
        self.assertEqual(format_sid(bytes.fromhex("01000100000000ff")), "S-1-0x0100000000FF")
        self.assertEqual(format_sid(bytes.fromhex("01000000ffffffff")), "S-1-4294967295")
        self.assertEqual(parse_sid("S-1-0x0100000000FF").hex(), "01000100000000ff")

    def test_the_largest_sid(self) -> None:
        """Fifteen parts of 32 bits and an authority of 48 bits, which may be decimal in text."""
        data = bytes.fromhex("010fffffffffffff") + b"\xff" * 60
        parts = "-4294967295" * 15
        self.assertEqual(format_sid(data), f"S-1-0xFFFFFFFFFFFF{parts}")
        for authority in ("0xFFFFFFFFFFFF", "0xffffffffffff", "281474976710655"):
            self.assertEqual(parse_sid(f"S-1-{authority}{parts}"), data)
        self.assertEqual(parse_sid("S-1-4294967296").hex(), "0100000100000000")
        self.assertEqual(parse_sid("S-1-0x000000000010").hex(), "0100000000000010")

    def test_other_bytes_are_refused(self) -> None:
        """Too few, too many, another revision, more than fifteen parts."""
        for data, problem in (
            (b"", "0 bytes are not a SID"),
            (b"\1" + bytes(6), "7 bytes are not a SID"),
            (bytes(8), "8 bytes with revision 0 and 0 parts are not a SID"),
            (bytes.fromhex("0101000000000005"), "8 bytes with revision 1 and 1 parts are not a SID"),
            (bytes.fromhex("01010000000000051200"), "10 bytes with revision 1 and 1 parts are not a SID"),
            (bytes.fromhex("010000000000000500000000"), "12 bytes with revision 1 and 0 parts are not a SID"),
            (bytes.fromhex("020100000000000512000000"), "12 bytes with revision 2 and 1 parts are not a SID"),
            (
                bytes.fromhex("0110000000000005") + bytes(64),
                "72 bytes with revision 1 and 16 parts are not a SID",
            ),
        ):
            self.assertEqual(str(self.assertRaises(ValueError, format_sid, data)), problem)

    def test_other_text_is_refused(self) -> None:
        """Another revision, parts that are too large or too many, and what is not a SID at all."""
        for text in (
            "",
            "S-2-5-18",
            "S-1",
            "S-1-5-",
            "S-1-5-4294967296",
            "S-1-5-4294967295-4294967296",
            "S-1-281474976710656",
            "S-1-0x5-18",
            "S-1-5" + "-1" * 16,
            "S-1-5-18 ",
            "S-1-5-\u0661",
        ):
            error = self.assertRaises(ValueError, parse_sid, text)
            self.assertTrue(str(error).startswith("not a SID: '"), text)

    @given(st.integers(0, (1 << 48) - 1), st.lists(st.integers(0, 0xFFFFFFFF), max_size=15))
    def test_every_sid_comes_back(self, authority: int, parts: list[int]) -> None:
        """From bytes to text and back."""
        data = bytes([1, len(parts)]) + authority.to_bytes(6, "big")
        data += b"".join(part.to_bytes(4, "little") for part in parts)
        self.assertEqual(parse_sid(format_sid(data)), data)

    @given(st.binary(max_size=80))
    def test_any_bytes_are_a_sid_or_refused(self, data: bytes) -> None:
        """With no other error."""
        try:
            format_sid(data)
        except ValueError:
            pass
