"""Messages between queues and a real RabbitMQ, in both directions."""

from __future__ import annotations

import os
import time

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from msmq.bridge.native_headers import read_extension, write_extension
from msmq.bridge.replies import ReplyAddress
from msmq.bridge_service.inward_route import InwardRoute
from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.bridge_service.queues import ValuesOfSent
from msmq.bridge_service.service import BridgeService
from msmq.control.server.messages.queued_messages_json import properties_of
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError
from tests.bridge_service.support import OFF, ORDERS, BridgeTestCase, bodies
from tests.servers.rabbitmq import ADDRESS, PASSWORD, USER


class OutwardTests(BridgeTestCase):
    """From a queue to an exchange."""

    async def test_messages_arrive_in_order(self) -> None:
        """Each message arrives once, in the order of its queue, and leaves the queue."""
        queue = await self.queue()
        wanted = [b"order %d" % number for number in range(500)]
        identifiers = await self.send(*wanted)
        route = self.route(self.outward(rules={"routing_key": queue}, window=100))
        found = await self.get(queue, 500)
        self.assertEqual(bodies(found), wanted)
        self.assertEqual([properties.message_id for properties, _ in found], identifiers)
        self.assertEqual({properties.delivery_mode for properties, _ in found}, {2})
        await self.until(lambda: self.count() == 0)
        self.assertEqual((route.counts.forwarded, route.counts.dead_letters), (500, 0))

    async def test_time_to_be_received(self) -> None:
        """A message with a time to be received expires at the broker when it would in its queue."""
        queue = await self.queue()
        await self.send(b"one", time_to_be_received=1000)
        await self.send(b"two")
        self.route(self.outward(rules={"routing_key": queue}))
        ((limited, _), (other, _)) = await self.get(queue, 2)
        self.assertLessEqual(int(limited.expiration), 1_000_000)
        self.assertGreater(int(limited.expiration), 700_000)
        self.assertIsNone(other.expiration)

    async def test_clock_of_times(self) -> None:
        """What is left of the time to be received is by the wall clock, not by that of the timers."""
        queue = await self.queue()
        await self.send(b"one", time_to_be_received=1000)
        self.bridge(self.outward(rules={"routing_key": queue}), wall=lambda: time.time() + 400)
        ((message, _),) = await self.get(queue, 1)
        self.assertLessEqual(int(message.expiration), 600_000)
        self.assertGreater(int(message.expiration), 300_000)

    async def test_pause(self) -> None:
        """A paused route forwards nothing, and forwards what has come meanwhile when it is resumed."""
        queue = await self.queue()
        route = self.route(self.outward(rules={"routing_key": queue}))
        await self.send(b"before")
        await self.get(queue, 1)
        await self.until(lambda: self.count() == 0)
        route.pause()
        await self.send(b"while", b"paused")
        self.assertEqual((await self.depth(queue), route.condition.value), (0, "paused"))
        route.resume()
        self.assertEqual(bodies(await self.get(queue, 2)), [b"while", b"paused"])

    async def test_stopped_bridge_returns_its_messages(self) -> None:
        """Messages that a stopped bridge had taken and not delivered are in the queue again."""
        bridge = self.bridge(self.outward(rules={"exchange": "amq.direct", "routing_key": "none"}))
        route = bridge.routes["out"]
        route.pause()
        await self.send(b"one", b"two")
        await bridge.stop()
        self.assertEqual([each.body for each in await self.receive(2)], [b"one", b"two"])


class InwardTests(BridgeTestCase):
    """From a queue of the broker to a queue."""

    async def test_messages_arrive_in_order(self) -> None:
        """Each message arrives once, in the order of its queue, and leaves the broker."""
        queue = await self.queue()
        wanted = [b"order %d" % number for number in range(500)]
        await self.publish(queue, *wanted, headers={"tenant": "x"})
        route = self.route(self.inward(queue, window=100))
        found = await self.receive(500)
        self.assertEqual([each.body for each in found], wanted)
        headers = read_extension(bytes(found[0].view.extension))
        assert headers is not None
        self.assertEqual(headers["tenant"], "x")
        await self.until(lambda: route.in_flight == 0)
        self.assertEqual((await self.depth(queue), self.count(ORDERS)), (0, 0))

    async def test_message_that_is_delivered_again_arrives_once(self) -> None:
        """A message whose acknowledgement was lost is delivered again by the broker, and sent once."""
        queue = await self.queue()
        route = self.route(self.inward(queue))
        await self.publish(queue, b"one", b"two")
        # The broker cannot know that it has delivered this message before.
        await self.publish(queue, b"one", b"two", b"three")
        await self.until(lambda: route.counts.forwarded == 5)
        self.assertEqual([each.body for each in await self.receive(3)], [b"one", b"two", b"three"])
        await self.until(lambda: self.count() == 0)

    async def test_transactional_queue(self) -> None:
        """Messages reach a transactional queue in transactions."""
        await self.manager.create_queue(".\\private$\\exact", transactional=True)
        queue = await self.queue()
        await self.publish(queue, b"one", b"two")
        self.route(self.inward(queue, rules={"delivery": "transactional"}, queue=".\\private$\\exact"))
        found = await self.receive(2, ".\\private$\\exact")
        self.assertEqual(
            [(each.body, each.view.is_transactional) for each in found], [(b"one", True), (b"two", True)]
        )


class RequestTests(BridgeTestCase):
    """Requests and replies across the bridge."""

    async def test_request_of_an_application_of_the_broker(self) -> None:
        """A request of pika's client is answered by a program on queues, even if the bridge restarts."""
        requests, answers = await self.queue(), await self.queue()
        back = ".\\private$\\to-rabbitmq"
        name = "DIRECT=OS:ALPHA\\private$\\to-rabbitmq"
        await self.manager.create_queue(back)
        settings = (
            self.inward(requests, rules={"reply_queue": name}),
            self.outward("replies", {"answers": True}, queue=back, answers="in"),
        )
        first = self.bridge(*settings)
        await self.publish(requests, b"6 * 7", reply_to=answers, correlation_id="question 1")
        (request,) = await self.receive(1)
        await self.until(lambda: first.routes["in"].in_flight == 0)
        await first.stop()
        self.bridge(*settings)
        self.assertEqual(properties_of(request)["response_queue"], name)
        await self.send(b"42", queue=name, correlation_id=request.identifier.to_bytes())
        ((properties, body),) = await self.get(answers, 1)
        self.assertEqual((body, properties.correlation_id), (b"42", "question 1"))

    async def test_request_of_an_application_of_a_queue(self) -> None:
        """A request from a queue is answered by pika's client, as it answers others."""
        requests, replies = await self.queue(), await self.queue()
        await self.manager.create_queue(".\\private$\\answers")
        name = "DIRECT=OS:ALPHA\\private$\\answers"
        self.bridge(
            self.outward(rules={"routing_key": requests, "replies": {name: replies}}),
            self.inward(replies, queue=".\\private$\\answers"),
        )
        (identifier,) = await self.send(b"6 * 7", response_queue=parse_format_name(name))
        ((question, _),) = await self.get(requests, 1)
        await self.publish(question.reply_to, b"42", correlation_id=question.correlation_id)
        (answer,) = await self.receive(1, ".\\private$\\answers")
        self.assertEqual((answer.body, properties_of(answer)["correlation_id"]), (b"42", identifier))

    async def test_reply_without_a_request(self) -> None:
        """A message that answers no pending request becomes a dead letter."""
        queue = await self.queue()
        self.bridge(
            self.inward(
                queue, rules={"reply_queue": "DIRECT=OS:ALPHA\\private$\\x"}, queue=".\\private$\\other"
            ),
            self.outward("replies", {"answers": True}, answers="in"),
        )
        await self.send(b"42")
        await self.assert_dead_letter("reply: no request with the identifier", b"42")

    async def test_reply_that_is_faster_than_its_request(self) -> None:
        """A reply that comes while the address of its request is being stored waits for it, in its order."""
        answers = await self.queue()
        bridge = self.bridge(
            self.inward(await self.queue(), rules={"reply_queue": "DIRECT=OS:ALPHA\\private$\\x"}),
            self.outward("replies", {"answers": True}, answers="in"),
        )
        (request,) = await self.send(b"a message, for its identifier")
        await self.until(lambda: self.manager.inspection.queue(ORDERS).messages == 0)
        route = bridge.routes["in"]
        assert isinstance(route, InwardRoute)
        headers = write_extension({"NServiceBus.RelatedTo": "77", "NServiceBus.MessageId": "78"})
        now = IReactorTime(reactor).seconds()
        sent: Deferred[list[str]] = Deferred()

        async def sending(values: ValuesOfSent | None) -> list[str]:
            identifiers = await sent
            assert values is not None
            await self.manager.service_values.store(values(identifiers))
            return identifiers

        kept = Deferred.fromCoroutine(
            route.replies.send(
                sending, lambda found: [(each, ReplyAddress(answers, f"c {each}", now)) for each in found]
            )
        )
        await self.send(b"42", correlation_id=MessageIdentifier.parse(request).to_bytes())
        await self.send(b"43", extension=headers)
        await self.until(lambda: bridge.routes["replies"].in_flight == 2)
        sent.callback([request, "77"])
        await kept
        found = await self.get(answers, 2)
        self.assertEqual(bodies(found), [b"42", b"43"])
        self.assertEqual([each.correlation_id for each, _ in found], [f"c {request}", "c 77"])


class ServerTests(BridgeTestCase):
    """Routes of a server's configuration."""

    async def test_configured_routes(self) -> None:
        """A server forwards messages as its tables say, and stops with messages in flight."""
        queue = await self.queue()
        address = f"amqp://{USER}:{PASSWORD}@{ADDRESS}:{self.broker.port}/"
        data = self.data / "beta"
        data.mkdir()
        (data / "msmq.toml").write_text(
            OFF
            + f"""
            [[bridge]]
            name = "out"
            from = '{ORDERS}'
            to = "{address}?queue={queue}"

            [[bridge]]
            name = "in"
            from = "{address}?queue={queue}"
            to = '.\\private$\\back'
            """
        )
        overrides = Overrides(name="BETA", data=os.fspath(data))
        server = Server(
            load(data / "msmq.toml", overrides, {}),
            IReactorTime(reactor),
            store=MemoryMessageStore(durable=True),
        )
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        self.manager = server.manager
        await self.manager.create_queue(".\\private$\\back")
        await self.manager.create_queue(ORDERS)
        await self.send(b"one", b"two")
        found = await self.receive(2, ".\\private$\\back")
        self.assertEqual([each.body for each in found], [b"one", b"two"])


class OperatorTests(BridgeTestCase):
    """What an operator sees and does."""

    async def test_dry_run_to_a_broker(self) -> None:
        """A test connects, and shows what would be sent and what would become a dead letter."""
        bridge = self.bridge(self.outward(rules={"exchange": "amq.topic", "routing_key": "x", "limit": 5}))
        bridge.pause("out")
        await self.send(b"small", b"too large", label="order 7")
        small, large = await bridge.test("out", 10)
        self.assertEqual(
            (small["destination"], small["body_size"], small["reason"]),
            ("exchange amq.topic, routing key x", 5, ""),
        )
        self.assertEqual(small["properties"]["headers"]["msmq-label"], "order 7")
        self.assertEqual(large["reason"], "limit: the body has 9 bytes, and limit is 5")
        self.assertEqual(self.count(), 2)

    async def test_dry_run_from_a_broker(self) -> None:
        """A test takes messages of the broker, and they are there afterwards, in their order."""
        queue = await self.queue()
        await self.publish(queue, b"one", b"two", b"three")
        inward = self.inward(queue)
        idle = BridgeService([inward], lambda _: ManagerQueues(self.manager), IReactorTime(reactor), None)
        found = await idle.test("in", 2)
        self.assertEqual(
            [(each["message"], each["destination"]) for each in found],
            [(f"{queue}-0", ORDERS), (f"{queue}-1", ORDERS)],
        )
        self.assertEqual(len(await idle.test("in", 10)), 3)
        self.assertEqual(bodies(await self.get(queue, 3)), [b"one", b"two", b"three"])

    async def test_dry_run_without_an_exchange(self) -> None:
        """A test fails with the reason of the broker."""
        bridge = self.bridge(self.outward(rules={"exchange": "missing"}))
        with self.assertRaisesRegex(MQError, "no exchange 'missing'"):
            await bridge.test("out", 1)
        with self.assertRaisesRegex(MQError, "no route 'other'"):
            await bridge.test("other", 1)

    async def test_summary(self) -> None:
        """The summary of a route has its ends, its condition and its counts."""
        queue = await self.queue()
        bridge = self.bridge(self.outward(rules={"routing_key": queue}))
        await self.send(b"one")
        await self.get(queue, 1)
        await self.until(lambda: self.count() == 0)
        found = bridge.summary("out")
        self.assertEqual(
            (found.source, found.destination), (ORDERS, f"exchange (default), routing key {queue}")
        )
        self.assertEqual((found.condition, found.forwarded, found.in_flight), ("running", 1, 0))
        self.assertEqual(bridge.pause("out").condition, "paused")
        self.assertEqual(bridge.resume("out").condition, "running")
