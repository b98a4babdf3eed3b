"""Messages of the queue manager in the same process, as routes read them."""

from __future__ import annotations

from typing import Any

from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.control.server.messages.queued_messages_json import properties_of
from msmq.queues.arriving.message import Delivery, Message
from tests.manager.support import ManagerTestCase

SENT: list[dict[str, Any]] = [
    {},
    {},
    {"label": "one"},
    {"label": "one", "application_tag": 7},
    {"label": "one", "application_tag": 7},
    {"extension": b"first"},
    {"extension": b"other"},
    {"extension": b"other"},
    {"correlation_id": b"c" * 20},
    {"time_to_be_received": 90},
    {"time_to_be_received": 90},
    {"time_to_be_received": 80},
    {"body_type": 8},
    {"delivery": Delivery.EXPRESS},
    {"response_queue": "DIRECT=OS:beta\\private$\\answers"},
    {"priority": 3},
    {},
]
"""Properties of consecutive messages: equal ones, and ones that differ in each way."""


class ReadTests(ManagerTestCase):
    """Consecutive messages share what they have in common."""

    def check(self, queue: str, **changes: Any) -> None:
        """Each message has its own properties, body and extension, whatever was read before it."""
        for number, properties in enumerate(SENT):
            self.clock.advance(1)
            body = b"%d" % number * (1 + number % 3)
            sent = Message(body=body, **{"delivery": Delivery.RECOVERABLE, **properties, **changes})
            self.run_to_end(self.service.send(queue, [sent]))
        queues = ManagerQueues(self.service)
        expected = self.run_to_end(self.service.reserve(queue, count=100, peek=True)).messages
        read = self.run_to_end(queues.receive(queue, 100, 1 << 20))
        self.assertEqual(len(read.messages), len(SENT))
        for found, message in zip(read.messages, expected, strict=True):
            limit = found.properties.get("time_to_be_received")
            self.assertEqual({**found.properties, **properties_of(message)}, found.properties)
            self.assertEqual(limit is None, message.view.time_to_be_received > 1000)
            self.assertEqual(found.body, message.body)
            self.assertEqual(found.extension, bytes(message.view.extension))
        identifiers = [each.identifier for each in read.messages]
        self.assertEqual(identifiers, [str(each.identifier) for each in expected])

    def test_properties(self) -> None:
        """Of a queue that is not transactional."""
        self.check(self.orders)

    def test_positions_in_transactions(self) -> None:
        """Of a transactional queue: each has its own position in its stream."""
        self.check(self.payments, transactional=True, delivery=Delivery.RECOVERABLE, priority=0)
