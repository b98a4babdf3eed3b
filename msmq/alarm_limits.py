"""Limits beyond which a figure of a server is an alarm, of the command and of the console alike.

The alerts in C{packaging/prometheus/alerts.yml} have the same thresholds, but are raised only after minutes,
and look at a failed commit for five: Prometheus sees a server at its scrapes alone.
"""

from __future__ import annotations

from typing import Final

OLD: Final = 3600.0
"""Age of the oldest message of a queue, in seconds."""

NEARLY_FULL: Final = 0.9
"""Used part of a quota."""

LITTLE_SPACE: Final = 0.1
"""Free part of the file system of the store."""

SLOW_COMMIT: Final = 0.5
"""Seconds that 1 % of the commits exceed, or half of them if they are fewer than
L{COMMITS_OF_A_PERCENTILE}.
"""

COMMITS_OF_A_PERCENTILE: Final = 100
"""Commits below which 1 % of them is no commit."""

FEWEST_COMMITS: Final = 10
"""Commits below which L{SLOW_COMMIT} is no alarm: a start has a few, which may wait for a cold disk."""

STALLED_COMMIT: Final = 10.0
"""Seconds that a single commit exceeds, one that has not ended yet or one of fewer than
L{COMMITS_OF_A_PERCENTILE}: no disk that works needs them, and a server with few commits has no half of them.
"""

FAILURE_COUNTS: Final = 90.0
"""Seconds for which a failed commit, which is retried meanwhile, is an alarm and makes a server unready."""

EXPIRES_SOON: Final = 30 * 86400.0
"""Seconds before the expiry of a TLS certificate from which on it is an alarm."""

TOKEN_EXPIRES_SOON: Final = 14 * 86400.0
"""Seconds before the expiry of a token of a caller from which on it is an alarm."""

RECENT_REFUSALS: Final = 900.0
"""Seconds for which refused messages of peers are an alarm."""

UNREACHED: Final = frozenset({"WAITING", "NEED VALIDATION"})
"""States of an outgoing queue whose next hop is not reached or not known."""

FORWARDS_NOTHING: Final = frozenset({"waiting", "blocked", "stopped"})
"""Conditions of a route to another broker that forwards nothing, although no operator has paused it."""
