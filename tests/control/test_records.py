"""The records of the control API."""

from __future__ import annotations

import json
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.control.protocol.records import RecordDecoder, RecordLimits, StreamRecord
from msmq.errors import LocalProtocolError, RemoteProtocolError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
RECORDS = st.builds(StreamRecord, st.dictionaries(st.text(), VALUES, max_size=4), st.binary(max_size=40))


def raw(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack("<II", len(header), len(body)) + header + body


class RecordTests(SynchronousTestCase):
    """One record as bytes."""

    def test_layout_is_lengths_header_body(self) -> None:
        """Two little-endian lengths come first, then the header in JSON, then the body as it is."""
        self.assertEqual(StreamRecord({"id": 7}, b"\xff\0").to_bytes(), b'\x08\0\0\0\x02\0\0\0{"id":7}\xff\0')

    def test_header_beyond_json_is_our_mistake(self) -> None:
        """A value that JSON cannot say is refused before anything is written."""
        with self.assertRaises(LocalProtocolError):
            StreamRecord({"body": b"bytes"}).to_bytes()


class RecordDecoderTests(SynchronousTestCase):
    """A stream of records, cut at any byte."""

    def decode(self, *chunks: bytes, limits: RecordLimits | None = None) -> list[StreamRecord]:
        decoder = RecordDecoder(limits)
        records = [record for chunk in chunks for record in decoder.feed(chunk)]
        decoder.finish()
        return records

    def error(self, *chunks: bytes, limits: RecordLimits | None = None) -> RemoteProtocolError:
        with self.assertRaises(RemoteProtocolError) as raised:
            self.decode(*chunks, limits=limits)
        error: RemoteProtocolError = raised.exception
        return error

    @given(st.lists(RECORDS, max_size=4), st.data())
    def test_any_records_come_out_of_any_chunks(self, records: list[StreamRecord], data: Any) -> None:
        """Any records arrive, for any division of the stream into chunks."""
        stream = b"".join(record.to_bytes() for record in records)
        cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=5)))
        chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        self.assertEqual(self.decode(*chunks), records)

    def test_byte_by_byte(self) -> None:
        """A record is there with its last byte and not before."""
        record = StreamRecord({"label": "r\u00e9sum\u00e9"}, b"body")
        decoder = RecordDecoder()
        *most, last = (bytes([byte]) for byte in record.to_bytes())
        self.assertEqual([found for byte in most for found in decoder.feed(byte)], [])
        self.assertEqual(decoder.feed(last), [record])

    @given(st.integers(1, 25))
    def test_cut_short(self, missing: int) -> None:
        """A stream that ends inside a record is distinguished from one that ends between two."""
        stream = StreamRecord({"a": 1}, b"0123456789").to_bytes()
        self.assertEqual(len(stream), 25)
        self.decode(stream)
        if missing < len(stream):
            self.assertIn("ends inside", self.error(stream[:-missing]).rule)

    @given(st.binary(max_size=60))
    def test_garbage_is_one_error(self, rubbish: bytes) -> None:
        """Any bytes are records or the one error, and never anything else."""
        try:
            self.decode(rubbish, limits=RecordLimits(header=30, body=30))
        except RemoteProtocolError as error:
            self.assertEqual(error.header, "Record")

    def test_good_records_before_a_bad_one_arrive(self) -> None:
        """An error does not swallow what came whole before it, even in one chunk."""
        good = StreamRecord({"n": 1})
        decoder = RecordDecoder()
        self.assertEqual(decoder.feed(good.to_bytes() + raw(b"[]")), [good])
        with self.assertRaises(RemoteProtocolError) as raised:
            decoder.finish()
        self.assertEqual(raised.exception.offset, len(good.to_bytes()))
        with self.assertRaises(RemoteProtocolError):
            decoder.feed(good.to_bytes())

    def test_long_header_is_refused_by_its_length(self) -> None:
        """A length over the limit is enough; the bytes that it announces are not waited for."""
        error = self.error(struct.pack("<II", 101, 0), limits=RecordLimits(header=100))
        self.assertEqual((error.field, error.offset), ("header length", 0))
        self.assertIn("limit of 100 bytes", error.rule)

    def test_long_body_is_refused_by_its_length(self) -> None:
        """A body one byte over 4 MiB is refused, and one of 4 MiB is not."""
        self.assertEqual(self.error(struct.pack("<II", 2, 0x400001)).field, "body length")
        [record] = self.decode(raw(b"{}", bytes(0x400000)))
        self.assertEqual(len(record.body), 0x400000)

    def test_header_must_be_a_json_object(self) -> None:
        """Neither other JSON, nor broken JSON, nor other bytes are a header."""
        for header in (b"", b"[]", b"null", b"{", b'{"a":1}x', b"\xff\xfe", b'{"a":"\xff"}', b"[" * 5000):
            with self.subTest(header=header[:10]):
                self.assertEqual(self.error(raw(header)).field, "header")

    def test_equal_headers_are_parsed_once(self) -> None:
        """A stream of similar messages shares one header, which readers may rely on."""
        header = json.dumps({"destination": "x"}).encode()
        first, second, third = self.decode(raw(header, b"1") + raw(header, b"2") + raw(b"{}"))
        self.assertIs(first.header, second.header)
        self.assertEqual(third.header, {})
