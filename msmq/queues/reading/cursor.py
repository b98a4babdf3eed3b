"""Cursor: a position in a queue from which a reader continues. [MS-MQDMPR] 3.2.

The state machine is that of figure 3 (3.2.1.1).  The cursor stores a LookupIdentifier rather than a
MessagePosition, so that it survives the removal of the message (reading 8).
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import Protocol

import attrs
from automat import TypeMachine, TypeMachineBuilder

from msmq.machines import indexed
from msmq.moment import Moment
from msmq.queues.queue import MessagePosition, Queue
from msmq.queues.reading.descriptor import OpenQueueDescriptor
from msmq.queues.reading.seek import END, START, seek


class CursorState(enum.Enum):
    """CursorState. [MS-MQDMPR] 3.2.1.2."""

    UNREAD = "Unread"
    READ = "Read"
    WAIT_PEEK = "WaitPeek"
    WAIT_RECEIVE = "WaitReceive"


class CursorAnswer(enum.Enum):
    """rStatus: the result of a request for a message by cursor. [MS-MQDMPR] 3.2.7.2 to 3.2.7.4."""

    SUCCEEDED = "Succeeded"
    ALREADY_RECEIVED = "AlreadyReceived"
    ILLEGAL_CURSOR_ACTION = "IllegalCursorAction"
    NOT_FOUND = "NotFound"
    WAITING = "Waiting"


class Finder(Protocol):
    """Finds messages for a cursor; messages to be received are locked by that."""

    def ahead(self) -> MessagePosition | None:
        """The first message after the cursor."""

    def here(self) -> MessagePosition | None:
        """The message at the cursor's position, if it is still available."""


@attrs.define(eq=False)
class Cursor:
    """A cursor; it is volatile. [MS-MQDMPR] 3.2.1.2.

    @ivar handle: Handle, unique among the cursors of this queue manager.
    @ivar descriptor: OpenQueueDescriptorReference.
    @ivar reference: MessagePositionReference, the LookupIdentifier of a message, C{START} or C{END}.
    @ivar since: at C{END}, the insertion number at which the cursor arrived there.
    @ivar answer: rStatus of the last request.
    @ivar position: rPosition; C{None} unless the answer is SUCCEEDED.
    @ivar passes_end: it waits for a peek-next, which advances it even if no message arrives (reading 40).
    @ivar waiting: the tag of its waiting read, if there is one.
    @ivar inputs: its state machine.
    @ivar is_open: it was not closed.
    """

    handle: int
    descriptor: OpenQueueDescriptor = attrs.field(repr=False)
    queue: Queue = attrs.field(repr=False)
    state: CursorState = CursorState.UNREAD
    reference: int = START
    since: int = 0
    answer: CursorAnswer = CursorAnswer.NOT_FOUND
    position: MessagePosition | None = None
    passes_end: bool = False
    waiting: tuple[Hashable, ...] = ()
    inputs: CursorInputs = attrs.field(init=False, repr=False)
    is_open: bool = True

    def __attrs_post_init__(self) -> None:
        self.inputs = CURSOR_MACHINE(self)

    def ahead(self, now: Moment, *, is_peek: bool) -> MessagePosition | None:
        """The first message after it. [MS-MQDMPR] 3.1.7.3.2.

        From the end these are the messages that became available since it arrived there, at any position:
        a waiting read at the end would have received them (readings 41 and 42).
        """
        if self.reference == END:
            return self.queue.first_since(self.since)
        return seek(self.queue, self.reference, now, is_peek=is_peek)

    def move_to(self, position: MessagePosition) -> None:
        """Set it to the position of a message."""
        self._leave_end()
        self.reference = position.lookup_id

    def move_to_end(self) -> None:
        """Set it behind all messages that are in the queue now."""
        if self.reference != END:
            self.reference = END
            self.queue.ends += 1
        self.since = self.queue.insertions

    def close(self) -> None:
        """Close it. [MS-MQDMPR] 3.1.7.1.2."""
        self._leave_end()
        self.is_open = False

    def _leave_end(self) -> None:
        if self.reference == END:
            self.reference = START
            self.queue.ends -= 1


class CursorInputs(Protocol):
    """The inputs of a cursor's state machine."""

    def get_message_for_peek(self, finder: Finder) -> None:
        """Get Message For Peek. [MS-MQDMPR] 3.2.7.2."""

    def get_next_message_for_peek(self, finder: Finder) -> None:
        """Get Next Message For Peek. [MS-MQDMPR] 3.2.7.3."""

    def get_next_message_for_dequeue(self, finder: Finder, no_wait: bool) -> None:
        """Get Next Message For Dequeue. [MS-MQDMPR] 3.2.7.4."""

    def message_available(self, position: MessagePosition) -> None:
        """Message Available. [MS-MQDMPR] 3.2.7.5."""

    def wait_time_expired(self, is_cut_short: bool) -> None:
        """Wait Time Expired, or ended otherwise without a message. [MS-MQDMPR] 3.2.7.6."""

    def peek_reaches_message(self, position: MessagePosition) -> None:
        """A peek has found a message."""

    def peek_reaches_end(self) -> None:
        """A peek has found no message."""

    def receive_takes_message(self) -> None:
        """The peeked message is received."""

    def receive_reaches_end(self) -> None:
        """There is no message to receive, and the read waits."""


def _build() -> TypeMachineBuilder[CursorInputs, Cursor]:
    builder = TypeMachineBuilder(CursorInputs, Cursor)
    states = {state: builder.state(state.value) for state in CursorState}
    unread, read = states[CursorState.UNREAD], states[CursorState.READ]
    wait_peek, wait_receive = states[CursorState.WAIT_PEEK], states[CursorState.WAIT_RECEIVE]
    waits = (wait_peek, wait_receive)

    @unread.upon(CursorInputs.get_message_for_peek).loop()
    def look_ahead(inputs: CursorInputs, cursor: Cursor, finder: Finder) -> None:
        _look_ahead(inputs, cursor, finder)

    @read.upon(CursorInputs.get_message_for_peek).loop()
    def look_again(inputs: CursorInputs, cursor: Cursor, finder: Finder) -> None:
        _answer_with(cursor, finder.here(), CursorAnswer.ALREADY_RECEIVED)

    @read.upon(CursorInputs.get_next_message_for_peek).loop()
    def look_further(inputs: CursorInputs, cursor: Cursor, finder: Finder) -> None:
        _look_ahead(inputs, cursor, finder)

    @unread.upon(CursorInputs.peek_reaches_message).to(read)
    @read.upon(CursorInputs.peek_reaches_message).to(read)
    def stop_at_message(inputs: CursorInputs, cursor: Cursor, position: MessagePosition) -> None:
        cursor.state = CursorState.READ
        cursor.move_to(position)
        _answer_with(cursor, position)

    @unread.upon(CursorInputs.peek_reaches_end).to(wait_peek)
    def wait_to_peek(inputs: CursorInputs, cursor: Cursor) -> None:
        _wait(cursor, CursorState.WAIT_PEEK)

    @read.upon(CursorInputs.peek_reaches_end).to(wait_peek)
    def wait_to_peek_next(inputs: CursorInputs, cursor: Cursor) -> None:
        _wait(cursor, CursorState.WAIT_PEEK, passes_end=True)

    @unread.upon(CursorInputs.get_next_message_for_dequeue).loop()
    def receive_ahead(inputs: CursorInputs, cursor: Cursor, finder: Finder, no_wait: bool) -> None:
        position = finder.ahead()
        if position is not None:
            cursor.move_to(position)
        elif not no_wait:
            inputs.receive_reaches_end()
            return
        _answer_with(cursor, position, CursorAnswer.NOT_FOUND)

    @unread.upon(CursorInputs.receive_reaches_end).to(wait_receive)
    def wait_to_receive(inputs: CursorInputs, cursor: Cursor) -> None:
        _wait(cursor, CursorState.WAIT_RECEIVE, passes_end=True)

    @read.upon(CursorInputs.get_next_message_for_dequeue).loop()
    def receive_here(inputs: CursorInputs, cursor: Cursor, finder: Finder, no_wait: bool) -> None:
        _answer_with(cursor, finder.here(), CursorAnswer.ALREADY_RECEIVED)
        if cursor.position is not None:
            inputs.receive_takes_message()

    @read.upon(CursorInputs.receive_takes_message).to(unread)
    def leave_message(inputs: CursorInputs, cursor: Cursor) -> None:
        cursor.state = CursorState.UNREAD

    @wait_peek.upon(CursorInputs.message_available).to(read)
    def see_arrival(inputs: CursorInputs, cursor: Cursor, position: MessagePosition) -> None:
        cursor.state = CursorState.READ
        cursor.move_to(position)

    @wait_receive.upon(CursorInputs.message_available).to(unread)
    def take_arrival(inputs: CursorInputs, cursor: Cursor, position: MessagePosition) -> None:
        cursor.state = CursorState.UNREAD
        cursor.move_to(position)

    @wait_peek.upon(CursorInputs.wait_time_expired).to(unread)
    @wait_receive.upon(CursorInputs.wait_time_expired).to(unread)
    def stop_waiting(inputs: CursorInputs, cursor: Cursor, is_cut_short: bool) -> None:
        cursor.state = CursorState.UNREAD
        # Messages that may still be ahead must not be skipped.
        if cursor.passes_end and not is_cut_short:
            cursor.move_to_end()

    def refuse(inputs: CursorInputs, cursor: Cursor, *finder_and_no_wait: object, **_: object) -> None:
        _answer_with(cursor, None, CursorAnswer.ILLEGAL_CURSOR_ACTION)

    for waiting in waits:
        waiting.upon(CursorInputs.get_message_for_peek).loop()(refuse)
        waiting.upon(CursorInputs.get_next_message_for_dequeue).loop()(refuse)
    for state in (unread, *waits):
        state.upon(CursorInputs.get_next_message_for_peek).loop()(refuse)
    for state in (unread, read):
        state.upon(CursorInputs.message_available).loop().returns(None)
        state.upon(CursorInputs.wait_time_expired).loop().returns(None)
    for state in waits:
        state.upon(CursorInputs.peek_reaches_message).loop().returns(None)
        state.upon(CursorInputs.peek_reaches_end).loop().returns(None)
    for state in (unread, *waits):
        state.upon(CursorInputs.receive_takes_message).loop().returns(None)
    for state in (read, *waits):
        state.upon(CursorInputs.receive_reaches_end).loop().returns(None)
    return builder


def _look_ahead(inputs: CursorInputs, cursor: Cursor, finder: Finder) -> None:
    position = finder.ahead()
    if position is None:
        inputs.peek_reaches_end()
    else:
        inputs.peek_reaches_message(position)


def _answer_with(
    cursor: Cursor, position: MessagePosition | None, otherwise: CursorAnswer = CursorAnswer.NOT_FOUND
) -> None:
    cursor.position = position
    cursor.answer = otherwise if position is None else CursorAnswer.SUCCEEDED


def _wait(cursor: Cursor, state: CursorState, *, passes_end: bool = False) -> None:
    cursor.state = state
    cursor.passes_end = passes_end
    _answer_with(cursor, None, CursorAnswer.WAITING)


CURSOR_MACHINE: TypeMachine[CursorInputs, Cursor] = indexed(_build().build())
"""Initialize: makes the inputs of one cursor. [MS-MQDMPR] 3.2.1.1, 3.2.7.1."""
