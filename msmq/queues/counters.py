"""Counters that never give the same number twice, not even after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from msmq.moment import Moment
from msmq.persistence.changes import Change, PutState

SEQUENTIAL_BLOCK: Final = 1 << 20
MESSAGE_BLOCK: Final = 1 << 16


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


@attrs.define(eq=False)
class MessageNumbers:
    """The numbers that a queue manager gives to messages.

    @ivar sequential: SequentialID, in the order in which messages come into queues.
    @ivar message_ids: MessageID, of those that are sent from here.
    """

    sequential: ReservedCounter
    message_ids: ReservedCounter

    @classmethod
    def beginning(cls, now: Moment) -> MessageNumbers:
        """Those of a queue manager whose store holds nothing.

        A store that lost its state must not make the numbers of an earlier life come back, so they begin
        where the clock says that no earlier life can have come to.
        """
        numbers = cls(
            ReservedCounter("sequential_id", 56, SEQUENTIAL_BLOCK),
            ReservedCounter("message_id", 32, MESSAGE_BLOCK),
        )
        numbers.sequential.start(int(now.wall * 1_000_000))
        numbers.message_ids.start(now.unix_seconds << 10)
        return numbers

    def resume(self, state: Mapping[str, bytes]) -> None:
        """Go on from what the store held."""
        for counter in (self.sequential, self.message_ids):
            if (value := state.get(counter.name)) is not None:
                counter.resume(value)

    def take_message_ids(self, count: int) -> int:
        """[MS-MQQB] 3.1.7.1.1 the MessageIDs of C{count} new messages: consecutive, the first is returned.

        They may be sent once an admission that was made after this call is committed.
        """
        return self.message_ids.take(count)

    def reservations(self) -> list[Change]:
        """What has to be stored before the numbers that were taken so far may leave."""
        taken = (counter.reservation() for counter in (self.sequential, self.message_ids))
        return [reservation for reservation in taken if reservation is not None]

    def stored(self, changes: Iterable[Change]) -> None:
        """These changes are stored; whoever stores what the model did not ask for together tells it so."""
        for change in changes:
            if isinstance(change, PutState):
                for counter in (self.sequential, self.message_ids):
                    if change.name == counter.name:
                        counter.stored(change)
