"""Messages that an administrator receives from an outgoing queue, or moves out of it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.manager.applications.open_queue import OpenQueue
from msmq.queues.arriving.message import Delivery
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.storage.memory import MemoryMessageStore
from tests.nodes.support import Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
ORDERS = ".\\private$\\orders"
DEADLETTER = ".\\system$;deadletter"
JOURNAL = ".\\system$;journal"


class AdminReadsTests(NodesTestCase):
    """ALPHA has messages for BETA, which is not there yet."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        """A queue manager with a store that lasts."""
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        return super().node(name, identifier, **kwargs)

    def outgoing(self, *, transactional: bool = False, **properties: Any) -> OpenQueue:
        """The outgoing queue, with three messages, open for an administrator."""
        self.queue(self.beta, transactional=transactional)
        self.beta.deaf()
        properties.setdefault("delivery", Delivery.RECOVERABLE)
        self.send(self.alpha, TO_BETA, b"1", b"2", b"3", transactional=transactional, **properties)
        return self.alpha.service.open_queue(TO_BETA, QueueAccessType.RECEIVE_ADMIN)

    def arrived(self) -> list[bytes]:
        """What arrives at BETA, which is there now."""
        self.beta.listen()
        self.clock.advance(100)
        self.assertEqual([queue.messages for queue in self.alpha.service.inspection.outgoing()], [0])
        return self.bodies(self.beta, ORDERS)

    def test_received(self) -> None:
        """The next transactional messages do not wait for one that an administrator has received."""
        queue = self.outgoing(transactional=True)
        self.assertEqual(bytes(self.run_to_end(queue.receive(timeout=0)).view.body), b"1")
        queue.close()
        self.assertEqual(self.arrived(), [b"2", b"3"])

    def test_moved(self) -> None:
        """Nor for one that is moved to another queue."""
        self.outgoing(transactional=True).close()
        [first, *_] = self.run_to_end(self.alpha.service.inspection.browse(TO_BETA)).messages
        messages = self.alpha.service.message_administration
        self.run_to_end(messages.move(TO_BETA, [first.lookup_id], DEADLETTER))
        self.assertEqual(self.arrived(), [b"2", b"3"])
        self.assertEqual(self.bodies(self.alpha, DEADLETTER), [b"1"])

    def test_returned(self) -> None:
        """One that is returned is sent, in order."""
        queue = self.outgoing(transactional=True)
        reservation = self.run_to_end(queue.reserve(timeout=0))
        self.clock.advance(100)
        reservation.release()
        self.assertEqual(self.arrived(), [b"1", b"2", b"3"])

    def test_not_journaled(self) -> None:
        """The journal has the messages that were delivered, and none that an administrator took."""
        queue = self.outgoing(journal=True)
        self.run_to_end(queue.receive(timeout=0))
        queue.close()
        self.assertEqual(self.arrived(), [b"2", b"3"])
        self.assertEqual(self.bodies(self.alpha, JOURNAL), [b"2", b"3"])

    def test_no_expiry_meanwhile(self) -> None:
        """A message that is held does not become a dead letter before it is returned (reading 32)."""
        queue = self.outgoing(time_to_reach_queue=10, dead_letter=True)
        kept, returned = (self.run_to_end(queue.reserve(timeout=0)) for _ in range(2))
        self.clock.advance(20)
        self.assertEqual(self.bodies(self.alpha, DEADLETTER), [b"3"])
        self.run_to_end(kept.confirm())
        returned.release()
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.alpha, DEADLETTER), [b"2"])
