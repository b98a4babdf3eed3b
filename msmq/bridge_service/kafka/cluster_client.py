"""The client of a connection: whether the cluster can be used, which topics exist, and single records."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from msmq.bridge_service.brokers import BrokerError
from msmq.bridge_service.kafka.client_configuration import LARGEST_MESSAGE, client_configuration
from msmq.bridge_service.kafka.errors import (
    MISSING,
    OF_THE_CLUSTER,
    broker_error,
    cause_of,
    error_of,
    text_of,
)
from msmq.bridge_service.kafka.records import KafkaRecord
from msmq.bridge_service.kafka.settings import KafkaSettings

SLICE: Final = 0.25
"""Seconds that one call may block; between two the thread looks whether it should end."""

DOUBT: Final = 5.0
"""Seconds in which a cluster has to answer when one of its nodes could not be reached."""

_TRANSIENT: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)


class ClusterErrors:
    """The errors that clients of a connection report in their threads.

    @param nodes: of the cluster, for people.
    @ivar last: the text of the last one, for a call that has no reason of its own.
    @ivar is_doubtful: whether a node could not be reached since this was set to False: idle clients do not
        look for another one, and report no failure of all of them.
    """

    def __init__(self, nodes: str) -> None:
        self.last = ""
        self.is_doubtful = False
        self._nodes = nodes
        self._ending: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """An error of a client."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._ending = self._ending or error
        elif error.code() in OF_THE_CLUSTER or error.fatal():
            self._ending = error
            self.last = text_of(error)
        else:
            self.is_doubtful = True
            self.last = f"{self._nodes}: {cause_of(error)}"

    def check(self) -> None:
        """Raise the error that ends the connection.

        @raise BrokerError: there is one.
        """
        if self._ending is not None:
            raise BrokerError(self.last or text_of(self._ending))


class ClusterClient:
    """A producer without transactions; its methods block, and may be called in any thread but the reactor's.

    @param is_stopping: whether a call should end.
    """

    def __init__(
        self, settings: KafkaSettings, errors: ClusterErrors, is_stopping: Callable[[], bool]
    ) -> None:
        self._settings = settings
        self._errors = errors
        self._is_stopping = is_stopping
        self.producer: Any = Producer(
            {
                **client_configuration(settings, errors),
                "enable.idempotence": True,
                "message.max.bytes": LARGEST_MESSAGE,
                "linger.ms": 0,
            }
        )

    @classmethod
    def connected(
        cls, settings: KafkaSettings, errors: ClusterErrors, is_stopping: Callable[[], bool]
    ) -> Self:
        """A client that has reached the cluster.

        @raise BrokerError: the configuration is refused, the cluster cannot be reached, or it refuses the
            login.
        """
        try:
            client = cls(settings, errors, is_stopping)
        except KafkaException as error:
            # A file that cannot be read, or is not PEM.
            raise broker_error(error) from error
        client.topics()
        return client

    def serve(self) -> None:
        """Call the callbacks of the client.

        @raise BrokerError: the cluster cannot be used any more.
        """
        self.producer.poll(0)
        self._errors.check()

    def examine(self) -> None:
        """L{serve}, and look whether a cluster can still be reached of which a node cannot.

        @raise BrokerError: it cannot.
        """
        self.serve()
        if self._errors.is_doubtful:
            self.patiently(lambda slice_: self.producer.list_topics(timeout=slice_), DOUBT)
            self._errors.is_doubtful = False

    def patiently(self, call: Callable[[float], Any], seconds: float | None = None) -> Any:
        """Repeat a call with a time limit of its own until it succeeds.

        @param call: called with the seconds that it may block.
        @raise BrokerError: the cluster cannot be used, the time is over, or the connection is closed.
        """
        end = time.monotonic() + (self._settings.connect_time if seconds is None else seconds)
        while True:
            try:
                return call(SLICE)
            except KafkaException as error:
                found = error_of(error)
                is_transient = found is not None and (found.retriable() or found.code() in _TRANSIENT)
                if not is_transient:
                    raise broker_error(error) from error
                self.serve()
                if self._is_stopping() or time.monotonic() > end:
                    raise BrokerError(self._errors.last or text_of(found)) from error

    def topics(self, topic: str = "") -> Any:
        """The topics of the cluster, or one of them, by name."""
        arguments = (topic,) if topic else ()
        found = self.patiently(lambda slice_: self.producer.list_topics(*arguments, timeout=slice_))
        return found.topics

    def has(self, topic: str) -> bool:
        """Whether there is a topic.

        @raise BrokerError: that cannot be found out, or the user may not use it.
        """
        error = self.topic_error(topic)
        if error is None:
            return True
        if error.code() in MISSING:
            return False
        raise BrokerError(f"topic {topic}: {text_of(error)}")

    def topic_error(self, topic: str) -> KafkaError | None:
        """Why a topic cannot be used; C{None} if it can.

        @raise BrokerError: the cluster cannot be used.
        """
        found = self.topics(topic).get(topic)
        if found is None:
            return KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        error: KafkaError | None = found.error
        return error

    def require(self, topic: str) -> None:
        """Look for a topic.

        @raise BrokerError: there is none.
        """
        if not self.has(topic):
            raise BrokerError(f"no topic '{topic}' at the cluster; create it")

    def produce(self, record: KafkaRecord) -> None:
        """Produce a record; done when all replicas have it.

        @raise BrokerError: it is not stored.
        """
        reports: list[KafkaError | None] = []
        try:
            self.producer.produce(
                record.topic,
                record.value,
                record.key,
                headers=list(record.headers),
                timestamp=record.timestamp,
                on_delivery=lambda error, _: reports.append(error),
            )
        except (KafkaException, BufferError) as error:
            raise broker_error(error) from error
        end = time.monotonic() + self._settings.connect_time
        while not reports:
            self.producer.poll(SLICE)
            self._errors.check()
            if self._is_stopping() or time.monotonic() > end:
                self.producer.purge()
                raise BrokerError(self._errors.last or f"topic {record.topic}: no answer")
        if reports[0] is not None:
            raise BrokerError(f"topic {record.topic}: {text_of(reports[0])}")

    def check_stopping(self) -> None:
        """Serve the client, and end a call that waits.

        @raise BrokerError: the connection is closed, or the cluster cannot be used any more.
        """
        self.serve()
        if self._is_stopping():
            raise BrokerError("the connection was closed")

    def close(self) -> None:
        """End the client; what it has not sent is lost."""
        self.producer.purge()
        self.producer.close(0)
