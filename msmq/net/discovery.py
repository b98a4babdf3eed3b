"""Directory discovery over UDP, both sides: thin callers of the two cores in msmq.discovery. [MS-MQSD] 2.1.

On Linux a socket that is bound to one address receives no broadcasts.
A server therefore has two: one on its own address, from which it answers, and one on the broadcast
address of its network, which it shares with other servers on the same machine.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, Protocol

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, gatherResults, maybeDeferred, succeed
from twisted.internet.error import CannotListenError, MessageLengthError
from twisted.internet.interfaces import IDelayedCall, IListeningPort
from twisted.internet.protocol import DatagramProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.discovery.client import (
    BroadcastNetwork,
    DiscoveryClient,
    DiscoveryEffect,
    DiscoveryEnded,
    SendRequest,
)
from msmq.discovery.server import LARGEST_REPLY, DiscoveryServer, Unanswered
from msmq.interfaces.clock import IClock
from msmq.line_limit import LineLimit
from msmq.net.clock import SystemClock
from msmq.net.networks import AttachedNetwork, attached_networks
from msmq.session.host_rates import HostRates
from msmq.token_bucket import TokenBucket

DISCOVERY_PORT = 1801
"""The registered UDP port. [MS-MQSD] 1.9."""

LINES: Final = 4
"""Lines of the log in a minute about datagrams of one kind; the counters of the core include all of them."""

ANSWERS_PER_SECOND = 100
"""Requests that a server answers in a second, and the burst after an idle period.

Its reply is longer than the request and goes to the source address of the request, which can be forged.
"""

ANSWERS_PER_HOST = 10
"""The same for the requests of one host; a client sends one in 15 seconds ([MS-MQSD] 3.1.2.1)."""

HOSTS_REMEMBERED = 1024
"""Limit on hosts with a recorded rate; the least recent one is dropped first."""

_NO_NETWORK_ERRORS: Final = frozenset({errno.EACCES, errno.EINVAL, errno.EPERM})
"""Errors about a destination, such as a broadcast address in a forged source, or a rule of a firewall."""


class DiscoveryReactor(Protocol):
    """The part of a reactor that discovery uses, or of a host of L{msmq.testing.network}."""

    def callLater(
        self, delay: float, callable: Callable[..., object], *args: object, **kwargs: object
    ) -> IDelayedCall:
        """As C{IReactorTime.callLater}."""

    def listenUDP(
        self, port: int, protocol: DatagramProtocol, interface: str, maxPacketSize: int = 8192
    ) -> IListeningPort:
        """As C{IReactorUDP.listenUDP}."""

    def listenMulticast(
        self, port: int, protocol: DatagramProtocol, interface: str, *, listenMultiple: bool
    ) -> IListeningPort:
        """As C{IReactorMulticast.listenMulticast}: a port that others may listen on as well."""


class DiscoveryServerProtocol(DatagramProtocol):
    """Answers requests for directory servers. [MS-MQSD] 3.2.

    Other datagrams are ignored.
    To watch, override the hooks L{request_answered} and L{request_unanswered}; what they raise is logged.

    @ivar server: the core, with its counters and its replies, which may be changed at any time.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        server: DiscoveryServer,
        reactor: DiscoveryReactor,
        *,
        clock: IClock | None = None,
        networks: Callable[[str], Sequence[AttachedNetwork]] = attached_networks,
    ) -> None:
        """Serve; L{listen} begins it.

        @param clock: for L{ANSWERS_PER_SECOND} and L{ANSWERS_PER_HOST}; by default the machine's.
        @param networks: the network of an address of this host, now.
        """
        self.server = server
        self._clock = SystemClock() if clock is None else clock
        self._rate = TokenBucket.full(ANSWERS_PER_SECOND, self._clock.now())
        self._rates = HostRates(ANSWERS_PER_HOST, HOSTS_REMEMBERED)
        self._networks = networks
        self._reactor = reactor
        self._listener: Callable[[], list[IListeningPort]] | None = None
        self._ports: list[IListeningPort] = []
        self._is_reopening = False
        self._ignored = LineLimit.a_minute(LINES)
        self._failed = LineLimit.a_minute(LINES)

    def request_answered(self, reply: bytes, address: tuple[str, int]) -> None:
        """Hook: a request was answered."""

    def request_unanswered(self, reason: Unanswered, address: tuple[str, int]) -> None:
        """Hook: a datagram was not answered; the reason is not sent."""

    def listen(self, port: int, interface: str = "") -> IListeningPort:
        """Listen on an address and on the broadcast address of its network. [MS-MQSD] 3.2.3.

        @param interface: an IPv4 address of this host; empty for all, on one socket.
        @return: the port of the first.
        @raise CannotListenError: it is taken, or the system does not list its networks.
        """

        def listener() -> list[IListeningPort]:
            opened = [self._reactor.listenUDP(port, self, interface)]
            if not interface:
                return opened
            host = opened[0].getHost()
            assert isinstance(host, IPv4Address), "discovery needs an IPv4 address"
            try:
                for attached in self._networks(interface):
                    if not attached.has_broadcasts:
                        continue
                    broadcasts = _BroadcastListener(self)
                    opened.append(
                        self._reactor.listenMulticast(
                            host.port, broadcasts, attached.broadcast, listenMultiple=True
                        )
                    )
            except (OSError, CannotListenError) as error:
                for each in opened:
                    maybeDeferred(each.stopListening).addErrback(self._not_closed)
                if isinstance(error, CannotListenError):
                    raise
                raise CannotListenError(interface, port, error) from error
            return opened

        self._listener = listener
        self._ports = listener()
        return self._ports[0]

    def stop(self) -> Deferred[None]:
        """Stop answering."""
        self._listener = None
        ports, self._ports = self._ports, []
        closing = gatherResults([maybeDeferred(port.stopListening) for port in ports])
        return closing.addCallback(lambda _: None)

    def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
        """Answer one request, to the address and port that it came from."""
        address = addr[0], addr[1]
        now = self._clock.now()
        of_host = self._rates.of(addr[0], now)
        if not of_host.has_one(now):
            self._pass_over(Unanswered.HOST_RATE, address)
            return
        if not self._rate.has_one(now):
            self._pass_over(Unanswered.RATE, address)
            return
        outcome = self.server.answer(datagram, address)
        if isinstance(outcome, Unanswered):
            omitted = self._ignored.take(now)
            if omitted is not None:
                self.log.debug(
                    "ignored a datagram from {address}: {why}{omitted}",
                    address=address,
                    why=outcome.value,
                    omitted=omitted,
                )
            self.request_unanswered(outcome, address)
            return
        if self.transport is None or self._is_reopening:
            return
        self._rate.take()
        of_host.take()
        try:
            self.transport.write(outcome, address)
        except (OSError, MessageLengthError) as error:
            omitted = self._failed.take(now)
            if omitted is not None:
                self.log.warn(
                    "cannot answer {address}: {error}{omitted}", address=address, error=error, omitted=omitted
                )
            if isinstance(error, OSError) and error.errno not in _NO_NETWORK_ERRORS:
                self._reopen()
            return
        self.request_answered(outcome, address)

    def _pass_over(self, reason: Unanswered, address: tuple[str, int]) -> None:
        """Count a request beyond a limit."""
        self.server.unanswered[reason] += 1
        self.request_unanswered(reason, address)

    def _reopen(self) -> None:
        """After a network error the sockets are closed and opened again. [MS-MQSD] 3.2.5.

        If they cannot be, the server stops.
        Until then no request is answered: another error would open them before they are closed.
        """
        listener = self._listener
        ports, self._ports = self._ports, []
        self._is_reopening = True
        closing = gatherResults([maybeDeferred(port.stopListening) for port in ports])

        def again(_: object) -> None:
            self._is_reopening = False
            if listener is not None and self._listener is listener:
                self._ports = listener()

        def gave_up(failure: Failure) -> None:
            self._is_reopening = False
            self._listener = None
            self.log.error(
                "discovery stopped: its sockets cannot be opened again: {error}", error=failure.value
            )

        closing.addCallback(again).addErrback(gave_up)

    def _not_closed(self, failure: Failure) -> None:
        self.log.warn("a socket could not be closed: {error}", error=failure.value)


class _BroadcastListener(DatagramProtocol):
    """Receives broadcasts for a server that answers from its own address."""

    noisy = False

    def __init__(self, server: DiscoveryServerProtocol) -> None:
        self._server = server

    def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
        self._server.datagramReceived(datagram, addr)


class Discovery:
    """Looks for directory servers on the networks of this host; one in a queue manager. [MS-MQSD] 3.1.

    @ivar client: the core; its lists are valid after a successful run.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        client: DiscoveryClient,
        *,
        reactor: DiscoveryReactor,
        clock: IClock,
        port: int = DISCOVERY_PORT,
        networks: Callable[[], Sequence[AttachedNetwork]] = attached_networks,
        new_identifier: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        """Create an idle client.

        @param port: the UDP port of the servers; all of a site have the same ([MS-MQSD] 1.5).
        @param networks: those of this host, now.
        """
        self.client = client
        self._reactor = reactor
        self._clock = clock
        self._port = port
        self._networks = networks
        self._new_identifier = new_identifier
        self._broadcasts: dict[BroadcastNetwork, str] = {}
        self._sockets: dict[BroadcastNetwork, tuple[DatagramProtocol, IListeningPort]] = {}
        self._waiting: list[Deferred[bool]] = []
        self._timer: IDelayedCall | None = None

    def get_directory_server_list(self) -> Deferred[bool]:
        """Run the discovery; the result is whether the lists of the client are valid. [MS-MQSD] 3.1.4.1.

        That takes up to 15 seconds for each network that is silent, and 30 where one server answers late.
        Concurrent callers share one run and its result; cancelling one does not affect the others.

        @return: fails with C{OSError} if the system does not list its networks.
        """
        done: Deferred[bool] = Deferred(self._cancelled)
        if self.client.is_running:
            self._waiting.append(done)
        else:
            try:
                attached = self._networks()
            except OSError as error:
                return fail(error)
            self._broadcasts = {each.network: each.broadcast for each in attached}
            self._waiting.append(done)
            self._perform(
                self.client.get_directory_server_list(
                    tuple(self._broadcasts), self._new_identifier(), self._clock.now()
                )
            )
        return done

    def stop(self) -> Deferred[None]:
        """Stop; pending callers get a C{CancelledError}."""
        for done in list(self._waiting):
            done.cancel()
        return self._close()

    def datagram_received(self, network: BroadcastNetwork, datagram: bytes) -> None:
        """A datagram came to the socket of a network. [MS-MQSD] 3.1.5.2."""
        self._perform(self.client.receive(datagram, network.address, self._clock.now()))

    def _cancelled(self, done: Deferred[bool]) -> None:
        if done not in self._waiting:
            # Another caller of a run that has ended cancels it, in its callback.
            return
        self._waiting.remove(done)
        if not self._waiting:
            self.client.cancel()
            self._perform(())
            self._close().addErrback(self._not_closed)

    def _perform(self, effects: Sequence[DiscoveryEffect]) -> None:
        for effect in effects:
            match effect:
                case SendRequest(network, datagram):
                    self._send(network, datagram)
                case DiscoveryEnded(found):
                    self._end(found)
        self._schedule()

    def _send(self, network: BroadcastNetwork, datagram: bytes) -> None:
        """A network that refuses datagrams counts as silent."""
        try:
            if network not in self._sockets:
                protocol = _ClientProtocol(self, network)
                # Twisted reads 8 KiB by default, and cuts a list of some hundreds of servers.
                port = self._reactor.listenUDP(0, protocol, network.address, maxPacketSize=LARGEST_REPLY)
                self._sockets[network] = protocol, port
            transport = self._sockets[network][0].transport
            assert transport is not None, "the socket is open"
            transport.setBroadcastAllowed(True)
            transport.write(datagram, (self._broadcasts[network], self._port))
        except (OSError, CannotListenError) as error:
            self.log.warn(
                "cannot broadcast on the network of {address}: {error}", address=network.address, error=error
            )

    def _end(self, found: bool) -> None:
        if not found:
            self.log.error("no directory server answered on any network")
        self._close().addErrback(self._not_closed)
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            if not done.called:
                done.callback(found)

    def _close(self) -> Deferred[None]:
        ports = [port for _, port in self._sockets.values()]
        self._sockets.clear()
        if not ports:
            return succeed(None)
        return gatherResults([maybeDeferred(port.stopListening) for port in ports]).addCallback(
            lambda _: None
        )

    def _not_closed(self, failure: Failure) -> None:
        self.log.warn("a socket could not be closed: {error}", error=failure.value)

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.client.deadline
        if deadline is not None:
            delay = max(0.0, deadline - self._clock.now().monotonic)
            self._timer = self._reactor.callLater(delay, self._expired)

    def _expired(self) -> None:
        self._timer = None
        self._perform(self.client.expire(self._clock.now()))


class _ClientProtocol(DatagramProtocol):
    """The socket of one network."""

    noisy = False

    def __init__(self, discovery: Discovery, network: BroadcastNetwork) -> None:
        self._discovery = discovery
        self._network = network

    def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
        self._discovery.datagram_received(self._network, datagram)
