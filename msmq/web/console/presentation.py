"""Values as the console shows them: times, dumps, and text without hidden characters."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from datetime import datetime, tzinfo
from hashlib import blake2b
from typing import Final

import attrs

_LAYOUT: Final = frozenset("\n\t")
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


def field_text(text: str) -> str:
    """What the field of a form returns for a text that was not edited: hidden characters are escaped in it,
    and browsers drop line feeds.
    """
    return visible(text).replace("\n", "")


def _escaped(character: str) -> str:
    if unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode("ascii")


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
