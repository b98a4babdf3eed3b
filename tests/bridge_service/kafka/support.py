"""A queue manager in the process of the test, a mock cluster, and confluent-kafka's clients beside it."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from twisted.internet.threads import deferToThread

from msmq.bridge.rules import InwardRules, OutwardRules
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.kafka.settings import KafkaSettings
from msmq.bridge_service.settings import DEAD_LETTERS, InwardSettings, OutwardSettings
from tests.bridge_service.routes import ORDERS, RouteTestCase
from tests.patience import DEADLINE
from tests.servers.kafka import KafkaCluster, shared_cluster


class KafkaTestCase(RouteTestCase):
    """Has a cluster too, C{self.cluster}, and a topic, C{self.topic}."""

    async def begin(self) -> None:
        """See L{RouteTestCase}."""
        self.cluster = self.make_cluster()
        self.addCleanup(self.cluster.succeed)
        await super().begin()
        self.topic = self.new_topic()

    def make_cluster(self) -> KafkaCluster:
        """The cluster of the test."""
        return shared_cluster()

    def new_topic(self, partitions: int = 1) -> str:
        """A new topic."""
        name = f"{self.prefix}.{next(self.names)}"
        self.cluster.create_topic(name, partitions)
        return name

    # Routes.

    def broker_settings(self, **changes: Any) -> KafkaSettings:
        """Settings of a connection to the cluster."""
        name = f"msmq-bridge.{self.prefix}"
        return KafkaSettings(
            **{
                "addresses": tuple(BrokerAddress(host, port) for host, port in self.cluster.hosts),
                "client_name": name,
                "group": name,
                "state_topic": name,
                "session_time": 2.0,
                "retry": 0.05,
                "retry_maximum": 0.2,
                **changes,
            }
        )

    def outward(
        self, name: str = "out", rules: dict[str, Any] | None = None, **changes: Any
    ) -> OutwardSettings:
        """Settings of a route from a queue to the topic; its state has a topic, too."""
        self.cluster.create_topic(f"msmq-bridge.{self.prefix}")
        return OutwardSettings(
            **{
                "name": name,
                "broker": self.broker_settings(),
                "queue": ORDERS,
                "dead_letters": DEAD_LETTERS,
                "rules": OutwardRules(route=name, **{"exchange": self.topic, **(rules or {})}),
                **changes,
            }
        )

    def inward(self, name: str = "in", rules: dict[str, Any] | None = None, **changes: Any) -> InwardSettings:
        """Settings of a route from the topic to a queue."""
        return InwardSettings(
            **{
                "name": name,
                "broker": self.broker_settings(),
                "queue": ORDERS,
                "broker_queue": self.topic,
                "dead_letters": f"{self.topic}.dead",
                "rules": InwardRules(route=name, **(rules or {})),
                **changes,
            }
        )

    # The cluster's side.

    async def produce(self, *values: bytes | None, topic: str = "", **arguments: Any) -> None:
        """Produce records."""

        def work() -> None:
            producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "linger.ms": 0})
            errors: list[Any] = []
            for value in values:
                producer.produce(
                    topic or self.topic, value, on_delivery=lambda error, _: errors.append(error), **arguments
                )
            producer.flush(DEADLINE)
            if errors != [None] * len(values):
                raise self.failureException(f"the cluster has not stored all records: {errors}")

        await deferToThread(work)

    async def records(self, number: int, topic: str = "") -> list[Any]:
        """So many records of a topic, from its beginning on."""

        def work() -> list[Any]:
            consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": "independent"})
            name = topic or self.topic
            partitions = consumer.list_topics(name, timeout=DEADLINE).topics[name].partitions
            consumer.assign([TopicPartition(name, each, 0) for each in partitions])
            found: list[Any] = []
            end = time.monotonic() + DEADLINE
            while len(found) < number and time.monotonic() < end:
                found += [each for each in consumer.consume(number - len(found), 0.2) if each.error() is None]
            consumer.close()
            return found

        return await deferToThread(work)

    async def committed(self) -> int:
        """The offset that the group of the route has committed for the first partition."""

        def work() -> int:
            group = self.broker_settings().group
            consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": group})
            (found,) = consumer.committed([TopicPartition(self.topic, 0)], timeout=DEADLINE)
            consumer.close()
            return int(found.offset)

        return await deferToThread(work)


def values(records: list[Any]) -> list[bytes]:
    """The values of records."""
    return [record.value() for record in records]
