"""Priority queue of the deadlines of many items."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

Item = TypeVar("Item")

_SLACK = 64


class Deadlines(Generic[Item]):
    """The deadlines of items, at most one each; moving one to a later time costs nothing.

    Items are compared by identity, or by their own equality.
    """

    __slots__ = ("_count", "_heap", "_of", "_queued")

    def __init__(self) -> None:
        self._of: dict[Item, float] = {}
        # Every item with a deadline has an entry here, at that deadline or earlier; so may others.
        self._heap: list[tuple[float, int, Item]] = []
        self._queued: dict[Item, float] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._of)

    def get(self, item: Item) -> float | None:
        """The deadline of an item, in monotonic seconds; C{None} without one."""
        return self._of.get(item)

    def set(self, item: Item, when: float) -> None:
        """Set or replace the deadline of an item."""
        self._of[item] = when
        queued = self._queued.get(item)
        if queued is None or when < queued:
            self._push(when, item)

    def clear(self, item: Item) -> None:
        """Remove the deadline of an item."""
        self._of.pop(item, None)

    def items(self) -> list[Item]:
        """All items with a deadline, in no order."""
        return list(self._of)

    @property
    def earliest(self) -> float | None:
        """The earliest deadline; C{None} if there is none."""
        heap = self._heap
        while heap:
            when, _, item = heap[0]
            wanted = self._of.get(item)
            if wanted == when:
                return when
            heapq.heappop(heap)
            if self._queued.get(item) == when:
                del self._queued[item]
                if wanted is not None:
                    self._push(wanted, item)
        return None

    def take_expired(self, now: float) -> list[Item]:
        """Remove and return the items whose deadline has passed, the earliest first."""
        expired: list[Item] = []
        while (earliest := self.earliest) is not None and earliest <= now:
            _, _, item = heapq.heappop(self._heap)
            del self._of[item]
            self._queued.pop(item, None)
            expired.append(item)
        return expired

    def _push(self, when: float, item: Item) -> None:
        if len(self._heap) > 2 * len(self._of) + _SLACK:
            self._heap = [(when, number, item) for number, (item, when) in enumerate(self._of.items())]
            heapq.heapify(self._heap)
            self._queued = dict(self._of)
            self._count = len(self._heap)
            return
        self._count += 1
        self._queued[item] = when
        heapq.heappush(self._heap, (when, self._count, item))
