"""[MS-MQDMPR] 3.1.7.1.7 Purge Queue."""

from __future__ import annotations

from collections.abc import Sequence

from msmq.queues.leaving import Departure, by_queue, departure
from msmq.queues.position import MessagePosition, PositionState
from msmq.queues.queue import SEQUENTIAL_MASK, Queue
from msmq.structures.message_class import MessageClass


def purge_available(queue: Queue, through: int, count: int) -> Departure | None:
    """Let up to C{count} available messages leave; C{None} if there is none left to leave.

    @param through: what is younger than this SequentialID stays.
    """
    leaving = queue.take_through(through, count)
    return departure(leaving, MessageClass.NACK_Q_PURGED) if leaving else None


def purge_locked(queue: Queue, through: int) -> None:
    """Mark the messages that readers have: they leave whatever their readers decide.

    Messages that are on their way into the store are not touched and survive.
    """
    for position in queue.positions.values():
        if position.state is PositionState.LOCKED_READER and position.lookup_id & SEQUENTIAL_MASK <= through:
            position.state = PositionState.PURGE_PENDING


def finish_purge(purged: Sequence[MessagePosition]) -> list[Departure]:
    """The readers of these have decided: they leave."""
    for position in purged:
        position.state = PositionState.LEAVING
    return [departure(positions, MessageClass.NACK_Q_PURGED) for positions in by_queue(purged).values()]
