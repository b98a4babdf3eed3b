"""State of a MessagePosition, and the holder of its packet. [MS-MQDMPR] 3.1.1.11."""

from __future__ import annotations

import enum


class PositionState(enum.Enum):
    """State; the document's Locked is divided by the owner of the lock. [MS-MQDMPR] 3.1.1.11.

    ARRIVING: in the queue, not yet in the store; invisible.
    AVAILABLE: can be received.
    LOCKED_READER: locked by a reader that has neither confirmed nor released it.
    PURGE_PENDING: was locked by a reader when the queue was purged; it is received if its reader confirms
    it, and removed as purged otherwise. REMOVING: confirmed, and its removal is not yet stored. LEAVING:
    removed unread, and its removal is not yet stored. DELETED: no longer in the queue.
    PACKED: available, and this object stands for it no longer.
    """

    ARRIVING = "arriving"
    AVAILABLE = "available"
    LOCKED_READER = "locked"
    PURGE_PENDING = "purge pending"
    REMOVING = "removing"
    LEAVING = "leaving"
    DELETED = "deleted"
    PACKED = "packed"


class PacketHolder(enum.Enum):
    """Where the packet of a message is held.

    MEMORY: in memory only; an express message.
    STORE: in the store, durably.
    OVERFLOW: in the store until it is opened again; an express message beyond the memory limit.
    """

    MEMORY = "memory"
    STORE = "store"
    OVERFLOW = "overflow"
