"""[MS-MQSD] 3.2: a server over UDP, its limits, and what it does when it cannot answer."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError, MessageLengthError
from twisted.internet.interfaces import IListeningPort
from twisted.internet.protocol import DatagramProtocol
from twisted.internet.task import deferLater
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from msmq.discovery.client import BroadcastNetwork
from msmq.discovery.server import Unanswered
from msmq.net.discovery import (
    ANSWERS_PER_HOST,
    ANSWERS_PER_SECOND,
    HOSTS_REMEMBERED,
    DiscoveryReactor,
    DiscoveryServerProtocol,
)
from msmq.net.networks import AttachedNetwork
from msmq.testing.clock import ManualClock
from msmq.testing.network import MemoryHost
from msmq.testing.network import Network as MemoryNetwork
from tests.net.test_discovery import CLIENT, OTHER_SITE, REQUEST, AcknowledgementBuilder, core


@attrs.frozen
class FailingTransport:
    """Cannot send; errors are those of Twisted."""

    error: int

    def write(self, packet: bytes, addr: tuple[str, int]) -> None:
        if self.error == errno.EMSGSIZE:
            raise MessageLengthError("message too long")
        raise OSError(self.error, "as the system says it")


@attrs.define
class ReopeningReactor:
    """Opens sockets that cannot send, so often."""

    opened: int = 0
    closed: int = 0
    limit: int = 99
    error: int = errno.ENETUNREACH

    def listenUDP(self, port: int, protocol: DatagramProtocol, interface: str) -> IListeningPort:
        if self.opened == self.limit:
            raise CannotListenError(interface, port, OSError(98, "address already in use"))
        self.opened += 1
        protocol.transport = cast(Any, FailingTransport(self.error))
        return cast(IListeningPort, self)

    def stopListening(self) -> None:
        self.closed += 1


@attrs.define
class TurningReactor:
    """Its sockets cannot send, and are closed one iteration after the request."""

    clock: ManualClock
    opened: int = 0
    closed: int = 0

    def listenUDP(self, port: int, protocol: DatagramProtocol, interface: str) -> IListeningPort:
        if self.opened > self.closed:
            raise CannotListenError(interface, port, OSError(98, "address already in use"))
        self.opened += 1
        protocol.transport = cast(Any, FailingTransport(errno.ENETUNREACH))
        return cast(IListeningPort, self)

    def stopListening(self) -> Deferred[None]:
        return deferLater(self.clock.reactor, 0.0, self._close)

    def _close(self) -> None:
        self.closed += 1


class NetworkErrorTests(SynchronousTestCase):
    """A server that cannot answer."""

    def test_reopened(self) -> None:
        """MQSD-3.2.5-02 MQSD-3.2.3-01: its socket is closed, and opened again."""
        reactor = ReopeningReactor()
        server = DiscoveryServerProtocol(core(OTHER_SITE, "DS1"), cast(DiscoveryReactor, reactor))
        server.listen(1801)
        for times in (1, 2):
            server.datagramReceived(REQUEST, (CLIENT, 4000))
            self.assertEqual((reactor.opened, reactor.closed), (times + 1, times))

    def test_cannot_be_reopened(self) -> None:
        """MQSD-3.2.5-03: that is the end of it, though its port is free again; what comes does no harm."""
        reactor = ReopeningReactor(limit=1)
        server = DiscoveryServerProtocol(core(OTHER_SITE, "DS1"), cast(DiscoveryReactor, reactor))
        server.listen(1801)
        server.datagramReceived(REQUEST, (CLIENT, 4000))
        reactor.limit = 99
        server.datagramReceived(REQUEST, (CLIENT, 4000))
        self.assertEqual(reactor.opened, 1)
        self.successResultOf(server.stop())

    def test_a_destination_that_is_refused(self) -> None:
        """A forged source that the system sends nothing to, as a broadcast address, or a reply that is too
        long for the system, closes no socket.
        """
        for error in (errno.EACCES, errno.EPERM, errno.EINVAL, errno.EMSGSIZE):
            reactor = ReopeningReactor(error=error)
            server = AcknowledgementBuilder(core(OTHER_SITE, "DS1"), cast(DiscoveryReactor, reactor))
            server.listen(1801)
            for _ in range(2):
                server.datagramReceived(REQUEST, ("10.0.1.255", 4000))
            self.assertEqual((reactor.opened, reactor.closed, server.answered), (1, 0, []))


class BroadcastTests(SynchronousTestCase):
    """The addresses at which a server receives the requests of its network."""

    def listen(self, broadcast: str, *, has_broadcasts: bool) -> list[str]:
        """Start a server on one address; the addresses at which it receives broadcasts."""
        network = BroadcastNetwork("10.0.1.2")
        attached = AttachedNetwork(network, broadcast, has_broadcasts=has_broadcasts)
        listened: list[str] = []

        class Interface(MemoryHost):
            def listenMulticast(
                self, port: int, protocol: DatagramProtocol, interface: str, *, listenMultiple: bool = False
            ) -> IListeningPort:
                if interface != "10.0.1.255":
                    raise CannotListenError(interface, port, OSError(99, "no address of this host"))
                listened.append(interface)
                return super().listenMulticast(port, protocol, interface, listenMultiple=listenMultiple)

        clock = ManualClock()
        host = Interface(MemoryNetwork(clock.reactor), "10.0.1.2")

        def networks(interface: str) -> Sequence[AttachedNetwork]:
            self.assertEqual(interface, "10.0.1.2")
            return [attached]

        server = DiscoveryServerProtocol(core(OTHER_SITE, "DS1"), host, clock=clock, networks=networks)
        self.assertEqual(cast(Any, server.listen(1801, "10.0.1.2").getHost()).port, 1801)
        self.successResultOf(server.stop())
        return listened

    def test_networks_that_are_not_listed(self) -> None:
        """A server that cannot find its broadcast address does not start, and its port is free again."""
        clock = ManualClock()
        host = MemoryHost(MemoryNetwork(clock.reactor), "10.0.1.2")

        def networks(interface: str) -> Sequence[AttachedNetwork]:
            raise OSError(24, "too many open files")

        server = DiscoveryServerProtocol(core(OTHER_SITE, "DS1"), host, clock=clock, networks=networks)
        error = self.assertRaises(CannotListenError, server.listen, 1801, "10.0.1.2")
        self.assertIn("too many open files", str(error))
        clock.advance(0)
        again = DiscoveryServerProtocol(core(OTHER_SITE, "DS1"), host, clock=clock, networks=lambda _: [])
        again.listen(1801, "10.0.1.2")
        self.successResultOf(again.stop())

    def test_a_network_with_broadcasts(self) -> None:
        """They are received at the broadcast address, and requests at the address itself."""
        self.assertEqual(self.listen("10.0.1.255", has_broadcasts=True), ["10.0.1.255"])

    def test_a_network_without_broadcasts(self) -> None:
        """On a link, or where an address is a whole network, as with many clouds, a server starts too."""
        for other in ("10.0.1.2", "10.0.1.1"):
            self.assertEqual(self.listen(other, has_broadcasts=False), [])


class RateTests(SynchronousTestCase):
    """Limits that make a server useless for amplification."""

    def test_so_many_in_a_second(self) -> None:
        """Requests over the limit are not answered, whatever they contain."""
        clock = ManualClock()
        host = MemoryNetwork(clock.reactor).host("10.0.1.2")
        server = AcknowledgementBuilder(core(OTHER_SITE, "DS1"), host, clock=clock)
        host.listenUDP(1801, server)
        for number in range(ANSWERS_PER_SECOND + 20):
            server.datagramReceived(REQUEST, (f"10.0.2.{number}", 4000))
        self.assertEqual(len(server.answered), ANSWERS_PER_SECOND)
        self.assertEqual(server.unanswered, [Unanswered.RATE] * 20)
        for _ in range(500):
            server.datagramReceived(b"rubbish", (CLIENT, 4000))
        clock.advance(0.5)
        for number in range(ANSWERS_PER_SECOND):
            server.datagramReceived(REQUEST, (f"10.0.2.{number}", 4000))
        self.assertEqual(len(server.answered), 1.5 * ANSWERS_PER_SECOND)

    def test_one_host(self) -> None:
        """A host that sends too many requests, or in whose name they are sent, leaves the others their
        answers; its rate is remembered however many others send.
        """
        clock = ManualClock()
        host = MemoryNetwork(clock.reactor).host("10.0.1.2")
        server = AcknowledgementBuilder(core(OTHER_SITE, "DS1"), host, clock=clock)
        host.listenUDP(1801, server)
        for _ in range(2 * ANSWERS_PER_SECOND):
            server.datagramReceived(REQUEST, (CLIENT, 4000))
        self.assertEqual(server.answered, [(CLIENT, 4000)] * ANSWERS_PER_HOST)
        self.assertEqual(set(server.unanswered), {Unanswered.HOST_RATE})
        server.datagramReceived(REQUEST, ("10.0.2.1", 4000))
        self.assertEqual(server.answered[-1], ("10.0.2.1", 4000))
        for number in range(HOSTS_REMEMBERED - 2):
            server.datagramReceived(b"rubbish", (f"10.1.{number >> 8}.{number & 255}", 4000))
        server.datagramReceived(REQUEST, (CLIENT, 4000))
        self.assertIs(server.unanswered[-1], Unanswered.HOST_RATE)
        clock.advance(0.1)
        server.datagramReceived(REQUEST, (CLIENT, 4000))
        self.assertEqual(server.answered[-1], (CLIENT, 4000))


class LogTests(SynchronousTestCase):
    """A server writes little of what others send."""

    def test_flood_leaves_few_lines(self) -> None:
        """The log gets four lines a minute of what is ignored, and later how many it did not get."""
        clock = ManualClock()
        host = MemoryNetwork(clock.reactor).host("10.0.1.2")
        server = AcknowledgementBuilder(core(OTHER_SITE, "DS1"), host, clock=clock)
        host.listenUDP(1801, server)
        with capturedLogs() as logged:
            for _ in range(1000):
                server.datagramReceived(b"rubbish", (CLIENT, 4000))
            clock.advance(15)
            server.datagramReceived(b"rubbish", (CLIENT, 4000))
        lines = [formatEvent(each) or "" for each in logged]
        self.assertEqual(len(lines), 5)
        self.assertIn("; 996 more since the last such line", lines[-1])


class TurnsTests(SynchronousTestCase):
    """A socket that is closed in the next iteration of the reactor, as real ones are."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.reactor = TurningReactor(self.clock)
        self.server = AcknowledgementBuilder(core(OTHER_SITE, "DS1"), cast(DiscoveryReactor, self.reactor))
        self.server.listen(1801)
        self.addCleanup(self.server.stop)

    def test_more_requests_meanwhile(self) -> None:
        """They are passed over: they neither close anything more nor open it a second time."""
        for _ in range(3):
            self.server.datagramReceived(REQUEST, (CLIENT, 4000))
        self.clock.advance(1)
        self.assertEqual((self.reactor.opened, self.reactor.closed), (2, 1))
        self.server.datagramReceived(REQUEST, (CLIENT, 4000))
        self.clock.advance(1)
        self.assertEqual((self.reactor.opened, self.reactor.closed), (3, 2))

    def test_stopped_meanwhile(self) -> None:
        """No further socket is opened."""
        self.server.datagramReceived(REQUEST, (CLIENT, 4000))
        self.server.stop()
        self.clock.advance(1)
        self.assertEqual((self.reactor.opened, self.reactor.closed), (1, 1))

    def test_impossible_source(self) -> None:
        """A forged source that cannot be answered closes no socket."""
        sources = [(CLIENT, 0), ("0.0.0.0", 4000), ("224.0.0.1", 4000), ("255.255.255.255", 4000)]
        for source in sources:
            self.server.datagramReceived(REQUEST, source)
        self.assertEqual(self.server.unanswered, [Unanswered.NO_RETURN_ADDRESS] * 4)
        self.clock.advance(1)
        self.assertEqual((self.reactor.opened, self.reactor.closed), (1, 0))
