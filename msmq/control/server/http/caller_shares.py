"""Shares of the callers in a limit on requests that last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from msmq.control.authentication.callers import Caller
from msmq.control.protocol.refusals import too_many


class CallerShares:
    """Open requests of one kind, up to a limit, of which one caller may have three quarters.

    A caller is a user of the unix socket, a token from any address, or an address without a token.

    @param what: these requests, for texts.
    @param limit: the most of all callers together.
    """

    def __init__(self, what: str, limit: int) -> None:
        self._what = what
        self._limit = limit
        self._share = limit * 3 // 4
        self._open: Counter[object] = Counter()

    def check(self, caller: Caller) -> None:
        """Check that a caller may open one more.

        @raise MQError: the limit, or that of one caller, is reached.
        """
        if self._open.total() >= self._limit:
            raise too_many(self._what, self._limit)
        if self._open[_key(caller)] >= self._share:
            raise too_many(f"{self._what} of one caller", self._share)

    @contextmanager
    def opened(self, caller: Caller) -> Iterator[None]:
        """Count a request as open in the meantime.

        @raise MQError: as L{check}.
        """
        self.check(caller)
        key = _key(caller)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]


def _key(caller: Caller) -> object:
    if caller.uid is not None:
        return caller.uid, caller.login_uid
    return caller.token_name or caller.address
