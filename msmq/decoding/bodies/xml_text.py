"""Decoder of textual XML documents, as XmlMessageFormatter and other serializers write them."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from xml.parsers import expat

from zope.interface import implementer

from msmq.decoding.bodies.budget import Budget
from msmq.decoding.bodies.element_tree import ElementTree
from msmq.interfaces.decoding import Body, BodyNotDecoded, DecodedBody, IBodyDecoder, Limits

_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_UTF_16: Final = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_WIDE: Final = (b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<")
"""The first bytes of a document in UTF-16."""
_FAMILIES: Final = ("ascii", "iso8859", "cp", "mac", "koi8", "big5", "gb", "euc", "shift_jis", "utf-8")
"""Pattern of the names of allowed codecs; other codecs are not character sets, or slow on long texts."""
_START: Final = re.compile(rb"\s*<[A-Za-z_?!\x80-\xff]")
_DECLARED: Final = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")
_DECLARATION: Final = re.compile(r"<\?xml[^>]*\?>")

_ILLEGAL: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_REFERENCE: Final = re.compile(r"&#(?:x([0-9A-Fa-f]{1,8})|([0-9]{1,10}));")
_STAND_INS: Final = 0x10FE00
"""Private code points that stand for U+0000 to U+001F while a document is parsed."""
_STAND_IN: Final = re.compile("[\U0010fe00-\U0010fe1f]")
_REPLACEMENT: Final = "\ufffd"


@implementer(IBodyDecoder)
class XmlDecoder:
    """Decodes textual XML; see L{element_tree<msmq.decoding.bodies.element_tree>} for the result."""

    name = "xml"

    def recognises(self, body: Body) -> bool:
        return body.body_type == 0 and looks_like_xml(body.data)

    def decode(self, body: Body, limits: Limits) -> DecodedBody:
        value, illegal = parse_xml(body.data, limits)
        return DecodedBody(self.name, f"XML{lenience(illegal)}", value)


def lenience(illegal: int) -> str:
    """The remark on a document with this number of characters that XML does not allow; empty for 0."""
    if not illegal:
        return ""
    return f" with {illegal} character{'s' * (illegal != 1)} that XML does not allow"


def looks_like_xml(data: bytes) -> bool:
    """Whether the bytes begin like a document in UTF-8, UTF-16 or an ASCII-compatible encoding."""
    start = data[:64]
    if start.startswith(_WIDE[2:]):
        return True
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            start = start.decode(encoding, "ignore").encode()
    return _START.match(start) is not None


def parse_xml(data: bytes, limits: Limits) -> tuple[dict[str, Any], int]:
    """Parse a document to plain data; also returns the number of characters that XML does not allow.

    Some writers do not check their characters; such a document is decoded nevertheless, control characters
    included. So are multi-byte character sets, which the parser does not support. A document type declaration
    is refused, and with it every entity that a document could define.

    @raise BodyNotDecoded: it is not a document, or exceeds the limits.
    """
    if not data.startswith(_WIDE):
        data = data.rstrip(b"\0")
    try:
        return _document(limits, lambda parser: parser.Parse(data, True)), 0
    except BodyNotDecoded as error:
        text, foreign = _text(data)
        cleaned, count = _with_stand_ins(text)
        if not count and not foreign:
            raise error
    document = _document(
        limits, lambda parser: parser.Parse(cleaned.encode(), True), encoding="utf-8", restore=True
    )
    return document, count


def _document(
    limits: Limits,
    parse: Callable[[expat.XMLParserType], object],
    *,
    encoding: str | None = None,
    restore: bool = False,
) -> dict[str, Any]:
    tree = ElementTree(Budget(limits))
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True
    original: Callable[[str], str] = _restored if restore else str

    def start(name: str, attributes: Mapping[str, str]) -> None:
        tree.start(name)
        for key, value in attributes.items():
            tree.attribute(key, original(value))

    def refuse(name: str, *_: object) -> None:
        raise BodyNotDecoded(f"declares a document type, {name}, which is not supported")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: tree.end()
    parser.CharacterDataHandler = lambda text: tree.text(original(text))
    parser.StartDoctypeDeclHandler = refuse
    try:
        parse(parser)
    except expat.ExpatError as error:
        raise BodyNotDecoded(f"is not XML: {error}") from None
    except (LookupError, ValueError, RecursionError) as error:
        # An unknown or multi-byte encoding.
        raise BodyNotDecoded(f"is not XML: {error}") from None
    return tree.document()


def _text(data: bytes) -> tuple[str, bool]:
    """Decode the document to text; also returns whether the parser may not support its encoding.

    The text is empty if the encoding is unknown here too, or does not match the bytes.
    """
    encoding = next((encoding for mark, encoding in (*_MARKS, *_UTF_16) if data.startswith(mark)), "")
    foreign = False
    if not encoding:
        declared = _DECLARED.match(data.lstrip())
        encoding = declared[1].decode("ascii").lower() if declared else "utf-8"
        # A declaration in single bytes cannot name a two-byte encoding.
        if encoding.startswith("utf-16"):
            encoding = "utf-8"
        foreign = encoding != "utf-8"
    try:
        if not foreign or codecs.lookup(encoding).name.startswith(_FAMILIES):
            return data.decode(encoding), foreign
    except (LookupError, ValueError):
        pass
    return "", False


def _number(reference: re.Match[str]) -> int:
    return int(reference[1], 16) if reference[1] else int(reference[2])


def _is_illegal(number: int) -> bool:
    if number < 0x20:
        return number not in (0x09, 0x0A, 0x0D)
    return 0xD800 <= number <= 0xDFFF or number in (0xFFFE, 0xFFFF) or number > 0x10FFFF


def _stand_in(number: int) -> str:
    return chr(_STAND_INS + number) if number < 0x20 else _REPLACEMENT


def _with_stand_ins(text: str) -> tuple[str, int]:
    """Replace each illegal character by a stand-in; also returns their number."""
    count = 0

    def of_character(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return _stand_in(ord(found[0]))

    def of_reference(found: re.Match[str]) -> str:
        nonlocal count
        number = _number(found)
        if not _is_illegal(number):
            return found[0]
        count += 1
        return _stand_in(number)

    text = text.removeprefix("\ufeff").lstrip()
    if (declaration := _DECLARATION.match(text)) is not None:
        text = text[declaration.end() :]
    # The document's own values under these names would be indistinguishable from the added ones.
    text = _STAND_IN.sub(_REPLACEMENT, text)
    return _REFERENCE.sub(of_reference, _ILLEGAL.sub(of_character, text)), count


def _restored(text: str) -> str:
    return _STAND_IN.sub(lambda found: chr(ord(found[0]) - _STAND_INS), text)
