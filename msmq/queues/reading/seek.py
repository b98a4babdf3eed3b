"""Seeks messages relative to a position in their queue. [MS-MQDMPR] 3.1.7.3.2 and 3.1.7.3.3.

A position is a LookupIdentifier, whose message may have been removed (reading 8), or one of the ends.
"""

from __future__ import annotations

import enum
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final

from msmq.moment import Moment
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.status import Status

START: Final = -1
"""MessagePositionList.Start, the position before all messages. [MS-MQDMPR] 3.1.1.2."""

END: Final = 1 << 64
"""MessagePositionList.End, the position after all messages. [MS-MQDMPR] 3.1.1.2."""


class MessageSeekAction(enum.Enum):
    """MessageSeekAction: the message to read, relative to a LookupIdentifier. [MS-MQDMPR] 3.1.1.17."""

    FIRST = "SeekFirst"
    PREVIOUS = "SeekPrevious"
    CURRENT = "SeekCurrent"
    NEXT = "SeekNext"
    LAST = "SeekLast"


def is_visible(position: MessagePosition, now: Moment, *, is_peek: bool) -> bool:
    """Whether a read may find this position: it is available, or locked and may be peeked.

    AllowPeekWhenLocked applies to the locks of readers only (reading 39); a locked message that has expired
    is not removed, but hidden.
    """
    if position.state is PositionState.AVAILABLE:
        return True
    peekable = position.queue.peekable
    return (
        is_peek
        and peekable is not None
        and position.state is PositionState.LOCKED_READER
        and position in peekable
        and (position.due is None or position.due > now.wall)
    )


def seek(
    queue: Queue, reference: int, now: Moment, *, is_peek: bool, is_backward: bool = False
) -> MessagePosition | None:
    """Seek Available Message Position; C{None} at the end. [MS-MQDMPR] 3.1.7.3.2."""
    found = queue.before(reference) if is_backward else queue.after(reference)
    if not is_peek or queue.peekable is None:
        return found
    locked = queue.peekable.before(reference) if is_backward else queue.peekable.after(reference)
    while locked is not None and not is_visible(locked, now, is_peek=True):
        reference = locked.lookup_id
        locked = queue.peekable.before(reference) if is_backward else queue.peekable.after(reference)
    if found is None or locked is None:
        return found or locked
    return locked if (locked.lookup_id > found.lookup_id) == is_backward else found


def peek_visible(queue: Queue, count: int, now: Moment, after: int = START) -> list[MessagePosition]:
    """The first C{count} positions that a peek may find, or as many as there are.

    @param after: those with greater LookupIdentifiers.
    """
    found = queue.peek(count) if after == START else queue.page(after, count)
    if queue.peekable is None:
        return found
    locked = (
        position
        for position in queue.peekable
        if position.lookup_id > after and is_visible(position, now, is_peek=True)
    )
    return list(islice(merge(found, locked, key=attrgetter("lookup_id")), count))


def seek_with_id(
    queue: Queue, lookup_id: int, action: MessageSeekAction, now: Moment, *, is_peek: bool
) -> MessagePosition | Status:
    """Seek Available Message Position With Id, or why there is none (reading 43). [MS-MQDMPR] 3.1.7.3.3.

    @param lookup_id: ignored for FIRST and LAST.
    @return: MQ_ERROR_MESSAGE_NOT_FOUND; for CURRENT also MQ_ERROR_TRANSACTION_USAGE for a locked message, and
        MQ_ERROR_MESSAGE_ALREADY_RECEIVED for a received one whose removal is pending.
    """
    match action:
        case MessageSeekAction.FIRST:
            found = seek(queue, START, now, is_peek=is_peek)
        case MessageSeekAction.LAST:
            found = seek(queue, END, now, is_peek=is_peek, is_backward=True)
        case _:
            origin = queue.positions.get(lookup_id)
            if origin is None or origin.state is PositionState.ARRIVING:
                return Status.MQ_ERROR_MESSAGE_NOT_FOUND
            if action is MessageSeekAction.CURRENT:
                return origin if is_visible(origin, now, is_peek=is_peek) else _why_not(origin)
            is_backward = action is MessageSeekAction.PREVIOUS
            found = seek(queue, lookup_id, now, is_peek=is_peek, is_backward=is_backward)
    return Status.MQ_ERROR_MESSAGE_NOT_FOUND if found is None else found


def _why_not(position: MessagePosition) -> Status:
    match position.state:
        case PositionState.LOCKED_READER:
            return Status.MQ_ERROR_TRANSACTION_USAGE
        case PositionState.REMOVING:
            return Status.MQ_ERROR_MESSAGE_ALREADY_RECEIVED
    return Status.MQ_ERROR_MESSAGE_NOT_FOUND
