"""What the log shows of texts that others chose."""

from __future__ import annotations

LONGEST_SHOWN = 200
"""Characters of a name that a log line shows."""


def shown(text: str) -> str:
    """A text in one short printable piece; who chose it may be anyone."""
    printable = ascii(text)
    return printable if len(printable) <= LONGEST_SHOWN else printable[:LONGEST_SHOWN] + "..."
