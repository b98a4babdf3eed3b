"""Rate limit of log lines, with a count of suppressed ones."""

from __future__ import annotations

from msmq.moment import Moment
from msmq.token_bucket import TokenBucket


class LineLimit:
    """Rate limit of one kind of log lines that peers can cause at any rate.

    @param rate: mean number of lines a second.
    @param burst: maximum burst of lines after a quiet time; by default the lines of a second.
    """

    def __init__(self, rate: float, burst: int | None = None) -> None:
        self._rate = rate
        self._burst = rate if burst is None else burst
        self._bucket: TokenBucket | None = None
        self._omitted = 0

    @classmethod
    def a_minute(cls, lines: int) -> LineLimit:
        """A limit of this number of lines a minute, all of them at once after a quiet minute."""
        return cls(lines / 60, lines)

    def has_one(self, now: Moment) -> bool:
        """Whether the next line is within the limit."""
        return self._bucket is None or self._bucket.has_one(now)

    def leave_out(self) -> None:
        """Count a line that is suppressed for another reason."""
        self._omitted += 1

    def take(self, now: Moment) -> str | None:
        """Count the next line; returns a suffix with the number of suppressed lines, or C{None} to suppress
        this one.
        """
        bucket = self._bucket
        if bucket is None:
            bucket = self._bucket = TokenBucket.full(self._rate, now, self._burst)
        if not bucket.has_one(now):
            self._omitted += 1
            return None
        bucket.take()
        omitted, self._omitted = self._omitted, 0
        return f"; {omitted} more since the last such line" if omitted else ""


class LineBudget:
    """Limits on log lines that peers cause: for each kind, and for all kinds together.

    @param lines: lines of one kind in a minute.
    @param of_all: lines of all kinds in a minute.
    """

    def __init__(self, lines: int, of_all: int) -> None:
        self._lines = lines
        self._of_all = LineLimit.a_minute(of_all)
        self._kinds: dict[str, LineLimit] = {}

    def take(self, kind: str, now: Moment) -> str | None:
        """As L{LineLimit.take}, for the next line of a kind.

        @param kind: a constant of the program, never input of a peer, since each kind keeps its limit in
            memory.
        """
        limit = self._kinds.get(kind)
        if limit is None:
            limit = self._kinds[kind] = LineLimit.a_minute(self._lines)
        if not limit.has_one(now):
            return limit.take(now)
        if self._of_all.take(now) is None:
            limit.leave_out()
            return None
        return limit.take(now)
