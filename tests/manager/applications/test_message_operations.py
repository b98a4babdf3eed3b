"""Messages that an administrator moves and copies, while other messages arrive."""

from __future__ import annotations

from uuid import UUID

from msmq.queues import available_positions, ordered_positions, packed_positions
from msmq.queues import queue as queue_module
from msmq.queues.arriving.message import Delivery
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError
from tests.manager.support import ASK_ALL, ManagerTestCase

CHUNK = 4
"""Messages of a chunk, so that few of them have several chunks."""
MANY = 20 * CHUNK


class PackedMessagesTests(ManagerTestCase):
    """Messages that are not used for a moment are packed, also those that an operation is about to use."""

    limits = {"packet_memory": 0}  # noqa: RUF012

    def setUp(self) -> None:
        for module in (ordered_positions, available_positions, queue_module):
            self.patch(module, "CHUNK_LENGTH", CHUNK)
        self.patch(packed_positions, "SHORTEST", 2)
        super().setUp()
        self.put(self.orders, *[b"%d" % number for number in range(MANY)])
        # One of every chunk.
        self.chosen = [message.lookup_id for message in self.messages(self.orders)][1::CHUNK]
        self.other = self.queue(self.alpha, "other")

    def arrive(self, count: int = MANY) -> None:
        """Express messages arrive while something is read, so that others are packed."""
        for number in range(count):
            self.put(self.orders, b"later %d" % number, delivery=Delivery.EXPRESS)
        self.store.catch_up()

    def test_moved(self) -> None:
        """Each of them is moved, and named in the answer."""
        self.store.is_slow = True
        moving = self.deferred(self.service.message_administration.move(self.orders, self.chosen, self.other))
        self.arrive()
        moved = [change.lookup_id for change in self.successResultOf(moving)]
        self.assertEqual(moved, self.chosen)
        self.assertEqual(self.seen(self.other), [b"%d" % number for number in range(1, MANY, CHUNK)])

    def test_copied(self) -> None:
        """Each of them is copied."""
        self.store.is_slow = True
        copying = self.deferred(
            self.service.message_administration.copy(self.orders, self.chosen, self.other)
        )
        self.arrive()
        self.assertEqual(len(self.successResultOf(copying)), len(self.chosen))
        self.assertEqual(self.count(self.other), len(self.chosen))


class CopiedPropertiesTests(ManagerTestCase):
    """Properties that few applications use."""

    def test_class_and_connector_type(self) -> None:
        """A copy has the connector type, and the class if an application has defined it; one of an
        acknowledgement is none itself.
        """
        kind = UUID("5a6b1c0e-8f1d-4a9e-a3a5-6f3f0e6b7c21")
        other = self.queue(self.alpha, "other")
        self.put(self.orders, b"1", message_class=0x0123, connector_type=kind, acknowledge=ASK_ALL)
        for source in (self.orders, self.admin):
            chosen = [message.lookup_id for message in self.messages(source)]
            self.run_to_end(self.service.message_administration.copy(source, chosen, other))
        views = [message.view for message in self.messages(other)]
        self.assertEqual([view.message_class for view in views], [0x0123, MessageClass.NORMAL])
        self.assertEqual(views[0].connector_type, kind)


class RefusedOperationsTests(ManagerTestCase):
    """What an operator names wrongly is not created by that."""

    def test_no_subqueue_remains(self) -> None:
        """A refused move or requeue leaves no empty subqueue of the name that it had, at either end."""
        messages = self.service.message_administration
        missing = f"{self.orders};missing"
        for operation in (
            messages.move(missing, [1], self.payments),
            messages.move(self.payments, [1], missing),
            messages.move(missing, [1], missing),
            messages.requeue(missing, [1]),
        ):
            self.failureResultOf(self.deferred(operation), MQError)
        for operation in (
            messages.move(missing, [1], self.orders),
            messages.remove(missing, [1]),
            messages.copy(missing, [1], self.orders),
        ):
            self.assertEqual(self.run_to_end(operation), [])
        self.assertEqual(self.service.inspection.queue(self.orders).subqueues, [])
