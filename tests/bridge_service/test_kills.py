"""A bridge over RabbitMQ while broker and queue managers are killed with SIGKILL."""

from __future__ import annotations

from tests.bridge_service.kill_case import KillTestCase
from tests.bridge_service.kill_media import Amqp10Medium, RabbitMedium
from tests.servers.rabbitmq import shared_broker


class KillTests(KillTestCase):
    """A real broker."""

    def test_rabbitmq(self) -> None:
        """Each message reaches the broker at least once, and the other queue exactly once."""
        self.run_kills(RabbitMedium(shared_broker()), 3)

    def test_bridge_of_its_own(self) -> None:
        """The same by a bridge beside the queue managers, which is killed too."""
        self.run_kills(RabbitMedium(shared_broker()), 2, has_program=True)

    def test_amqp10(self) -> None:
        """The same over AMQP 1.0."""
        self.run_kills(Amqp10Medium(shared_broker()), 2)
