"""[MS-MQDMPR] 3.1.1.12: what the attributes of a message do, between two queue managers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA, BETA
from tests.nodes.support import Node, NodesTestCase

ADMIN = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
NOWHERE = "DIRECT=TCP:127.0.0.9\\private$\\orders"
EVERY_BYTE = bytes(range(256))


class AttributesCase(NodesTestCase):
    """ALPHA, and BETA with a queue; both have stores that keep things."""

    def setUp(self) -> None:
        super().setUp()
        self.admin = self.queue(self.alpha, "admin")
        self.orders = self.queue(self.beta)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return super().node(name, identifier, store=MemoryMessageStore(durable=True), **kwargs)

    def tell(self, node: Node, destination: str, *messages: Message) -> None:
        """Send messages, and let them arrive."""
        self.run_to_end(node.service.send(destination, messages))
        self.clock.advance(1)


class AcknowledgementsRequestedTests(AttributesCase):
    """[MS-MQDMPR] 3.1.1.12 AcknowledgementsRequested: the fates of a message that its sender is notified
    of.
    """

    def fates(self) -> dict[str, tuple[str, dict[str, int], Callable[[], object]]]:
        """The possible fates of a message: its destination, its time limits, and what is done with it."""
        service = self.beta.service
        return {
            "received": (TO_BETA, {}, lambda: self.take(self.beta, self.orders)),
            "purged": (TO_BETA, {}, lambda: self.run_to_end(service.purge_queue(self.orders))),
            "expired": (TO_BETA, {"time_to_be_received": 5}, lambda: self.clock.advance(6)),
            "lost on its way": (NOWHERE, {"time_to_reach_queue": 5}, lambda: self.clock.advance(8)),
        }

    def reported(self, acknowledge: Acknowledge) -> dict[str, list[str]]:
        """The messages in the administration queue for each fate."""
        answers: dict[str, list[str]] = {}
        for fate, (destination, lives, happens) in self.fates().items():
            message = Message(
                body=b"x",
                acknowledge=acknowledge,
                admin_queue=ADMIN if acknowledge else None,
                **lives,  # type: ignore[arg-type]
            )
            self.tell(self.alpha, destination, message)
            happens()
            self.clock.advance(2)
            answers[fate] = [
                MessageClass(view.message_class).name for view in self.take(self.alpha, self.admin)
            ]
        return answers

    ARRIVED = "ACK_REACH_QUEUE"
    RECEIVED = "ACK_RECEIVE"
    PURGED = "NACK_Q_PURGED"
    EXPIRED = "NACK_RECEIVE_TIMEOUT"
    LOST = "NACK_REACH_QUEUE_TIMEOUT"

    def expect(
        self, acknowledge: int, received: list[str], purged: list[str], expired: list[str], lost: list[str]
    ) -> None:
        self.assertEqual(
            self.reported(Acknowledge(acknowledge)),
            {"received": received, "purged": purged, "expired": expired, "lost on its way": lost},
        )

    def test_no_acknowledgement_by_default(self) -> None:
        """MQDMPR-3.1.1.12-31: by default no acknowledgement is requested."""
        self.assertEqual(Message().acknowledge, Acknowledge.NONE)
        self.expect(0, [], [], [], [])

    def test_positive(self) -> None:
        """MQDMPR-3.1.1.12-32: that it arrived, or that it was received."""
        self.expect(0x01, [self.ARRIVED], [self.ARRIVED], [self.ARRIVED], [])
        self.expect(0x02, [self.RECEIVED], [], [], [])

    def test_negative_arrival(self) -> None:
        """MQDMPR-3.1.1.12-33: that it did not arrive."""
        self.expect(0x04, [], [], [], [self.LOST])

    def test_full_reach_queue(self) -> None:
        """MQDMPR-3.1.1.12-35: whether it arrived."""
        self.expect(0x05, [self.ARRIVED], [self.ARRIVED], [self.ARRIVED], [self.LOST])

    def test_negative_receive(self) -> None:
        """MQDMPR-3.1.1.12-36: that it did not arrive, or was not received."""
        self.expect(0x0C, [], [self.PURGED], [self.EXPIRED], [self.LOST])

    def test_full_receive(self) -> None:
        """MQDMPR-3.1.1.12-37: whether it was received, or why it was not."""
        self.expect(0x0E, [self.RECEIVED], [self.PURGED], [self.EXPIRED], [self.LOST])


class ContentTests(AttributesCase):
    """Properties that the application sets, and that no queue manager changes."""

    def arrived(self, *messages: Message) -> list[UserMessageView]:
        """The messages that BETA received."""
        self.tell(self.alpha, TO_BETA, *messages)
        return self.take(self.beta, self.orders)

    def test_opaque_values(self) -> None:
        """Properties for applications arrive unchanged, with any value.

        MQDMPR-3.1.1.12-28.
        """
        connector = UUID(int=0xC0)
        [plain, full] = self.arrived(
            Message(),
            Message(
                application_tag=0xFEDCBA98,
                body_type=0xFFFFFFFF,
                correlation_id=EVERY_BYTE[-20:],
                connector_type=connector,
            ),
        )
        self.assertEqual((plain.application_tag, plain.body_type), (0, 0))
        self.assertEqual((plain.correlation_id, plain.connector_type), (bytes(20), None))
        self.assertEqual((full.application_tag, full.body_type), (0xFEDCBA98, 0xFFFFFFFF))
        self.assertEqual((full.correlation_id, full.connector_type), (EVERY_BYTE[-20:], connector))

    def test_body_and_extension(self) -> None:
        """MQDMPR-3.1.1.12-30: every byte of them arrives; by default they are empty."""
        bodies = (b"", EVERY_BYTE, EVERY_BYTE * 500)
        messages = [
            Message(body=body, extension=extension, delivery=delivery)
            for body in bodies
            for extension in (b"", EVERY_BYTE)
            for delivery in Delivery
        ]
        found = self.arrived(*messages)
        for view, message in zip(found, messages, strict=True):
            self.assertEqual((bytes(view.body), view.extension), (message.body, message.extension))
        self.assertEqual((Message().body, Message().extension), (b"", b""))

    def test_label(self) -> None:
        """MQDMPR-3.1.1.12-38: a label arrives as it was set, with its spaces; by default it is empty."""
        labels = ["", " a label\t", "é" * 249, "\N{GRINNING FACE}"]
        found = self.arrived(Message(), *[Message(label=label) for label in labels])
        self.assertEqual([view.label for view in found], ["", *labels])

    def test_class(self) -> None:
        """MQDMPR-3.1.1.12-08: Normal, unless the application has a class of its own."""
        [plain, custom] = self.arrived(Message(), Message(message_class=0x0123))
        self.assertEqual((plain.message_class, custom.message_class), (MessageClass.NORMAL, 0x0123))

    def test_source_and_destination(self) -> None:
        """The first queue manager and that of the destination are named, the second only by names that
        contain it.

        MQDMPR-3.1.1.12-29.
        """
        private = self.beta.service.inspection.queue(self.orders).format_name
        self.tell(self.alpha, TO_BETA, Message())
        self.tell(self.alpha, private, Message())
        found = self.take(self.beta, self.orders)
        self.assertEqual({view.source_queue_manager for view in found}, {ALPHA.bytes_le})
        self.assertEqual([view.queue_manager_address for view in found], [bytes(16), BETA.bytes_le])

    def test_identifiers(self) -> None:
        """MQDMPR-3.1.1.12-03: no two messages of any two queue managers have the same."""
        own = self.queue(self.alpha, "own")
        self.tell(self.alpha, TO_BETA, *[Message()] * 20)
        self.tell(self.beta, self.orders, *[Message()] * 20)
        self.tell(self.alpha, own, *[Message()] * 20)
        self.tell(self.beta, "DIRECT=TCP:127.0.0.2\\private$\\own", *[Message()] * 20)
        found = [*self.take(self.beta, self.orders), *self.take(self.alpha, own)]
        self.assertEqual(len({view.identity for view in found}), 80)


class SequenceTests(AttributesCase):
    """Positions in sequences."""

    def setUp(self) -> None:
        super().setUp()
        self.payments = self.queue(self.beta, "payments", transactional=True)
        self.to_payments = "DIRECT=TCP:127.0.0.3\\private$\\payments"

    def test_sequence_identifiers(self) -> None:
        """A transactional message is in a sequence, and no other; they rise from one sequence to the next.

        MQDMPR-3.1.1.12-56.
        """
        self.tell(self.alpha, TO_BETA, Message(), Message(delivery=Delivery.RECOVERABLE))
        self.assertEqual([view.tx_sequence_id for view in self.take(self.beta, self.orders)], [None, None])
        local = self.queue(self.alpha, "local", transactional=True)
        for _ in range(3):
            self.tell(self.alpha, local, Message(transactional=True), Message(transactional=True))
        identifiers = []
        for view in self.take(self.alpha, local):
            assert view.tx_sequence_id is not None
            identifiers.append((view.tx_sequence_id.timestamp, view.tx_sequence_id.ordinal))
        self.assertEqual(identifiers, sorted(identifiers))

    def test_edges_of_a_transaction(self) -> None:
        """The first and the last message of a transaction are marked, receives in between or not.

        MQDMPR-3.1.1.12-58 MQDMPR-3.1.4.3-03 (reading 48)
        """
        local = self.queue(self.alpha, "local", transactional=True)
        self.tell(self.alpha, local, Message(transactional=True, body=b"in"))
        service = self.alpha.service
        transaction = service.begin()
        self.run_to_end(service.receive(local, timeout=0, transaction=transaction))
        for body in (b"1", b"2", b"3"):
            message = Message(transactional=True, body=body)
            for destination in (self.to_payments, local):
                self.run_to_end(service.send(destination, [message], transaction=transaction))
        self.run_to_end(transaction.commit())
        self.clock.advance(2)
        self.tell(self.alpha, self.to_payments, Message(transactional=True, body=b"alone"))
        edges = [(True, False), (False, False), (False, True)]
        found = self.take(self.beta, self.payments)
        self.assertEqual([(view.is_first, view.is_last) for view in found], [*edges, (True, True)])
        found = self.take(self.alpha, local)
        self.assertEqual([(view.is_first, view.is_last) for view in found], edges)
