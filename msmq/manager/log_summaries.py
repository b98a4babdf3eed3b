"""What the log shows of what others chose: of their texts, and how often."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs

from msmq.moment import Moment
from msmq.token_bucket import TokenBucket

LINES: Final = 10
"""Lines of the log in a second about messages that are not taken; the event log has all of them."""


class LineLimit:
    """How many lines of one kind the log of the process gets, when peers decide how many there could be.

    @param rate: lines in a second, and as many at once after a quiet time.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._bucket: TokenBucket | None = None
        self._omitted = 0

    def take(self, now: Moment) -> str | None:
        """What to say behind the next line, of those that were left out before; C{None} to leave it out."""
        bucket = self._bucket
        if bucket is None:
            bucket = self._bucket = TokenBucket.full(self._rate, now)
        if not bucket.has_one(now):
            self._omitted += 1
            return None
        bucket.take()
        omitted, self._omitted = self._omitted, 0
        return f"; {omitted} more since the last such line" if omitted else ""


@attrs.frozen
class RefusalLog:
    """Messages and acknowledgements that were not taken.

    @ivar counts: how many, by the name of the reason.
    @ivar lines: how much of that the log of the process gets.
    """

    counts: Counter[str] = attrs.field(factory=Counter)
    lines: LineLimit = attrs.field(factory=lambda: LineLimit(LINES))
