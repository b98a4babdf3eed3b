"""Locks of messages in outgoing queues: acknowledged by their destination, or taken by a reader.

[MS-MQQB] 3.1.5.6 and 3.1.5.7.
"""

from __future__ import annotations

from typing import Final

from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition

ACKNOWLEDGED: Final = object()
"""The lock owner of an acknowledged message until the store has removed or moved it."""

HELD_BY_READER: Final = object()
"""The lock owner of a message that a reader has taken from an outgoing queue, as an administrator may."""


def lock_acknowledged(position: MessagePosition) -> bool:
    """Lock an acknowledged message for its removal; false if it is being removed already.

    It no longer expires, however long the store takes: it has reached its destination.
    """
    if position.queue.is_deleted:
        return False
    if position.state is PositionState.AVAILABLE:
        position.queue.remove_available(position)
        position.state = PositionState.LOCKED_READER
    elif position.state is PositionState.PURGE_PENDING:
        # It was acknowledged before its queue was purged.
        position.state = PositionState.LOCKED_READER
    if position.state is not PositionState.LOCKED_READER:
        return False
    # The session that was about to send it has released its lock.
    position.owner = ACKNOWLEDGED
    return True
