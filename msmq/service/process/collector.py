"""Settings of Python's garbage collector for the process of a queue manager."""

from __future__ import annotations

import ctypes
import gc
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

THRESHOLDS: Final = (700, 0, 100_000)
"""Allocations before a collection of the youngest generation, and collections before the next older one.

A message in a queue is a few objects without cycles, which reference counts free; what the collector walks
through for them is wasted, but each object only twice. It takes a microsecond for each, and what counts is
allocations less releases: a commit that replaces the objects of a transaction leaves many more new ones than
the thresholds say. A second generation of 1,400 takes at most 10 ms in a transaction of any size; of 7,500 it
took 40, and of 100,000 it took 120.

The oldest generation is left to L{CycleSweeps}: a collection of it within a transaction of 50,000 messages
takes more than 100 ms. What is left here is the limit for a process without the sweeps.
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

PATIENCE: Final = 30
"""Sweeps after which more objects than that are collected nevertheless."""


class CycleSweeps:
    """Collects the oldest generation by the clock, each minute while that is quick, else each half hour.

    A request of the control API leaves a cycle, which is in the oldest generation if it waited for a message
    meanwhile. The many objects of a large transaction are gone after it, by their counts of references; those
    of thousands of sessions stay, and are the reason why the collection does not wait forever.
    """

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self._call: IDelayedCall | None = None
        self._postponed = 0

    def start(self) -> None:
        """Begin to sweep."""
        self._call = self._reactor.callLater(INTERVAL, self._sweep)

    def stop(self) -> None:
        """End the sweeps."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _sweep(self) -> None:
        self._postponed += 1
        if self._postponed >= PATIENCE or len(gc.get_objects(generation=2)) <= SMALL:
            self._postponed = 0
            gc.collect()
        self.start()
