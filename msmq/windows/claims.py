"""CLAIM_SECURITY_ATTRIBUTE_RELATIVE_V1: claims of accounts, attributes of objects. [MS-DTYP] 2.4.10.1."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import lru_cache
from struct import Struct, error, pack
from typing import Final

import attrs

from msmq.windows.security_descriptor_aces import Ace, AceFlags, AceType, Acl
from msmq.wire.sid import format_sid

MOST_VALUES: Final = 256
"""Limit on the values of one claim."""

MOST_BYTES: Final = 1 << 16
"""Limit on the size of all its values together, since many may share one offset."""


class ValueType(enum.Enum):
    """ValueType; signed and unsigned numbers compare alike. [MS-DTYP] 2.4.10.1."""

    INTEGER = "integer"
    STRING = "string"
    SID = "SID"
    BOOLEAN = "boolean"
    OCTETS = "octets"


class ClaimKind(enum.IntEnum):
    """ValueType as it is encoded. [MS-DTYP] 2.4.10.1."""

    INT64 = 0x0001
    UINT64 = 0x0002
    STRING = 0x0003
    SID = 0x0005
    BOOLEAN = 0x0006
    OCTETS = 0x0010


@attrs.frozen
class Value:
    """One value.

    @ivar value: C{int}, C{str}, C{bool}, or C{bytes} for SIDs and octets.
    """

    type: ValueType
    value: int | str | bytes


@attrs.frozen
class Claim:
    """A security attribute.

    @ivar values: all of one type; a claim without values counts as missing.
    """

    name: str
    values: tuple[Value, ...]
    is_case_sensitive: bool = False


@attrs.frozen
class Claims:
    """Token.LocalClaims, UserClaims and DeviceClaims, by their L{folded} names. [MS-DTYP] 2.5.2."""

    local: Mapping[str, Claim] = attrs.field(factory=dict)
    user: Mapping[str, Claim] = attrs.field(factory=dict)
    device: Mapping[str, Claim] = attrs.field(factory=dict)


def named(*claims: Claim) -> dict[str, Claim]:
    """Claims by their names; the first of several with one name."""
    found: dict[str, Claim] = {}
    for claim in claims:
        found.setdefault(folded(claim.name), claim)
    return found


@lru_cache(256)
def folded(text: str) -> str:
    """A text for comparison without regard to case, character by character."""
    return "".join(map(_folded, text))


def resource_claims(sacl: Acl | None) -> Mapping[str, Claim] | None:
    """The resource attributes in a SACL; C{None} if one of them is malformed. [MS-DTYP] 2.5.3.1.7."""
    found = []
    for ace in () if sacl is None else sacl.aces:
        if (
            isinstance(ace, Ace)
            and ace.type is AceType.SYSTEM_RESOURCE_ATTRIBUTE
            and not ace.flags & AceFlags.INHERIT_ONLY
        ):
            claim = read_claim(ace.data)
            if claim is None:
                return None
            found.append(claim)
    return named(*found)


@attrs.frozen
class ResourceAttribute:
    """Attribute Data, complete. [MS-DTYP] 2.4.4.15.

    @ivar values: C{int} of integers and truth values, C{str} of strings, C{bytes} of SIDs and octets.
    @ivar flags: Flags; the upper half is defined by applications.
    """

    name: str
    kind: ClaimKind
    values: tuple[int | str | bytes, ...]
    flags: int = 0

    @classmethod
    def read(cls, data: bytes) -> ResourceAttribute | None:
        """Parse one; C{None} if it is malformed, of an unknown type, or too large."""
        try:
            name, number, flags, count = _HEAD(data)
            if count > MOST_VALUES:
                return None
            kind = ClaimKind(number)
            reading = _Reading(data)
            offsets = Struct(f"<{count}I").unpack_from(data, _HEAD_SIZE)
            values = tuple(reading.value(kind, offset) for offset in offsets)
            return cls(reading.text(name), kind, values, flags)
        except (error, ValueError):
            return None

    def to_bytes(self) -> bytes:
        """The encoding in an entry, whose size is a multiple of four."""
        head = _HEAD_SIZE + 4 * len(self.values)
        offsets, rest = [], bytearray()
        for value in self.values:
            offsets.append(head + len(rest))
            rest += _aligned(_written(self.kind, value))
        name = head + len(rest)
        rest += _aligned(_text(self.name))
        return pack(f"<IHHII{len(offsets)}I", name, self.kind, 0, self.flags, len(offsets), *offsets) + rest


@lru_cache(256)
def read_claim(data: bytes) -> Claim | None:
    """Parse a claim; C{None} if it is malformed, of an unknown type, or too large."""
    found = ResourceAttribute.read(data)
    if found is None:
        return None
    kind = _TYPES[found.kind]
    is_truth = kind is ValueType.BOOLEAN
    values = tuple(Value(kind, bool(value) if is_truth else value) for value in found.values)
    return Claim(found.name, values, bool(found.flags & _CASE_SENSITIVE))


def _written(kind: ClaimKind, value: int | str | bytes) -> bytes:
    match value:
        case bytes():
            return pack("<I", len(value)) + value
        case str():
            return _text(value)
    return pack("<q" if kind is ClaimKind.INT64 else "<Q", value)


def _text(text: str) -> bytes:
    return f"{text}\0".encode("utf-16-le", "surrogatepass")


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


_TYPES: Final = {
    ClaimKind.INT64: ValueType.INTEGER,
    ClaimKind.UINT64: ValueType.INTEGER,
    ClaimKind.STRING: ValueType.STRING,
    ClaimKind.SID: ValueType.SID,
    ClaimKind.BOOLEAN: ValueType.BOOLEAN,
    ClaimKind.OCTETS: ValueType.OCTETS,
}
_HEAD: Final = Struct("<IH2xII").unpack_from
_HEAD_SIZE: Final = 16
_CASE_SENSITIVE: Final = 0x0002
_I64: Final = Struct("<q").unpack_from
_U64: Final = Struct("<Q").unpack_from
_U32: Final = Struct("<I").unpack_from


class _Reading:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MOST_BYTES

    def value(self, kind: ClaimKind, offset: int) -> int | str | bytes:
        match kind:
            case ClaimKind.INT64:
                return int(_I64(self._data, offset)[0])
            case ClaimKind.UINT64:
                return int(_U64(self._data, offset)[0])
            case ClaimKind.STRING:
                return self.text(offset)
            case ClaimKind.SID:
                sid = self._octets(offset)
                format_sid(sid)
                return sid
            case ClaimKind.BOOLEAN:
                (number,) = _U64(self._data, offset)
                if number > 1:
                    raise ValueError(f"{number} is not a Boolean value")
                return int(number)
            case ClaimKind.OCTETS:
                return self._octets(offset)

    def text(self, offset: int) -> str:
        """The text up to its NUL."""
        end = offset
        while (end := self._data.index(b"\0\0", end)) - offset & 1:
            end += 1
        self._take(end - offset)
        return self._data[offset:end].decode("utf-16-le", "surrogatepass")

    def _octets(self, offset: int) -> bytes:
        (size,) = _U32(self._data, offset)
        start = offset + 4
        if size > len(self._data) - start:
            raise ValueError(f"needs {size} bytes, more than remain")
        self._take(size)
        return self._data[start : start + size]

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError("the values are too large together")


def _folded(character: str) -> str:
    # Not where folding would yield two characters, or make distinct characters equal.
    upper = character.upper()
    return upper if len(upper) == 1 and upper.lower() == character.lower() else character
