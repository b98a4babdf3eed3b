"""Directory service discovery server: answers broadcasts for directory servers. [MS-MQSD] 3.2.

The server keeps no state of a request and has no timers (3.2.2); it reports the state of 3.2.1.1.

[MS-MQSD] 1.3 and 1.6: only a queue manager with a directory service answers; it does so whatever its version.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from msmq.discovery.packets import (
    MAXIMUM_NETWORKS,
    DirectoryServer,
    TopologyClientRequest,
    TopologyServerReply,
    is_server_name,
)
from msmq.errors import RemoteProtocolError
from msmq.wire.addresses import can_be_answered
from msmq.wire.guid import NULL_GUID

LARGEST_REPLY: Final = 65_507
"""Maximum payload of a UDP datagram over IPv4, in bytes."""


class Unanswered(enum.Enum):
    """Reason why a datagram is dropped without a reply."""

    MALFORMED = "no TopologyClientRequest"
    OTHER_ENTERPRISE = "a request from another enterprise"
    NO_NETWORK = "no connected network is configured"
    OWN = "a request of our own"
    NO_RETURN_ADDRESS = "no address or port to answer to"
    RATE = "too many requests"
    HOST_RATE = "too many requests from one host"


class DiscoveryServer:
    """Directory service discovery server of a queue manager. [MS-MQSD] 3.2.

    Its attributes may be changed at any time; the next reply contains the new values.

    @ivar enterprise: Enterprise.Identifier.
    @ivar site: Site.Identifier; replies to clients of this site contain no servers, because these clients
        know them. The null GUID means no site; no client belongs to it.
    @ivar directory_servers: DirectoryServerList; if it has no name that a reply can have, the server reports
        its own (reading 22).
    @ivar connected_networks: ConnectedNetworkIdentifierList; replies contain the first 32; if it is empty, no
        request is answered (reading 23).
    @ivar own_request: the RequestID of this queue manager's own client, whose requests are not answered.
    @ivar answered: number of answered requests.
    @ivar unanswered: number of dropped datagrams, by reason.
    """

    def __init__(
        self,
        enterprise: UUID,
        site: UUID,
        computer_name: str,
        *,
        directory_servers: Sequence[str] = (),
        connected_networks: Sequence[UUID] = (),
        checks_enterprise: bool = False,
    ) -> None:
        """Initialize for one queue manager.

        @param computer_name: ComputerName of the queue manager.
        @param checks_enterprise: drop requests from other enterprises, which the document does not require
            (reading 16).
        """
        self.enterprise = enterprise
        self.site = site
        self.directory_servers = tuple(directory_servers)
        self.connected_networks = tuple(connected_networks)
        self.own_request: UUID | None = None
        self.answered = 0
        self.unanswered: Counter[Unanswered] = Counter()
        self._computer_name = computer_name
        self._checks_enterprise = checks_enterprise

    def answer(
        self, datagram: bytes, source: tuple[str, int] | None = None, *, is_ipx: bool = False
    ) -> bytes | Unanswered:
        """Receiving a TopologyClientRequest: the reply to its sender. [MS-MQSD] 3.2.5.1.

        @param source: the IP address and port that it came from.
        @param is_ipx: received over IPX.
        """
        outcome = self._classify(datagram, is_ipx)
        if source is not None and not isinstance(outcome, Unanswered) and not can_be_answered(*source):
            outcome = Unanswered.NO_RETURN_ADDRESS
        if isinstance(outcome, Unanswered):
            self.unanswered[outcome] += 1
            return outcome
        self.answered += 1
        return outcome.to_bytes()

    def _classify(self, datagram: bytes, is_ipx: bool) -> TopologyServerReply | Unanswered:
        try:
            request = TopologyClientRequest.from_bytes(datagram, is_ipx=is_ipx)
        except RemoteProtocolError:
            return Unanswered.MALFORMED
        if request.request_id == self.own_request:
            return Unanswered.OWN
        if self._checks_enterprise and request.enterprise_id != self.enterprise:
            return Unanswered.OTHER_ENTERPRISE
        networks = self.connected_networks[:MAXIMUM_NETWORKS]
        if not networks:
            return Unanswered.NO_NETWORK
        mask = (1 << len(networks)) - 1 if is_ipx else 0
        if request.site_id == self.site != NULL_GUID:
            return TopologyServerReply(request.request_id, networks, connected_network_mask=mask)
        room = LARGEST_REPLY - TopologyServerReply.SIZE - 16 * (len(networks) + 1)
        servers = _fitting(self.directory_servers, room) or _fitting((self._computer_name,), room)
        return TopologyServerReply(
            request.request_id, networks, self.site, servers, connected_network_mask=mask
        )


def _fitting(names: Iterable[str], room: int) -> tuple[DirectoryServer, ...]:
    """The server list without names that it cannot have, truncated to what fits into one datagram, some
    thousands.
    """
    servers = []
    for name in filter(is_server_name, names):
        # Two flags, the name, and the comma or the NUL after it, two bytes each.
        room -= 2 * (len(name.encode("utf-16-le", "surrogatepass")) // 2 + 3)
        if room < 0:
            break
        servers.append(DirectoryServer(name))
    return tuple(servers)
