"""[MS-MQSD] over UDP: on a network in memory under a clock of ours, and on the real loopback network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast
from uuid import UUID

from twisted.internet import reactor as installed_reactor
from twisted.internet.defer import CancelledError
from twisted.internet.protocol import DatagramProtocol
from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase, TestCase

from msmq.discovery.client import BroadcastNetwork, DiscoveryClient
from msmq.discovery.packets import TopologyClientRequest
from msmq.discovery.server import DiscoveryServer, Unanswered
from msmq.interfaces.clock import IClock
from msmq.net.clock import SystemClock
from msmq.net.discovery import Discovery, DiscoveryReactor, DiscoveryServerProtocol
from msmq.net.networks import AttachedNetwork
from msmq.testing.clock import ManualClock
from msmq.testing.network import MemoryHost
from msmq.testing.network import Network as MemoryNetwork
from tests.patience import DEADLINE

ENTERPRISE = UUID(int=0xE)
OWN_SITE, OTHER_SITE, THIRD_SITE = UUID(int=0xA), UUID(int=0xB), UUID(int=0xC)
NETWORK = UUID(int=0xD)
CLIENT = "10.0.1.1"
BROADCAST = "10.0.1.255"
ATTACHED = AttachedNetwork(BroadcastNetwork(CLIENT), BROADCAST)
REQUEST = TopologyClientRequest(ENTERPRISE, UUID(int=1), OWN_SITE).to_bytes()


def core(site: UUID, *names: str) -> DiscoveryServer:
    return DiscoveryServer(ENTERPRISE, site, "SERVER", directory_servers=names, connected_networks=(NETWORK,))


class AcknowledgementBuilder(DiscoveryServerProtocol):
    """Remembers the calls of its hooks."""

    def __init__(
        self, server: DiscoveryServer, reactor: DiscoveryReactor, *, clock: IClock | None = None
    ) -> None:
        super().__init__(server, reactor, clock=clock)
        self.answered: list[tuple[str, int]] = []
        self.unanswered: list[Unanswered] = []

    def request_answered(self, reply: bytes, address: tuple[str, int]) -> None:
        self.answered.append(address)

    def request_unanswered(self, reason: Unanswered, address: tuple[str, int]) -> None:
        self.unanswered.append(reason)


class Serving(AcknowledgementBuilder):
    """Listens as on a host whose interface has a broadcast address."""

    def serve(self, host: MemoryHost, broadcast: str = BROADCAST) -> None:
        host.listenUDP(1801, self)
        host.listenMulticast(1801, Hearing(self), broadcast)


class Hearing(DatagramProtocol):
    """Hands on what it receives."""

    def __init__(self, other: DatagramProtocol) -> None:
        self.other = other

    def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
        self.other.datagramReceived(datagram, addr)


class DiscoveryTests(SynchronousTestCase):
    """A client that looks for servers, on networks in memory."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.network = MemoryNetwork(self.clock.reactor)
        self.host = self.network.host(CLIENT)
        self.identifiers = iter(map(UUID, (f"{number:032x}" for number in range(1, 9))))

    def looking(self, *attached: AttachedNetwork, site: UUID = OWN_SITE) -> Discovery:
        identifiers: Iterator[UUID] = self.identifiers
        return Discovery(
            DiscoveryClient(ENTERPRISE, site, directory_servers=("CONFIGURED",)),
            reactor=self.host,
            clock=self.clock,
            networks=lambda: attached or (ATTACHED,),
            new_identifier=lambda: next(identifiers),
        )

    def serving(self, address: str, site: UUID, *names: str) -> Serving:
        host = self.network.host(address)
        protocol = Serving(core(site, *names), host)
        protocol.serve(host)
        return protocol

    def test_server_of_the_own_site(self) -> None:
        """MQSD-3.1.4.1-01 MQSD-3.2.5.1-11 MQSD-2.1-03: its answer arrives at once, at the client's port.

        MQSD-2.1-05: the system chooses that port.
        """
        server = self.serving("10.0.1.2", OWN_SITE)
        discovery = self.looking()
        done = discovery.get_directory_server_list()
        self.clock.advance(0.1)
        self.assertTrue(self.successResultOf(done))
        self.assertEqual(discovery.client.directory_servers, ("CONFIGURED",))
        self.assertEqual(discovery.client.connected_networks, (NETWORK,))
        [(host, port)] = server.answered
        self.assertEqual(host, CLIENT)
        self.assertNotEqual(port, 1801)

    def test_server_of_another_site(self) -> None:
        """MQSD-3.1.2.1-01 MQSD-3.1.1.1-03: one of the own site may still answer, for 15 seconds."""
        self.serving("10.0.1.2", OTHER_SITE, "DS1", "DS2")
        discovery = self.looking()
        done = discovery.get_directory_server_list()
        self.clock.advance(14.9)
        self.assertNoResult(done)
        self.clock.advance(0.2)
        self.assertTrue(self.successResultOf(done))
        self.assertEqual(discovery.client.directory_servers, ("DS1", "DS2"))

    def test_each_run_is_another(self) -> None:
        """MQSD-2.2.2-03: of many clients no two ask with one RequestID."""
        requests = set()
        for _ in range(20):
            discovery = Discovery(
                DiscoveryClient(ENTERPRISE, OWN_SITE),
                reactor=self.host,
                clock=self.clock,
                networks=lambda: (ATTACHED,),
            )
            discovery.get_directory_server_list()
            self.clock.advance(15)
            datagram = self.network.datagrams[-1].payload
            requests.add(TopologyClientRequest.from_bytes(datagram).request_id)
        self.assertEqual(len(requests), 20)

    def test_server_has_no_timers(self) -> None:
        """MQSD-3.2.2-01: it has no timers, neither before a request nor after it."""
        server = self.serving("10.0.1.2", OWN_SITE)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])
        server.datagramReceived(REQUEST, (CLIENT, 4000))
        self.clock.advance(0)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])
        self.assertEqual(server.answered, [(CLIENT, 4000)])

    def test_no_answer(self) -> None:
        """MQSD-3.1.4.1-02 MQSD-3.1.4.1-03 MQSD-3.1.6.1-03: after 15 seconds; the log has one line."""
        with capturedLogs() as lines:
            done = self.looking().get_directory_server_list()
            self.clock.advance(15)
        self.assertFalse(self.successResultOf(done))
        self.assertEqual(len(self.network.datagrams), 1)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])
        errors = [formatEvent(line) for line in lines if line["log_level"] is LogLevel.error]
        self.assertEqual(errors, ["no directory server answered on any network"])

    def test_each_network_in_order(self) -> None:
        """MQSD-3.1.5.1-05: the second is asked 15 seconds later, from its own address."""
        # One host of this network in memory has one address, so the other is this one's as well.
        second = AttachedNetwork(BroadcastNetwork(CLIENT, is_dial_up=True), "10.0.2.255")
        done = self.looking(ATTACHED, second).get_directory_server_list()
        self.clock.advance(15)
        self.clock.advance(15)
        self.assertFalse(self.successResultOf(done))
        asked = [each.destination for each in self.network.datagrams]
        self.assertEqual(asked, [(BROADCAST, 1801), ("10.0.2.255", 1801)])

    def test_network_that_cannot_be_sent_to(self) -> None:
        """It counts as silent; the next one is asked."""
        gone = AttachedNetwork(BroadcastNetwork("10.0.9.9"), "10.0.9.255")
        self.serving("10.0.1.2", OWN_SITE)
        done = self.looking(gone, ATTACHED).get_directory_server_list()
        self.clock.advance(15)
        self.clock.advance(0.1)
        self.assertTrue(self.successResultOf(done))

    def test_concurrent_callers(self) -> None:
        """Reading 31: one run serves all callers, and one that cancels does not affect the others."""
        self.serving("10.0.1.2", OTHER_SITE, "DS1")
        discovery = self.looking()
        first, second = discovery.get_directory_server_list(), discovery.get_directory_server_list()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.clock.advance(15.1)
        self.assertTrue(self.successResultOf(second))
        self.assertEqual(len([each for each in self.network.datagrams if each.destination[1] == 1801]), 1)

    def test_caller_that_cancels_another(self) -> None:
        """A callback of one caller may cancel another one; the third gets its result."""
        self.serving("10.0.1.2", OWN_SITE)
        discovery = self.looking()
        first, second, third = (discovery.get_directory_server_list() for _ in range(3))
        first.addCallback(lambda found: second.cancel())
        self.clock.advance(0.1)
        self.assertIsNone(self.successResultOf(first))
        self.failureResultOf(second, CancelledError)
        self.assertTrue(self.successResultOf(third))

    def test_networks_that_cannot_be_listed(self) -> None:
        """The caller gets the error, and the next run ends when its own callers have cancelled it."""
        errors = [OSError(24, "too many open files")]

        def networks() -> Sequence[AttachedNetwork]:
            if errors:
                raise errors.pop()
            return (ATTACHED,)

        discovery = Discovery(
            DiscoveryClient(ENTERPRISE, OWN_SITE), reactor=self.host, clock=self.clock, networks=networks
        )
        self.failureResultOf(discovery.get_directory_server_list(), OSError)
        again = discovery.get_directory_server_list()
        again.cancel()
        self.failureResultOf(again, CancelledError)
        self.assertFalse(discovery.client.is_running)
        self.clock.advance(0)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])

    def test_stop(self) -> None:
        """Waiting callers get an error, nothing is scheduled any more, and the sockets are closed."""
        discovery = self.looking()
        done = discovery.get_directory_server_list()
        discovery.stop()
        self.failureResultOf(done, CancelledError)
        self.clock.advance(0)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])
        self.assertFalse(discovery.client.is_running)
        again = discovery.get_directory_server_list()
        self.assertNoResult(again)
        again.addErrback(lambda failure: failure.trap(CancelledError))
        discovery.stop()

    def test_other_port(self) -> None:
        """MQSD-1.5-01: servers of another port are not found."""
        self.serving("10.0.1.2", OWN_SITE)
        discovery = Discovery(
            DiscoveryClient(ENTERPRISE, OWN_SITE),
            reactor=self.host,
            clock=self.clock,
            port=1999,
            networks=lambda: (ATTACHED,),
        )
        done = discovery.get_directory_server_list()
        self.clock.advance(15)
        self.assertFalse(self.successResultOf(done))

    def test_many_servers(self) -> None:
        """A list of thousands of servers, which one datagram can have, arrives whole."""
        names = [f"SERVER-{number:08}" for number in range(1000)]
        self.serving("10.0.1.2", OTHER_SITE, *names)
        discovery = self.looking()
        done = discovery.get_directory_server_list()
        self.clock.advance(15)
        self.assertTrue(self.successResultOf(done))
        self.assertEqual(list(discovery.client.directory_servers), names)

    def test_garbage_to_the_server(self) -> None:
        """It is counted apart from requests, and not answered."""
        server = self.serving("10.0.1.2", OWN_SITE)
        server.datagramReceived(b"rubbish", (CLIENT, 4000))
        self.assertEqual(server.unanswered, [Unanswered.MALFORMED])
        self.assertEqual(self.network.datagrams, [])


class LoopbackTests(TestCase):
    """Real sockets, with broadcasts, on the loopback network."""

    timeout = DEADLINE
    port = 0

    def serve(self, address: str, site: UUID, *names: str) -> AcknowledgementBuilder:
        server = AcknowledgementBuilder(core(site, *names), cast(DiscoveryReactor, installed_reactor))
        opened = server.listen(self.port, address)
        self.port = cast(Any, opened.getHost()).port
        self.addCleanup(server.stop)
        return server

    def look(self, site: UUID) -> Discovery:
        loopback = AttachedNetwork(BroadcastNetwork("127.0.0.41"), "127.255.255.255")
        discovery = Discovery(
            DiscoveryClient(ENTERPRISE, site),
            reactor=cast(DiscoveryReactor, installed_reactor),
            clock=SystemClock(),
            port=self.port,
            networks=lambda: (loopback,),
        )
        self.addCleanup(discovery.stop)
        return discovery

    async def test_two_servers_answer(self) -> None:
        """MQSD-2.1-01 MQSD-2.1-02: two of other sites, and the first one counts."""
        servers = [self.serve("127.0.0.42", OTHER_SITE, "DS1"), self.serve("127.0.0.43", THIRD_SITE, "DS2")]
        discovery = self.look(OWN_SITE)
        self.assertTrue(await discovery.get_directory_server_list())
        self.assertIn(discovery.client.directory_servers, (("DS1",), ("DS2",)))
        self.assertEqual([len(server.answered) for server in servers], [1, 1])
        self.assertEqual(discovery.client.last_successful_address, "127.0.0.41")

    async def test_server_of_the_own_site(self) -> None:
        """MQSD-3.2.3-01: it is enough for itself; asked at its own address it answers as well."""
        server = self.serve("127.0.0.44", OWN_SITE)
        discovery = self.look(OWN_SITE)
        self.assertTrue(await discovery.get_directory_server_list())
        self.assertEqual(discovery.client.connected_networks, (NETWORK,))
        self.assertEqual(len(server.answered), 1)
