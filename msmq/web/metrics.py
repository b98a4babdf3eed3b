"""The table of metrics: every name that C{/metrics} exports, its labels, and where its value comes from.

The names and labels are a stable interface to dashboards and alerts: none is renamed.
No label has a value that a peer chooses; L{Measurements.outgoing} says how outgoing queues are named.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import attrs

from msmq.interfaces.archive import ArchiveSummary
from msmq.interfaces.bridges import BridgeRouteSummary
from msmq.interfaces.drains import DrainSummary
from msmq.interfaces.shadows import ShadowSummary
from msmq.manager.administration.measurements import Measurements, OutgoingMeasurement, QueueMeasurement
from msmq.session.packet_counts import TrafficCounts

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Samples: values, each with its label values."""


class MetricKind(enum.Enum):
    """The Prometheus type of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@attrs.frozen
class Metric:
    """One name of the table.

    @ivar help: what it measures, with the unit where the name does not say it.
    """

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.GAUGE, text, labels)


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.COUNTER, text, labels)


COMMIT_SECONDS: Final = Metric(
    "msmq_store_commit_seconds",
    MetricKind.HISTOGRAM,
    "Duration of a commit of the message store, from the request to stable storage.",
)
COMMIT_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0)

TURN_SECONDS: Final = Metric(
    "msmq_reactor_turn_seconds",
    MetricKind.HISTOGRAM,
    "Delay of a call that is due every 0.1 s: how long the server was busy with other work.",
)
TURN_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

INFO: Final = _gauge(
    "msmq_info", "Version and identity of the queue manager; always 1.", "version", "identifier", "name"
)

STANDBY: Final = (
    _gauge("msmq_standby", "1 while this server waits for the active one, 0 on the active one."),
    _gauge(
        "msmq_standby_holder_silent_seconds",
        "Time for which the active server was not seen at work.",
    ),
)
"""The metrics of a standby; the active server exports 0."""

QUEUE_METRICS: Final[Mapping[Metric, Callable[[QueueMeasurement, float], float | None]]] = {
    _gauge("msmq_queue_messages", "Messages in a local queue, system queues included.", "queue"): (
        lambda queue, now: queue.messages
    ),
    _gauge("msmq_queue_bytes", "Size of the messages in a local queue.", "queue"): (
        lambda queue, now: queue.bytes
    ),
    _gauge(
        "msmq_queue_oldest_message_age_seconds",
        "Age of the oldest message that can be received from a local queue; 0 without one.",
        "queue",
    ): lambda queue, now: 0.0 if queue.oldest is None else max(0.0, now - queue.oldest),
    _gauge("msmq_queue_subqueue_messages", "Messages in all subqueues of a local queue.", "queue"): (
        lambda queue, now: queue.subqueue_messages
    ),
    _gauge("msmq_queue_journal_messages", "Messages in the journal of a local queue.", "queue"): (
        lambda queue, now: queue.journal_messages
    ),
    _gauge("msmq_queue_journal_bytes", "Size of the messages in the journal of a local queue.", "queue"): (
        lambda queue, now: queue.journal_bytes
    ),
    _counter(
        "msmq_queue_messages_received_total",
        "Messages that were received from a local queue, and so removed.",
        "queue",
    ): lambda queue, now: queue.received,
    _counter("msmq_queue_messages_sent_total", "Messages that came into a local queue.", "queue"): (
        lambda queue, now: queue.arrived
    ),
    _counter("msmq_queue_messages_enqueued_total", "Messages that came into a local queue.", "queue"): (
        lambda queue, now: queue.arrived
    ),
    _counter(
        "msmq_queue_messages_dequeued_total",
        "Messages that were received from a local queue, and so removed.",
        "queue",
    ): lambda queue, now: queue.received,
    _counter(
        "msmq_poison_messages_total",
        "Messages that were moved to the subqueue poison of a local queue after aborts.",
        "queue",
    ): lambda queue, now: queue.poisoned,
    _gauge(
        "msmq_quota_used_ratio", "Used part of the quota of a local queue; absent without a quota.", "queue"
    ): lambda queue, now: queue.quota_used,
    _gauge(
        "msmq_queue_paused",
        "1 while an operator has paused a local queue for its readers, otherwise 0.",
        "queue",
    ): lambda queue, now: queue.is_paused,
}
"""One sample for each local queue; C{None} leaves a queue out."""

WINDOWS_METRICS: Final[Mapping[Metric, Callable[[QueueMeasurement], float]]] = {
    _gauge("windows_msmq_messages_in_queue", "Messages in a queue, as windows_exporter names it.", "name"): (
        lambda queue: queue.messages
    ),
    _gauge("windows_msmq_bytes_in_queue", "Size of a queue, as windows_exporter names it.", "name"): (
        lambda queue: queue.bytes
    ),
    _gauge(
        "windows_msmq_messages_in_journal_queue",
        "Messages in the journal of a queue, as windows_exporter names it.",
        "name",
    ): lambda queue: queue.journal_messages,
    _gauge(
        "windows_msmq_bytes_in_journal_queue",
        "Size of the journal of a queue, as windows_exporter names it.",
        "name",
    ): lambda queue: queue.journal_bytes,
}
"""The same metrics under the names of windows_exporter, if C{[web] windows_exporter_names} is set."""

BRIDGE_METRICS: Final[Mapping[Metric, Callable[[BridgeRouteSummary], float]]] = {
    _counter(
        "msmq_bridge_forwarded_total", "Messages of a route that its destination has confirmed.", "route"
    ): lambda route: route.forwarded,
    _counter(
        "msmq_bridge_dead_letters_total", "Messages of a route that could not be delivered.", "route"
    ): lambda route: route.dead_letters,
    _counter(
        "msmq_bridge_retries_total",
        "Messages of a route that were sent again, after a refusal or a lost connection.",
        "route",
    ): lambda route: route.retries,
    _gauge(
        "msmq_bridge_in_flight",
        "Messages of a route that are taken from its source and not removed from it yet.",
        "route",
    ): lambda route: route.in_flight,
    _gauge(
        "msmq_bridge_running", "1 while a route is connected and forwards messages, otherwise 0.", "route"
    ): lambda route: route.condition == "running",
}
"""One sample for each route to another broker."""

ARCHIVE_METRICS: Final[Mapping[Metric, Callable[[ArchiveSummary], float | None]]] = {
    _gauge("msmq_archive_running", "1 while the archive is written, otherwise 0."): (
        lambda archive: archive.condition in ("starting", "running")
    ),
    _gauge(
        "msmq_archive_lag_seconds", "Time since which stored entries may be missing from the archive."
    ): lambda archive: archive.lag,
    _gauge("msmq_archive_late", "1 while the lag exceeds [archive] late, otherwise 0."): (
        lambda archive: archive.is_late
    ),
    _gauge("msmq_archive_behind", "Log entries and events that were not archived at the latest pass."): (
        lambda archive: archive.behind
    ),
    _counter("msmq_archive_rows_total", "Rows that were archived."): lambda archive: archive.archived,
    _gauge("msmq_archive_rows", "Rows in the archive."): lambda archive: archive.rows,
    _gauge("msmq_archive_files", "Files of the archive."): lambda archive: archive.files,
    _gauge("msmq_archive_bytes", "Size of the files of the archive."): lambda archive: archive.bytes,
    _gauge("msmq_archive_missing", "Entries that were trimmed before they were archived."): (
        lambda archive: archive.missing
    ),
    _counter(
        "msmq_archive_missing_total",
        "Entries that were trimmed before they were archived; absent while the archive is not written.",
        # The number is 0 until the archive has been read, and would seem to rise after each restart.
    ): lambda archive: archive.missing if archive.condition == "running" else None,
    _gauge("msmq_archive_free_bytes", "Free space in the file system of the archive."): (
        lambda archive: archive.free_bytes
    ),
    _counter("msmq_archive_restarts_total", "Restarts of the process that archives."): (
        lambda archive: archive.restarts
    ),
}
"""Metrics of the archive; all are absent without one."""

BRIDGE_INFO: Final = _gauge(
    "msmq_bridge_info",
    "Version and name of a bridge that is a process of its own; always 1.",
    "version",
    "name",
)

DRAIN_METRICS: Final[Mapping[Metric, Callable[[DrainSummary], float]]] = {
    _counter(
        "msmq_drain_moved_total", "Messages that have left a queue for the destination of its drain.", "queue"
    ): lambda drain: drain.moved,
    _gauge("msmq_drain_remaining", "Messages in a queue that is drained.", "queue"): (
        lambda drain: drain.remaining
    ),
    _gauge("msmq_drain_running", "1 while the drain of a queue moves messages, 0 while it waits.", "queue"): (
        lambda drain: drain.condition == "running"
    ),
}
"""One sample for each queue that is drained."""

SHADOW_METRICS: Final[Mapping[Metric, Callable[[ShadowSummary], float]]] = {
    _counter(
        "msmq_shadow_copied_total", "Messages of a queue that were copied to a second consumer.", "queue"
    ): lambda shadow: shadow.copied_since_start,
    _counter(
        "msmq_shadow_skipped_total",
        "Messages of a queue with a shadow that could not be copied; the event log has the reasons.",
        "queue",
    ): lambda shadow: shadow.skipped_since_start,
    _counter(
        "msmq_shadow_gaps_total",
        "How often messages of a queue with a shadow were trimmed before they were copied.",
        "queue",
    ): lambda shadow: shadow.gaps_since_start,
    _gauge("msmq_shadow_behind", "Messages of a queue with a shadow that are not copied yet.", "queue"): (
        lambda shadow: shadow.behind
    ),
    _gauge("msmq_shadow_running", "1 while the shadow of a queue copies, 0 while it waits.", "queue"): (
        lambda shadow: shadow.condition == "running"
    ),
}
"""One sample for each queue with a shadow."""

OUTGOING_METRICS: Final[Mapping[Metric, Callable[[OutgoingMeasurement], float]]] = {
    _gauge("msmq_outgoing_queue_messages", "Messages in an outgoing queue.", "queue", "state"): (
        lambda queue: queue.messages
    ),
    _gauge("msmq_outgoing_queue_bytes", "Size of the messages in an outgoing queue.", "queue", "state"): (
        lambda queue: queue.bytes
    ),
    _gauge(
        "msmq_outgoing_queue_unacknowledged",
        "Messages of an outgoing queue that were sent and are not acknowledged yet.",
        "queue",
        "state",
    ): lambda queue: queue.unacknowledged,
    _gauge(
        "msmq_outgoing_queue_awaiting_final_acks",
        "Transactional messages of an outgoing queue, with a journal copy or dead letter to make, that have "
        "arrived and whose receipt is not reported.",
        "queue",
        "state",
    ): lambda queue: queue.awaiting_final_acks,
}
"""One sample for each L{OutgoingMeasurement}."""


def _age(since: float | None, now: float) -> float:
    return 0.0 if since is None else max(0.0, now - since)


def _plain(value: float) -> Samples:
    return [((), value)]


def _by(counts: Mapping[str, float]) -> Samples:
    return [((label,), value) for label, value in sorted(counts.items())]


def _session_messages(packets: TrafficCounts) -> Samples:
    for direction, total, recoverable in (
        ("received", packets.received.user_message, packets.recoverable_received),
        ("sent", packets.sent.user_message, packets.recoverable_sent),
    ):
        yield (direction, "express"), total - recoverable
        yield (direction, "recoverable"), recoverable


def _quotas(measurements: Measurements) -> Iterator[tuple[tuple[str, ...], float]]:
    storage = measurements.storage()
    if storage.quota is not None:
        yield ("queues",), storage.used / storage.quota if storage.quota else 1.0
    if storage.journal_quota:
        yield ("journals",), storage.journal_used / storage.journal_quota


def _directory(
    measurements: Measurements, value: Callable[[float, float | None, float | None], float | None]
) -> Samples:
    directory = measurements.directory()
    if directory is None:
        return []
    found = value(measurements.now(), directory.condition.since, directory.read)
    return [] if found is None else _plain(found)


def _directory_reached(measurements: Measurements) -> Samples:
    directory = measurements.directory()
    if directory is None:
        return []
    return [((directory.kind, directory.condition.source), float(directory.condition.is_reached))]


SERVER_METRICS: Final[Mapping[Metric, Callable[[Measurements], Samples]]] = {
    _gauge(
        "msmq_awaiting_final_acks",
        "Transactional messages to other queue managers, with a journal copy or dead letter to make, that "
        "have arrived and whose receipt is not reported.",
    ): lambda found: _plain(found.awaiting_final_acks().count),
    _gauge(
        "msmq_awaiting_final_acks_oldest_age_seconds",
        "Time since the oldest message of msmq_awaiting_final_acks was sent; 0 without one.",
    ): lambda found: _plain(_age(found.awaiting_final_acks().since, found.now())),
    _gauge("msmq_dead_letters", "Messages in a dead-letter queue.", "queue"): (
        lambda found: _by(found.dead_letters())
    ),
    _counter("msmq_dead_letters_total", "Messages that came into a dead-letter queue.", "class"): (
        lambda found: _by(found.dead_letter_counts())
    ),
    _counter("msmq_messages_refused_total", "Messages of peers that were not accepted.", "reason"): (
        lambda found: _by(found.refused_messages())
    ),
    _counter("msmq_messages_expired_total", "Messages that left a queue because they expired.", "class"): (
        lambda found: _by(found.expired())
    ),
    _counter(
        "msmq_copies_dropped_total", "Journal copies and dead letters that were not kept for lack of space."
    ): lambda found: _plain(found.copies_dropped),
    _gauge("msmq_transactions", "Open transactions."): lambda found: _plain(found.transactions),
    _gauge("msmq_sessions", "Sessions with other queue managers.", "direction", "state"): (
        lambda found: sorted(found.sessions().items())
    ),
    _counter("msmq_sessions_refused_total", "Connections that did not become sessions.", "reason"): (
        lambda found: _by(found.refused_sessions())
    ),
    _gauge(
        "msmq_connections", "Connections with other queue managers, attempts to dial included.", "direction"
    ): (lambda found: _by({"incoming": found.descriptors.incoming, "outgoing": found.descriptors.outgoing})),
    _gauge(
        "msmq_connections_limit", "Limit of msmq_connections by the descriptors of the process.", "direction"
    ): (
        lambda found: _by(
            {"incoming": found.descriptors.incoming_limit, "outgoing": found.descriptors.outgoing_limit}
        )
    ),
    _counter("msmq_sessions_evicted_total", "Sessions that were closed for lack of descriptors."): (
        lambda found: _plain(found.descriptors.evicted)
    ),
    _counter(
        "msmq_session_messages_total",
        "Messages that were sent and received on sessions, resent ones included.",
        "direction",
        "kind",
    ): lambda found: _session_messages(found.packets),
    _counter("msmq_session_bytes_total", "Bytes that were sent and received on sessions.", "direction"): (
        lambda found: _by({"received": found.packets.bytes_received, "sent": found.packets.bytes_sent})
    ),
    _counter("msmq_acknowledgements_total", "Acknowledgements that were sent.", "kind"): (
        lambda found: _by(found.acknowledgements())
    ),
    _gauge("msmq_quota_total_used_ratio", "Used part of the quotas of the queue manager.", "quota"): _quotas,
    _gauge("msmq_express_memory_bytes", "Express messages that only memory has."): (
        lambda found: _plain(found.storage().express_memory)
    ),
    _gauge("msmq_store_throttled", "1 while the store is full and no message is accepted, otherwise 0."): (
        lambda found: _plain(found.storage().throttled)
    ),
    _gauge("msmq_online", "1 while other queue managers can open sessions, otherwise 0."): (
        lambda found: _plain(not found.is_offline)
    ),
    _gauge(
        "msmq_clone_suspected",
        "1 while nothing is sent to peers because the data directory may be a copy, otherwise 0.",
    ): lambda found: _plain(bool(found.clone_suspicion)),
    _counter("msmq_events_total", "Events for the event log.", "event"): lambda found: _by(found.events()),
    _counter("msmq_events_dropped_total", "Events that were not stored in the event log."): (
        lambda found: _plain(found.events_dropped)
    ),
    _gauge(
        "msmq_directory_reached",
        "1 if the latest request reached the directory, otherwise 0; absent without a directory.",
        "kind",
        "source",
    ): _directory_reached,
    _gauge(
        "msmq_directory_state_seconds",
        "Time since the directory was reached, or lost, as msmq_directory_reached says.",
    ): lambda found: _directory(found, lambda now, since, read: None if since is None else now - since),
    _gauge("msmq_directory_data_age_seconds", "Age of the data of the directory that is in use."): (
        lambda found: _directory(found, lambda now, since, read: None if read is None else now - read)
    ),
    _gauge(
        "msmq_directory_differences",
        "Changes in the directory that are not applied because they weaken protection.",
    ): lambda found: [] if found.directory() is None else _plain(len(found.directory_differences())),
}
"""Metrics with one sample for each server; a metric without samples is absent."""

RELOADS: Final = _counter("msmq_config_reloads_total", "Reloads of the configuration.", "result")

CERTIFICATES: Final = _gauge(
    "msmq_certificate_remaining_seconds",
    "Time until the TLS certificate of an endpoint expires; negative after that.",
    "endpoint",
)

TOKENS: Final = _gauge(
    "msmq_token_remaining_seconds",
    "Time until the token of a caller expires; negative after that.",
    "token",
)

STORE_COMMITS: Final = _counter("msmq_store_commits_total", "Commits of the message store that succeeded.")
STORE_FAILURES: Final = _counter("msmq_store_failures_total", "Commits of the message store that failed.")
STORE_BYTES: Final = _gauge("msmq_store_bytes", "Size of the files of the message store.")
STORE_FREE_BYTES: Final = _gauge(
    "msmq_store_free_bytes", "Free space in the file system of the message store."
)

STORE_CAPACITY_BYTES: Final = _gauge(
    "msmq_store_capacity_bytes", "Size of the file system of the message store."
)

STORE_VERIFIED: Final = _counter(
    "msmq_store_verified_bytes_total", "Bytes of packets that were verified in the background."
)
STORE_DAMAGED: Final = _counter("msmq_store_damaged_total", "Packets and other records found damaged.")

STORE_METRICS: Final = (
    STORE_COMMITS,
    STORE_FAILURES,
    STORE_BYTES,
    STORE_FREE_BYTES,
    STORE_CAPACITY_BYTES,
    STORE_VERIFIED,
    STORE_DAMAGED,
)
"""Metrics of the store.

The size of the files, and the free space and the size of their file system, are absent if the store is not
in files, the last two if it does not verify itself in the background.
"""

ALL_METRICS: Final = (
    INFO,
    *STANDBY,
    *QUEUE_METRICS,
    *OUTGOING_METRICS,
    *SERVER_METRICS,
    RELOADS,
    CERTIFICATES,
    TOKENS,
    *BRIDGE_METRICS,
    *ARCHIVE_METRICS,
    *DRAIN_METRICS,
    *SHADOW_METRICS,
    *STORE_METRICS,
    COMMIT_SECONDS,
    TURN_SECONDS,
    *WINDOWS_METRICS,
)
"""The whole table, in the order of the exposition."""

FORMER_NAMES: Final = frozenset(
    {"msmq_queue_messages_sent_total", "msmq_queue_messages_received_total", "msmq_archive_missing"}
)
"""Metrics of which the table has the same value under a better name."""
