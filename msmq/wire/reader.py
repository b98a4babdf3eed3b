"""A bounds-checked reader of little-endian structures, nested by length."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Any, TypeVar
from uuid import UUID

from msmq.errors import RemoteProtocolError
from msmq.wire.guid import guid_from_bytes

_U16 = Struct("<H")
_U32 = Struct("<I")
_U64 = Struct("<Q")
_I64 = Struct("<q")

Member = TypeVar("Member", bound=IntEnum)


class Reader:
    """Reads one packet from its beginning and raises L{RemoteProtocolError} for anything malformed.

    Every read names its field, so that an error has the structure, the field, the rule and the offset.
    Nothing is read past the end, nor past the innermost length that L{confined} declared.
    Offsets are counted from the beginning of C{data} plus C{base}.

    @param base: where C{data} begins within the packet, for a reader that starts in its middle.
    """

    __slots__ = ("_base", "_data", "_end", "_header", "_position", "_section")

    def __init__(self, data: bytes | bytearray | memoryview, *, base: int = 0) -> None:
        self._data = memoryview(data)
        self._position = 0
        self._end = len(self._data)
        self._base = base
        self._header = "Packet"
        self._section = "[MS-MQMQ] 2.2"

    @property
    def position(self) -> int:
        """Bytes from the beginning of the packet to the next byte that will be read."""
        return self._base + self._position

    @property
    def remaining(self) -> int:
        """Bytes up to the end, or to the innermost declared length."""
        return self._end - self._position

    def malformed(self, field: str, rule: str, *, offset: int | None = None) -> RemoteProtocolError:
        """Create the error that C{field} breaks C{rule}, for the caller to raise.

        @param offset: where the field begins, from the beginning of the packet; by default the position.
        """
        where = self.position if offset is None else offset
        return RemoteProtocolError(self._section, self._header, field, where, rule)

    def member(self, kind: type[Member], number: int, field: str, rule: str, *, offset: int) -> Member:
        """The member of C{kind} for a number that was read before.

        @param rule: the rule for the error, at C{offset} and about C{field}, if there is no such member.
        """
        try:
            return kind(number)
        except ValueError:
            raise self.malformed(field, rule, offset=offset) from None

    def header(self, name: str, section: str) -> _Named:
        """Name the structure that is read inside the block; the context value is where it begins."""
        return _Named(self, name, section)

    def confined(self, size: int, field: str, *, slack: int = 0) -> _Confined:
        """Confine the block to the next C{size} bytes, all of which it has to read.

        @param field: the field that declared the size.
        @param slack: how many bytes the block may leave unread (padding); they are skipped.
        """
        return _Confined(self, size, field, slack)

    def bytes(self, size: int, field: str) -> bytes:
        """The next C{size} bytes."""
        return bytes(self.view(size, field))

    def view(self, size: int, field: str) -> memoryview:
        """The next C{size} bytes without a copy."""
        start = self._passed(size, field)
        return self._data[start : start + size]

    def unpack(self, layout: Struct, field: str) -> tuple[Any, ...]:
        """The next bytes, unpacked according to C{layout}; C{field} is its first field."""
        return layout.unpack_from(self._data, self._passed(layout.size, field))

    def _passed(self, size: int, field: str) -> int:
        """Skip the next C{size} bytes; return where they begin."""
        start = self._position
        if size > self._end - start:
            raise self.malformed(field, f"needs {size} bytes where {self._end - start} remain")
        self._position = start + size
        return start

    def u8(self, field: str) -> int:
        """An unsigned 8-bit number."""
        return self._data[self._passed(1, field)]

    def u16(self, field: str) -> int:
        """An unsigned little-endian 16-bit number."""
        number: int = _U16.unpack_from(self._data, self._passed(2, field))[0]
        return number

    def u32(self, field: str) -> int:
        """An unsigned little-endian 32-bit number."""
        number: int = _U32.unpack_from(self._data, self._passed(4, field))[0]
        return number

    def u64(self, field: str) -> int:
        """An unsigned little-endian 64-bit number."""
        number: int = _U64.unpack_from(self._data, self._passed(8, field))[0]
        return number

    def i64(self, field: str) -> int:
        """A signed little-endian 64-bit number."""
        number: int = _I64.unpack_from(self._data, self._passed(8, field))[0]
        return number

    def guid(self, field: str) -> UUID:
        """The next 16 bytes as a GUID."""
        return guid_from_bytes(self.view(16, field))

    def utf16(self, size: int, field: str) -> str:
        """The next C{size} bytes as UTF-16LE text that ends with its only NUL, which is dropped.

        Unpaired surrogates are kept, because Windows does not forbid them.
        """
        start = self.position
        if size < 2 or size % 2:
            raise self.malformed(field, f"{size} bytes are not NUL-terminated UTF-16 text")
        text = self.bytes(size, field).decode("utf-16-le", "surrogatepass")
        if text.find("\0") != len(text) - 1:
            raise self.malformed(field, "has a NUL before its end", offset=start)
        return text[:-1]

    def align(self, multiple: int, field: str = "Padding") -> None:
        """Skip to the next multiple of C{multiple}; the skipped bytes are ignored."""
        self._passed(-(self._base + self._position) % multiple, field)

    def skip(self, size: int, field: str) -> None:
        """Skip C{size} bytes."""
        self._passed(size, field)


# Classes, since a context manager made of a generator costs more than most structures read inside it.


class _Named:
    """A block that reads a named structure."""

    __slots__ = ("_name", "_outer", "_reader")

    def __init__(self, reader: Reader, name: str, section: str) -> None:
        self._reader = reader
        self._name = name, section

    def __enter__(self) -> int:
        reader = self._reader
        self._outer = reader._header, reader._section
        reader._header, reader._section = self._name
        return reader._base + reader._position

    def __exit__(self, *raised: object) -> None:
        self._reader._header, self._reader._section = self._outer


class _Confined:
    """A block that reads a given number of bytes."""

    __slots__ = ("_field", "_outer", "_reader", "_size", "_slack")

    def __init__(self, reader: Reader, size: int, field: str, slack: int) -> None:
        self._reader = reader
        self._size = size
        self._field = field
        self._slack = slack

    def __enter__(self) -> None:
        reader, size = self._reader, self._size
        if size > reader.remaining:
            raise reader.malformed(self._field, f"declares {size} bytes where {reader.remaining} remain")
        self._outer, reader._end = reader._end, reader._position + size

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        reader = self._reader
        try:
            if kind is None:
                left = reader.remaining
                if left > self._slack:
                    raise reader.malformed(
                        self._field, f"declares {self._size} bytes, of which {left} are unused"
                    )
                reader._position = reader._end
        finally:
            reader._end = self._outer
