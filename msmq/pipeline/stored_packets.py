"""Stored packets and their metadata, and values that fit columns."""

from __future__ import annotations

from typing import Final, NamedTuple

LATEST: Final = 253402300800 * 1_000_000
"""First microsecond of the year 10000; later times are shown as null."""
_SIGN: Final = 1 << 63


class StoredPacket(NamedTuple):
    """Packet with its stored metadata.

    @ivar packet: the UserMessage packet as it is stored, without a SessionHeader; it may be malformed.
    @ivar topic: the value of the column of this name; so are C{offset}, C{partition} and C{timestamp_type}.
    @ivar arrived: when it arrived in its queue, or was captured; seconds since 1970-01-01 UTC.
    @ivar lookup_id: LookupIdentifier; C{None} in a capture.
    @ivar aborts: AbortCount, C{None} if it is not stored; C{moves}: MoveCount, likewise.
    """

    packet: bytes
    topic: str
    offset: int
    arrived: float | None = None
    lookup_id: int | None = None
    aborts: int | None = None
    moves: int | None = None
    partition: int = 0
    timestamp_type: int = 1


def signed(number: int) -> int:
    """An unsigned 64-bit number as the signed one with the same bits, since Spark has only signed ones."""
    return number - 2 * _SIGN if number & _SIGN else number


def text(value: str) -> str:
    """The text, with U+FFFD for unpaired surrogates, which a column cannot contain."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value
