"""Routes whose large bodies are stored in one directory."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.internet.defer import Deferred, maybeDeferred

from msmq.bridge.rules import OutwardRules
from msmq.bridge_service import claim_files
from msmq.bridge_service import route as route_module
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.bridge_service.rabbitmq.settings import RabbitSettings
from msmq.bridge_service.service import BridgeService
from msmq.bridge_service.settings import DEAD_LETTERS, OutwardSettings
from tests.bridge_service.memory_broker import MemoryBroker
from tests.manager.support import ManagerTestCase

DAY = 86_400.0


class SharedClaimTests(ManagerTestCase):
    """Two routes, one of which would keep bodies for a minute alone."""

    def setUp(self) -> None:
        super().setUp()
        self.brokers = [MemoryBroker(), MemoryBroker()]
        brokers = iter(self.brokers)
        self.patch(route_module, "open_broker", lambda settings, reactor: next(brokers))
        # Threads would need another reactor than the clock.
        self.patch(claim_files, "deferToThread", maybeDeferred)
        self.directory = Path(self.mktemp())
        self.directory.mkdir()
        link = Path(self.mktemp())
        link.symlink_to(self.directory.resolve())
        routes = [
            OutwardSettings(
                name=queue[-6:],
                broker=RabbitSettings(addresses=(BrokerAddress("127.0.0.1", 5672),)),
                queue=queue,
                dead_letters=DEAD_LETTERS,
                claims=claims,
                claim_lifetime=lifetime,
                rules=OutwardRules(route=queue, limit=10, has_claims=True),
            )
            for queue, claims, lifetime in ((self.orders, self.directory, DAY), (self.admin, link, 60.0))
        ]
        bridge = BridgeService(
            routes,
            lambda _: ManagerQueues(self.service),
            self.clock.reactor,
            None,
            lambda: self.clock.now().wall,
        )
        bridge.start()
        self.addCleanup(lambda: Deferred.fromCoroutine(bridge.stop()))

    def forward(self, queue: str, body: bytes) -> None:
        before = set(self.directory.iterdir())
        self.put(queue, body)
        self.clock.advance(2)
        now = self.clock.now().wall
        for new in set(self.directory.iterdir()) - before:
            # The file system has another clock than the test.
            os.utime(new, (now, now))
        for broker in self.brokers:
            broker.confirm()
        self.clock.advance(2)

    def stored(self) -> set[bytes]:
        return {each.read_bytes() for each in self.directory.iterdir()}

    def test_longest_time(self) -> None:
        """A body is kept for the longest time of all routes with its directory, whichever looks."""
        first, second, third = b"1" * 100, b"2" * 100, b"3" * 100
        self.forward(self.orders, first)
        self.clock.advance(DAY / 2)
        self.forward(self.admin, second)
        self.assertEqual(self.stored(), {first, second})
        self.clock.advance(DAY)
        self.forward(self.admin, third)
        self.assertEqual(self.stored(), {third})
        self.assertEqual([broker.published for broker in self.brokers], [[b""], [b"", b""]])
