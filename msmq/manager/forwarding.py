"""[MS-MQQB] 3.1.5.8.2 and 3.1.5.8.5: messages for other queue managers that pass through a routing server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msmq.manager.performing import Performer
from msmq.manager.securing.gate import Gate
from msmq.moment import Moment
from msmq.queues.arrivals import wants_burial
from msmq.queues.outgoing import OutgoingQueue, transit_name
from msmq.structures.format_name import FormatName
from msmq.structures.kept_packet import marked_for_dead_letters
from msmq.structures.message_class import MessageClass
from msmq.structures.user_header import MAXIMUM_HOP_COUNT
from msmq.structures.user_message_patches import patch_hop_count
from msmq.structures.user_message_view import UserMessageView
from msmq.wire.guid import guid_from_bytes

NOT_FOR_US: Final = "NOT_FOR_US"
"""This queue manager is no routing server."""

TOO_MANY_QUEUES: Final = "TOO_MANY_QUEUES"
"""There is no room for one more outgoing queue: a reason that passes."""


class Forwarding:
    """Decides what becomes of a message that is for another queue manager.

    All that passes through to one queue manager waits in one outgoing queue, in which nothing of our own is:
    its packets are sent on as they came, but for the hop count.
    Nothing is numbered anew in transactional messages, and nobody here waits for their acknowledgements:
    those go to whoever sent them.
    """

    def __init__(self, performer: Performer, is_routing: Callable[[], bool], gate: Gate) -> None:
        """Forward, as long as this queue manager is a routing server.

        @param is_routing: [MS-MQDMPR] 3.1.1.1 RoutingServer.
        @param gate: the addresses whose messages become dead letters here if they fail here (reading 64).
        """
        self._performer = performer
        self._gate = gate
        self._is_routing = is_routing
        self.make_room: Callable[[FormatName, bytes, str], bool] = lambda *_: True

    def forward(
        self, message: UserMessageView, address: str, now: Moment
    ) -> tuple[OutgoingQueue, UserMessageView] | MessageClass | str:
        """Where a message goes, and its packet for the way.

        @param address: where it came from.
        @return: the class with which it is refused, if that has one; otherwise the reason, of which its
            sender is not told.
        """
        if not self._is_routing():
            return NOT_FOR_US
        if message.hop_count >= MAXIMUM_HOP_COUNT:
            return MessageClass.NACK_HOP_COUNT_EXCEEDED
        destination = guid_from_bytes(message.queue_manager_address)
        collection = self._performer.model.collection
        name = transit_name(destination)
        if not self.make_room(name, message.source_queue_manager, address):
            return TOO_MANY_QUEUES
        packet = patch_hop_count(message.packet, message.hop_count + 1)
        if wants_burial(message) and self._gate.admits(address):
            packet = marked_for_dead_letters(packet)
        return collection.outgoing(name, now), UserMessageView(packet)
