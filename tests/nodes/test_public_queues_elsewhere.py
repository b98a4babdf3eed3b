"""Public queues of other queue managers, as applications, acknowledgements and reports use them."""

from __future__ import annotations

from uuid import UUID

from msmq.manager.public_names import FRESH
from msmq.queues.descriptor import QueueAccessType
from msmq.queues.message import Acknowledge, Delivery, Message
from msmq.structures.format_name import PublicFormatName, parse_format_name
from msmq.structures.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.nodes.support import Node
from tests.nodes.test_routing import IDENTIFIERS, ORDERS, EnterpriseTestCase


class PublicQueuesElsewhereTests(EnterpriseTestCase):
    """The queue ZETA\\orders, for everybody else."""

    def setUp(self) -> None:
        super().setUp()
        self.run_to_end(self.zeta.service.create_queue("ZETA\\orders"))
        self.name: str = self.zeta.service.queue("ZETA\\orders")["format_name"]

    def forget(self) -> None:
        """What is known of public queues is too old."""
        self.clock.advance(FRESH + 1)

    def test_open_queue(self) -> None:
        """It is opened by its format name without waiting, and looked for at each sending that needs it."""
        queue = self.alpha.service.open_queue(self.name, QueueAccessType.SEND)
        self.assertEqual(queue.format_name, self.name)
        self.run_to_end(queue.send([Message(body=b"first")]))
        self.forget()
        self.run_to_end(queue.send([Message(body=b"later")]))
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [b"first", b"later"])

    def test_open_queue_that_nobody_has(self) -> None:
        """Who sends is told; so is one whose directory is away."""
        queue = self.alpha.service.open_queue(f"PUBLIC={UUID(int=0x77)}", QueueAccessType.SEND)
        for is_connected, status in ((True, Status.MQ_ERROR_QUEUE_NOT_FOUND), (False, Status.MQ_ERROR_NO_DS)):
            assert self.directory is not None
            self.directory.is_connected = is_connected
            failure = self.failureResultOf(self.deferred(queue.send([Message(body=b"x")])), MQError)
            self.assertEqual(failure.value.status, status)

    def test_open_queue_by_path(self) -> None:
        """Its format name is asked for first; with others it is one of several destinations."""
        refused = self.assertRaises(
            MQError, self.alpha.service.open_queue, "ZETA\\orders", QueueAccessType.SEND
        )
        self.assertEqual(refused.status, Status.MQ_ERROR_NO_DS)
        name = self.run_to_end(self.alpha.service.format_name("zeta\\Orders"))
        self.assertEqual(name, self.name)
        own = self.alpha.service.queue(self.queue(self.alpha))["format_name"]
        queue = self.alpha.service.open_queue(f"{name},{own}", QueueAccessType.SEND)
        self.forget()
        self.run_to_end(queue.send([Message(body=b"both")]))
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [b"both"])
        self.assertEqual(self.bodies(self.alpha, ORDERS), [b"both"])

    def test_administration_queue(self) -> None:
        """An acknowledgement for a public queue elsewhere waits until it is known where that is."""
        path = self.queue(self.nodes["GAMMA"])
        for body in (b"one", b"two"):
            self.send(
                self.alpha,
                self.private_name(self.nodes["GAMMA"], path),
                body,
                acknowledge=Acknowledge.POSITIVE_ARRIVAL,
                admin_queue=parse_format_name(self.name),
            )
        self.clock.advance(10)
        answers = self.take(self.zeta, "ZETA\\orders")
        self.assertEqual([view.message_class for view in answers], [MessageClass.ACK_REACH_QUEUE] * 2)
        self.assertEqual(answers[0].queue_manager_address, IDENTIFIERS["ZETA"].bytes_le)

    def test_administration_queue_that_nobody_has(self) -> None:
        """The message is there all the same, and nobody waits for the acknowledgement."""
        path = self.queue(self.nodes["GAMMA"])
        self.send(
            self.alpha,
            self.private_name(self.nodes["GAMMA"], path),
            b"x",
            acknowledge=Acknowledge.POSITIVE_ARRIVAL,
            admin_queue=parse_format_name(f"PUBLIC={UUID(int=0x77)}"),
        )
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.nodes["GAMMA"], path), [b"x"])
        self.assertEqual(self.nodes["GAMMA"].service.outgoing(), [])

    def test_report_queue(self) -> None:
        """Reports of a traced message go to a public queue elsewhere."""
        self.kill("ALPHA")
        alpha = self.nodes["ALPHA"] = Node(
            self.network,
            self.clock,
            "ALPHA",
            IDENTIFIERS["ALPHA"],
            self.settings,
            self.disks["ALPHA"],
            directory=self.directory,
            options={"report_messages": True},
        )
        alpha.start()
        path = self.queue(self.nodes["GAMMA"])
        identifier = parse_format_name(self.name)
        assert isinstance(identifier, PublicFormatName)
        self.send(alpha, self.private_name(self.nodes["GAMMA"], path), b"x", trace=identifier.queue)
        self.clock.advance(10)
        [report] = self.take(self.zeta, "ZETA\\orders")
        self.assertEqual(report.message_class, MessageClass.REPORT)

    def test_restart_while_the_directory_is_away(self) -> None:
        """What waits for a public queue waits until somebody knows where that is, and goes by itself."""
        assert self.directory is not None
        self.kill("BETA")
        self.send(self.alpha, self.name, b"kept", delivery=Delivery.RECOVERABLE)
        self.clock.advance(1)
        self.kill("ALPHA")
        self.directory.is_connected = False
        self.revive("ALPHA")
        self.revive("BETA")
        for _ in range(30):
            self.clock.advance(1)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [])
        self.directory.is_connected = True
        for _ in range(90):
            self.clock.advance(2)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [b"kept"])
