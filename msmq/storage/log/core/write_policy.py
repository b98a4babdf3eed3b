"""Write policy: the reactor's thread while writes are fast, a worker thread otherwise."""

from __future__ import annotations

from typing import Final

import attrs

INLINE_BYTES: Final = 64 * 1024
"""The largest group that is written in the reactor's thread."""
INLINE_BATCHES: Final = 24
"""Limit on the batches of such a group: with more pending ones a thread has more throughput."""
INLINE_SECONDS: Final = 0.001
"""How long a write may be expected to take in the reactor's thread."""
FALL: Final = 0.98
"""What the expectation falls by with each write that was quicker."""


@attrs.define
class WritePolicy:
    """The choice, and the measurement that decides it.

    What a write is expected to take is the maximum of the last ones, which falls by two per cent with
    each write: one that took 20 ms keeps the next 150 groups away from the reactor's thread.

    @ivar expected: seconds.
    """

    expected: float = INLINE_SECONDS / 2

    def is_inline(self, size: int, batches: int) -> bool:
        """Whether a group of this many bytes is written in the reactor's thread."""
        return size <= INLINE_BYTES and batches <= INLINE_BATCHES and self.expected <= INLINE_SECONDS

    def measured(self, seconds: float, size: int) -> None:
        """Take note of how long the write of a group took; that of a large one says nothing of small ones."""
        if size <= INLINE_BYTES:
            self.expected = max(seconds, self.expected * FALL)
