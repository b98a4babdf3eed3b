"""Removes messages from outgoing queues by their acknowledgements."""

from __future__ import annotations

from typing import Final

from msmq.moment import Moment
from msmq.persistence.changes import AppendEvent
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition
from msmq.structures.packet.message_class import class_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.stream_changes import Disposal

_RECEIVED: Final = 0x4000


def fate(view: UserMessageView, message_class: int, disposal: Disposal, now: Moment) -> AppendEvent:
    """The event of a message whose FinalAck has come."""
    name = view.destination_format_name()
    return AppendEvent(
        now.wall,
        view.identity,
        "received" if message_class == _RECEIVED else "failed",
        f"final acknowledgement {class_name(message_class)}"
        + ("; kept as a dead letter" if disposal is Disposal.DEAD_LETTER else ""),
        message_class,
        str(name) if name is not None else "",
    )


LEAVING: Final = object()
"""The owner of a message whose fate is known, while the store forgets it."""


def hold(position: MessagePosition) -> bool:
    """Lock a message that is about to leave; false if it is leaving already."""
    if position.queue.is_deleted:
        return False
    if position.state is PositionState.AVAILABLE:
        position.queue.let_go(position)
        position.state = PositionState.LOCKED_READER
    elif position.state is PositionState.PURGE_PENDING:
        # It had arrived before its queue was purged.
        position.state = PositionState.LOCKED_READER
    if position.state is not PositionState.LOCKED_READER:
        return False
    # The session that was about to send it has released its lock.
    position.owner = LEAVING
    return True
