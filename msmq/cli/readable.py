"""Values of JSON objects as texts for people: local times, short sizes, no control characters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from msmq.cli.units import size_text

_SIZES: Final = frozenset({"bytes", "size"})
_TIMES: Final = frozenset(
    "time opened last_heard last_sent began oldest newest not_before not_after records_since next_attempt"
    " session_opened".split()
)


def cell(value: object, key: str = "", *, utc: bool = True) -> str:
    """A value as text on one line, with terminal control characters escaped.

    @param key: its key, which says whether it is a time (C{sent_time}) or a number of bytes (C{bytes}).
    @param utc: print times in UTC rather than in the time zone of this computer.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(cell(part, key, utc=utc) for part in value) or "-"
    if isinstance(value, Mapping):
        parts = (f"{cell(name)}={cell(part, str(name), utc=utc)}" for name, part in value.items())
        return " ".join(parts) or "-"
    if isinstance(value, float):
        return _number_text(value)
    if isinstance(value, int) and _is_size(key):
        return size_text(value)
    if isinstance(value, str) and _is_time(key):
        return time_text(value, utc=utc)
    return printable(str(value))


def time_text(text: str, *, utc: bool) -> str:
    """A time of the control API, to the millisecond, with its offset: it can be pasted into C{--since}.

    @param text: ISO 8601 with an offset; any other text is only made printable.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return printable(text)
    if moment.tzinfo is None:
        return printable(text)
    try:
        local = moment.astimezone(UTC if utc else None)
    except (OverflowError, OSError, ValueError):
        # The last day of the year 9999, for "no end", is in the year 10000 in a zone ahead of UTC.
        local = moment
    return local.isoformat(timespec="milliseconds" if local.microsecond else "seconds")


def printable(text: str, also: str = "") -> str:
    """Escape all non-printable characters of a text, except those in C{also}."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in also
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def _number_text(value: float) -> str:
    """Thousandths, or four digits of a number below 1."""
    return str(round(value, 3) if abs(value) >= 1 else float(f"{value:.4g}"))


def _is_size(key: str) -> bool:
    return key in _SIZES or (key.endswith(("_bytes", "_size")) and key != "log_size")


def _is_time(key: str) -> bool:
    return key in _TIMES or key.endswith("_time")
