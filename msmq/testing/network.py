"""In-memory network for tests: hosts, streams, datagrams, and their faults.

Only the clock of the test moves data, and randomness is seeded, so runs are reproducible.
A host takes the place of a Twisted reactor (C{callLater}, C{listenUDP}) and creates endpoints::

    clock = ManualClock()
    network = Network(clock.reactor, conditions=Conditions(delay=0.01, largest_chunk=700))
    alpha, beta = network.host("10.0.0.1"), network.host("10.0.0.2")
    beta.server_endpoint(1801).listen(factory)
    alpha.client_endpoint("10.0.0.2", 1801).connect(other_factory)
    clock.advance(1)
    network.partition("10.0.0.1", "10.0.0.2")
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Literal

import attrs
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import (
    CannotListenError,
    ConnectionRefusedError,
    InvalidAddressError,
    MessageLengthError,
    TimeoutError,
)
from twisted.internet.interfaces import (
    IDelayedCall,
    IListeningPort,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IReactorUDP,
    IStreamClientEndpoint,
    IStreamServerEndpoint,
    IUDPTransport,
)
from twisted.internet.protocol import DatagramProtocol, Protocol
from zope.interface import implementer

from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of, quoted
from msmq.testing.streams import PERFECT, Conditions, Link
from msmq.wire.addresses import cached_address, read_address

CONNECT_TIMEOUT = 30.0
"""Seconds after which a connection to an unreachable host fails."""
LARGEST_DATAGRAM = 65507
"""Bytes that fit one UDP datagram."""
FIRST_EPHEMERAL_PORT = 49152


@attrs.frozen
class Datagram:
    """One datagram that was sent.

    @ivar sent: the second at which it was sent.
    @ivar copies: the number of arrivals at the destination's address: 0 if it was lost.
    """

    source: tuple[str, int]
    destination: tuple[str, int]
    payload: bytes
    sent: float
    copies: int


def _address(kind: Literal["TCP", "UDP"], host: str, port: int) -> IPv4Address | IPv6Address:
    if cached_address(host).version == 6:
        return IPv6Address(kind, host, port)
    return IPv4Address(kind, host, port)


def _pair(one: str, other: str) -> frozenset[str]:
    return frozenset((cached_address(one).compressed, cached_address(other).compressed))


def _is_any(interface: str) -> bool:
    return interface in ("", "0.0.0.0", "::")


class Network:
    """All hosts, and the paths between them.

    @param clock: the time; C{task.Clock}, or that of a test's clock.
    @param conditions: conditions of every path without specific ones (L{set_conditions}).
    @param seed: the seed of randomness.
    @ivar datagrams: every datagram that was sent, in order.
    @ivar links: every connection that was made, in order.
    """

    def __init__(self, clock: IReactorTime, *, conditions: Conditions = PERFECT, seed: int = 0) -> None:
        self.clock = clock
        self._conditions = conditions
        self._particular: dict[frozenset[str], Conditions] = {}
        self._chance = random.Random(seed)
        self._hosts: dict[str, MemoryHost] = {}
        self._partitions: set[frozenset[str]] = set()
        self._link_ends: list[tuple[frozenset[str], Link]] = []
        self.datagrams: list[Datagram] = []

    @property
    def links(self) -> list[Link]:
        """Every connection that was made, in order."""
        return [link for _, link in self._link_ends]

    def host(self, address: str) -> MemoryHost:
        """The host with this IP address; the same one each time.

        @raise LocalProtocolError: C{address} is not an IP address.
        """
        given: object = address
        if not isinstance(given, str) or read_address(given) is None:
            words = quoted(given) if isinstance(given, str) else kind_of(given)
            raise LocalProtocolError(
                f"Network: the address of a host is {words}; it has to be an IP address as text, such as"
                " 10.0.0.1"
            )
        address = cached_address(address).compressed
        host = self._hosts.get(address)
        if host is None:
            host = self._hosts[address] = MemoryHost(self, address)
        return host

    def conditions(self, one: str, other: str) -> Conditions:
        """The conditions of the path between two hosts from now on."""
        return self._particular.get(_pair(one, other), self._conditions)

    def set_conditions(self, one: str, other: str, conditions: Conditions) -> None:
        """Set the conditions of the path between two hosts; existing streams are not affected."""
        self._particular[_pair(one, other)] = conditions

    def connect(
        self, initiator: IProtocol, acceptor: IProtocol, *, conditions: Conditions | None = None
    ) -> Link:
        """Connect two protocols without hosts."""
        link = Link(
            self.clock,
            initiator,
            acceptor,
            conditions=self._conditions if conditions is None else conditions,
            chance=self._chance,
        )
        self._link_ends.append((frozenset(), link))
        return link

    def partition(self, one: str, other: str) -> None:
        """Drop everything between two hosts, without notice to either.

        Streams stall, datagrams vanish, and new connections time out.
        """
        pair = _pair(one, other)
        self._partitions.add(pair)
        for link in self._links_between(pair):
            link.stall()

    def heal(self, one: str, other: str) -> None:
        """End a partition; streams that both ends still have go on where they were."""
        pair = _pair(one, other)
        self._partitions.discard(pair)
        for link in self._links_between(pair):
            link.resume()

    def cut(self, one: str, other: str) -> None:
        """Lose every connection between two hosts at once, at both ends."""
        for link in self._links_between(_pair(one, other)):
            link.cut()

    def crash(self, address: str) -> None:
        """A host loses power: its ports are closed, its connections lost, and its protocols not called again.

        Its scheduled calls are dropped.
        """
        address = cached_address(address).compressed
        host = self._hosts.pop(address)
        for pair, link in self._link_ends:
            if address in pair:
                # This includes connections that the other end has closed, before this end is notified.
                for end in (link.initiator, link.acceptor):
                    if end.getHost().host == address:
                        end.protocol = None
                if link.initiator.connected or link.acceptor.connected:
                    link.cut()
        host.forget()

    def _links_between(self, pair: frozenset[str]) -> Iterator[Link]:
        return (link for ends, link in self._link_ends if ends == pair and link.is_connected)

    def is_partitioned(self, one: str, other: str) -> bool:
        """Whether these two hosts are partitioned."""
        return _pair(one, other) in self._partitions

    def dial(self, source: str, target: str, port: int, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect from one host to a port of another; what L{MemoryHost.client_endpoint} does."""
        calls: list[IDelayedCall] = []
        answer: Deferred[IProtocol] = Deferred(lambda _: calls[-1].cancel())
        host = self.host(source)

        def give_up() -> None:
            if not host.is_dead:
                answer.errback(TimeoutError())

        def arrive() -> None:
            if host.is_dead:
                return
            if self.is_partitioned(source, target):
                calls.append(self.clock.callLater(CONNECT_TIMEOUT, give_up))
                return
            link = self._open(source, target, port, factory)
            if link is None or link.initiator.protocol is None:
                answer.errback(ConnectionRefusedError())
            else:
                answer.callback(link.initiator.protocol)

        calls.append(self.clock.callLater(2 * self.conditions(source, target).delay, arrive))
        return answer

    def _open(self, source: str, target: str, port: int, factory: IProtocolFactory) -> Link | None:
        listening = self._hosts[target].stream_listener(port) if target in self._hosts else None
        if listening is None:
            return None
        near = _address("TCP", source, self.host(source).ephemeral_port())
        far = _address("TCP", target, port)
        dialled = factory.buildProtocol(far)
        if dialled is None:
            return None
        accepted = listening.buildProtocol(near)
        link = Link(
            self.clock,
            dialled,
            Protocol() if accepted is None else accepted,
            conditions=self.conditions(source, target),
            chance=self._chance,
            addresses=(near, far),
        )
        self._link_ends.append((_pair(source, target), link))
        if accepted is None:
            # As on a real host, the connection is established before the factory is called.
            link.acceptor.loseConnection()
        return link

    def send(self, source: tuple[str, int], destination: tuple[str, int], payload: bytes) -> None:
        """Send a datagram; what the transports of L{MemoryHost.listenUDP} do."""
        conditions = self.conditions(source[0], destination[0])
        if self.is_partitioned(source[0], destination[0]) or self._chance.random() < conditions.loss:
            copies = 0
        else:
            copies = 1 + (self._chance.random() < conditions.duplication)
        self.datagrams.append(Datagram(source, destination, payload, self.clock.seconds(), copies))
        for _ in range(copies):
            delay = conditions.delay + self._chance.uniform(0, conditions.jitter)
            self.clock.callLater(delay, self._arrive, source, destination, payload)

    def _arrive(self, source: tuple[str, int], destination: tuple[str, int], payload: bytes) -> None:
        host = self._hosts.get(destination[0])
        port = None if host is None else host.datagram_port(destination[1])
        if port is not None:
            port.protocol.datagramReceived(payload[: port.largest], source)
        for other in list(self._hosts.values()):
            if not self.is_partitioned(source[0], other.address):
                for listener in other.listeners(destination):
                    listener.datagramReceived(payload, source)


@implementer(IReactorUDP, IReactorTime)
class MemoryHost:
    """One host of the network.

    It provides what a reactor does for time and datagrams, and endpoints for streams.

    @ivar address: its IP address.
    @ivar is_dead: it has lost power; the host that has its address later is another one.
    """

    def __init__(self, network: Network, address: str) -> None:
        self._network = network
        self._streams: dict[int, IProtocolFactory] = {}
        self._datagrams: dict[int, _DatagramPort] = {}
        self._listeners: dict[tuple[str, int], list[DatagramProtocol]] = {}
        self._next_port = FIRST_EPHEMERAL_PORT
        self.is_dead = False
        self.address = address

    def seconds(self) -> float:
        """The time of the network's clock."""
        return self._network.clock.seconds()

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kwargs: object
    ) -> IDelayedCall:
        """Call at a later time of the network's clock, unless the host has lost its power by then."""

        def call() -> None:
            if not self.is_dead:
                callable(*args, **kwargs)

        return self._network.clock.callLater(delay, call)

    def getDelayedCalls(self) -> list[IDelayedCall]:
        """The scheduled calls of the whole network."""
        return list(self._network.clock.getDelayedCalls())

    def server_endpoint(self, port: int) -> IStreamServerEndpoint:
        """Accepts connections to a port of this host."""
        return _ServerEndpoint(self, port)

    def client_endpoint(self, address: str, port: int) -> IStreamClientEndpoint:
        """Connects from this host to a port of another."""
        return _ClientEndpoint(self._network, self, cached_address(address).compressed, port)

    def listenUDP(
        self, port: int, protocol: DatagramProtocol, interface: str = "", maxPacketSize: int = 8192
    ) -> IListeningPort:
        """Open a socket for datagrams; the port 0 takes any that is free."""
        if not _is_any(interface) and cached_address(interface).compressed != self.address:
            raise CannotListenError(interface, port, OSError(99, "no address of this host"))
        port = port or self.ephemeral_port()
        if port in self._datagrams:
            raise CannotListenError(interface, port, OSError(98, "address already in use"))
        transport = _DatagramPort(self, port, protocol, maxPacketSize)
        self._datagrams[port] = transport
        protocol.makeConnection(transport)
        return transport

    def listenMulticast(
        self, port: int, protocol: DatagramProtocol, interface: str, *, listenMultiple: bool = False
    ) -> IListeningPort:
        """Receive datagrams to a port of a broadcast address, as any number of sockets may."""
        self._listeners.setdefault((cached_address(interface).compressed, port), []).append(protocol)
        return _DatagramListener(self, interface, port, protocol)

    def listeners(self, destination: tuple[str, int]) -> list[DatagramProtocol]:
        """The receivers of a broadcast address."""
        return list(self._listeners.get(destination, ()))

    def close_listener(self, address: str, port: int, protocol: DatagramProtocol) -> None:
        """Stop receiving there."""
        listeners = self._listeners.get((cached_address(address).compressed, port), [])
        if protocol in listeners:
            listeners.remove(protocol)

    def ephemeral_port(self) -> int:
        """A free port."""
        self._next_port += 1
        return self._next_port - 1

    def stream_listener(self, port: int) -> IProtocolFactory | None:
        """The host that accepts connections to C{port}."""
        return self._streams.get(port)

    def datagram_port(self, port: int) -> _DatagramPort | None:
        """The open socket for datagrams on C{port}."""
        return self._datagrams.get(port)

    def send(self, port: int, destination: tuple[str, int], payload: bytes) -> None:
        """Send a datagram from a port of this host."""
        self._network.send((self.address, port), destination, payload)

    def open_stream_port(self, port: int, factory: IProtocolFactory) -> None:
        """Accept connections."""
        if port in self._streams:
            raise CannotListenError(self.address, port, OSError(98, "address already in use"))
        self._streams[port] = factory
        factory.doStart()

    def close_stream_port(self, port: int) -> None:
        """Stop accepting connections."""
        self._streams.pop(port).doStop()

    def close_datagram_port(self, port: int) -> None:
        """Close a socket for datagrams."""
        self._datagrams.pop(port).protocol.doStop()

    def forget(self) -> None:
        """Close every port without notifying peers; scheduled calls never run."""
        self.is_dead = True
        self._streams.clear()
        self._datagrams.clear()
        self._listeners.clear()


@implementer(IListeningPort, IUDPTransport)
class _DatagramPort:
    def __init__(self, host: MemoryHost, port: int, protocol: DatagramProtocol, largest: int) -> None:
        self._host = host
        self._port = port
        self._is_broadcast_allowed = False
        self._connected_to: tuple[str, int] | None = None
        self.protocol = protocol
        self.largest = largest

    def write(self, packet: bytes, addr: tuple[str, int] | None = None) -> None:
        destination = self._connected_to or addr
        assert destination is not None, "a transport that is not connected needs an address"
        try:
            version = cached_address(destination[0]).version
        except ValueError as error:
            raise InvalidAddressError(destination[0], "no IP address") from error
        if version != cached_address(self._host.address).version:
            raise InvalidAddressError(destination[0], "an address of the other family")
        if len(packet) > LARGEST_DATAGRAM:
            raise MessageLengthError("message too long")
        if destination[0].endswith(".255") and not self._is_broadcast_allowed:
            raise PermissionError(13, "a socket has to be allowed to broadcast")
        self._host.send(self._port, destination, bytes(packet))

    def connect(self, host: str, port: int) -> None:
        self._connected_to = host, port

    def getHost(self) -> IPv4Address | IPv6Address:
        return _address("UDP", self._host.address, self._port)

    def startListening(self) -> None:
        """It listens from the beginning."""

    def stopListening(self) -> Deferred[None]:
        if self._host.datagram_port(self._port) is self:
            self._host.close_datagram_port(self._port)
        return succeed(None)

    def setBroadcastAllowed(self, enabled: bool) -> None:
        self._is_broadcast_allowed = enabled

    def getBroadcastAllowed(self) -> bool:
        return self._is_broadcast_allowed


@implementer(IListeningPort)
@attrs.frozen
class _DatagramListener:
    _host: MemoryHost
    _address: str
    _port: int
    _protocol: DatagramProtocol

    def getHost(self) -> IPv4Address | IPv6Address:
        return _address("UDP", self._address, self._port)

    def startListening(self) -> None:
        """It listens from the beginning."""

    def stopListening(self) -> Deferred[None]:
        self._host.close_listener(self._address, self._port, self._protocol)
        return succeed(None)


@implementer(IListeningPort)
@attrs.frozen
class _StreamPort:
    _host: MemoryHost
    _port: int
    _factory: IProtocolFactory

    def startListening(self) -> None:
        """It listens from the beginning."""

    def stopListening(self) -> Deferred[None]:
        if self._host.stream_listener(self._port) is self._factory:
            self._host.close_stream_port(self._port)
        return succeed(None)

    def getHost(self) -> IPv4Address | IPv6Address:
        return _address("TCP", self._host.address, self._port)


@implementer(IStreamServerEndpoint)
@attrs.frozen
class _ServerEndpoint:
    _host: MemoryHost
    _port: int

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        try:
            self._host.open_stream_port(self._port, protocolFactory)
        except CannotListenError as error:
            return fail(error)
        return succeed(_StreamPort(self._host, self._port, protocolFactory))


@implementer(IStreamClientEndpoint)
@attrs.frozen
class _ClientEndpoint:
    _network: Network
    _source: MemoryHost
    _target: str
    _port: int

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        if self._source.is_dead:
            # Another host may have its address by now.
            return Deferred()
        return self._network.dial(self._source.address, self._target, self._port, protocolFactory)
