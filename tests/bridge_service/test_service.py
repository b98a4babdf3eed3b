"""Several routes of one bridge, to brokers in memory."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from msmq.bridge.rules import OutwardRules
from msmq.bridge_service import route as route_module
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.bridge_service.rabbitmq.settings import RabbitSettings
from msmq.bridge_service.service import BridgeService
from msmq.bridge_service.settings import DEAD_LETTERS, OutwardSettings
from tests.bridge_service.memory_broker import MemoryBroker
from tests.manager.support import ManagerTestCase

ROUTES = 10
CLOSE_TIME = 2.0


class StopTests(ManagerTestCase):
    """A bridge that stops."""

    def test_brokers_that_hang(self) -> None:
        """Brokers that do not answer when their connections are closed delay the end once, not each."""
        reactor = self.clock.reactor

        class SlowBroker(MemoryBroker):
            """Closes its connection after some seconds."""

            async def close(self) -> None:
                await deferLater(reactor, CLOSE_TIME)

        self.patch(route_module, "open_broker", lambda settings, reactor: SlowBroker())
        service = BridgeService(
            [
                OutwardSettings(
                    name=f"out-{number}",
                    broker=RabbitSettings(addresses=(BrokerAddress("127.0.0.1", 5672),)),
                    queue=self.orders,
                    dead_letters=DEAD_LETTERS,
                    rules=OutwardRules(route="out"),
                )
                for number in range(ROUTES)
            ],
            lambda _: ManagerQueues(self.service),
            reactor,
            None,
        )
        service.start()
        self.clock.advance(1)
        stopped = Deferred.fromCoroutine(service.stop())
        self.clock.advance(CLOSE_TIME)
        self.successResultOf(stopped)
