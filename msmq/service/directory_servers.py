"""Directory discovery in a server: finds directory servers, and answers requests. [MS-MQSD] 3.1 and 3.2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast
from uuid import UUID, uuid4

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from msmq.discovery.client import DiscoveryClient
from msmq.discovery.server import DiscoveryServer
from msmq.interfaces.clock import IClock
from msmq.manager.membership.membership import Membership
from msmq.net.discovery import DISCOVERY_PORT, Discovery, DiscoveryReactor, DiscoveryServerProtocol
from msmq.net.endpoints import WILDCARDS
from msmq.net.networks import attached_networks
from msmq.service.settings import Configuration, QueueManagerSettings
from msmq.wire.addresses import is_loopback
from msmq.wire.guid import NULL_GUID


class DirectorySearch:
    """Discovers the servers of a directory that is configured without any, before its first use.

    The networks are those of the IPv4 address on which discovery listens, or else sessions; otherwise all.

    @ivar found: the names that were reported last.
    @ivar request: the RequestID of the latest run.
    """

    def __init__(self, configuration: Configuration, reactor: IReactorTime, clock: IClock) -> None:
        listen = configuration.listen
        address, port = "", DISCOVERY_PORT
        if listen.discovery is not None:
            address, port = listen.discovery.interface, listen.discovery.port or port
        elif listen.session is not None:
            address = listen.session.bind_address or ""
        if ":" in address or address in WILDCARDS:
            # Broadcasts exist in IPv4 only, also for a server whose sessions use IPv6.
            address = "127.0.0.1" if is_loopback(address) else ""
        # Servers of our own site return an empty list, since its members should know them; we do not.
        self._client = DiscoveryClient(configuration.queue_manager.enterprise or NULL_GUID, NULL_GUID)
        self._discovery = Discovery(
            self._client,
            reactor=cast(DiscoveryReactor, reactor),
            clock=clock,
            port=port,
            networks=lambda: attached_networks(address),
            new_identifier=self._new_request,
        )
        self.found: Sequence[str] = ()
        self.request: UUID | None = None

    async def find(self) -> Sequence[str]:
        """Get Directory Server List, whether one was found before or not. [MS-MQSD] 3.1.4.1."""
        if not self._client.is_running:
            self._client.forget()
        if await self._discovery.get_directory_server_list():
            self.found = self._client.directory_servers
        return self.found

    def stop(self) -> Deferred[None]:
        """Stop the discovery."""
        return self._discovery.stop()

    def _new_request(self) -> UUID:
        self.request = uuid4()
        return self.request


class DirectoryServerProtocol(DiscoveryServerProtocol):
    """Answers with the current enterprise, site and servers of the directory. [MS-MQSD] 3.2.

    What the directory does not hold comes from the configuration; without a directory the server lists itself
    (reading 22).
    """

    def __init__(
        self,
        settings: QueueManagerSettings,
        reactor: IReactorTime,
        membership: Callable[[], Membership | None],
        search: DirectorySearch,
    ) -> None:
        server = DiscoveryServer(
            settings.enterprise or NULL_GUID,
            settings.sites[0] if settings.sites else NULL_GUID,
            settings.name,
            connected_networks=settings.connected_networks,
        )
        super().__init__(server, cast(DiscoveryReactor, reactor))
        self._membership = membership
        self._search = search

    def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
        """Answer one request from the current data."""
        server = self.server
        server.own_request = self._search.request
        known = self._membership()
        if known is not None:
            server.enterprise = known.enterprise or server.enterprise
            server.site = known.sites[0] if known.sites else server.site
            server.connected_networks = tuple(known.connected_networks) or server.connected_networks
            server.directory_servers = tuple(known.directory_servers)
        super().datagramReceived(datagram, addr)
