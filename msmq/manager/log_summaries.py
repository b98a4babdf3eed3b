"""Rate-limited log lines about refused messages, with texts that peers choose, and their numbers."""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

import attrs

from msmq.alarm_limits import RECENT_REFUSALS
from msmq.line_limit import LineLimit
from msmq.moment import Moment

LINES: Final = 10
"""Log lines in a minute about refused messages; the event log has all of them."""

_INTERVAL: Final = 60.0
"""Seconds that are counted together."""


class RecentCounts:
    """Counts of the last L{RECENT_REFUSALS} seconds by name, to within a minute.

    Its memory is bounded by the number of names, which are constants of the program and no input of a peer.
    """

    def __init__(self) -> None:
        self._intervals: deque[tuple[float, Counter[str]]] = deque()

    def add(self, name: str, now: Moment) -> None:
        """Count one."""
        self._drop(now)
        if not self._intervals or now.monotonic - self._intervals[-1][0] >= _INTERVAL:
            self._intervals.append((now.monotonic, Counter()))
        self._intervals[-1][1][name] += 1

    def current(self, now: Moment) -> dict[str, int]:
        """The counts until now; a name without any is missing."""
        self._drop(now)
        total: Counter[str] = Counter()
        for _, counts in self._intervals:
            total.update(counts)
        return dict(total)

    def _drop(self, now: Moment) -> None:
        while self._intervals and now.monotonic - self._intervals[0][0] >= RECENT_REFUSALS:
            self._intervals.popleft()


@attrs.frozen
class RefusalLog:
    """Counts and log lines of refused messages and acknowledgements.

    @ivar counts: their numbers, by the name of the reason.
    @ivar recent: those of the last quarter of an hour, without those that are part of normal operation.
    @ivar lines: the limit on log lines.
    """

    counts: Counter[str] = attrs.field(factory=Counter)
    recent: RecentCounts = attrs.field(factory=RecentCounts)
    lines: LineLimit = attrs.field(factory=lambda: LineLimit.a_minute(LINES))

    def count(self, reason: str, now: Moment) -> None:
        """Count a refusal that an operator has to see."""
        self.counts[reason] += 1
        self.recent.add(reason, now)
