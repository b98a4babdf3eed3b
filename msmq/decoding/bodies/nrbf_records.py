"""Reader of .NET binary formatter streams: records to objects. [MS-NRBF].

Types in a stream are never looked up or instantiated; a class is its name and the names of its members.
"""

from __future__ import annotations

import enum
import math
import re
from struct import Struct
from typing import Any, Final, TypeAlias

import attrs

from msmq.decoding.bodies.budget import Budget
from msmq.decoding.bodies.length_prefixes import read_text, utf8_text
from msmq.decoding.bodies.scalars import duration_text, finite_or_text, ticks_text
from msmq.interfaces.decoding import BodyNotDecoded
from msmq.wire.reader import Reader


@attrs.frozen
class NrbfReference:
    """A MemberReference: the object with this identifier, which may occur later."""

    identifier: int


@attrs.define(eq=False)
class ClassObject:
    """An instance of a class: its members by their names."""

    identifier: int
    name: str
    members: list[tuple[str, Value]] = attrs.field(factory=list)


@attrs.define(eq=False)
class ArrayObject:
    """An array: its items, row by row, and its length in each dimension."""

    identifier: int
    lengths: tuple[int, ...]
    items: list[Value] = attrs.field(factory=list)
    octets: bytes | None = None
    """The items of a byte array."""


@attrs.define(eq=False)
class StringObject:
    """A BinaryObjectString."""

    identifier: int
    text: str


Object: TypeAlias = ClassObject | ArrayObject | StringObject
Value: TypeAlias = bool | int | float | str | NrbfReference | ClassObject | ArrayObject | StringObject | None


class _Record(enum.IntEnum):
    """2.1.2.1 RecordTypeEnumeration."""

    HEADER = 0
    CLASS_WITH_ID = 1
    SYSTEM_CLASS_WITH_MEMBERS = 2
    CLASS_WITH_MEMBERS = 3
    SYSTEM_CLASS_WITH_MEMBERS_AND_TYPES = 4
    CLASS_WITH_MEMBERS_AND_TYPES = 5
    BINARY_OBJECT_STRING = 6
    BINARY_ARRAY = 7
    MEMBER_PRIMITIVE_TYPED = 8
    MEMBER_REFERENCE = 9
    OBJECT_NULL = 10
    MESSAGE_END = 11
    BINARY_LIBRARY = 12
    OBJECT_NULL_MULTIPLE_256 = 13
    OBJECT_NULL_MULTIPLE = 14
    ARRAY_SINGLE_PRIMITIVE = 15
    ARRAY_SINGLE_OBJECT = 16
    ARRAY_SINGLE_STRING = 17
    METHOD_CALL = 21
    METHOD_RETURN = 22


class _Binary(enum.IntEnum):
    """2.1.2.2 BinaryTypeEnumeration."""

    PRIMITIVE = 0
    STRING = 1
    OBJECT = 2
    SYSTEM_CLASS = 3
    CLASS = 4
    OBJECT_ARRAY = 5
    STRING_ARRAY = 6
    PRIMITIVE_ARRAY = 7


class _Primitive(enum.IntEnum):
    """2.1.2.3 PrimitiveTypeEnumeration."""

    BOOLEAN = 1
    BYTE = 2
    CHAR = 3
    DECIMAL = 5
    DOUBLE = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    SBYTE = 10
    SINGLE = 11
    TIME_SPAN = 12
    DATE_TIME = 13
    UINT16 = 14
    UINT32 = 15
    UINT64 = 16
    NULL = 17
    STRING = 18


_NUMBERS: Final = {
    _Primitive.BYTE: Struct("<B"),
    _Primitive.DOUBLE: Struct("<d"),
    _Primitive.INT16: Struct("<h"),
    _Primitive.INT32: Struct("<i"),
    _Primitive.INT64: Struct("<q"),
    _Primitive.SBYTE: Struct("<b"),
    _Primitive.SINGLE: Struct("<f"),
    _Primitive.UINT16: Struct("<H"),
    _Primitive.UINT32: Struct("<I"),
    _Primitive.UINT64: Struct("<Q"),
}
_INT32: Final = Struct("<i")
_INT64: Final = Struct("<q")
_DECIMAL: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_LIBRARY_OF_NONE: Final = (_Record.SYSTEM_CLASS_WITH_MEMBERS, _Record.SYSTEM_CLASS_WITH_MEMBERS_AND_TYPES)
_TYPED: Final = (_Record.CLASS_WITH_MEMBERS_AND_TYPES, _Record.SYSTEM_CLASS_WITH_MEMBERS_AND_TYPES)
_WITH_OFFSETS: Final = (3, 4, 5)
_RANK: Final = 32
"""The maximum number of dimensions of a .NET array."""


@attrs.frozen
class _Metadata:
    """The names and types of the members of a class; C{primitives} has C{None} for those that are records."""

    name: str
    members: tuple[str, ...]
    primitives: tuple[_Primitive | None, ...]


@attrs.frozen
class _Nulls:
    """A number of consecutive items of an array are null."""

    count: int


class RecordReader:
    """Reads one stream: L{read} gives its root, and C{objects} has all of its objects.

    @raise BodyNotDecoded: the stream exceeds the limits; from L{read}.
    @raise msmq.errors.RemoteProtocolError: the stream is damaged; from L{read}.
    """

    def __init__(self, data: bytes, budget: Budget) -> None:
        self._reader = Reader(data)
        self._budget = budget
        self._classes: dict[int, _Metadata] = {}
        self.objects: dict[int, Object] = {}

    def read(self) -> Object:
        """Read the root object of the stream."""
        reader = self._reader
        with reader.header("SerializationHeaderRecord", "[MS-NRBF] 2.6.1"):
            if reader.u8("RecordTypeEnum") != _Record.HEADER:
                raise reader.malformed("RecordTypeEnum", "is not 0", offset=0)
            root = self._int32("RootId")
            reader.skip(4, "HeaderId")
            if self._int32("MajorVersion") != 1 or self._int32("MinorVersion") != 0:
                raise reader.malformed("MajorVersion", "is not 1.0", offset=9)
        while (record := self._record(0)) is not _END:
            if isinstance(record, _Nulls):
                raise reader.malformed("RecordTypeEnum", "is a null object outside all others")
        try:
            return self.objects[root]
        except KeyError:
            raise reader.malformed(
                "RootId", f"is {root}, which is not the identifier of an object", offset=1
            ) from None

    def _record(self, depth: int) -> Any:
        """The next record that is a value, L{_Nulls} or L{_END}; libraries before it are skipped."""
        reader = self._reader
        self._budget.depth(depth)
        with reader.header("Record", "[MS-NRBF] 2.1.2.1"):
            start = reader.position
            kind = reader.member(
                _Record, reader.u8("RecordTypeEnum"), "RecordTypeEnum", "is not a record", offset=start
            )
            while kind is _Record.BINARY_LIBRARY:
                self._budget.item()
                reader.skip(4, "LibraryId")
                self._string("LibraryName")
                start = reader.position
                kind = reader.member(
                    _Record, reader.u8("RecordTypeEnum"), "RecordTypeEnum", "is not a record", offset=start
                )
            self._budget.item()
            if kind in (_Record.METHOD_CALL, _Record.METHOD_RETURN):
                raise BodyNotDecoded("is a call of a remote method, or its answer, not an object")
            read = _READ.get(kind)
            if read is None:
                raise reader.malformed("RecordTypeEnum", f"{kind.name} is out of order", offset=start)
            return read(self, kind, depth)

    # The readers of each kind of record.

    def _class(self, kind: _Record, depth: int) -> ClassObject:
        identifier = self._int32("ObjectId")
        if kind is _Record.CLASS_WITH_ID:
            start = self._reader.position
            metadata = self._classes.get(self._int32("MetadataId"))
            if metadata is None:
                raise self._reader.malformed("MetadataId", "names no class before it", offset=start)
        else:
            metadata = self._metadata(kind)
            self._classes[identifier] = metadata
        made = ClassObject(identifier, metadata.name)
        self._keep(identifier, made)
        for name, primitive in zip(metadata.members, metadata.primitives, strict=True):
            if primitive is None:
                value = self._record(depth + 1)
                if isinstance(value, _Nulls):
                    if value.count != 1:
                        raise self._reader.malformed("NullCount", "is not 1 outside an array")
                    value = None
                elif value is _END:
                    raise self._reader.malformed("RecordTypeEnum", f"ends the stream before {name}")
            else:
                self._budget.item()
                value = self._primitive(primitive)
            made.members.append((name, value))
        return made

    def _metadata(self, kind: _Record) -> _Metadata:
        """2.3.1.1 ClassInfo, and 2.3.1.2 MemberTypeInfo if the record has it."""
        name = self._string("Name")
        count = self._count("MemberCount")
        members = tuple(self._string("MemberNames") for _ in range(count))
        primitives: tuple[_Primitive | None, ...] = (None,) * count
        if kind in _TYPED:
            kinds = [self._binary() for _ in range(count)]
            primitives = tuple(self._additional(binary) for binary in kinds)
        if kind not in _LIBRARY_OF_NONE:
            self._reader.skip(4, "LibraryId")
        return _Metadata(name, members, primitives)

    def _array(self, kind: _Record, depth: int) -> ArrayObject:
        identifier = self._int32("ObjectId")
        primitive = None
        if kind is _Record.BINARY_ARRAY:
            start = self._reader.position
            layout = self._reader.u8("BinaryArrayTypeEnum")
            if layout > max(_WITH_OFFSETS):
                raise self._reader.malformed("BinaryArrayTypeEnum", "is not from 0 to 5", offset=start)
            start = self._reader.position
            rank = self._int32("Rank")
            if not 1 <= rank <= _RANK:
                raise self._reader.malformed("Rank", f"{rank} is not from 1 to {_RANK}", offset=start)
            lengths = tuple(self._length("Lengths") for _ in range(rank))
            if layout in _WITH_OFFSETS:
                self._reader.skip(4 * rank, "LowerBounds")
            primitive = self._additional(self._binary())
        else:
            lengths = (self._length("Length"),)
            if kind is _Record.ARRAY_SINGLE_PRIMITIVE:
                primitive = self._primitive_type()
        made = ArrayObject(identifier, lengths)
        self._keep(identifier, made)
        count = math.prod(lengths)
        if primitive is _Primitive.BYTE and len(lengths) == 1:
            made.octets = self._reader.bytes(count, "Items")
            return made
        self._budget.item(count)
        if primitive is not None:
            made.items = [self._primitive(primitive) for _ in range(count)]
            return made
        items = made.items
        while len(items) < count:
            value = self._record(depth + 1)
            if isinstance(value, _Nulls):
                if value.count > count - len(items):
                    raise self._reader.malformed("NullCount", "goes beyond the end of the array")
                items.extend([None] * value.count)
            elif value is _END:
                raise self._reader.malformed("RecordTypeEnum", "ends the stream inside an array")
            else:
                items.append(value)
        return made

    def _text(self, kind: _Record, depth: int) -> StringObject:
        identifier = self._int32("ObjectId")
        made = StringObject(identifier, self._string("Value"))
        self._keep(identifier, made)
        return made

    def _typed(self, kind: _Record, depth: int) -> Value:
        return self._primitive(self._primitive_type())

    def _reference(self, kind: _Record, depth: int) -> NrbfReference:
        return NrbfReference(self._int32("IdRef"))

    def _nulls(self, kind: _Record, depth: int) -> _Nulls:
        if kind is _Record.OBJECT_NULL:
            return _Nulls(1)
        if kind is _Record.OBJECT_NULL_MULTIPLE_256:
            return _Nulls(self._reader.u8("NullCount"))
        return _Nulls(self._length("NullCount"))

    def _end(self, kind: _Record, depth: int) -> Any:
        if depth:
            raise self._reader.malformed("RecordTypeEnum", "ends the stream inside an object")
        return _END

    # What they are made of.

    def _keep(self, identifier: int, made: Object) -> None:
        if identifier in self.objects:
            raise self._reader.malformed("ObjectId", f"{identifier} is that of another object")
        self.objects[identifier] = made

    def _binary(self) -> _Binary:
        start = self._reader.position
        return self._reader.member(
            _Binary, self._reader.u8("BinaryTypeEnum"), "BinaryTypeEnum", "is not a type", offset=start
        )

    def _primitive_type(self) -> _Primitive:
        start = self._reader.position
        number = self._reader.u8("PrimitiveTypeEnum")
        kind = self._reader.member(_Primitive, number, "PrimitiveTypeEnum", "is not a type", offset=start)
        if kind in (_Primitive.NULL, _Primitive.STRING):
            raise self._reader.malformed("PrimitiveTypeEnum", f"is {kind.name}", offset=start)
        return kind

    def _additional(self, kind: _Binary) -> _Primitive | None:
        """Skip the additional type information; returns the type of a primitive member."""
        if kind is _Binary.PRIMITIVE:
            return self._primitive_type()
        if kind is _Binary.PRIMITIVE_ARRAY:
            self._primitive_type()
        elif kind is _Binary.SYSTEM_CLASS:
            self._string("ClassName")
        elif kind is _Binary.CLASS:
            self._string("TypeName")
            self._reader.skip(4, "LibraryId")
        return None

    def _primitive(self, kind: _Primitive) -> bool | int | float | str | None:
        reader = self._reader
        layout = _NUMBERS.get(kind)
        if layout is not None:
            (number,) = reader.unpack(layout, "Value")
            return finite_or_text(number)
        if kind is _Primitive.BOOLEAN:
            return reader.u8("Value") != 0
        if kind is _Primitive.CHAR:
            return self._char()
        start = reader.position
        if kind is _Primitive.DECIMAL:
            text = self._string("Value")
            if _DECIMAL.fullmatch(text) is None:
                raise reader.malformed("Value", "is not a decimal number", offset=start)
            return text
        (number,) = reader.unpack(_INT64, "Value")
        if kind is _Primitive.TIME_SPAN:
            return duration_text(number)
        # Two bits say whether the time is UTC (1), local (2) or unknown (0).
        time = ticks_text(number & ((1 << 62) - 1), utc=(number >> 62) & 3 == 1)
        if time is None:
            raise reader.malformed("Value", "is not a time before the year 10000", offset=start)
        return time

    def _char(self) -> str:
        """2.1.1.1: one character in UTF-8, whose first byte says how many bytes it has."""
        start = self._reader.position
        first = self._reader.u8("Value")
        more = 0 if first < 0x80 else 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        data = bytes((first,)) + self._reader.bytes(more, "Value")
        return utf8_text(self._reader, data, "Value", start)

    def _string(self, field: str) -> str:
        """2.1.1.6 LengthPrefixedString."""
        return read_text(self._reader, field)

    def _int32(self, field: str) -> int:
        (number,) = self._reader.unpack(_INT32, field)
        return int(number)

    def _length(self, field: str) -> int:
        start = self._reader.position
        number = self._int32(field)
        if number < 0:
            raise self._reader.malformed(field, f"is {number}", offset=start)
        return number

    def _count(self, field: str) -> int:
        """Read the count of items that follow, each of at least a byte."""
        start = self._reader.position
        number = self._length(field)
        if number > self._reader.remaining:
            raise self._reader.malformed(field, f"is {number}, more than bytes remain", offset=start)
        self._budget.item(number)
        return number


_END: Final = object()
_READ: Final = {
    _Record.CLASS_WITH_ID: RecordReader._class,
    _Record.SYSTEM_CLASS_WITH_MEMBERS: RecordReader._class,
    _Record.CLASS_WITH_MEMBERS: RecordReader._class,
    _Record.SYSTEM_CLASS_WITH_MEMBERS_AND_TYPES: RecordReader._class,
    _Record.CLASS_WITH_MEMBERS_AND_TYPES: RecordReader._class,
    _Record.BINARY_OBJECT_STRING: RecordReader._text,
    _Record.BINARY_ARRAY: RecordReader._array,
    _Record.MEMBER_PRIMITIVE_TYPED: RecordReader._typed,
    _Record.MEMBER_REFERENCE: RecordReader._reference,
    _Record.OBJECT_NULL: RecordReader._nulls,
    _Record.OBJECT_NULL_MULTIPLE_256: RecordReader._nulls,
    _Record.OBJECT_NULL_MULTIPLE: RecordReader._nulls,
    _Record.ARRAY_SINGLE_PRIMITIVE: RecordReader._array,
    _Record.ARRAY_SINGLE_OBJECT: RecordReader._array,
    _Record.ARRAY_SINGLE_STRING: RecordReader._array,
    _Record.MESSAGE_END: RecordReader._end,
}
