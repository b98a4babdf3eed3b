"""[MS-MQDMPR] 3.1.7.1.9 Enqueue Message: messages come in, in two steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from msmq.moment import Moment
from msmq.queues.admission import Admission, admit
from msmq.queues.changes import Change
from msmq.queues.counters import Numbers
from msmq.queues.effects import Effect
from msmq.queues.expiry import Expiry
from msmq.queues.holdings import Holdings, forget_queues
from msmq.queues.leaving import gone_with_queue, removals
from msmq.queues.position import Kept, PositionState
from msmq.queues.queue import Queue
from msmq.queues.showing import Showing

if TYPE_CHECKING:
    from msmq.structures.user_message_view import UserMessageView


@attrs.define(eq=False)
class Arrivals:
    """Puts messages in their queues, and shows them once they are stored."""

    _numbers: Numbers
    _holdings: Holdings
    _expiry: Expiry
    _showing: Showing

    def admit(self, arrivals: Sequence[tuple[Queue, UserMessageView]], now: Moment) -> Admission:
        """[MS-MQDMPR] 3.1.7.1.9 Enqueue Message, for many: put them in their queues, where nobody sees them.

        Either L{commit} or L{withdraw} has to follow, once the changes are stored or were not.
        If there is an overflow as well, it has to be handed to the store, and L{overflowed} to follow.
        """
        admission = admit(arrivals, self._numbers.sequential.take(len(arrivals)), self._holdings, now)
        admission.changes += self._numbers.reservations()
        return admission

    def commit(self, admission: Admission, now: Moment) -> list[Effect]:
        """[MS-MQDMPR] 3.1.7.2.2 the changes are stored: the messages are available to all who wait.

        Those whose time is over already never become so (3.1.2.4, reading 31).
        """
        self._numbers.stored(admission.changes)
        effects: list[Effect] = []
        if admission.mortal:
            effects += self._expiry.sift(admission.mortal, now)[1]
        for queue, positions in admission.groups.items():
            if admission.mortal:
                positions = [position for position in positions if position.state is PositionState.ARRIVING]
            if queue.is_deleted:
                effects += gone_with_queue(positions)
            elif positions:
                queue.make_available(positions)
                effects += self._showing.serve(queue, positions, now)
                if admission.changes or admission.overflow:
                    self._showing.cache(positions)
        return effects

    def withdraw(self, admission: Admission) -> list[Change]:
        """The changes were not stored: the messages were never here.

        @return: what the store has to forget if it was handed the overflow; it is not waited for.
        """
        for position in admission.positions:
            self._holdings.unlink(position)
        forget_queues(admission.changes, admission.groups)
        return removals(position for position in admission.positions if position.kept is Kept.OVERFLOW)

    def overflowed(self, admission: Admission, *, is_stored: bool) -> None:
        """The store has the express messages for which memory had no room, or could not take them.

        In the second case memory keeps them all the same.
        """
        for position in admission.positions:
            if (
                position.kept is Kept.OVERFLOW
                and position.state is not PositionState.DELETED
                and not position.queue.is_deleted
            ):
                self._holdings.overflowed(position, is_stored=is_stored)
