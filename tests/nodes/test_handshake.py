"""How two queue managers come to a session, as seen from the network between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.net.connector import Connector
from msmq.net.resolver import NextHopAddress
from msmq.net.session_factory import SessionFactory
from msmq.settings import SessionSettings
from msmq.structures.internal.classification import PacketKind, classify
from msmq.structures.packet.user_message_view import measure_user_message
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from msmq.wire.framer import StreamFramer
from tests.builders import ALPHA, BETA
from tests.nodes.support import Node, NodesTestCase
from tests.shares import SHARES

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"


def kinds(data: bytes) -> list[PacketKind]:
    """The packets of a stream."""
    return [classify(packet) for packet, _ in StreamFramer(measure_user_message).feed(data)]


class HandshakeTests(NodesTestCase):
    """The order of things on the wire."""

    def test_the_handshake_comes_first(self) -> None:
        """Both sides exchange EC, then CP, and only then messages; no ping by default.

        MQQB-2.1.1-05, MQQB-2.1-02, MQQB-2.1.1-01, MQQB-3.1.1.7.1-01.
        """
        self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"1", b"2", b"3")
        self.clock.advance(1)
        [link] = self.network.links
        establish, parameters = PacketKind.ESTABLISH_CONNECTION, PacketKind.CONNECTION_PARAMETERS
        self.assertEqual(kinds(link.initiator.data), [establish, parameters, *[PacketKind.USER_MESSAGE] * 3])
        self.assertEqual(kinds(link.acceptor.data)[:2], [establish, parameters])
        self.assertEqual(self.network.datagrams, [])
        self.assertEqual(link.acceptor.getHost().port, 1801)

    def test_messages_that_waited_leave_in_order_once_it_is_open(self) -> None:
        """Queued before there was a connection, sent right after the handshake.

        MQQB-3.1.5.4.2-04.
        """
        path = self.queue(self.beta)
        self.beta.deaf()
        self.send(self.alpha, TO_BETA, *[b"%d" % number for number in range(5)])
        self.clock.advance(4)
        self.beta.listen()
        self.clock.advance(2)
        self.assertEqual(self.alpha.service.inspection.outgoing()[0].state, "CONNECTED")
        self.assertEqual(self.bodies(self.beta, path), [b"%d" % number for number in range(5)])

    def test_a_queue_that_was_paused_meanwhile_stays_paused(self) -> None:
        """An open session changes neither its state nor its messages (MQQB-3.1.5.4.2-04)."""
        path = self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"1", b"2")
        self.alpha.service.pause_outgoing(TO_BETA)
        self.clock.advance(1)
        self.assertEqual(len(self.alpha.service.inspection.sessions()), 1)
        self.assertEqual(self.alpha.service.inspection.outgoing()[0].state, "ONHOLD")
        self.assertEqual(self.bodies(self.beta, path), [])
        self.alpha.service.resume_outgoing(TO_BETA)
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, path), [b"1", b"2"])

    def test_the_queue_goes_through_its_states(self) -> None:
        """Waiting, Connected, Disconnecting, Disconnected (MQQB-3.1.5.9-02)."""
        self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"1")
        queue = next(self.alpha.model.outgoing_queues())
        states = [queue.state.value]
        self.clock.advance(30)
        states.append(queue.state.value)
        [session] = self.alpha.factory.connections
        session.close()
        states.append(queue.state.value)
        self.clock.advance(1)
        states.append(queue.state.value)
        self.assertEqual(states, ["WAITING", "CONNECTED", "DISCONNECTING", "DISCONNECTED"])

    def test_express_traffic_names_no_recoverable_message(self) -> None:
        """RecoverableMsgAckSeqNumber and its flags stay 0 (MQQB-2.2.6-05)."""
        self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"1", b"2")
        self.clock.advance(60)
        [link] = self.network.links
        acknowledgement = link.acceptor.data[-36:]
        self.assertEqual(kinds(acknowledgement), [PacketKind.SESSION_ACK])
        self.assertEqual(acknowledgement[22:28], bytes(6))

    def test_a_queue_that_is_no_acknowledgements_is_rejected(self) -> None:
        """A message to order_queue$ that is not an OrderAck or FinalAck is dropped."""
        self.send(self.alpha, "DIRECT=TCP:127.0.0.3\\private$\\order_queue$", b"x")
        self.clock.advance(60)
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_BAD_DST_Q": 1})
        self.assertEqual(self.alpha.service.inspection.outgoing()[0].messages, 0)

    def test_limits_count_every_initiator(self) -> None:
        """MaxInSessions 1: the second initiator is refused, whether it pinged or not.

        MQQB-3.1.5.3.1-02.
        """
        limited = SessionSettings(max_sessions=1)
        self.beta.factory.settings = limited
        self.queue(self.beta)
        gamma = self.node("GAMMA", BETA)
        gamma.start()
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(1)
        self.send(gamma, TO_BETA, b"2")
        self.clock.advance(1)
        [outgoing] = gamma.service.inspection.outgoing()
        self.assertEqual(outgoing.history[-1].status.document_name, "ConnectionRefused")
        self.assertEqual(len(self.beta.service.inspection.sessions()), 1)


class UnansweredPingTests(NodesTestCase):
    """ALPHA pings before it opens a session, and BETA answers no ping."""

    settings = SessionSettings(ping_before_session=True)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return super().node(name, identifier, probe=self.probe, **kwargs)

    async def probe(self, address: str) -> bool:
        return False

    def test_it_is_recorded_and_tried_again(self) -> None:
        """The history has PingFailure with the address, and five seconds later the message is delivered.

        MQQB-3.1.5.2.2-03.
        """
        path = self.queue(self.beta)
        now = self.clock.now().unix_seconds
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(4.9)
        [outgoing] = self.alpha.service.inspection.outgoing()
        [entry] = outgoing.history
        self.assertEqual(entry.status.document_name, "PingFailure")
        self.assertEqual((entry.time, entry.addresses), (now, ("127.0.0.3",)))
        self.assertEqual(self.network.links, [])
        self.clock.advance(0.2)
        self.assertEqual(self.bodies(self.beta, path), [b"1"])


class OrderOfAttemptTests(SynchronousTestCase):
    """[MS-MQQB] 3.1.5.2: resolve, then ping, then connect and establish."""

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock.reactor)
        self.here = self.network.host("127.0.0.2")
        self.there = self.network.host("127.0.0.3")
        self.steps: list[str] = []
        self.answer = True
        self.backlog = True
        self.settings = SessionSettings(ping_before_session=True)
        self.factory = SessionFactory(
            ALPHA, reactor=self.clock.reactor, clock=self.clock, shares=SHARES, settings=self.settings
        )
        self.peer = SessionFactory(BETA, reactor=self.clock.reactor, clock=self.clock, shares=SHARES)

    async def resolve(self) -> Sequence[NextHopAddress]:
        self.steps.append("resolve")
        endpoint = self.here.client_endpoint("127.0.0.3", 1801)
        return [NextHopAddress("127.0.0.3", 1801, endpoint)]

    async def probe(self, address: str) -> bool:
        self.steps.append(f"ping {address}")
        self.steps += ["connected"] * len(self.network.links)
        return self.answer

    def connector(self) -> Connector:
        return Connector(self.factory, self.resolve, lambda: self.backlog, probe=self.probe)

    def listen(self) -> None:
        self.successResultOf(self.there.server_endpoint(1801).listen(self.peer))

    def test_resolves_then_pings_then_establishes(self) -> None:
        """The answer to the ping comes before the connection; the request says that it was sent.

        MQQB-3.1.5.2-01, MQQB-3.1.5.2.2-02.
        """
        self.listen()
        self.connector().connect()
        self.clock.advance(1)
        self.assertEqual(self.steps, ["resolve", "ping 127.0.0.3"])
        [link] = self.network.links
        self.assertEqual(link.initiator.data[56:58], b"\x10\x00")

    def test_an_unanswered_ping_ends_the_attempt(self) -> None:
        """No connection is tried, and the next attempt comes after the retry time, without a ping.

        MQQB-3.1.5.2.2-01.
        """
        self.listen()
        self.answer = False
        connector = self.connector()
        connector.connect()
        self.clock.advance(1)
        self.assertEqual(self.network.links, [])
        self.clock.advance(4.5)
        connector.connect(is_retry=True)
        self.clock.advance(1)
        self.assertEqual(self.steps, ["resolve", "ping 127.0.0.3", "resolve"])
        self.assertEqual(len(self.network.links), 1)
