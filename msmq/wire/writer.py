"""A writer of little-endian structures ([MS-MQMQ] 2.2.18)."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from uuid import UUID

from msmq.errors import LocalProtocolError

_I64 = Struct("<q")
_SIZES = {"B": 1, "H": 2, "I": 4, "Q": 8}


class Writer:
    """Collects one packet.

    A number that does not fit its field raises L{LocalProtocolError} with the name of the field: the fault
    is the caller's, never a peer's.
    """

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def position(self) -> int:
        """Bytes written so far."""
        return len(self._data)

    def getvalue(self) -> bytes:
        """All that was written."""
        return bytes(self._data)

    def _number(self, number: int, field: str, size: int) -> None:
        if not 0 <= number < 1 << (8 * size):
            raise LocalProtocolError(f"{field}: {number} does not fit {8 * size} bits")
        self._data += number.to_bytes(size, "little")

    def numbers(self, layout: Struct, fields: Sequence[str], *numbers: int) -> None:
        """Write unsigned numbers together, which is much faster than one by one.

        @param layout: a L{struct} format of C{B}, C{H}, C{I} and C{Q} only, without repeat counts.
        @param fields: the names of the numbers, in the same order.
        """
        try:
            self._data += layout.pack(*numbers)
        except StructError:
            sizes = (_SIZES[letter] for letter in layout.format if letter in _SIZES)
            for number, field, size in zip(numbers, fields, sizes, strict=True):
                self._number(number, field, size)

    def u8(self, number: int, field: str) -> None:
        """An unsigned 8-bit number."""
        self._number(number, field, 1)

    def u16(self, number: int, field: str) -> None:
        """An unsigned little-endian 16-bit number."""
        self._number(number, field, 2)

    def u32(self, number: int, field: str) -> None:
        """An unsigned little-endian 32-bit number."""
        self._number(number, field, 4)

    def u64(self, number: int, field: str) -> None:
        """An unsigned little-endian 64-bit number."""
        self._number(number, field, 8)

    def i64(self, number: int, field: str) -> None:
        """A signed little-endian 64-bit number."""
        if not -(1 << 63) <= number < 1 << 63:
            raise LocalProtocolError(f"{field}: {number} does not fit 64 signed bits")
        self._data += _I64.pack(number)

    def guid(self, guid: UUID) -> None:
        """A GUID as its 16 wire bytes."""
        self._data += guid.bytes_le

    def bytes(self, data: bytes | bytearray | memoryview) -> None:
        """Bytes, unchanged."""
        self._data += data

    def utf16(self, text: str, field: str) -> None:
        """UTF-16LE text and its NUL.

        @raise LocalProtocolError: the text contains a NUL.
        """
        if "\0" in text:
            raise LocalProtocolError(f"{field}: the text contains a NUL")
        self._data += (text + "\0").encode("utf-16-le", "surrogatepass")

    def align(self, multiple: int) -> None:
        """Zeros up to the next multiple of C{multiple}."""
        self._data += bytes(-len(self._data) % multiple)
