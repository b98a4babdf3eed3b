"""[MS-MQMQ] 2.2.20.7: the envelope of a message over HTTP."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.packet.soap_header import SoapHeader
from msmq.wire.reader import Reader
from tests.strategies import soap_headers
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways

HEADER = "20030000030000006800690000000000"
BODY = "840300000200000062000000"


def read(text: str) -> SoapHeader:
    return SoapHeader.read(Reader(bytes.fromhex(text), base=300))


class SoapHeaderTests(SynchronousTestCase):
    """L{SoapHeader}."""

    def assert_malformed(self, text: str, field: str, offset: int) -> None:
        error = self.assertRaises(RemoteProtocolError, read, text)
        self.assertEqual(
            (error.section, error.header, error.field, error.offset),
            ("[MS-MQMQ] 2.2.20.7", "SoapHeader", field, offset),
        )

    def test_has_two_sections(self) -> None:
        """MQMQ-2.2.20.7-01, MQMQ-2.2.20.7-02: each counts its characters with the NUL, not its bytes."""
        self.assertEqual(SoapHeader("hi", "b").to_bytes().hex(), HEADER + BODY)
        self.assertEqual(read(HEADER + BODY), SoapHeader("hi", "b"))

    def test_characters_beyond_16_bits_count_twice(self) -> None:
        """A length is in 16-bit units."""
        self.assertEqual(SoapHeader("🙂", "").to_bytes()[4:8], b"\3\0\0\0")

    def test_other_sections_are_malformed(self) -> None:
        """Both identifiers, and their order, are fixed."""
        self.assert_malformed(BODY + HEADER, "HeaderSectionID", 300)
        self.assert_malformed(HEADER + HEADER, "BodySectionID", 316)

    def test_texts_end_within_the_packet_with_their_only_nul(self) -> None:
        """MQMQ-2.2.20.7-03: a length beyond the end, one of 0 and a misplaced NUL are malformed."""
        self.assert_malformed("20030000FFFFFFFF68000000", "Header", 308)
        self.assert_malformed("2003000000000000" + BODY, "Header", 308)
        self.assert_malformed("200300000200000068006900" + BODY, "Header", 308)
        self.assert_malformed(HEADER + "840300000200000000000000", "Body", 324)
        self.assertRaises(LocalProtocolError, SoapHeader("a\0b", "").to_bytes)

    @given(st.binary(min_size=2, max_size=2), st.binary(min_size=2, max_size=2))
    def test_reserved_fields_are_ignored(self, one: bytes, other: bytes) -> None:
        """MQMQ-2.2.20.7-04: both are sent as 0, and may be anything on receipt."""
        junk = HEADER[:4] + one.hex() + HEADER[8:] + BODY[:4] + other.hex() + BODY[8:]
        self.assertEqual(read(junk), SoapHeader("hi", "b"))

    @given(soap_headers)
    def test_every_header_round_trips(self, header: SoapHeader) -> None:
        """It is read completely, not from any prefix, and with trailing bytes."""
        assert_read_three_ways(self, header)

    @given(st.binary(max_size=40))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(SoapHeader.read, data)
        assert_only_remote_errors(SoapHeader.read, bytes.fromhex(HEADER) + data)
