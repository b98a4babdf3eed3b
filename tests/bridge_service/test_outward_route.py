"""Routes from a queue to a broker in memory, whose results come when a test says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from msmq.bridge.mapping_program import MappingProgram
from msmq.bridge.native_headers import read_extension
from msmq.bridge.replies import ReplyAddress
from msmq.bridge.rules import OutwardRules
from msmq.bridge_service import claim_files, outward_route
from msmq.bridge_service import route as route_module
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.brokers import BrokerError
from msmq.bridge_service.dead_letters import REASON
from msmq.bridge_service.kafka.records import to_record
from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.bridge_service.outward_route import OutwardRoute
from msmq.bridge_service.rabbitmq.settings import RabbitSettings
from msmq.bridge_service.reply_store import ReplyStore
from msmq.bridge_service.route import INTERNAL_ERROR
from msmq.bridge_service.route_state import RouteCondition
from msmq.bridge_service.settings import DEAD_LETTERS, OutwardSettings
from msmq.interfaces.bridge_messages import AmqpMessage, QueuedMessage
from msmq.persistence.changes import Change
from msmq.structures.names.direct_format_name import DirectFormatName, DirectProtocol
from tests.bridge_service.memory_broker import MemoryBroker
from tests.bridge_service.test_reply_store import keep
from tests.manager.support import ManagerTestCase


class OutwardRouteTests(ManagerTestCase):
    """ALPHA has a queue with two batches of messages, all of which are in flight."""

    def setUp(self) -> None:
        super().setUp()
        self.broker = MemoryBroker()
        self.patch(route_module, "open_broker", lambda settings, reactor: self.broker)
        settings = OutwardSettings(
            name="out",
            broker=RabbitSettings(addresses=(BrokerAddress("127.0.0.1", 5672),)),
            queue=self.orders,
            dead_letters=DEAD_LETTERS,
            rules=OutwardRules(route="out"),
        )
        self.route = OutwardRoute(
            settings, ManagerQueues(self.service), self.clock.reactor, lambda: self.clock.now().wall
        )
        self.bodies_sent = [b"%d" % number for number in range(100)]
        self.put(self.orders, *self.bodies_sent)
        self.route.start()
        self.addCleanup(lambda: Deferred.fromCoroutine(self.route.stop()))
        self.clock.advance(1)
        self.assertEqual(self.broker.published, self.bodies_sent)
        self.assertEqual(self.route.in_flight, 100)

    def test_removals_that_fail(self) -> None:
        """If the store fails, confirmed messages of all batches stay, and are removed when it works again,
        without being published twice.
        """
        self.store.break_down()
        self.broker.confirm()
        self.clock.advance(0.5)
        self.assertIs(self.route.condition, RouteCondition.WAITING)
        self.assertIn("the disk is on fire", self.route.reason)
        self.store.recover()
        self.clock.advance(10)
        self.assertEqual(self.count(self.orders), 0)
        self.put(self.orders, b"next")
        self.clock.advance(1)
        self.broker.confirm()
        self.clock.advance(1)
        self.assertEqual(self.broker.published, [*self.bodies_sent, b"next"])
        self.assertEqual((self.count(self.orders), self.route.in_flight), (0, 0))
        self.assertIs(self.route.condition, RouteCondition.RUNNING)

    def test_removals_that_fail_for_long(self) -> None:
        """Removals are tried again after a back-off, as long as the store fails, without a line for each."""
        lines = self.log_lines()
        self.store.break_down()
        attempts: list[Sequence[Change]] = []

        def is_hit(changes: Sequence[Change]) -> bool:
            attempts.append(changes)
            return True

        self.store.is_hit = is_hit
        self.broker.confirm()
        self.clock.advance(300)
        self.assertLess(len(attempts), 40)
        self.assertIs(self.route.condition, RouteCondition.WAITING)
        self.assertEqual(sum("route out of the bridge" in line for line in lines), 1)
        self.store.recover()
        self.clock.advance(120)
        self.assertEqual((self.count(self.orders), self.route.in_flight), (0, 0))
        self.assertIs(self.route.condition, RouteCondition.RUNNING)
        self.assertEqual(self.broker.published, self.bodies_sent)
        self.assertEqual(self.route.counts.forwarded, 100)

    def test_pause(self) -> None:
        """A paused route takes no messages that arrive, which others receive, and goes on afterwards."""
        self.broker.confirm()
        self.clock.advance(1)
        self.route.pause()
        self.put(self.orders, b"for another")
        self.clock.advance(1)
        self.assertEqual([bytes(view.body) for view in self.take(self.alpha, self.orders)], [b"for another"])
        self.route.resume()
        self.put(self.orders, b"next")
        self.clock.advance(1)
        self.assertEqual(self.broker.published, [*self.bodies_sent, b"next"])

    def test_broker_is_away(self) -> None:
        """While its broker is away a route takes no messages."""
        self.broker.confirm()
        self.clock.advance(1)
        self.broker.mistake = BrokerError("it is away")
        self.broker.closed.callback(BrokerError("it is away"))
        self.put(self.orders, b"next")
        self.clock.advance(5)
        self.assertEqual((self.seen(self.orders), self.route.in_flight), ([b"next"], 0))
        self.broker.mistake = None
        self.clock.advance(60)
        self.assertEqual(self.broker.published, [*self.bodies_sent, b"next"])

    def test_internal_error(self) -> None:
        """After an error that nothing expects the messages return to the queue, and the route starts again
        with a back-off until it works, which the log and the condition say.
        """
        self.broker.confirm()
        self.clock.advance(1)
        self.broker.mistake = RuntimeError("nothing expects this")
        self.put(self.orders, b"next")
        self.clock.advance(0.5)
        self.assertEqual(
            (self.route.condition, self.route.reason, self.route.in_flight),
            (RouteCondition.WAITING, INTERNAL_ERROR, 0),
        )
        self.clock.advance(600)
        self.assertIn(len(self.flushLoggedErrors(RuntimeError)), range(5, 25))
        self.assertEqual(self.count(self.orders), 1)
        self.broker.mistake = None
        self.clock.advance(60)
        self.broker.confirm()
        self.clock.advance(1)
        self.assertEqual(self.broker.published, [*self.bodies_sent, b"next"])
        self.assertEqual((self.count(self.orders), self.route.in_flight), (0, 0))
        self.assertIs(self.route.condition, RouteCondition.RUNNING)

    def test_stop_after_an_internal_error(self) -> None:
        """A route that waits for its next start ends at once, and does not start again."""
        self.broker.confirm()
        self.clock.advance(1)
        self.broker.mistake = RuntimeError("nothing expects this")
        self.put(self.orders, b"next")
        self.clock.advance(0.5)
        self.flushLoggedErrors(RuntimeError)
        self.successResultOf(Deferred.fromCoroutine(self.route.stop()))
        self.broker.mistake = None
        self.clock.advance(600)
        self.assertEqual(self.broker.published, self.bodies_sent)
        self.assertEqual(self.seen(self.orders), [b"next"])

    def log_lines(self) -> list[str]:
        lines: list[str] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        return lines

    def test_full_window(self) -> None:
        """A removal that fails while the window is full does not end the route."""
        more = [b"more %d" % number for number in range(200)]
        self.put(self.orders, *more)
        self.clock.advance(1)
        self.assertEqual(self.route.in_flight, 256)
        self.store.break_down()
        self.broker.confirm()
        self.clock.advance(5)
        self.store.recover()
        for _ in range(3):
            self.clock.advance(60)
            self.broker.confirm()
        self.clock.advance(1)
        self.assertEqual((self.count(self.orders), self.route.in_flight), (0, 0))
        self.assertEqual(self.broker.published, [*self.bodies_sent, *more])

    def test_dead_letter_that_cannot_be_stored(self) -> None:
        """The route waits with the reason, which is logged once, and runs when the dead letter is stored."""
        lines = self.log_lines()
        self.store.break_down()
        self.broker.refuse("refused")
        self.clock.advance(30)
        self.assertIs(self.route.condition, RouteCondition.WAITING)
        self.assertIn("dead letters, .\\private$\\bridge-dead-letters: ", self.route.reason)
        self.assertEqual(sum("cannot store a dead letter" in line for line in lines), 1)
        self.store.recover()
        self.clock.advance(5)
        self.assertEqual(self.seen(DEAD_LETTERS), [b"0"])
        self.assertEqual((self.route.condition, self.route.reason), (RouteCondition.RUNNING, ""))

    def test_queue_is_deleted_while_the_route_is_paused(self) -> None:
        """It is not looked for meanwhile; the route is running once both are there again."""
        peeked: list[str] = []
        queues = self.route._queues
        peek = queues.peek

        def noted(queue: str, count: int) -> Any:
            peeked.append(queue)
            return peek(queue, count)

        self.patch(queues, "peek", noted)
        self.run_to_end(self.service.delete_queue(self.orders))
        self.broker.confirm()
        self.clock.advance(1)
        self.route.pause()
        before = len(peeked)
        self.clock.advance(300)
        self.assertEqual(len(peeked), before)
        self.queue(self.alpha)
        self.route.resume()
        self.clock.advance(120)
        self.assertEqual((self.route.condition, self.route.reason), (RouteCondition.RUNNING, ""))

    def test_queue_is_deleted_after_a_removal_that_failed(self) -> None:
        """A queue that was created again, and is empty, has no message whose removal could succeed first."""
        self.store.break_down()
        self.broker.confirm()
        self.clock.advance(0.5)
        self.assertIn("the disk is on fire", self.route.reason)
        self.store.recover()
        self.run_to_end(self.service.delete_queue(self.orders))
        self.clock.advance(5)
        self.assertIn("MQ_ERROR_QUEUE", self.route.reason)
        self.queue(self.alpha)
        self.clock.advance(300)
        self.assertEqual((self.route.condition, self.route.reason), (RouteCondition.RUNNING, ""))

    def test_queue_is_deleted(self) -> None:
        """If the queue was deleted, the route says so until there is one of its name, whose messages it
        forwards.
        """
        self.run_to_end(self.service.delete_queue(self.orders))
        self.broker.confirm()
        self.clock.advance(1)
        self.assertIs(self.route.condition, RouteCondition.WAITING)
        self.assertIn("MQ_ERROR_QUEUE", self.route.reason)
        self.queue(self.alpha)
        self.clock.advance(120)
        self.assertEqual((self.route.condition, self.route.reason), (RouteCondition.RUNNING, ""))
        self.put(self.orders, b"next")
        self.clock.advance(120)
        self.broker.confirm()
        self.clock.advance(1)
        self.assertEqual(self.broker.published[100:], [b"next"])
        self.assertEqual((self.count(self.orders), self.route.in_flight), (0, 0))
        self.assertIs(self.route.condition, RouteCondition.RUNNING)


class WrongValues:
    """A program that sets properties to what no message has."""

    def to_broker(self, message: QueuedMessage, mapped: AmqpMessage) -> AmqpMessage:
        """See L{IOutwardMapping}."""
        wrong: Any = {b"5": "high", b"6": 1 << 70}.get(message.body)
        return attrs.evolve(mapped, properties=attrs.evolve(mapped.properties, timestamp=wrong))


class OneMessageTests(ManagerTestCase):
    """Messages that are to blame for what fails."""

    def start_route(
        self, replies: ReplyStore | None = None, broker: MemoryBroker | None = None, **rules: Any
    ) -> MemoryBroker:
        """Start a route to a broker in memory."""
        broker = KafkaEncoder() if broker is None else broker
        self.patch(route_module, "open_broker", lambda settings, reactor: broker)
        settings = OutwardSettings(
            name="out",
            broker=RabbitSettings(addresses=(BrokerAddress("127.0.0.1", 5672),)),
            queue=self.orders,
            dead_letters=DEAD_LETTERS,
            rules=OutwardRules(route="out", **rules),
        )
        queues, reactor = ManagerQueues(self.service), self.clock.reactor
        route = OutwardRoute(settings, queues, reactor, lambda: self.clock.now().wall, replies)
        route.start()
        self.addCleanup(lambda: Deferred.fromCoroutine(route.stop()))
        self.clock.advance(1)
        return broker

    def test_response_queue_that_is_no_name(self) -> None:
        """The dead letter of a message whose response queue cannot be sent again has no response queue."""
        wrong = DirectFormatName(DirectProtocol.OS, "beta", "a,b", is_private=True)
        self.put(self.orders, b"too large", response_queue=wrong, label="order 7")
        self.start_route(limit=5)
        self.clock.advance(5)
        (dead_letter,) = self.messages(DEAD_LETTERS)
        headers = read_extension(bytes(dead_letter.view.extension))
        assert headers is not None
        self.assertEqual(headers[REASON], "limit: the body has 9 bytes, and limit is 5")
        self.assertEqual(self.count(self.orders), 0)

    def test_large_messages(self) -> None:
        """Messages in flight are limited by their bytes too; one alone may have more."""
        self.patch(outward_route, "IN_FLIGHT", 1000)
        bodies = [b"%d" % number + bytes(400) for number in range(8)] + [bytes(2000), b"last"]
        self.put(self.orders, *bodies)
        broker = self.start_route()
        for _ in bodies:
            self.clock.advance(1)
            self.assertLessEqual(len(broker.pending), 3)
            broker.confirm()
        self.clock.advance(1)
        self.assertEqual((broker.published, self.count(self.orders)), (bodies, 0))

    def test_connection_is_lost_while_it_publishes(self) -> None:
        """Messages behind the one that is being published then are published with the next connection."""
        broker = self.start_route(broker=LosingBroker())
        self.clock.advance(1)
        self.put(self.orders, b"1", b"2", b"3")
        self.clock.advance(5)
        broker.confirm()
        self.clock.advance(1)
        self.assertEqual((broker.published, self.count(self.orders)), ([b"1", b"1", b"2", b"3"], 0))

    def test_reply_to_no_request(self) -> None:
        """A reply to no request waits for the requests of that moment, and not for all that follow."""
        replies = ReplyStore(None, lambda: self.clock.now().wall)
        (request,) = self.put(self.payments, b"6 * 7")
        self.put(self.orders, b"to none")
        self.put(self.orders, b"42", correlation_id=request.to_bytes())
        address = ReplyAddress("answers", None, self.clock.now().wall)
        sent: Deferred[list[str]] = Deferred()
        sending = keep(replies, sent, address)
        broker = self.start_route(replies, answers=True)
        self.clock.advance(5)
        self.assertEqual((broker.published, self.count(self.orders)), ([], 2))
        # Requests never cease to be sent.
        others = keep(replies, Deferred(), address)
        sent.callback([str(request)])
        self.successResultOf(sending)
        self.clock.advance(5)
        self.assertEqual((broker.published, self.seen(DEAD_LETTERS)), ([b"42"], [b"to none"]))
        self.assertNoResult(others)

    def test_values_of_a_program(self) -> None:
        """What a program has mapped and the family of the broker cannot encode is a dead letter."""
        bodies = [b"%d" % number for number in range(10)]
        self.put(self.orders, *bodies)
        broker = self.start_route(program=MappingProgram("tests:Wrong", WrongValues()))
        self.clock.advance(5)
        self.assertEqual(broker.published, [each for each in bodies if each not in (b"5", b"6")])
        self.assertEqual(self.seen(DEAD_LETTERS), [b"5", b"6"])


class KafkaEncoder(MemoryBroker):
    """Encodes messages as records."""

    def publish(self, source: QueuedMessage, message: AmqpMessage, token: int) -> None:
        """See L{IPublisher}."""
        to_record(message)
        super().publish(source, message, token)


class LosingBroker(MemoryBroker):
    """Finds while it publishes the first message that the connection has been idle for too long."""

    def publish(self, source: QueuedMessage, message: AmqpMessage, token: int) -> None:
        """See L{IPublisher}."""
        super().publish(source, message, token)
        if len(self.published) == 1:
            self.pending.clear()
            self.closed.callback(BrokerError("the connection is idle"))


class StoredBodyTests(ManagerTestCase):
    """A message whose body is too large for the broker, in memory."""

    def test_published_again_after_its_lifetime(self) -> None:
        """A message that waits longer than its body is kept is published with the body stored anew."""
        # Threads would need another reactor than the clock.
        self.patch(claim_files, "deferToThread", maybeDeferred)
        broker = MemoryBroker()
        self.patch(route_module, "open_broker", lambda settings, reactor: broker)
        directory = Path(self.mktemp())
        settings = OutwardSettings(
            name="out",
            broker=RabbitSettings(addresses=(BrokerAddress("127.0.0.1", 5672),)),
            queue=self.orders,
            dead_letters=DEAD_LETTERS,
            rules=OutwardRules(route="out", limit=5, has_claims=True),
            claims=directory,
            claim_lifetime=600.0,
        )
        route = OutwardRoute(
            settings, ManagerQueues(self.service), self.clock.reactor, lambda: self.clock.now().wall
        )
        self.put(self.orders, b"three boxes")
        route.start()
        self.addCleanup(lambda: Deferred.fromCoroutine(route.stop()))
        self.clock.advance(2)
        self.assertEqual(broker.published, [b""])
        route.pause()
        broker.refuse_for_now()
        self.clock.advance(settings.claim_lifetime)
        (body,) = directory.iterdir()
        # Another bridge that shares the directory removes what is too old.
        body.unlink()
        route.resume()
        self.clock.advance(2)
        self.assertEqual(broker.published, [b"", b""])
        self.assertEqual(body.read_bytes(), b"three boxes")
