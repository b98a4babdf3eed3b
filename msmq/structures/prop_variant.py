"""PROPVARIANT, with VARTYPE and counted arrays. [MS-MQMQ] 2.2.12 to 2.2.16, 2.2.12.1, 2.2.16.1."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import ClassVar, Self
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.quoting import quoted
from msmq.structures.ndr import (
    read_pointer,
    read_string,
    read_string_pointer,
    write_pointer,
    write_string,
)
from msmq.wire.guid import guid_from_bytes
from msmq.wire.reader import Reader
from msmq.wire.structure import WholeStructure
from msmq.wire.writer import Writer


class VarEnum(enum.IntEnum):
    """PROPVARIANT Type Constants. [MS-MQMQ] 2.2.12."""

    VT_EMPTY = 0x0000
    VT_NULL = 0x0001
    VT_I2 = 0x0002
    VT_I4 = 0x0003
    VT_BOOL = 0x000B
    VT_VARIANT = 0x000C
    VT_I1 = 0x0010
    VT_UI1 = 0x0011
    VT_UI2 = 0x0012
    VT_UI4 = 0x0013
    VT_I8 = 0x0014
    VT_UI8 = 0x0015
    VT_LPWSTR = 0x001F
    VT_BLOB = 0x0041
    VT_CLSID = 0x0048
    VT_VECTOR = 0x1000


VARIANT_TRUE = 0xFFFF
"""[MS-MQMQ] 2.2.14."""

VARIANT_FALSE = 0x0000

MAXIMUM_DEPTH = 8
"""Limit on the nesting of vectors of variants."""

_VECTOR = int(VarEnum.VT_VECTOR)

_NUMBERS: dict[int, Struct] = {
    VarEnum.VT_I1: Struct("<b"),
    VarEnum.VT_UI1: Struct("<B"),
    VarEnum.VT_I2: Struct("<h"),
    VarEnum.VT_UI2: Struct("<H"),
    VarEnum.VT_I4: Struct("<i"),
    VarEnum.VT_UI4: Struct("<I"),
    VarEnum.VT_I8: Struct("<q"),
    VarEnum.VT_UI8: Struct("<Q"),
}

_NUMBER_VECTORS: dict[int, Struct] = {
    _VECTOR | VarEnum.VT_UI2: Struct("<H"),
    _VECTOR | VarEnum.VT_I4: Struct("<i"),
    _VECTOR | VarEnum.VT_UI4: Struct("<I"),
    _VECTOR | VarEnum.VT_UI8: Struct("<Q"),
}

_BYTES = (int(VarEnum.VT_BLOB), _VECTOR | VarEnum.VT_UI1)
_CLSIDS = _VECTOR | VarEnum.VT_CLSID
_STRINGS = _VECTOR | VarEnum.VT_LPWSTR
_VARIANTS = _VECTOR | VarEnum.VT_VARIANT
_ARRAYS = (*_BYTES, *_NUMBER_VECTORS, _CLSIDS, _STRINGS, _VARIANTS)
_NOTHING = (int(VarEnum.VT_EMPTY), int(VarEnum.VT_NULL))


@attrs.frozen
class PropVariant(WholeStructure):
    """tag_inner_PROPVARIANT. [MS-MQMQ] 2.2.13.1.

    C{vt} at 0, three reserved members, C{vt} again at 8 as the union's tag, and the value at 16.

    @ivar vt: one of L{VarEnum}, or C{VT_VECTOR} combined with the type of the elements.
    @ivar value: L{None} for C{VT_EMPTY} and C{VT_NULL}; L{bool} for C{VT_BOOL}; L{int} for the numbers;
        L{str} for C{VT_LPWSTR}; L{UUID} for C{VT_CLSID}; L{bytes} for C{VT_BLOB} and a vector of C{VT_UI1};
        for the other vectors a tuple of such values, or of further variants.
    """

    NAME: ClassVar[str] = "PROPVARIANT"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.13.1"
    END_FIELD: ClassVar[str] = "_varUnion"

    vt: int
    value: object

    def __attrs_post_init__(self) -> None:
        if not _fits(self.vt, self.value):
            raise LocalProtocolError(f"vt 0x{self.vt:04X} cannot hold {quoted(self.value, 100)}")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read the structure and what its pointers point to."""
        with reader.header(cls.NAME, cls.SECTION):
            return cls._read(reader, 0)()

    def write(self, writer: Writer) -> None:
        """Write the structure and what its pointers point to."""
        self._write(writer, 0)()

    @classmethod
    def _read(cls, reader: Reader, depth: int) -> Callable[[], Self]:
        """Read the inline part; the returned function reads the referents and returns the value."""
        reader.align(8)
        start = reader.position
        vt = reader.u16("vt")
        reader.skip(6, "wReserved")
        if reader.u16("_varUnion") != vt:
            raise reader.malformed("_varUnion", "differs from vt", offset=start + 8)
        if vt in _NOTHING:
            return lambda: cls(vt, None)
        reader.align(8)
        rest = cls._read_value(reader, vt, depth, start)
        return lambda: cls(vt, rest())

    @classmethod
    def _read_value(cls, reader: Reader, vt: int, depth: int, start: int) -> Callable[[], object]:
        value: object
        if vt in _NUMBERS:
            (value,) = reader.unpack(_NUMBERS[vt], "_varUnion")
            return lambda: value
        match vt:
            case VarEnum.VT_BOOL:
                number = reader.u16("boolVal")
                if number not in (VARIANT_TRUE, VARIANT_FALSE):
                    raise reader.malformed("boolVal", "is neither 0xFFFF nor 0", offset=reader.position - 2)
                return lambda: number == VARIANT_TRUE
            case VarEnum.VT_LPWSTR:
                read_string_pointer(reader, "pwszVal")
                return lambda: read_string(reader, "pwszVal")
            case VarEnum.VT_CLSID:
                read_string_pointer(reader, "puuid")

                def read_guid() -> UUID:
                    reader.align(4, "puuid")
                    return reader.guid("puuid")

                return read_guid
        if vt not in _ARRAYS:
            raise reader.malformed("vt", f"0x{vt:04X} is not the type of a property", offset=start)
        if depth >= MAXIMUM_DEPTH:
            raise reader.malformed("vt", f"vectors are nested more than {MAXIMUM_DEPTH} deep", offset=start)
        count = reader.u32("cElems")
        if not read_pointer(reader, "pElems"):
            if count:
                raise reader.malformed("cElems", f"counts {count} elements behind a null pointer")
            return lambda: b"" if vt in _BYTES else ()
        return lambda: cls._read_array(reader, vt, count, depth)

    @classmethod
    def _read_array(cls, reader: Reader, vt: int, count: int, depth: int) -> object:
        reader.align(4, "pElems")
        if reader.u32("pElems") != count:
            raise reader.malformed("pElems", f"holds other than {count} elements", offset=reader.position - 4)
        if vt in _BYTES:
            return reader.bytes(count, "pElems")
        if vt in _NUMBER_VECTORS:
            element = _NUMBER_VECTORS[vt]
            reader.align(element.size, "pElems")
            data = reader.view(count * element.size, "pElems")
            return tuple(number for (number,) in element.iter_unpack(data))
        if vt == _CLSIDS:
            data = reader.view(count * 16, "pElems")
            return tuple(guid_from_bytes(bytes(data[at : at + 16])) for at in range(0, count * 16, 16))
        if vt == _STRINGS:
            for _ in range(count):
                read_string_pointer(reader, "pElems")
            return tuple(read_string(reader, "pElems") for _ in range(count))
        rests = [cls._read(reader, depth + 1) for _ in range(count)]
        return tuple(rest() for rest in rests)

    def _write(self, writer: Writer, depth: int) -> Callable[[], None]:
        """Write the inline part; the returned function writes the referents behind it."""
        writer.align(8)
        writer.u16(self.vt, "vt")
        writer.bytes(bytes(6))
        writer.u16(self.vt, "_varUnion")
        if self.vt in _NOTHING:
            return _nothing
        writer.align(8)
        match self.value:
            case bool(truth):
                writer.u16(VARIANT_TRUE if truth else VARIANT_FALSE, "boolVal")
            case int(number):
                writer.bytes(_NUMBERS[self.vt].pack(number))
            case str(text):
                write_pointer(writer, "pwszVal")
                return lambda: write_string(writer, text, "pwszVal")
            case UUID() as guid:
                write_pointer(writer, "puuid")
                return lambda: _write_guid(writer, guid)
            case bytes() | tuple() as elements:
                if depth >= MAXIMUM_DEPTH:
                    raise LocalProtocolError(f"vectors are nested more than {MAXIMUM_DEPTH} deep")
                writer.u32(len(elements), "cElems")
                write_pointer(writer, "pElems", is_null=not elements)
                if elements:
                    return lambda: self._write_array(writer, elements, depth)
        return _nothing

    def _write_array(self, writer: Writer, elements: bytes | tuple[object, ...], depth: int) -> None:
        writer.align(4)
        writer.u32(len(elements), "pElems")
        if isinstance(elements, bytes):
            writer.bytes(elements)
            return
        if self.vt in _NUMBER_VECTORS:
            layout = _NUMBER_VECTORS[self.vt]
            writer.align(layout.size)
            writer.bytes(b"".join(map(layout.pack, elements)))
            return
        rests: list[Callable[[], None]] = []
        for element in elements:
            match element:
                case UUID():
                    writer.guid(element)
                case str():
                    write_pointer(writer, "pElems")
                    rests.append(partial(write_string, writer, element, "pElems"))
                case PropVariant():
                    rests.append(element._write(writer, depth + 1))
        for rest in rests:
            rest()


_ELEMENTS: dict[int, type] = {_CLSIDS: UUID, _STRINGS: str, _VARIANTS: PropVariant}


def _fits(vt: int, value: object) -> bool:
    if vt in _NOTHING:
        return value is None
    if vt in _NUMBERS:
        return _is_number(value, _NUMBERS[vt])
    if vt in _BYTES:
        return isinstance(value, bytes)
    if vt in _NUMBER_VECTORS:
        return isinstance(value, tuple) and all(_is_number(each, _NUMBER_VECTORS[vt]) for each in value)
    if vt in _ELEMENTS:
        return isinstance(value, tuple) and all(isinstance(each, _ELEMENTS[vt]) for each in value)
    match vt:
        case VarEnum.VT_BOOL:
            return isinstance(value, bool)
        case VarEnum.VT_LPWSTR:
            return isinstance(value, str)
        case VarEnum.VT_CLSID:
            return isinstance(value, UUID)
    return False


def _is_number(value: object, layout: Struct) -> bool:
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    bits = 8 * layout.size
    if layout.format[1:].isupper():
        return 0 <= value < 1 << bits
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def _write_guid(writer: Writer, guid: UUID) -> None:
    writer.align(4)
    writer.guid(guid)


def _nothing() -> None:
    """Nothing follows the inline part."""
