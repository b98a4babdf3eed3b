"""Routes from a broker in memory to a queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from msmq.bridge.expressions import MessageExpression
from msmq.bridge.inward import map_inward
from msmq.bridge.mapping_program import MappingProgram
from msmq.bridge.rules import InwardRules
from msmq.bridge_service import inward_route, reply_records
from msmq.bridge_service import route as route_module
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.brokers import BrokerError
from msmq.bridge_service.dead_letters import REASON
from msmq.bridge_service.inward_route import InwardRoute
from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.bridge_service.rabbitmq.settings import RabbitSettings
from msmq.bridge_service.reply_records import ReplyFile
from msmq.bridge_service.reply_store import ReplyStore
from msmq.bridge_service.route import INTERNAL_ERROR
from msmq.bridge_service.route_state import RouteCondition
from msmq.bridge_service.settings import InwardSettings
from msmq.interfaces import IInwardMapping
from msmq.interfaces.bridge_messages import AmqpMessage, AmqpProperties, MessageForQueue
from msmq.persistence.changes import Change, PutMessage, PutMessages
from msmq.structures.packet.base_header import BaseHeader
from tests.bridge_service.memory_broker import MemoryBroker
from tests.manager.support import BROKEN, ManagerTestCase

REQUEST = AmqpMessage("", "incoming", AmqpProperties(reply_to="answers"), b"request")


class InwardRouteCase(ManagerTestCase):
    """A route from a broker in memory to C{self.orders}."""

    def setUp(self) -> None:
        super().setUp()
        self.broker = MemoryBroker()
        self.patch(route_module, "open_broker", lambda settings, reactor: self.broker)

    def start_route(self, rules: InwardRules, replies: Path | None = None) -> InwardRoute:
        """Start the route.

        @param replies: the file with the addresses of replies.
        """
        settings = InwardSettings(
            name="in",
            broker=RabbitSettings(addresses=(BrokerAddress("127.0.0.1", 5672),)),
            queue=self.orders,
            broker_queue="incoming",
            dead_letters="dead",
            rules=rules,
        )

        def wall() -> float:
            return self.clock.now().wall

        record = None if replies is None else ReplyFile(replies)
        route = InwardRoute(
            settings, ManagerQueues(self.service), self.clock.reactor, wall, ReplyStore(record, wall)
        )
        route.replies.load()
        route.start()
        self.addCleanup(lambda: Deferred.fromCoroutine(route.stop()))
        self.clock.advance(1)
        return route


class RequestTests(InwardRouteCase):
    """Requests that are answered by C{.\\private$\\replies}."""

    def test_request_whose_address_cannot_be_stored(self) -> None:
        """A request without a message-id is sent once, however often its address could not be stored."""
        # Threads would need another reactor than the clock.
        self.patch(reply_records, "deferToThread", maybeDeferred)
        rules = InwardRules(route="in", reply_queue="DIRECT=OS:ALPHA\\private$\\replies")
        directory = Path(self.mktemp())
        route = self.start_route(rules, directory / "replies.jsonl")
        directory.rmdir()
        self.broker.deliver(1, REQUEST)
        self.clock.advance(60)
        self.assertIs(route.condition, RouteCondition.WAITING)
        self.assertEqual(route.reason, f"{directory / 'replies.jsonl'}: No such file or directory")
        self.assertEqual(self.broker.acknowledged, [])
        directory.mkdir()
        self.clock.advance(60)
        self.assertEqual(self.seen(self.orders), [b"request"])
        self.assertEqual(self.broker.acknowledged, [1])


class BatchTests(InwardRouteCase):
    """Messages that are sent together."""

    def test_large_messages(self) -> None:
        """They share commits by their bytes, and a larger one has a commit of its own."""
        self.patch(inward_route, "BATCH_BYTES", 100)
        self.start_route(InwardRules(route="in"))
        bodies = [bytes([number]) * size for number, size in enumerate((40, 40, 40, 500, 10, 10))]
        for tag, body in enumerate(bodies):
            self.broker.deliver(tag, AmqpMessage("", "incoming", AmqpProperties(), body))
        commits: list[int] = []

        def is_hit(changes: Sequence[Change]) -> bool:
            packets = sum(
                1 if isinstance(each, PutMessage) else len(each.packets)
                for each in changes
                if isinstance(each, PutMessage | PutMessages)
            )
            commits.extend([packets] if packets else [])
            return False

        self.store.error, self.store.is_hit = BROKEN, is_hit
        self.clock.advance(1)
        self.assertEqual(commits, [2, 1, 1, 2])
        self.assertEqual((self.seen(self.orders), self.broker.acknowledged), (bodies, list(range(6))))

    def test_more_than_the_quota_together(self) -> None:
        """Those for which a quota has space are sent and acknowledged, in order, and the others as it gets
        space: a batch that is larger than all of it waits for nothing.
        """
        self.run_to_end(self.service.set_queue(self.orders, {"quota": 10}))
        route = self.start_route(InwardRules(route="in"))
        bodies = [bytes([number]) * 3000 for number in range(8)]
        for tag, body in enumerate(bodies):
            self.broker.deliver(tag, AmqpMessage("", "incoming", AmqpProperties(), body))
        self.clock.advance(60)
        self.assertEqual((self.seen(self.orders), self.broker.acknowledged), (bodies[:3], [0, 1, 2]))
        self.assertIs(route.condition, RouteCondition.WAITING)
        found: list[bytes] = []
        while len(found) < len(bodies):
            found += [bytes(view.body) for view in self.take(self.alpha, self.orders)]
            self.clock.advance(5)
        self.assertEqual((found, self.broker.acknowledged), (bodies, list(range(8))))
        self.assertIs(route.condition, RouteCondition.RUNNING)

    def test_large_message_and_a_full_quota(self) -> None:
        """A message near the largest packet waits for space as any other."""
        self.run_to_end(self.service.set_queue(self.orders, {"quota": 5000}))
        self.put(self.orders, bytes(2_000_000))
        self.start_route(InwardRules(route="in", limit=BaseHeader.MAXIMUM_PACKET_SIZE))
        large = bytes(BaseHeader.MAXIMUM_PACKET_SIZE - 4000)
        self.broker.deliver(1, AmqpMessage("", "incoming", AmqpProperties(), large))
        self.clock.advance(60)
        self.assertEqual((self.broker.buried, self.broker.acknowledged), ([], []))
        self.take(self.alpha, self.orders)
        self.clock.advance(5)
        self.assertEqual((self.seen(self.orders), self.broker.acknowledged), ([large], [1]))


class InternalErrorTests(InwardRouteCase):
    """Errors that no part of a route expects."""

    def test_while_it_connects(self) -> None:
        """The route starts again with a back-off until it works."""
        self.broker.mistake = RuntimeError("nothing expects this")
        route = self.start_route(InwardRules(route="in"))
        self.assertEqual((route.condition, route.reason), (RouteCondition.WAITING, INTERNAL_ERROR))
        self.clock.advance(600)
        self.assertIn(len(self.flushLoggedErrors(RuntimeError)), range(5, 25))
        self.broker.mistake = None
        self.clock.advance(60)
        self.assertIs(route.condition, RouteCondition.RUNNING)
        self.broker.deliver(1, AmqpMessage("", "incoming", AmqpProperties(), b"good"))
        self.clock.advance(1)
        self.assertEqual((self.seen(self.orders), self.broker.acknowledged), ([b"good"], [1]))


class DeadLetterTests(InwardRouteCase):
    """Messages that cannot be mapped, at a broker without a queue for dead letters."""

    def test_dead_letters_that_cannot_be_stored(self) -> None:
        """The reason is logged once and shown, and they are stored when they can be."""
        lines: list[str] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        route = self.start_route(InwardRules(route="in", limit=5))
        self.broker.burial_error = BrokerError("no topic 'dead'")
        for tag in range(3):
            self.broker.deliver(tag, AmqpMessage("", "incoming", AmqpProperties(), b"too large"))
        self.clock.advance(60)
        self.assertEqual((route.condition, route.reason), (RouteCondition.WAITING, "no topic 'dead'"))
        self.assertEqual(sum("no topic" in line for line in lines), 1)
        self.broker.deliver(3, AmqpMessage("", "incoming", AmqpProperties(), b"good"))
        self.clock.advance(60)
        self.assertEqual(self.broker.acknowledged, [3])
        self.assertEqual(sum("no topic" in line for line in lines), 1)
        self.broker.burial_error = None
        self.clock.advance(5)
        self.assertEqual(len(self.broker.buried), 3)
        self.assertEqual((route.condition, route.reason), (RouteCondition.RUNNING, ""))

    def test_connection_is_lost_before(self) -> None:
        """A message that was to become a dead letter when its connection was lost becomes one later, when it
        is delivered again.
        """
        self.broker = LosingConsumer()
        route = self.start_route(InwardRules(route="in", limit=5))
        bad = AmqpMessage("", "incoming", AmqpProperties(), b"too large")
        self.broker.deliver(0, AmqpMessage("", "incoming", AmqpProperties(), b"good"))
        self.broker.deliver(1, bad)
        self.clock.advance(10)
        self.assertIs(route.condition, RouteCondition.RUNNING)
        self.broker.deliver(0, bad)
        self.clock.advance(1)
        self.assertEqual([each.body for each in self.broker.buried], [b"too large"])


class LosingConsumer(MemoryBroker):
    """Finds while it acknowledges the first messages that the connection has been idle for too long."""

    def acknowledge(self, tags: Iterable[int]) -> None:
        """See L{IConsumer}."""
        is_first = not self.acknowledged
        super().acknowledge(tags)
        if is_first:
            self.closed.callback(BrokerError("the connection is idle"))


class OneMessageTests(InwardRouteCase):
    """Messages of a publisher that no queue takes."""

    def deliver(self, rules: InwardRules, *messages: AmqpMessage) -> list[str]:
        """The reasons of the dead letters of messages, before and behind which good ones arrive."""
        route = self.start_route(rules)
        good = [AmqpMessage("", "incoming", AmqpProperties(), body) for body in (b"first", b"last")]
        for tag, message in enumerate((good[0], *messages, good[1])):
            self.broker.deliver(tag, message)
        self.clock.advance(30)
        self.assertEqual(self.seen(self.orders), [b"first", b"last"])
        self.assertEqual(self.broker.acknowledged.count(len(messages) + 1), 1)
        self.assertIs(route.condition, RouteCondition.RUNNING)
        self.assertEqual([each.body for each in self.broker.buried], [each.body for each in messages])
        return [each.properties.headers[REASON] for each in self.broker.buried]

    def test_packet_is_too_large(self) -> None:
        """A body and headers that are too large together are a dead letter."""
        largest = BaseHeader.MAXIMUM_PACKET_SIZE
        reasons = self.deliver(
            InwardRules(route="in", limit=largest),
            *(
                AmqpMessage("", "incoming", AmqpProperties(headers={"note": "x" * headers}), bytes(body))
                for headers, body in ((100_000, largest - 70_000), (2 * largest, 5), (0, largest - 100))
            ),
        )
        for reason, text in zip(
            reasons, ("body and headers", "body and headers", "the largest packet"), strict=True
        ):
            self.assertIn(text, reason)

    def test_larger_than_the_quota(self) -> None:
        """A message that is larger than the quota of its queue is a dead letter, and blocks no others."""
        self.run_to_end(self.service.set_queue(self.orders, {"quota": 2}))
        [reason] = self.deliver(
            InwardRules(route="in", limit=BaseHeader.MAXIMUM_PACKET_SIZE),
            AmqpMessage("", "incoming", AmqpProperties(), bytes(3000)),
        )
        self.assertIn("is larger than all of it, 2048 bytes", reason)

    def test_closed_by_a_quota(self) -> None:
        """A quota of 0 is no size that a message exceeds: they wait at the broker until it is changed."""
        self.run_to_end(self.service.set_queue(self.orders, {"quota": 0}))
        route = self.start_route(InwardRules(route="in"))
        self.broker.deliver(1, AmqpMessage("", "incoming", AmqpProperties(), b"x"))
        self.clock.advance(60)
        self.assertIs(route.condition, RouteCondition.WAITING)
        self.assertEqual((self.broker.buried, self.broker.acknowledged), ([], []))
        self.run_to_end(self.service.set_queue(self.orders, {"quota": 10}))
        self.clock.advance(60)
        self.assertEqual((self.seen(self.orders), self.broker.acknowledged), ([b"x"], [1]))

    def test_response_queue_that_cannot_be_one(self) -> None:
        """A name in the header that cannot be a response queue is none, and one of a rule a dead letter."""
        properties = AmqpProperties(headers={"msmq-response-queue": "MULTICAST=234.1.1.1:80"})
        mapped = map_inward(AmqpMessage("", "incoming", properties, b"x"), InwardRules(route="in"))
        self.assertNotIn("response_queue", mapped.properties)
        rules = {"response_queue": MessageExpression.parse("headers.answer")}
        properties = AmqpProperties(headers={"answer": "MULTICAST=234.1.1.1:80"})
        (reason,) = self.deliver(
            InwardRules(route="in", properties=rules), AmqpMessage("", "incoming", properties, b"x")
        )
        self.assertIn("'MULTICAST=234.1.1.1:80', which cannot be one", reason)


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


class ProgramTests(InwardRouteCase):
    """A program that maps a message to what cannot be sent."""

    def test_messages_that_cannot_be_sent(self) -> None:
        """Only these messages become dead letters at the broker."""
        program = MappingProgram("tests:Mapping", WrongMapping())
        self.start_route(InwardRules(route="in", program=program))
        for tag, body in enumerate((b"1", b"property", b"value", b"2")):
            self.broker.deliver(tag, AmqpMessage("", "incoming", AmqpProperties(message_id=str(tag)), body))
        self.clock.advance(60)
        self.assertEqual(self.seen(self.orders), [b"1", b"2"])
        self.assertEqual([each.body for each in self.broker.buried], [b"property", b"value"])
        self.assertEqual(sorted(self.broker.acknowledged), [0, 1, 2, 3])
