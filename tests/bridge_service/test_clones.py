"""Routes of a queue manager that may be a clone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred

from msmq.bridge.rules import InwardRules, OutwardRules
from msmq.bridge_service import route as route_module
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.bridge_service.rabbitmq.settings import RabbitSettings
from msmq.bridge_service.service import BridgeService
from msmq.bridge_service.settings import DEAD_LETTERS, InwardSettings, OutwardSettings
from msmq.interfaces.bridge_messages import AmqpMessage, AmqpProperties
from msmq.manager.manager_settings import CloneCheck
from tests.bridge_service.memory_broker import MemoryBroker
from tests.manager.support import ManagerTestCase
from tests.nodes.support import Node

BROKER = RabbitSettings(addresses=(BrokerAddress("127.0.0.1", 5672),))


class CloneTests(ManagerTestCase):
    """ALPHA may be a copy of another one, which forwards the same messages."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        """See L{NodesTestCase.node}."""
        clone = CloneCheck("the data directory was copied", lambda: None)
        return super().node(name, identifier, options={"clone": clone}, **kwargs)

    def setUp(self) -> None:
        super().setUp()
        self.flushLoggedErrors()
        self.outgoing, self.incoming = MemoryBroker(), MemoryBroker()
        brokers = iter((self.outgoing, self.incoming))
        self.patch(route_module, "open_broker", lambda settings, reactor: next(brokers))
        routes = (
            OutwardSettings(
                name="out",
                broker=BROKER,
                queue=self.orders,
                dead_letters=DEAD_LETTERS,
                rules=OutwardRules(route="out"),
            ),
            InwardSettings(
                name="in",
                broker=BROKER,
                queue=self.admin,
                broker_queue="incoming",
                dead_letters="dead",
                rules=InwardRules(route="in"),
            ),
        )
        self.bridge = BridgeService(
            routes,
            lambda _: ManagerQueues(self.service),
            self.clock.reactor,
            None,
            lambda: self.clock.now().wall,
        )
        self.put(self.orders, b"1")
        self.bridge.start()
        self.clock.advance(60)

    def stop(self) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.bridge.stop()))

    def test_nothing_is_forwarded(self) -> None:
        """In neither direction, and operators see why."""
        for route in self.bridge.summaries():
            self.assertEqual((route.condition, route.connections), ("waiting", 0))
            self.assertIn("may be a clone: the data directory was copied; decide with", route.reason)
        self.assertEqual((self.outgoing.published, self.incoming.is_consumed), ([], False))
        self.stop()
        self.clock.advance(60)
        self.assertEqual(self.outgoing.published, [])

    def test_original(self) -> None:
        """Once an operator has said that this is the original, everything is forwarded."""
        self.service.keep_identity()
        self.clock.advance(10)
        self.assertEqual([route.condition for route in self.bridge.summaries()], ["running", "running"])
        self.outgoing.confirm()
        self.incoming.deliver(1, AmqpMessage("", "incoming", AmqpProperties(message_id="a"), b"2"))
        self.clock.advance(10)
        self.assertEqual((self.outgoing.published, self.seen(self.orders)), ([b"1"], []))
        self.assertEqual((self.incoming.acknowledged, self.seen(self.admin)), ([1], [b"2"]))
        self.stop()
