"""Stored packets and their metadata, and values that fit columns."""

from __future__ import annotations

from typing import Final, NamedTuple

LATEST: Final = 253402300800 * 1_000_000
"""The microsecond with which the year 10000 begins; no later time is shown."""
_SIGN: Final = 1 << 63


class StoredPacket(NamedTuple):
    """A packet and its stored metadata.

    @ivar packet: the UserMessage packet as it is stored, without a SessionHeader; it need not be sound.
    @ivar topic: see the column of this name, as of C{offset}, C{partition} and C{timestamp_type}.
    @ivar arrived: when it arrived in its queue, or was captured; seconds since 1970-01-01 UTC.
    @ivar lookup_id: LookupIdentifier; C{None} in a capture.
    @ivar aborts: AbortCount, C{None} where that is not kept, as C{moves}.
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
    """An unsigned number of 64 bits as the signed one of the same bits, since Spark has no other."""
    return number - 2 * _SIGN if number & _SIGN else number


def text(value: str) -> str:
    """The text, with U+FFFD for unpaired surrogates, which a column cannot contain."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value
