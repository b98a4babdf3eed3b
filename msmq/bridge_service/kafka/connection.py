"""What a route opens at a cluster of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import CancelledError
from zope.interface import implementer

from msmq.bridge_service.brokers import (
    DeadLetterError,
    IBrokerConnection,
    IDeadLetterPublisher,
    PublishResults,
)
from msmq.bridge_service.kafka.client_thread import PAUSE, ClientThread
from msmq.bridge_service.kafka.cluster_client import ClusterClient, ClusterErrors
from msmq.bridge_service.kafka.consumer import KafkaConsumer
from msmq.bridge_service.kafka.errors import broker_error
from msmq.bridge_service.kafka.publisher import KafkaPublisher
from msmq.bridge_service.kafka.records import from_record, to_record
from msmq.bridge_service.kafka.settings import KafkaSettings
from msmq.bridge_service.kafka.subscription import Subscription, first_records
from msmq.bridge_service.kafka.transactions import TransactionalProducer
from msmq.interfaces.bridge_messages import AmqpMessage


@implementer(IBrokerConnection)
class KafkaConnection:
    """A client that knows the cluster, and the producer or the consumer of a route.

    librdkafka reconnects by itself; the connection counts as lost when no broker can be reached.
    """

    def __init__(self, settings: KafkaSettings, reactor: Any) -> None:
        self._settings = settings
        self._reactor = reactor
        self._errors = ClusterErrors(settings.bootstrap)
        self._cluster: ClusterClient | None = None
        self._opened: KafkaPublisher | KafkaConsumer | None = None
        self._is_closing = False
        self.is_working = False
        self._thread = ClientThread(reactor, self._serve, self._failed)

    async def connect(self) -> None:
        """Reach the cluster.

        @raise BrokerError: it cannot be reached, or refuses the login.
        """
        await self._call(self._connect)

    async def check(self, destination: str) -> None:
        """See L{IBrokerConnection}; the destination is a topic."""
        if destination:
            await self._call(lambda: self._client.require(destination))

    async def open_publisher(
        self, destination: str, results: PublishResults, blocked: Callable[[str], None]
    ) -> KafkaPublisher:
        """See L{IBrokerConnection}; the destination is a topic. A cluster blocks no producer."""
        await self.check(destination)
        settings, errors = self._settings, self._errors

        def make() -> TransactionalProducer:
            return TransactionalProducer(settings, self._client, errors, lambda: self._is_closing)

        self._opened = publisher = KafkaPublisher(self._reactor, make, results, destination)
        await publisher.start()
        return publisher

    async def open_consumer(
        self, source: str, prefetch: int, delivered: Callable[[int, AmqpMessage], None]
    ) -> KafkaConsumer:
        """See L{IBrokerConnection}; the source is a topic."""
        await self.check(source)
        self._opened = consumer = KafkaConsumer(
            self._reactor,
            lambda: Subscription(self._settings, source, prefetch, self._errors),
            delivered,
        )
        await consumer.start()
        return consumer

    def dead_letters(self, name: str) -> KafkaDeadLetters:
        """See L{IBrokerConnection}; the name is that of a topic."""
        return KafkaDeadLetters(self, name)

    async def peek(self, source: str, count: int) -> Sequence[AmqpMessage]:
        """See L{IBrokerConnection}."""
        await self.check(source)
        found = await self._call(
            lambda: first_records(self._settings, source, count, self._errors, self._client.patiently)
        )
        return [from_record(record) for record in found]

    async def store(self, message: AmqpMessage) -> None:
        """Produce a record outside of any transaction; done when all replicas have it.

        @raise BrokerError: it is not stored, or there is no such topic.
        """
        record = to_record(message)

        def produce() -> None:
            self._client.require(record.topic)
            self._client.produce(record)

        await self._call(produce)

    async def close(self) -> None:
        """See L{IBrokerConnection}."""
        self._is_closing = True
        if self._opened is not None:
            await self._opened.close()
        await self._thread.stop(self._close)

    @property
    def _client(self) -> ClusterClient:
        assert self._cluster is not None
        return self._cluster

    async def _call(self, work: Callable[[], Any]) -> Any:
        try:
            return await self._thread.call(work)
        except CancelledError:
            raise
        except Exception as error:
            raise broker_error(error) from error

    def _connect(self) -> None:
        self._cluster = ClusterClient.connected(self._settings, self._errors, lambda: self._is_closing)

    def _serve(self) -> float:
        if self._cluster is not None:
            self._cluster.examine()
        return PAUSE

    def _failed(self, error: BaseException) -> None:
        if self._opened is not None and not self._opened.closed.called:
            self._opened.closed.callback(broker_error(error))

    def _close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()


@implementer(IDeadLetterPublisher)
class KafkaDeadLetters:
    """Stores dead letters in a topic."""

    def __init__(self, connection: KafkaConnection, topic: str) -> None:
        self._connection = connection
        self._topic = topic

    async def store(self, message: AmqpMessage) -> None:
        """See L{IDeadLetterPublisher}."""
        try:
            await self._connection.store(message)
        except ValueError as error:
            raise DeadLetterError(
                f"topic {self._topic}: the dead letter cannot be encoded: {error}"
            ) from error
