"""The available messages of one priority, in the order of their LookupIdentifier."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush, merge

import attrs

from msmq.queues.position import MessagePosition


@attrs.define(eq=False)
class PriorityLevel:
    """Takes the first in constant time, however many lie behind it or are locked in front of it.

    Only available positions are in here: taking one removes it, giving it back puts it in its place.
    Nearly all come and go at the ends of C{arrivals}; the few that belong in its middle wait in
    C{returned}, and the first of the level is the smaller of both heads.

    @ivar arrivals: ascending.
    @ivar returned: a heap.
    """

    arrivals: deque[MessagePosition] = attrs.field(factory=deque)
    returned: list[tuple[int, MessagePosition]] = attrs.field(factory=list)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.arrivals) + len(self.returned)

    def add(self, position: MessagePosition) -> None:
        """Put a position in its place."""
        arrivals = self.arrivals
        if not arrivals or arrivals[-1].lookup_id < position.lookup_id:
            arrivals.append(position)
        elif position.lookup_id < arrivals[0].lookup_id:
            arrivals.appendleft(position)
        else:
            heappush(self.returned, (position.lookup_id, position))

    def pop(self, count: int) -> list[MessagePosition]:
        """Remove the first C{count}, or as many as there are, and answer them in order."""
        arrivals, returned = self.arrivals, self.returned
        if not returned:
            popleft = arrivals.popleft
            return [popleft() for _ in range(min(count, len(arrivals)))]
        taken: list[MessagePosition] = []
        while len(taken) < count and (arrivals or returned):
            if not arrivals or (returned and returned[0][0] < arrivals[0].lookup_id):
                taken.append(heappop(returned)[1])
            else:
                taken.append(arrivals.popleft())
        return taken

    def __iter__(self) -> Iterator[MessagePosition]:
        """All, in order; none may be added or removed meanwhile."""
        if not self.returned:
            return iter(self.arrivals)
        returned = (position for _, position in sorted(self.returned))
        return merge(self.arrivals, returned, key=lambda position: position.lookup_id)
