"""Move Message outside a transaction, in two steps. [MS-MQDMPR] 3.1.7.1.16."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from msmq.moment import Moment
from msmq.queues.arriving.availability import Availability
from msmq.queues.counters import MessageNumbers
from msmq.queues.effects import Effect
from msmq.queues.holdings import Holdings, forget_queues, room_in
from msmq.queues.leaving.departures import Departures
from msmq.queues.leaving.expiry import Expiry
from msmq.queues.leaving.relocation import (
    Relocation,
    check_available,
    check_move,
    finish_move,
    relocate,
    undo_move,
)
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.status import MQError, Status


@attrs.define(eq=False)
class Moves:
    """Moves messages between a queue and its subqueues, and into system queues."""

    _numbers: MessageNumbers
    _holdings: Holdings
    _expiry: Expiry
    _showing: Availability
    _departures: Departures

    def move(self, position: MessagePosition, target: Queue) -> Relocation:
        """Move Message outside a transaction; L{moved} or L{unmove} has to follow. [MS-MQDMPR] 3.1.7.1.16.

        @param position: available.
        @raise MQError: as L{check_move}, or MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION if it is not available.
        """
        check_move(position.queue, target, is_transactional=False)
        check_available(position)
        position.queue.remove_available(position)
        position.state = PositionState.REMOVING
        return self.move_locked([position], target)

    def transfer(self, positions: Sequence[MessagePosition], target: Queue) -> Relocation:
        """Move available messages of one queue to any other; L{moved} or L{unmove} has to follow.

        The caller has checked that with L{check_transfer} and L{check_acceptable}.

        @raise MQError: MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION if one is not available;
            MQ_ERROR_INSUFFICIENT_RESOURCES over the quota of the target.
        """
        for position in positions:
            check_available(position)
        if not target.is_system and positions and positions[0].queue.main is not target.main:
            room = room_in(target)
            for position in positions:
                room -= position.size
                if room < 0:
                    raise MQError(
                        Status.MQ_ERROR_INSUFFICIENT_RESOURCES,
                        f"message {position.lookup_id} for {target.definition.path}: the quota of the queue"
                        " is exceeded",
                    )
        for position in positions:
            position.queue.remove_available(position)
            position.state = PositionState.REMOVING
        return self.move_locked(positions, target)

    def move_locked(self, positions: Sequence[MessagePosition], target: Queue) -> Relocation:
        """Move messages that the caller has locked; L{moved} or L{unmove} has to follow."""
        relocation = Relocation()
        relocate(self._holdings, ((position, target) for position in positions), relocation)
        return relocation

    def moved(self, relocation: Relocation, now: Moment) -> list[Effect]:
        """The changes of a move are stored: the messages are available in their new queues."""
        self._numbers.stored(relocation.changes)
        self._expiry.forget(position for position, _ in relocation.moves)
        return self._showing.show(finish_move(self._holdings, relocation), now)

    def unmove(self, relocation: Relocation, now: Moment) -> list[Effect]:
        """The changes of a move were not stored: the messages are in their former queues."""
        undo_move(self._holdings, relocation)
        forget_queues(relocation.changes, (place.queue for _, place in relocation.moves))
        return self._departures.release((position for position, _ in relocation.moves), now)
