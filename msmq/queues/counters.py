"""Counters that never give the same number twice, not even after a crash."""

from __future__ import annotations

import attrs

from msmq.queues.changes import PutState


@attrs.define
class ReservedCounter:
    """A persistent counter that is stored once in C{block} numbers instead of at each.

    The store holds a bound; only numbers below a stored bound may leave the process.
    After a restart the count goes on from the bound, so that at most a block of numbers is skipped
    and none comes twice.

    @ivar name: the name under which L{PutState} keeps the bound.
    @ivar width: bits of the number; it begins again at 1 when it does not fit any more.
    @ivar last: the last number that was given.
    @ivar requested: the bound that the store was asked to keep.
    @ivar secured: the bound that it keeps.
    """

    name: str
    width: int
    block: int
    last: int = 0
    requested: int = 0
    secured: int = 0

    def resume(self, value: bytes) -> None:
        """Go on from what the store held."""
        self.last = self.requested = self.secured = int.from_bytes(value, "little")

    def start(self, last: int) -> None:
        """Begin behind C{last}; the store holds nothing."""
        self.last = self.requested = self.secured = last % (1 << self.width)

    def take(self, count: int) -> int:
        """Give C{count} numbers that follow each other, and answer the first."""
        if self.last + count >= 1 << self.width:
            self.start(0)
        first = self.last + 1
        self.last += count
        return first

    def reservation(self) -> PutState | None:
        """What has to be stored before the numbers given so far may leave; C{None} if nothing has.

        The next block is asked for early, so that senders seldom wait for it.
        """
        if self.last + self.block // 2 > self.requested:
            self.requested = min(self.last + self.block, (1 << self.width) - 1)
        elif self.last <= self.secured:
            return None
        return PutState(self.name, self.requested.to_bytes(8, "little"))

    def stored(self, change: PutState) -> None:
        """The store keeps this bound now."""
        bound = int.from_bytes(change.value, "little")
        if bound <= self.requested:
            self.secured = max(self.secured, bound)
