"""A queue manager in the process of the test, a real broker, and pika as the application on its side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pika
from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from msmq.bridge.rules import InwardRules, OutwardRules
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.rabbitmq.settings import RabbitSettings
from msmq.bridge_service.settings import DEAD_LETTERS, InwardSettings, OutwardSettings
from tests.bridge_service.routes import OFF, ORDERS, RouteTestCase
from tests.servers.rabbitmq import ADDRESS, PASSWORD, USER, RabbitServer, shared_broker

__all__ = ["OFF", "ORDERS", "BridgeTestCase", "bodies"]

T = TypeVar("T")


class BridgeTestCase(RouteTestCase):
    """Has a broker too, C{self.broker}."""

    async def begin(self) -> None:
        """See L{RouteTestCase}."""
        self.broker: RabbitServer = shared_broker()
        await super().begin()

    # Routes.

    def broker_settings(self, **changes: Any) -> RabbitSettings:
        """Settings of a connection to the broker."""
        return RabbitSettings(
            **{
                "addresses": (BrokerAddress(ADDRESS, self.broker.port),),
                "user": USER,
                "password": PASSWORD,
                "retry": 0.05,
                "retry_maximum": 0.2,
                **changes,
            }
        )

    def outward(
        self, name: str = "out", rules: dict[str, Any] | None = None, **changes: Any
    ) -> OutwardSettings:
        """Settings of a route from a queue to a broker."""
        return OutwardSettings(
            **{
                "name": name,
                "broker": self.broker_settings(),
                "queue": ORDERS,
                "dead_letters": DEAD_LETTERS,
                "rules": OutwardRules(route=name, **(rules or {})),
                **changes,
            }
        )

    def inward(
        self, broker_queue: str, name: str = "in", rules: dict[str, Any] | None = None, **changes: Any
    ) -> InwardSettings:
        """Settings of a route from a broker to a queue."""
        return InwardSettings(
            **{
                "name": name,
                "broker": self.broker_settings(),
                "queue": ORDERS,
                "broker_queue": broker_queue,
                "dead_letters": f"{broker_queue}.dead",
                "rules": InwardRules(route=name, **(rules or {})),
                **changes,
            }
        )

    # The broker's side.

    async def on_channel(self, work: Callable[[Any], T]) -> T:
        """Do something on a channel of pika's blocking client, in a thread."""

        def run() -> T:
            connection = pika.BlockingConnection(self.broker.parameters)
            try:
                return work(connection.channel())
            finally:
                connection.close()

        return await deferToThread(run)

    async def queue(self, **arguments: Any) -> str:
        """A new durable queue of the broker."""
        name = f"{self.prefix}.{next(self.names)}"
        await self.on_channel(lambda channel: channel.queue_declare(name, durable=True, arguments=arguments))
        return name

    async def publish(self, queue: str, *bodies: bytes, **properties: Any) -> None:
        """Publish messages to a queue of the broker."""

        def work(channel: Any) -> None:
            channel.confirm_delivery()
            for number, body in enumerate(bodies):
                given = {"message_id": f"{queue}-{number}", "delivery_mode": 2, **properties}
                channel.basic_publish("", queue, body, pika.BasicProperties(**given), mandatory=True)

        await self.on_channel(work)

    async def get(self, queue: str, number: int) -> list[tuple[Any, bytes]]:
        """Take so many messages out of a queue of the broker: properties and body of each."""

        def work(channel: Any) -> list[tuple[Any, bytes]]:
            found = []
            for method, properties, body in channel.consume(queue, inactivity_timeout=None):
                found.append((properties, body))
                channel.basic_ack(method.delivery_tag)
                if len(found) == number:
                    break
            channel.cancel()
            return found

        return await self.on_channel(work)

    async def depth(self, queue: str) -> int:
        """The messages in a queue of the broker that are ready."""
        return await self.on_channel(
            lambda channel: int(channel.queue_declare(queue, passive=True).method.message_count)
        )

    async def until_there(self, queue: str) -> None:
        """Wait until a queue of the broker exists."""

        def exists() -> bool:
            connection = pika.BlockingConnection(self.broker.parameters)
            try:
                connection.channel().queue_declare(queue, passive=True)
                return True
            except pika.exceptions.ChannelClosedByBroker:
                return False
            finally:
                connection.close()

        while not await deferToThread(exists):
            await deferLater(reactor, 0.01)


def bodies(found: Sequence[tuple[Any, bytes]]) -> list[bytes]:
    """The bodies of messages of the broker."""
    return [body for _, body in found]
