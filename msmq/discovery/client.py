"""[MS-MQSD] 3.1: a queue manager without a directory asks its networks for the directory servers.

Its state is that of 3.1.1.1 and 3.1.1.2, initialized as 3.1.3 says.

One run asks one network after the other with the same request, and waits up to 15 seconds for the
replies of each.
A server of the client's own site lists no servers: what the client has been configured with is right.
A server of another site lists those of its own site, and these become the client's.

What a reply does depends on three things alone, as they are when it comes: whether its network is the
last, whether a foreign reply is stored, and whether the new one lists servers (readings 3 to 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from msmq.discovery.packets import TopologyClientRequest, TopologyServerReply
from msmq.errors import RemoteProtocolError
from msmq.moment import Moment

RESPONSE_TIME: Final = 15.0
"""[MS-MQSD] 3.1.2.1: seconds of the Waiting for Response Timer."""


@attrs.frozen
class BroadcastNetwork:
    """[MS-MQSD] 3.1.1.2 one of NetworkAddressList.

    @ivar address: the IP address of this host on it, from which requests leave.
    @ivar is_dial_up: it comes and goes (RAS), so that a run that succeeded says nothing about it.
    """

    address: str
    is_dial_up: bool = False


@attrs.frozen
class SendRequest:
    """Broadcast this datagram on this network."""

    network: BroadcastNetwork
    datagram: bytes


@attrs.frozen
class DiscoveryEnded:
    """Get Directory Server List is over.

    @ivar found: whether a server answered; the lists of the client are right then.
    """

    found: bool


DiscoveryEffect: TypeAlias = SendRequest | DiscoveryEnded


@attrs.define
class _Run:
    """[MS-MQSD] 3.1.1.2 what lives as long as one Get Directory Server List.

    @ivar index: CurrentNetworkIndex, from 1 (reading 2).
    @ivar stored: LastTopologyServerReply.
    @ivar latest: the latest reply of the run that was not discarded, whatever became of it (reading 4).
    @ivar deadline: when the Waiting for Response Timer expires.
    """

    networks: Sequence[BroadcastNetwork]
    request_id: UUID
    index: int = 0
    stored: TopologyServerReply | None = None
    latest: TopologyServerReply | None = None
    is_answered: bool = False
    deadline: float = 0.0

    @property
    def network(self) -> BroadcastNetwork:
        """The one that was asked last."""
        return self.networks[self.index - 1]

    @property
    def is_last(self) -> bool:
        """Whether there is none after it."""
        return self.index == len(self.networks)


class DiscoveryClient:
    """[MS-MQSD] 3.1: the directory service discovery client; one in a queue manager.

    Every call answers with effects, to be performed in their order.

    The protocol has no security: any host that receives a request can answer it ([MS-MQSD] 5.1).

    @ivar enterprise: Enterprise.Identifier.
    @ivar site: Site.Identifier; the null GUID for a client without a site.
    @ivar directory_servers: DirectoryServerList, computer names.
    @ivar connected_networks: ConnectedNetworkIdentifierList.
    @ivar last_successful_address: LastSuccessfulNetworkAddress; C{None} while it is not valid.
    @ivar discarded: replies that counted for nothing.
    """

    def __init__(
        self,
        enterprise: UUID,
        site: UUID,
        *,
        directory_servers: Sequence[str] = (),
        connected_networks: Sequence[UUID] = (),
        keeps_networks: bool = True,
    ) -> None:
        """Begin with what is configured.

        @param keeps_networks: the connected networks of a reply that is not stored any more still count
            (reading 5); taken literally, the document discards them.
        """
        self.enterprise = enterprise
        self.site = site
        self.directory_servers = tuple(directory_servers)
        self.connected_networks = tuple(connected_networks)
        self.last_successful_address: str | None = None
        self.discarded = 0
        self._keeps_networks = keeps_networks
        self._run: _Run | None = None

    @property
    def is_running(self) -> bool:
        """Whether a run is in progress."""
        return self._run is not None

    @property
    def deadline(self) -> float | None:
        """The monotonic second at which L{expire} is due; C{None} while there is none."""
        return None if self._run is None else self._run.deadline

    def get_directory_server_list(
        self, networks: Sequence[BroadcastNetwork], request_id: UUID, now: Moment
    ) -> list[DiscoveryEffect]:
        """[MS-MQSD] 3.1.4.1 Get Directory Server List.

        While a run is in progress this has no effect: the caller waits for its end (reading 31).

        @param networks: all that this host is attached to, now; each once.
        @param request_id: RequestID, new for each run.
        """
        if self._run is not None:
            return []
        if self.last_successful_address is not None and not any(network.is_dial_up for network in networks):
            return [DiscoveryEnded(True)]
        if not networks:
            return self._fail()
        self._run = _Run(tuple(networks), request_id)
        return self._send(self._run, now)

    def receive(self, datagram: bytes, address: str, now: Moment) -> list[DiscoveryEffect]:
        """[MS-MQSD] 3.1.5.2 Receiving a TopologyServerReply.

        A reply that is late, malformed or to another request is discarded and changes nothing.

        @param address: the L{BroadcastNetwork.address} at which it arrived.
        """
        run = self._run
        reply = self._accepted(run, datagram, address)
        if run is None or reply is None:
            self.discarded += 1
            return []
        is_last, is_stored, lists_servers = run.is_last, run.stored is not None, bool(reply.servers)
        run.latest = reply
        if lists_servers and not is_stored:
            # The first reply of another site; one of the own site may still come from this network.
            run.stored = reply
            run.is_answered = True
            self.last_successful_address = address
            run.deadline = now.monotonic + RESPONSE_TIME
            return []
        if is_last:
            self.last_successful_address = address
            return self._succeed(run)
        if not lists_servers:
            run.stored = reply
            run.is_answered = True
            self.last_successful_address = address
        return self._send(run, now)

    def expire(self, now: Moment) -> list[DiscoveryEffect]:
        """[MS-MQSD] 3.1.6.1 No Server Response Event, if it is due."""
        run = self._run
        if run is None or now.monotonic < run.deadline:
            return []
        if not run.is_last:
            return self._send(run, now)
        if run.stored is not None or run.is_answered:
            return self._succeed(run)
        return self._fail()

    def forget(self) -> None:
        """Let the next L{get_directory_server_list} ask again, though one has succeeded (reading 10)."""
        self.last_successful_address = None

    def cancel(self) -> None:
        """End a run without a result; what still comes is discarded."""
        self._run = None

    def _accepted(self, run: _Run | None, datagram: bytes, address: str) -> TopologyServerReply | None:
        if run is None or address != run.network.address:
            return None
        try:
            reply = TopologyServerReply.from_bytes(datagram)
        except RemoteProtocolError:
            return None
        return reply if reply.correlation_id == run.request_id else None

    def _send(self, run: _Run, now: Moment) -> list[DiscoveryEffect]:
        """[MS-MQSD] 3.1.5.1 Sending a TopologyClientRequest, on the next network."""
        run.index += 1
        run.stored = None
        run.deadline = now.monotonic + RESPONSE_TIME
        request = TopologyClientRequest(self.enterprise, run.request_id, self.site)
        return [SendRequest(run.network, request.to_bytes())]

    def _succeed(self, run: _Run) -> list[DiscoveryEffect]:
        """[MS-MQSD] 3.1.7.1 and 3.1.7.2: take over what the replies say, and complete.

        Without a stored reply that lists servers, those that are configured stay (readings 5 and 6).
        """
        self._run = None
        if run.stored is not None and run.stored.servers:
            self.directory_servers = tuple(server.name for server in run.stored.servers)
        told = run.stored or (run.latest if self._keeps_networks else None)
        self.connected_networks = () if told is None else told.connected_networks
        return [DiscoveryEnded(True)]

    def _fail(self) -> list[DiscoveryEffect]:
        self._run = None
        self.last_successful_address = None
        return [DiscoveryEnded(False)]
