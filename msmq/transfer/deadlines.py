"""Priority queue of the deadlines of many items."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

Thing = TypeVar("Thing")

_SLACK = 64


class Deadlines(Generic[Thing]):
    """The deadlines of items, at most one each; moving one to a later time costs nothing.

    Items are compared by identity, or by their own equality.
    """

    __slots__ = ("_count", "_heap", "_of", "_queued")

    def __init__(self) -> None:
        self._of: dict[Thing, float] = {}
        # Every item with a deadline has an entry here, at that deadline or earlier; so may others.
        self._heap: list[tuple[float, int, Thing]] = []
        self._queued: dict[Thing, float] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._of)

    def get(self, thing: Thing) -> float | None:
        """The deadline of an item, in monotonic seconds; C{None} without one."""
        return self._of.get(thing)

    def set(self, thing: Thing, when: float) -> None:
        """Set or replace the deadline of an item."""
        self._of[thing] = when
        queued = self._queued.get(thing)
        if queued is None or when < queued:
            self._push(when, thing)

    def clear(self, thing: Thing) -> None:
        """Remove the deadline of an item."""
        self._of.pop(thing, None)

    def things(self) -> list[Thing]:
        """All items with a deadline, in no order."""
        return list(self._of)

    @property
    def earliest(self) -> float | None:
        """The earliest deadline; C{None} if there is none."""
        heap = self._heap
        while heap:
            when, _, thing = heap[0]
            wanted = self._of.get(thing)
            if wanted == when:
                return when
            heapq.heappop(heap)
            if self._queued.get(thing) == when:
                del self._queued[thing]
                if wanted is not None:
                    self._push(wanted, thing)
        return None

    def take_expired(self, now: float) -> list[Thing]:
        """Remove and return the items whose deadline has passed, the earliest first."""
        expired: list[Thing] = []
        while (earliest := self.earliest) is not None and earliest <= now:
            _, _, thing = heapq.heappop(self._heap)
            del self._of[thing]
            self._queued.pop(thing, None)
            expired.append(thing)
        return expired

    def _push(self, when: float, thing: Thing) -> None:
        if len(self._heap) > 2 * len(self._of) + _SLACK:
            self._heap = [(when, number, thing) for number, (thing, when) in enumerate(self._of.items())]
            heapq.heapify(self._heap)
            self._queued = dict(self._of)
            self._count = len(self._heap)
            if self._queued.get(thing) == when:
                return
        self._count += 1
        self._queued[thing] = when
        heapq.heappush(self._heap, (when, self._count, thing))
