"""[MS-MQDMPR] 3.1.1.11 MessagePosition: one message in one queue."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import TYPE_CHECKING

import attrs

from msmq.errors import LocalProtocolError

if TYPE_CHECKING:
    from msmq.queues.queue import Queue
    from msmq.structures.user_message_view import UserMessageView


class PositionState(enum.Enum):
    """[MS-MQDMPR] 3.1.1.11 State, with the document's one Locked told apart by who holds the lock.

    ARRIVING: in the queue, not yet in the store; nobody sees it.
    AVAILABLE: can be received.
    LOCKED_READER: handed to a reader that has neither confirmed nor given back.
    PURGE_PENDING: was so when the queue was purged; whatever its reader decides, it leaves.
    REMOVING: confirmed, and its removal is not yet stored.
    LEAVING: leaves unread, and its removal is not yet stored.
    DELETED: not in the queue any more.
    """

    ARRIVING = "arriving"
    AVAILABLE = "available"
    LOCKED_READER = "locked"
    PURGE_PENDING = "purge pending"
    REMOVING = "removing"
    LEAVING = "leaving"
    DELETED = "deleted"


@attrs.define(eq=False, weakref_slot=False)
class MessagePosition:
    """[MS-MQDMPR] 3.1.1.11 a message's place in a queue.

    @ivar lookup_id: LookupIdentifier ([MS-MQDMPR] 3.1.1.12), by which the messages of a queue are ordered:
        the high byte is 7 minus the priority, the rest counts what this queue manager took in.
    @ivar view: the packet; C{None} while a stored message has not been read from the store.
    @ivar size: bytes of the packet.
    @ivar arrived: ArrivalTime, seconds since 1970-01-01 UTC.
    @ivar owner: whose lock it is; the tag of the read.
    """

    queue: Queue = attrs.field(repr=False)
    lookup_id: int
    view: UserMessageView | None = attrs.field(repr=False)
    size: int
    arrived: float
    state: PositionState = PositionState.ARRIVING
    owner: Hashable = None

    @property
    def is_recoverable(self) -> bool:
        """Whether it is in the store; what was restored from there is."""
        return self.view is None or self.view.is_recoverable

    @property
    def packet(self) -> bytes:
        """The UserMessage packet.

        @raise LocalProtocolError: it was not read from the store yet.
        """
        if self.view is None:
            raise LocalProtocolError(f"message {self.lookup_id:#x} was not read from the store yet")
        return self.view.packet
