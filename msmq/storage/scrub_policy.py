"""Rate and schedule of the background verification of stores."""

from __future__ import annotations

from typing import Final

import attrs


@attrs.frozen
class ScrubPolicy:
    """The rate of the scrubber.

    @ivar bytes_per_second: maximum read rate.
    @ivar interval: seconds between two steps.
    @ivar delay: seconds from the opening of the store to the first pass.
    @ivar pause: seconds from the end of a pass to the next one.
    """

    bytes_per_second: int
    interval: float
    delay: float
    pause: float

    @property
    def step_bytes(self) -> int:
        """Bytes of packets after which a step ends; it reads at least one packet."""
        return max(1, int(self.bytes_per_second * self.interval))

    def wait(self, size: int) -> float:
        """Seconds until the next step after one that read this number of bytes."""
        return max(self.interval, size / self.bytes_per_second)


SCRUBBING: Final = ScrubPolicy(4 * 1024 * 1024, interval=0.02, delay=60.0, pause=6 * 3600.0)
"""4 MiB/s, a minute after the start and then six hours after the end of each pass."""
