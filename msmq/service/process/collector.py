"""Settings of Python's garbage collector for the process of a queue manager."""

from __future__ import annotations

import ctypes
import gc
from typing import Final

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
