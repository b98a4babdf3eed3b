"""A queue manager in the process of the test, a real broker, and pika as the application on its side."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import pika
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from msmq.bridge.native_headers import read_extension
from msmq.bridge.rules import InwardRules, OutwardRules
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.dead_letters import REASON
from msmq.bridge_service.inward_route import InwardRoute
from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.bridge_service.outward_route import OutwardRoute
from msmq.bridge_service.rabbitmq.settings import RabbitSettings
from msmq.bridge_service.service import BridgeService
from msmq.bridge_service.settings import DEAD_LETTERS, InwardSettings, OutwardSettings
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.manager.service import QueueManagerService
from msmq.queues.arriving.message import Delivery, Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.storage.memory import MemoryMessageStore
from tests.patience import DEADLINE
from tests.servers.rabbitmq import ADDRESS, PASSWORD, USER, RabbitServer, shared_broker

T = TypeVar("T")

ORDERS: Final = ".\\private$\\orders"
OFF: Final = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\ncontrol = "off"\n'


class BridgeTestCase(TestCase):
    """Has a queue manager, C{self.manager}, and the broker, C{self.broker}."""

    timeout = DEADLINE

    def setUp(self) -> Any:
        return Deferred.fromCoroutine(self.begin())

    async def begin(self) -> None:
        """Start the queue manager; a test case of a module may do more."""
        self.broker: RabbitServer = shared_broker()
        self.prefix = f"t{uuid4().hex[:8]}"
        self.names = count(1)
        self.lines: list[str] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            self.lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        # A path of trial's own may be longer than a unix socket's may be.
        self.data = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.data)
        (self.data / "msmq.toml").write_text(OFF)
        overrides = Overrides(name="ALPHA", data=os.fspath(self.data))
        self.server = Server(
            load(self.data / "msmq.toml", overrides, {}),
            IReactorTime(reactor),
            store=MemoryMessageStore(durable=True),
        )
        self.server.startService()
        self.addCleanup(self.server.stopService)
        await self.server.started
        assert self.server.parts is not None
        self.manager: QueueManagerService = self.server.parts.manager
        await self.manager.create_queue(ORDERS)

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

    def bridge(self, *settings: OutwardSettings | InwardSettings) -> BridgeService:
        """Start a bridge, which stops with the test."""
        service = BridgeService(
            settings, lambda _: ManagerQueues(self.manager), IReactorTime(reactor), self.data
        )
        service.start()
        self.addCleanup(lambda: Deferred.fromCoroutine(service.stop()))
        return service

    def route(self, settings: OutwardSettings | InwardSettings) -> OutwardRoute | InwardRoute:
        """Start a bridge of one route."""
        return self.bridge(settings).routes[settings.name]

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something that the bridge or the broker does."""
        while not is_so():
            await deferLater(reactor, 0.005)

    # The queue manager's side.

    async def send(self, *bodies: bytes, queue: str = ORDERS, **properties: Any) -> list[str]:
        """Send recoverable messages; their identifiers."""
        messages = [Message(body=body, delivery=Delivery.RECOVERABLE, **properties) for body in bodies]
        return [str(each) for each in await self.manager.send(queue, messages)]

    async def receive(self, number: int, queue: str = ORDERS) -> list[ReceivedMessage]:
        """Receive so many messages."""
        found: list[ReceivedMessage] = []
        while len(found) < number:
            held = await self.manager.reserve(queue, count=number - len(found))
            found += held.messages
            await held.confirm()
        return found

    def count(self, queue: str = ORDERS) -> int:
        """The messages in a queue."""
        return self.manager.inspection.queue(queue).messages

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

    async def assert_dead_letter(self, reason: str, body: bytes) -> dict[str, str]:
        """There is one dead letter of the queue manager, with this reason; returns its headers."""
        await self.until(
            lambda: any(each.path.endswith("dead-letters") for each in self.manager.inspection.queues())
        )
        (letter,) = await self.receive(1, DEAD_LETTERS)
        headers = read_extension(bytes(letter.view.extension))
        assert headers is not None
        self.assertIn(reason, headers[REASON])
        self.assertEqual(letter.body, body)
        await self.until(lambda: self.count() == 0)
        return headers


def bodies(found: Sequence[tuple[Any, bytes]]) -> list[bytes]:
    """The bodies of messages of the broker."""
    return [body for _, body in found]
