"""Messages between queues and addresses, in both directions."""

from __future__ import annotations

from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime

from msmq.bridge.expressions import MessageExpression
from msmq.bridge.native_headers import read_extension
from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.bridge_service.service import BridgeService
from msmq.control.server.messages.queued_messages_json import properties_of
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError
from tests.bridge_service.amqp10.support import (
    Amqp10TestCase,
    application_properties,
    with_application_properties,
)
from tests.bridge_service.routes import ORDERS
from tests.bridge_service.support import bodies


class OutwardTests(Amqp10TestCase):
    """From a queue to an address."""

    async def test_messages_arrive_in_order(self) -> None:
        """Each message arrives once, in the order of its queue, and leaves the queue."""
        wanted = [b"order %d" % number for number in range(300)]
        identifiers = await self.send(*wanted)
        route = self.route(self.to_broker(window=100))
        found = await self.get(self.target, 300)
        self.assertEqual(bodies(found), wanted)
        self.assertEqual([properties.message_id for properties, _ in found], identifiers)
        self.assertEqual({properties.delivery_mode for properties, _ in found}, {2})
        await self.until(lambda: self.count() == 0)
        self.assertEqual((route.counts.forwarded, route.counts.dead_letters), (300, 0))

    async def test_properties(self) -> None:
        """Properties are those of AMQP 1.0, and application properties, as an application sees them."""
        self.route(self.to_broker(rules={"properties": {"header.tenant": MessageExpression.parse("`x`")}}))
        await self.send(b"one", label="order 7", application_tag=9, priority=5)
        ((properties, _),) = await self.get(self.target, 1)
        found = application_properties(properties.headers)
        self.assertEqual(
            [found[name] for name in ("msmq-label", "msmq-application-tag", "tenant")], ["order 7", 9, "x"]
        )
        self.assertEqual(properties.priority, 5)

    async def test_message_of_many_frames(self) -> None:
        """A message that is larger than a frame arrives whole."""
        large = bytes(range(256)) * 3000
        self.route(self.to_broker())
        await self.send(large)
        self.assertEqual(bodies(await self.get(self.target, 1)), [large])


class InwardTests(Amqp10TestCase):
    """From an address to a queue."""

    async def test_messages_arrive_in_order(self) -> None:
        """Each message arrives once, in the order of its queue, and leaves the broker."""
        wanted = [b"order %d" % number for number in range(300)]
        await self.publish(
            self.target,
            *wanted,
            headers=with_application_properties(tenant="x"),
            priority=6,
            correlation_id="c",
        )
        route = self.route(self.from_broker(window=100))
        found = await self.receive(300)
        self.assertEqual([each.body for each in found], wanted)
        kept = read_extension(bytes(found[0].view.extension))
        assert kept is not None
        self.assertEqual((kept["tenant"], kept["correlation-id"]), ("x", "c"))
        self.assertEqual(properties_of(found[0])["priority"], 6)
        await self.until(lambda: route.in_flight == 0)
        self.assertEqual((await self.depth(self.target), self.count()), (0, 0))

    async def test_message_that_is_delivered_again_arrives_once(self) -> None:
        """A message that was not settled before the connection was lost is delivered again, and sent once."""
        route = self.route(self.from_broker())
        await self.publish(self.target, b"one", b"two")
        await self.publish(self.target, b"one", b"two", b"three")
        await self.until(lambda: route.counts.forwarded == 5)
        self.assertEqual([each.body for each in await self.receive(3)], [b"one", b"two", b"three"])
        await self.until(lambda: self.count() == 0)

    async def test_prefetch(self) -> None:
        """At most as many messages as the window has are unsettled; the others stay at the broker."""
        await self.publish(self.target, *(b"%d" % number for number in range(10)))
        route = self.route(self.from_broker(queue=".\\private$\\missing", window=3))
        await self.until(lambda: route.in_flight == 3)
        self.assertEqual(await self.depth(self.target), 7)
        await self.manager.create_queue(".\\private$\\missing")
        await self.receive(10, ".\\private$\\missing")
        await self.until(lambda: route.in_flight == 0)


class RequestTests(Amqp10TestCase):
    """Requests and replies across the bridge."""

    async def test_request_of_an_application_of_the_broker(self) -> None:
        """A request is answered to its reply-to, also of a queue that is opened for the first reply."""
        back, answers = ".\\private$\\to-broker", await self.queue()
        name = "DIRECT=OS:ALPHA\\private$\\to-broker"
        await self.manager.create_queue(back)
        self.bridge(
            self.from_broker(rules={"reply_queue": name}),
            self.to_broker("replies", {"answers": True, "exchange": ""}, queue=back, answers="in"),
        )
        await self.publish(self.target, b"6 * 7", reply_to=answers, correlation_id="question 1")
        (request,) = await self.receive(1)
        self.assertEqual(properties_of(request)["response_queue"], name)
        await self.send(b"42", queue=name, correlation_id=request.identifier.to_bytes())
        ((properties, body),) = await self.get(answers, 1)
        self.assertEqual((body, properties.correlation_id), (b"42", "question 1"))

    async def test_request_of_an_application_of_a_queue(self) -> None:
        """A request from a queue is answered by pika's client, as it answers others."""
        replies = await self.queue()
        await self.manager.create_queue(".\\private$\\answers")
        name = "DIRECT=OS:ALPHA\\private$\\answers"
        self.bridge(
            self.to_broker(rules={"replies": {name: replies}}),
            self.from_broker(broker_queue=f"/amq/queue/{replies}", queue=".\\private$\\answers"),
        )
        (identifier,) = await self.send(b"6 * 7", response_queue=parse_format_name(name))
        ((question, _),) = await self.get(self.target, 1)
        await self.publish(question.reply_to, b"42", correlation_id=question.correlation_id)
        (answer,) = await self.receive(1, ".\\private$\\answers")
        self.assertEqual((answer.body, properties_of(answer)["correlation_id"]), (b"42", identifier))


class OperatorTests(Amqp10TestCase):
    """What an operator sees and does."""

    async def test_dry_run_to_a_broker(self) -> None:
        """A test connects, and shows what would be sent and what would become a dead letter."""
        bridge = self.bridge(self.to_broker(rules={"limit": 5}))
        bridge.pause("out")
        await self.send(b"small", b"too large")
        small, large = await bridge.test("out", 10)
        self.assertEqual((small["destination"], small["reason"]), (f"address /amq/queue/{self.target}", ""))
        self.assertEqual(large["reason"], "limit: the body has 9 bytes, and limit is 5")
        self.assertEqual(self.count(), 2)

    async def test_dry_run_from_a_broker(self) -> None:
        """A test takes messages of the broker, and they are there afterwards, in their order."""
        await self.publish(self.target, b"one", b"two", b"three")
        bridge = BridgeService(
            [self.from_broker()], lambda _: ManagerQueues(self.manager), IReactorTime(reactor), None
        )
        found = await bridge.test("in", 2)
        self.assertEqual(
            [(each["message"], each["destination"]) for each in found],
            [(f"{self.target}-0", ORDERS), (f"{self.target}-1", ORDERS)],
        )
        self.assertEqual(len(await bridge.test("in", 10)), 3)
        self.assertEqual(bodies(await self.get(self.target, 3)), [b"one", b"two", b"three"])

    async def test_dry_run_without_an_address(self) -> None:
        """A test fails with the reason of the broker."""
        bridge = self.bridge(self.to_broker(rules={"exchange": "/exchange/missing"}))
        with self.assertRaisesRegex(MQError, "no exchange 'missing'"):
            await bridge.test("out", 1)
