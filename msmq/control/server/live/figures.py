"""Samples the figures of the queue manager, and computes them once for all streams."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from msmq.background import run_in_background
from msmq.control.server.http.disconnection import next_reactor_turn
from msmq.control.server.live.history import INTERVAL, FigureHistory
from msmq.control.server.messages.json_records import json_record
from msmq.interfaces.manager.queue_manager import IInspection
from msmq.interfaces.manager.summaries import MessageFlow
from msmq.structures.status import MQError

_FRESH: Final = 1.0


class LiveFigures:
    """The figures of one queue manager.

    Nothing is sampled before L{start}; nothing is computed while no stream is open. With many queues the
    computation is divided over several iterations of the reactor.

    @ivar history: the samples of the last hour.
    """

    def __init__(self, inspection: IInspection, clock: IReactorTime) -> None:
        self._inspection = inspection
        self._clock = clock
        self._call: IDelayedCall | None = None
        self._overview: dict[str, Any] = {}
        self._began: float | None = None
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

    async def overview(self) -> dict[str, Any]:
        """The figures now, at most a second old, or those before while others wait for these.

        @raise MQError: the queue manager does not run.
        """
        now = self._clock.seconds()
        if not self._overview or self._began is None or now - self._began >= _FRESH:
            self._began = now
            flow = json_record(await self._flow())
            store = self._inspection.store()
            times = store.commit_times
            self._overview = {
                **flow,
                "store_bytes": store.bytes,
                "store_free_bytes": store.free_bytes,
                "commit_p99": None if times is None else times.p99,
            }
        return self._overview

    async def _flow(self) -> MessageFlow:
        """The figures, computed slice by slice."""
        flow: MessageFlow | None = None
        for flow in self._inspection.flow():
            if flow is None:
                await next_reactor_turn(self._clock)
        assert flow is not None, "the figures come last"
        return flow

    def _sample(self) -> None:
        self._call = self._clock.callLater(INTERVAL, self._sample)
        run_in_background(self._take_sample(), "taking a sample of the figures")

    async def _take_sample(self) -> None:
        try:
            flow = await self._flow()
        except MQError:
            # It is not open yet, or has stopped.
            self.history.pause()
            return
        if self._call is not None:
            self.history.add(flow)
