"""A cluster of Kafka on loopback: the mock cluster that librdkafka has for its own tests, in this process.

It speaks Kafka's protocol to every client, keeps records and the offsets of groups, and fails as set.
It does not isolate transactions: records of one that was aborted are seen by every consumer.
It has no SASL and no TLS, creates no topic for an administrator, and keeps nothing for another process.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest

NODES = 3

_TOPIC, _VALUE, _FLAGS, _HEADER = 1, 4, 7, 9
"""Kinds of arguments of C{rd_kafka_producev}."""

_COPY = 2
"""The flag by which it copies the value."""


class KafkaCluster:
    """A mock cluster of three nodes.

    @ivar bootstrap: the addresses of its nodes.
    """

    def __init__(self) -> None:
        self._library = _library()
        self._failing: set[int] = set()
        self._topics: set[str] = set()
        reason = ctypes.create_string_buffer(512)
        # A client without brokers, to which the cluster belongs.
        configuration = self._call("rd_kafka_conf_new", ctypes.c_void_p)
        value = ctypes.create_string_buffer(512)
        self._call(
            "rd_kafka_conf_set",
            ctypes.c_int,
            ctypes.c_void_p(configuration),
            b"log_level",
            b"0",
            value,
            ctypes.c_size_t(512),
        )
        self._owner = self._call(
            "rd_kafka_new", ctypes.c_void_p, 0, ctypes.c_void_p(configuration), reason, ctypes.c_size_t(512)
        )
        if not self._owner:
            raise AssertionError(reason.value.decode())
        # A signal that its thread gets, such as that of a process that has ended, would end the cluster: it
        # takes the interrupted call for an error. The thread has the mask of the one that starts it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._cluster = self._call("rd_kafka_mock_cluster_new", ctypes.c_void_p, self._pointer, NODES)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.bootstrap = self._on_cluster("rd_kafka_mock_cluster_bootstraps", ctypes.c_char_p).decode()
        self._on_cluster("rd_kafka_mock_group_initial_rebalance_delay_ms", None, 0)

    @property
    def hosts(self) -> list[tuple[str, int]]:
        """The addresses of the nodes."""
        found = [each.rpartition(":") for each in self.bootstrap.split(",")]
        return [(host, int(port)) for host, _, port in found]

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic with replicas on all nodes."""
        self._topics.add(name)
        self._on_cluster("rd_kafka_mock_topic_create", ctypes.c_int, name.encode(), partitions, NODES)

    def produce(self, topic: str, value: bytes, header: bytes) -> None:
        """Produce a record that has a header of any name, which confluent-kafka does not; blocks."""
        reason = ctypes.create_string_buffer(512)
        size = ctypes.c_size_t(512)
        configuration = ctypes.c_void_p(self._call("rd_kafka_conf_new", ctypes.c_void_p))
        bootstrap = self.bootstrap.encode()
        self._call(
            "rd_kafka_conf_set", ctypes.c_int, configuration, b"bootstrap.servers", bootstrap, reason, size
        )
        producer = ctypes.c_void_p(
            self._call("rd_kafka_new", ctypes.c_void_p, 0, configuration, reason, size)
        )
        try:
            failed = self._call(
                "rd_kafka_producev",
                ctypes.c_int,
                producer,
                *(ctypes.c_int(_TOPIC), topic.encode()),
                *(ctypes.c_int(_VALUE), value, ctypes.c_size_t(len(value))),
                *(ctypes.c_int(_FLAGS), ctypes.c_int(_COPY)),
                *(ctypes.c_int(_HEADER), header, b"", ctypes.c_ssize_t(0)),
                ctypes.c_int(0),
            )
            failed = failed or self._call("rd_kafka_flush", ctypes.c_int, producer, 30_000)
        finally:
            self._call("rd_kafka_destroy", None, producer)
        if failed:
            raise AssertionError(f"the record was not produced: error {failed}")

    def fail(self, request: int, errors: Sequence[int]) -> None:
        """Have the next requests of one kind fail.

        @param request: the number of the kind in Kafka's protocol (C{ApiKey}).
        @param errors: a code of Kafka's protocol for each request.
        """
        self._failing.add(request)
        codes = (ctypes.c_int * len(errors))(*errors)
        self._on_cluster(
            "rd_kafka_mock_push_request_errors_array",
            None,
            ctypes.c_int16(request),
            ctypes.c_size_t(len(errors)),
            codes,
        )

    def fail_at(self, topic: str, request: int, error: int, times: int) -> None:
        """Have the next requests of one kind fail at the node that leads a topic, and that leads no other.

        For a cluster of the test's own: nothing takes back what no request has met.
        """
        for name, node in ((topic, 1), *((other, 2) for other in self._topics - {topic})):
            self._on_cluster(
                "rd_kafka_mock_partition_set_leader", ctypes.c_int, name.encode(), 0, ctypes.c_int32(node)
            )
        for _ in range(times):
            self._on_cluster(
                "rd_kafka_mock_broker_push_request_error_rtts",
                ctypes.c_int,
                ctypes.c_int32(1),
                ctypes.c_int16(request),
                ctypes.c_size_t(1),
                ctypes.c_int(error),
                ctypes.c_int(0),
            )

    def succeed(self) -> None:
        """Take back what L{fail} has ordered and no request has met, or the next test would."""
        while self._failing:
            self._on_cluster("rd_kafka_mock_clear_request_errors", None, ctypes.c_int16(self._failing.pop()))

    def set_topic_error(self, name: str, error: int) -> None:
        """Have a topic fail in metadata; 0 ends it."""
        self._on_cluster("rd_kafka_mock_topic_set_error", None, name.encode(), error)

    def set_down(self, is_down: bool) -> None:
        """Have all nodes close their connections and refuse new ones, or accept them again."""
        call = "rd_kafka_mock_broker_set_down" if is_down else "rd_kafka_mock_broker_set_up"
        for node in range(1, NODES + 1):
            self._on_cluster(call, ctypes.c_int, ctypes.c_int32(node))

    @property
    def _pointer(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._owner)

    def _on_cluster(self, name: str, result: Any, *arguments: Any) -> Any:
        return self._call(name, result, ctypes.c_void_p(self._cluster), *arguments)

    def _call(self, name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(self._library, name)
        function.restype = result
        return function(*arguments)


@cache
def _library() -> ctypes.CDLL:
    """The library of the client, which confluent-kafka has loaded."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise SkipTest("confluent-kafka is not installed") from error
    package = Path(confluent_kafka.__file__).parent
    found = list(package.with_name("confluent_kafka.libs").glob("librdkafka*.so*"))
    if not found:
        raise SkipTest("confluent-kafka has no librdkafka of its own")
    return ctypes.CDLL(str(found[0]))


@cache
def shared_cluster() -> KafkaCluster:
    """One cluster for all tests of the process that leave it running; each takes topics of its own.

    @raise SkipTest: confluent-kafka is not installed.
    """
    return KafkaCluster()
