"""The in-memory network: hosts, datagrams, connections and misfortunes."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import (
    CannotListenError,
    ConnectionDone,
    ConnectionLost,
    ConnectionRefusedError,
    InvalidAddressError,
    MessageLengthError,
    TimeoutError,
)
from twisted.internet.interfaces import (
    IAddress,
    IListeningPort,
    IProtocol,
    IReactorTime,
    IReactorUDP,
    IStreamClientEndpoint,
    IStreamServerEndpoint,
    IUDPTransport,
)
from twisted.internet.protocol import DatagramProtocol, Factory, Protocol
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from msmq.testing.network import CONNECT_TIMEOUT, MemoryHost, Network
from msmq.testing.streams import Conditions
from tests.testing.test_streams import Recorder

ALPHA, BETA, SIX = "10.0.0.1", "10.0.0.2", "2001:db8::1"


class Listener(DatagramProtocol):
    def __init__(self) -> None:
        self.heard: list[tuple[bytes, tuple[str, int]]] = []
        self.is_stopped = False

    def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
        self.heard.append((datagram, addr))

    def stopProtocol(self) -> None:
        self.is_stopped = True


class Recorders(Factory):
    """Builds recorders and keeps them; or refuses."""

    noisy = False

    def __init__(self, clock: Clock, *, refuses: bool = False) -> None:
        self.clock = clock
        self.refuses = refuses
        self.built: list[Recorder] = []

    def buildProtocol(self, addr: IAddress | None) -> Recorder | None:
        if self.refuses:
            return None
        self.built.append(Recorder(self.clock))
        return self.built[-1]


class NetworkTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.network = Network(self.clock)
        self.alpha, self.beta = self.network.host(ALPHA), self.network.host(BETA)

    def listen(self, host: MemoryHost, port: int = 3527) -> Listener:
        listener = Listener()
        host.listenUDP(port, listener)
        return listener

    def send(self, host: MemoryHost, payload: bytes, to: tuple[str, int], port: int = 4057) -> None:
        sender = host.datagram_port(port)
        if sender is None:
            host.listenUDP(port, DatagramProtocol())
            sender = host.datagram_port(port)
        assert sender is not None
        sender.write(payload, to)


class DatagramTests(NetworkTestCase):
    """Datagrams come or do not come."""

    def test_datagram_arrives_with_its_source(self) -> None:
        """The receiver sees the sender's address and port, and can answer."""
        heard = self.listen(self.beta).heard
        self.send(self.alpha, b"ping", (BETA, 3527))
        self.assertEqual(heard, [])
        self.clock.advance(0)
        self.assertEqual(heard, [(b"ping", (ALPHA, 4057))])

    def test_datagram_without_a_listener(self) -> None:
        """A datagram to a closed port or an unknown host is lost, and is still on record."""
        self.send(self.alpha, b"ping", (BETA, 3527))
        self.send(self.alpha, b"ping", ("10.0.0.77", 3527))
        self.clock.advance(0)
        self.assertEqual([sent.destination[0] for sent in self.network.datagrams], [BETA, "10.0.0.77"])

    def test_stopped_port_receives_nothing(self) -> None:
        """After C{stopListening} the protocol is stopped, and the port is free again."""
        listener = Listener()
        port = self.beta.listenUDP(3527, listener)
        self.send(self.alpha, b"ping", (BETA, 3527))
        port.stopListening()
        self.clock.advance(0)
        self.assertTrue(listener.is_stopped)
        self.assertEqual(listener.heard, [])
        self.listen(self.beta)

    def test_port_is_taken_once(self) -> None:
        """A second listener on a port, or one on an address of another host, is refused."""
        self.listen(self.beta)
        self.assertRaises(CannotListenError, self.beta.listenUDP, 3527, Listener())
        self.assertRaises(CannotListenError, self.beta.listenUDP, 4000, Listener(), interface=ALPHA)

    def test_port_zero_takes_any(self) -> None:
        """Two sockets without a wish get two ports."""
        hosts = {self.alpha.listenUDP(0, Listener()).getHost() for _ in range(2)}
        self.assertEqual(len(hosts), 2)

    def test_loss(self) -> None:
        """About the wanted part is lost, the same ones for the same seed."""
        self.network.set_conditions(ALPHA, BETA, Conditions(loss=0.5))
        heard = self.listen(self.beta).heard
        for number in range(200):
            self.send(self.alpha, b"%d" % number, (BETA, 3527))
        self.clock.advance(0)
        self.assertTrue(60 < len(heard) < 140, len(heard))
        self.assertEqual(len(heard), sum(sent.copies for sent in self.network.datagrams))

    def test_duplication_and_jitter(self) -> None:
        """Datagrams come twice, and overtake each other."""
        self.network.set_conditions(ALPHA, BETA, Conditions(duplication=1.0, jitter=1.0))
        heard = self.listen(self.beta).heard
        for number in range(10):
            self.send(self.alpha, bytes([number]), (BETA, 3527))
        self.clock.advance(1)
        order = [payload for payload, _ in heard]
        self.assertEqual(len(order), 20)
        self.assertNotEqual(order, sorted(order))

    def test_long_datagram_is_cut_at_the_receiver(self) -> None:
        """C{maxPacketSize} is how much of a datagram is read; what cannot be sent at all is an error."""
        listener = Listener()
        self.beta.listenUDP(3527, listener, maxPacketSize=4)
        self.send(self.alpha, b"123456", (BETA, 3527))
        self.clock.advance(0)
        self.assertEqual(listener.heard[0][0], b"1234")
        self.assertRaises(MessageLengthError, self.send, self.alpha, bytes(70000), (BETA, 3527))

    def test_families_do_not_mix(self) -> None:
        """As with Twisted's sockets, an IPv4 port sends to no name and to no IPv6 address."""
        for host in ("beta.example", SIX):
            self.assertRaises(InvalidAddressError, self.send, self.alpha, b"", (host, 3527))

    def test_ipv6(self) -> None:
        """Hosts with IPv6 addresses reach each other, however an address is spelled."""
        one, other = self.network.host(SIX), self.network.host("2001:db8::2")
        heard = self.listen(other).heard
        self.send(one, b"six", ("2001:db8::2", 3527))
        self.clock.advance(0)
        self.assertEqual(heard, [(b"six", (SIX, 4057))])
        self.assertIs(self.network.host("2001:0DB8:0::1"), one)

    def test_connected_socket_sends_without_an_address(self) -> None:
        """A transport that is connected knows where to."""
        heard = self.listen(self.beta).heard
        sender = DatagramProtocol()
        self.alpha.listenUDP(4057, sender)
        assert sender.transport is not None
        sender.transport.connect(BETA, 3527)
        sender.transport.write(b"ping", None)
        self.clock.advance(0)
        self.assertEqual(len(heard), 1)


class ConnectionTests(NetworkTestCase):
    """Endpoints connect to listening hosts."""

    def dial(self, *, to: str = BETA, port: int = 1801) -> Deferred[IProtocol]:
        self.dialled = Recorders(self.clock)
        return self.alpha.client_endpoint(to, port).connect(self.dialled)

    def accept(self, *, refuses: bool = False) -> Recorders:
        factory = Recorders(self.clock, refuses=refuses)
        self.port = self.successResultOf(self.beta.server_endpoint(1801).listen(factory))
        return factory

    def connect(self) -> tuple[Recorder, Recorder]:
        accepted = self.accept()
        answer = self.dial()
        self.clock.advance(0)
        self.assertIs(self.successResultOf(answer), self.dialled.built[0])
        return self.dialled.built[0], accepted.built[0]

    def test_connection(self) -> None:
        """Both ends talk; each sees the other's address."""
        near, far = self.connect()
        assert near.transport is not None and far.transport is not None
        near.transport.write(b"hello")
        self.clock.advance(0)
        self.assertEqual(far.data, b"hello")
        [link] = self.network.links
        self.assertEqual(link.acceptor.getPeer().host, ALPHA)
        self.assertEqual((link.initiator.getPeer().host, link.initiator.getPeer().port), (BETA, 1801))

    def test_dialling_takes_a_round_trip(self) -> None:
        """A connection is there after twice the delay."""
        self.network.set_conditions(ALPHA, BETA, Conditions(delay=0.1))
        self.accept()
        answer = self.dial()
        self.clock.advance(0.19)
        self.assertNoResult(answer)
        self.clock.advance(0.02)
        self.successResultOf(answer)

    def test_connection_without_a_listener(self) -> None:
        """A closed port refuses, an unknown host too."""
        for host in (BETA, "10.0.0.77"):
            answer = self.dial(to=host)
            self.clock.advance(0)
            self.failureResultOf(answer, ConnectionRefusedError)

    def test_listening_stops(self) -> None:
        """After C{stopListening} no connection is accepted, and the port is free."""
        self.accept()
        self.port.stopListening()
        answer = self.dial()
        self.clock.advance(0)
        self.failureResultOf(answer, ConnectionRefusedError)
        self.accept()

    def test_port_is_taken_once(self) -> None:
        """A second listener is refused."""
        self.accept()
        again = self.beta.server_endpoint(1801).listen(Recorders(self.clock))
        self.failureResultOf(again, CannotListenError)

    def test_factory_that_builds_no_protocol(self) -> None:
        """The connection is opened and closed, which is what a dialler sees of a full server."""
        self.accept(refuses=True)
        self.successResultOf(self._advance(self.dial()))
        self.clock.pump([0, 0])
        self.assertEqual(self.dialled.built[0].lost, [ConnectionDone])

    def _advance(self, answer: Deferred[IProtocol]) -> Deferred[IProtocol]:
        self.clock.advance(0)
        return answer

    def test_attempt_can_be_cancelled(self) -> None:
        """A cancelled attempt opens no connection."""
        accepted = self.accept()
        answer = self.dial()
        answer.cancel()
        self.failureResultOf(answer, CancelledError)
        self.clock.advance(60)
        self.assertEqual(accepted.built, [])

    def test_partition(self) -> None:
        """No data passes and no end is notified; new connections time out; after the repair the stream
        continues.
        """
        near, far = self.connect()
        assert near.transport is not None
        heard = self.listen(self.beta).heard
        self.network.partition(ALPHA, BETA)
        near.transport.write(b"late")
        self.send(self.alpha, b"lost", (BETA, 3527))
        answer = self.dial()
        self.clock.advance(0)
        self.clock.advance(CONNECT_TIMEOUT - 1)
        self.assertNoResult(answer)
        self.clock.advance(1)
        self.failureResultOf(answer, TimeoutError)
        self.assertEqual((far.data, heard, far.lost), (b"", [], []))
        self.network.heal(ALPHA, BETA)
        self.clock.advance(0)
        self.assertEqual((far.data, heard), (b"late", []))

    def test_cut_between_two_hosts(self) -> None:
        """Both ends lose the connection at once."""
        near, far = self.connect()
        self.network.cut(ALPHA, BETA)
        self.clock.advance(0)
        self.assertEqual((near.lost, far.lost), ([ConnectionLost], [ConnectionLost]))

    def test_crash(self) -> None:
        """The dead host's protocols are not notified; the living ones lose the connection."""
        near, far = self.connect()
        listener = self.listen(self.beta)
        self.network.crash(BETA)
        self.send(self.alpha, b"ping", (BETA, 3527))
        answer = self.dial()
        self.clock.advance(0)
        self.assertEqual((near.lost, far.lost), ([ConnectionLost], []))
        self.assertEqual((listener.heard, listener.is_stopped), ([], False))
        self.failureResultOf(answer, ConnectionRefusedError)

    def test_crash_of_a_closing_connection(self) -> None:
        """Data and close that were in transit never arrive at a dead host."""
        for is_begun_here in (False, True):
            near, far = self.connect()
            closing = near.transport if is_begun_here else far.transport
            assert closing is not None
            closing.write(b"late")
            closing.loseConnection()
            self.network.crash(BETA)
            self.clock.advance(5)
            self.assertEqual((far.data, far.lost), (b"", []))
            self.assertEqual(len(near.lost), 1)
            self.beta = self.network.host(BETA)

    def test_crash_of_a_host_that_dials(self) -> None:
        """No connection is made for it, nor for the host that has its address later."""
        self.accept()
        answer = self.dial()
        self.network.crash(ALPHA)
        self.network.host(ALPHA)
        self.clock.advance(CONNECT_TIMEOUT)
        self.assertNoResult(answer)
        self.assertEqual(self.network.links, [])

    def test_dead_host_dials(self) -> None:
        """Code of a host that goes on after its crash gets no connection, not that of a later host either."""
        self.accept()
        endpoint = self.alpha.client_endpoint(BETA, 1801)
        self.network.crash(ALPHA)
        self.network.host(ALPHA)
        answer = endpoint.connect(Recorders(self.clock))
        self.clock.advance(CONNECT_TIMEOUT)
        self.assertNoResult(answer)
        self.assertEqual(self.network.links, [])

    def test_host_comes_back_after_a_crash(self) -> None:
        """The same address can listen again."""
        self.connect()
        self.network.crash(BETA)
        self.clock.advance(0)
        self.beta = self.network.host(BETA)
        self.connect()

    def test_two_protocols_can_be_joined_without_hosts(self) -> None:
        """The shortest code for a connection."""
        near, far = Recorder(self.clock), Protocol()
        link = self.network.connect(near, far)
        link.acceptor.write(b"hello")
        self.clock.advance(0)
        self.assertEqual(near.data, b"hello")


class InterfaceTests(NetworkTestCase):
    """Each double provides what it stands for."""

    def test_interfaces(self) -> None:
        """A host is a reactor for time and datagrams; ports and endpoints are what Twisted's are."""
        verifyObject(IReactorUDP, self.alpha)
        verifyObject(IReactorTime, self.alpha)
        verifyObject(IStreamServerEndpoint, self.alpha.server_endpoint(1801))
        verifyObject(IStreamClientEndpoint, self.alpha.client_endpoint(BETA, 1801))
        port = self.alpha.listenUDP(0, Listener())
        verifyObject(IListeningPort, port)
        verifyObject(IUDPTransport, port)

    def test_time_is_the_clock(self) -> None:
        """A host calls later when the test's clock says so."""
        called: list[str] = []
        self.alpha.callLater(1.0, called.append, "now")
        self.assertEqual(len(self.alpha.getDelayedCalls()), 1)
        self.clock.advance(1)
        self.assertEqual((called, self.alpha.seconds()), (["now"], 1.0))
