"""Expiry deadlines: [MS-MQDMPR] 3.1.2.4 in a queue, [MS-MQQB] 3.1.7.1.2 in transit.

Both times are relative to SentTime, by the wall clock of the sender, so they are compared with the wall clock
of this computer. The arithmetic is signed and does not overflow: SentTime may be in the future, and such a
message has not expired (reading 64).
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

import attrs

from msmq.persistence.definition import QueueType
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.packed_positions import PackedPositions
from msmq.queues.queue import MessagePosition
from msmq.structures.packet.message_lifetime import (
    FOREVER,
    TIME_TO_BE_RECEIVED,
    TIME_TO_REACH_QUEUE,
)

if TYPE_CHECKING:
    from msmq.queues.queue import Queue
    from msmq.structures.packet.user_message_view import UserMessageView


_Packed: TypeAlias = PackedPositions[MessagePosition]
Expiring: TypeAlias = MessagePosition | _Packed


def time_limit(queue: Queue) -> slice:
    """Offset of the limit for this queue: TimeToReachQueue in transit, otherwise TimeToBeReceived."""
    return TIME_TO_REACH_QUEUE if isinstance(queue, OutgoingQueue) else TIME_TO_BE_RECEIVED


def due_time(queue: Queue, view: UserMessageView) -> int | None:
    """When a message expires in this queue, in seconds since 1970-01-01 UTC; C{None} for never.

    Messages in system queues, such as journals and dead-letter queues, never expire (reading 31).
    """
    if view.packet[time_limit(queue)] == FOREVER or queue.definition.type is QueueType.SYSTEM:
        return None
    if isinstance(queue, OutgoingQueue):
        return int(view.reach_limit)
    return view.sent_time + view.time_to_be_received


@attrs.define(eq=False)
class ExpiringMessages:
    """The messages in queues that can expire, by the second at which each expires.

    Messages that never expire have no cost here. Packed messages stand under the time at which the first of
    them expires, and are objects from then on.
    """

    _by_second: dict[int, dict[Expiring, None]] = attrs.field(factory=dict, init=False)
    _seconds: list[int] = attrs.field(factory=list, init=False)
    _overdue: list[Expiring] = attrs.field(factory=list, init=False)
    _most_seconds: int = attrs.field(default=1024, init=False)

    def __bool__(self) -> bool:
        """Whether there may be such messages."""
        return bool(self._by_second or self._overdue)

    def of(self, due: int) -> dict[Expiring, None]:
        """The bucket of the messages that expire at a time, to which one can be added."""
        same_second = self._by_second.get(due)
        if same_second is None:
            self._forget_empty()
            same_second = self._by_second[due] = {}
            heappush(self._seconds, due)
        return same_second

    def add(self, position: MessagePosition, due: int) -> None:
        """Add a message with the time at which it expires."""
        self.of(due)[position] = None

    def discard(self, positions: Iterable[MessagePosition]) -> None:
        """Remove messages; unknown ones are ignored."""
        if not self._by_second:
            return
        for position in positions:
            due = position.due
            if due is not None and due in self._by_second:
                self._by_second[due].pop(position, None)

    def next_due(self) -> int | None:
        """When the next one expires, in seconds since 1970-01-01 UTC; 0 if some are overdue."""
        if self._overdue:
            return 0
        seconds = self._seconds
        while seconds and not self._by_second[seconds[0]]:
            del self._by_second[heappop(seconds)]
        return seconds[0] if seconds else None

    def take_due(self, now: float, count: int) -> list[MessagePosition]:
        """Remove up to C{count} expired messages, and return them in the order of expiry.

        Some of them may have left their queue already, according to their state.
        """
        taken: list[MessagePosition] = []
        while len(taken) < count and (due := self.next_due()) is not None and due <= now:
            if not self._overdue:
                self._overdue = list(self._by_second.pop(heappop(self._seconds)))
                self._overdue.reverse()
            entry = self._overdue.pop()
            if isinstance(entry, MessagePosition):
                taken.append(entry)
            elif taken:
                # One chunk is enough for a step.
                self._overdue.append(entry)
                break
            else:
                entry.queue.load(entry.lowest)
        return taken

    # Packed messages

    def pack(self, packed: _Packed, due: int, positions: Iterable[MessagePosition]) -> None:
        """See L{msmq.queues.packed_positions.PackedDeadlines.pack}."""
        self.discard(positions)
        self.of(due)[packed] = None

    def unpack(self, packed: _Packed, due: int, positions: Iterable[MessagePosition]) -> None:
        """See L{msmq.queues.packed_positions.PackedDeadlines.unpack}."""
        if (same_second := self._by_second.get(due)) is not None:
            same_second.pop(packed, None)
        for position in positions:
            if position.due is not None:
                self.add(position, position.due)

    def _forget_empty(self) -> None:
        # Received messages leave empty buckets behind; most of them are never due.
        if len(self._seconds) >= self._most_seconds:
            self._by_second = {due: positions for due, positions in self._by_second.items() if positions}
            self._seconds = sorted(self._by_second)
            self._most_seconds = 2 * len(self._seconds) + 1024
