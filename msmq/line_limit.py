"""Rate limit of log lines, with a count of suppressed ones."""

from __future__ import annotations

from msmq.moment import Moment
from msmq.token_bucket import TokenBucket


class LineLimit:
    """How many lines of one kind the log of the process gets, when peers decide how many there could be.

    @param rate: lines in a second, as a mean.
    @param burst: as many at once after a quiet time; by default what comes in a second.
    """

    def __init__(self, rate: float, burst: int | None = None) -> None:
        self._rate = rate
        self._burst = rate if burst is None else burst
        self._bucket: TokenBucket | None = None
        self._omitted = 0

    @classmethod
    def a_minute(cls, lines: int) -> LineLimit:
        """So many lines in a minute, all of them at once after a quiet one."""
        return cls(lines / 60, lines)

    def take(self, now: Moment) -> str | None:
        """What to say behind the next line, of those that were left out before; C{None} to leave it out."""
        bucket = self._bucket
        if bucket is None:
            bucket = self._bucket = TokenBucket.full(self._rate, now, self._burst)
        if not bucket.has_one(now):
            self._omitted += 1
            return None
        bucket.take()
        omitted, self._omitted = self._omitted, 0
        return f"; {omitted} more since the last such line" if omitted else ""
