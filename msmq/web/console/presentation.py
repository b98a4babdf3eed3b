"""Values as the console shows them: numbers with units, times, and text without hidden characters."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from datetime import datetime, tzinfo
from hashlib import blake2b
from typing import Final

import attrs

_STEP: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_LAYOUT: Final = frozenset("\n\t")
_DURATIONS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_PLAIN_GROUP: Final = 4
_HEX_ROW: Final = 16


def visible(text: object) -> str:
    r"""Text in which control and format characters are written as C{\u202e}.

    Format characters include those that change the direction of text, which could make one name look like
    another. Line feeds and tabs stay, since the style sheet decides about them.
    """
    value = str(text)
    if value.isprintable():
        return value
    return "".join(each if each in _LAYOUT or each.isprintable() else _escaped(each) for each in value)


def _escaped(character: str) -> str:
    if unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode("ascii")


def count(number: int) -> str:
    """A number with its thousands separated by thin spaces: C{12 345}; four digits stay together."""
    text = f"{number:,}"
    return str(number) if len(str(abs(number))) <= _PLAIN_GROUP else text.replace(",", "\u202f")


def size(number: int) -> str:
    """A number of bytes with its unit: C{648 B}, C{12.7 KiB}, C{3.1 GiB}."""
    value, unit = float(number), 0
    while value >= _STEP - 0.05 and unit + 1 < len(_UNITS):
        value, unit = value / _STEP, unit + 1
    return f"{number} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def kilobytes(number: int | None) -> str:
    """A quota, which is in units of 1,024 bytes; C{None} is no limit."""
    return "no limit" if number is None else size(number * _STEP)


def seconds(number: float | None) -> str | None:
    """A short time with its unit: C{0.4 ms}, C{37 ms}, C{2.5 s}."""
    if number is None:
        return None
    if number >= 1:
        return f"{number:.1f} s"
    return f"{number * 1000:.1f} ms" if number < 0.01 else f"{number * 1000:.0f} ms"


def duration(seconds: float) -> str:
    """A duration in its two largest units: C{0 s}, C{3 min 5 s}, C{2 d 4 h}."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, length in _DURATIONS:
        number, left = divmod(left, length)
        if parts or number or unit == "s":
            parts.append(f"{number} {unit}")
        if len(parts) == 2:
            break
    return " ".join(part for position, part in enumerate(parts) if position == 0 or part[0] != "0")


@attrs.frozen
class ShownTime:
    """A time for a C{time} element.

    @ivar machine: in ISO 8601, UTC.
    @ivar local: in the time zone of the server.
    @ivar utc: the same time in UTC, for the element's title.
    """

    machine: str
    local: str
    utc: str


def shown_time(text: str, zone: tzinfo | None) -> ShownTime:
    """A time of the control API, in ISO 8601.

    @param zone: the time zone of the server; C{None} for that of the process.
    """
    moment = datetime.fromisoformat(text)
    return ShownTime(text, f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S}", f"{moment:%Y-%m-%d %H:%M:%S} UTC")


def utc_offset(now: datetime, zone: tzinfo | None) -> int:
    """Seconds by which times of the server are ahead of UTC now."""
    offset = now.astimezone(zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def fingerprint(value: object) -> str:
    """A short text that differs for different values of JSON."""
    return blake2b(json.dumps(value, sort_keys=True, default=str).encode(), digest_size=8).hexdigest()


@attrs.frozen
class HexRow:
    """Sixteen bytes of a dump: their offset, hex digits, and ASCII characters."""

    offset: str
    digits: str
    characters: str


def hex_rows(data: bytes) -> Iterator[HexRow]:
    """The rows of a hex dump."""
    for start in range(0, len(data), _HEX_ROW):
        row = data[start : start + _HEX_ROW]
        characters = "".join(chr(each) if 0x20 <= each < 0x7F else "." for each in row)
        yield HexRow(f"{start:08x}", row.hex(" "), characters)
