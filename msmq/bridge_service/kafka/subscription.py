"""The subscription of a consumer group to one topic; every method is called in its thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from msmq.bridge_service.brokers import IN_FLIGHT, BrokerError
from msmq.bridge_service.kafka.client_configuration import client_configuration
from msmq.bridge_service.kafka.cluster_client import ClusterErrors
from msmq.bridge_service.kafka.errors import text_of
from msmq.bridge_service.kafka.offsets import ConsumedOffsets, Partition
from msmq.bridge_service.kafka.settings import KafkaSettings

FULL: Final = 1.0
"""Seconds without room for records after which partitions are paused, and the group is served."""

FETCHED: Final = 0x4000
"""Limit on what librdkafka fetches ahead of a partition, in KiB."""

_LARGEST_BATCH: Final = 256


class Subscription:
    """Consumes as many records as there is room for.

    @param prefetch: limit on records that are delivered and not acknowledged.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        prefetch: int,
        errors: ClusterErrors,
    ) -> None:
        self._settings = settings
        self._prefetch = prefetch
        self._errors = errors
        self._offsets = ConsumedOffsets()
        self._to_commit: dict[Partition, int] = {}
        self._full_since: float | None = None
        self._is_paused = False
        self._consumer: Any = Consumer(
            {
                **client_configuration(settings, errors),
                "group.id": settings.group,
                # A bridge that was killed has its partitions again at once, and not after a time-out.
                "group.instance.id": settings.client_name,
                "session.timeout.ms": int(settings.session_time * 1000),
                "heartbeat.interval.ms": int(settings.session_time * 1000 / 10),
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "queued.max.messages.kbytes": FETCHED,
            }
        )
        self._consumer.subscribe([topic], on_revoke=self._revoked, on_lost=self._lost)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another record."""
        offsets = self._offsets
        return offsets.outstanding >= self._prefetch or offsets.outstanding_bytes >= IN_FLIGHT

    def next_records(self, wait: float) -> Sequence[tuple[int, Any]]:
        """Records with their tags, none after a time.

        @raise BrokerError: nothing can be consumed any more.
        """
        self._errors.check()
        if self.is_full:
            self._serve()
            return ()
        room = self._prefetch - self._offsets.outstanding
        if self._is_paused:
            self._consumer.resume(self._consumer.assignment())
            self._is_paused = False
        self._full_since = None
        found = self._consumer.consume(min(room, _LARGEST_BATCH), wait)
        records = []
        for record in found:
            error = record.error()
            if error is None:
                partition, size = (record.topic(), record.partition()), len(record.value() or b"")
                tag = self._offsets.deliver(partition, record.offset(), size)
                records.append((tag, record))
            elif error.code() != KafkaError._PARTITION_EOF and not error.retriable():
                raise BrokerError(text_of(error))
        return records

    def acknowledge(self, tags: Iterable[int]) -> None:
        """Commit the offsets of records that are stored elsewhere."""
        self._to_commit |= self._offsets.acknowledge(tags)
        self._commit()

    def close(self) -> None:
        """Leave the group, if the cluster can be reached: without it that takes long."""
        try:
            self._errors.check()
        except BrokerError:
            self._consumer = None
            return
        self._commit()
        self._consumer.close()

    def _serve(self) -> None:
        """Serve the group while there is no room: a consumer that does not poll is excluded."""
        now = time.monotonic()
        if self._full_since is None:
            self._full_since = now
        elif now - self._full_since > FULL:
            if not self._is_paused:
                self._is_paused = True
                self._consumer.pause(self._consumer.assignment())
            record = self._consumer.poll(0)
            if record is not None and record.error() is None:
                # A partition that was assigned meanwhile; the record comes again after the pause.
                partition = TopicPartition(record.topic(), record.partition(), record.offset())
                self._consumer.pause([partition])
                self._consumer.seek(partition)

    def _commit(self) -> None:
        if not self._to_commit:
            return
        try:
            self._consumer.commit(offsets=_positions(self._to_commit), asynchronous=False)
        except KafkaException as error:
            if error.args[0].retriable():
                # Committed with the next ones; until then the records may be delivered again.
                return
            # The partitions belong to another consumer, which gets the records again.
        self._to_commit.clear()

    def _revoked(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        self._commit()
        self._lost(consumer, partitions)

    def _lost(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        lost = [(each.topic, each.partition) for each in partitions]
        self._offsets.lose(lost)
        for partition in lost:
            self._to_commit.pop(partition, None)


def first_records(
    settings: KafkaSettings, topic: str, count: int, errors: ClusterErrors, patiently: Callable[..., Any]
) -> list[Any]:
    """The records that the group would consume first; its position is not changed.

    @raise BrokerError: the topic cannot be read.
    """
    consumer = Consumer(
        {
            **client_configuration(settings, errors),
            "group.id": settings.group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    try:
        found = patiently(lambda slice_: consumer.list_topics(topic, timeout=slice_)).topics[topic]
        partitions = [TopicPartition(topic, number) for number in found.partitions]
        starts = patiently(lambda slice_: consumer.committed(partitions, timeout=slice_))
        consumer.assign(starts)
        records: list[Any] = []
        ended: set[int] = set()
        end = time.monotonic() + settings.connect_time
        while len(records) < count and len(ended) < len(partitions) and time.monotonic() < end:
            record = consumer.poll(0.1)
            errors.check()
            if record is None:
                continue
            error: Any = record.error()
            if error is None:
                records.append(record)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(record.partition() or 0)
            elif not error.retriable():
                raise BrokerError(text_of(error))
        return records
    finally:
        consumer.close()


def _positions(offsets: Mapping[Partition, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
