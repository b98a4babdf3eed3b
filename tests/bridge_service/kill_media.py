"""The brokers of a run with kills: what an independent consumer has seen, and how they are killed."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Final
from uuid import uuid4

from tests.servers.kafka import KafkaCluster
from tests.servers.rabbitmq import ADDRESS, PASSWORD, USER, RabbitServer

PATIENCE: Final = 120.0
"""Seconds without any progress after which the run has failed."""

QUIET: Final = 1.0
"""Seconds without a record after which no more are expected of a topic."""


class KillMedium(ABC):
    """A broker between two queue managers.

    @ivar outward: the address of the route to it.
    @ivar inward: that of the route from it.
    @cvar copies_are_transit: whether the route from it gets what the independent consumer sees, each copy
        with an identifier of its own.
    """

    copies_are_transit: ClassVar[bool] = False
    outward: str
    inward: str

    @abstractmethod
    def kill(self) -> None:
        """End it at any moment."""

    @abstractmethod
    def start(self) -> None:
        """Start it again on what it left behind."""

    @abstractmethod
    def copies(self, wanted: Sequence[bytes]) -> Counter[bytes]:
        """What the independent consumer finds, until all that is wanted is there."""


class RabbitMedium(KillMedium):
    """An exchange that copies each message to a queue for the independent consumer, with AMQP 0-9-1."""

    scheme: ClassVar[str] = "amqp"
    ends: ClassVar[tuple[str, str]] = ("/?exchange={}", "/?queue={}.transit")

    def __init__(self, broker: RabbitServer) -> None:
        self._broker = broker
        self._name = f"kills-{uuid4().hex[:8]}"
        address = f"{self.scheme}://{USER}:{PASSWORD}@{ADDRESS}:{broker.port}"
        self.outward, self.inward = (address + end.format(self._name) for end in self.ends)
        self._declare()

    def kill(self) -> None:
        """See L{KillMedium}."""
        self._broker.kill()

    def start(self) -> None:
        """See L{KillMedium}."""
        self._broker.start()

    def copies(self, wanted: Sequence[bytes]) -> Counter[bytes]:
        """See L{KillMedium}; the consumer is pika's."""
        import pika

        found: Counter[bytes] = Counter()
        missing = set(wanted)
        give_up = time.monotonic() + PATIENCE
        connection = pika.BlockingConnection(self._broker.parameters)
        channel = connection.channel()
        method: Any
        for method, _, body in channel.consume(f"{self._name}.copies", auto_ack=True, inactivity_timeout=0.5):
            if method is not None:
                found[body] += 1
                missing.discard(body)
            elif not missing or time.monotonic() > give_up:
                # Nothing for a while: no copy is left.
                break
        connection.close()
        return found

    def _declare(self) -> None:
        import pika

        connection = pika.BlockingConnection(self._broker.parameters)
        channel = connection.channel()
        channel.exchange_declare(self._name, "fanout", durable=True)
        for queue in (f"{self._name}.transit", f"{self._name}.copies"):
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, self._name)
        connection.close()


class Amqp10Medium(RabbitMedium):
    """The same with AMQP 1.0.

    RabbitMQ 3 cannot deliver such messages to a client of AMQP 0-9-1 after it was killed (INTERNAL_ERROR), so
    that the copies are counted, and not compared.
    """

    scheme: ClassVar[str] = "amqp10"
    ends: ClassVar[tuple[str, str]] = ("//exchange/{}", "//amq/queue/{}.transit")

    def copies(self, wanted: Sequence[bytes]) -> Counter[bytes]:
        """See L{KillMedium}."""
        import pika

        connection = pika.BlockingConnection(self._broker.parameters)
        declared = connection.channel().queue_declare(f"{self._name}.copies", passive=True)
        connection.close()
        return Counter(wanted if declared.method.message_count >= len(wanted) else ())


class KafkaMedium(KillMedium):
    """A topic of a mock cluster, which keeps its records while it is away.

    It does not isolate transactions, so that the independent consumer sees records of those that a kill has
    ended: at most one more of each message for each kill.
    """

    copies_are_transit = True

    def __init__(self) -> None:
        self._cluster = KafkaCluster()
        self._topic = f"kills-{uuid4().hex[:8]}"
        self._cluster.create_topic(self._topic)
        self._cluster.create_topic("msmq-bridge.ALPHA.out")
        self._watcher = _RecordWatcher(self._cluster.bootstrap, self._topic)
        self.outward = f"kafka://{self._cluster.bootstrap}/{self._topic}"
        self.inward = f"{self.outward}?session=2"

    def kill(self) -> None:
        """See L{KillMedium}."""
        self._cluster.set_down(True)

    def start(self) -> None:
        """See L{KillMedium}."""
        self._cluster.set_down(False)

    def copies(self, wanted: Sequence[bytes]) -> Counter[bytes]:
        """See L{KillMedium}; the consumer is of no group."""
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up and not self._watcher.has_seen(wanted):
            time.sleep(0.1)
        return self._watcher.end()


class _RecordWatcher:
    """Reads the topic from its beginning, while the run goes on: the mock keeps the newest 5 MB only."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._addresses = bootstrap
        self._topic = topic
        self._lock = threading.Lock()
        self._found: Counter[bytes] = Counter()
        self._latest = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def has_seen(self, wanted: Sequence[bytes]) -> bool:
        """Whether all that is wanted is there, and nothing more comes."""
        with self._lock:
            return self._latest < time.monotonic() - QUIET and set(wanted) <= self._found.keys()

    def end(self) -> Counter[bytes]:
        """Stop, and give what was found."""
        self._is_over.set()
        self._thread.join()
        return self._found

    def _read(self) -> None:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self._addresses, "group.id": "independent", "log_level": 0})
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        while not self._is_over.is_set():
            records = [each for each in consumer.consume(500, 0.2) if each.error() is None]
            with self._lock:
                self._found.update(each.value() or b"" for each in records)
                if records:
                    self._latest = time.monotonic()
        consumer.close()
