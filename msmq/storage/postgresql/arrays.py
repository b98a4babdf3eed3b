"""Binary encoding of PostgreSQL arrays.

A statement receives all messages of a group as one array per column. psycopg can build arrays from lists, but
takes ten times as long, mostly for packets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEAD: Final = struct.Struct("!iiIii")
_LENGTH: Final = struct.Struct("!i")
_NULL: Final = _LENGTH.pack(-1)
_NULLABLE: Final = struct.Struct("!iq")

_BYTEA, _INT8, _INT4, _FLOAT8 = 17, 20, 23, 701


class IntegerArray(bytes):
    """C{int4[]}."""


class BigintArray(bytes):
    """C{int8[]}."""


class FloatArray(bytes):
    """C{float8[]}."""


class ByteaArray(bytes):
    """C{bytea[]}."""


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Any) -> Buffer | None:
        return bytes(obj)


class _IntegerArrayDumper(_ArrayDumper):
    oid = 1007


class _BigintArrayDumper(_ArrayDumper):
    oid = 1016


class _FloatArrayDumper(_ArrayDumper):
    oid = 1022


class _ByteaArrayDumper(_ArrayDumper):
    oid = 1001


DUMPERS: Final = (
    (IntegerArray, _IntegerArrayDumper),
    (BigintArray, _BigintArrayDumper),
    (FloatArray, _FloatArrayDumper),
    (ByteaArray, _ByteaArrayDumper),
)
"""The psycopg dumper of each array type."""


def integers(values: Sequence[int]) -> IntegerArray:
    """@raise struct.error: a value is not within 32 bits."""
    return IntegerArray(_fixed(_INT4, "i", values))


def bigints(values: Sequence[int]) -> BigintArray:
    """@raise struct.error: a value is not within 64 bits."""
    return BigintArray(_fixed(_INT8, "q", values))


def floats(values: Sequence[float]) -> FloatArray:
    """An array of double precision."""
    return FloatArray(_fixed(_FLOAT8, "d", values))


def nullable_bigints(values: Sequence[int | None]) -> BigintArray:
    """An array of 64-bit numbers, with NULL for C{None}."""
    pack = _NULLABLE.pack
    elements = [_NULL if value is None else pack(8, value) for value in values]
    return BigintArray(b"".join((_head(_INT8, len(values), has_null=True), *elements)))


def byte_strings(values: Sequence[bytes | None]) -> ByteaArray:
    """An array of bytes, with NULL for C{None}."""
    pack = _LENGTH.pack
    elements: list[bytes] = [_head(_BYTEA, len(values), has_null=None in values)]
    for value in values:
        if value is None:
            elements.append(_NULL)
        else:
            elements.append(pack(len(value)))
            elements.append(value)
    return ByteaArray(b"".join(elements))


def _fixed(oid: int, code: str, values: Sequence[float]) -> bytes:
    """Encode values of a fixed size, each preceded by its length."""
    lengths: Iterable[int] = (struct.calcsize(f"!{code}"),) * len(values)
    packed = struct.pack(
        "!" + f"i{code}" * len(values), *chain.from_iterable(zip(lengths, values, strict=True))
    )
    return _head(oid, len(values), has_null=False) + packed


def _head(oid: int, length: int, *, has_null: bool) -> bytes:
    """Header of an array of one dimension, counted from 1; an empty array has no dimension."""
    return _HEAD.pack(1, has_null, oid, length, 1) if length else _HEAD.pack(0, 0, oid, 0, 0)[:12]
