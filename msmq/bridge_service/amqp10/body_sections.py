"""Bodies of several sections, of which proton's C{Message} keeps the last one only. [AMQP] 3.2."""

from __future__ import annotations

from typing import Any, Final

from proton import Data

_DATA: Final = 0x75
_SEQUENCE: Final = 0x76
_NAMES: Final = {b"amqp:data:binary": _DATA, b"amqp:amqp-sequence:list": _SEQUENCE}
_SMALL_ULONG: Final = 0x53
_SYMBOL: Final = 0xA3
_FIXED: Final = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}
"""Bytes of a value of fixed width, by the high half of its constructor. [AMQP] 1.2."""

_SIZES: Final = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}
"""Bytes of the size of every other value."""


def joined_body(message: bytes) -> bytes | list[Any] | None:
    """The body of a message whose body has several sections; C{None} if it has at most one.

    @raise ValueError: the message is malformed.
    """
    try:
        sections = _body_sections(message)
    except IndexError as error:
        raise ValueError("a section of the message is cut") from error
    if len(sections) < 2:
        return None
    kinds = {kind for kind, _, _ in sections}
    if kinds == {_DATA}:
        return b"".join(_binary(message, start, end) for _, start, end in sections)
    if kinds == {_SEQUENCE}:
        return [each for _, start, end in sections for each in _list(message[start:end])]
    raise ValueError("the body has sections of data and of sequences")


def _body_sections(message: bytes) -> list[tuple[int, int, int]]:
    """The sections of data and of sequences: kind, and start and end of the value."""
    found = []
    position = 0
    while position < len(message):
        if message[position]:
            raise ValueError("a section of the message has no descriptor")
        start = _end(message, position + 1)
        end = _value_end(message, start)
        kind = _kind(message, position + 1, start)
        if kind in (_DATA, _SEQUENCE):
            found.append((kind, start, end))
        position = end
    return found


def _kind(message: bytes, start: int, end: int) -> int:
    """The code of a descriptor; 0 for one that is not a number or a known name."""
    constructor = message[start]
    if constructor == _SMALL_ULONG:
        return message[start + 1]
    if constructor == _SYMBOL:
        return _NAMES.get(message[start + 2 : end], 0)
    return int.from_bytes(message[start + 1 : end]) if constructor >> 4 == 8 else 0


def _value_end(message: bytes, position: int) -> int:
    """The end of a value, which may be described itself."""
    while message[position] == 0:
        position = _end(message, position + 1)
    return _end(message, position)


def _end(message: bytes, position: int) -> int:
    """The end of a value that is not described."""
    kind = message[position] >> 4
    if kind in _FIXED:
        return position + 1 + _FIXED[kind]
    if kind not in _SIZES:
        raise ValueError(f"a section of the message has the constructor 0x{message[position]:02x}")
    start = position + 1 + _SIZES[kind]
    return start + int.from_bytes(message[position + 1 : start])


def _binary(message: bytes, start: int, end: int) -> bytes:
    return message[start + 1 + _SIZES.get(message[start] >> 4, 0) : end]


def _list(value: bytes) -> list[Any]:
    data = Data()
    data.decode(value)
    data.rewind()
    data.next()
    found: Any = data.get_object()
    return list(found)
