"""A queue manager in the process of the test, and routes of a bridge."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from msmq.bridge.native_headers import read_extension
from msmq.bridge_service.dead_letters import REASON
from msmq.bridge_service.inward_route import InwardRoute
from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.bridge_service.outward_route import OutwardRoute
from msmq.bridge_service.service import BridgeService
from msmq.bridge_service.settings import DEAD_LETTERS, InwardSettings, OutwardSettings
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.manager.service import QueueManagerService
from msmq.queues.arriving.message import Delivery, Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.storage.memory import MemoryMessageStore
from tests.patience import DEADLINE

ORDERS: Final = ".\\private$\\orders"
OFF: Final = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\ncontrol = "off"\n'


class RouteTestCase(TestCase):
    """Has a queue manager, C{self.manager}; a subclass has a broker."""

    timeout = DEADLINE

    def setUp(self) -> Any:
        return Deferred.fromCoroutine(self.begin())

    async def begin(self) -> None:
        """Start the queue manager; a test case of a module may do more."""
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
        self.manager: QueueManagerService = self.server.manager
        await self.manager.create_queue(ORDERS)

    def bridge(
        self, *settings: OutwardSettings | InwardSettings, wall: Callable[[], float] = time.time
    ) -> BridgeService:
        """Start a bridge, which stops with the test."""
        service = BridgeService(
            settings, lambda _: ManagerQueues(self.manager), IReactorTime(reactor), self.data, wall
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

    async def assert_dead_letter(self, reason: str, body: bytes) -> dict[str, str]:
        """There is one dead letter of the queue manager, with this reason; returns its headers."""
        await self.until(
            lambda: any(each.path.endswith("dead-letters") for each in self.manager.inspection.queues())
        )
        (dead_letter,) = await self.receive(1, DEAD_LETTERS)
        headers = read_extension(bytes(dead_letter.view.extension))
        assert headers is not None
        self.assertIn(reason, headers[REASON])
        self.assertEqual(dead_letter.body, body)
        await self.until(lambda: self.count() == 0)
        return headers
