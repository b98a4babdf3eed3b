"""[MS-MQDMPR] 3.1.1.11 State of a MessagePosition, and who has its packet."""

from __future__ import annotations

import enum


class PositionState(enum.Enum):
    """[MS-MQDMPR] 3.1.1.11 State, with the document's one Locked told apart by who holds the lock.

    ARRIVING: in the queue, not yet in the store; invisible.
    AVAILABLE: can be received.
    LOCKED_READER: locked by a reader that has neither confirmed nor released it.
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


class PacketHolder(enum.Enum):
    """Who has the packet of a message.

    MEMORY: we alone; it is an express message.
    STORE: the store, durably.
    OVERFLOW: the store, until it is opened next; it is an express message for which memory had no room.
    """

    MEMORY = "memory"
    STORE = "store"
    OVERFLOW = "overflow"
