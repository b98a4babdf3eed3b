"""Token bucket: a rate limit with a burst."""

from __future__ import annotations

import attrs

from msmq.moment import Moment


@attrs.define
class TokenBucket:
    """Token bucket: limits the rate of events, with a burst after a quiet time.

    @ivar rate: events in a second.
    @ivar tokens: the available tokens.
    @ivar filled: the monotonic second of the last refill.
    @ivar most: the capacity.
    """

    rate: float
    tokens: float
    filled: float
    most: float = attrs.field()

    @most.default
    def _one_second(self) -> float:
        return self.rate

    @classmethod
    def full(cls, rate: float, now: Moment, most: float | None = None) -> TokenBucket:
        """Create a full bucket.

        @param most: the capacity; C{None} for the tokens of a second.
        """
        held = rate if most is None else most
        return cls(rate, held, now.monotonic, held)

    def has_one(self, now: Moment) -> bool:
        """Whether one more event is within the rate."""
        elapsed = max(0.0, now.monotonic - self.filled)
        self.tokens = min(self.most, self.tokens + elapsed * self.rate)
        self.filled = max(self.filled, now.monotonic)
        return self.tokens >= 1

    def take(self) -> None:
        """Count one event."""
        self.tokens -= 1
