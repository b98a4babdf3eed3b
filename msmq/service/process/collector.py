"""Settings of Python's garbage collector for the process of a queue manager."""

from __future__ import annotations

import ctypes
import gc
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

THRESHOLDS: Final = (2_500, 2, 900)
"""Allocations before a collection of the youngest generation, and collections before the next older one.

A message in a queue is a few objects without cycles, which reference counts free; what the collector walks
through for them is wasted. A collection of the second generation walks through all that was allocated since
the last one, a microsecond for each object: at 2,500 * 2 it takes 10 ms in a transaction of any size, and
took 120 ms at 5,000 * 20. The oldest generation is collected as rarely as with (5,000, 20, 50).
"""


def settle() -> None:
    """Set the collector up for a server that has started.

    All that a start has created is permanent, including the messages of the store: it is excluded from later
    collections. Memory that was needed only to read the store is returned to the system.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


INTERVAL: Final = 60.0
"""Seconds between two sweeps."""

SMALL: Final = 20_000
"""Objects that have survived two collections, up to which a sweep takes no more than some 20 ms."""


class CycleSweeps:
    """Collects the oldest generation by the clock, while that is quick.

    A request of the control API leaves a cycle, which is in the oldest generation if it waited for a message
    meanwhile. That generation is collected automatically after millions of allocations, which an idle server
    takes days for.
    """

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self._call: IDelayedCall | None = None

    def start(self) -> None:
        """Begin to sweep."""
        self._call = self._reactor.callLater(INTERVAL, self._sweep)

    def stop(self) -> None:
        """End the sweeps."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _sweep(self) -> None:
        if len(gc.get_objects(generation=2)) <= SMALL:
            gc.collect()
        self.start()
