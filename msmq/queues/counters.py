"""Persistent counters that never return a number twice, even after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from msmq.moment import Moment
from msmq.persistence.changes import Change, PutState

SEQUENTIAL_BLOCK: Final = 1 << 20
MESSAGE_BLOCK: Final = 1 << 16
FIRST_MESSAGE_BLOCK: Final = 1 << 10
"""MessageIDs of the first block after a start: not more than the clock gives in a second, so that restarts do
not bring the stored bound ahead of it."""
_GROWTH: Final = 8
"""How many times larger each block is than the one before, up to the largest."""
_AHEAD: Final = 1 << 28
"""By how much a stored bound may be ahead of the clock: three days of it."""


@attrs.define
class ReservedCounter:
    """A persistent counter that is stored once per C{block} numbers instead of at each.

    The store has an upper bound; only numbers below a stored bound may leave the process.
    After a restart the counter continues from the bound, so that at most a block of numbers is skipped and
    none is repeated.

    @ivar name: the name of the bound in the store (L{PutState}).
    @ivar width: bits of the number; it wraps around to 1.
    @ivar block: the largest number of numbers in a block.
    @ivar next_block: the number of numbers in the next block, which is requested as soon as less than
        C{early} numbers of the present one are left.
    @ivar last: the last number that was returned.
    @ivar requested: the bound that is being stored.
    @ivar secured: the bound that is stored.
    """

    name: str
    width: int
    block: int
    last: int = 0
    requested: int = 0
    secured: int = 0
    next_block: int = attrs.Factory(lambda self: self.block, takes_self=True)
    early: int = attrs.Factory(lambda self: self.next_block // 2, takes_self=True)

    def resume(self, value: bytes) -> None:
        """Continue from the stored state."""
        self.last = self.requested = self.secured = int.from_bytes(value, "little")

    def resume_by_clock(self, value: bytes, now: int) -> None:
        """Continue from the stored state, or from what the clock says, whichever is ahead.

        The former may be that of an older store, whose queue manager has used the numbers after it.

        @param now: what the clock says, a number of any size.
        """
        self.resume(value)
        if (self.last - now) % (1 << self.width) > _AHEAD:
            self.start(now)

    def start(self, last: int) -> None:
        """Begin after C{last}, with an empty store."""
        self.last = self.requested = self.secured = last % (1 << self.width)

    def take(self, count: int) -> int:
        """Take C{count} consecutive numbers, and return the first."""
        if self.last + count >= 1 << self.width:
            self.start(0)
        first = self.last + 1
        self.last += count
        return first

    def reservation(self) -> PutState | None:
        """The change to store before the numbers taken so far may be used; C{None} if there is none.

        The next block is requested early, so that senders seldom wait for it.
        """
        if self.last + self.early > self.requested:
            self.requested = min(self.last + self.next_block, (1 << self.width) - 1)
            self.early = self.next_block // 2
            self.next_block = min(self.next_block * _GROWTH, self.block)
        elif self.last <= self.secured:
            return None
        return PutState(self.name, self.requested.to_bytes(8, "little"))

    def renewed(self, change: Change) -> Change:
        """Another change with the present bound, for one that stores an earlier one; any other as it is."""
        if not isinstance(change, PutState) or change.name != self.name:
            return change
        return PutState(self.name, self.requested.to_bytes(8, "little"))

    def stored(self, change: PutState) -> None:
        """The bound is stored."""
        bound = int.from_bytes(change.value, "little")
        if bound <= self.requested:
            self.secured = max(self.secured, bound)


def _message_id_of(now: Moment) -> int:
    """The MessageID at which the clock is."""
    return now.unix_seconds << 10


@attrs.define(eq=False)
class MessageNumbers:
    """The numbers that a queue manager assigns to messages.

    @ivar sequential: SequentialID, in the order in which messages enter queues.
    @ivar message_ids: MessageID, of messages that are sent by this queue manager.
    """

    sequential: ReservedCounter
    message_ids: ReservedCounter

    @classmethod
    def beginning(cls, now: Moment) -> MessageNumbers:
        """The initial numbers with an empty store.

        A store that lost its state must not lead to repeated numbers, so they begin with a number derived
        from the clock, which an earlier store cannot have reached.
        """
        numbers = cls(
            ReservedCounter("sequential_id", 56, SEQUENTIAL_BLOCK),
            ReservedCounter("message_id", 32, MESSAGE_BLOCK, next_block=FIRST_MESSAGE_BLOCK),
        )
        numbers.sequential.start(int(now.wall * 1_000_000))
        numbers.message_ids.start(_message_id_of(now))
        return numbers

    def resume(self, state: Mapping[str, bytes], now: Moment) -> None:
        """Continue from the stored state.

        That may be older than what this queue manager has sent, if its store was restored from a backup:
        receivers would take new messages with MessageIDs of the last half hour for duplicates, and
        acknowledge them. So these continue at the number of the clock if that is ahead. None is repeated as
        long as the clock advances, by a second for each restart and for each 1,024 messages.
        """
        if (value := state.get(self.sequential.name)) is not None:
            self.sequential.resume(value)
        if (value := state.get(self.message_ids.name)) is not None:
            self.message_ids.resume_by_clock(value, _message_id_of(now))

    def take_message_ids(self, count: int) -> int:
        """The MessageIDs of C{count} new messages: consecutive, the first is returned. [MS-MQQB] 3.1.7.1.1.

        They may be used once an admission that was created after this call is committed.
        """
        return self.message_ids.take(count)

    def reservations(self) -> list[Change]:
        """The changes to store before the numbers taken so far may be used."""
        found: list[Change] = []
        for counter in (self.sequential, self.message_ids):
            if (reservation := counter.reservation()) is not None:
                found.append(reservation)
        return found

    def renewed(self, changes: Iterable[Change]) -> list[Change]:
        """The same changes with the present bounds, to be stored now.

        A batch that failed may be stored after others, whose bounds are later ones.
        """
        return [self.message_ids.renewed(self.sequential.renewed(change)) for change in changes]

    def stored(self, changes: Iterable[Change]) -> None:
        """These changes are stored; called for changes that are not part of a batch of the model."""
        for change in changes:
            if isinstance(change, PutState):
                for counter in (self.sequential, self.message_ids):
                    if change.name == counter.name:
                        counter.stored(change)
