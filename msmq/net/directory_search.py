"""Search for directory servers by programs of users: one call. [MS-MQSD] 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import cast
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from msmq.discovery.client import DiscoveryClient
from msmq.errors import LocalProtocolError
from msmq.net.clock import SystemClock
from msmq.net.discovery import DISCOVERY_PORT, Discovery, DiscoveryReactor
from msmq.net.networks import AttachedNetwork, attached_networks
from msmq.net.reactors import running_reactor
from msmq.quoting import kind_of, quoted
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

_LARGEST_PORT = 65535


@attrs.frozen
class FoundDirectoryServers:
    """What directory servers have answered; unauthenticated claims, as the protocol has no security.

    @ivar servers: computer names of the directory servers of the site of the server that answered; empty if
        that is the site that was asked for, whose members are supposed to know them.
    @ivar connected_networks: identifiers of the networks to which the client is connected.
    @ivar address: the address of this host on whose network the answer came.
    """

    servers: Sequence[str]
    connected_networks: Sequence[UUID]
    address: str


def find_directory_servers(
    *,
    enterprise: UUID = NULL_GUID,
    site: UUID = NULL_GUID,
    address: str = "",
    port: int = DISCOVERY_PORT,
    reactor: IReactorTime | None = None,
) -> Deferred[FoundDirectoryServers]:
    """Find directory servers by broadcast on the networks of this host. [MS-MQSD] 3.1.4.1.

    Networks are searched one after the other, for up to 15 seconds each, or 30 if a server answers late.
    Cancelling the result ends the search.

    @param enterprise: Enterprise.Identifier in the request; the null GUID for any.
    @param site: Site.Identifier in the request: a server of that site lists no servers.
    @param address: an IPv4 address of this host, whose network alone is searched; empty for all networks
        but the loopback.
    @param port: the UDP port of the servers.
    @param reactor: an C{IReactorUDP}; by default the running one.
    @raise LocalProtocolError: an argument has another type or range.
    @return: fails with L{MQError}: MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE if no network can be searched, or
        the system does not list them, and MQ_ERROR_IO_TIMEOUT if no server has answered.
    """
    _check(enterprise, site, address, port)
    if reactor is not None and not callable(getattr(reactor, "listenUDP", None)):
        raise LocalProtocolError(f"reactor is {kind_of(reactor)}, not an IReactorUDP")
    chosen = running_reactor() if reactor is None else reactor
    return Deferred.fromCoroutine(_find(DiscoveryClient(enterprise, site), address, port, chosen))


async def _find(
    client: DiscoveryClient, address: str, port: int, reactor: IReactorTime
) -> FoundDirectoryServers:
    try:
        networks = attached_networks(address)
    except OSError as error:
        raise MQError(
            Status.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE,
            f"no network can be searched: the system does not list them: {error}",
        ) from error
    if not networks:
        where = f"{address} is not an address of this host" if address else "this host has none"
        raise MQError(Status.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE, f"no network can be searched: {where}")
    if not await _is_found(client, networks, port, reactor):
        raise MQError(Status.MQ_ERROR_IO_TIMEOUT, "no directory server answered")
    return FoundDirectoryServers(
        client.directory_servers, tuple(client.connected_networks), client.last_successful_address or address
    )


def _is_found(
    client: DiscoveryClient, networks: Sequence[AttachedNetwork], port: int, reactor: IReactorTime
) -> Deferred[bool]:
    discovery = Discovery(
        client,
        reactor=cast(DiscoveryReactor, reactor),
        clock=SystemClock(),
        port=port,
        networks=lambda: networks,
    )
    return discovery.get_directory_server_list()


def _check(enterprise: UUID, site: UUID, address: str, port: int) -> None:
    for name, value in (("enterprise", enterprise), ("site", site)):
        if not isinstance(value, UUID):
            raise LocalProtocolError(f"{name} is {kind_of(value)}, not a UUID")
    if not isinstance(address, str):
        raise LocalProtocolError(f"address is {kind_of(address)}, not a str")
    if address:
        try:
            IPv4Address(address)
        except ValueError:
            raise LocalProtocolError(f"address {quoted(address)} is not an IPv4 address") from None
    if type(port) is not int:
        raise LocalProtocolError(f"port is {kind_of(port)}, not an int")
    if not 0 < port <= _LARGEST_PORT:
        raise LocalProtocolError(f"port {port} is not in 1 to {_LARGEST_PORT}")
