"""Values whose type is in BodyType."""

from __future__ import annotations

from struct import pack

from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.bodies import Body, BodyNotDecoded, Limits
from msmq.decoding.bodies.activex import ActiveXDecoder

DECODER = ActiveXDecoder()


class ReadingTests(SynchronousTestCase):
    def reads(self, body_type: int, data: bytes, value: object, reading: str) -> None:
        body = Body(data, body_type)
        self.assertTrue(DECODER.recognises(body))
        decoded = DECODER.decode(body, Limits())
        self.assertEqual((decoded.value, decoded.reading), (value, reading))
        self.assertIs(type(decoded.value), type(value))

    def test_numbers(self) -> None:
        """Numbers of every size, signed and unsigned."""
        self.reads(2, pack("<h", -2), -2, "VT_I2")
        self.reads(3, pack("<i", -70000), -70000, "VT_I4")
        self.reads(4, pack("<f", 1.5), 1.5, "VT_R4")
        self.reads(5, pack("<d", 0.1), 0.1, "VT_R8")
        self.reads(5, pack("<d", float("-inf")), "-Infinity", "VT_R8")
        self.reads(17, b"\xc8", 200, "VT_UI1")
        self.reads(18, pack("<H", 65535), 65535, "VT_UI2")
        self.reads(19, pack("<I", 4000000000), 4000000000, "VT_UI4")
        self.reads(20, pack("<q", -(2**63)), -(2**63), "VT_I8")
        self.reads(21, pack("<Q", 2**64 - 1), 2**64 - 1, "VT_UI8")

    def test_numbers_with_a_point_keep_all_digits(self) -> None:
        """As text, since no float has them."""
        self.reads(6, pack("<q", -123400), "-12.34", "VT_CY")
        self.reads(6, pack("<q", 2**63 - 1), "922337203685477.5807", "VT_CY")
        self.reads(6, pack("<q", 5), "0.0005", "VT_CY")
        self.reads(14, b"\0\0\x04\x80" + bytes(4) + pack("<Q", 51200), "-5.12", "VT_DECIMAL")
        self.reads(14, bytes(4) + b"\xff" * 12, str(2**96 - 1), "VT_DECIMAL")

    def test_text(self) -> None:
        """Text of two bytes a character, with or without a terminator, and of one byte."""
        for body_type, name in ((8, "VT_BSTR"), (31, "VT_LPWSTR")):
            self.reads(body_type, "héllo".encode("utf-16-le"), "héllo", name)
            self.reads(body_type, "x\0".encode("utf-16-le"), "x", f"{name}, with its NUL")
            self.reads(body_type, b"", "", name)
        self.reads(30, b"hello\0", "hello", "VT_LPSTR")
        self.reads(30, "é".encode(), "é", "VT_LPSTR in UTF-8")
        self.reads(30, b"\xe9", "é", "VT_LPSTR in code page 1252, a guess")

    def test_a_date_is_of_net_or_of_com(self) -> None:
        """The bytes tell: what is a date of COM since 1899 would be ticks of a year after 9999."""
        ticks = " in ticks, as System.Messaging writes it"
        days = " in days, as COM writes it"
        self.reads(7, pack("<q", 639079650150000000), "2026-03-01T12:30:15", f"VT_DATE{ticks}")
        self.reads(7, pack("<q", 0), "0001-01-01T00:00:00", f"VT_DATE{ticks}")
        self.reads(7, pack("<d", 46082.521006944444), "2026-03-01T12:30:15", f"VT_DATE{days}")
        self.reads(7, pack("<d", 1.0), "1899-12-31T00:00:00", f"VT_DATE{days}")
        self.reads(7, pack("<d", -1.25), "1899-12-29T06:00:00", f"VT_DATE{days}")

    def test_a_truth_is_of_one_byte_or_two(self) -> None:
        self.reads(11, b"\xff", True, "VT_BOOL of one byte, as System.Messaging writes it")
        self.reads(11, b"\0", False, "VT_BOOL of one byte, as System.Messaging writes it")
        self.reads(11, b"\xff\xff", True, "VT_BOOL of two bytes, as COM writes it")

    def test_a_signed_byte_says_how_others_read_it(self) -> None:
        self.reads(16, b"\x05", 5, "VT_I1")
        self.reads(16, b"\xfb", -5, "VT_I1; System.Messaging reads it as 251")

    def test_other_types(self) -> None:
        guid = bytes.fromhex("33221100554477668899aabbccddeeff")
        self.reads(72, guid, "00112233-4455-6677-8899-aabbccddeeff", "VT_CLSID")
        self.reads(0x1011, b"\1\2", "AQI=", "VT_VECTOR of VT_UI1 in base64")
        self.reads(65, b"", "", "VT_BLOB in base64")
        self.reads(64, pack("<Q", 134168418150000000), "2026-03-01T12:30:15Z", "VT_FILETIME")
        self.reads(1, b"", None, "VT_NULL")


class RefusingTests(SynchronousTestCase):
    def refused(self, body_type: int, data: bytes, words: str) -> None:
        error = self.assertRaises(BodyNotDecoded, DECODER.decode, Body(data, body_type), Limits())
        self.assertIn(words, str(error))

    def test_a_size_that_the_type_has_not(self) -> None:
        """Is said, with both sizes."""
        self.refused(3, b"\0" * 5, "is a VT_I4 of 5 bytes; it has 4")
        self.refused(72, b"", "is a VT_CLSID of 0 bytes; it has 16")
        self.refused(11, b"\0" * 3, "is a VT_BOOL of 3 bytes; it has 1 or 2")
        self.refused(31, b"abc", "3 bytes, an odd number")

    def test_invalid_values(self) -> None:
        self.refused(7, b"\xff" * 8, "not a valid time")
        self.refused(7, pack("<d", 1e300), "not a valid time")
        self.refused(64, b"\xff" * 8, "after the year 9999")
        self.refused(14, b"\0\0\x1d" + bytes(13), "scale 29")

    def test_objects_and_unknown_types(self) -> None:
        """Which only their own class could make."""
        self.refused(68, b"x", "VT_STREAMED_OBJECT, which only its own class can read")
        self.refused(69, b"x", "VT_STORED_OBJECT")
        self.refused(999, b"x", "BodyType 999, which is not a COM type")
        self.assertTrue(DECODER.recognises(Body(b"", 69)))
        self.assertFalse(DECODER.recognises(Body(b"", 999)))
