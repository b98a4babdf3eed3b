"""Messages whose arrival or receipt is reported to their senders. [MS-MQQB] 3.1.5.8.10, 3.1.7.15."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import MessagePosition, Queue, different_positions
from msmq.structures.packet.user_message_view import UserMessageView


def reported_arrivals(groups: Mapping[Queue, Sequence[MessagePosition]]) -> list[UserMessageView]:
    """The messages that have reached their queue and ask for an acknowledgement; one in transit has not.

    No FinalAck reports an arrival.

    @param groups: messages by the queue that they entered.
    """
    return [
        position.view
        for queue, positions in groups.items()
        if not isinstance(queue, OutgoingQueue) and _any_asks(positions)
        for position in positions
        if position.view is not None and position.view.acknowledge
    ]


def _any_asks(positions: Sequence[MessagePosition]) -> bool:
    """Whether any of these messages asks for an acknowledgement; nearly none does."""
    for position in different_positions(positions):
        if position.view is not None and position.view.acknowledge:
            return True
    return False


def reported_receipts(positions: Iterable[MessagePosition]) -> list[UserMessageView]:
    """The received ones among messages that applications took from queues.

    A copy is none of them, since the message itself was reported (reading 45), nor is one that an application
    took from an outgoing queue: it never arrived.
    """
    return [
        position.view
        for position in positions
        if position.view is not None
        and not position.queue.is_system
        and not isinstance(position.queue, OutgoingQueue)
    ]
