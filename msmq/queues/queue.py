"""[MS-MQDMPR] 3.1.1.2 Queue: its messages in their order, and who waits for them."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from msmq.queues.definition import QueueDefinition, quota_in_bytes
from msmq.queues.position import MessagePosition, PositionState
from msmq.queues.priority_level import PriorityLevel

if TYPE_CHECKING:
    from msmq.queues.reading import WaitingReader

PRIORITIES = 8

SEQUENTIAL_MASK = (1 << 56) - 1
"""The part of a LookupIdentifier that is the SequentialID."""


@attrs.define(eq=False)
class Queue:
    """[MS-MQDMPR] 3.1.1.2 a queue and its MessagePositionList.

    @ivar positions: every message by its LookupIdentifier, whatever its state, in no order.
    @ivar total_bytes: TotalBytes, the packets of all of them; charged when a message is put in and
        given back when it leaves, whatever happens to it in between.
    @ivar readers: who waits for a message, by tag, in the order in which they came.
    @ivar is_deleted: the queue is gone; what refers to it still finds this.
    """

    definition: QueueDefinition
    positions: dict[int, MessagePosition] = attrs.field(factory=dict, repr=False)
    total_bytes: int = 0
    readers: OrderedDict[Hashable, WaitingReader] = attrs.field(factory=OrderedDict, repr=False)
    is_deleted: bool = False
    _levels: list[PriorityLevel | None] = attrs.field(
        factory=lambda: [None] * PRIORITIES, init=False, repr=False
    )

    @property
    def message_count(self) -> int:
        """How many messages lie in the queue, those among them that someone is just receiving included."""
        return len(self.positions)

    @property
    def available_count(self) -> int:
        """How many messages a receive of all would find."""
        return sum(len(level) for level in self._levels if level is not None)

    @property
    def has_available(self) -> bool:
        """Whether a receive would find a message."""
        return any(level is not None and (level.arrivals or level.returned) for level in self._levels)

    @property
    def quota_bytes(self) -> int | None:
        """The bytes that Quota allows; C{None} without a limit."""
        return quota_in_bytes(self.definition.quota)

    def make_available(self, positions: Iterable[MessagePosition]) -> None:
        """[MS-MQDMPR] 3.1.7.2.2 let readers find these positions of this queue, each in its place."""
        available = PositionState.AVAILABLE
        levels = self._levels
        for position in positions:
            position.state = available
            position.owner = None
            lookup_id = position.lookup_id
            level = levels[lookup_id >> 56]
            if level is None:
                level = levels[lookup_id >> 56] = PriorityLevel()
            arrivals = level.arrivals
            if not arrivals or arrivals[-1].lookup_id < lookup_id:
                arrivals.append(position)
            else:
                level.add(position)

    def take(self, count: int, owner: Hashable) -> list[MessagePosition]:
        """Lock the first C{count} available positions, or as many as there are, for C{owner}."""
        taken: list[MessagePosition] = []
        for level in self._levels:
            if level is not None:
                taken += level.pop(count - len(taken))
                if len(taken) == count:
                    break
        locked = PositionState.LOCKED_READER
        for position in taken:
            position.state = locked
            position.owner = owner
        return taken

    def take_through(self, number: int, count: int) -> list[MessagePosition]:
        """Let up to C{count} available positions leave, none younger than the SequentialID C{number}."""
        taken: list[MessagePosition] = []
        for level in self._levels:
            if level is not None:
                found = level.pop(count - len(taken))
                while found and found[-1].lookup_id & SEQUENTIAL_MASK > number:
                    level.add(found.pop())
                taken += found
                if len(taken) == count:
                    break
        for position in taken:
            position.state = PositionState.LEAVING
        return taken

    def let_go(self, position: MessagePosition) -> None:
        """Let an available position leave, from wherever it lies."""
        position.state = PositionState.LEAVING
        level = self._levels[position.lookup_id >> 56]
        if level is not None:
            level.discard(position)

    def peek(self, count: int) -> list[MessagePosition]:
        """The first C{count} available positions, or as many as there are, which stay so."""
        seen: list[MessagePosition] = []
        for level in self._levels:
            if level is not None:
                seen += islice(level, count - len(seen))
        return seen

    def unlink(self, position: MessagePosition) -> int:
        """[MS-MQDMPR] 3.1.7.2.1 take a position that is not available out of the queue.

        @return: the bytes that become free; 0 if it was out already.
        """
        if self.positions.pop(position.lookup_id, None) is None:
            return 0
        position.state = PositionState.DELETED
        self.total_bytes -= position.size
        return position.size

    def clear(self) -> deque[MessagePosition]:
        """Empty the queue for good and answer what was in it, in the order of arrival.

        Whatever its state says, a position of a deleted queue is deleted: a million need not be gone
        through for that.
        """
        gone = deque(self.positions.values())
        self.positions = {}
        self._levels = [None] * PRIORITIES
        self.total_bytes = 0
        self.is_deleted = True
        return gone
