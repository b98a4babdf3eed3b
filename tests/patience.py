"""How long a test waits for what other processes and threads do."""

from __future__ import annotations

from typing import Final

DEADLINE: Final = 240
"""Seconds until a test gives up.

Nothing is measured by it: only what hangs reaches it, and so it is longer than a slow and busy machine
needs for anything, and than the programs of the examples wait before they say what they miss.
"""
