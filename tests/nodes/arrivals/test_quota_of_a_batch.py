"""Messages that come together, of which one takes space that another was promised. [MS-MQQB] 3.1.5.8.8."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory

from msmq.queues.arriving.message import Message
from msmq.queues.machine_quota import QuotaKind
from tests.builders import GAMMA, user_packet
from tests.nodes.outgoing.senders import TO_GAMMA, SlowStoreTestCase
from tests.nodes.routes.test_routing import IDENTIFIERS, EnterpriseTestCase
from tests.nodes.scripted import JOURNAL, NEGATIVE, Peer, final_ack, transactional


class FinalAckTests(SlowStoreTestCase):
    """ALPHA, whose messages may have 5 KiB, has sent a journaled message of 3 KiB to GAMMA."""

    def done(self, work: Coroutine[Deferred[object], Any, object]) -> None:
        """Wait until the store has something."""
        waiting = self.deferred(work)
        self.clock.advance(5)
        self.successResultOf(waiting)

    def test_journal_copy(self) -> None:
        """The copy that the FinalAck causes takes no space from a message of the same batch, which would be
        taken for a duplicate when its sender sends it again.
        """
        path, service = ".\\private$\\plain", self.alpha.service
        self.done(service.create_queue(path))
        self.done(service.send(TO_GAMMA, [Message(body=bytes(2700), transactional=True, journal=True)]))
        self.done(service.set_quotas({QuotaKind.QUEUES: 5}))
        packet = user_packet(
            b"y" * 1200, destination="TCP:127.0.0.2\\private$\\plain", recoverable=True, source=GAMMA
        )
        self.tell(final_ack(self.peer.messages[0]), packet)
        self.clock.advance(5)
        self.assertEqual(service.inspection.queue(JOURNAL).messages, 1)
        self.done(service.set_quotas({QuotaKind.QUEUES: None}))
        again = self.dial("ALPHA")
        again.send(packet)
        self.clock.advance(5)
        self.assertEqual(service.inspection.queue(path).messages, 1)


class ForwardingTests(EnterpriseTestCase):
    """The gate BETA, with 2 KiB that a message for ZETA and one for itself use up."""

    def setUp(self) -> None:
        super().setUp()
        self.gate = self.nodes["BETA"]
        self.path = self.queue(self.gate, "local")
        number = int(self.private_name(self.zeta, self.queue(self.zeta)).rpartition("\\")[2], 16)
        for name in ("ALPHA", "DELTA", "EPSILON"):
            self.kill(name)
        self.passing = transactional(
            bytes(500),
            (0, 0, 0),
            message_id=1,
            source=IDENTIFIERS["ALPHA"],
            queue_manager=IDENTIFIERS["ZETA"],
            number=number,
            user_flags=NEGATIVE,
            is_transactional=False,
        )

    def local(self, size: int) -> bytes:
        """A message for BETA with a body of this size."""
        return user_packet(
            b"y" * size,
            destination="TCP:127.0.0.3\\private$\\local",
            recoverable=True,
            message_id=2,
            source=IDENTIFIERS["ALPHA"],
        )

    def say(self, *packets: bytes) -> None:
        """Send packets on a new session of ALPHA."""
        peer = Peer(IDENTIFIERS["ALPHA"], is_initiator=True)
        endpoint = self.network.host("127.0.0.2").client_endpoint("127.0.0.3", 1801)
        connecting = endpoint.connect(Factory.forProtocol(lambda: peer))
        self.clock.advance(0.1)
        self.successResultOf(connecting)
        self.assertTrue(peer.is_open)
        peer.send(*packets)
        self.clock.advance(1)

    def test_mark_of_dead_letters(self) -> None:
        """What is stored with a forwarded message, and never sent, takes no space from a message of the same
        batch.
        """
        size = 2048 - len(self.passing) - len(self.local(0))
        packets = self.passing, self.local(size)
        self.assertEqual((sum(map(len, packets)), self.gate.model.storage.used), (2048, 0))
        quotas = self.gate.service.set_quotas
        self.run_to_end(quotas({QuotaKind.QUEUES: 2}))
        self.say(*packets)
        self.run_to_end(quotas({QuotaKind.QUEUES: None}))
        self.say(*packets)
        self.assertEqual(self.bodies(self.gate, self.path), [b"y" * size])
