"""A routing server whose store fails, and what it stores of the messages that it forwards."""

from __future__ import annotations

from msmq.interfaces.storage import StorageError, StorageFull
from msmq.queues.arriving.message import Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from tests.nodes.routes.test_routing import IDENTIFIERS, ORDERS, EnterpriseTestCase
from tests.nodes.scripted import JOURNAL
from tests.nodes.slow_store import SlowStore
from tests.nodes.support import Node


class RouterTroubleTests(EnterpriseTestCase):
    """ALPHA sends to ZETA through the gate BETA."""

    def member(self, name: str) -> Node:
        node = super().member(name)
        if name != "BETA":
            return node
        self.store = SlowStore(MemoryMessageStore(durable=True), self.clock.reactor, 0.0)
        return Node(
            self.network,
            self.clock,
            name,
            IDENTIFIERS[name],
            self.settings,
            self.store,
            directory=self.directory,
        )

    def test_it_cannot_be_kept(self) -> None:
        """A message that the routing server cannot store is not acknowledged, so its sender keeps it.

        When the store is back all of it goes on, once; copies are kept where it was sent from alone.
        MQQB-3.1.5.8.2-01, MQQB-3.1.5.5.4-01.
        """
        path = self.queue(self.zeta)
        name = self.private_name(self.zeta, ORDERS)
        for number, trouble in enumerate((StorageFull("there is no space"), StorageError("it burns")), 1):
            self.store.trouble = trouble
            message = Message(body=b"%d" % number, delivery=Delivery.RECOVERABLE, journal=True)
            self.run_to_end(self.alpha.service.send(name, [message]))
            self.clock.advance(20)
            self.assertEqual(sum(queue.messages for queue in self.alpha.service.inspection.outgoing()), 1)
            self.assertEqual(self.zeta.service.inspection.queue(path).messages, number - 1)
            self.store.trouble = None
            self.clock.advance(300)
            self.assertEqual(sum(queue.messages for queue in self.alpha.service.inspection.outgoing()), 0)
        self.assertEqual(self.bodies(self.zeta, path), [b"1", b"2"])
        self.assertEqual(self.alpha.service.inspection.queue(JOURNAL).messages, 2)
        for gate in ("BETA", "DELTA", "EPSILON"):
            self.assertEqual(self.nodes[gate].service.inspection.queue(JOURNAL).messages, 0)
