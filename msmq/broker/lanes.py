"""Messages that a broker has taken out of its queues, in the order in which they are processed."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final

import attrs
from twisted.internet.defer import Deferred

from msmq.broker.outcomes import Outcome
from msmq.interfaces.manager.queue_manager import IReservation
from msmq.interfaces.manager.received_messages import ReceivedMessage

AHEAD: Final = 16
"""How many messages for each one that may be processed at a time are taken out of a queue, if there may be
several."""

MOST_PARKED: Final = 1000
"""Limit on the messages of one queue that wait because of L{later<msmq.broker.outcomes.later>}."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""Limit on the bytes of all messages that are taken out; it may be exceeded by one message."""


@attrs.define(eq=False)
class ProcessedQueue:
    """A queue whose messages are processed.

    @ivar is_kept: look for it again after it was deleted, since the broker declares it.
    @ivar taken: messages that are taken out of it, and not finished.
    @ivar parked: those of them that wait because of L{later<msmq.broker.outcomes.later>}, or behind such a
        message.
    @ivar reading: the pending read, if any.
    @ivar reader_waits: what its reader waits for until it may take another message.
    @ivar is_resting: a read or a removal has failed a moment ago.
    @ivar is_missing: it was deleted, which the log says.
    """

    path: str
    is_kept: bool
    taken: int = 0
    parked: int = 0
    reading: Deferred[IReservation] | None = None
    reader_waits: Deferred[None] | None = None
    is_resting: bool = False
    is_missing: bool = False


@attrs.define(eq=False)
class TakenMessage:
    """A message that is taken out of its queue: locked, until it is removed or returned.

    @ivar outcome: an outcome that could not be stored and is applied again, without processing it again.
    """

    queue: ProcessedQueue
    reservation: IReservation
    message: ReceivedMessage
    outcome: Outcome | None = None

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.message.view.size

    def next_attempt(self) -> None:
        """It will be processed once more."""
        self.message = attrs.evolve(self.message, attempt=self.message.attempt + 1)

    def has_expired(self, wall: float) -> bool:
        """Whether its TimeToBeReceived has certainly passed ([MS-MQDMPR] 3.1.2.4)."""
        return wall >= self.message.expires + 1


@attrs.define(eq=False)
class Lane:
    """Messages that are processed one after the other.

    @ivar key: their common key.
    @ivar is_parked: whether the first one waits because of L{later<msmq.broker.outcomes.later>}.
    @ivar is_processing: whether the first one is being processed.
    """

    key: Hashable
    messages: deque[TakenMessage] = attrs.field(factory=deque)
    is_parked: bool = False
    is_processing: bool = False
