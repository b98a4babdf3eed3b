"""The event of a message whose journal copy waits no longer, and is not kept. [MS-MQQB] 3.1.5.5.4."""

from __future__ import annotations

from typing import Final

from msmq.moment import Moment
from msmq.persistence.changes import AppendEvent
from msmq.structures.packet.message_class import class_name
from msmq.transfer.awaiting_acknowledgements import SourceSettlement, WaitEnd
from msmq.transfer.stream_changes import Disposal

_WHY: Final = {
    WaitEnd.EXPIRED: "no acknowledgement came in time; it may have arrived",
    WaitEnd.EVICTED: "more messages than [limits] awaiting_acknowledgements waited; it may have arrived",
}


def source_event(
    settlement: SourceSettlement, own: bytes, now: Moment, *, is_kept: bool, note: str = ""
) -> AppendEvent:
    """The event of a message that was not proven to have arrived.

    @param own: the bytes of the GUID of this queue manager.
    @param is_kept: there is a dead letter of it.
    @param note: why that is not in the queue that its sender chose; empty otherwise.
    """
    message, is_answered = settlement.message, settlement.end is WaitEnd.ANSWERED
    reason = (
        f"acknowledgement {class_name(settlement.message_class)}" if is_answered else _WHY[settlement.end]
    )
    if is_kept:
        reason += f"; {note}; kept as a dead letter" if note else "; kept as a dead letter"
    elif settlement.disposal is Disposal.DEAD_LETTER:
        reason += "; the dead letter was not kept, for lack of space"
    return AppendEvent(
        now.wall,
        (own if message.sender is None else message.sender.bytes_le)
        + message.message_id.to_bytes(4, "little"),
        "failed" if is_answered else "unacknowledged",
        reason,
        settlement.message_class,
        message.destination,
    )
