"""Enqueue Message, in two steps: admission, and commit once it is stored. [MS-MQDMPR] 3.1.7.1.9."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from msmq.moment import Moment
from msmq.persistence.changes import Change
from msmq.queues.arriving.acknowledgement import is_quiet
from msmq.queues.arriving.admission import Admission, admit
from msmq.queues.arriving.availability import Availability
from msmq.queues.collection import QueueCollection
from msmq.queues.counters import MessageNumbers
from msmq.queues.effects import Effect
from msmq.queues.holdings import Holdings, forget_queues
from msmq.queues.leaving.copies import MessageCopies
from msmq.queues.leaving.departure_kinds import gone_with_queue, removals
from msmq.queues.leaving.expiry import Expiry
from msmq.queues.position import PacketHolder, PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_header import UserHeader

if TYPE_CHECKING:
    from msmq.structures.packet.user_message_view import UserMessageView


_BURIED = UserHeader.JN | UserHeader.TH


def wants_local_dead_letter(view: UserMessageView) -> bool:
    """Whether the sender of a message requested a dead letter that is kept where the message fails.

    This is so for a message with negative source journaling that is neither transactional nor an
    acknowledgement.
    """
    return view.flags & _BURIED == UserHeader.JN and not is_quiet(view)


@attrs.define(eq=False)
class QueueArrivals:
    """Enqueues messages, and makes them available once they are stored."""

    _numbers: MessageNumbers
    _holdings: Holdings
    _expiry: Expiry
    _showing: Availability
    _copying: MessageCopies
    _collection: QueueCollection

    def admit(
        self,
        arrivals: Sequence[tuple[Queue, UserMessageView]],
        now: Moment,
        *,
        by_session: bool = False,
        spare: int = 0,
        ignores_throttle: bool = False,
    ) -> Admission:
        """Enqueue Message, for many: add them to their queues, still invisible. [MS-MQDMPR] 3.1.7.1.9.

        Either L{commit} or L{withdraw} has to follow, once the changes are stored or were not.
        If there is an overflow as well, it has to be handed to the store, and L{overflowed} has to follow.

        @param by_session: whether they came over a session: none of them is journaled as sent here, whatever
            source its packet states, since its sender journals it.
        @param spare: bytes that they may take beyond QueueManagerQuota: they replace messages that leave.
        @param ignores_throttle: they are accepted although the store was full the last time.
        """
        arrivals = self._collection.renewed(arrivals, now)
        first = self._numbers.sequential.take(len(arrivals))
        admission = admit(arrivals, first, self._holdings, now, spare, ignores_throttle=ignores_throttle)
        if admission.journaled and not by_session:
            before = self._copying.dropped
            for queue, lookup_id in admission.journaled:
                copy = self._copying.arrive(queue.positions[lookup_id], admission.changes)
                if copy is not None:
                    admission.copies.append(copy)
            admission.dropped = self._copying.uncounted(before)
        admission.changes += self._numbers.reservations()
        return admission

    def dead_letter_refused(
        self,
        view: UserMessageView,
        message_class: MessageClass,
        now: Moment,
        dead_letters: list[MessagePosition],
        changes: list[Change],
    ) -> bool:
        """[MS-MQQB] 3.1.5.8.8, reading 64: keep a message that was refused on arrival as a dead letter.

        @param view: a message for which L{wants_local_dead_letter} is true.
        @param dead_letters: the result is appended to it; it becomes available once C{changes} are stored
            (L{commit}), or is withdrawn with the admission of which both become part (L{withdraw}).
        @return: whether it is kept; false if a limit is reached, which is to be counted by that admission.
        """
        dead_letter = self._copying.keep_refused(view, message_class, now.wall, changes)
        if dead_letter is None:
            return False
        dead_letters.append(dead_letter)
        return True

    def commit(self, admission: Admission, now: Moment) -> list[Effect]:
        """The changes are stored: the messages become available. [MS-MQDMPR] 3.1.7.2.2.

        Those that have expired already do not (3.1.2.4, reading 31).
        """
        self._numbers.stored(admission.changes)
        self._copying.dropped += admission.dropped
        effects: list[Effect] = []
        departures = self._expiry.schedule_expiry(admission.mortal, now)[1] if admission.mortal else []
        effects += departures
        for queue, positions in admission.groups.items():
            if departures:
                positions = [position for position in positions if position.state is PositionState.ARRIVING]
            if queue.is_deleted:
                effects += gone_with_queue(positions)
            elif positions:
                queue.pack()
                queue.arrived_count += len(positions)
                queue.make_available(positions)
                effects += self._showing.serve(queue, positions, now)
                if admission.changes or admission.overflow:
                    self._showing.cache(positions)
        if admission.copies:
            effects += self._showing.show(admission.copies, now)
        return effects

    def withdraw(self, admission: Admission) -> list[Change]:
        """The changes were not stored: the messages are discarded.

        @return: the changes that delete the overflow if the store has it; their commit is not awaited.
        """
        for position in admission.positions:
            self._holdings.unlink(position)
        self._copying.withdraw(admission.copies)
        forget_queues(admission.changes, (*admission.groups, *(each.queue for each in admission.copies)))
        return removals(
            position for position in admission.positions if position.kept is PacketHolder.OVERFLOW
        )

    def overflowed(self, admission: Admission, *, is_stored: bool) -> None:
        """The store has the express messages beyond the memory limit, or has failed to store them.

        In the second case they stay in memory nevertheless.
        """
        for position in admission.positions:
            if (
                position.kept is PacketHolder.OVERFLOW
                and position.state is not PositionState.DELETED
                and not position.queue.is_deleted
            ):
                self._holdings.overflowed(position, is_stored=is_stored)
