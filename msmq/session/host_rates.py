"""Rate limit of each host, in bounded memory for any number of hosts."""

from __future__ import annotations

from collections import OrderedDict

from msmq.moment import Moment
from msmq.token_bucket import TokenBucket
from msmq.wire.addresses import counted_host


class HostRates:
    """The token buckets of hosts, each of which is a L{counted_host}.

    @param rate: events of one host in a second, and the burst after an idle period.
    @param most: hosts with a recorded rate; the least recent one is dropped first.
    """

    def __init__(self, rate: float, most: int) -> None:
        self._rate = rate
        self._most = most
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        """The number of hosts with a recorded rate."""
        return len(self._buckets)

    def of(self, host: str, now: Moment) -> TokenBucket:
        """The bucket of a host, which becomes the most recent one.

        @param host: its address.
        """
        host = counted_host(host)
        bucket = self._buckets.get(host)
        if bucket is None:
            bucket = self._buckets[host] = TokenBucket.full(self._rate, now)
        self._buckets.move_to_end(host)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return bucket
