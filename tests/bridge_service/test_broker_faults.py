"""Faults of the broker and of messages: each is one line or one dead letter, and everything else goes on."""

from __future__ import annotations

import json
import struct
from typing import Any

import attrs
import pika

from msmq.bridge.body_decoding import BodyDecoding
from msmq.bridge.expressions import MessageExpression
from msmq.bridge.mapping_program import MappingProgram
from msmq.bridge.native_headers import read_extension
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.brokers import BrokerError
from msmq.bridge_service.dead_letters import IDENTIFIER, REASON, ROUTE
from msmq.bridge_service.rabbitmq import consumer as consumer_module
from msmq.bridge_service.route_state import RouteCondition
from msmq.bridge_service.settings import DEAD_LETTERS
from msmq.interfaces.bridge_messages import AmqpMessage, QueuedMessage
from tests.bridge_service.support import BridgeTestCase, bodies
from tests.servers.rabbitmq import ADDRESS, LARGEST_MESSAGE, free_port


class ConnectionTests(BridgeTestCase):
    """Brokers that cannot be used."""

    async def assert_waits(self, route: Any, reason: str) -> None:
        """The route waits for a reason, which is logged once."""
        await self.until(lambda: route.condition is RouteCondition.WAITING and route.counts.attempts > 2)
        self.assertIn(reason, route.reason)
        lines = [line for line in self.lines if reason in line]
        self.assertEqual(len(lines), 1, self.lines)

    async def test_broker_that_is_away(self) -> None:
        """A route waits for a broker that is away, and its messages stay in the queue."""
        away = BrokerAddress(ADDRESS, free_port())
        await self.send(b"one")
        route = self.route(self.outward(broker=self.broker_settings(addresses=(away,))))
        await self.assert_waits(route, "Connection refused")
        self.assertTrue(route.reason.startswith(f"broker {away}: "), route.reason)
        self.assertEqual(self.count(), 1)
        with self.assertRaisesRegex(BrokerError, f"^broker {away}: .*Connection refused"):
            await route.test(1)

    async def test_all_nodes_are_away(self) -> None:
        """The reason names the node that was tried last; the log has one line for all nodes."""
        nodes = tuple(BrokerAddress(ADDRESS, free_port()) for _ in range(2))
        route = self.route(self.outward(broker=self.broker_settings(addresses=nodes)))
        for node in nodes:
            await self.until(lambda node=node: route.reason.startswith(f"broker {node}: "))  # type: ignore[misc]
        await self.assert_waits(route, "Connection refused")

    async def test_another_node_is_tried(self) -> None:
        """With several nodes the next one is tried."""
        addresses = (BrokerAddress(ADDRESS, free_port()), BrokerAddress(ADDRESS, self.broker.port))
        queue = await self.queue()
        await self.send(b"one")
        self.route(
            self.outward(rules={"routing_key": queue}, broker=self.broker_settings(addresses=addresses))
        )
        self.assertEqual(bodies(await self.get(queue, 1)), [b"one"])

    async def test_login_is_refused(self) -> None:
        """The reason of the broker is shown, and the password is not."""
        settings = self.broker_settings(password="mistaken-staple")
        for each in (self.outward(broker=settings), self.inward("any", broker=settings)):
            route = self.route(each)
            await self.until(lambda route=route: route.counts.attempts > 1)  # type: ignore[misc]
            self.assertIn("Login was refused", route.reason)
        self.assertNotIn("staple", "".join(self.lines) + repr(settings))

    async def test_virtual_host_is_missing(self) -> None:
        """The name of a missing virtual host is shown."""
        route = self.route(self.outward(broker=self.broker_settings(virtual_host="missing")))
        await self.assert_waits(route, "vhost missing not found")

    async def test_tls(self) -> None:
        """Messages go over TLS, if the certificate is trusted."""
        queue = await self.queue()
        await self.send(b"one")
        tls = {"addresses": (BrokerAddress(ADDRESS, self.broker.tls_port),), "is_tls": True}
        other = self.broker.directory / "server.pem"
        refused = self.route(
            self.outward(
                "refused", queue=".\\private$\\x", broker=self.broker_settings(**tls, ca_file=str(other))
            )
        )
        await self.assert_waits(refused, "certificate verify failed")
        trusted = self.broker_settings(**tls, ca_file=str(self.broker.directory / "ca.pem"))
        self.route(self.outward(rules={"routing_key": queue}, broker=trusted))
        self.assertEqual(bodies(await self.get(queue, 1)), [b"one"])

    async def test_exchange_is_missing(self) -> None:
        """A route waits for its exchange, and forwards when that was declared."""
        name = f"{self.prefix}.exchange"
        await self.send(b"one")
        route = self.route(self.outward(rules={"exchange": name}))
        await self.assert_waits(route, f"no exchange '{name}'")
        queue = await self.queue()

        def declare(channel: Any) -> None:
            channel.exchange_declare(name, "fanout", auto_delete=False)
            channel.queue_bind(queue, name)

        await self.on_channel(declare)
        self.assertEqual(bodies(await self.get(queue, 1)), [b"one"])

    async def test_queue_of_the_broker_is_missing(self) -> None:
        """A route waits for a queue of the broker, also when it is deleted later."""
        queue = await self.queue()
        await self.on_channel(lambda channel: channel.queue_delete(queue))
        route = self.route(self.inward(queue))
        await self.assert_waits(route, f"no queue '{queue}'")

        def declare(channel: Any) -> None:
            channel.queue_declare(queue, durable=True)
            channel.basic_publish("", queue, b"one", pika.BasicProperties(message_id="1"))

        await self.on_channel(declare)
        self.assertEqual([each.body for each in await self.receive(1)], [b"one"])
        await self.until(lambda: route.in_flight == 0)
        await self.on_channel(lambda channel: channel.queue_delete(queue))
        await self.until(lambda: route.condition is RouteCondition.WAITING)

    async def test_alarm_of_the_broker(self) -> None:
        """While the broker has an alarm the route is blocked; then it goes on, and nothing is lost."""
        queue = await self.queue()
        route = self.route(self.outward(rules={"routing_key": queue}))
        await self.until(lambda: route.condition is RouteCondition.RUNNING)
        self.broker.control("set_vm_memory_high_watermark", "absolute", "1")
        try:
            await self.send(b"one")
            await self.until(lambda: route.condition is RouteCondition.BLOCKED)
            await self.send(b"two")
        finally:
            self.broker.control("set_vm_memory_high_watermark", "0.4")
        self.assertEqual(bodies(await self.get(queue, 2)), [b"one", b"two"])
        await self.until(lambda: self.count() == 0)
        self.assertEqual(route.counts.dead_letters, 0)

    async def test_alarm_and_a_dead_letter(self) -> None:
        """While the broker has an alarm a route from it goes on, also if one of its messages is a dead
        letter, which is stored when the alarm has ended.
        """
        queue = await self.queue()
        await self.publish(queue, b"too large", *(b"%d" % number for number in range(20)))
        self.broker.control("set_vm_memory_high_watermark", "absolute", "1")
        try:
            route = self.route(self.inward(queue, rules={"limit": 5}, window=4))
            await self.until(lambda: self.count() == 20)
            await self.until(lambda: route.in_flight == 1)
        finally:
            self.broker.control("set_vm_memory_high_watermark", "0.4")
        await self.until_there(f"{queue}.dead")
        self.assertEqual(bodies(await self.get(f"{queue}.dead", 1)), [b"too large"])
        await self.until(lambda: route.in_flight == 0)

    async def test_large_messages(self) -> None:
        """Messages that have more bytes together than may be in flight arrive, and those that the route
        refuses are dead letters.
        """
        self.patch(consumer_module, "IN_FLIGHT", 100_000)
        queue = await self.queue()
        wanted = [bytes([number]) * 40_000 for number in range(20)]
        for body in wanted:
            await self.publish(queue, body, bytes(60_000))
        self.route(self.inward(queue, rules={"limit": 50_000}))
        self.assertEqual([each.body for each in await self.receive(20)], wanted)
        await self.until_there(f"{queue}.dead")
        self.assertEqual(bodies(await self.get(f"{queue}.dead", 20)), [bytes(60_000)] * 20)


class OutwardMessageTests(BridgeTestCase):
    """Messages from a queue that cannot be delivered."""

    async def test_unroutable_message(self) -> None:
        """A message that no queue of the broker takes becomes a dead letter; the others arrive."""
        queue = await self.queue()
        expression = MessageExpression.parse("label")
        self.route(self.outward(rules={"routing_expression": expression}))
        await self.send(b"one", label=queue)
        (lost,) = await self.send(b"two", label=f"{queue}.no-such-queue")
        await self.send(b"three", label=queue)
        self.assertEqual(bodies(await self.get(queue, 2)), [b"one", b"three"])
        headers = await self.assert_dead_letter("unroutable: NO_ROUTE (312)", b"two")
        self.assertEqual((headers[ROUTE], headers[IDENTIFIER]), ("out", lost))

    async def test_mapping_fails(self) -> None:
        """A message that cannot be mapped becomes a dead letter; the others arrive."""
        queue = await self.queue()
        self.route(self.outward(rules={"routing_key": queue, "limit": 5}))
        await self.send(b"one", b"too large", b"two")
        self.assertEqual(bodies(await self.get(queue, 2)), [b"one", b"two"])
        await self.assert_dead_letter("limit: the body has 9 bytes, and limit is 5", b"too large")

    async def test_large_extension(self) -> None:
        """A dead letter that is too large with its reason is kept without it, as it was sent."""
        queue = await self.queue()
        self.route(self.outward(rules={"routing_key": queue}))
        extension = bytes(range(1, 256)) * 13_000
        await self.send(b"large", extension=extension)
        await self.send(b"two")
        self.assertEqual(bodies(await self.get(queue, 1)), [b"two"])
        [dead_letter] = await self.receive(1, DEAD_LETTERS)
        self.assertEqual((bytes(dead_letter.body), bytes(dead_letter.view.extension)), (b"large", extension))
        await self.until(lambda: self.count() == 0)

    async def test_headers_that_are_too_large_for_a_frame(self) -> None:
        """Headers are limited in bytes, and with what encodes them: the broker ends a connection for more."""
        queue = await self.queue()
        many = {f"{number:x}": "" for number in range(14_000)}
        for body, headers in ((b"wide", {"note": "\u7bb1" * 60_000}), (b"many", many)):
            text = json.dumps(headers, ensure_ascii=False, separators=(",", ":"))
            await self.send(body, extension=text.encode())
        await self.send(b"after them")
        route = self.route(self.outward(rules={"routing_key": queue}))
        self.assertEqual(bodies(await self.get(queue, 1)), [b"after them"])
        await self.until(lambda: route.counts.dead_letters == 2)
        dead_letters = await self.receive(2, DEAD_LETTERS)
        self.assertEqual([each.body for each in dead_letters], [b"wide", b"many"])
        self.assertEqual(route.counts.connections, 1)

    async def test_numbers_in_headers(self) -> None:
        """A rule may put any number of a body into a header; what AMQP cannot hold is a dead letter."""
        queue = await self.queue()
        rules = {
            "routing_key": queue,
            "decoding": BodyDecoding("json"),
            "properties": {"header.amount": MessageExpression.parse("body.amount")},
        }
        self.route(self.outward(rules=rules))
        too_large = b'{"amount": %d}' % (1 << 63)
        await self.send(b'{"amount": 2.5}', too_large, b'{"amount": %d}' % (1 << 62), b'{"amount": 7}')
        found = [properties.headers["amount"] for properties, _ in await self.get(queue, 3)]
        # pika reads a double, and cuts off its fraction.
        self.assertEqual(found, [2, 1 << 62, 7])
        await self.assert_dead_letter(
            "mapping: the message cannot be encoded:"
            " headers: the field 'amount': an integer has more than 64 bits",
            too_large,
        )

    async def test_message_that_closes_the_channel(self) -> None:
        """A message for which the broker closes the channel is found, and the others arrive."""
        queue = await self.queue()
        large = bytes(LARGEST_MESSAGE + 1)
        await self.send(b"one", large, b"two", b"three")
        self.route(self.outward(rules={"routing_key": queue}))
        found = set(bodies(await self.get(queue, 3)))
        self.assertEqual(found - {b"one", b"two", b"three"}, set())
        await self.assert_dead_letter(
            "message size 1000001 is larger than configured max size 1000000", large
        )

    async def test_exchange_of_a_program(self) -> None:
        """An exchange that a program chooses and the broker lacks is a fault of that message alone."""
        queue = await self.queue()
        program = MappingProgram("tests:Exchanges", WrongExchange())
        await self.send(b"one", b"wrong", b"two")
        route = self.route(self.outward(rules={"routing_key": queue, "program": program}))
        await self.assert_dead_letter("no exchange 'missing'", b"wrong")
        found = await self.get(queue, await self.depth(queue))
        self.assertEqual(set(bodies(found)), {b"one", b"two"})
        self.assertIs(route.condition, RouteCondition.RUNNING)

    async def test_queue_that_refuses_for_now(self) -> None:
        """A message that the broker refuses because a queue is full is sent again."""
        queue = await self.queue(**{"x-max-length": 1, "x-overflow": "reject-publish"})
        route = self.route(self.outward(rules={"routing_key": queue}, window=1))
        await self.send(b"one", b"two")
        await self.until(lambda: route.counts.retries > 0)
        self.assertEqual(bodies(await self.get(queue, 2)), [b"one", b"two"])
        self.assertEqual(route.counts.dead_letters, 0)

    async def test_route_that_stops(self) -> None:
        """With C{stops_at_failure} a message that cannot be delivered stops the route until it is resumed."""
        queue = await self.queue()
        await self.on_channel(lambda channel: channel.queue_delete(queue))
        route = self.route(self.outward(rules={"routing_key": queue}, stops_at_failure=True))
        await self.send(b"one", b"two")
        await self.until(lambda: route.condition is RouteCondition.STOPPED)
        self.assertEqual(route.reason, "unroutable: NO_ROUTE (312)")
        await self.on_channel(lambda channel: channel.queue_declare(queue, durable=True))
        route.resume()
        self.assertEqual(bodies(await self.get(queue, 2)), [b"one", b"two"])

    async def test_loop_of_two_routes(self) -> None:
        """A message that comes back to a route becomes a dead letter instead of going round."""
        queue = await self.queue()
        self.bridge(self.outward(rules={"routing_key": queue}), self.inward(queue))
        await self.send(b"round")
        await self.assert_dead_letter(
            "loop: the message has passed the route 'out' before (out, in)", b"round"
        )

    async def test_dead_letters_cannot_be_stored(self) -> None:
        """A message stays in its queue while its dead letter cannot be stored."""
        self.route(self.outward(rules={"limit": 1}, dead_letters=".\\private$\\deep\\wrong;"))
        await self.send(b"two")
        await self.until(lambda: any("dead letters" in line for line in self.lines))
        self.assertEqual(self.count(), 1)


class WrongExchange:
    """Chooses an exchange that is missing."""

    def to_broker(self, message: QueuedMessage, mapped: AmqpMessage) -> AmqpMessage:
        """See L{IOutwardMapping}."""
        return attrs.evolve(mapped, exchange="missing") if message.body == b"wrong" else mapped


class SourceTests(BridgeTestCase):
    """Queues that cannot be read."""

    async def test_queue_is_missing(self) -> None:
        """A route waits for its queue, and works when it was created."""
        queue = await self.queue()
        later = ".\\private$\\later"
        route = self.route(self.outward(rules={"routing_key": queue}, queue=later))
        await self.until(lambda: "MQ_ERROR_QUEUE_NOT_FOUND" in route.reason)
        self.assertIs(route.condition, RouteCondition.WAITING)
        await self.manager.create_queue(later)
        await self.send(b"one", queue=later)
        self.assertEqual(bodies(await self.get(queue, 1)), [b"one"])
        await self.until(lambda: route.condition is RouteCondition.RUNNING)
        self.assertEqual(route.reason, "")


class NestedProperties(pika.BasicProperties):  # type: ignore[misc]
    """Properties with a header of this many arrays in each other, which pika cannot encode."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self._depth = depth

    def encode(self) -> list[bytes]:
        """AMQP 0-9-1 4.2.6.1."""
        value = b"I\0\0\0\1"
        for _ in range(self._depth):
            value = struct.pack(">cI", b"A", len(value)) + value
        field = b"\1h" + value
        return [struct.pack(">HI", pika.BasicProperties.FLAG_HEADERS, len(field)) + field]


class OtherBytes(pika.BasicProperties):  # type: ignore[misc]
    """A header C{table}, whose only field has the name 0xff, and a correlation identifier of this byte."""

    def encode(self) -> list[bytes]:
        """AMQP 0-9-1 4.2.6.1."""
        table = b"\x01\xffI\0\0\0\1"
        field = struct.pack(">6sBI", b"\x05table", ord("F"), len(table)) + table
        flags = pika.BasicProperties.FLAG_HEADERS | pika.BasicProperties.FLAG_CORRELATION_ID
        return [struct.pack(">HI", flags, len(field)) + field + b"\x01\xff"]


class InwardMessageTests(BridgeTestCase):
    """Messages from the broker that cannot be delivered."""

    async def dead_letter(self, queue: str) -> tuple[str, bytes]:
        """The reason and the body of the dead letter of a queue of the broker."""
        await self.until_there(f"{queue}.dead")
        ((properties, body),) = await self.get(f"{queue}.dead", 1)
        return properties.headers[REASON], body

    async def test_mapping_fails(self) -> None:
        """A message that cannot be mapped is stored in the queue for dead letters at the broker."""
        queue = await self.queue()
        await self.publish(queue, b"one", b"too large", b"two")
        route = self.route(self.inward(queue, rules={"limit": 5}))
        self.assertEqual([each.body for each in await self.receive(2)], [b"one", b"two"])
        await self.until(lambda: route.counts.dead_letters == 1)
        self.assertEqual(
            await self.dead_letter(queue), ("limit: the body has 9 bytes, and limit is 5", b"too large")
        )

    async def test_nested_headers(self) -> None:
        """A message whose headers are nested too deeply is a dead letter, and the others arrive."""
        queue = await self.queue()
        await self.publish(queue, b"one")
        await self.on_channel(
            lambda channel: [
                channel.basic_publish("", queue, b"nested", NestedProperties(depth)) for depth in (2000, 100)
            ]
        )
        await self.publish(queue, b"two", message_id="2")
        route = self.route(self.inward(queue))
        self.assertEqual([each.body for each in await self.receive(2)], [b"one", b"two"])
        await self.until(lambda: route.counts.dead_letters == 2)
        self.assertEqual(route.counts.connections, 1)
        for _ in range(2):
            reason, body = await self.dead_letter(queue)
            self.assertIn("nested", reason)
            self.assertEqual(body, b"nested")

    async def test_texts_that_are_no_text(self) -> None:
        """Texts and names of headers that are not UTF-8 are forwarded as far as they can be shown."""
        queue = await self.queue()
        await self.on_channel(lambda channel: channel.basic_publish("", queue, b"one", OtherBytes()))
        await self.publish(queue, b"two")
        self.route(self.inward(queue))
        found = await self.receive(2)
        self.assertEqual([each.body for each in found], [b"one", b"two"])
        kept = read_extension(bytes(found[0].view.extension))
        assert kept is not None
        self.assertEqual((kept["table"], kept["correlation-id"]), ('{"\\\\xff":1}', "\\xff"))

    async def test_dead_letter_that_cannot_be_encoded(self) -> None:
        """The dead letter of a message whose texts have no encoding has its body and the reason."""
        queue = await self.queue()
        await self.publish(queue, b"too large", correlation_id=b"\xff" * 255)
        route = self.route(self.inward(queue, rules={"limit": 5}))
        self.assertEqual(
            await self.dead_letter(queue), ("limit: the body has 9 bytes, and limit is 5", b"too large")
        )
        await self.until(lambda: route.counts.dead_letters == 1)

    async def test_refused_property(self) -> None:
        """A message that the queue manager refuses is stored there too, and the others arrive."""
        queue = await self.queue()
        rules = {"properties": {"response_queue": MessageExpression.parse("headers.answer")}}
        await self.publish(queue, b"one")
        await self.publish(queue, b"two", headers={"answer": "nonsense"}, message_id="2")
        await self.publish(queue, b"three", message_id="3")
        route = self.route(self.inward(queue, rules=rules))
        self.assertEqual([each.body for each in await self.receive(2)], [b"one", b"three"])
        await self.until(lambda: route.counts.dead_letters == 1)
        reason, body = await self.dead_letter(queue)
        self.assertIn("response_queue", reason)
        self.assertEqual(body, b"two")

    async def test_queue_is_missing(self) -> None:
        """A route waits for its queue, and messages arrive in order when it was created."""
        queue = await self.queue()
        await self.publish(queue, b"one", b"two")
        route = self.route(self.inward(queue, queue=".\\private$\\later"))
        await self.until(lambda: route.condition is RouteCondition.WAITING)
        self.assertIn("MQ_ERROR_QUEUE_NOT_FOUND", route.reason)
        await self.manager.create_queue(".\\private$\\later")
        found = await self.receive(2, ".\\private$\\later")
        self.assertEqual([each.body for each in found], [b"one", b"two"])
        await self.until(lambda: route.condition is RouteCondition.RUNNING)
