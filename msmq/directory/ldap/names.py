"""Distinguished names of directory objects: composition, parsing, comparison. [MS-MQDSSM] 2.2.1."""

from __future__ import annotations

import string
from functools import cache
from typing import Final
from uuid import UUID

from msmq.quoting import quoted

CONFIGURATION: Final = "msmq"
"""The name of every mSMQConfiguration."""

SETTINGS: Final = "MSMQ Settings"
"""The name of every mSMQSettings."""

SERVICES: Final = "MsmqServices"
"""The name of the one mSMQEnterpriseSettings."""

NAME_LIMIT: Final = 63
"""Limit on the characters of a queue's name in a distinguished name; a longer name is split."""

_KEPT: Final = 55
_HASHED_LENGTH: Final = 64
_HASH_TAIL: Final = 9
_POLYNOMIAL: Final = 0x9B619023
_ESCAPED: Final = frozenset(' "#+,;<=>\\')
_HEXADECIMAL: Final = frozenset(string.hexdigits)


class DistinguishedNameError(ValueError):
    """A text is not a distinguished name."""


def child(name: str, parent: str) -> str:
    """The distinguished name of the object C{name} below C{parent}."""
    return f"CN={escape(name)},{parent}"


def escape(value: str) -> str:
    """A value, escaped for a distinguished name (RFC 4514 2.4)."""
    out = []
    for index, character in enumerate(value):
        if character == "\0" or character == "\n" or character == "\r":
            out.append(f"\\{ord(character):02X}")
        elif character in _ESCAPED and (character not in " #" or index in (0, len(value) - 1)):
            out.append(f"\\{character}")
        else:
            out.append(character)
    return "".join(out)


def split(name: str) -> tuple[tuple[str, str], ...]:
    """The parts of a distinguished name, each with its type in lower case and its value.

    @raise DistinguishedNameError: it is none, or has a part of several values.
    """
    return tuple(map(_part, _texts(name)))


def parent(name: str, levels: int = 1) -> str:
    """The parent of a distinguished name; empty if it has no more parts.

    @raise DistinguishedNameError: it is none.
    """
    return ",".join(text.strip() for text in _texts(name)[levels:])


def folded(name: str) -> str:
    """A distinguished name in canonical form, for comparison.

    @raise DistinguishedNameError: it is none.
    """
    return ",".join(f"{kind}={escape(value.lower())}" for kind, value in split(name))


def is_within(name: str, above: str) -> bool:
    """Whether a distinguished name is another one, or is below it; false if one of them is malformed."""
    try:
        own, other = folded(name), folded(above)
    except DistinguishedNameError:
        return False
    return own == other or own.endswith(f",{other}")


def value_at(name: str, index: int) -> str:
    """The value of one part of a distinguished name, the leftmost being 0; empty if there is none.

    @raise DistinguishedNameError: it is none.
    """
    parts = split(name)
    return parts[index][1] if index < len(parts) else ""


def link_name(site1: UUID, site2: UUID) -> str:
    """The name of a routing link. [MS-MQDSSM] 3.1.6.1.4.2."""
    return site1.hex + site2.hex


def stored_queue_name(name: str) -> tuple[str, str]:
    """The name of a queue's entry, and its mSMQQueueNameExt. [MS-MQDSSM] 3.1.6.1.2.5.

    The backslashes that the document inserts escape its distinguished names; they are not part of the name,
    and do not count.
    """
    if len(name) <= NAME_LIMIT:
        return name, ""
    return f"{name[:_KEPT]}-{name_hash(name)}", name[_KEPT:]


def queue_name(stored: str, extension: str) -> str:
    """The name of a queue, from both its parts. [MS-MQDSSM] 3.1.6.11.2.1."""
    if len(stored) == _HASHED_LENGTH:
        return stored[:-_HASH_TAIL] + extension
    return stored


def name_hash(name: str) -> str:
    """The hash string of a queue's name, eight digits. [MS-MQDSSM] 2.2.5."""
    value = 0
    table = _table()
    for unit in _units(name.lower()):
        for byte in (unit >> 8, unit & 0xFF):
            value = (value >> 8) ^ table[byte ^ (value & 0xFF)]
    return f"{value:08x}"


def _units(text: str) -> list[int]:
    """The UTF-16 code units of a text."""
    data = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(data[index : index + 2], "little") for index in range(0, len(data), 2)]


@cache
def _table() -> tuple[int, ...]:
    """The document's table: that of a CRC with its own polynomial."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


def _texts(name: str) -> list[str]:
    """The parts of a distinguished name, still escaped."""
    if not name:
        return []
    found, start, index = [], 0, 0
    while index < len(name):
        if name[index] == "\\":
            index += 1
        elif name[index] == ",":
            found.append(name[start:index])
            start = index + 1
        index += 1
    found.append(name[start:])
    return found


def _part(text: str) -> tuple[str, str]:
    kind, separator, written = text.partition("=")
    kind = kind.strip().lower()
    if not separator or not kind:
        raise DistinguishedNameError(f"{quoted(text)} has no type and value")
    # An escaped space belongs to the value.
    written = written.lstrip(" ")
    end = len(written.rstrip(" "))
    if end and end < len(written) and _is_escaping(written, end - 1):
        end += 1
    return kind, _unescaped(written[:end])


def _is_escaping(text: str, index: int) -> bool:
    """Whether the backslash at C{index} is not escaped itself."""
    count = 0
    while index - count >= 0 and text[index - count] == "\\":
        count += 1
    return count % 2 == 1


def _unescaped(text: str) -> str:
    out = bytearray()
    index = 0
    while index < len(text):
        character = text[index]
        if character == "+":
            raise DistinguishedNameError(f"{quoted(text)} has several values")
        if character != "\\":
            out += character.encode()
            index += 1
            continue
        pair = text[index + 1 : index + 3]
        if len(pair) == 2 and set(pair) <= _HEXADECIMAL:
            out.append(int(pair, 16))
            index += 3
        elif pair:
            out += pair[0].encode()
            index += 2
        else:
            raise DistinguishedNameError(f"{quoted(text)} ends with a backslash")
    try:
        return out.decode()
    except UnicodeDecodeError as error:
        raise DistinguishedNameError(f"{quoted(text)} is not UTF-8") from error
