"""The available messages of one priority, in the order of their LookupIdentifier."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush, merge
from itertools import chain

import attrs

from msmq.queues.position import MessagePosition, PositionState

SWEPT_AT_ONCE = 8
"""How many positions are looked at, to find those that have gone, whenever one more goes."""

TOLERATED = 64
"""How many positions that have gone may lie among few that have not."""


@attrs.define(eq=False)
class PriorityLevel:
    """Takes the first in constant time, however many lie behind it or are locked in front of it.

    Only available positions count: taking one removes it, giving it back puts it in its place.
    Nearly all come and go at the ends of C{arrivals}; the few that belong in its middle wait in
    C{returned}, and the first of the level is the smaller of both heads.

    A position that goes from the middle is marked by its state and stays where it lies until the heads
    come to it. So that what has gone does not pile up behind a message that nobody takes, from time to
    time all that is left is moved over from C{arrivals} to C{swept}, a few with each that goes.

    @ivar swept: ascending, and in front of C{arrivals}; empty unless C{arrivals} holds something.
    @ivar arrivals: ascending.
    @ivar returned: a heap.
    @ivar gone: how many positions in all three are not available any more; a head never is one of them.
    """

    arrivals: deque[MessagePosition] = attrs.field(factory=deque)
    returned: list[tuple[int, MessagePosition]] = attrs.field(factory=list)
    swept: deque[MessagePosition] = attrs.field(factory=deque)
    gone: int = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self.arrivals) + len(self.returned) + len(self.swept) - self.gone

    def add(self, position: MessagePosition) -> None:
        """Put a position in its place."""
        arrivals = self.arrivals
        first = self.swept or arrivals
        if not arrivals or arrivals[-1].lookup_id < position.lookup_id:
            arrivals.append(position)
        elif position.lookup_id < first[0].lookup_id:
            first.appendleft(position)
        else:
            heappush(self.returned, (position.lookup_id, position))

    def pop(self, count: int) -> list[MessagePosition]:
        """Remove the first C{count}, or as many as there are, and answer them in order."""
        arrivals, returned = self.arrivals, self.returned
        if not (returned or self.gone or self.swept):
            popleft = arrivals.popleft
            return [popleft() for _ in range(min(count, len(arrivals)))]
        taken: list[MessagePosition] = []
        while len(taken) < count and (arrivals or returned):
            first = self.swept or arrivals
            if not first or (returned and returned[0][0] < first[0].lookup_id):
                taken.append(heappop(returned)[1])
            else:
                taken.append(first.popleft())
            if self.gone:
                self._trim()
        return taken

    def discard(self, position: MessagePosition) -> None:
        """Let a position go from wherever it lies; its state must say already that it is not available.

        It must never come back.
        """
        self.gone += 1
        self._trim()
        if self.swept or self.gone > len(self) + TOLERATED:
            self._sweep()

    def _trim(self) -> None:
        """Forget what has gone at the heads."""
        available = PositionState.AVAILABLE
        for line in (self.swept, self.arrivals):
            while line and line[0].state is not available:
                line.popleft()
                self.gone -= 1
            if line:
                break
        while self.returned and self.returned[0][1].state is not available:
            heappop(self.returned)
            self.gone -= 1

    def _sweep(self) -> None:
        available = PositionState.AVAILABLE
        arrivals, swept = self.arrivals, self.swept
        for _ in range(min(SWEPT_AT_ONCE, len(arrivals))):
            position = arrivals.popleft()
            if position.state is available:
                swept.append(position)
            else:
                self.gone -= 1
        if not arrivals:
            self.arrivals, self.swept = swept, arrivals

    def __iter__(self) -> Iterator[MessagePosition]:
        """All, in order; none may be added or removed meanwhile."""
        if not (self.returned or self.gone or self.swept):
            return iter(self.arrivals)
        available = PositionState.AVAILABLE
        returned = (position for _, position in sorted(self.returned))
        everything = merge(chain(self.swept, self.arrivals), returned, key=_lookup_id)
        return (position for position in everything if position.state is available)


def _lookup_id(position: MessagePosition) -> int:
    return position.lookup_id
