"""[MS-MQQB] 2.1.2: Ping Messages over UDP."""

from __future__ import annotations

from typing import cast
from uuid import UUID

import attrs
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import CancelledError, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort
from twisted.internet.protocol import DatagramProtocol
from twisted.internet.testing import FakeDatagramTransport
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface import implementer

from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.moment import Moment
from msmq.net.ping import Pinger, PingReactor, PingReply, PingResponderProtocol
from msmq.session.ping_initiator import PingInitiator
from msmq.session.ping_responder import Ignored, PingAnswer
from msmq.settings import SessionSettings
from msmq.structures.internal.ping import Ping
from msmq.testing.clock import ManualClock
from msmq.testing.network import MemoryHost, Network
from msmq.testing.streams import Conditions
from tests.vectors import vector

OURS = UUID("557358d1-9150-9595-4997-b6e611ea26c6")
THEIRS = UUID("43cd8907-394c-8f11-4445-9078909ea0fc")
ALPHA, BETA, GAMMA = "10.0.0.1", "10.0.0.2", "10.0.0.3"


@implementer(IClock)
class StandingClock:
    """For tests in which time does not matter."""

    def now(self) -> Moment:
        return Moment(0.0, 0.0)


class Recording(PingResponderProtocol):
    """Remembers the calls of its hooks."""

    def __init__(self, settings: SessionSettings | None = None, refused_hosts: tuple[str, ...] = ()) -> None:
        super().__init__(THEIRS, clock=StandingClock(), settings=settings)
        self.refused_hosts = refused_hosts
        self.seen: list[tuple[object, tuple[str, int]]] = []

    def would_refuse(self, address: tuple[str, int]) -> bool:
        return address[0] in self.refused_hosts

    def ping_answered(self, answer: PingAnswer, address: tuple[str, int]) -> None:
        self.seen.append((answer.request.cookie, address))

    def ping_ignored(self, reason: Ignored, address: tuple[str, int]) -> None:
        self.seen.append((reason, address))


class PingResponderProtocolTests(SynchronousTestCase):
    """Responses to pings."""

    def setUp(self) -> None:
        self.transport = FakeDatagramTransport()

    def listen(self, protocol: PingResponderProtocol) -> PingResponderProtocol:
        protocol.makeConnection(self.transport)
        return protocol

    def test_each_request_gets_one_response_at_its_source(self) -> None:
        """MQQB-2.1.2-01 MQQB-2.1.2-05: a 24-byte request from 10.0.0.9:4057 gets one such response, there."""
        protocol = self.listen(PingResponderProtocol(THEIRS, clock=StandingClock()))
        protocol.datagramReceived(vector("mqqb-4.1.1-ping-request"), ("10.0.0.9", 4057))
        [(datagram, address)] = self.transport.written
        self.assertEqual((len(datagram), address), (24, ("10.0.0.9", 4057)))
        self.assertEqual(datagram[2:], vector("mqqb-4.1.2-ping-response")[2:])

    def test_ipv6_source(self) -> None:
        """A request over IPv6 is answered over IPv6."""
        protocol = self.listen(PingResponderProtocol(THEIRS, clock=StandingClock()))
        protocol.datagramReceived(Ping(1, OURS).to_bytes(), ("2001:db8::9", 4057))
        self.assertEqual([address for _, address in self.transport.written], [("2001:db8::9", 4057)])

    def test_another_signature_is_not_answered(self) -> None:
        """MQQB-2.2.7-07 MQQB-3.1.7.7-01: 0x5549 gets no datagram, and the next request still gets one."""
        protocol = self.listen(PingResponderProtocol(THEIRS, clock=StandingClock()))
        good = Ping(1, OURS).to_bytes()
        protocol.datagramReceived(good[:2] + b"\x49\x55" + good[4:], (ALPHA, 4057))
        self.assertEqual(self.transport.written, [])
        protocol.datagramReceived(good, (ALPHA, 4057))
        self.assertEqual(len(self.transport.written), 1)

    def test_another_length_is_not_answered(self) -> None:
        """MQQB-2.2.7-11: 23 bytes and 25 bytes get no reply."""
        protocol = self.listen(PingResponderProtocol(THEIRS, clock=StandingClock()))
        whole = Ping(1, OURS).to_bytes()
        for datagram in (whole[:23], whole + b"\0", b""):
            protocol.datagramReceived(datagram, (ALPHA, 4057))
        self.assertEqual(self.transport.written, [])

    def test_flood_leaves_few_lines_in_the_log(self) -> None:
        """The log gets three lines a minute of a kind, and later how many it did not get."""
        clock = ManualClock()
        protocol = self.listen(PingResponderProtocol(THEIRS, clock=clock))
        whole = Ping(1, OURS).to_bytes()
        with capturedLogs() as logged:
            for _ in range(10_000):
                protocol.datagramReceived(b"", (ALPHA, 4057))
                protocol.datagramReceived(whole, (ALPHA, 4057))
            clock.advance(20)
            protocol.datagramReceived(b"", (ALPHA, 4057))
        lines = [formatEvent(each) or "" for each in logged]
        self.assertLessEqual(len(lines), 10)
        self.assertIn(" more since the last such line", lines[-1])

    def test_session_packet_is_not_answered(self) -> None:
        """MQQB-2.1.2-08: only Ping Packets count here; an EstablishConnection over UDP is ignored.

        That a ping over TCP ends the session is shown in tests.session.test_handshake.
        """
        protocol = self.listen(PingResponderProtocol(THEIRS, clock=StandingClock()))
        protocol.datagramReceived(vector("mqqb-4.1.3-establish-connection-request"), (ALPHA, 4057))
        self.assertEqual(self.transport.written, [])

    def test_rf_follows_the_number_of_sessions(self) -> None:
        """MQQB-2.2.7-04 MQQB-3.1.7.7-03: at MaxInSessions RF is 1, below it 0; in our requests it is 0.

        By default there is no limit.
        """
        request = PingInitiator(OURS, SessionSettings(max_sessions=0)).ask(BETA, Moment(0.0, 0.0))
        self.assertFalse(Ping.from_bytes(request.datagram).is_refused)
        sessions = 0
        protocol = PingResponderProtocol(
            THEIRS,
            clock=StandingClock(),
            settings=SessionSettings(max_sessions=2),
            session_count=lambda: sessions,
        )
        self.listen(protocol)
        for sessions in (1, 2, 3):
            protocol.datagramReceived(Ping(sessions, OURS).to_bytes(), (ALPHA, 4057))
        refused = [Ping.from_bytes(datagram).is_refused for datagram, _ in self.transport.written]
        self.assertEqual(refused, [False, True, True])
        self.assertEqual(SessionSettings().max_sessions, 0xFFFFFFFF)

    def test_subclass_decides_whom_it_refuses(self) -> None:
        """The hook is asked with the address of the initiator."""
        protocol = self.listen(Recording(refused_hosts=(BETA,)))
        protocol.datagramReceived(Ping(1, OURS).to_bytes(), (ALPHA, 4057))
        protocol.datagramReceived(Ping(2, OURS).to_bytes(), (BETA, 4057))
        refused = [Ping.from_bytes(datagram).is_refused for datagram, _ in self.transport.written]
        self.assertEqual(refused, [False, True])

    def test_hooks_see_what_happens(self) -> None:
        """A subclass can watch what is answered and what is not, and why."""
        protocol = Recording()
        self.listen(protocol)
        protocol.datagramReceived(Ping(7, OURS).to_bytes(), (ALPHA, 4057))
        protocol.datagramReceived(b"?", (BETA, 9))
        self.assertEqual(protocol.seen, [(7, (ALPHA, 4057)), (Ignored.MALFORMED, (BETA, 9))])

    def test_too_many_are_dropped(self) -> None:
        """More requests in a second than the settings allow get no answer, and are counted."""
        protocol = self.listen(Recording(SessionSettings(pings_per_second=10)))
        for number in range(30):
            protocol.datagramReceived(Ping(number, OURS).to_bytes(), (f"10.0.1.{number}", 4057))
        self.assertEqual(len(self.transport.written), 10)
        self.assertEqual(protocol.responder.ignored, {Ignored.RATE: 20})

    def test_source_that_the_system_refuses_to_answer(self) -> None:
        """A forged source that cannot be reached is not an error of ours, and is not counted as answered."""

        class Unreachable(FakeDatagramTransport):
            def write(self, packet: bytes, addr: object = None) -> None:
                raise OSError(101, "Network is unreachable")

        protocol = Recording()
        protocol.makeConnection(Unreachable())
        protocol.datagramReceived(Ping(1, OURS).to_bytes(), (ALPHA, 4057))
        self.assertEqual(protocol.seen, [])


class PingerTests(SynchronousTestCase):
    """How we ask, over a network."""

    settings = SessionSettings()

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock.reactor, conditions=Conditions(delay=0.1))
        self.pinger = self.pinger_on(self.network.host(ALPHA))

    def pinger_on(self, host: MemoryHost, settings: SessionSettings | None = None) -> Pinger:
        return Pinger(OURS, reactor=host, clock=self.clock, settings=settings or self.settings)

    def respond(
        self, address: str, *, port: int = 3527, settings: SessionSettings | None = None
    ) -> PingResponderProtocol:
        protocol = PingResponderProtocol(THEIRS, clock=self.clock, settings=settings)
        self.network.host(address).listenUDP(port, protocol)
        return protocol

    def destinations(self) -> list[tuple[str, int]]:
        return [sent.destination for sent in self.network.datagrams if sent.source[0] == ALPHA]

    def test_answer(self) -> None:
        """A host that would accept a session answers with its identifier, after one round trip."""
        self.respond(BETA)
        answer = self.pinger.ask(BETA)
        self.clock.advance(0.1)
        self.assertNoResult(answer)
        self.clock.advance(0.1)
        reply = self.successResultOf(answer)
        self.assertAlmostEqual(reply.seconds, 0.2)
        self.assertEqual(attrs.evolve(reply, seconds=0.2), PingReply(BETA, True, THEIRS, False, 0.2))

    def test_request_as_the_documents_print_it(self) -> None:
        """MQQB-2.1.2-02 MQQB-3.1.7.6-02: the fourth request, byte for byte, goes to UDP port 3527."""
        for _ in range(4):
            self.pinger.ask(BETA)
            self.clock.advance(1.0)
        last = self.network.datagrams[-1]
        self.assertEqual(last.payload.hex(), "0100485504000000" + OURS.bytes_le.hex())
        self.assertEqual(last.destination, (BETA, 3527))

    def test_port_is_configurable(self) -> None:
        """MQQB-2.1.2-06: requests go to the configured port and are answered there; unset it is 3527."""
        settings = SessionSettings(ping_port=4000)
        self.respond(BETA, port=settings.ping_port, settings=settings)
        self.assertEqual(SessionSettings().ping_port, 3527)
        answer = self.pinger_on(self.network.host(ALPHA), settings).ask(BETA)
        self.clock.advance(0.2)
        self.assertTrue(self.successResultOf(answer).will_accept)
        self.assertEqual(self.destinations(), [(BETA, 4000)])

    def test_port_of_one_question(self) -> None:
        """A question can name its own port."""
        self.pinger.ask(BETA, 4001)
        self.assertEqual(self.destinations(), [(BETA, 4001)])

    def test_response_is_heard_on_the_source_port_only(self) -> None:
        """MQQB-2.1.2-03: a response to another port of the same host is never seen."""
        answer = self.pinger.ask(BETA)
        [request] = self.network.datagrams
        self.network.host(ALPHA).listenUDP(3527, DatagramProtocol())
        response = Ping(1, THEIRS).to_bytes()
        self.network.send((BETA, 3527), (ALPHA, 3527), response)
        self.clock.advance(0.5)
        self.assertNoResult(answer)
        self.network.send((BETA, 3527), request.source, response)
        self.clock.advance(0.1)
        self.assertTrue(self.successResultOf(answer).will_accept)

    def test_refusal(self) -> None:
        """A queue manager that is full says so at once."""
        self.respond(BETA, settings=SessionSettings(max_sessions=0))
        answer = self.pinger.ask(BETA)
        self.clock.advance(0.2)
        reply = self.successResultOf(answer)
        self.assertEqual((reply.will_accept, reply.refused, reply.identifier), (False, True, THEIRS))

    def test_silence(self) -> None:
        """Without an answer the result after exactly one second is no."""
        answer = self.pinger.ask(BETA)
        self.clock.advance(0.999)
        self.assertNoResult(answer)
        self.clock.advance(0.001)
        self.assertEqual(self.successResultOf(answer), PingReply(BETA, False, None, False, 1.0))

    def test_would_accept_is_the_short_answer(self) -> None:
        """The answer that an attempt to open a session needs."""
        self.respond(BETA)
        yes = self.pinger.would_accept(BETA)
        self.clock.advance(0.2)
        no = self.pinger.would_accept(GAMMA)
        self.clock.advance(1.0)
        self.assertEqual([self.successResultOf(yes), self.successResultOf(no)], [True, False])

    def test_one_request_at_a_time(self) -> None:
        """Only the newest request can be answered, so two requests are sent one after the other."""
        self.respond(BETA)
        self.respond(GAMMA)
        answers = [self.pinger.ask(BETA), self.pinger.ask(GAMMA)]
        self.assertEqual(self.destinations(), [(BETA, 3527)])
        self.clock.advance(0.4)
        self.assertEqual([self.successResultOf(answer).will_accept for answer in answers], [True, True])

    def test_each_request_has_its_own_second(self) -> None:
        """A request behind a silent host still gets a whole second."""
        silent, second = self.pinger.ask(BETA), self.pinger.ask(GAMMA)
        self.clock.advance(1.0)
        self.successResultOf(silent)
        self.clock.advance(0.999)
        self.assertNoResult(second)
        self.clock.advance(0.001)
        self.assertEqual(self.successResultOf(second).seconds, 1.0)

    def test_asking_again_from_an_answer(self) -> None:
        """The callback of an answer may send the next request."""
        self.respond(BETA)
        answer = self.pinger.ask(BETA).addCallback(lambda _: self.pinger.ask(BETA))
        self.clock.advance(0.4)
        self.assertTrue(self.successResultOf(answer).will_accept)

    def test_pending_request_can_be_cancelled(self) -> None:
        """The next in line is sent at once, and the late answer affects no other."""
        self.respond(BETA)
        first, second = self.pinger.ask(BETA), self.pinger.ask(GAMMA)
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.assertEqual(self.destinations(), [(BETA, 3527), (GAMMA, 3527)])
        self.clock.advance(0.9)
        self.assertNoResult(second)

    def test_question_in_line_can_be_cancelled(self) -> None:
        """It is never sent."""
        self.pinger.ask(BETA)
        second = self.pinger.ask(GAMMA)
        second.cancel()
        self.failureResultOf(second, CancelledError)
        self.clock.advance(2.0)
        self.assertEqual(self.destinations(), [(BETA, 3527)])

    def test_garbage_is_ignored(self) -> None:
        """Any other datagram is ignored, and the wait continues."""
        answer = self.pinger.ask(BETA)
        [request] = self.network.datagrams
        for source, payload in (
            (BETA, b"rubbish"),
            (BETA, Ping(9, THEIRS).to_bytes()),
            (GAMMA, request.payload),
        ):
            self.network.send((source, 3527), request.source, payload)
        self.clock.advance(0.5)
        self.assertNoResult(answer)

    def test_name_is_refused(self) -> None:
        """Names are resolved before."""
        self.failureResultOf(self.pinger.ask("beta.example"), LocalProtocolError)

    def test_port_is_refused(self) -> None:
        """A port that no socket sends to is refused, and does no harm to later pings."""
        for port in (0, -1, 65536, "3527", 3.5):
            self.failureResultOf(self.pinger.ask(BETA, cast(int, port)), LocalProtocolError)
        answer = self.pinger.ask(BETA)
        self.clock.advance(1)
        self.assertFalse(self.successResultOf(answer).will_accept)
        self.assertEqual(len(self.network.datagrams), 1)

    def test_host_without_the_family(self) -> None:
        """A host that has no IPv6 cannot ask an IPv6 address, and says so at once."""

        class OnlyIPv4(MemoryHost):
            def listenUDP(
                self, port: int, protocol: DatagramProtocol, interface: str = "", maxPacketSize: int = 8192
            ) -> IListeningPort:
                if ":" in interface:
                    raise CannotListenError(interface, port, OSError(97, "not supported"))
                return super().listenUDP(port, protocol, interface, maxPacketSize)

        pinger = self.pinger_on(OnlyIPv4(self.network, ALPHA))
        answer = pinger.ask("2001:db8::1")
        reply = self.successResultOf(answer)
        self.assertFalse(reply.will_accept)
        self.assertIn("not supported", reply.problem)

    def test_ipv6(self) -> None:
        """IPv6 hosts ask each other too, however an address is spelled."""
        self.respond("2001:db8::2")
        pinger = self.pinger_on(self.network.host("2001:db8::1"))
        answer = pinger.ask("2001:DB8:0::2")
        self.clock.advance(0.2)
        self.assertTrue(self.successResultOf(answer).will_accept)

    def test_stop(self) -> None:
        """Waiting callers get an error, the socket is closed, nothing is scheduled, and no request is
        sent.
        """
        answers = [self.pinger.ask(BETA), self.pinger.ask(GAMMA)]
        [request] = self.network.datagrams
        self.successResultOf(self.pinger.stop())
        for answer in answers:
            self.failureResultOf(answer, CancelledError)
        self.assertIsNone(self.network.host(ALPHA).datagram_port(request.source[1]))
        self.failureResultOf(self.pinger.ask(BETA), LocalProtocolError)
        self.clock.advance(0.1)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])

    def test_stop_without_having_asked(self) -> None:
        """There is nothing to close."""
        self.successResultOf(self.pinger.stop())

    def test_loop_of_two_responders_ends(self) -> None:
        """One datagram with a forged source does not make two responders answer each other for ever."""
        self.respond(BETA)
        self.respond(GAMMA)
        self.network.send((BETA, 3527), (GAMMA, 3527), Ping(1, OURS).to_bytes())
        self.clock.advance(60.0)
        quiet = len(self.network.datagrams)
        self.assertLess(quiet, 50)
        self.clock.advance(600.0)
        self.assertEqual(len(self.network.datagrams), quiet)


class SocketTests(TestCase):
    """Over real sockets on loopback."""

    def reactor(self) -> PingReactor:
        from twisted.internet import reactor

        return cast("PingReactor", reactor)

    async def ask(self, interface: str) -> None:
        reactor, clock = self.reactor(), StandingClock()
        listening = reactor.listenUDP(0, PingResponderProtocol(THEIRS, clock=clock), interface)
        pinger = Pinger(OURS, reactor=reactor, clock=clock)
        try:
            host = listening.getHost()
            assert isinstance(host, IPv4Address | IPv6Address)
            reply = await pinger.ask(interface, host.port)
        finally:
            await pinger.stop()
            await maybeDeferred(listening.stopListening)
        self.assertEqual((reply.address, reply.identifier), (interface, THEIRS))
        self.assertTrue(reply.will_accept)

    async def test_ipv4(self) -> None:
        """A queue manager on an address of its own answers from it."""
        await self.ask("127.0.0.9")

    async def test_ipv6(self) -> None:
        """The same over IPv6, where the machine has it."""
        try:
            probe = self.reactor().listenUDP(0, DatagramProtocol(), "::1")
        except CannotListenError:
            raise self.skipTest("no IPv6 loopback on this machine") from None
        await maybeDeferred(probe.stopListening)
        await self.ask("::1")
