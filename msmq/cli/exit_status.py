"""The exit statuses of the command, which docs/commands.md promises to scripts."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
REFUSED: Final = 1
WRONG_USAGE: Final = 2
TIMED_OUT: Final = 3
INTERRUPTED: Final = 130
"""The exit status of shells for the signal of Ctrl-C."""
