"""Decisions about what a peer states of itself: its identifier, the address of a sender, its clock.

Nothing proves an identifier: a machine that was cloned with its identifier, and a peer that claims to be
another, look alike. So messages for a queue manager stay with its known address, and forged sources do not
count against another host's limit.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

import attrs

MOVED_AFTER: Final = 3600.0
"""Seconds after the last session with the known address after which another address replaces it."""

CLOCK_TOLERANCE: Final = 60
"""Offset of SentTime in seconds above which it is logged."""


class StatedIdentifier(enum.Enum):
    """What an identifier says that the peer of a session states."""

    KNOWN = "its queue manager is known at that address"
    OWN = "it is the identifier of this queue manager"
    MOVED = "its queue manager is known at that address from now on"
    ELSEWHERE = "its queue manager is known at another address, and stays there"


@attrs.frozen(kw_only=True)
class IdentifierFacts:
    """What is known of the identifier that the peer of a new session states.

    @ivar is_own: it is that of this queue manager.
    @ivar is_at_address: its queue manager was met first at the address of the session, or was never met.
    @ivar is_listed: that address was seen with it before.
    @ivar is_connected: a session with the known address is open.
    @ivar absent_for: seconds since the last one ended.
    """

    is_own: bool
    is_at_address: bool
    is_listed: bool
    is_connected: bool
    absent_for: float


def classify_identifier(facts: IdentifierFacts) -> StatedIdentifier:
    """Decide what to record of the identifier that a peer states."""
    if facts.is_own:
        return StatedIdentifier.OWN
    if facts.is_at_address or facts.is_listed:
        return StatedIdentifier.KNOWN
    if not facts.is_connected and facts.absent_for >= MOVED_AFTER:
        return StatedIdentifier.MOVED
    return StatedIdentifier.ELSEWHERE


def is_source_address(known: str | None, address: str, is_admitted: Callable[[], bool]) -> bool:
    """Whether the address of a message becomes the one that counts for its source.

    @param known: the one that counts so far; C{None} if there is none.
    @param is_admitted: whether the configuration trusts C{address}; asked only if that decides.
    """
    return known is None or (known != address and is_admitted())


def is_clock_off(offset: float) -> bool:
    """Whether a clock is so far ahead or behind that it is reported.

    @param offset: seconds by which SentTime is ahead of this queue manager's clock.
    """
    return abs(offset) > CLOCK_TOLERANCE
