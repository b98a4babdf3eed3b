"""[MS-MQDMPR] 3.1.1.11 MessagePosition: one message in one queue."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.packet.kept_packet import packet_of
from msmq.structures.packet.user_header import UserHeader

if TYPE_CHECKING:
    from msmq.queues.queue import Queue
    from msmq.structures.packet.user_message_view import UserMessageView

_JN: Final = UserHeader.JN


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


_AT_REST = frozenset({PositionState.AVAILABLE, PositionState.LOCKED_READER, PositionState.PURGE_PENDING})


class PacketHolder(enum.Enum):
    """Who has the packet of a message.

    MEMORY: we alone; it is an express message.
    STORE: the store, for good.
    OVERFLOW: the store, until it is opened next; it is an express message for which memory had no room.
    """

    MEMORY = "memory"
    STORE = "store"
    OVERFLOW = "overflow"


@attrs.define(eq=False, weakref_slot=False)
class MessagePosition:
    """[MS-MQDMPR] 3.1.1.11 a message's place in a queue.

    @ivar lookup_id: LookupIdentifier ([MS-MQDMPR] 3.1.1.12), by which the messages of a queue are ordered:
        the high byte is 7 minus the priority, the rest counts what this queue manager took in.
    @ivar view: the packet; C{None} while only the store has it.
    @ivar size: bytes of the packet.
    @ivar arrived: ArrivalTime, seconds since 1970-01-01 UTC.
    @ivar owner: whose lock it is: the tag of a read, a transaction, or a session.
    @ivar due: when it has to leave its queue, seconds since 1970-01-01 UTC; C{None} for never.
    @ivar aborts: AbortCount, how many transactions that had received it were aborted.
    @ivar moves: MoveCount, how often it was moved.
    @ivar insertion: when it last became available, as L{Queue.insertions} counts; 0 if nobody had to know.
    @ivar is_cached: the store has the packet, and C{view} is counted as a copy of it.
    """

    queue: Queue = attrs.field(repr=False)
    lookup_id: int
    view: UserMessageView | None = attrs.field(repr=False)
    size: int
    arrived: float
    state: PositionState = PositionState.ARRIVING
    owner: Hashable = None
    kept: PacketHolder = PacketHolder.MEMORY
    due: int | None = None
    aborts: int = 0
    moves: int = 0
    is_cached: bool = False
    insertion: int = 0

    @property
    def is_recoverable(self) -> bool:
        """Whether it is in the store for good, or on its way there."""
        return self.kept is PacketHolder.STORE

    @property
    def is_stored(self) -> bool:
        """Whether the store has it, or is getting it, be it for good or not."""
        return self.kept is not PacketHolder.MEMORY

    @property
    def is_at_rest(self) -> bool:
        """Whether it lies in its queue or with a reader, and nothing is being stored for it."""
        return self.state in _AT_REST

    @property
    def priority(self) -> int:
        """The effective priority, 7 first: that of the message, 0 if it is transactional."""
        return 7 - (self.lookup_id >> 56)

    @property
    def packet(self) -> bytes:
        """The UserMessage packet, as it is sent to other queue managers.

        @raise LocalProtocolError: it was not read from the store yet.
        """
        view = self.view
        if view is None:
            raise self._unread()
        return packet_of(view.packet) if view.flags & _JN else view.packet

    @property
    def record(self) -> bytes:
        """The UserMessage packet with what is kept behind it, as it is stored.

        @raise LocalProtocolError: it was not read from the store yet.
        """
        if self.view is None:
            raise self._unread()
        return self.view.packet

    def _unread(self) -> LocalProtocolError:
        return LocalProtocolError(f"message {self.lookup_id:#x} was not read from the store yet")
