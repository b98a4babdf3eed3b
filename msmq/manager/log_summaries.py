"""Rate-limited log lines about peers: texts that they choose, and refusals."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs

from msmq.line_limit import LineLimit

LINES: Final = 10
"""Lines of the log in a minute about messages that are not taken; the event log has all of them."""


@attrs.frozen
class RefusalLog:
    """Messages and acknowledgements that were not taken.

    @ivar counts: how many, by the name of the reason.
    @ivar lines: how much of that the log of the process gets.
    """

    counts: Counter[str] = attrs.field(factory=Counter)
    lines: LineLimit = attrs.field(factory=lambda: LineLimit.a_minute(LINES))
