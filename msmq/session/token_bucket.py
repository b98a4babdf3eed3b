"""A rate that a quiet time saves up for."""

from __future__ import annotations

import attrs

from msmq.moment import Moment


@attrs.define
class TokenBucket:
    """So many events in a second, the same number at once after a quiet time.

    @ivar rate: events in a second, and the most that are saved up.
    @ivar tokens: what is saved up.
    @ivar filled: the monotonic second at which that was so.
    """

    rate: float
    tokens: float
    filled: float

    @classmethod
    def full(cls, rate: float, now: Moment) -> TokenBucket:
        """A bucket that nothing was taken from yet."""
        return cls(rate, rate, now.monotonic)

    def has_one(self, now: Moment) -> bool:
        """Whether one more event is within the rate."""
        elapsed = max(0.0, now.monotonic - self.filled)
        self.tokens = min(self.rate, self.tokens + elapsed * self.rate)
        self.filled = max(self.filled, now.monotonic)
        return self.tokens >= 1

    def take(self) -> None:
        """Count one event."""
        self.tokens -= 1
