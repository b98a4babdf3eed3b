"""Routes over AMQP 1.0 to a real RabbitMQ; pika, which speaks AMQP 0-9-1, is the application on its side."""

from __future__ import annotations

from typing import Any, Final

from proton import Data, Described, ulong

from msmq.bridge.rules import InwardRules, OutwardRules
from msmq.bridge_service.amqp10.settings import Amqp10Settings
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.settings import DEAD_LETTERS, InwardSettings, OutwardSettings
from tests.bridge_service.routes import ORDERS
from tests.bridge_service.support import BridgeTestCase
from tests.servers.rabbitmq import ADDRESS, PASSWORD, USER

APPLICATION_PROPERTIES: Final = "x-amqp-1.0-app-properties"
"""The header of AMQP 0-9-1 in which the plugin of RabbitMQ 3 keeps application properties, encoded."""


def application_properties(headers: dict[str, Any]) -> dict[str, Any]:
    """The application properties of a message that pika has received."""
    raw = headers[APPLICATION_PROPERTIES]
    data = Data()
    data.decode(raw if isinstance(raw, bytes) else raw.encode("utf-8"))
    data.rewind()
    data.next()
    found: Any = data.get_object()
    return dict(getattr(found, "value", found))


def with_application_properties(**properties: Any) -> dict[str, Any]:
    """Headers for pika, which the plugin delivers as application properties."""
    data = Data()
    described: Any = properties
    data.put_object(Described(ulong(0x74), described))
    return {APPLICATION_PROPERTIES: bytes(data.encode())}


class Amqp10TestCase(BridgeTestCase):
    """Has a queue of the broker too, C{self.target}."""

    async def begin(self) -> None:
        """See L{BridgeTestCase}."""
        await super().begin()
        self.target = await self.queue()

    def amqp10_settings(self, **changes: Any) -> Amqp10Settings:
        """Settings of a connection to the broker."""
        return Amqp10Settings(
            **{
                "addresses": (BrokerAddress(ADDRESS, self.broker.port),),
                "user": USER,
                "password": PASSWORD,
                "retry": 0.05,
                "retry_maximum": 0.2,
                "stall_time": 0.3,
                **changes,
            }
        )

    def to_broker(
        self, name: str = "out", rules: dict[str, Any] | None = None, **changes: Any
    ) -> OutwardSettings:
        """Settings of a route from a queue to an address."""
        return OutwardSettings(
            **{
                "name": name,
                "broker": self.amqp10_settings(),
                "queue": ORDERS,
                "dead_letters": DEAD_LETTERS,
                "rules": OutwardRules(
                    route=name, **{"exchange": f"/amq/queue/{self.target}", **(rules or {})}
                ),
                **changes,
            }
        )

    def from_broker(
        self, name: str = "in", rules: dict[str, Any] | None = None, **changes: Any
    ) -> InwardSettings:
        """Settings of a route from an address to a queue."""
        return InwardSettings(
            **{
                "name": name,
                "broker": self.amqp10_settings(),
                "queue": ORDERS,
                "broker_queue": f"/amq/queue/{self.target}",
                "dead_letters": f"/queue/{self.target}.dead",
                "rules": InwardRules(route=name, **(rules or {})),
                **changes,
            }
        )
