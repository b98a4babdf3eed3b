"""Measures blocking of the reactor by single callbacks."""

from __future__ import annotations

from typing import Final

from prometheus_client import Histogram
from twisted.internet.interfaces import IDelayedCall, IReactorTime

INTERVAL: Final = 0.1
"""Seconds between two measurements."""


class ReactorTurns:
    """Measures how late the reactor makes a call that is due every L{INTERVAL}.

    While the reactor is busy nothing is read from any connection, so this is the delay that every peer and
    client sees.

    @param seconds: gets each delay.
    """

    def __init__(self, reactor: IReactorTime, seconds: Histogram) -> None:
        self._reactor = reactor
        self._seconds = seconds
        self._call: IDelayedCall | None = None
        self._due = 0.0

    def start(self) -> None:
        """Begin to measure."""
        self._due = self._reactor.seconds() + INTERVAL
        self._call = self._reactor.callLater(INTERVAL, self._measure)

    def stop(self) -> None:
        """Measure no more."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _measure(self) -> None:
        self._seconds.observe(max(0.0, self._reactor.seconds() - self._due))
        self.start()
