"""A bridge over Kafka while queue managers are killed; nodes of the mock refuse connections for a while."""

from __future__ import annotations

from tests.bridge_service.kill_case import KillTestCase
from tests.bridge_service.kill_media import KafkaMedium


class KillTests(KillTestCase):
    """A mock of a cluster."""

    def test_kafka(self) -> None:
        """Nothing is lost; that no message is committed twice is the matter of tests/bridge."""
        self.run_kills(KafkaMedium(), 3)
