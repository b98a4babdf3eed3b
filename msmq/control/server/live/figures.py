"""Samples the figures of the queue manager, and computes them once for all streams."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from msmq.control.server.live.history import INTERVAL, FigureHistory
from msmq.control.server.messages.json_records import json_record
from msmq.interfaces.queue_manager import IInspection
from msmq.structures.status import MQError

_FRESH: Final = 1.0


class LiveFigures:
    """The figures of one queue manager.

    Nothing is sampled before L{start}; nothing is computed while no stream is open.

    @ivar history: the samples of the last hour.
    """

    def __init__(self, inspection: IInspection, clock: IReactorTime) -> None:
        self._inspection = inspection
        self._clock = clock
        self._call: IDelayedCall | None = None
        self._overview: dict[str, Any] = {}
        self._computed: float | None = None
        self.history = FigureHistory()

    def start(self) -> None:
        """Begin to sample; does nothing if it has begun."""
        if self._call is None:
            self._sample()

    def stop(self) -> None:
        """End sampling; the samples stay."""
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self.history.pause()

    def overview(self) -> dict[str, Any]:
        """The figures now, at most a second old.

        @raise MQError: the queue manager does not run.
        """
        now = self._clock.seconds()
        if self._computed is None or now - self._computed >= _FRESH:
            flow = json_record(self._inspection.flow())
            self._overview = {"state": self._inspection.status().state, **flow}
            self._computed = now
        return self._overview

    def _sample(self) -> None:
        self._call = self._clock.callLater(INTERVAL, self._sample)
        try:
            self.history.add(self._inspection.flow())
        except MQError:
            # It is not open yet, or has stopped.
            self.history.pause()
