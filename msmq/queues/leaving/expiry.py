"""Expiry of messages: removal after TimeToReachQueue or TimeToBeReceived."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from msmq.moment import Moment
from msmq.queues.leaving.acknowledged import ACKNOWLEDGED, HELD_BY_READER
from msmq.queues.leaving.deadlines import Expiring, ExpiringMessages
from msmq.queues.leaving.departure_kinds import Departure, by_queue, departure
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition
from msmq.structures.packet.message_class import MessageClass

EXPIRED_AT_ONCE = 50
"""The number of expired messages that are removed in one step, with their effects."""

LONGEST_TRUST = 60.0
"""Seconds between readings of the wall clock while messages can expire."""


@attrs.define(eq=False)
class Expiry:
    """[MS-MQDMPR] 3.1.7.2.7 and [MS-MQQB] 3.1.7.1.2, for all queues of a queue manager.

    A message that a reader has locked may still be received; it expires when it is released (reading 32).
    One that a session has sent, and that is not acknowledged, expires (reading 76); an acknowledged one does
    not, although its removal may take as long as the store fails.
    """

    _messages: ExpiringMessages

    def schedule_expiry(
        self, positions: Iterable[MessagePosition], now: Moment
    ) -> tuple[list[MessagePosition], list[Departure]]:
        """The messages that have not expired, now scheduled, and the departures of the others."""
        wall = now.wall
        if isinstance(positions, list) and positions:
            # Nearly all that arrive together expire together.
            due, queue = positions[0].due, positions[0].queue
            if (
                due is not None
                and due > wall
                and not queue.is_deleted
                and (
                    len(positions) == 1
                    or not [each for each in positions if each.due != due or each.queue is not queue]
                )
            ):
                self._messages.of(due).update(dict.fromkeys(positions))
                return positions, []
        late: list[MessagePosition] = []
        fresh: list[MessagePosition] = []
        last: int | None = None
        same_second: dict[Expiring, None] = {}
        for position in positions:
            due = position.due
            if due is None or position.queue.is_deleted:
                fresh.append(position)
            elif due <= wall:
                late.append(position)
            else:
                if due != last:
                    last, same_second = due, self._messages.of(due)
                same_second[position] = None
                fresh.append(position)
        return fresh, _leave(late) if late else []

    def remember(self, positions: Iterable[MessagePosition]) -> None:
        """Schedule the removal of these messages when they expire, which may be now."""
        for position in positions:
            if position.due is not None:
                self._messages.add(position, position.due)

    def find(
        self, look: Callable[[], list[MessagePosition]], now: Moment
    ) -> tuple[list[MessagePosition], list[Departure]]:
        """What C{look} finds, without expired messages, and the departures of these.

        It repeats the search if all found messages have expired, but only a bounded number of times: after
        that the caller has to wait although there may be more messages.
        """
        departures: list[Departure] = []
        found = look()
        patience = EXPIRED_AT_ONCE
        while found and self._messages:
            patience -= len(found)
            found, late = self.schedule_expiry(found, now)
            departures += late
            if found or patience <= 0:
                break
            found = look()
        return found, departures

    def gave_up(self, found: Sequence[MessagePosition], departures: Sequence[Departure]) -> bool:
        """Whether L{find}, with this result, stopped before the end."""
        if found or not departures:
            return False
        return sum(len(each.positions) for each in departures) >= EXPIRED_AT_ONCE

    def expire(self, now: Moment) -> list[Departure]:
        """Remove expired messages, as many as a few milliseconds allow."""
        return _leave(filter(_may_leave, self._messages.take_due(now.wall, EXPIRED_AT_ONCE)))

    def forget(self, positions: Iterable[MessagePosition]) -> None:
        """These messages were removed."""
        self._messages.discard(positions)

    def deadline(self, now: Moment) -> float | None:
        """When L{expire} has to be called next, in seconds of the monotonic clock.

        Messages expire by the wall clock, which may be set, so it is read again every minute.
        """
        due = self._messages.next_due()
        if due is None:
            return None
        return now.monotonic + min(max(due - now.wall, 0.0), LONGEST_TRUST)


def _may_leave(position: MessagePosition) -> bool:
    if position.queue.is_deleted:
        return False
    if position.state is PositionState.AVAILABLE:
        return True
    if position.owner is HELD_BY_READER:
        return False
    return (
        position.state is PositionState.LOCKED_READER
        and isinstance(position.queue, OutgoingQueue)
        and position.owner is not ACKNOWLEDGED
    )


def _leave(late: Iterable[MessagePosition]) -> list[Departure]:
    leaving: list[MessagePosition] = []
    for position in late:
        if position.state is PositionState.AVAILABLE:
            position.queue.remove_available(position)
        elif position.state in (PositionState.ARRIVING, PositionState.LOCKED_READER):
            position.state = PositionState.LEAVING
        else:
            continue
        leaving.append(position)
    return [departure(positions, _reason(positions[0])) for positions in by_queue(leaving).values()]


def _reason(position: MessagePosition) -> MessageClass:
    if isinstance(position.queue, OutgoingQueue):
        return MessageClass.NACK_REACH_QUEUE_TIMEOUT
    return MessageClass.NACK_RECEIVE_TIMEOUT
