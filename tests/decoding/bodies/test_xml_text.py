"""XML in text."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.bodies import Body, BodyNotDecoded, Limits
from msmq.decoding.bodies.xml_text import XmlDecoder, parse_xml
from tests.decoding.bodies.vectors import vectors

ORDER = {
    "Order": {
        "@Urgent": "true",
        "Id": "7",
        "Customer": "bell \x07 end",
        "Placed": "2026-03-01T12:30:15Z",
        "Lines": {
            "Line": [
                {"Article": "nail", "Price": "0.05", "Count": "100"},
                {"Article": "hammer", "Price": "12.30", "Count": None},
            ]
        },
    }
}


def parse(data: bytes | str, limits: Limits | None = None) -> dict[str, Any]:
    return parse_xml(data.encode() if isinstance(data, str) else data, limits or Limits())[0]


class ReadingTests(SynchronousTestCase):
    """The data that results from a document."""

    def test_what_a_serializer_of_net_writes(self) -> None:
        """In UTF-8, with its mark and without, and in UTF-16; with a character that it did not check."""
        for vector in ("xml-utf-8-0", "xml-utf-8-3", "xml-utf-16-2"):
            body = vectors()[vector]
            self.assertTrue(XmlDecoder().recognises(body), vector)
            decoded = XmlDecoder().decode(body, Limits())
            self.assertEqual(decoded.value, ORDER)
            self.assertEqual(decoded.reading, "XML with 1 character that XML does not allow")

    def test_elements_and_attributes(self) -> None:
        """Text alone is text; with others it has a key; what comes again is a list."""
        self.assertEqual(parse("<a/>"), {"a": ""})
        self.assertEqual(parse("<a> x </a>"), {"a": " x "})
        self.assertEqual(parse("<a b='1'>x</a>"), {"a": {"@b": "1", "#text": "x"}})
        self.assertEqual(parse("<a>\n <b>1</b>\n <b/>\n <c>2</c></a>"), {"a": {"b": ["1", ""], "c": "2"}})
        self.assertEqual(parse("<a><!-- x --><![CDATA[<b>]]>&amp;</a>"), {"a": "<b>&"})

    def test_namespaces_are_ignored(self) -> None:
        """Prefixes and their declarations are left out, but for nil."""
        data = "<p:a xmlns:p='urn:p' xmlns='urn:q' p:b='1'><c p:nil='true'/><d nil='true'/></p:a>"
        self.assertEqual(parse(data), {"a": {"@b": "1", "c": None, "d": {"@nil": "true"}}})

    def test_other_encodings_are_read(self) -> None:
        """Declared encodings of one byte or several bytes a character are decoded."""
        for encoding in ("iso-8859-1", "windows-1252", "us-ascii"):
            text = f'<?xml version="1.0" encoding="{encoding}"?><a>x</a>'
            self.assertEqual(parse(text.encode(encoding)), {"a": "x"})
        self.assertEqual(
            parse('<?xml version="1.0" encoding="windows-1251"?><a>Да</a>'.encode("cp1251")), {"a": "Да"}
        )
        for encoding in ("gb18030", "shift_jis", "big5", "euc-jp"):
            text = f'<?xml version="1.0" encoding="{encoding}"?><a>\u65e5</a>'
            self.assertEqual(parse(text.encode(encoding)), {"a": "\u65e5"})
        for mark, encoding in ((b"", "utf-16-le"), (b"", "utf-16-be"), (b"\xff\xfe", "utf-16-le")):
            self.assertEqual(parse(mark + "<a>é</a>".encode(encoding)), {"a": "é"})

    def test_bytes_of_nothing_at_the_end_are_passed_over(self) -> None:
        """Some senders send the whole buffer."""
        self.assertEqual(parse(b"<a>x</a>\r\n\0\0"), {"a": "x"})

    def test_characters_that_xml_does_not_allow(self) -> None:
        """They are there in the result, however they were written, and are counted."""
        value, count = parse_xml(
            b'<?xml version="1.0"?><a b="\x01">&#x2;&#3;&#65;\x1f\xef\xbf\xbe</a>', Limits()
        )
        self.assertEqual(value, {"a": {"@b": "\x01", "#text": "\x02\x03A\x1f\ufffd"}})
        self.assertEqual(count, 5)

    def test_what_only_looks_like_a_declaration_is_text(self) -> None:
        """In a document that has such characters too."""
        declaration = '<?xml version="1.0"?>'
        data = f"<a>\x01<![CDATA[x {declaration} y]]></a>"
        self.assertEqual(parse(data), {"a": f"\x01x {declaration} y"})

    def test_a_document_is_recognised_by_its_beginning(self) -> None:
        for data in (b"<a/>", b"\r\n <?xml?>", b"\xef\xbb\xbf<a", b"\xff\xfe<\0a\0", b"<\0a\0", b"<!-- -->"):
            self.assertTrue(XmlDecoder().recognises(Body(data)), data)
        for data in (b"", b"a<b", b"<1", b"< a", b"\xff\xfea\0", b"{}"):
            self.assertFalse(XmlDecoder().recognises(Body(data)), data)
        self.assertFalse(XmlDecoder().recognises(Body(b"<a/>", 8)))


class HostileTests(SynchronousTestCase):
    """Documents that are no documents, or want too much."""

    def refused(self, data: bytes | str, words: str, limits: Limits | None = None) -> None:
        error = self.assertRaises(BodyNotDecoded, parse, data, limits)
        self.assertIn(words, str(error))

    def test_entities_are_refused_with_their_declaration(self) -> None:
        """Whether they would grow, or fetch a file."""
        lol = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 10))
        self.refused(f"<!DOCTYPE a [<!ENTITY l0 'lol'>{lol}]><a>&l9;</a>", "declares a document type")
        self.refused(
            "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>", "declares a document type"
        )
        self.refused("<!DOCTYPE a SYSTEM 'http://127.0.0.1/a.dtd'><a/>", "declares a document type")
        self.refused("<!DOCTYPE a><a>\x01</a>", "declares a document type")

    def test_depth_and_number_are_limited(self) -> None:
        self.refused("<a>" * 101 + "</a>" * 101, "deeper than 100")
        self.refused("<a>" + "<b/>" * 100 + "</a>", "more than 100 items", Limits(items=100))
        self.refused(
            "<a " + " ".join(f"b{n}=''" for n in range(100)) + "/>", "more than 100 items", Limits(items=100)
        )

    def test_an_invalid_document_is_refused(self) -> None:
        """With the position of the fault."""
        self.refused("", "no element found")
        self.refused("<a><b></a>", "line 1, column 8")
        self.refused("<a/><b/>", "junk after document element")
        self.refused("<a>&b;</a>", "undefined entity")
        self.refused("<a>\x01</b>", "mismatched tag")

    def test_a_long_document_with_such_characters_takes_no_longer(self) -> None:
        """Neither white space nor beginnings of declarations are looked through again and again."""
        blank = " " * 1_000_000
        self.assertEqual(parse(f"<a>{blank}\x01</a>"), {"a": f"{blank}\x01"})
        self.refused("<a>" + "<?xml" * 200_000 + "\x01</a>", "not well-formed")

    def test_unknown_encodings_are_refused(self) -> None:
        for encoding in ("nonsense", "idna", "punycode", "base64", "zlib", "undefined"):
            self.refused(f'<?xml version="1.0" encoding="{encoding}"?><a>x</a>', "is not XML")

    def test_a_document_that_is_cut_short_is_refused_wherever_it_is_cut(self) -> None:
        for vector in ("xml-utf-8-0", "xml-utf-16-2"):
            data = vectors()[vector].data
            for size in range(len(data)):
                self.assertRaises(BodyNotDecoded, parse, data[:size])
