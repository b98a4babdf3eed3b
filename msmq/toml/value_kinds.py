"""Kinds of values that a key of a TOML file takes.

Each converts a value of C{tomllib}, or raises L{ValueError} with the predicate of "the value ...".
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network
from typing import Final, Protocol
from uuid import UUID

import attrs

from msmq.quantities import DURATION_FORM, KIBIBYTE, SIZE_FORM, decimal, parse_duration, parse_size
from msmq.quoting import quoted
from msmq.wire.addresses import parse_network
from msmq.wire.guid import parse_guid

_MOST_SHOWN: Final = 10**30


class ValueKind(Protocol):
    """Kind of the values of a key."""

    @property
    def type_name(self) -> str:
        """The TOML type, in words."""

    @property
    def range_text(self) -> str:
        """The accepted values of the type; empty for all of them."""

    def read(self, value: object) -> object:
        """Convert a value of the file to a value of the settings.

        @raise ValueError: it has another type, or is out of range.
        """


def type_name(value: object) -> str:
    """The type of a value of a TOML file, in words."""
    match value:
        case bool():
            return "true or false"
        case str():
            return "text"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case list():
            return "an array"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def wrong_type(expected: str, value: object) -> ValueError:
    """Create the error about a value of another type, for the caller to raise."""
    return ValueError(f"must be {expected}, not {type_name(value)}")


def _shown(value: float) -> str:
    """Format a refused number for people."""
    if isinstance(value, float):
        return decimal(value)
    if abs(value) < _MOST_SHOWN:
        return str(value)
    return "a number of more than 30 digits"


@attrs.frozen
class Flag:
    """C{true} or C{false}."""

    type_name: str = "true or false"
    range_text: str = ""

    def read(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise wrong_type(self.type_name, value)
        return value


@attrs.frozen
class WholeNumber:
    """An integer within bounds."""

    low: int
    high: int
    type_name: str = "a whole number"

    @property
    def range_text(self) -> str:
        return f"{self.low} to {self.high}"

    def read(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type(self.type_name, value)
        if not self.low <= value <= self.high:
            raise ValueError(f"must be from {self.range_text}, not {_shown(value)}")
        return value


@attrs.frozen
class Size:
    """A number of bytes or of KiB within bounds, or text with a unit.

    @ivar step: the bytes of the unit of a bare number; a text that is not a multiple of it is rounded up.
    """

    low: int
    high: int
    step: int = 1
    type_name: str = "a size"

    @property
    def range_text(self) -> str:
        return f"{self.low} to {self.high}"

    @property
    def unit(self) -> str:
        """The unit of a bare number and of the bounds."""
        return "KiB" if self.step == KIBIBYTE else "bytes"

    def read(self, value: object) -> int:
        number: object = value
        if isinstance(value, str):
            try:
                number = -(-parse_size(value) // self.step)
            except ValueError:
                raise ValueError(
                    f"must be a number of {self.unit}, or {SIZE_FORM}, not {quoted(value)}"
                ) from None
        if isinstance(number, bool) or not isinstance(number, int):
            raise wrong_type(f"a number of {self.unit}, or {SIZE_FORM}", value)
        if not self.low <= number <= self.high:
            raise ValueError(
                f"must be from {self.range_text} {self.unit}, not {_shown_quantity(value, number)}"
            )
        return number


@attrs.frozen
class Seconds:
    """A duration within bounds: a number of seconds, possibly fractional, or text with a unit."""

    low: float
    high: float
    type_name: str = "a duration"

    @property
    def range_text(self) -> str:
        return f"{decimal(self.low)} to {decimal(self.high)}"

    def read(self, value: object) -> float:
        return float(_read_seconds(self.low, self.high, self.range_text, value))


@attrs.frozen
class WholeSeconds:
    """A duration of whole seconds within bounds: their number, or text with a unit."""

    low: int
    high: int
    type_name: str = "a duration"

    @property
    def range_text(self) -> str:
        return f"{self.low} to {self.high}"

    def read(self, value: object) -> int:
        found = _read_seconds(self.low, self.high, self.range_text, value)
        if found != int(found):
            raise ValueError(f"must be a whole number of seconds, not {_shown_quantity(value, found)}")
        return int(found)


def _read_seconds(low: float, high: float, range_text: str, value: object) -> int | float:
    number: object = value
    if isinstance(value, str):
        try:
            number = parse_duration(value)
        except ValueError:
            raise ValueError(
                f"must be a number of seconds, or {DURATION_FORM}, not {quoted(value)}"
            ) from None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise wrong_type(f"a number of seconds, or {DURATION_FORM}", value)
    # An integer may be too large for a float, and NaN is not within any bounds.
    if not low <= number <= high:
        raise ValueError(f"must be from {range_text} seconds, not {_shown_quantity(value, number)}")
    return number


def _shown_quantity(value: object, number: float) -> str:
    """A refused quantity, as it is written."""
    return quoted(value) if isinstance(value, str) else _shown(number)


@attrs.frozen
class Text:
    """Text that a function validates; it raises L{ValueError} for invalid text."""

    accept: Callable[[str], object]
    range_text: str
    type_name: str = "text"

    def read(self, value: object) -> str:
        if not isinstance(value, str):
            raise wrong_type(self.type_name, value)
        self.accept(value)
        return value


@attrs.frozen
class Guid:
    """A GUID as text, with or without braces."""

    type_name: str = "text"
    range_text: str = "a GUID"

    def read(self, value: object) -> UUID:
        if not isinstance(value, str):
            raise wrong_type("a GUID as text", value)
        try:
            return parse_guid(value)
        except ValueError:
            raise ValueError(f"must be a GUID, not {quoted(value)}") from None


@attrs.frozen
class NetworkKind:
    """An IP address, or a network of them."""

    type_name: str = "text"
    range_text: str = "an IP address or a network"

    def read(self, value: object) -> IPv4Network | IPv6Network:
        if not isinstance(value, str):
            raise wrong_type("an IP address or a network as text", value)
        return parse_network(value)


@attrs.frozen
class Array:
    """An array of values of one kind.

    @ivar element: the kind of its elements.
    @ivar range_text: the plural of the elements, in words.
    """

    element: ValueKind
    range_text: str
    type_name: str = "an array"

    def read(self, value: object) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise wrong_type(f"an array of {self.range_text}", value)
        return tuple(self.element.read(element) for element in value)


GUIDS: Final = Array(Guid(), "GUIDs")
"""An array of GUIDs."""


def computer_name(text: str) -> None:
    """Validate a computer name for a direct format name.

    @raise ValueError: it is not valid.
    """
    if not 1 <= len(text) <= 255:
        raise ValueError(f"must have 1 to 255 characters, not {len(text)}")
    for character in text:
        if not (character.isalnum() or character in "-_."):
            raise ValueError(
                f"must not contain {quoted(character)}; letters, digits, '-', '_' and '.' are allowed"
            )
