"""Directory service discovery client: finds directory servers by broadcast. [MS-MQSD] 3.1.

The state is that of 3.1.1.1 and 3.1.1.2, initialized as in 3.1.3.

One run sends the same request to one network after the other, and waits up to 15 seconds for replies on each.
A server of the client's own site lists no servers: the client's configured list is right.
A server of another site lists the servers of that site, and the client adopts them.

The effect of a reply depends on three facts at its arrival: whether its network is the last one, whether a
reply of another site is stored, and whether the new reply lists servers (readings 3 to 9).
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
"""Waiting for Response Timer, in seconds. [MS-MQSD] 3.1.2.1."""


@attrs.frozen
class BroadcastNetwork:
    """Network on which requests are broadcast. [MS-MQSD] 3.1.1.2 NetworkAddressList.

    @ivar address: the IP address of this host on the network, the source address of requests.
    @ivar is_dial_up: a dial-up (RAS) network, for which the result of an earlier run does not count.
    """

    address: str
    is_dial_up: bool = False


@attrs.frozen
class SendRequest:
    """Effect: broadcast this datagram on this network."""

    network: BroadcastNetwork
    datagram: bytes


@attrs.frozen
class DiscoveryEnded:
    """Effect: Get Directory Server List has ended.

    @ivar found: whether a server answered; if so, the lists of the client are valid.
    """

    found: bool


DiscoveryEffect: TypeAlias = SendRequest | DiscoveryEnded


@attrs.define
class _Run:
    """State of one run of Get Directory Server List. [MS-MQSD] 3.1.1.2.

    @ivar index: CurrentNetworkIndex, from 1 (reading 2).
    @ivar stored: LastTopologyServerReply.
    @ivar latest: the latest reply of the run that was not discarded (reading 4).
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
        """The network of the last request."""
        return self.networks[self.index - 1]

    @property
    def is_last(self) -> bool:
        """Whether this is the last network of the run."""
        return self.index == len(self.networks)


class DiscoveryClient:
    """Directory service discovery client of a queue manager. [MS-MQSD] 3.1.

    Every call returns effects, which the caller performs in order.

    A reply that comes after discovery has ended is ignored ([MS-MQSD] 4).
    The protocol has no security: any host that receives a request can answer it ([MS-MQSD] 5.1).

    @ivar enterprise: Enterprise.Identifier.
    @ivar site: Site.Identifier; the null GUID for a client without a site.
    @ivar directory_servers: DirectoryServerList, computer names.
    @ivar connected_networks: ConnectedNetworkIdentifierList.
    @ivar last_successful_address: LastSuccessfulNetworkAddress; C{None} while it is not valid.
    @ivar discarded: number of discarded replies.
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
        """Initialize with the configured values. [MS-MQSD] 3.1.3.

        @param keeps_networks: keep the connected networks of a reply that is no longer stored (reading 5);
            read literally, the document discards them.
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
        """The monotonic second at which L{expire} is due; C{None} if no timer runs."""
        return None if self._run is None else self._run.deadline

    def get_directory_server_list(
        self, networks: Sequence[BroadcastNetwork], request_id: UUID, now: Moment
    ) -> list[DiscoveryEffect]:
        """Get Directory Server List. [MS-MQSD] 3.1.4.1.

        While a run is in progress this has no effect: the caller waits for its end (reading 31).

        @param networks: all networks that this host is attached to at present, without duplicates.
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
        """Receiving a TopologyServerReply. [MS-MQSD] 3.1.5.2.

        A late or malformed reply, or one to another request, is discarded without effect.

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
            # The first reply of another site; one of the own site may still arrive on this network.
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
        """No Server Response Event, if it is due. [MS-MQSD] 3.1.6.1."""
        run = self._run
        if run is None or now.monotonic < run.deadline:
            return []
        if not run.is_last:
            return self._send(run, now)
        if run.stored is not None or run.is_answered:
            return self._succeed(run)
        return self._fail()

    def forget(self) -> None:
        """Make the next L{get_directory_server_list} send requests again after a success (reading 10)."""
        self.last_successful_address = None

    def cancel(self) -> None:
        """End a run without a result; later replies are discarded."""
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
        """Sending a TopologyClientRequest, on the next network. [MS-MQSD] 3.1.5.1."""
        run.index += 1
        run.stored = None
        run.deadline = now.monotonic + RESPONSE_TIME
        request = TopologyClientRequest(self.enterprise, run.request_id, self.site)
        return [SendRequest(run.network, request.to_bytes())]

    def _succeed(self, run: _Run) -> list[DiscoveryEffect]:
        """Adopt the content of the replies, and complete. [MS-MQSD] 3.1.7.1 and 3.1.7.2.

        Without a stored reply that lists servers, the configured servers stay (readings 5 and 6).
        """
        self._run = None
        if run.stored is not None and run.stored.servers:
            self.directory_servers = tuple(server.name for server in run.stored.servers)
        reply = run.stored or (run.latest if self._keeps_networks else None)
        self.connected_networks = () if reply is None else reply.connected_networks
        return [DiscoveryEnded(True)]

    def _fail(self) -> list[DiscoveryEffect]:
        self._run = None
        self.last_successful_address = None
        return [DiscoveryEnded(False)]
