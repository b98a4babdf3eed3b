"""[MS-MQQB] 3.1.5.8.2 and 3.1.5.8.5: messages for other queue managers that pass through a routing server."""

from __future__ import annotations

from typing import Final

import attrs

from msmq.manager.answer_room import AnswerRoom
from msmq.manager.connectors import Connectors
from msmq.manager.performing import Performer
from msmq.manager.securing.gate import Gate
from msmq.moment import Moment
from msmq.queues.arrivals import wants_burial
from msmq.queues.directory.access import DirectoryAccess
from msmq.queues.outgoing import OutgoingQueue, transit_name
from msmq.structures.kept_packet import marked_for_dead_letters
from msmq.structures.message_class import MessageClass
from msmq.structures.user_header import MAXIMUM_HOP_COUNT
from msmq.structures.user_message_patches import patch_hop_count
from msmq.structures.user_message_view import UserMessageView
from msmq.wire.guid import guid_from_bytes

NOT_FOR_US: Final = "NOT_FOR_US"
"""This queue manager is no routing server."""

TOO_MANY_QUEUES: Final = "TOO_MANY_QUEUES"
"""There is no room for one more outgoing queue."""

ENTERPRISE_UNKNOWN: Final = "ENTERPRISE_UNKNOWN"
"""The directory was not read yet, so a message may be for a foreign site and its connector queue here."""

PASSING: Final = frozenset({TOO_MANY_QUEUES, ENTERPRISE_UNKNOWN})
"""Reasons that pass: a recoverable message is not acknowledged, so that its sender keeps it."""


@attrs.frozen
class RoutingRole:
    """[MS-MQDMPR] 3.1.1.1 RoutingServer: whether messages between other queue managers pass through this one.

    @ivar is_configured: the configuration says so.
    @ivar directory: what the directory says; C{None} in workgroup mode.
    """

    is_configured: bool
    directory: DirectoryAccess | None

    @property
    def is_routing_server(self) -> bool:
        """As it is now: the directory may change it."""
        return self.is_configured or (
            self.directory is not None and self.directory.local.object.routing_server
        )


class Forwarding:
    """Decides what becomes of a message that is for another queue manager.

    All that passes through to one queue manager waits in one outgoing queue, in which nothing of our own is:
    its packets are sent on as they came, but for the hop count.
    Nothing is numbered anew in transactional messages, and nobody here waits for their acknowledgements:
    those go to whoever sent them.
    """

    def __init__(
        self,
        performer: Performer,
        role: RoutingRole,
        gate: Gate,
        answer_room: AnswerRoom,
        connectors: Connectors,
    ) -> None:
        """Forward, as long as this queue manager is a routing server.

        @param role: whether it is one.
        @param gate: the addresses whose messages become dead letters here if they fail here (reading 64).
        @param answer_room: the limits on outgoing queues that peers cause.
        @param connectors: tell whether a message may be for a connector queue.
        """
        self._performer = performer
        self._gate = gate
        self._role = role
        self._answer_room = answer_room
        self._connectors = connectors

    def forward(
        self, message: UserMessageView, address: str, now: Moment
    ) -> tuple[OutgoingQueue, UserMessageView] | MessageClass | str:
        """Where a message goes, and its packet for the way.

        @param address: where it came from.
        @return: the class with which it is refused, if that has one; otherwise the reason, of which its
            sender is not told.
        """
        if not self._role.is_routing_server:
            return NOT_FOR_US
        if message.hop_count >= MAXIMUM_HOP_COUNT:
            return MessageClass.NACK_HOP_COUNT_EXCEEDED
        if message.is_recoverable and self._connectors.is_undecided():
            return ENTERPRISE_UNKNOWN
        destination = guid_from_bytes(message.queue_manager_address)
        collection = self._performer.model.collection
        name = transit_name(destination)
        if not self._answer_room.make(name, message.source_queue_manager, address):
            return TOO_MANY_QUEUES
        packet = patch_hop_count(message.packet, message.hop_count + 1)
        if wants_burial(message) and self._gate.admits(address):
            packet = marked_for_dead_letters(packet)
        return collection.outgoing(name, now), UserMessageView(packet)
