"""Numbers of message logs that no queue of a store has: those that a deleted queue may have had.

All logs of a store share their numbers. Many queues may be deleted at the same time, so each log that is left
is counted once for all of them: in a range that has entries of it, half of the range after half.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable
from itertools import accumulate
from uuid import UUID

from msmq.storage.readers import StoreReader


class UnownedNumbers:
    """How many numbers from some on, up to the end of all logs, no log of the store has.

    @param firsts: the numbers that will be asked for.
    @param logs: queues whose message logs may have entries although they were disabled.
    @param on_log: called after each log was counted; what it raises ends the count.
    @ivar end: the first number that was not assigned when the count began.
    @raise StorageError: the store cannot be read.
    """

    def __init__(
        self,
        store: StoreReader,
        firsts: Iterable[int],
        logs: Container[UUID],
        on_log: Callable[[], object] = lambda: None,
    ) -> None:
        self._store = store
        self.end = store.log_end()
        # Entries that are made now are at the end of the range or after it, and so are those of new queues.
        self._firsts = sorted({first for first in firsts if first < self.end})
        self._bounds = [*self._firsts, self.end]
        counts = [0] * len(self._firsts)
        for each in store.queues() if self._firsts else ():
            if each.log or each.identifier in logs:
                self._count(each.identifier, counts, 0, len(counts), self._entries(each.identifier, 0, -1))
                on_log()
        owned = list(accumulate(reversed(counts)))[::-1]
        self._most = [
            max(0, self.end - first - count) for first, count in zip(self._firsts, owned, strict=True)
        ]

    def has(self, first: int) -> bool:
        """Whether L{most} knows the answer for a number."""
        return first >= self.end or first in self._firsts[bisect_left(self._firsts, first) :][:1]

    def most(self, first: int) -> int:
        """How many numbers from this one on no log has.

        @param first: one that L{has}.
        """
        return 0 if first >= self.end else self._most[bisect_left(self._firsts, first)]

    def _entries(self, queue: UUID, low: int, high: int) -> int:
        """The number of entries of a log between two bounds, by their positions."""
        begin, end = self._bounds[low], self._bounds[high]
        return self._store.log_cuts(queue, begin, end, max(1, end - begin))[1]

    def _count(self, queue: UUID, counts: list[int], low: int, high: int, entries: int) -> None:
        """Add the entries of a log between two bounds to the counts of the ranges in between."""
        if entries <= 0:
            return
        if high - low == 1:
            counts[low] += entries
            return
        middle = (low + high) // 2
        upper = self._entries(queue, middle, high)
        self._count(queue, counts, low, middle, entries - upper)
        self._count(queue, counts, middle, high, upper)
