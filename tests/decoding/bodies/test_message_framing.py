"""Messages of WCF."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.bodies import Body, BodyNotDecoded, DecodedBody, Limits
from msmq.decoding.bodies.message_framing import MessageFramingDecoder
from tests.decoding.bodies.vectors import vectors

VIA = b"net.msmq://host/private/orders"
SOAP = vectors()["soap"].data
TEXT = b"<Envelope><Body>x</Body></Envelope>"


def frame(mode: int, encoding: bytes, rest: bytes) -> bytes:
    return b"\0\1\0\1" + bytes((mode, 2, len(VIA))) + VIA + encoding + rest


def sized(envelope: bytes) -> bytes:
    size = len(envelope)
    return b"\6" + (bytes((size,)) if size < 128 else bytes((size & 0x7F | 0x80, size >> 7))) + envelope


def decode(data: bytes, limits: Limits | None = None) -> DecodedBody:
    return MessageFramingDecoder().decode(Body(data), limits or Limits())


class ReadingTests(SynchronousTestCase):
    def test_a_single_message(self) -> None:
        """[MC-NMF] 3.1.1.1.4: what is behind the encoding is the envelope."""
        body = Body(frame(4, b"\3\7", SOAP), 0)
        self.assertTrue(MessageFramingDecoder().recognises(body))
        decoded = decode(body.data)
        self.assertEqual(decoded.value["Envelope"]["Header"]["Action"]["#text"], "urn:shop/Place")
        self.assertEqual(decoded.reading, "WCF message, binary")
        self.assertEqual(decoded.envelope, "wcf")
        self.assertEqual(
            decoded.headers, {"via": VIA.decode(), "mode": "Singleton-Sized", "encoding": "binary"}
        )

    def test_the_messages_of_a_session(self) -> None:
        """[MC-NMF] 3.1.1.1.3: each envelope with its size, up to the end."""
        one = decode(frame(3, b"\3\7", b"\x0c" + sized(SOAP) + b"\7"))
        self.assertEqual(one.value["Envelope"]["Header"]["Action"]["#text"], "urn:shop/Place")
        two = decode(frame(3, b"\3\7", b"\x0c" + sized(SOAP) * 2 + b"\7"))
        self.assertEqual(two.value, [one.value, one.value])
        self.assertEqual(decode(frame(3, b"\3\7", b"\x0c" + sized(SOAP))).value, one.value)

    def test_the_messages_of_a_session_share_their_strings(self) -> None:
        """[MC-NBFSE] 2.1: a string is written once, and keeps its number in what follows."""
        first = b"\x09\5Order\2Id" + b"\x42\1\x42\3\x99\x017\1"
        second = b"\x05\4Note" + b"\x42\1\x42\3\x99\x018\x42\5\1\1"
        session = b"\x0c" + sized(first) + sized(second) + b"\7"
        self.assertEqual(
            decode(frame(3, b"\3\x08", session)).value,
            [{"Order": {"Id": "7"}}, {"Order": {"Id": "8", "Note": ""}}],
        )

    def test_encodings(self) -> None:
        """Known ones by their number, others by their content type."""
        expected = {"Envelope": {"Body": "x"}}
        self.assertEqual(decode(frame(4, b"\3\3", TEXT)).value, expected)
        self.assertEqual(decode(frame(4, b"\3\5", TEXT.decode().encode("utf-16-le"))).value, expected)
        for content_type in (b"text/xml; charset=utf-8", b"Application/SOAP+XML"):
            encoding = b"\4" + bytes((len(content_type),)) + content_type
            self.assertEqual(decode(frame(4, encoding, TEXT)).value, expected)
        table = b"\3\2Bo" + b"\x42\2\x42\1\x99\1x\1"
        self.assertEqual(decode(frame(4, b"\3\x08", table)).value, {"Envelope": {"Bo": "x"}})


class DamagedTests(SynchronousTestCase):
    def refused(self, data: bytes, words: str, limits: Limits | None = None) -> None:
        error = self.assertRaises(BodyNotDecoded, decode, data, limits)
        self.assertIn(words, str(error))

    def test_a_message_that_is_cut_short_is_refused_wherever_it_is_cut(self) -> None:
        """The end of a session alone may be missing: it need not be in the same message."""
        for data in (frame(4, b"\3\7", SOAP), frame(3, b"\3\7", b"\x0c" + sized(SOAP))):
            for size in range(len(data)):
                self.assertRaises(BodyNotDecoded, decode, data[:size])

    def test_frames_that_are_for_no_message_are_refused(self) -> None:
        """Modes that need a connection, and unknown versions and encodings, are refused."""
        self.refused(frame(2, b"\3\7", SOAP), "Mode at offset 4: 2 is not for messages")
        self.refused(b"\0\2" + frame(4, b"\3\7", SOAP)[2:], "is 2.0, not 1.0")
        self.refused(frame(4, b"\3\x09", SOAP), "is 9, which is not an encoding")
        self.refused(frame(4, b"\3\6", SOAP), "MTOM, which is not supported")
        self.refused(frame(4, b"\4\3a/b", SOAP), "'a/b', which is not supported")
        self.refused(frame(4, b"\5\0", SOAP), "is not an encoding")
        self.refused(frame(3, b"\3\7", sized(SOAP)), "not PREAMBLE_END")
        self.refused(frame(3, b"\3\7", b"\x0c\5"), "0x05 is not an envelope")
        self.refused(b"\0\1\0\1\4\2\2\xff\xff\3\7", "not UTF-8")

    def test_a_small_message_has_no_long_text(self) -> None:
        """The expansion of a repeated name is limited by the size of the message."""
        table = b"\xae\2\xac\2" + b"n" * 300
        document = table + b"\x40\1r" + b"\x40\1a\x42\1\1\1" * 8000 + b"\1"
        self.refused(frame(4, b"\3\x08", document), "characters")
        value = decode(frame(4, b"\3\x08", document.replace(b"\x40\1a\x42\1\1\1", b"", 7800))).value
        self.assertEqual(len(value["r"]["a"]), 200)

    def test_the_messages_of_a_session_share_the_limits(self) -> None:
        self.refused(frame(3, b"\3\3", b"\x0c" + sized(b"<a/>") * 50), "more than 40 items", Limits(items=40))
