"""Shares of the callers in a limit on requests that last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from msmq.control.protocol.refusals import too_many


class CallerShares:
    """Open requests of one kind, up to a limit, of which one caller may have three quarters.

    A caller is named by L{ControlRequest.account<msmq.control.server.http.requests.ControlRequest.account>}.

    @param what: these requests, for texts.
    @param limit: the most of all callers together.
    """

    def __init__(self, what: str, limit: int) -> None:
        self._what = what
        self._limit = limit
        self._share = limit * 3 // 4
        self._open: Counter[Hashable] = Counter()

    def check(self, caller: Hashable) -> None:
        """Check that a caller may open one more.

        @raise MQError: the limit, or that of one caller, is reached.
        """
        if self._open.total() >= self._limit:
            raise too_many(self._what, self._limit)
        if self._open[caller] >= self._share:
            raise too_many(f"{self._what} of one caller", self._share)

    @contextmanager
    def opened(self, caller: Hashable) -> Iterator[None]:
        """Count a request as open in the meantime.

        @raise MQError: as L{check}.
        """
        self.check(caller)
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]
