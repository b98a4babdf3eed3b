"""Messages of peers that state our own identifier as their source."""

from __future__ import annotations

from typing import Any

from twisted.internet.protocol import Factory

from msmq.manager.securing.trusted_peers import TrustedPeers, Unauthenticated
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.arriving.packet_builder import PacketBuilder
from msmq.structures.names.format_name import parse_format_name
from msmq.transfer.source_journaling import SourceJournaling
from tests.nodes.arrivals.test_peer_dead_letters import dead_letters
from tests.nodes.routes.test_routing import IDENTIFIERS, EnterpriseTestCase
from tests.nodes.scripted import DEADLETTER, DEADXACT, JOURNAL, Peer, ScriptedTestCase
from tests.nodes.support import ADDRESSES

OWN = IDENTIFIERS["BETA"]


class OwnSourceTests(EnterpriseTestCase):
    """A peer sends to the gate BETA in BETA's name, with copies for the source and for failures."""

    def setUp(self) -> None:
        super().setUp()
        self.host = self.network.host("127.0.0.66")
        self.gate = self.nodes["BETA"]

    def say_as_gate(self, name: str, to: str, **kwargs: Any) -> None:
        peer = Peer(OWN, is_initiator=True)
        endpoint = self.host.client_endpoint(ADDRESSES["BETA"], 1801)
        connecting = endpoint.connect(Factory.forProtocol(lambda: peer))
        self.clock.advance(0)
        self.successResultOf(connecting)
        self.clock.advance(0.1)
        self.assertTrue(peer.is_open)
        builder = PacketBuilder(
            parse_format_name(name), source=OWN, destination_queue_manager=IDENTIFIERS[to]
        )
        message = Message(
            body=b"forged",
            delivery=Delivery.RECOVERABLE,
            dead_letter=True,
            journal=True,
            time_to_reach_queue=30,
            **kwargs,
        )
        peer.send(builder.build(message, message_id=7, sent_time=self.clock.now().unix_seconds))
        self.wait(1)

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)

    def test_in_a_queue(self) -> None:
        """It is delivered, and the journal of what was sent here has no copy of it."""
        path = self.queue(self.gate)
        self.say_as_gate(self.private_name(self.gate, path), "BETA")
        self.assertEqual(self.bodies(self.gate, path), [b"forged"])
        self.assertEqual(self.bodies(self.gate, JOURNAL), [])

    def test_forwarded(self) -> None:
        """A gate keeps no copy of what it forwards."""
        path = self.queue(self.zeta)
        self.say_as_gate(self.private_name(self.zeta, path), "ZETA")
        self.wait(5)
        self.assertEqual(self.bodies(self.zeta, path), [b"forged"])
        self.assertEqual(self.bodies(self.gate, JOURNAL), [])

    def test_forwarded_where_copies_wait(self) -> None:
        """Nor a copy that waits for the acknowledgement of its arrival, where those of own messages do."""
        self.kill("BETA")
        self.options = {"source_journaling": SourceJournaling.ACKNOWLEDGEMENT}
        self.revive("BETA")
        self.gate = self.nodes["BETA"]
        answers = self.private_name(self.gate, self.queue(self.gate, "answers"))
        asked: dict[str, Any] = {
            "acknowledge": Acknowledge.POSITIVE_ARRIVAL,
            "admin_queue": parse_format_name(answers),
        }
        path = self.queue(self.zeta)
        self.say_as_gate(self.private_name(self.zeta, path), "ZETA", **asked)
        self.wait(5)
        self.assertEqual(self.bodies(self.zeta, path), [b"forged"])
        self.assertEqual(self.gate.model.collection.unproven.message_count, 0)
        self.assertEqual(self.bodies(self.gate, JOURNAL), [])

    def test_that_cannot_be_forwarded(self) -> None:
        """A gate that does not trust the address of its sender keeps no dead letter of it."""
        self.kill("BETA")
        self.options = {"trusted_peers": TrustedPeers(Unauthenticated.DENY)}
        self.revive("BETA")
        self.gate = self.nodes["BETA"]
        self.kill("DELTA")
        self.kill("EPSILON")
        path = self.queue(self.zeta)
        self.say_as_gate(self.private_name(self.zeta, path), "ZETA")
        self.assertEqual(sum(queue.messages for queue in self.gate.service.inspection.outgoing()), 1)
        self.wait(60)
        self.assertEqual(dead_letters(self, self.gate), [])

    def test_its_own_message(self) -> None:
        """What the gate itself sends is journaled, and becomes a dead letter."""
        path = self.queue(self.zeta)
        name = self.private_name(self.zeta, path)
        asked: dict[str, Any] = {"journal": True, "dead_letter": True, "time_to_reach_queue": 30}
        self.send(self.gate, name, b"arrives", delivery=Delivery.RECOVERABLE, **asked)
        self.wait(5)
        self.assertEqual(self.bodies(self.gate, JOURNAL), [b"arrives"])
        self.kill("DELTA")
        self.kill("EPSILON")
        self.send(self.gate, name, b"fails", delivery=Delivery.RECOVERABLE, **asked)
        self.wait(60)
        self.assertEqual([body for body, _ in dead_letters(self, self.gate)], [b"fails"])


class OtherNameTests(ScriptedTestCase):
    """A queue manager sends to itself, by a name that it does not know as its own."""

    def test_journal(self) -> None:
        """What it sent comes over a session, and has one copy: a transactional message when it is received.

        It gets no FinalAck, so nothing else could make the copy, or turn it into a dead letter.
        """
        name = "DIRECT=OS:BETA.EXAMPLE.COM\\private$\\"
        payments, orders = self.queue(self.beta, "t", transactional=True), self.queue(self.beta, "r")
        asked: dict[str, Any] = {"journal": True, "dead_letter": True, "time_to_reach_queue": 60}
        self.send(self.beta, name + "t", b"1", b"2", transactional=True, **asked)
        self.send(self.beta, name + "r", b"3", delivery=Delivery.RECOVERABLE, **asked)
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, JOURNAL), [b"3"])
        self.assertEqual(self.bodies(self.beta, payments), [b"1", b"2"])
        self.assertEqual(self.bodies(self.beta, orders), [b"3"])
        for _ in range(20):
            self.clock.advance(86400)
        self.assertEqual(self.bodies(self.beta, JOURNAL), [b"1", b"2"])
        self.assertEqual((self.bodies(self.beta, DEADXACT), self.bodies(self.beta, DEADLETTER)), ([], []))
