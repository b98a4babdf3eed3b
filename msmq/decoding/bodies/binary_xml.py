"""Decoder of binary XML, with static strings for SOAP and string tables. [MC-NBFX], [MC-NBFS], [MC-NBFSE]."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, TypeAlias

from msmq.decoding.bodies.budget import Budget
from msmq.decoding.bodies.element_tree import ElementTree
from msmq.decoding.bodies.length_prefixes import read_length, read_text, utf8_text
from msmq.decoding.bodies.nbfs_dictionary import STRINGS
from msmq.decoding.bodies.scalars import decimal_text, guid_text, ticks_text, xml_duration_text
from msmq.decoding.values import base64_text
from msmq.wire.reader import Reader

_END_ELEMENT: Final = 0x01
_COMMENT: Final = 0x02
_ARRAY: Final = 0x03
_START_LIST: Final = 0xA4
_END_LIST: Final = 0xA6
_ATTRIBUTES: Final = range(0x04, 0x40)
_NAMESPACES: Final = range(0x08, 0x0C)
_ELEMENTS: Final = range(0x40, 0x78)
_FIRST_TEXT: Final = 0x80
_LETTERS: Final = 26
_I32: Final = Struct("<i")
_IN_ARRAYS: Final = {
    0xB5: 1,
    0x8B: 2,
    0x8D: 4,
    0x8F: 8,
    0x91: 4,
    0x93: 8,
    0x95: 16,
    0x97: 8,
    0xAF: 8,
    0xB1: 16,
}
"""2.3.3: the types of values in arrays, and their sizes."""


Strings: TypeAlias = Callable[[int], str | None]
"""Looks up a dictionary string by number; C{None} if there is none."""


def soap_string(number: int) -> str | None:
    """The [MC-NBFS] string of a number."""
    index = number // 2
    return STRINGS[index] if not number % 2 and index < len(STRINGS) else None


def parse_binary_xml(
    data: bytes, budget: Budget, *, strings: Strings = soap_string, table: list[str] | None = None
) -> dict[str, Any]:
    """The document as plain data.

    @param table: of a document that begins with a table of strings, those of the documents before it in its
        session, to which its own are added ([MC-NBFSE] 2.1); C{None} of one that has no table.
    @raise BodyNotDecoded: it is not such a document, or exceeds the limits.
    @raise msmq.errors.RemoteProtocolError: it is damaged.
    """
    reader = Reader(data)
    if table is not None:
        table += _read_table(reader, budget)
        strings = _with_table(table, strings)
    return _Document(reader, strings, budget).read()


def _read_table(reader: Reader, budget: Budget) -> Sequence[str]:
    strings = []
    with reader.header("StringTable", "[MC-NBFSE] 2.1"):
        size = read_length(reader, "Size")
        with reader.confined(size, "Size"):
            while reader.remaining:
                budget.item()
                strings.append(read_text(reader, "Strings"))
    return strings


def _with_table(table: Sequence[str], others: Strings) -> Strings:
    """The strings of a table have the odd numbers, from 1."""

    def string(number: int) -> str | None:
        if not number % 2:
            return others(number)
        index = number // 2
        return table[index] if index < len(table) else None

    return string


_Record: TypeAlias = tuple[int, int] | None
"""The type of a record and where it begins; C{None} after the last."""


class _Document:
    def __init__(self, reader: Reader, strings: Strings, budget: Budget) -> None:
        self._reader = reader
        self._strings = strings
        self._budget = budget
        self._tree = ElementTree(budget)

    def read(self) -> dict[str, Any]:
        reader, tree = self._reader, self._tree
        with reader.header("Record", "[MC-NBFX] 2.2"):
            record = self._next()
            while record is not None:
                kind, start = record
                if kind in _ELEMENTS:
                    tree.start(self._element_name(kind))
                    attributes, record = self._attributes()
                    for name, value in attributes:
                        tree.attribute(name, value)
                    continue
                if kind == _END_ELEMENT:
                    tree.end()
                elif kind == _COMMENT:
                    self._budget.item()
                    self._string("Comment")
                elif kind == _ARRAY:
                    self._array()
                elif kind >= _FIRST_TEXT:
                    self._budget.item()
                    tree.text(self._text(kind & ~1, start))
                    if kind & 1:
                        tree.end()
                else:
                    raise reader.malformed("RecordType", f"{kind:#04x} is out of order", offset=start)
                record = self._next()
        return tree.document()

    def _next(self) -> _Record:
        if not self._reader.remaining:
            return None
        start = self._reader.position
        return self._reader.u8("RecordType"), start

    def _element_name(self, kind: int) -> str:
        """2.2.1; the prefix is ignored."""
        if kind in (0x41, 0x43):
            self._string("Prefix")
        return self._dictionary_string("Name") if 0x42 <= kind <= 0x5D else self._string("Name")

    def _attributes(self) -> tuple[list[tuple[str, str]], _Record]:
        """2.2.2: all attributes that follow, and the record behind them."""
        reader = self._reader
        found = []
        while (record := self._next()) is not None and record[0] in _ATTRIBUTES:
            kind, _ = record
            self._budget.item()
            if kind in _NAMESPACES:
                if kind & 1:
                    self._string("Prefix")
                if kind >= 0x0A:
                    self._dictionary_string("Value")
                else:
                    self._string("Value")
                continue
            prefix = ""
            if kind in (0x05, 0x07):
                prefix = self._string("Prefix") + ":"
            elif kind >= 0x0C:
                prefix = chr(ord("a") + (kind - 0x0C) % _LETTERS) + ":"
            by_number = kind in (0x06, 0x07) or 0x0C <= kind <= 0x25
            name = prefix + (self._dictionary_string("Name") if by_number else self._string("Name"))
            start = reader.position
            text = reader.u8("Text")
            if text < _FIRST_TEXT or text & 1:
                raise reader.malformed("Text", f"{text:#04x} is not text of an attribute", offset=start)
            found.append((name, self._text(text, start)))
        return found, record

    def _array(self) -> None:
        """2.3.3: an element that comes again for each of a number of values."""
        reader = self._reader
        start = reader.position
        kind = reader.u8("Element")
        if kind not in _ELEMENTS:
            raise reader.malformed("Element", f"{kind:#04x} is not an element", offset=start)
        name = self._element_name(kind)
        attributes, end = self._attributes()
        if end is None or end[0] != _END_ELEMENT:
            raise reader.malformed("EndElement", "is missing")
        start = reader.position
        kind = reader.u8("RecordType")
        size = _IN_ARRAYS.get(kind)
        if size is None:
            raise reader.malformed("RecordType", f"{kind:#04x} is not a type of an array", offset=start)
        start = reader.position
        count = read_length(reader, "Length")
        if not 0 < count * size <= reader.remaining:
            rule = f"is {count} values of {size} bytes, where {reader.remaining} remain"
            raise reader.malformed("Length", rule, offset=start)
        # The names occur once, and apply to all elements.
        self._budget.characters(count * (len(name) + sum(len(key) for key, _ in attributes)))
        for _ in range(count):
            self._tree.start(name)
            for key, value in attributes:
                self._tree.attribute(key, value)
            self._tree.text(self._text(kind & ~1, reader.position))
            self._tree.end()

    def _text(self, kind: int, start: int) -> str:
        """2.2.3: the characters of a text record of this type, which began at C{start}."""
        reader = self._reader
        if kind == _START_LIST:
            return self._list()
        if kind == 0xAA:
            return self._dictionary_string("Value")
        if kind == 0xBC:
            start = reader.position
            letter = reader.u8("Prefix")
            if letter >= _LETTERS:
                raise reader.malformed("Prefix", f"{letter} is not from 0 to 25", offset=start)
            return f"{chr(ord('a') + letter)}:{self._dictionary_string('Name')}"
        read = _TEXTS.get(kind)
        if read is None:
            raise reader.malformed("RecordType", f"{kind:#04x} is not a text record", offset=start)
        return read(reader)

    def _list(self) -> str:
        """2.2.3.19: the texts up to the end of the list."""
        reader = self._reader
        parts: list[str] = []
        while True:
            start = reader.position
            kind = reader.u8("RecordType")
            if kind == _END_LIST:
                return " ".join(parts)
            if kind == _START_LIST or kind < _FIRST_TEXT or kind & 1:
                raise reader.malformed("RecordType", f"{kind:#04x} is in a list", offset=start)
            self._budget.item()
            parts.append(self._text(kind, start))

    def _string(self, field: str) -> str:
        return read_text(self._reader, field)

    def _dictionary_string(self, field: str) -> str:
        start = self._reader.position
        number = read_length(self._reader, field)
        string = self._strings(number)
        if string is None:
            raise self._reader.malformed(
                field, f"refers to string {number}, which does not exist", offset=start
            )
        # The string is longer than its reference.
        self._budget.characters(len(string))
        return string


def _utf8(reader: Reader, size: int, field: str) -> str:
    start = reader.position
    return utf8_text(reader, reader.bytes(size, field), field, start)


def _utf16(reader: Reader, size: int, field: str) -> str:
    start = reader.position
    if size % 2:
        raise reader.malformed(field, f"is UTF-16 of {size} bytes, an odd number", offset=start)
    return reader.bytes(size, field).decode("utf-16-le", "surrogatepass")


def _base64(reader: Reader, size: int, field: str) -> str:
    return base64_text(reader.bytes(size, field))


_Sized: TypeAlias = Callable[[Reader, int, str], str]


def _sized(read: _Sized) -> tuple[Callable[[Reader], str], ...]:
    """The three records of bytes or characters: with a length of one byte, two and four."""
    return (
        lambda reader: read(reader, reader.u8("Length"), "Characters"),
        lambda reader: read(reader, reader.u16("Length"), "Characters"),
        lambda reader: read(reader, _length32(reader), "Characters"),
    )


def _length32(reader: Reader) -> int:
    start = reader.position
    (number,) = reader.unpack(_I32, "Length")
    if number < 0:
        raise reader.malformed("Length", f"is {number}", offset=start)
    return int(number)


def _number(layout: str) -> Callable[[Reader], str]:
    struct = Struct("<" + layout)

    def read(reader: Reader) -> str:
        (number,) = reader.unpack(struct, "Value")
        return str(number)

    return read


def _floating(layout: str, digits: int) -> Callable[[Reader], str]:
    """2.2.3.9 and 2.2.3.10: with enough digits to round-trip."""
    struct = Struct("<" + layout)

    def read(reader: Reader) -> str:
        (number,) = reader.unpack(struct, "Value")
        if not math.isfinite(number):
            return {"inf": "INF", "-inf": "-INF"}.get(str(number), "NaN")
        text = f"{number:.{digits}G}"
        if struct.unpack(struct.pack(float(text))) != (number,):
            text = f"{number:.{digits + 2}G}" if layout == "f" else repr(number).upper()
        return text.removesuffix(".0")

    return read


def _date_time(reader: Reader) -> str:
    """2.2.3.12: ticks, and in the upper two bits whether they are of UTC (1), local (2) or neither."""
    start = reader.position
    number = reader.u64("Value")
    zone = number >> 62
    time = ticks_text(number & ((1 << 62) - 1), utc=zone == 1)
    if time is None or zone == 3:
        raise reader.malformed("Value", "is not a time before the year 10000", offset=start)
    return time


def _decimal(reader: Reader) -> str:
    return decimal_text(reader.bytes(16, "Value"))


def _uuid(reader: Reader) -> str:
    return guid_text(reader.bytes(16, "Value"))


_CHARS: Final = _sized(_utf8)
_BYTES: Final = _sized(_base64)
_UNICODE: Final = _sized(_utf16)

_TEXTS: Final[dict[int, Callable[[Reader], str]]] = {
    0x80: lambda reader: "0",
    0x82: lambda reader: "1",
    0x84: lambda reader: "false",
    0x86: lambda reader: "true",
    0x88: _number("b"),
    0x8A: _number("h"),
    0x8C: _number("i"),
    0x8E: _number("q"),
    0x90: _floating("f", 7),
    0x92: _floating("d", 15),
    0x94: _decimal,
    0x96: _date_time,
    **dict(zip((0x98, 0x9A, 0x9C), _CHARS, strict=True)),
    **dict(zip((0x9E, 0xA0, 0xA2), _BYTES, strict=True)),
    0xA8: lambda reader: "",
    0xAC: lambda reader: f"urn:uuid:{_uuid(reader)}",
    # The examples of the document have durations, and midnights, as XML writes them, not as 2.2.3 says.
    0xAE: lambda reader: xml_duration_text(reader.i64("Value")),
    0xB0: _uuid,
    0xB2: _number("Q"),
    0xB4: lambda reader: "true" if reader.u8("Value") else "false",
    **dict(zip((0xB6, 0xB8, 0xBA), _UNICODE, strict=True)),
}
"""2.2.3: the text records that need no strings with numbers."""
