"""Which decoder reads what, headers in extensions, and that nothing raises."""

from __future__ import annotations

import json
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from msmq.decoding.bodies import (
    Body,
    BodyDecoders,
    BodyNotDecoded,
    DecodedBody,
    IBodyDecoder,
    Limits,
    extension_headers,
)
from msmq.decoding.bodies.decoder_choice import STANDARD
from tests.decoding.bodies.vectors import vectors

NSERVICEBUS = (
    b'<?xml version="1.0"?><ArrayOfHeaderInfo xmlns:xsi="urn:x">'
    b"<HeaderInfo><Key>NServiceBus.MessageId</Key><Value>7\\0</Value></HeaderInfo>"
    b'<HeaderInfo><Key>NServiceBus.ReplyTo</Key><Value xsi:nil="true"/></HeaderInfo>'
    b"</ArrayOfHeaderInfo>"
)
HEADERS = {"NServiceBus.MessageId": "7\\0", "NServiceBus.ReplyTo": None}
DECODERS = BodyDecoders()


@implementer(IBodyDecoder)
class Shouting:
    """A format of a plugin, whose decoder has a fault."""

    name = "shouting"

    def recognises(self, body: Body) -> bool:
        return body.data[0] == ord("!")

    def decode(self, body: Body, limits: Limits) -> DecodedBody:
        if body.data == b"!!":
            raise ZeroDivisionError("at last")
        if body.data == b"!n":
            return DecodedBody(self.name, "shouting", [float("nan")])
        if body.data == b"!o":
            return DecodedBody(self.name, "shouting", {"at": object()})
        if body.data.endswith(b"?"):
            raise BodyNotDecoded(f"asks {body.data[1:].decode()}")
        return DecodedBody(self.name, "shouting", body.data.decode().upper())


class ChoosingTests(SynchronousTestCase):
    def format_of(self, data: bytes, body_type: int = 0) -> str | None:
        outcome = DECODERS.decode(Body(data, body_type))
        self.assertEqual(outcome.error, "")
        assert outcome.decoded is not None
        return outcome.decoded.format

    def test_each_format_is_recognised_by_its_body(self) -> None:
        """Or by its BodyType, where that has a value."""
        self.assertEqual(self.format_of(b"<a/>"), "xml")
        self.assertEqual(self.format_of(b'{"a": 1}'), "json")
        self.assertEqual(self.format_of(b"hello"), "text")
        self.assertEqual(self.format_of(b""), "text")
        self.assertEqual(self.format_of(b"h\0i\0", 8), "activex")
        self.assertEqual(self.format_of(vectors()["nrbf-string"].data), "nrbf")
        self.assertEqual(self.format_of(vectors()["nrbf-string"].data, 768), "nrbf")
        self.assertEqual(self.format_of(b"\xff\xfeh\0i\0"), "text")

    def test_any_bytes(self) -> None:
        """A body may be the memoryview that a packet gives, or a bytearray, and its extension too."""
        for body_type, data in ((0, b"<a>1</a>"), (0, b'{"a": 1}'), (0, b"hello"), (2, b"\1\0"), (65, b"x")):
            expected = DECODERS.decode(Body(data, body_type, b'{"id": 7}'))
            self.assertEqual(expected.error, "")
            for kind in (memoryview, bytearray):
                body = Body(cast(bytes, kind(data)), body_type, cast(bytes, kind(b'{"id": 7}')))
                self.assertEqual(DECODERS.decode(body), expected, kind)

    def test_unknown_values_are_shown_with_their_type(self) -> None:
        outcome = DECODERS.decode(Body(b"\x80\x81", 4711))
        self.assertIs(outcome.decoded, None)
        self.assertEqual(outcome.error, "the body is in an unknown format; its BodyType is 4711")

    def test_a_decoder_that_is_asked_for_reads_whatever_comes(self) -> None:
        """And says why it cannot."""
        self.assertEqual(DECODERS.decode(Body(b"42"), "json").decoded, DecodedBody("json", "JSON", 42))
        self.assertIn("not XML", DECODERS.decode(Body(b"hello"), "xml").error)
        self.assertRaises(KeyError, DECODERS.decode, Body(b""), "yaml")

    def test_there_is_a_name_for_each(self) -> None:
        self.assertEqual(
            DECODERS.names,
            ("auto", "wcf", "nrbf", "activex", "xml", "json", "text", "nservicebus", "rebus"),
        )

    def test_every_decoder_keeps_the_interface(self) -> None:
        for decoder in STANDARD:
            verifyObject(IBodyDecoder, decoder)

    def test_a_body_beyond_the_limit_is_not_looked_at(self) -> None:
        """Nor is an extension."""
        small = BodyDecoders(limits=Limits(size=10))
        self.assertIn("has 11 bytes, more than 10", small.decode(Body(b"<a></a>    ")).error)
        self.assertIn("extension of 11 bytes", small.decode(Body(b"x", 0, b"{}         ")).error)

    def test_depth_has_its_bounds(self) -> None:
        self.assertRaises(ValueError, Limits, depth=201)
        self.assertRaises(ValueError, Limits, depth=0)


class OwnDecoderTests(SynchronousTestCase):
    """A decoder that msmq does not bring."""

    def test_it_is_asked_before_the_others(self) -> None:
        decoded = BodyDecoders([Shouting()]).decode(Body(b"!hello")).decoded
        self.assertEqual(decoded, DecodedBody("shouting", "shouting", "!HELLO"))

    def test_its_faults_are_its_own(self) -> None:
        """The message is reported as unreadable, with the decoder's name."""
        outcome = BodyDecoders([Shouting()]).decode(Body(b"!!"))
        self.assertEqual(outcome.error, "the body made the decoder shouting fail: ZeroDivisionError: at last")

    def test_a_result_that_is_not_json(self) -> None:
        """Printing a decoded body needs no further checks."""
        for data, words in ((b"!n", "Out of range float"), (b"!o", "not JSON serializable")):
            outcome = BodyDecoders([Shouting()]).decode(Body(data))
            self.assertIs(outcome.decoded, None)
            self.assertIn(words, outcome.error)

    def test_if_it_cannot_tell_others_are_asked(self) -> None:
        """It looks at a first byte that an empty body has not."""
        self.assertRaises(IndexError, Shouting().recognises, Body(b""))
        decoded = BodyDecoders([Shouting()]).decode(Body(b"")).decoded
        self.assertEqual(decoded, DecodedBody("text", "text in UTF-8", ""))

    def test_a_reason_is_harmless_to_a_terminal(self) -> None:
        """Names from a body are quoted safely in the reason, for any content and length."""
        error = BodyDecoders([Shouting()]).decode(Body(b"!\x1b[2J\n" + b"x" * 5000 + b"?")).error
        self.assertTrue(error.startswith("the body asks <U+001B>[2J<U+000A>xxx"), error)
        self.assertTrue(error.endswith("x..."), error)
        self.assertLess(len(error), 1020)

    def test_it_reads_inside_an_envelope_too(self) -> None:
        decoded = BodyDecoders([Shouting()]).decode(Body(b"!x", 0, b"{}")).decoded
        assert decoded is not None
        self.assertEqual((decoded.value, decoded.envelope), ("!X", "rebus"))

    def test_two_of_one_name_are_refused(self) -> None:
        self.assertRaises(ValueError, BodyDecoders, [Shouting(), Shouting()])


class EnvelopeTests(SynchronousTestCase):
    """Headers in the extension."""

    def outcome(self, data: bytes, extension: bytes) -> tuple[dict[str, Any] | None, str]:
        outcome = DECODERS.decode(Body(data, 0, extension))
        return None if outcome.decoded is None else outcome.decoded.as_json(), outcome.error

    def test_nservicebus(self) -> None:
        """The body has the format of the application's own serializer."""
        value, error = self.outcome(b'\xef\xbb\xbf{"Id": 7}', NSERVICEBUS)
        self.assertEqual(error, "")
        self.assertEqual(
            value,
            {
                "format": "json",
                "reading": "JSON; headers of NServiceBus in the extension",
                "envelope": "nservicebus",
                "headers": HEADERS,
                "value": {"Id": 7},
            },
        )

    def test_bytes_after_the_headers_are_skipped(self) -> None:
        """Which is said, unless it is nothing."""
        for behind, words in ((b"\0\0\0", ""), (b"</Key><x", ", 8 bytes behind them passed over")):
            value, _ = self.outcome(b"{}", NSERVICEBUS + behind)
            assert value is not None
            self.assertEqual(value["headers"], HEADERS)
            self.assertEqual(value["reading"], f"JSON; headers of NServiceBus in the extension{words}")

    def test_headers_with_characters_that_xml_does_not_allow(self) -> None:
        """Both as they are and as references, which writers that do not check make."""
        value, _ = self.outcome(b"{}", NSERVICEBUS.replace(b"7\\0", b"7\x01&#x0;"))
        assert value is not None
        self.assertEqual(value["headers"]["NServiceBus.MessageId"], "7\x01\x00")

    def test_a_header_that_comes_twice_is_a_list(self) -> None:
        twice = NSERVICEBUS.replace(b"NServiceBus.ReplyTo", b"NServiceBus.MessageId")
        value, _ = self.outcome(b"{}", twice)
        assert value is not None
        self.assertEqual(value["headers"], {"NServiceBus.MessageId": ["7\\0", None]})

    def test_a_header_that_comes_very_often_is_a_long_list(self) -> None:
        """Made in one go, not anew with each that comes; one that has two values is one of them."""
        entry = b"<HeaderInfo><Key>a</Key><Value>1</Value></HeaderInfo>"
        two = b"<HeaderInfo><Key>a</Key><Value>1</Value><Value>2</Value></HeaderInfo>"
        extension = b"<ArrayOfHeaderInfo>" + two + entry * 100_000 + b"</ArrayOfHeaderInfo>"
        value, _ = self.outcome(b"{}", extension)
        assert value is not None
        self.assertEqual(value["headers"], {"a": [["1", "2"], *["1"] * 100_000]})

    def test_rebus(self) -> None:
        value, error = self.outcome(b"<a/>", b'{"rbs2-msg-id": "7"}')
        assert value is not None
        self.assertEqual((value["envelope"], value["headers"]), ("rebus", {"rbs2-msg-id": "7"}))
        self.assertEqual((value["format"], value["value"], error), ("xml", {"a": ""}, ""))

    def test_broken_headers_do_not_cost_the_body(self) -> None:
        """They are said to be broken."""
        for extension in (NSERVICEBUS[:-5], b'{"a": ', b"{]"):
            value, error = self.outcome(b'{"Id": 7}', extension)
            assert value is not None
            self.assertEqual((value["value"], value["headers"]), ({"Id": 7}, None))
            self.assertIn("its extension is not ", error)

    def test_a_broken_body_does_not_cost_the_headers(self) -> None:
        value, error = self.outcome(b'{"Id": ', NSERVICEBUS)
        assert value is not None
        self.assertEqual((value["format"], value["value"], value["headers"]), (None, None, HEADERS))
        self.assertIn("the body is not JSON", error)

    def test_if_both_are_broken_both_are_said(self) -> None:
        value, error = self.outcome(b'{"Id": ', b"{")
        self.assertIs(value, None)
        self.assertIn("not JSON", error)
        self.assertIn("its extension is not JSON", error)

    def test_headers_alone(self) -> None:
        """C{includeHeaders} returns keys and bytes."""
        self.assertEqual(
            extension_headers(NSERVICEBUS),
            [("NServiceBus.MessageId", b"7\\0"), ("NServiceBus.ReplyTo", b"")],
        )
        self.assertEqual(extension_headers(b'{"a": "\xc3\xa9", "b": 1}'), [("a", "é".encode()), ("b", b"1")])
        self.assertIs(extension_headers(b""), None)
        self.assertIs(extension_headers(b"[1]"), None)
        self.assertIs(extension_headers(b"\xff\xff"), None)


class JsonTests(SynchronousTestCase):
    """JSON that is invalid, or exceeds the limits."""

    def test_refused(self) -> None:
        for data, words in (
            (b"[" * 101, "deeper than 100"),
            (b'{"a":' * 100_000, "deeper than 100"),
            (b"[" + b"1," * 1_000_001, "more than 1000000 items"),
            (b"[NaN]", "NaN is not a number"),
            (b"[1e999]", "too large a number"),
            (b"[" + b"9" * 5000 + b"]", "Exceeds the limit"),
            (b'{"a": 1} x', "Extra data"),
            (b'["\xff"]', "not UTF-8"),
        ):
            self.assertIn(words, DECODERS.decode(Body(data), "json").error)

    def test_brackets_in_text_are_text(self) -> None:
        data = json.dumps({"a": "[" * 500 + '"\\'}).encode()
        self.assertEqual(DECODERS.decode(Body(data)).error, "")


class HostileTests(SynchronousTestCase):
    """Decoding never raises, and its result is JSON."""

    def read(self, body: Body) -> None:
        for choice in DECODERS.names:
            outcome = DECODERS.decode(body, choice)
            self.assertTrue(outcome.decoded is not None or outcome.error)
            self.assertNotIn("made the decoder", outcome.error)
            if outcome.decoded is not None:
                json.dumps(outcome.decoded.as_json(), allow_nan=False)
        extension_headers(body.extension)

    @given(st.binary(max_size=200), st.integers(0, 0xFFFFFFFF) | st.integers(0, 72), st.binary(max_size=100))
    def test_garbage(self, data: bytes, body_type: int, extension: bytes) -> None:
        self.read(Body(data, body_type, extension))

    @given(st.sampled_from(sorted(vectors())), st.data())
    def test_sound_bodies_with_a_few_other_bytes(self, vector: str, data: st.DataObject) -> None:
        """Which get further into a decoder than random bytes do."""
        sound = vectors()[vector]
        changed = bytearray(sound.data)
        for _ in range(data.draw(st.integers(1, 4))):
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        self.read(Body(bytes(changed), sound.body_type, bytes(changed)))
