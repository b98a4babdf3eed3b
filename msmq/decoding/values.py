"""Conversion of packet fields to JSON values."""

from __future__ import annotations

import re
from base64 import b64encode
from datetime import UTC, datetime
from functools import lru_cache
from uuid import UUID

from msmq.wire.guid import braced, guid_from_bytes

_CONTROL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def guid_text(guid: UUID | bytes) -> str:
    """A GUID in braces and upper case."""
    return braced(guid if isinstance(guid, UUID) else guid_from_bytes(guid))


def base64_text(data: bytes | memoryview) -> str:
    """The bytes in base64, on one line."""
    return b64encode(data).decode("ascii")


def plain_text(data: bytes | memoryview) -> str | None:
    """The bytes as text, if they are UTF-8 without control characters other than tab, CR and LF."""
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


def text_or_base64(key: str, data: bytes | memoryview) -> dict[str, str]:
    """The bytes under C{key} as text, or else under C{key_base64} in base64."""
    text = plain_text(data)
    return {f"{key}_base64": base64_text(data)} if text is None else {key: text}


def correlation_text(data: bytes | memoryview) -> str:
    r"""The twenty bytes of a correlation identifier as C{{guid}\number}, like a message identifier."""
    return f"{guid_text(bytes(data[:16]))}\\{int.from_bytes(data[16:20], 'little')}"


@lru_cache(maxsize=1024)
def unix_time(seconds: float | None) -> str | None:
    """Seconds since 1970-01-01 UTC in ISO 8601; C{None} for C{None} and for what no year has.

    Whole seconds are written without a fraction, others with six digits.
    """
    if seconds is None:
        return None
    try:
        timespec = "seconds" if seconds == int(seconds) else "microseconds"
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=timespec)
    except (OverflowError, ValueError, OSError):
        return None
