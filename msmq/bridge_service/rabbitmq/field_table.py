"""Field tables of AMQP 0-9-1 (4.2.5.5) in bytes.

Most headers of a message are those of the message before it, so the encodings of the latest texts are kept.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pika.data import encode_value
from pika.exceptions import AMQPError

_LONGEST_KEPT: Final = 256
"""Limit on the characters of a text whose encoding is kept."""

_LONGEST_SHORT: Final = 255


def encoded_short_string(text: str) -> bytes:
    """A short string: a byte with its length, and UTF-8.

    @raise ValueError: it has more than 255 bytes, or surrogates.
    """
    data = text.encode("utf-8")
    if len(data) > _LONGEST_SHORT:
        raise ValueError(f"a short string has {len(data)} bytes, and the limit is {_LONGEST_SHORT}")
    return bytes((len(data),)) + data


def encoded_field_table(fields: Mapping[str, Any]) -> bytes:
    """A table: its size in bytes, and each field.

    A text is a long string, C{bytes} a byte array, a C{float} a double, an C{int} has 32 bits or 64.

    @raise ValueError: a name or a value has no encoding; the text says which, and why.
    """
    pieces = []
    for name, value in fields.items():
        if value.__class__ is str and len(value) <= _LONGEST_KEPT:
            pieces.append(_text_field(name, value))
        else:
            pieces.append(_field(name, value))
    data = b"".join(pieces)
    return struct.pack(">I", len(data)) + data


def _field(name: str, value: Any) -> bytes:
    try:
        return encoded_short_string(name) + _encoded(value)
    except RecursionError:
        raise ValueError(f"the field {name!a:.60}: it is nested too deeply") from None
    except (ValueError, TypeError, AttributeError, ArithmeticError, struct.error) as error:
        raise ValueError(f"the field {name!a:.60}: {str(error) or 'it has no encoding'}") from error


_text_field = lru_cache(maxsize=512)(_field)


def _encoded(value: Any) -> bytes:
    if isinstance(value, str):
        data = value.encode("utf-8")
        return struct.pack(">cI", b"S", len(data)) + data
    if isinstance(value, bool) or value is None:
        return _encoded_by_pika(value)
    if isinstance(value, int):
        if -(1 << 31) <= value < 1 << 31:
            return struct.pack(">ci", b"I", value)
        if -(1 << 63) <= value < 1 << 63:
            return struct.pack(">cq", b"l", value)
        raise ValueError("an integer has more than 64 bits")
    if isinstance(value, float):
        # pika has no encoding for it, though it reads it.
        return struct.pack(">cd", b"d", value)
    if isinstance(value, Mapping):
        # An error names the field of the outermost table only, however deep this one is.
        data = b"".join([encoded_short_string(name) + _encoded(inner) for name, inner in value.items()])
        return struct.pack(">cI", b"F", len(data)) + data
    if isinstance(value, list | tuple):
        data = b"".join(map(_encoded, value))
        return struct.pack(">cI", b"A", len(data)) + data
    return _encoded_by_pika(value)


def _encoded_by_pika(value: Any) -> bytes:
    pieces: list[bytes] = []
    try:
        encode_value(pieces, value)
    except AMQPError as error:
        raise ValueError(f"a value of {type(value).__name__} has no encoding") from error
    return b"".join(pieces)
