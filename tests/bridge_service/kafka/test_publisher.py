"""Publishing in transactions, without a route."""

from __future__ import annotations

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from msmq.bridge_service.brokers import PublishResults
from msmq.bridge_service.kafka.broker import KafkaBroker
from msmq.interfaces.bridge_messages import AmqpMessage, AmqpProperties, QueuedMessage
from tests.bridge_service.kafka.support import KafkaTestCase, values

IDENTIFIER = "{12345678-1234-5678-1234-567812345678}\\%d"


class PublisherTests(KafkaTestCase):
    """A publisher for the topic of the test."""

    async def begin(self) -> None:
        """See L{KafkaTestCase}."""
        await super().begin()
        self.confirmed: list[int] = []
        unexpected = lambda *arguments: self.fail(f"{arguments}")  # noqa: E731
        results = PublishResults(
            confirmed=self.confirmed.append, returned=unexpected, nacked=unexpected, failed=unexpected
        )
        self.cluster.create_topic(f"msmq-bridge.{self.prefix}")
        broker = KafkaBroker(self.broker_settings(), reactor)
        connection = await broker.connect(broker.nodes[0])
        self.addCleanup(lambda: Deferred.fromCoroutine(connection.close()))
        self.publisher = await connection.open_publisher(self.topic, results, unexpected)

    def publish(self, number: int, token: int) -> None:
        """Publish the message with this number."""
        source = QueuedMessage({"id": IDENTIFIER % number, "lookup_id": number}, b"")
        self.publisher.publish(source, AmqpMessage(self.topic, "", AmqpProperties(), b"%d" % number), token)

    async def test_delivered_again_before_the_commit(self) -> None:
        """A message that its queue delivers again while its transaction is open is published once."""
        self.publish(1, 1)
        self.publish(2, 2)
        self.publish(1, 3)
        self.publish(2, 4)
        await self.until(lambda: len(self.confirmed) > 1)
        self.publish(1, 5)
        self.publish(3, 6)
        await self.until(lambda: len(self.confirmed) > 3)
        self.assertEqual(sorted(self.confirmed), [3, 4, 5, 6])
        self.assertEqual(values(await self.records(3)), [b"1", b"2", b"3"])
