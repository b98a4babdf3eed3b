"""Faults of the broker and of messages: each is one line or one dead letter, and everything else goes on."""

from __future__ import annotations

from typing import Any

from msmq.bridge.expressions import MessageExpression
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.dead_letters import REASON
from msmq.bridge_service.route_state import RouteCondition
from tests.bridge_service.amqp10.support import (
    Amqp10TestCase,
    application_properties,
    with_application_properties,
)
from tests.bridge_service.support import bodies
from tests.servers.rabbitmq import ADDRESS, LARGEST_MESSAGE, free_port


class ConnectionTests(Amqp10TestCase):
    """Brokers that cannot be used."""

    async def assert_waits(self, route: Any, reason: str) -> None:
        """The route waits for a reason, which is logged once."""
        await self.until(lambda: route.condition is RouteCondition.WAITING and route.counts.attempts > 1)
        self.assertIn(reason, route.reason)
        lines = [line for line in self.lines if reason in line]
        self.assertEqual(len(lines), 1, self.lines)

    async def test_broker_that_is_away(self) -> None:
        """A route waits for a broker that is away, and its messages stay in the queue."""
        away = self.amqp10_settings(addresses=(BrokerAddress(ADDRESS, free_port()),))
        await self.send(b"one")
        route = self.route(self.to_broker(broker=away))
        await self.assert_waits(route, "Connection refused")
        self.assertEqual(self.count(), 1)

    async def test_another_node_is_tried(self) -> None:
        """With several nodes the next one is tried."""
        addresses = (BrokerAddress(ADDRESS, free_port()), BrokerAddress(ADDRESS, self.broker.port))
        await self.send(b"one")
        self.route(self.to_broker(broker=self.amqp10_settings(addresses=addresses)))
        self.assertEqual(bodies(await self.get(self.target, 1)), [b"one"])

    async def test_login_is_refused(self) -> None:
        """A refused login is one line, and the password is in none."""
        settings = self.amqp10_settings(password="mistaken-staple")
        route = self.route(self.to_broker(broker=settings))
        await self.until(lambda: route.counts.attempts > 0)
        self.assertIn("the broker refuses the login (PLAIN)", route.reason)
        self.assertNotIn("staple", "".join(self.lines) + repr(settings))

    async def test_address_is_missing(self) -> None:
        """A route waits for its address, and forwards when that was declared."""
        name = f"{self.prefix}.exchange"
        await self.send(b"one")
        route = self.route(self.to_broker(rules={"exchange": f"/exchange/{name}"}))
        await self.assert_waits(route, f"no exchange '{name}'")

        await self.on_channel(lambda channel: channel.exchange_declare(name, "fanout"))
        # The plugin confirms also what no queue takes, as until the exchange has a binding.
        await self.until(lambda: route.counts.forwarded == 1)

    async def test_address_to_consume_is_missing(self) -> None:
        """A route waits for the address that it consumes, also when it is deleted later."""
        name = f"{self.prefix}.later"
        route = self.route(self.from_broker(broker_queue=f"/amq/queue/{name}"))
        await self.assert_waits(route, f"no queue '{name}'")
        await self.on_channel(lambda channel: channel.queue_declare(name, durable=True))
        await self.publish(name, b"one")
        self.assertEqual([each.body for each in await self.receive(1)], [b"one"])
        await self.until(lambda: route.in_flight == 0)
        await self.on_channel(lambda channel: channel.queue_delete(name))
        await self.until(lambda: route.condition is RouteCondition.WAITING)

    async def test_tls(self) -> None:
        """Messages go over TLS, with a login by a certificate, if the broker's is trusted."""
        directory = self.broker.directory
        pair = self.data / "client.pem"
        pair.write_bytes((directory / "server.pem").read_bytes() + (directory / "server.key").read_bytes())
        self.broker.control("add_user", "localhost", "unused")
        self.broker.control("set_permissions", "localhost", ".*", ".*", ".*")
        tls = {
            "addresses": (BrokerAddress(ADDRESS, self.broker.tls_port),),
            "is_tls": True,
            "user": "",
            "password": "",
        }
        refused = self.route(
            self.to_broker(
                "refused",
                queue=".\\private$\\x",
                broker=self.amqp10_settings(**tls, ca_file=str(directory / "server.pem")),
            )
        )
        await self.assert_waits(refused, "certificate verify failed")
        await self.send(b"one")
        trusted = self.amqp10_settings(**tls, ca_file=str(directory / "ca.pem"), certificate_file=str(pair))
        self.route(self.to_broker(broker=trusted))
        self.assertEqual(bodies(await self.get(self.target, 1)), [b"one"])


class OutwardMessageTests(Amqp10TestCase):
    """Messages from a queue that cannot be delivered."""

    async def test_mapping_fails(self) -> None:
        """A message that cannot be mapped becomes a dead letter; the others arrive."""
        self.route(self.to_broker(rules={"limit": 5}))
        await self.send(b"one", b"too large", b"two")
        self.assertEqual(bodies(await self.get(self.target, 2)), [b"one", b"two"])
        await self.assert_dead_letter("limit: the body has 9 bytes, and limit is 5", b"too large")

    async def test_message_for_which_the_broker_ends_the_session(self) -> None:
        """A message for which the broker ends the session is found, and the others arrive."""
        large = bytes(LARGEST_MESSAGE + 1)
        await self.send(b"one", large, b"two", b"three")
        self.route(self.to_broker())
        found = set(bodies(await self.get(self.target, 3)))
        self.assertEqual(found - {b"one", b"two", b"three"}, set())
        await self.assert_dead_letter(
            "message size 1000001 is larger than configured max size 1000000", large
        )

    async def test_address_of_a_reply_is_missing(self) -> None:
        """A reply to an address that the broker refuses becomes a dead letter."""
        back = ".\\private$\\to-broker"
        await self.manager.create_queue(back)
        self.bridge(
            self.from_broker(rules={"reply_queue": "DIRECT=OS:ALPHA\\private$\\to-broker"}),
            self.to_broker("replies", {"answers": True, "exchange": ""}, queue=back, answers="in"),
        )
        await self.publish(self.target, b"6 * 7", reply_to="a/b/c")
        (request,) = await self.receive(1)
        await self.send(b"42", queue=back, correlation_id=request.identifier.to_bytes())
        await self.assert_dead_letter("unroutable: Attach rejected", b"42")


class InwardMessageTests(Amqp10TestCase):
    """Messages from the broker that cannot be delivered."""

    async def dead_letter(self) -> tuple[str, bytes]:
        """The reason and the body of the dead letter of the route."""
        await self.until_there(f"{self.target}.dead")
        ((properties, body),) = await self.get(f"{self.target}.dead", 1)
        return application_properties(properties.headers)[REASON], body

    async def test_mapping_fails(self) -> None:
        """A message that cannot be mapped is stored at the address for dead letters."""
        await self.publish(self.target, b"one", b"too large", b"two")
        route = self.route(self.from_broker(rules={"limit": 5}))
        self.assertEqual([each.body for each in await self.receive(2)], [b"one", b"two"])
        await self.until(lambda: route.counts.dead_letters == 1)
        self.assertEqual(
            await self.dead_letter(), ("limit: the body has 9 bytes, and limit is 5", b"too large")
        )
        self.assertEqual(await self.depth(self.target), 0)

    async def test_refused_property(self) -> None:
        """A message that the queue manager refuses is stored there too, and the others arrive."""
        rules = {"properties": {"response_queue": MessageExpression.parse("headers.answer")}}
        await self.publish(self.target, b"one")
        await self.publish(
            self.target, b"two", headers=with_application_properties(answer="nonsense"), message_id="2"
        )
        await self.publish(self.target, b"three", message_id="3")
        route = self.route(self.from_broker(rules=rules))
        self.assertEqual([each.body for each in await self.receive(2)], [b"one", b"three"])
        await self.until(lambda: route.counts.dead_letters == 1)
        self.assertEqual((await self.dead_letter())[1], b"two")
