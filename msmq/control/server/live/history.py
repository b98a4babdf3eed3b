"""Figures of the queue manager over the last hour, in a ring of fixed size."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from msmq.interfaces.manager.summaries import MessageFlow

INTERVAL: Final = 10.0
"""Seconds between two samples."""

SAMPLES: Final = 360
"""Samples that are kept: those of an hour."""

COLUMNS: Final = ("messages", "bytes", "arrived", "received", "dead_letters", "sessions")
"""The values of a sample; C{arrived} and C{received} are messages a second since the sample before."""


class FigureHistory:
    """The samples of the last hour.

    @ivar taken: samples that were taken since the process began.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, ...]] = deque(maxlen=SAMPLES)
        self._latest: MessageFlow | None = None
        self.taken = 0

    def add(self, flow: MessageFlow) -> None:
        """Add a sample, L{INTERVAL} after the one before."""
        former = self._latest or flow
        self._latest = flow
        self.taken += 1
        # A deleted queue takes its counts with it.
        arrived = max(0, flow.arrived - former.arrived) / INTERVAL
        received = max(0, flow.received - former.received) / INTERVAL
        self._samples.append((flow.messages, flow.bytes, arrived, received, flow.dead_letters, flow.sessions))

    def pause(self) -> None:
        """The next sample is not L{INTERVAL} after the one before."""
        self._latest = None

    def since(self, taken: int) -> dict[str, Any]:
        """The samples after the first C{taken}, as JSON, the newest last; C{first} is whether none is left
        out that the history has.
        """
        wanted = min(len(self._samples), self.taken - taken)
        return {
            "interval": INTERVAL,
            "columns": COLUMNS,
            "first": wanted == len(self._samples),
            "samples": list(self._samples)[len(self._samples) - wanted :],
        }
