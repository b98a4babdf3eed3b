"""Messages for a foreign site, and the connector queues in which they wait for a connector program.

Rome is foreign: ZETA is not a queue manager, and the routing server EPSILON has the connector program.
"""

from __future__ import annotations

from msmq.directory.memory import MemoryDirectory
from msmq.membership.objects import SiteObject
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.nodes.routes.test_routing import IDENTIFIERS, ROME, EnterpriseTestCase

CONNECTOR = f"CONNECTOR={ROME}"
FOREIGN = f"PRIVATE={IDENTIFIERS['ZETA']}\\00000007"
COUNT = 30
JOURNAL = ".\\system$;journal"


class ConnectorTests(EnterpriseTestCase):
    """From ALPHA in Berlin to a queue of ZETA."""

    def setUp(self) -> None:
        super().setUp()
        self.kill("ZETA")
        self.answers = self.queue(self.alpha, "answers")

    def enterprise(self) -> MemoryDirectory:
        directory = super().enterprise()
        directory.write(SiteObject(identifier=ROME, foreign_site=True), ("foreign_site",))
        return directory

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)

    def make(self) -> None:
        """Both connector queues."""
        epsilon = self.nodes["EPSILON"]
        self.queue(epsilon, f"connector-{ROME}")
        self.queue(epsilon, f"connector-{ROME}-xactonly", transactional=True)

    def waiting(self, name: str) -> int:
        return sum(queue.messages for queue in self.nodes[name].service.inspection.outgoing())

    def acknowledged(self) -> list[int]:
        return [view.message_class for view in self.take(self.alpha, self.answers)]

    def send_one(self, body: bytes, **properties: object) -> None:
        message = Message(
            body=body,
            delivery=Delivery.RECOVERABLE,
            journal=True,
            acknowledge=Acknowledge.POSITIVE_ARRIVAL
            | Acknowledge.POSITIVE_RECEIVE
            | Acknowledge.NEGATIVE_RECEIVE,
            admin_queue=parse_format_name(self.private_name(self.alpha, self.answers)),
            **properties,  # type: ignore[arg-type]
        )
        self.run_to_end(self.alpha.service.send(FOREIGN, [message]))

    def test_without_a_connector_queue(self) -> None:
        """They wait at the connector server, which has no connector queue, and nothing is acknowledged."""
        self.send_one(b"x")
        self.wait(30)
        self.assertEqual(self.waiting("EPSILON"), 1)
        self.assertEqual(self.acknowledged(), [])
        failure = self.failureResultOf(
            self.deferred(self.nodes["EPSILON"].service.reserve(CONNECTOR, timeout=0)), MQError
        )
        self.assertEqual(failure.value.status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)

    def test_received(self) -> None:
        """They are received from the connector queue by its format name, and acknowledged then.

        The name of the foreign queue stands in them.
        """
        self.make()
        self.send_one(b"x")
        self.wait(30)
        epsilon = self.nodes["EPSILON"].service
        self.assertEqual(self.acknowledged(), [MessageClass.ACK_REACH_QUEUE])
        reservation = self.run_to_end(epsilon.reserve(CONNECTOR, timeout=0))
        [message] = reservation.messages
        self.assertEqual(bytes(message.view.body), b"x")
        self.assertEqual(message.view.queue_manager_address, IDENTIFIERS["ZETA"].bytes_le)
        self.wait(5)
        self.assertEqual(self.acknowledged(), [])
        self.run_to_end(reservation.confirm())
        self.wait(5)
        self.assertEqual(self.acknowledged(), [MessageClass.ACK_RECEIVE])
        self.assertEqual([self.waiting(name) for name in ("ALPHA", "BETA", "DELTA", "EPSILON")], [0] * 4)

    def test_rejected(self) -> None:
        """A message that the foreign system does not accept is rejected, and the sender is notified."""
        self.make()
        self.send_one(b"x")
        self.wait(30)
        reservation = self.run_to_end(self.nodes["EPSILON"].service.reserve(CONNECTOR, timeout=0))
        reservation.reject()
        self.wait(5)
        self.assertEqual(
            self.acknowledged(), [MessageClass.ACK_REACH_QUEUE, MessageClass.NACK_RECEIVE_REJECTED]
        )

    def test_transactional(self) -> None:
        """Transactional messages are in a queue of their own, once and in order, whichever server dies in
        transit.

        OrderAcks and FinalAcks come from the connector server; when a message was received its sender
        journals it.
        """
        self.make()
        self.kill("DELTA")
        self.kill("EPSILON")
        for number in range(COUNT):
            self.send_one(b"%d" % number, transactional=True)
        self.wait(30)
        self.revive("EPSILON")
        self.wait(70)
        self.kill("EPSILON")
        self.revive("DELTA")
        self.revive("EPSILON")
        self.wait(70)
        epsilon = self.nodes["EPSILON"]
        self.assertEqual(self.bodies(epsilon, CONNECTOR), [])
        self.assertEqual(
            self.bodies(epsilon, f"{CONNECTOR};XACTONLY"), [b"%d" % number for number in range(COUNT)]
        )
        self.wait(70)
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages, COUNT)
        self.assertEqual(self.waiting("ALPHA"), 0)

    def test_directory_not_read_yet(self) -> None:
        """A connector server that knows no enterprise yet leaves recoverable messages with their sender.

        They might be for a connector queue, and a foreign system would never be reached.
        """
        assert self.directory is not None
        self.kill("EPSILON")
        self.disks.pop("EPSILON")
        self.directory.is_connected = False
        self.options = {"routing_server": True}
        self.revive("EPSILON")
        self.make()
        self.send_one(b"x")
        self.wait(30)
        self.assertEqual((self.waiting("DELTA"), self.waiting("EPSILON")), (1, 0))
        self.assertGreater(self.nodes["EPSILON"].service.inspection.status().refused["ENTERPRISE_UNKNOWN"], 0)
        self.directory.is_connected = True
        self.wait(200)
        self.assertEqual(self.bodies(self.nodes["EPSILON"], CONNECTOR), [b"x"])

    def test_queue_of_the_wrong_kind(self) -> None:
        """A connector queue that is not transactional takes no transactional messages."""
        epsilon = self.nodes["EPSILON"]
        self.queue(epsilon, f"connector-{ROME}")
        self.queue(epsilon, f"connector-{ROME}-xactonly")
        self.send_one(b"x", transactional=True, dead_letter=True)
        self.wait(60)
        self.assertEqual(self.bodies(epsilon, f"{CONNECTOR};XACTONLY"), [])
        dead_letters = self.run_to_end(
            self.alpha.service.reserve(".\\system$;deadxact", timeout=0, peek=True)
        )
        self.assertEqual(
            [each.view.message_class for each in dead_letters.messages],
            [MessageClass.NACK_NOT_TRANSACTIONAL_Q],
        )
