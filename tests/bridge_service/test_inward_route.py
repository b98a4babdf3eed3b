"""Routes from a broker in memory to a queue."""

from __future__ import annotations

from pathlib import Path

import attrs
from twisted.internet.defer import Deferred, maybeDeferred
from zope.interface import implementer

from msmq.bridge.mapping_program import MappingProgram
from msmq.bridge.rules import InwardRules
from msmq.bridge_service import reply_store
from msmq.bridge_service import route as route_module
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.inward_route import InwardRoute
from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.bridge_service.queues import IBridgedQueues
from msmq.bridge_service.rabbitmq.settings import RabbitSettings
from msmq.bridge_service.reply_store import ReplyStore
from msmq.bridge_service.route_state import RouteCondition
from msmq.bridge_service.settings import InwardSettings
from msmq.interfaces import IInwardMapping
from msmq.interfaces.bridge_messages import AmqpMessage, AmqpProperties, MessageForQueue
from tests.bridge_service.memory_broker import MemoryBroker
from tests.manager.support import ManagerTestCase

REQUEST = AmqpMessage("", "requests", AmqpProperties(reply_to="answers"), b"request")


class InwardRouteTests(ManagerTestCase):
    """A route whose requests are answered by C{.\\private$\\replies}."""

    def setUp(self) -> None:
        super().setUp()
        self.broker = MemoryBroker()
        self.patch(route_module, "open_broker", lambda settings, reactor: self.broker)
        # Threads would need another reactor than the clock.
        self.patch(reply_store, "deferToThread", maybeDeferred)
        settings = InwardSettings(
            name="in",
            broker=RabbitSettings(addresses=(BrokerAddress("127.0.0.1", 5672),)),
            queue=self.orders,
            broker_queue="requests",
            dead_letters="requests.dead",
            rules=InwardRules(route="in", reply_queue="DIRECT=OS:ALPHA\\private$\\replies"),
        )
        self.directory = Path(self.mktemp())
        wall = lambda: self.clock.now().wall  # noqa: E731
        replies = ReplyStore(self.directory / "replies.jsonl", wall)
        self.route = InwardRoute(settings, ManagerQueues(self.service), self.clock.reactor, wall, replies)
        self.route.start()
        self.addCleanup(lambda: Deferred.fromCoroutine(self.route.stop()))
        self.clock.advance(1)

    def test_request_whose_address_cannot_be_stored(self) -> None:
        """A request without a message-id is sent once, however often its address could not be stored."""
        self.directory.rmdir()
        self.broker.deliver(1, REQUEST)
        self.clock.advance(60)
        self.assertIs(self.route.condition, RouteCondition.WAITING)
        self.assertEqual(self.broker.acknowledged, [])
        self.directory.mkdir()
        self.clock.advance(60)
        self.assertEqual(self.seen(self.orders), [b"request"])
        self.assertEqual(self.broker.acknowledged, [1])


@implementer(IInwardMapping)
class WrongMapping:
    """A program that sets a property which no message has, or a value that no record can have."""

    def to_queue(self, message: AmqpMessage, mapped: MessageForQueue) -> MessageForQueue:
        """See L{IInwardMapping}."""
        if message.body == b"property":
            return attrs.evolve(mapped, properties={**mapped.properties, "colour": "red"})
        if message.body == b"value":
            return attrs.evolve(mapped, properties={**mapped.properties, "label": b"bytes"})
        return mapped


class ProgramTests(ManagerTestCase):
    """A program that maps a message to what cannot be sent."""

    def forward(self, queues: IBridgedQueues) -> MemoryBroker:
        """Deliver three messages, of which the second and the third cannot be sent."""
        broker = MemoryBroker()
        self.patch(route_module, "open_broker", lambda settings, reactor: broker)
        settings = InwardSettings(
            name="in",
            broker=RabbitSettings(addresses=(BrokerAddress("127.0.0.1", 5672),)),
            queue=self.orders,
            broker_queue="incoming",
            dead_letters="dead",
            rules=InwardRules(route="in", program=MappingProgram("tests:Mapping", WrongMapping())),
        )
        wall = lambda: self.clock.now().wall  # noqa: E731
        route = InwardRoute(settings, queues, self.clock.reactor, wall, ReplyStore(None, wall))
        route.start()
        self.addCleanup(lambda: Deferred.fromCoroutine(route.stop()))
        self.clock.advance(1)
        for tag, body in enumerate((b"1", b"property", b"value", b"2")):
            broker.deliver(tag, AmqpMessage("", "incoming", AmqpProperties(message_id=str(tag)), body))
        self.clock.advance(60)
        return broker

    def test_messages_that_cannot_be_sent(self) -> None:
        """Only these messages become dead letters at the broker."""
        broker = self.forward(ManagerQueues(self.service))
        self.assertEqual(self.seen(self.orders), [b"1", b"2"])
        self.assertEqual([each.body for each in broker.buried], [b"property", b"value"])
        self.assertEqual(sorted(broker.acknowledged), [0, 1, 2, 3])
