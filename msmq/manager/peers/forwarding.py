"""[MS-MQQB] 3.1.5.8.2 and 3.1.5.8.5: forwards messages in transit through a routing server."""

from __future__ import annotations

import attrs

from msmq.manager.peers.answer_limits import AnswerLimits
from msmq.manager.peers.connectors import Connectors
from msmq.manager.performer import Performer
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.membership.access import DirectoryAccess
from msmq.moment import Moment
from msmq.queues.arriving.arrivals import wants_local_dead_letter
from msmq.queues.outgoing import OutgoingQueue, transit_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.decisions.forwarding_decision import forwarded_packet, route_obstacle
from msmq.wire.guid import guid_from_bytes


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
    """Outgoing queues of messages that pass through to other queue managers.

    All messages to one queue manager wait in one outgoing queue, apart from those of this queue manager;
    their packets are sent on as they came, but for the hop count.
    Transactional messages keep their numbers, and nothing here waits for their acknowledgements, which go to
    the first sender.
    """

    def __init__(
        self,
        performer: Performer,
        role: RoutingRole,
        gate: TrustedPeers,
        answer_room: AnswerLimits,
        connectors: Connectors,
    ) -> None:
        """Forward, as long as this queue manager is a routing server.

        @param role: whether it is one.
        @param gate: the addresses whose messages become dead letters here if they fail here (reading 64).
        @param answer_room: the limits on outgoing queues that peers cause.
        @param connectors: determine whether a message may be for a connector queue.
        """
        self._performer = performer
        self._gate = gate
        self._role = role
        self._answer_room = answer_room
        self._connectors = connectors

    @property
    def is_routing_server(self) -> bool:
        """[MS-MQDMPR] 3.1.1.1 RoutingServer, as it is now."""
        return self._role.is_routing_server

    def queue_for(self, message: UserMessageView, address: str, now: Moment) -> OutgoingQueue | str:
        """The outgoing queue of a message that is forwarded, or why there is none at the moment.

        @param address: where the message came from.
        @return: a queue, or one of L{PASSING<msmq.transfer.decisions.forwarding_decision.PASSING>}.
        """
        name = transit_name(guid_from_bytes(message.queue_manager_address))
        obstacle = route_obstacle(
            message,
            is_enterprise_unknown=self._connectors.is_undecided,
            has_room=lambda: self._answer_room.make(name, message.source_queue_manager, address),
        )
        if obstacle is not None:
            return obstacle
        return self._performer.model.collection.outgoing(name, now)

    def forwarded(self, message: UserMessageView, address: str) -> UserMessageView:
        """The packet of a message as it is sent on.

        @param address: where it came from.
        """
        keeps_dead_letter = wants_local_dead_letter(message) and self._gate.admits(address)
        return UserMessageView(forwarded_packet(message, keeps_dead_letter=keeps_dead_letter))
