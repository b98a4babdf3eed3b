"""The topic with the record of what an outward route has committed."""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from msmq.bridge.committed_messages import CommittedMessages
from msmq.bridge_service.brokers import BrokerError
from msmq.bridge_service.kafka.client_configuration import client_configuration
from msmq.bridge_service.kafka.cluster_client import SLICE, ClusterClient, ClusterErrors
from msmq.bridge_service.kafka.errors import text_of
from msmq.bridge_service.kafka.settings import KafkaSettings
from msmq.quoting import quoted

PARTITION: Final = 0
"""The partition that has the records."""

_FIRST_STEP: Final = 16
"""Offsets before the end of the partition to begin with: markers of transactions have offsets too."""


def prepare(settings: KafkaSettings, cluster: ClusterClient, errors: ClusterErrors) -> None:
    """Create the topic, unless it exists; called in a thread.

    @raise BrokerError: it does not exist, and cannot be created.
    """
    topic = settings.state_topic
    if cluster.has(topic):
        return
    admin = AdminClient(client_configuration(settings, errors))
    wanted = NewTopic(topic, 1, -1, config={"cleanup.policy": "compact"})
    (done,) = admin.create_topics([wanted], request_timeout=settings.connect_time).values()
    end = time.monotonic() + settings.connect_time
    while not done.done() and time.monotonic() < end:
        admin.poll(SLICE)
        cluster.check_stopping()
    try:
        done.result(0)
    except (KafkaException, TimeoutError) as error:
        reason = text_of(error.args[0]) if error.args else "no answer"
        raise BrokerError(
            f"the topic '{topic}' for the state of the route is missing and cannot be created ({reason});"
            " create it with 1 partition and cleanup.policy=compact"
        ) from error


def last_state(settings: KafkaSettings, cluster: ClusterClient, errors: ClusterErrors) -> CommittedMessages:
    """The last record of the route that was committed; called in a thread, while no transaction is open.

    @raise BrokerError: it cannot be read, or belongs to another route.
    """
    consumer = Consumer(
        {
            **client_configuration(settings, errors),
            "group.id": settings.client_name,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    partition = TopicPartition(settings.state_topic, PARTITION)
    try:
        low, high = cluster.patiently(
            lambda slice_: consumer.get_watermark_offsets(partition, timeout=slice_, cached=False)
        )
        step = _FIRST_STEP
        while high > low:
            start = max(low, high - step)
            found = _last_between(consumer, settings, cluster, start)
            if found is not None or start == low:
                return CommittedMessages() if found is None else found
            step *= 4
        return CommittedMessages()
    finally:
        consumer.close()


def _last_between(
    consumer: Any, settings: KafkaSettings, cluster: ClusterClient, start: int
) -> CommittedMessages | None:
    """The last record from an offset on."""
    consumer.assign([TopicPartition(settings.state_topic, PARTITION, start)])
    last = None
    end = time.monotonic() + settings.connect_time
    while time.monotonic() < end:
        record = consumer.poll(SLICE)
        cluster.check_stopping()
        if record is None:
            continue
        error = record.error()
        if error is None:
            last = record
        elif error.code() == KafkaError._PARTITION_EOF:
            return None if last is None else _state(settings, last)
        elif not error.retriable():
            raise BrokerError(f"topic {settings.state_topic}: {text_of(error)}")
    raise BrokerError(f"topic {settings.state_topic}: its end was not reached in time")


def _state(settings: KafkaSettings, record: Any) -> CommittedMessages:
    key = (record.key() or b"").decode("utf-8", "replace")
    if key != settings.client_name:
        raise BrokerError(
            f"topic {settings.state_topic} has the state of {quoted(key)};"
            " each route needs a state_topic of its own"
        )
    try:
        return CommittedMessages.read(record.value() or b"")
    except ValueError as error:
        raise BrokerError(f"topic {settings.state_topic}: {error}") from error
