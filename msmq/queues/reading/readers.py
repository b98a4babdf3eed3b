"""Reads of messages, immediate or waiting. [MS-MQDMPR] 3.1.7.1.10 to 3.1.7.1.17.

Choosing a message, locking it and completing the waiting read are one step, so that no two readers get
the same message (readings 37 and 38).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from itertools import dropwhile
from operator import attrgetter
from typing import Final

import attrs

from msmq.moment import Moment
from msmq.queues.effects import Effect, ReadCompleted, ReadFailed
from msmq.queues.leaving.acknowledged import HELD_BY_READER
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.leaving.expiry import Expiry
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue, up_to
from msmq.queues.reading.cursor import Cursor, CursorAnswer, CursorState
from msmq.queues.reading.operations import WaitingReader, WaitingReaders
from msmq.queues.reading.seek import START, MessageSeekAction, is_visible, peek_visible, seek_with_id
from msmq.structures.status import MQError, Status

STATUS_NOT_FOUND: Final = 0xC0000225
"""The result of 3.1.7.1.17 if no read waits under a tag: an NTSTATUS among HRESULTs (reading 25)."""

_lookup_id = attrgetter("lookup_id")

_Seek = Callable[[], MessagePosition | None]

_STATUS: Final = {
    CursorAnswer.ALREADY_RECEIVED: Status.MQ_ERROR_MESSAGE_ALREADY_RECEIVED,
    CursorAnswer.ILLEGAL_CURSOR_ACTION: Status.MQ_ERROR_ILLEGAL_CURSOR_ACTION,
    CursorAnswer.NOT_FOUND: Status.MQ_ERROR_MESSAGE_NOT_FOUND,
}


@attrs.define(eq=False)
class CursorFinder:
    """Finds and locks messages for one read that has a cursor.

    @ivar departures: expired messages that it has found.
    """

    reader: WaitingReader
    cursor: Cursor
    expiry: Expiry
    now: Moment
    departures: list[Departure] = attrs.field(factory=list, init=False)

    def ahead(self) -> MessagePosition | None:
        """The first message after the cursor."""
        return self._find(lambda: self.cursor.ahead(self.now, is_peek=self.reader.is_peek))

    def here(self) -> MessagePosition | None:
        """The message at the cursor's position, if it is still available."""
        return self._find(self._at_current_position)

    def _at_current_position(self) -> MessagePosition | None:
        position = self.cursor.queue.positions.get(self.cursor.reference)
        if position is None or not is_visible(position, self.now, is_peek=self.reader.is_peek):
            return None
        return position

    def _find(self, seek: _Seek) -> MessagePosition | None:
        if _is_withheld(self.reader):
            self.reader.is_cut_short = False
            return None
        found, departures = self.expiry.find(lambda: _locked(self.reader, seek()), self.now)
        self.departures += departures
        self.reader.is_cut_short = self.expiry.gave_up(found, departures)
        return found[0] if found else None


@attrs.define(eq=False)
class Readers:
    """The reads of all queues of a queue manager.

    Each begins with one call.  The effects of this call, or of a later one, contain a L{ReadCompleted} or a
    L{ReadFailed} with its tag when it ends.

    A receive from a paused queue waits as in an empty queue, and fails with MQ_ERROR_IO_TIMEOUT if it may not
    wait; a peek finds the messages.
    """

    _expiry: Expiry
    _waiting: WaitingReaders = attrs.field(factory=WaitingReaders, init=False)

    # Begin

    def read(self, reader: WaitingReader, now: Moment) -> list[Effect]:
        """Dequeue Message and Peek Message, without a cursor. [MS-MQDMPR] 3.1.7.1.10 and 3.1.7.1.15.

        Available messages complete the read at once, up to C{count}.

        @raise LocalProtocolError: a reader waits under its tag.
        """
        if reader.cursor is not None:
            return self.read_by_cursor(reader, reader.cursor, now)
        self._waiting.check(reader.tag)
        if reader.queue.is_deleted:
            return [ReadFailed(reader.tag, Status.MQ_ERROR_QUEUE_NOT_AVAILABLE)]
        found, departures = self._read_without_cursor(reader, reader.count, now)
        effects: list[Effect] = [*departures]
        if found:
            effects += self._give(reader, found, now)
        elif reader.may_wait(now.monotonic):
            self._waiting.add(reader)
        else:
            effects.append(ReadFailed(reader.tag, Status.MQ_ERROR_IO_TIMEOUT))
        return effects

    def read_by_cursor(
        self, reader: WaitingReader, cursor: Cursor, now: Moment, *, is_next: bool = False
    ) -> list[Effect]:
        """[MS-MQDMPR] 3.1.7.1.10, 3.1.7.1.14 and 3.1.7.1.15, with a cursor.

        @param is_next: it is a peek of the next message (3.1.7.1.14).
        @raise LocalProtocolError: a reader waits under its tag.
        """
        self._waiting.check(reader.tag)
        if reader.queue.is_deleted:
            return [ReadFailed(reader.tag, Status.MQ_ERROR_QUEUE_NOT_AVAILABLE)]
        if _is_withheld(reader):
            return self._withhold(reader, cursor, now)
        if reader.queue.withholds and cursor.waiting:
            return [ReadFailed(reader.tag, Status.MQ_ERROR_ILLEGAL_CURSOR_ACTION)]
        reader.queue.pack()
        finder = CursorFinder(reader, cursor, self._expiry, now)
        may_wait = reader.may_wait(now.monotonic)
        if not reader.is_peek:
            cursor.inputs.get_next_message_for_dequeue(finder, not may_wait)
        elif is_next:
            cursor.inputs.get_next_message_for_peek(finder)
        else:
            cursor.inputs.get_message_for_peek(finder)
        effects: list[Effect] = [*finder.departures]
        found, cursor.position = cursor.position, None
        if found is not None:
            effects += self._give(reader, [found], now)
        elif cursor.answer is not CursorAnswer.WAITING:
            effects.append(ReadFailed(reader.tag, _STATUS[cursor.answer]))
        elif may_wait:
            self._waiting.add(reader)
        else:
            cursor.inputs.wait_time_expired(reader.is_cut_short)
            effects.append(ReadFailed(reader.tag, Status.MQ_ERROR_IO_TIMEOUT))
        return effects

    def read_by_lookup_identifier(
        self, reader: WaitingReader, lookup_id: int, action: MessageSeekAction, now: Moment
    ) -> list[Effect]:
        """Read Message By Lookup Identifier, which never waits. [MS-MQDMPR] 3.1.7.1.13.

        @param lookup_id: has no meaning for FIRST and LAST.
        @raise LocalProtocolError: a reader waits under its tag.
        """
        self._waiting.check(reader.tag)
        if reader.queue.is_deleted:
            return [ReadFailed(reader.tag, Status.MQ_ERROR_QUEUE_NOT_AVAILABLE)]
        if _is_withheld(reader):
            return [ReadFailed(reader.tag, Status.MQ_ERROR_IO_TIMEOUT)]
        reader.queue.pack()
        status = Status.MQ_ERROR_MESSAGE_NOT_FOUND

        def find() -> list[MessagePosition]:
            nonlocal status
            found = seek_with_id(reader.queue, lookup_id, action, now, is_peek=reader.is_peek)
            if isinstance(found, Status):
                status = found
                return []
            return _locked(reader, found)

        found, departures = self._expiry.find(find, now)
        effects: list[Effect] = [*departures]
        if found:
            return effects + self._give(reader, found, now)
        return [*effects, ReadFailed(reader.tag, status)]

    def take(
        self,
        queue: Queue,
        count: int,
        owner: Hashable,
        now: Moment,
        chosen: Sequence[MessagePosition] | None = None,
    ) -> tuple[list[MessagePosition], list[Effect]]:
        """Lock up to C{count} available messages, without waiting.

        Expired messages are excluded; the effects remove them.

        @param chosen: available messages, of which these are locked; C{None} for the first ones.
        """
        if chosen is None:
            found, departures = self._expiry.find(lambda: queue.take(count, owner), now)
        else:
            for position in chosen[:count]:
                queue.take_one(position, owner)
            found, departures = self._expiry.schedule_expiry(list(chosen[:count]), now)
        return found, [*departures]

    # New messages

    def serve(self, queue: Queue, fresh: Collection[MessagePosition], now: Moment) -> list[Effect]:
        """Give new messages to waiting reads, in order. [MS-MQDMPR] 3.1.7.2.2, 3.1.7.3.6, 3.1.7.3.7.

        Each receives or peeks one message; the rest is distributed to the same receivers in equal parts, up
        to the count of each. A cursor gets the first of these messages, at any position (reading 42).
        """
        if not queue.readers:
            return []
        effects: list[Effect] = []
        served: list[tuple[WaitingReader, list[MessagePosition]]] = []
        arrivals: list[MessagePosition] | None = None
        # Those behind a peek that begins after all of the messages; none begins meanwhile.
        further: Iterator[Hashable] | None = None
        while queue.readers and (reader := self._next(queue, further)) is not None:
            if reader.cursor is None:
                found, departures = self._read_without_cursor(
                    reader, reader.count if reader.is_peek else 1, now
                )
                effects += departures
            else:
                if arrivals is None:
                    arrivals = sorted(fresh, key=_lookup_id, reverse=True)
                found = _locked(reader, _first_visible(arrivals, now))
            if not found:
                if reader.is_cut_short:
                    # Those behind it look again, too: it may leave them some of what it finds then.
                    by_tag = self._waiting.by_tag
                    self._waiting.cut_short.update((tag, by_tag[tag]) for tag in queue.readers)
                elif reader.after != START:
                    if further is None:
                        further = iter(tuple(dropwhile(reader.tag.__ne__, queue.readers))[1:])
                    continue
                break
            self._end(reader, found)
            served.append((reader, found))
        if queue.has_available:
            effects += self._share(queue, served, now)
        if len(served) > 1:
            # A reader that received more than others is moved behind them.
            served.sort(key=_number_found)
        for reader, found in served:
            effects += self._give(reader, found, now)
        return effects

    def _next(self, queue: Queue, further: Iterator[Hashable] | None) -> WaitingReader | None:
        """The first waiting read; the first peek while the queue is paused.

        @param further: the only reads to choose from; C{None} for all.
        """
        by_tag = self._waiting.by_tag
        tags = iter(queue.readers) if further is None else further
        if queue.withholds:
            peeks = (by_tag[tag] for tag in tags)
            return next((reader for reader in peeks if reader.is_peek), None)
        tag = next(tags, None)
        return None if tag is None else by_tag[tag]

    def _share(
        self, queue: Queue, served: Iterable[tuple[WaitingReader, list[MessagePosition]]], now: Moment
    ) -> list[Effect]:
        """Lock the remaining messages for the receivers of more than one, in equal parts.

        The first waiting reader does not get all of a burst; what exceeds the count of one goes to the
        others.
        """
        effects: list[Effect] = []
        wanting = [
            (reader, found)
            for reader, found in served
            if not reader.is_peek and reader.cursor is None and reader.may_take(found) > 0
        ]
        while wanting and queue.has_available:
            part, rest = divmod(queue.available_count, len(wanting))
            more_wanting = []
            for number, (reader, found) in enumerate(wanting):
                wanted = min(part + (number < rest), reader.count - len(found))
                more, departures = self._read_without_cursor(reader, wanted, now, found)
                found += more
                effects += departures
                if not queue.has_available:
                    return effects
                if more and reader.may_take(found) > 0:
                    more_wanting.append((reader, found))
            wanting = more_wanting
        return effects

    # End without a message

    def cancel(self, tag: Hashable, status: Status = Status.MQ_ERROR_OPERATION_CANCELLED) -> list[Effect]:
        """Cancel one waiting read, without loss of a message.

        @return: empty if no read with this tag is waiting (any more).
        """
        reader = self._waiting.by_tag.get(tag)
        return [] if reader is None else [self._fail(reader, status)]

    def cancel_waiting_read(self, queue: Queue, tag: Hashable, status: Status) -> tuple[int, list[Effect]]:
        """Cancel Waiting Message Read Request. [MS-MQDMPR] 3.1.7.1.17.

        @return: MQ_OK, or STATUS_NOT_FOUND if no read waits at this queue under this tag.
        """
        if tag not in queue.readers:
            return STATUS_NOT_FOUND, []
        return Status.MQ_OK, self.end_waiting((tag,), status)

    def cancel_owned(
        self, owner: Hashable, status: Status = Status.MQ_ERROR_OPERATION_CANCELLED
    ) -> list[Effect]:
        """Cancel all waiting reads of this owner, a transaction that ends for example."""
        return self.end(self._waiting.owned(owner), status)

    def end(self, readers: Iterable[WaitingReader], status: Status) -> list[Effect]:
        """End these waits."""
        return [self._fail(reader, status) for reader in list(readers)]

    def waiting(self, tag: Hashable) -> WaitingReader | None:
        """The read that waits under this tag."""
        return self._waiting.by_tag.get(tag)

    def end_waiting(self, tags: Iterable[Hashable], status: Status) -> list[Effect]:
        """End the waits with these tags."""
        return self.end([self._waiting.by_tag[tag] for tag in tags], status)

    def queue_deleted(self, queue: Queue) -> list[Effect]:
        """End the waiting reads of a deleted queue (reading 17). [MS-MQDMPR] 3.1.7.1.4."""
        return self.end_waiting(queue.readers, Status.MQ_ERROR_QUEUE_DELETED)

    def deadline(self, now: Moment) -> float | None:
        """When L{expire} has to be called next, in seconds of the monotonic clock."""
        return now.monotonic if self._waiting.cut_short else self._waiting.deadline()

    def expire(self, now: Moment) -> list[Effect]:
        """End the expired reads; of very many, some with each call. [MS-MQDMPR] 3.1.6.3."""
        timed_out = Status.MQ_ERROR_IO_TIMEOUT
        return [self._fail(reader, timed_out) for reader in self._waiting.due(now.monotonic)]

    def look_again(self, now: Moment) -> list[Effect]:
        """Repeat the search of reads that found only expired messages, since there may be more after them."""
        effects: list[Effect] = []
        for reader in list(self._waiting.cut_short.values()):
            if self._waiting.cut_short.get(reader.tag) is not reader:
                # As in L{resume}.
                continue
            if reader.cursor is None:
                found, departures = self._read_without_cursor(reader, reader.count, now)
            else:
                finder = CursorFinder(reader, reader.cursor, self._expiry, now)
                position = finder.ahead()
                found, departures = ([] if position is None else [position]), finder.departures
            effects += departures
            if reader.is_cut_short:
                break
            del self._waiting.cut_short[reader.tag]
            if found:
                self._end(reader, found)
                effects += self._give(reader, found, now)
        return effects

    # Paused queues

    def resume(self, queues: Iterable[Queue], now: Moment) -> list[Effect]:
        """Give the messages of these queues, which are not paused any more, to waiting receives."""
        effects: list[Effect] = []
        for queue in queues:
            waiting = [self._waiting.by_tag[tag] for tag in queue.readers]
            for reader in waiting:
                cursor = reader.cursor
                if cursor is None or reader.is_peek or cursor.state is CursorState.WAIT_RECEIVE:
                    continue
                if self._waiting.by_tag.get(reader.tag) is not reader:
                    # It got a message that another read could not take, since its transaction is ending.
                    continue
                # It has begun during the pause.
                self._waiting.discard(reader)
                effects += self.read_by_cursor(reader, cursor, now)
            if all(reader.cursor is None for reader in waiting):
                effects += self.serve(queue, (), now)
            else:
                # A cursor that finds nothing must not keep messages from the receives after it.
                self._waiting.cut_short.update((tag, self._waiting.by_tag[tag]) for tag in queue.readers)
        return effects + self.look_again(now)

    def _withhold(self, reader: WaitingReader, cursor: Cursor, now: Moment) -> list[Effect]:
        """A receive by cursor waits, without a change of the cursor, until its queue is no longer paused."""
        if cursor.waiting:
            return [ReadFailed(reader.tag, Status.MQ_ERROR_ILLEGAL_CURSOR_ACTION)]
        if not reader.may_wait(now.monotonic):
            return [ReadFailed(reader.tag, Status.MQ_ERROR_IO_TIMEOUT)]
        self._waiting.add(reader)
        return []

    # Implementation

    def _read_without_cursor(
        self, reader: WaitingReader, count: int, now: Moment, before: Sequence[MessagePosition] = ()
    ) -> tuple[list[MessagePosition], list[Departure]]:
        """The messages for a read without a cursor, locked unless it is a peek.

        @param before: those that it has already.
        """
        queue, room = reader.queue, reader.room(before)
        if _is_withheld(reader):
            reader.is_cut_short = False
            return [], []
        if reader.is_peek:
            found, departures = self._expiry.find(lambda: peek_visible(queue, count, now, reader.after), now)
            if room is not None:
                found = up_to(room, found)
        else:
            found, departures = self._expiry.find(lambda: queue.take(count, reader.owner, room), now)
        reader.is_cut_short = self._expiry.gave_up(found, departures)
        return found, departures

    def _end(self, reader: WaitingReader, found: Sequence[MessagePosition]) -> None:
        """End the wait of a read that has found messages."""
        self._waiting.discard(reader)
        if reader.cursor is not None:
            reader.cursor.inputs.message_available(found[0])

    def _give(self, reader: WaitingReader, found: list[MessagePosition], now: Moment) -> list[Effect]:
        """Complete a read, which waits no longer, with the messages locked for it."""
        if not reader.is_peek:
            if reader.on_taken is not None:
                try:
                    reader.on_taken(found)
                except MQError as error:
                    reader.queue.make_available(found[::-1])
                    back = self.serve(reader.queue, found, now)
                    return [ReadFailed(reader.tag, error.status), *back]
            if reader.allow_peek:
                reader.queue.allow_peek(found)
            if isinstance(reader.queue, OutgoingQueue):
                # Unlike one that a session holds, it may be received until it is released (reading 32).
                for position in found:
                    position.owner = HELD_BY_READER
        return [ReadCompleted(reader.tag, found)]

    def _fail(self, reader: WaitingReader, status: Status) -> ReadFailed:
        self._waiting.discard(reader)
        if reader.cursor is not None:
            # Messages that came while the queue was paused must not be skipped.
            reader.cursor.inputs.wait_time_expired(reader.is_cut_short or _is_withheld(reader))
        return ReadFailed(reader.tag, status)


def _is_withheld(reader: WaitingReader) -> bool:
    """Whether this read is a receive from a paused queue."""
    return not reader.is_peek and reader.queue.withholds


def _number_found(served: tuple[WaitingReader, list[MessagePosition]]) -> int:
    return len(served[1])


def _locked(reader: WaitingReader, position: MessagePosition | None) -> list[MessagePosition]:
    """This position, locked unless the read is a peek."""
    if position is None:
        return []
    if not reader.is_peek:
        reader.queue.take_one(position, reader.owner)
    return [position]


def _first_visible(arrivals: list[MessagePosition], now: Moment) -> MessagePosition | None:
    """The last of these that is visible; removes those after it."""
    while arrivals:
        position = arrivals[-1]
        if position.state is PositionState.AVAILABLE and (position.due is None or position.due > now.wall):
            return position
        arrivals.pop()
    return None
