"""Message Position Available: matches messages with waiting readers. [MS-MQDMPR] 3.1.7.2.2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter

import attrs

from msmq.moment import Moment
from msmq.queues.effects import Effect, OutgoingReady
from msmq.queues.holdings import Holdings
from msmq.queues.leaving.departure_kinds import by_queue, gone_with_queue
from msmq.queues.leaving.expiry import Expiry
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.queues.reading.readers import Readers

_lookup_id = attrgetter("lookup_id")


@attrs.define(eq=False)
class Availability:
    """Makes messages that were added or returned to a queue available to readers and to transfer.

    @ivar dead_letters: messages that entered a dead-letter queue since the process began, by class.
    """

    _holdings: Holdings
    _readers: Readers
    _expiry: Expiry
    dead_letters: Counter[int] = attrs.field(factory=Counter)

    def show(
        self, positions: Iterable[MessagePosition], now: Moment, *, is_return: bool = False
    ) -> list[Effect]:
        """Make messages available in their queues, except expired ones.

        @param is_return: they were in the queue before; they are inserted from the last to the first, so that
            each precedes those after it.
        """
        fresh, departures = self._expiry.schedule_expiry(positions, now)
        effects: list[Effect] = [*departures]
        for queue, arrived in by_queue(fresh).items():
            if queue.is_deleted:
                effects += () if queue.is_system else gone_with_queue(arrived)
            else:
                queue.pack()
                if not is_return:
                    self._count(queue, arrived)
                queue.make_available(sorted(arrived, key=_lookup_id, reverse=is_return))
                effects += self.serve(queue, arrived, now)
                self.cache(arrived)
        return effects

    def _count(self, queue: Queue, arrived: Sequence[MessagePosition]) -> None:
        queue.arrived_count += len(arrived)
        if queue.is_system and queue.parent is None:
            for position in arrived:
                if position.view is not None and position.view.message_class:
                    self.dead_letters[position.view.message_class] += 1

    def serve(self, queue: Queue, fresh: Sequence[MessagePosition], now: Moment) -> list[Effect]:
        """Complete waiting reads of a queue, or report an outgoing queue, for newly available messages."""
        effects = self._readers.serve(queue, fresh, now) if queue.readers else []
        if isinstance(queue, OutgoingQueue):
            effects.append(OutgoingReady(queue))
        return effects

    def cache(self, positions: Iterable[MessagePosition]) -> None:
        """Cache the packets of messages that no reader took at once, within the memory limit."""
        available = PositionState.AVAILABLE
        left = [position for position in positions if position.state is available]
        if left:
            self._holdings.cache(left)
