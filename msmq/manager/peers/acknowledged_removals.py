"""Locks an acknowledged message while the store removes it."""

from __future__ import annotations

from typing import Final

from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition

LEAVING: Final = object()
"""The lock owner of acknowledged messages until the store has removed them."""


def hold(position: MessagePosition) -> bool:
    """Lock a message for removal; false if it is being removed already."""
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
    position.owner = LEAVING
    return True
