"""Forwards messages in transit through a routing server. [MS-MQQB] 3.1.5.8.2 and 3.1.5.8.5."""

from __future__ import annotations

import attrs

from msmq.manager.peers.connectors import Connectors
from msmq.manager.peers.peer_queue_limits import PeerQueueLimits
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
    """RoutingServer: whether this queue manager forwards messages between others. [MS-MQDMPR] 3.1.1.1.

    @ivar is_configured: the role is set in the configuration.
    @ivar directory: the role in the directory; C{None} in workgroup mode.
    """

    is_configured: bool
    directory: DirectoryAccess | None

    @property
    def is_routing_server(self) -> bool:
        """The current role, which the directory may change."""
        return self.is_configured or (
            self.directory is not None and self.directory.local.object.routing_server
        )


class Forwarding:
    """Outgoing queues of messages in transit to other queue managers.

    All messages to one queue manager wait in one outgoing queue, apart from those of this queue manager;
    their packets are forwarded unchanged, but for the hop count.
    Transactional messages keep their sequence numbers, and their acknowledgements go to the original sender.
    """

    def __init__(
        self,
        performer: Performer,
        role: RoutingRole,
        trusted_peers: TrustedPeers,
        peer_queues: PeerQueueLimits,
        connectors: Connectors,
    ) -> None:
        """Create the part; it forwards while this queue manager is a routing server.

        @param role: whether this queue manager is a routing server.
        @param trusted_peers: the addresses whose failed messages become dead letters here (reading 64).
        @param peer_queues: the limits on outgoing queues created on behalf of peers.
        @param connectors: determine whether a message may be for a connector queue.
        """
        self._performer = performer
        self._trusted_peers = trusted_peers
        self._role = role
        self._peer_queues = peer_queues
        self._connectors = connectors

    @property
    def is_routing_server(self) -> bool:
        """RoutingServer, the current value. [MS-MQDMPR] 3.1.1.1."""
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
            has_room=lambda: self._peer_queues.make(name, message.source_queue_manager, address),
        )
        if obstacle is not None:
            return obstacle
        return self._performer.model.collection.outgoing(name, now)

    def forwarded(self, message: UserMessageView, address: str) -> UserMessageView:
        """The packet of a forwarded message.

        @param address: where it came from.
        """
        keeps_dead_letter = wants_local_dead_letter(message) and self._trusted_peers.admits(address)
        return UserMessageView(forwarded_packet(message, keeps_dead_letter=keeps_dead_letter))
