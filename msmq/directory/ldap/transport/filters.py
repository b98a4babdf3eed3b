"""LDAP search filters with values in bytes, so that GUIDs can be searched."""

from __future__ import annotations

from typing import TypeAlias

import attrs


@attrs.frozen
class Equal:
    """An attribute has this value, perhaps among others."""

    attribute: str
    value: bytes

    def __str__(self) -> str:
        return f"({self.attribute}={_escaped(self.value)})"


@attrs.frozen
class Present:
    """An attribute has a value."""

    attribute: str

    def __str__(self) -> str:
        return f"({self.attribute}=*)"


@attrs.frozen
class All:
    """Each of these holds."""

    terms: tuple[Filter, ...]

    def __str__(self) -> str:
        return f"(&{''.join(map(str, self.terms))})"


Filter: TypeAlias = Equal | Present | All
"""iFilter, as far as a server evaluates it; its text is that of RFC 4515. [MS-MQDSSM] 3.1.6.15."""

ANYTHING = Present("objectClass")


def of_class(name: str, *terms: Filter) -> Filter:
    """The objects of a class for which each term holds."""
    return All((Equal("objectClass", name.encode()), *terms))


def _escaped(value: bytes) -> str:
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"()*\\" else f"\\{byte:02x}" for byte in value
    )
