"""Resolves a computer name or an address to endpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from uuid import UUID

import attrs
from twisted.internet.address import IPv4Address as TwistedIPv4Address
from twisted.internet.address import IPv6Address as TwistedIPv6Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.defer import TimeoutError as DeferredTimeoutError
from twisted.internet.endpoints import clientFromString
from twisted.internet.interfaces import (
    IAddress,
    IHostnameResolver,
    IHostResolution,
    IReactorTime,
    IResolutionReceiver,
    IStreamClientEndpoint,
)
from zope.interface import implementer

from msmq.interfaces.security.tls import ITls
from msmq.net.endpoints import socket_text, split_description
from msmq.net.hosts import HostEntry, HostTable, parse_address, parse_host_entry
from msmq.net.tls import TlsClient, TlsClientEndpoint, check_key_files, tcp_client
from msmq.structures.status import MQError, Status

_client_from_string: Callable[[IReactorTime, str], IStreamClientEndpoint] = clientFromString


class HostNotFound(MQError):
    """A computer name that neither C{[hosts]} nor the name service resolved in time."""

    def __init__(self, detail: str) -> None:
        super().__init__(Status.MQ_ERROR_MACHINE_NOT_FOUND, detail)


@attrs.frozen
class NextHopAddress:
    """Address at which a next hop may be reached. [MS-MQQB] 3.1.1.3.1.3 NextHop, 3.1.5.2.1.

    @ivar address: the IP address; for an endpoint of another kind its description.
    @ivar port: the TCP port; C{None} for an endpoint of another kind.
    @ivar endpoint: connects to it.
    @ivar bind_address: the address that connections leave from; C{None} lets the system choose.
    @ivar identifier: the expected queue manager; C{None} for a direct name, where any may answer.
    @ivar host_name: the name that was looked up; C{None} for an address without a name.
    """

    address: str
    port: int | None
    endpoint: IStreamClientEndpoint = attrs.field(repr=False, eq=False)
    bind_address: str | None = None
    identifier: UUID | None = None
    host_name: str | None = None

    def __str__(self) -> str:
        return self.address if self.port is None else socket_text(self.address, self.port)


@implementer(IResolutionReceiver)
@attrs.define
class _Answer:
    """Collects the addresses from the name service, up to a limit."""

    limit: int
    addresses: dict[str, None] = attrs.field(factory=dict)
    complete: Deferred[None] = attrs.field(factory=Deferred)
    _resolution: IHostResolution | None = None

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:
        self._resolution = resolutionInProgress

    def abandon(self) -> None:
        """Ignore further answers."""
        if self._resolution is not None:
            # Twisted's own resolver cannot cancel.
            with suppress(NotImplementedError):
                self._resolution.cancel()

    def addressResolved(self, address: IAddress) -> None:
        if isinstance(address, TwistedIPv6Address):
            scope = f"%{address.scopeID}" if address.scopeID else ""
            self._add(address.host.partition("%")[0] + scope)
        elif isinstance(address, TwistedIPv4Address):
            self._add(address.host)

    def resolutionComplete(self) -> None:
        if not self.complete.called:
            self.complete.callback(None)

    def _add(self, host: str) -> None:
        if len(self.addresses) < self.limit:
            self.addresses[host] = None
            if len(self.addresses) == self.limit:
                self.resolutionComplete()


def _unknown(name: str) -> str | None:
    """A resolver of addresses without a directory: it knows none."""
    return None


@attrs.define(eq=False)
class HostResolver:
    """Resolves a computer name or address, with C{[hosts]} first. [MS-MQQB] 3.1.5.2.1.

    @ivar reactor: connects, and schedules time-outs.
    @ivar name_resolver: the name service, usually C{reactor.nameResolver}.
    @ivar hosts: the C{[hosts]} table.
    @ivar bind_address: the one address that the session endpoint is bound to; connections to
        addresses of its family leave from there.  C{None} lets the system choose.
    @ivar port: the default TCP port.
    @ivar resolution_time: time-out of the name service in seconds.
    @ivar connect_time: time-out of one connection attempt in seconds.
    @ivar address_limit: limit on the addresses of one name.
    @ivar address_of: the address of a computer in the directory; looked up after C{[hosts]}, before the name
    service.
    @ivar tls: makes the TLS of C{[hosts]} entries that pin certificates.
    """

    reactor: IReactorTime
    name_resolver: IHostnameResolver
    hosts: HostTable = attrs.field(factory=lambda: HostTable({}))
    bind_address: str | None = None
    port: int = 1801
    resolution_time: float = 10.0
    connect_time: float = 30.0
    address_limit: int = 16
    address_of: Callable[[str], str | None] = _unknown
    tls: ITls | None = None

    def configure(
        self, hosts: HostTable, *, resolution_time: float, connect_time: float, address_limit: int
    ) -> None:
        """Apply another C{[hosts]} table and other limits from the next lookup on."""
        self.hosts = hosts
        self.resolution_time = resolution_time
        self.connect_time = connect_time
        self.address_limit = address_limit

    async def resolve(self, name: str, port: int | None = None) -> Sequence[NextHopAddress]:
        """Resolve a name to endpoints; addresses of the family of our own endpoint come first.

        @param name: a computer name, or an IP address as a direct TCP name has it.
        @param port: the TCP port, if the name has one; C{[hosts]} overrides it.
        @raise HostNotFound: the name is unknown, or there was no answer in time.
        """
        entry = self.hosts.find(name) or self._in_directory(name)
        if entry is not None:
            return (self._next_hop(name, entry, port),)
        address = parse_address(name)
        if address is not None:
            return (self._next_hop(name, HostEntry(str(address)), port),)
        return [self._next_hop(name, HostEntry(found), port) for found in await self._ask(name)]

    def _in_directory(self, name: str) -> HostEntry | None:
        text = self.address_of(name)
        if text is None:
            return None
        try:
            return parse_host_entry(text)
        except ValueError as error:
            raise HostNotFound(f"{name}: the address that the directory has {error}") from error

    async def _ask(self, name: str) -> Iterable[str]:
        answer = _Answer(self.address_limit)
        try:
            self.name_resolver.resolveHostName(
                answer, name, addressTypes=[TwistedIPv4Address, TwistedIPv6Address]
            )
            await answer.complete.addTimeout(self.resolution_time, self.reactor)
        except CancelledError:
            answer.abandon()
            raise
        except DeferredTimeoutError:
            answer.abandon()
            if not answer.addresses:
                raise HostNotFound(
                    f"{name}: the name service gave no answer in {self.resolution_time:g} s"
                ) from None
        except (UnicodeError, ValueError, OSError) as error:
            raise HostNotFound(f"{name}: not a computer name that can be looked up ({error})") from error
        if not answer.addresses:
            raise HostNotFound(f"{name}: neither [hosts] nor the name service knows this computer")
        ours = parse_address(self.bind_address) if self.bind_address is not None else None
        return sorted(answer.addresses, key=lambda found: ours is not None and not _alike(ours, found))

    def _next_hop(self, name: str, entry: HostEntry, port: int | None) -> NextHopAddress:
        if entry.tls is not None:
            return self._encrypted(name, entry.tls)
        if entry.address is None:
            description = str(entry.description)
            try:
                check_key_files(split_description(description)[1])
                endpoint = _client_from_string(self.reactor, description)
            # OpenSSL and pyOpenSSL have errors of their own for the contents of files.
            except Exception as error:
                raise HostNotFound(f"{name}: [hosts] says {description}, which fails: {error}") from error
            return NextHopAddress(description, None, endpoint, host_name=name)
        target = parse_address(entry.address)
        bind = self._leaves_from(target)
        port = entry.port or port or self.port
        version = 6 if target is None else target.version
        endpoint = tcp_client(self.reactor, entry.address, port, version, self.connect_time, bind)
        return NextHopAddress(entry.address, port, endpoint, bind, host_name=name)

    def _encrypted(self, name: str, client: TlsClient) -> NextHopAddress:
        if self.tls is None:
            raise HostNotFound(f"{name}: [hosts] demands TLS, which is not configured")
        target = parse_address(client.host)
        bind = client.bind_address or self._leaves_from(target)
        version = None if target is None else target.version
        tcp = tcp_client(self.reactor, client.host, client.port, version, self.connect_time, bind)
        endpoint = TlsClientEndpoint(self.reactor, self.tls, client, tcp)
        return NextHopAddress(client.host, client.port, endpoint, bind, host_name=name)

    def _leaves_from(self, target: IPv4Address | IPv6Address | None) -> str | None:
        """The source address of a connection to this address."""
        bind = self.bind_address
        return bind if bind is not None and target is not None and _alike(target, bind) else None


def _alike(address: IPv4Address | IPv6Address, text: str) -> bool:
    """Whether two addresses are of one family."""
    other = parse_address(text)
    return other is not None and other.version == address.version
