"""Rate-limited log lines about refused messages, with texts that peers choose."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs

from msmq.line_limit import LineLimit

LINES: Final = 10
"""Log lines in a minute about refused messages; the event log has all of them."""


@attrs.frozen
class RefusalLog:
    """Counts and log lines of refused messages and acknowledgements.

    @ivar counts: their numbers, by the name of the reason.
    @ivar lines: the limit on log lines.
    """

    counts: Counter[str] = attrs.field(factory=Counter)
    lines: LineLimit = attrs.field(factory=lambda: LineLimit.a_minute(LINES))
