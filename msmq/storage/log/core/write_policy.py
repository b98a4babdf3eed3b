"""Write policy: the reactor's thread while writes are fast, a worker thread otherwise."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

INLINE_BYTES: Final = 64 * 1024
"""The largest group that is written in the reactor's thread."""
INLINE_BATCHES: Final = 24
"""Limit on the batches of such a group: with more pending ones a thread has more throughput."""
INLINE_SECONDS: Final = 0.002
"""Seconds of a write in the reactor's thread, on average, above which the worker thread takes over."""
STALL_SECONDS: Final = 0.01
"""The same for a single write; shorter ones wait for a processor as often as for the disk."""
WEIGHT: Final = 1 / 16
"""Weight of the last write in the average."""
QUICK_SECONDS: Final = INLINE_SECONDS / 2
"""Seconds of the fastest recent worker write below which the reactor writes again."""
SWITCH_SECONDS: Final = 0.01
"""Allowance in seconds for a worker write that waits for the interpreter lock."""
FEWEST: Final = 16
"""Worker writes before the reactor's thread may write: at first, and after a slow write."""
MOST: Final = 1024
"""The same after many slow writes; each slow write soon after the previous one doubles it."""
FORGOTTEN: Final = 4096
"""Quick writes in a row after which earlier slow ones do not count."""


@attrs.define
class WritePolicy:
    """Chooses the writing thread by measured write times.

    The worker thread begins, since the speed of the disk is unknown.
    The fastest of its last writes decides, since the others may have waited for the interpreter lock and not
    for the disk.
    In the reactor's thread a single write over L{STALL_SECONDS}, or an average over L{INLINE_SECONDS}, passes
    the next 16 writes to the worker, then 32, up to 1,024, so that on a disk that stalls occasionally at most
    one write in a thousand stalls the reactor.

    @ivar is_quick: whether the reactor's thread writes small groups.
    """

    is_quick: bool = False
    _last: deque[float] = attrs.field(factory=lambda: deque(maxlen=FEWEST))
    _remaining: int = FEWEST
    _pause: int = FEWEST
    _quick: int = 0
    _average: float = 0.0

    def is_inline(self, size: int, batches: int) -> bool:
        """Whether a group of this many bytes is written in the reactor's thread."""
        return self.is_quick and size <= INLINE_BYTES and batches <= INLINE_BATCHES

    def measured(self, seconds: float, size: int, *, is_inline: bool) -> None:
        """Record the duration of a write; writes of large groups are ignored."""
        if size > INLINE_BYTES:
            return
        if not self.is_quick:
            self._last.append(seconds)
            self._remaining -= 1
            self.is_quick = (
                self._remaining <= 0 and len(self._last) == FEWEST and min(self._last) <= QUICK_SECONDS
            )
            self._average = 0.0
        elif self._is_slow(seconds, is_inline):
            self.is_quick = False
            self._last.clear()
            self._remaining = self._pause
            self._pause = min(2 * self._pause, MOST)
            self._quick = 0
        else:
            self._quick += 1
            if self._quick >= FORGOTTEN:
                self._pause = FEWEST

    def _is_slow(self, seconds: float, is_inline: bool) -> bool:
        if not is_inline:
            return seconds > SWITCH_SECONDS
        self._average += WEIGHT * (seconds - self._average)
        return seconds > STALL_SECONDS or self._average > INLINE_SECONDS
