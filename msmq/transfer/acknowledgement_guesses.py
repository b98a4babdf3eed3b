"""Limit on wrong acknowledgements from one host.

The identifier of a sequence consists of the start time of the queue manager and a counter, so an attacker
with enough attempts guesses that of an active one.
Legitimate acknowledgements of unknown sequences exist, but are few: after a restart, for messages sent before
it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from msmq.moment import Moment
from msmq.token_bucket import TokenBucket
from msmq.wire.addresses import counted_host

GUESSES: Final = 1000
"""Burst of acknowledgements of unknown sequences that a host may send."""

GUESSES_PER_SECOND: Final = 10.0
"""The rate a second after that."""

HOSTS_REMEMBERED: Final = 4096
"""Limit on recorded hosts; the least recent one is dropped first."""


class GuessLimit:
    """Counts the wrong acknowledgements of each host.

    Acknowledgements of a host with too many errors are ignored for a while, which slows an attacker.  They
    must not be acknowledged on the session either, so that legitimate ones are sent again.
    """

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def admits(self, address: str, now: Moment) -> bool:
        """Whether an acknowledgement from this address is processed."""
        bucket = self._buckets.get(counted_host(address))
        return bucket is None or bucket.has_one(now)

    def count_wrong(self, address: str, now: Moment) -> None:
        """Count an acknowledgement of an unknown sequence from this address."""
        host = counted_host(address)
        bucket = self._buckets.get(host)
        if bucket is None:
            bucket = self._buckets[host] = TokenBucket.full(GUESSES_PER_SECOND, now, GUESSES)
        self._buckets.move_to_end(host)
        if len(self._buckets) > HOSTS_REMEMBERED:
            self._buckets.popitem(last=False)
        bucket.take()
